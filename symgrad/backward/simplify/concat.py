"""Terms of a sum that are adjacent, interleaved, or share zeros or a condition, as fewer terms of the same sum.

    pad(a, (0, n)) + pad(b, (m, 0))                        →  cat([a, b], -1)           a is m wide, b is n wide
    pad(a[None], (…, 0, 1)) + pad(b[None], (…, 1, 0))      →  stack([a, b])
    pad(a[None], (0, 2)) + pad(b[None], (1, 1))            →  pad(stack([a, b]), (0, 1))
    pad(a, (0, n)) + pad(b, (0, n))                        →  pad(a + b, (0, n))
    a * (t > 0) + b * (t > 0)                              →  (a + b) * (t > 0)
    zeros_like(x).index_add(1, arange(6)[1::2], b) + zeros_like(x).index_add(1, arange(6)[::2], a)
                                                           →  stack([a, b], 2).flatten(1, 2)
    pad(a, (0, x.shape[2] % 2))                            →  a                         x is 6 long there
    conv_transpose1d(…, output_padding=x.shape[2] % 2)     →  conv_transpose1d(…)

A form is for every size; a line is for the tensors of its program, at whose sizes margins may be 0 and parts may meet.
What goes back to every second entry of two axes is put together along the one first, then along the other. Comes in:
terms as Python expressions, the shape of their sum and of the names in them. Goes out: the same sum, of fewer terms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import sympy as sp

from symgrad.backward.simplify.broadcasting import Shapes, is_zero
from symgrad.language.python_text import COLON, NEW_AXIS, call, is_comparison, method
from symgrad.language.syntax_tree import Attribute, Items, Literal, PythonCall, Slice, Subscript
from symgrad.language.trees import add_terms, replace_names, rewrite_tree
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.ops.lookup import has_role, role_entry
from symgrad.program import Role
from symgrad.shapes import Shape

SIGNS: dict[str, Callable[[sp.Expr, sp.Expr], sp.Expr]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "%": operator.mod, "//": operator.floordiv,
}  # fmt: skip


def drop_empty_margins(expression: SyntaxNode, shapes: Shapes) -> SyntaxNode:
    """``expression`` without what is 0 around a tensor."""
    sizes = TensorShapes(shapes)

    def nothing(node: SyntaxNode) -> bool:
        """Whether numbers, which may depend on sizes, are all 0."""
        return all(sizes.number(part) == 0 for part in (node.items if isinstance(node, Items) else [node]))

    def without(node: SyntaxNode) -> SyntaxNode:
        """Calls with margins of 0, without them."""
        called = node.function.name if isinstance(node, PythonCall) and isinstance(node.function, Name) else ""
        if not isinstance(node, PythonCall):
            return node
        if called == PAD and len(node.positional) == 2 and not node.keywords and nothing(node.positional[1]):
            return node.positional[0]
        if called.startswith("conv_transpose"):
            kept = [k for k in node.keywords if k.name != "output_padding" or not nothing(k.value)]
            return replace(node, keywords=tuple(kept))
        return node

    return rewrite_tree(expression, without)


@dataclass(frozen=True)
class TensorShapes:
    """The shapes of tensors, in numbers or letters."""

    shapes: Shapes

    def number(self, node: SyntaxNode) -> sp.Expr | None:
        """What an expression in sizes comes to."""
        match node:
            case Literal(value=int(number)):
                return sp.Integer(number)
            case Subscript(Attribute(Name(name), "shape"), [Literal(value=int(axis))]):
                shape = self.shapes.get(name, ())
                return shape[axis] if -len(shape) <= axis < len(shape) else None
            case Binary(sign, left, right) if sign in SIGNS:
                sides = self.number(left), self.number(right)
                if sides[0] is None or sides[1] is None or (sign in ("%", "//") and not sides[1]):
                    return None
                return SIGNS[sign](sides[0], sides[1])
        return None


PAD = "pad"
"""The call that puts zeros around a tensor."""


@dataclass(frozen=True)
class PaddedPart:
    """``inner`` stands from ``first`` up to ``last`` on an axis counted from the end, with zeros around it.

    ``margins`` is how many zeros before and behind, as it is written.
    """

    inner: SyntaxNode
    axis: int
    first: sp.Expr
    last: sp.Expr
    margins: tuple[SyntaxNode, SyntaxNode]


def merge_adjacent(terms: Sequence[SyntaxNode], shape: Shape, sizes: TensorShapes) -> list[SyntaxNode]:
    """The terms, those that follow each other on an axis without gap or overlap as one call."""
    parts = {n: found for n, term in enumerate(terms) if (found := find_padded_part(term, shape, sizes)) is not None}
    return replace_merged(
        terms, {(*chain,): concatenate_chain([parts[n] for n in chain], shape) for chain in find_chains(parts)}
    )


def replace_merged(terms: Sequence[SyntaxNode], merged: Mapping[tuple[int, ...], SyntaxNode]) -> list[SyntaxNode]:
    """The terms, with what some of them were ``merged`` into in the place of the first of those."""
    gone = {n: one for places, one in merged.items() for n in places if n != min(places)}
    new = {min(places): one for places, one in merged.items()}
    return [new.get(n, term) for n, term in enumerate(terms) if n not in gone]


def find_chains(parts: Mapping[int, PaddedPart]) -> Iterator[list[int]]:
    """Parts of which each begins where one ends, on its axis; of two or more."""
    left = dict(parts)
    while left:
        ends = {(part.axis, part.last) for part in left.values()}
        chain = [next((n for n, part in left.items() if (part.axis, part.first) not in ends), min(left))]
        part: PaddedPart | None = left.pop(chain[0])
        while part is not None:
            after = (n for n, other in left.items() if (other.axis, other.first) == (part.axis, part.last))
            following = next(after, None)
            chain += [] if following is None else [following]
            part = None if following is None else left.pop(following)
        if len(chain) > 1:
            yield chain


def concatenate_chain(found: Sequence[PaddedPart], shape: Shape) -> SyntaxNode:
    """What lies side by side, with zeros around where it does not fill its axis."""
    axis = found[0].axis
    place = axis if axis == -1 else len(shape) + axis
    inner = [strip_new_axis(part.inner, len(shape) + axis) for part in found]
    pieces = [rest for rest in inner if rest is not None]
    if len(pieces) == len(found):
        at = [] if axis == -len(shape) else [place]
        whole = call("stack", pieces, *at)
    else:
        whole = call("cat", [part.inner for part in found], place)
    if found[0].first == 0 and found[-1].last == shape[axis]:
        return whole
    nothing = (0,) * (2 * (-axis - 1))
    return call(PAD, whole, (*nothing, found[0].margins[0], found[-1].margins[1]))


INNER = Name("_")
"""What stands for the inner part of a term."""


def merge_alike(terms: Sequence[SyntaxNode]) -> list[SyntaxNode]:
    """The terms, those with the same zeros around them, or under one condition, as one.

    >>> from symgrad.language.python_text import read_python, write_python
    >>> def told(*texts):
    ...     return [write_python(term) for term in merge_alike(list(map(read_python, texts)))]
    >>> told("pad(a[None], (0, 1))", "pad(b[None], (0, 1))")
    ['pad((a + b)[None], (0, 1))']
    >>> told("a * (t > 0)", "b @ w", "2 * c * (t > 0)")
    ['(a + 2 * c) * (t > 0)', 'b @ w']
    """
    groups: dict[SyntaxNode, list[SyntaxNode]] = {}
    for n, term in enumerate(terms):
        match term:
            case PythonCall(Name(word), [inner, margins], []) if word == PAD:
                groups.setdefault(call(PAD, INNER, margins), []).append(inner)
            case Binary("*" as sign, inner, condition) if is_comparison(condition):
                groups.setdefault(Binary(sign, INNER, condition), []).append(inner)
            case _:
                groups[Name(f"_{n}")] = [term]
    sums = ((around, add_inside_new_axis(inner)) for around, inner in groups.items())
    return [one if isinstance(around, Name) else replace_names(around, {INNER.name: one}) for around, one in sums]


def add_inside_new_axis(parts: Sequence[SyntaxNode]) -> SyntaxNode:
    """A sum; (a + b)[None], of a[None] and b[None]."""
    first, *_ = parts
    bare = [strip_new_axis(part) for part in parts]
    if isinstance(first, Subscript) and len({part.items for part in parts if isinstance(part, Subscript)}) == 1:
        inner = [part for part in bare if part is not None]
        return Subscript(add_terms(inner), first.items) if len(inner) == len(parts) else add_terms(parts)
    return add_terms(parts)


def find_padded_part(term: SyntaxNode, shape: Shape, sizes: TensorShapes) -> PaddedPart | None:
    """``pad(inner, margins)`` with margins on one axis; the margins are those of the last axis first."""
    if not (isinstance(term, PythonCall) and isinstance(term.function, Name) and term.function.name == PAD):
        return None
    if len(term.positional) != 2 or term.keywords or not isinstance(term.positional[1], Items):
        return None
    entries = term.positional[1].items
    margins = [sizes.number(entry) for entry in entries]
    known = [margin for margin in margins if margin is not None and not margin.is_negative]
    if len(known) < len(entries):
        return None
    wide = [n for n in range(len(known) // 2) if known[2 * n : 2 * n + 2] != [0, 0]]
    if len(wide) != 1:
        return None
    at, axis = 2 * wide[0], -1 - wide[0]
    return PaddedPart(term.positional[0], axis, known[at], shape[axis] - known[at + 1], (entries[at], entries[at + 1]))


def strip_new_axis(inner: SyntaxNode, place: int = 0) -> SyntaxNode | None:
    """a, of a[None, :] with the new axis at ``place``."""
    if not isinstance(inner, Subscript):
        return None
    entries = inner.items
    new = [n for n, entry in enumerate(entries) if entry == NEW_AXIS]
    whole = all(entry == COLON for n, entry in enumerate(entries) if n not in new)
    return inner.owner if new == [place] and whole else None


@dataclass(frozen=True)
class StridedPart:
    """``inner`` stands at every ``step``-th entry of an axis, from ``first`` on."""

    inner: SyntaxNode
    axis: int
    first: int
    step: int
    call: PythonCall

    def with_inner(self, inner: SyntaxNode) -> SyntaxNode:
        """Something else in its place."""
        return call(self.call.function, *self.call.positional[:2], inner)


def merge_interleaved(terms: Sequence[SyntaxNode], shape: Shape) -> list[SyntaxNode]:
    """The terms, those that fill an axis between them as one call."""
    terms, merged = merge_at_same_steps(terms, shape), dict[tuple[int, ...], SyntaxNode]()
    turns = find_strided_parts(terms, shape)
    for axis, step in sorted({(found.axis, found.step) for found in turns.values()}):
        own = sorted((n for n in turns if (turns[n].axis, turns[n].step) == (axis, step)), key=lambda n: turns[n].first)
        if [turns[n].first for n in own] == list(range(step)):
            merged[*own,] = build_interleaved([turns[n] for n in own], shape)
    return replace_merged(terms, merged)


def merge_at_same_steps(terms: Sequence[SyntaxNode], shape: Shape) -> list[SyntaxNode]:
    """The terms, those that stand at the same entries of an axis, and fill another there, as one."""
    places, merged = dict[tuple[int, int, int], list[int]](), dict[tuple[int, ...], SyntaxNode]()
    turns = find_strided_parts(terms, shape)
    for n, found in turns.items():
        places.setdefault((found.axis, found.first, found.step), []).append(n)
    for (axis, _, step), own in places.items():
        inner = [turns[n].inner for n in own]
        one = merge_interleaved(inner, (*shape[:axis], shape[axis] // step, *shape[axis + 1 :])) if len(own) > 1 else []
        if len(one) == 1:
            merged[*own,] = turns[own[0]].with_inner(one[0])
    return replace_merged(terms, merged)


def build_interleaved(turns: Sequence[StridedPart], shape: Shape) -> SyntaxNode:
    """``stack([a, b], -1).flatten(-2)``: side by side on an axis of their own, which goes into the one before it."""
    axis, last = turns[0].axis, len(shape) - 1
    new, joined = (-1, [-2]) if axis == last else (axis + 1, [axis, axis + 1])
    row = call(role_entry(Role.STACKS).name, [turn.inner for turn in turns], new)
    return method(row, role_entry(Role.FLATTENS).name, *joined)


def find_strided_parts(terms: Sequence[SyntaxNode], shape: Shape) -> dict[int, StridedPart]:
    """Those of some terms that are such parts, by their places."""
    return {n: found for n, term in enumerate(terms) if (found := find_strided_part(term, shape)) is not None}


def find_strided_part(term: SyntaxNode, shape: Shape) -> StridedPart | None:
    """What stands at every n-th entry, of ``zeros_like(x).index_add(axis, arange(…)[first::n], inner)``."""
    match term:
        case PythonCall(Attribute(zeros, word), [Literal(int(axis)), Subscript(_, [Slice() as at]), inner]) as call:
            if not (is_zero(zeros) and has_role(word, Role.ADDS)) or at.stop is not None:
                return None
            first, every = read_integer(at.start, 0), read_integer(at.step, 1)
            fits = 0 <= first < every and shape[axis] % every == 0
            return StridedPart(inner, axis, first, every, call) if fits else None
    return None


def read_integer(node: SyntaxNode | None, without: int) -> int:
    """A whole number, or what stands for none; −1 for anything else."""
    if node is None:
        return without
    return node.value if isinstance(node, Literal) and isinstance(node.value, int) else -1
