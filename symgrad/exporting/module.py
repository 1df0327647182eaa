"""A whole module for torch: imports, docstrings, the class or the functions, and the check of shapes.

Comes in: an `ExportSource`. Goes out: source.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from symgrad.backward import Backward
from symgrad.backward.code import IMPORTS, check_function_name, quote_docstring
from symgrad.exporting.parts import (
    STEP,
    Passes,
    find_free_name,
    indent,
    split_backward,
    write_misfit,
    write_one_shape_misfit,
    write_passes,
)
from symgrad.exporting.torch_text import to_torch, write_function_class
from symgrad.ops.lookup import has_role
from symgrad.program import Program, Role, Tensor

WIDTH = 100
RANK = "{}.dim()"


@dataclass(frozen=True)
class ExportSource:
    """What is exported: the program, its lines, what the docstring says, and the ``name`` of the function.

    ``pointwise``: with any number of axes, all inputs in one shape. ``cast`` is what torch computes in, whatever floats
    it is given: "torch.float64" of a text with ``x.double()``. ``remarks`` are sentences about the text.
    """

    title: str
    program: Program
    lines: Backward
    formulas: tuple[str, ...]
    pointwise: bool = False
    cast: str = ""
    name: str = ""
    remarks: tuple[str, ...] = ()

    @cached_property
    def parts(self) -> Passes:
        """The lines as statements; raises `UnsupportedError` where one has no code."""
        return split_backward(self.lines)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The inputs under their names in the statements."""
        pairs = zip(self.program.inputs, self.parts.inputs, strict=True)
        return tuple(replace(tensor, name=own) for tensor, own in pairs)

    @property
    def casts(self) -> Mapping[str, str]:
        """The inputs that are cast first, and to what."""
        return dict.fromkeys(self.parts.gradients, self.cast) if self.cast else {}


def choose_function_name(wish: str | None, program: Program, parts: Passes) -> str:
    """What the function is called: as wished, else by the last step; raises `InputError` for what is no name."""
    if wish is not None:
        return check_function_name(wish)
    called = [step.called for step in program.steps if not has_role(step.op, Role.COPIES)]
    own = called[0] if len(called) == 1 and re.fullmatch(r"[a-z][a-z0-9_]*", called[0]) else "formula"
    return find_free_name(f"{own}_" if keyword.iskeyword(own) else own, {*parts.names, "torch", "math", "np"})


def describe_module(told: ExportSource) -> list[str]:
    """The docstring, in lines: the title, the formulas, where they do not hold."""
    written = [line.rstrip() for line in told.title.strip().splitlines() if line.strip()]
    title = " ".join(told.title.split()) if len(written) < 2 else ""
    first, *more = textwrap.wrap(title or told.name, WIDTH - len(STEP))
    lines = [first.replace("\\", "/"), *more]
    if not title and written:  # a text of several lines
        lines += ["", *(f"    {line}" for line in written)]
    if told.formulas:
        lines += ["", *(f"    {text}" for text in told.formulas)]
    notes = (*told.lines.provisos, *(f"{remark}." for remark in told.remarks))
    if notes:
        lines += ["", *(line for text in notes for line in textwrap.wrap(text, WIDTH - len(STEP)))]
    return quote_docstring(lines)


def check_shapes(told: ExportSource, rank: str) -> list[str]:
    """The check of shapes, as statements."""
    if told.pointwise:
        condition, words = write_one_shape_misfit([t.name for t in told.inputs])
    else:
        condition, words = write_misfit(told.inputs, told.program.required, rank)
    if not condition:
        return []
    first = f"if {condition}:"
    if len(first) > WIDTH:
        parts = condition.split(" or ")
        first = "\n".join(["if (", f"    {parts[0]}", *(f"    or {part}" for part in parts[1:]), "):"])
    said = f"{told.name} takes {words}".replace('"', "'")
    texts = textwrap.wrap(said, WIDTH - 16, drop_whitespace=False)
    body = [f'    raise ValueError("{said}")']
    if len(texts) > 1:
        body = ["    raise ValueError(", *(f'        "{text}"' for text in texts), "    )"]
    return [*first.splitlines(), *body]


def write_torch_module(told: ExportSource, style: str, forward_only: bool) -> str:
    """The module for torch."""
    parts = told.parts
    if forward_only or style == "functions":
        return add_imports(told, join_functions(write_passes(parts, told.name, to_torch), told, forward_only), IMPORTS)
    kind = name_class(told.name, parts)
    arguments = ", ".join(parts.inputs)
    several = len(parts.outputs)
    body = [*describe_module(told), "", *write_function_class(parts)]
    given = [f"{name}.to({told.casts[name]})" if name in told.casts else name for name in parts.inputs]
    call = f"{kind}.apply({', '.join(given)})"
    extra = any("mark_non_differentiable" in line for line in body)
    cut = "" if not extra else "[0]" if several == 1 else f"[:{several}]"
    wrapper = [*check_shapes(told, RANK), f"return {call}{cut}"]
    words = [f'"""{told.name} by `{kind}`: differentiable twice."""']
    first = [f"class {kind}(torch.autograd.Function):", *indent(body)]
    second = [f"def {told.name}({arguments}):", *indent([*words, *wrapper])]
    return add_imports(told, [*first, "", "", *second], IMPORTS)


def join_functions(
    functions: Mapping[str, Sequence[str]], told: ExportSource, forward_only: bool, rank: str = RANK
) -> list[str]:  # fmt: skip
    """Functions below one another, or the first alone, which has the check and the docstring."""
    lines: list[str] = []
    for number, (head, body) in enumerate([*functions.items()][: 1 if forward_only else None]):
        words = describe_module(told) if number == 0 else [f'"""vᵀJ of `{told.name}`: a gradient for each input."""']
        check = check_shapes(told, rank) if number == 0 else []
        check += [f"{name} = {name}.to({cast})" for name, cast in told.casts.items()] if rank == RANK else []
        lines += [*(["", ""] if number else []), head, *indent([*words, *check, *body])]
    return lines


def add_imports(told: ExportSource, lines: Sequence[str], imports: Mapping[str, str]) -> str:
    """Imports, then the lines."""
    text = "\n".join(line for line in lines if not line.lstrip().startswith('"""'))
    needed = [line for name, line in imports.items() if re.search(rf"(?<![\w.]){re.escape(name)}", text)]
    head = f'"""{told.name}: the forward pass and vᵀJ, derived by symgrad."""'
    standard = [line for line in needed if line == "import math"]
    others = [line for line in needed if line != "import math"]
    between = [""] if standard and others else []
    every = [*standard, *between, *others]
    return "\n".join([head, *([""] if every else []), *every, "", "", *lines]) + "\n"


def name_class(name: str, parts: Passes) -> str:
    """``layer_norm`` → ``LayerNorm``."""
    found = "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "Function"
    found = found if found.isidentifier() and found != name else f"{found}Function"
    return find_free_name(found, {*parts.names, name})
