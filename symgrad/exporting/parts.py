"""The forward and the backward pass of a function as statements, before they are written for a library.

Comes in: a `Backward`. Goes out: `Passes`: statements as syntax trees, in the names of the page, and as lines of
source, of which one that is too long is broken at its outermost operator or comma. For the shapes of the inputs, whose
sizes are symbols where any number will do, there is a check: the condition under which they do not fit, and its words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from symgrad.backward import Backward, Line
from symgrad.backward.code import compare_conditions
from symgrad.closed_form.number_code import NoForm, describe_least_sizes, write_size
from symgrad.errors import UnsupportedError
from symgrad.language.python_text import to_code, write_python
from symgrad.language.syntax_tree import Attribute
from symgrad.language.trees import replace_names, rewrite_tree, tensor_names
from symgrad.notation.tree import Name, SyntaxNode
from symgrad.program import Tensor
from symgrad.shapes import Size

WIDTH = 96
"""Characters after which a line is broken, indentation not counted."""
STEP = "    "


def write_statement(statement: Assignment, after: str = "") -> list[str]:
    """``target = value`` and what comes ``after`` it, in as many lines as it takes."""
    value = write_python(statement.value)
    text = f"{statement.target} = {value}{after}"
    if len(text) <= WIDTH:
        return [text]
    return [f"{statement.target} = (", *indent([*break_lines(value), *([after.strip()] if after else [])]), ")"]


LOOSEST_FIRST = (r"[|&]", r"[<>=!]=|[<>]", r"[+-]", r"//?|[*@%]", r"\*\*")
"""Operators by how tightly they bind."""


def break_lines(text: str) -> list[str]:
    """An expression in lines, to stand between brackets: cut at its loosest operators, else in its last brackets."""
    if len(text) <= WIDTH:
        return [text]
    for signs in LOOSEST_FIRST:
        first, *others = split_outside_brackets(text, rf" ({signs}) ")
        if others:
            broken = [(sign, break_lines(operand)) for sign, operand in (other.split(maxsplit=1) for other in others)]
            return [*break_lines(first), *(line for sign, (one, *more) in broken for line in (f"{sign} {one}", *more))]
    last = split_outside_brackets(text, r"[(\[]")[-1]
    end = max(map(last.rfind, ")]"))
    if end < 0:
        return [text]
    *lines, head = break_lines(text.removesuffix(last))
    if len(head) + len(last) <= WIDTH:
        return [*lines, head + last]
    inner = [part.removeprefix(", ") for part in split_outside_brackets(last[1:end], ", ") if part]
    called = head[-1:].isalnum() or head[-1:] in ("_", ")", "]")
    comma = "," if len(inner) > 1 or called == (last[0] == "(") else ""
    within = [line for *more, final in map(break_lines, inner) for line in (*more, final + comma)]
    return [*lines, head + last[0], *indent(within), last[end:]]


def split_outside_brackets(text: str, pattern: str) -> list[str]:
    """A text in parts, each but the first beginning with what is looked for, outside of brackets and quotes.

    >>> split_outside_brackets("f(a + b) + c", r" [+] ")
    ['f(a + b)', ' + c']
    """
    inside, quoted, found = 0, False, list[bool]()
    for sign in text:
        inside -= sign in ")]" and not quoted
        found.append(not inside and not quoted)
        inside += sign in "([" and not quoted
        quoted ^= sign in "\"'"
    cuts = [match.start() for match in re.finditer(pattern, text) if found[match.start()]]
    return [text[begin:end] for begin, end in pairwise([0, *cuts, len(text)])]


def indent(lines: Iterable[str]) -> list[str]:
    """Four spaces to the right."""
    return [f"{STEP}{line}" if line else "" for line in lines]


def write_return(names: Sequence[str]) -> list[str]:
    """``return a, b``."""
    text = f"return {', '.join(names)}"
    return [text] if len(text) <= WIDTH else ["return (", *(f"{STEP}{name}," for name in names), ")"]


def write_misfit(inputs: Sequence[Tensor], required: Sequence[Size], rank: str) -> tuple[str, str]:
    """A condition, true where shapes do not fit, and what they have to be: ``x.dim() != 2``, "x: m×n".

    ``rank`` is how a library says how many axes a tensor has.
    """
    wrong = []
    for number, tensor in enumerate(inputs):
        sizes = [find_axis_size(size, inputs[:number], tensor, axis) for axis, size in enumerate(tensor.shape)]
        if None in sizes or any(f"{tensor.name}." in str(text) for text in sizes):
            wrong.append(f"{rank.format(tensor.name)} != {len(sizes)}")
        own = [text or f"{tensor.name}.shape[{axis}]" for axis, text in enumerate(sizes)]
        if set(sizes) != {None}:
            wrong.append(f"{tensor.name}.shape != ({', '.join(own)}{',' * (len(own) == 1)})")
    needs = [write_size_over_shapes(size, inputs) for size in required]
    wrong += [f"{text} < 0" for text in needs if text is not None]
    said = [f"{t.name}: {'×'.join(str(s).replace(' ', '') for s in t.shape) or 'one number'}" for t in inputs]
    said += describe_least_sizes(required)
    count = ".numel()" if rank.endswith("()") else ".size"
    return " or ".join(wrong).replace(".numel()", count), ", ".join(said)


def write_one_shape_misfit(names: Sequence[str]) -> tuple[str, str]:
    """The same, where all have one shape, which may be any."""
    first, *others = names
    wrong = " or ".join(f"{name}.shape != {first}.shape" for name in others)
    return wrong, f"{', '.join(names)} in one shape"


def find_axis_size(size: Size, before: Sequence[Tensor], tensor: Tensor, axis: int) -> str | None:
    """What an axis has to be as long as, by the tensors and the axes ``before`` it; None where anything will do."""
    found = write_size_over_shapes(size, [*before, Tensor(tensor.name, tensor.shape[:axis])])
    return None if found is not None and f"{tensor.name}.numel" in found else found


def write_size_over_shapes(size: Size, tensors: Sequence[Tensor]) -> str | None:
    """A size as Python over shapes; None where no tensor has it."""
    try:
        return write_python(write_size(size, tensors))
    except NoForm:
        return None


def names_read_by_shape(statements: Iterable[Assignment]) -> frozenset[str]:
    """The names of which nothing but the shape, or the number of entries, is read."""
    whole, shaped, waiting = set[str](), set[str](), [statement.value for statement in statements]
    while waiting:
        match waiting.pop():
            case Attribute(Name(name), "shape" | "numel"):
                shaped.add(name)
            case Name(name):
                whole.add(name)
            case node:
                waiting += node.parts
    return frozenset(shaped - whole)


def replace_shapes(statement: Assignment, names: Collection[str], way: str) -> Assignment:
    """``x.shape`` as what it was kept as, ``way``; ``x.numel()`` too."""

    def kept(node: SyntaxNode) -> SyntaxNode:
        match node:
            case Attribute(Name(name), "shape" | "numel" as word) if name in names:
                whole = to_code(way.format(name))
                return whole if word == "shape" else Attribute(whole, word)
        return node

    return Assignment(statement.target, rewrite_tree(statement.value, kept))


RESERVED = frozenset({"ctx", "inputs", "output", "jax", "jnp", "special", "ValueError", "staticmethod", "tuple"})
"""What the source itself reads: no tensor is called so there."""


@dataclass(frozen=True)
class Assignment:
    """``target = value``."""

    target: str
    value: SyntaxNode

    @property
    def reads(self) -> frozenset[str]:
        """The names that it reads."""
        return tensor_names(self.value)


@dataclass(frozen=True)
class Passes:
    """``forward`` computes ``outputs`` from ``inputs``; ``backward`` the ``gradients``, by inputs, from ``seeds``."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    forward: tuple[Assignment, ...]
    seeds: tuple[str, ...]
    backward: tuple[Assignment, ...]
    gradients: Mapping[str, str]

    @property
    def names(self) -> frozenset[str]:
        """Everything that has a name in it."""
        return frozenset((*self.inputs, *self.seeds, *(s.target for s in (*self.forward, *self.backward))))

    def taken_apart(self, own: Collection[str] = ()) -> tuple[str, list[str]]:
        """What a function calls all seeds, where ``own`` is taken there, and the line that takes several apart."""
        if len(self.seeds) == 1:
            return self.seeds[0], []
        seeds = find_free_name("v", {*self.inputs, *self.seeds, *own})
        return seeds, [f"{', '.join(self.seeds)} = {seeds}"] if self.seeds else []

    def ahead(self, wanted: Collection[str], known: Collection[str]) -> tuple[Assignment, ...]:
        """The forward statements that compute ``wanted`` from what is ``known``."""
        needed, kept = set(wanted) - set(known), []
        for statement in reversed(self.forward):
            if statement.target in needed and statement.target not in known:
                kept.append(statement)
                needed |= statement.reads
        return tuple(reversed(kept))

    @property
    def mentioned(self) -> frozenset[str]:
        """What the backward reads of the forward pass: inputs, outputs, and what is computed on the way."""
        own = {*self.inputs, *(statement.target for statement in self.forward)}
        return frozenset(own & frozenset().union(*(statement.reads for statement in self.backward)))


