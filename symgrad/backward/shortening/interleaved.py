"""Every second entry here, every other there: what goes back to slices with a step that take turns is one `stack`.

    zeros_like(x).index_add(1, arange(6)[1::2], b) + zeros_like(x).index_add(1, arange(6)[::2], a)
                                                                        →  stack([a, b], 2).flatten(1, 2)

What goes back to every second entry of two axes is put together along the one first, then along the other.

Comes in: terms as Python expressions, and the shape of their sum. Goes out: the same sum, of fewer terms.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.backward.shortening.products import is_zero
from symgrad.ops.entry import playing, plays
from symgrad.program import Role
from symgrad.shapes import Shape


@dataclass(frozen=True)
class Turn:
    """``inner`` stands at every ``step``-th entry of an axis, from ``first`` on."""

    inner: ast.expr
    axis: int
    first: int
    step: int
    call: ast.Call

    def with_inner(self, inner: ast.expr) -> ast.expr:
        """Something else in its place."""
        return ast.Call(self.call.func, [*self.call.args[:2], inner], [])


def taking_turns(terms: Sequence[ast.expr], shape: Shape) -> list[ast.expr]:
    """The terms, those that fill an axis between them as one call."""
    terms = at_one_place(terms, shape)
    turns = {n: found for n, term in enumerate(terms) if (found := turn(term, shape)) is not None}
    whole = dict(enumerate(terms))
    for axis, step in sorted({(found.axis, found.step) for found in turns.values()}):
        own = {n: found for n, found in turns.items() if (found.axis, found.step) == (axis, step)}
        if sorted(found.first for found in own.values()) == list(range(step)):
            whole[min(own)] = in_turn(sorted(own.values(), key=lambda found: found.first), shape)
            for n in {*own} - {min(own)}:
                del whole[n]
    return [*whole.values()]


def at_one_place(terms: Sequence[ast.expr], shape: Shape) -> list[ast.expr]:
    """The terms, those that stand at the same entries of an axis, and fill another there, as one."""
    whole, places = dict(enumerate(terms)), dict[tuple[int, int, int], list[int]]()
    turns = {n: found for n, term in enumerate(terms) if (found := turn(term, shape)) is not None}
    for n, found in turns.items():
        places.setdefault((found.axis, found.first, found.step), []).append(n)
    for (axis, _, step), own in places.items():
        inner = [turns[n].inner for n in own]
        one = taking_turns(inner, (*shape[:axis], shape[axis] // step, *shape[axis + 1 :])) if len(own) > 1 else []
        if len(one) == 1:
            whole[own[0]] = turns[own[0]].with_inner(one[0])
            for n in own[1:]:
                del whole[n]
    return [*whole.values()]


def in_turn(turns: Sequence[Turn], shape: Shape) -> ast.expr:
    """``stack([a, b], -1).flatten(-2)``: side by side on an axis of their own, which goes into the one before it."""
    axis, last = turns[0].axis, len(shape) - 1
    new, joined = (-1, [-2]) if axis == last else (axis + 1, [axis, axis + 1])
    parts = ast.List([turn.inner for turn in turns])
    row = ast.Call(ast.Name(playing(Role.STACKS).name), [parts, ast.Constant(new)], [])
    return ast.Call(ast.Attribute(row, playing(Role.FLATTENS).name), [*map(ast.Constant, joined)], [])


def turn(term: ast.expr, shape: Shape) -> Turn | None:
    """What stands at every n-th entry, of ``zeros_like(x).index_add(axis, arange(…)[first::n], inner)``."""
    match term:
        case ast.Call(
            ast.Attribute(zeros, word), [ast.Constant(int(axis)), ast.Subscript(_, ast.Slice() as at), inner]
        ) as call:
            if not (is_zero(zeros) and plays(word, Role.ADDS)) or at.upper is not None:
                return None
            first, every = number(at.lower, 0), number(at.step, 1)
            return Turn(inner, axis, first, every, call) if 0 <= first < every and shape[axis] % every == 0 else None
    return None


def number(node: ast.expr | None, without: int) -> int:
    """A whole number, or what stands for none; −1 for anything else."""
    if node is None:
        return without
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else -1
