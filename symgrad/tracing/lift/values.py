"""The value of one step of a lifted program, the integers that its formulas read, and the steps inside of it.

Comes in: a step and the values it reads. Goes out: its own value, put beside them. For who asks for the steps inside, a
`Lifted` becomes the same with its composite operations written out: their numbers are computed from those that torch
had, and a sentence tells what stays whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.calculus.local import OUT, derive, operand, standard_at
from symgrad.entries.spec import Op
from symgrad.entries.written import WrittenTwice
from symgrad.indexing import Bracket
from symgrad.language import expand_composites, why_whole
from symgrad.lowering.reading import names_read, number
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward import Values, found_beside, pulled_as
from symgrad.numeric.playing import Player
from symgrad.ops.entry import named
from symgrad.program import Apply, Program, Pullback
from symgrad.shapes import Shape
from symgrad.tracing.lift.labels import settled_labels
from symgrad.tracing.lift.lifted import TWICE, Lifted, Refused


def evaluate(step: Apply, arrays: dict[str, Array]) -> None:
    """Put the value of ``step``, and the integers it holds, into ``arrays``; refuses an entry that is written twice."""
    try:
        if not isinstance(step.op, Pullback) and found_beside(step, arrays, {}):
            return
    except WrittenTwice:
        raise Refused(TWICE) from None
    arrays[step.result.name] = pulled_as(standard_at(step, shapes_of(step, arrays)), step, Values(arrays, {}))


class Again:
    """A step whose value is its equation's, to be evaluated for other tensors of the same shapes: prepared once."""

    def __init__(self, step: Apply, arrays: Mapping[str, Array]) -> None:
        form = standard_at(step, shapes_of(step, arrays))
        self.player: Player | None = None
        self.operands: tuple[int, ...] = ()
        places = {operand(n): n for n, a in enumerate(step.arguments) if isinstance(a, str)}
        if isinstance(step.op, str) and not by_its_own(named(step.op)):
            player = Player(derive(form.key).equation, {own: number(size, {}) for own, size in form.sizes.items()})
            if places.keys() >= set(player.read):
                self.player, self.operands = player, tuple(places[name] for name in player.read)

    def __call__(self, step: Apply, arrays: dict[str, Array]) -> None:
        """Put the value of ``step``, which is as the first was, into ``arrays``."""
        value = None
        if self.player is not None:
            value = self.player([arrays[step.arguments[n]] for n in self.operands])  # type: ignore[index]  # they are tensors
        if value is None:
            evaluate(step, arrays)
        else:
            arrays[step.result.name] = value


def by_its_own(op: Op) -> bool:
    """Whether more than an equation on numbers says what an operation gives."""
    return bool(op.known or op.data) or op.numpy is not None


def meets_own(step: Apply, arrays: Mapping[str, Array]) -> bool:
    """Whether the equation of a step asks which of several sums its own value is."""
    if isinstance(step.op, Pullback) or named(step.op).smooth or not named(step.op).reuse:
        return False
    brackets = derive(standard_at(step, shapes_of(step, arrays)).key).equation.right.atoms(Bracket)
    return any(isinstance(b.args[0], sp.Eq) and OUT in names_read(b) and b.has(sp.Add) for b in brackets)


def shapes_of(step: Apply, arrays: Mapping[str, Array]) -> tuple[Shape | None, ...]:
    """The shapes of what a step reads."""
    return tuple(sizes_of(arrays[a].shape) if isinstance(a, str) else None for a in step.arguments)


@lru_cache(maxsize=1024)
def sizes_of(shape: tuple[int, ...]) -> Shape:
    """The numbers of a shape as sizes."""
    return tuple(map(sp.Integer, shape))


NEAR = 1e-2
"""How far the steps may be from torch's number, relative to the largest: half precision is that coarse."""


def opened(lifted: Lifted) -> tuple[Lifted, tuple[str, ...]]:
    """``lifted`` without composite operations, and why some stay."""
    if not lifted.program.steps:
        return lifted, ()
    whole = expand_composites(lifted.program)
    inside = insides(lifted.program, whole)
    arrays = dict(lifted.arrays)
    for step in whole.steps:
        name = step.result.name
        if name not in arrays:
            evaluate(step, arrays)
        elif inside[name]:
            again = {**arrays}
            evaluate(step, again)
            if not alike(arrays[name], [again[name], *(arrays[inner] for inner in inside[name])]):
                what = next(before.called for before in lifted.program.steps if before.result.name == name)
                return lifted, (f"{what} is not expanded: on these numbers its steps overflow or lose digits",)
    owner = {inner: name for name, steps in inside.items() for inner in steps}
    origins = {
        name: replace(origin, steps=tuple(inner for step in origin.steps for inner in (*inside.get(step, ()), step)))
        for name, origin in lifted.origins.items()
    }
    origins |= {inner: origins[name] for inner, name in owner.items() if name in origins}
    lines = {**{inner: lifted.lines[name] for inner, name in owner.items() if name in lifted.lines}, **lifted.lines}
    labels = settled_labels(whole, lifted.outputs, lifted.labels, {})
    found = replace(lifted, program=whole, arrays=arrays, labels=labels, lines=lines, origins=origins)
    return found, why_whole(lifted.program)


def alike(torchs: Array, steps: Sequence[Array]) -> bool:
    """Whether the steps inside, of which the first is the result, are what torch's one call gives."""
    own, *inner = map(as_float, steps)
    sound = np.isfinite(as_float(torchs)).all() <= all(np.isfinite(array).all() for array in inner)
    size = float(np.abs(as_float(torchs)).max(initial=0))
    return bool(sound) and bool(np.allclose(own, as_float(torchs), rtol=0, atol=NEAR * size, equal_nan=True))


def insides(before: Program, after: Program) -> dict[str, tuple[str, ...]]:
    """The steps that came in place of each, but for the last, which has its name."""
    known = {step.result.name for step in before.steps}
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[str] = []
    for step in after.steps:
        if step.result.name not in known:
            waiting.append(step.result.name)
        else:
            found[step.result.name] = tuple(waiting)
            waiting = []
    return found