def split_backward(lines: Backward) -> Passes:
    """The parts of a backward; raises `UnsupportedError` where a line has no code."""
    page = {tensor.name: name for tensor, name in zip(lines.source.inputs, lines.inputs, strict=True)}
    page |= {line.of: line.target for line in reversed(lines.forward)}  # what an operation finds beside comes after it
    taken = {*lines.inputs, *(line.target for line in (*lines.forward, *lines.statements)), *filter(None, lines.seeds)}
    new = {name: find_free_name(name, taken) for name in sorted(taken & RESERVED)}

    def called(name: str) -> str:
        return new.get(name, name)

    def statement(line: Line) -> Assignment:
        if line.tree is None:
            hints = (line.own,) if line.own else ()
            raise UnsupportedError(f"this cannot be exported: {line.name} has no code", found=hints)
        tree = compare_conditions(line.tree, lines.inputs)
        return Assignment(called(line.target), replace_names(tree, {old: Name(name) for old, name in new.items()}))

    ends = tuple(dict.fromkeys(page[end] for end in lines.seeds))
    read = frozenset().union(*(line.names for line in (*lines.forward, *lines.statements)))
    forward = [statement(line) for line in lines.forward if line.target in read or line.target in ends]
    return drop_aliases(
        Passes(
            tuple(map(called, lines.inputs)),
            tuple(map(called, ends)),
            tuple(forward),
            tuple(called(seed) for seed in lines.seeds.values() if seed is not None),
            tuple(statement(line) for line in lines.statements),
            {called(page[name]): called(line.target) for name, line in lines.gradients.items()},
        )
    )


