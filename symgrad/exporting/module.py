"""A whole module for torch: imports, docstrings, the class or the functions, and the check of shapes.

Comes in: `Parts` and what is `Told` about them. Goes out: source.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from symgrad.backward.code import IMPORTS, function_name, quoted
from symgrad.exporting.parts import Parts, as_functions, free, indented, misfit, one_shape
from symgrad.exporting.torch_text import function_class, in_torch
from symgrad.ops.lookup import plays
from symgrad.program import Program, Role, Tensor
from symgrad.shapes import Size

WIDTH = 100
RANK = "{}.dim()"


@dataclass(frozen=True)
class Told:
    """What the source is about: its ``title`` and ``name``, the ``inputs`` as tensors, and what the docstring says."""

    title: str
    name: str
    inputs: tuple[Tensor, ...]
    required: tuple[Size, ...]
    formulas: tuple[str, ...]
    provisos: tuple[str, ...]
    pointwise: bool = False
    casts: Mapping[str, str] = field(default_factory=dict)


def name_for(wish: str | None, program: Program, parts: Parts) -> str:
    """What the function is called: as wished, else by the last step; raises `InputError` for what is no name."""
    if wish is not None:
        return function_name(wish)
    called = [step.called for step in program.steps if not plays(step.op, Role.COPIES)]
    own = called[0] if len(called) == 1 and re.fullmatch(r"[a-z][a-z0-9_]*", called[0]) else "formula"
    return free(f"{own}_" if keyword.iskeyword(own) else own, {*parts.names, "torch", "math", "np"})


def docstring(told: Told, first: str = "", indent: int = 4) -> list[str]:
    """The docstring, in lines: the title, the formulas, where they do not hold."""
    title = " ".join(told.title.split()) or told.name
    head = textwrap.wrap(f"{first}{title}", WIDTH - indent) if title else [told.name]
    lines = [head[0].replace("\\", "/")]
    lines += head[1:]
    if told.formulas:
        lines += ["", *(f"    {text}" for text in told.formulas)]
    if told.provisos:
        lines += ["", *(line for text in told.provisos for line in textwrap.wrap(text, WIDTH - indent))]
    return quoted(lines)


def checked(told: Told, rank: str) -> list[str]:
    """The check of shapes, as statements."""
    if told.pointwise:
        condition, words = one_shape([t.name for t in told.inputs])
    else:
        condition, words = misfit(told.inputs, told.required, rank)
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


def of_torch(parts: Parts, told: Told, style: str, forward_only: bool) -> str:
    """The module for torch."""
    if forward_only or style == "functions":
        return whole_module(told, in_functions(as_functions(parts, told.name, in_torch), told, forward_only), IMPORTS)
    kind = class_name(told.name, parts)
    arguments = ", ".join(parts.inputs)
    several = len(parts.outputs)
    body = [*docstring(told), "", *function_class(parts, told.name)]
    given = [f"{name}.to({told.casts[name]})" if name in told.casts else name for name in parts.inputs]
    call = f"{kind}.apply({', '.join(given)})"
    extra = any("mark_non_differentiable" in line for line in body)
    cut = "" if not extra else "[0]" if several == 1 else f"[:{several}]"
    wrapper = [*checked(told, RANK), f"return {call}{cut}"]
    words = [f'"""{told.name} by `{kind}`: differentiable twice."""']
    first = [f"class {kind}(torch.autograd.Function):", *indented(body)]
    second = [f"def {told.name}({arguments}):", *indented([*words, *wrapper])]
    return whole_module(told, [*first, "", "", *second], IMPORTS)


def in_functions(
    functions: Mapping[str, Sequence[str]], told: Told, forward_only: bool, rank: str = RANK
) -> list[str]:  # fmt: skip
    """Functions below one another, or the first alone, which has the check and the docstring."""
    lines: list[str] = []
    for number, (head, body) in enumerate([*functions.items()][: 1 if forward_only else None]):
        words = docstring(told) if number == 0 else [f'"""vᵀJ of `{told.name}`: a gradient for each input."""']
        check = checked(told, rank) if number == 0 else []
        check += [f"{name} = {name}.to({cast})" for name, cast in told.casts.items()] if rank == RANK else []
        lines += [*(["", ""] if number else []), head, *indented([*words, *check, *body])]
    return lines


def whole_module(told: Told, lines: Sequence[str], imports: Mapping[str, str]) -> str:
    """Imports, then the lines."""
    text = "\n".join(line for line in lines if not line.lstrip().startswith('"""'))
    needed = [line for name, line in imports.items() if re.search(rf"(?<![\w.]){re.escape(name)}", text)]
    head = f'"""{told.name}: the forward pass and vᵀJ, derived by symgrad."""'
    standard = [line for line in needed if line == "import math"]
    others = [line for line in needed if line != "import math"]
    between = [""] if standard and others else []
    every = [*standard, *between, *others]
    return "\n".join([head, *([""] if every else []), *every, "", "", *lines]) + "\n"


def class_name(name: str, parts: Parts) -> str:
    """``layer_norm`` → ``LayerNorm``."""
    found = "".join(part[:1].upper() + part[1:] for part in name.split("_")) or "Function"
    found = found if found.isidentifier() and found != name else f"{found}Function"
    return free(found, {*parts.names, name})