def drop_aliases(parts: Passes) -> Passes:
    """The same with one name for one tensor: after ``out = h`` a Function's result *is* what it saves on the way."""
    same: dict[str, SyntaxNode] = {}
    forward = []
    for statement in parts.forward:
        value = replace_names(statement.value, same)
        if isinstance(value, Name):
            same[statement.target] = value
        else:
            forward.append(Assignment(statement.target, value))
    names = {old: value.name for old, value in same.items() if isinstance(value, Name)}
    outputs = tuple(names.get(name, name) for name in parts.outputs)
    backward = tuple(Assignment(s.target, replace_names(s.value, same)) for s in parts.backward)
    return replace(parts, forward=tuple(forward), outputs=outputs, backward=backward)


def find_free_name(name: str, taken: Collection[str]) -> str:
    """``name`` with underscores after it, until nothing is called so."""
    while name in taken or name in RESERVED:
        name += "_"
    return name


def write_passes(parts: Passes, name: str, place: Callable[[Assignment, str], Assignment]) -> dict[str, list[str]]:
    """Two functions: the forward pass, and the backward from the seeds and the inputs; each by its first line.

    ``place`` puts a statement into the words of a library, beside a tensor that the function is given.
    """
    arguments, first = ", ".join(parts.inputs), parts.inputs[0]
    ahead = [line for s in parts.ahead(parts.outputs, parts.inputs) for line in write_statement(place(s, first))]
    seeds, behind = parts.taken_apart()
    for statement in (*parts.ahead(parts.mentioned, parts.inputs), *parts.backward):
        behind += write_statement(place(statement, parts.seeds[0] if parts.seeds else first))
    return {
        f"def {name}({arguments}):": [*ahead, *write_return(parts.outputs)],
        f"def {name}_backward({seeds}, {arguments}):": [*behind, *write_return([*parts.gradients.values()])],
    }


def names_read_in(statements: Iterable[Assignment]) -> frozenset[str]:
    """The names that some statements read."""
    return frozenset().union(*(statement.reads for statement in statements))


def write_targets(names: Sequence[str]) -> str:
    """Several targets, or one: ``x, a``, ``(x,)``."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)
