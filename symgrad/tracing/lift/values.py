"""The value of one step of a lifted program, and the integers that its formulas read.

Comes in: a step and the values it reads. Goes out: its own value, put beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus.local import derive, known_name, operand, standard_at
from symgrad.entries.spec import Op
from symgrad.entries.written import WrittenTwice
from symgrad.lowering.reading import number
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward import Values, apply, constant, options_of, pulled_as
from symgrad.numeric.playing import Player
from symgrad.ops.entry import named
from symgrad.program import Apply, Pullback
from symgrad.shapes import Shape
from symgrad.tracing.lift.lifted import TWICE, Refused


def evaluate(step: Apply, arrays: dict[str, Array]) -> None:
    """Put the value of ``step``, and the integers it holds, into ``arrays``; refuses an entry that is written twice."""
    op = named(step.op)
    if not isinstance(step.op, Pullback) and (op.known or op.numpy is not None):
        options = options_of(step, {})
        arguments: list[Any] = [arrays[a] if isinstance(a, str) else constant(a, {}) for a in step.arguments]
        for key, rule in op.known.items():
            known = rule(*arguments, **options)
            if known is not None:
                arrays[known_name(step, key)] = np.asarray(known)
        if op.numpy is not None:
            try:
                with np.errstate(all="ignore"):
                    arrays[step.result.name] = apply(op.numpy, [_plain(a) for a in arguments], options)
            except WrittenTwice:
                raise Refused(TWICE) from None
            return
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


def shapes_of(step: Apply, arrays: Mapping[str, Array]) -> tuple[Shape | None, ...]:
    """The shapes of what a step reads."""
    return tuple(sizes_of(arrays[a].shape) if isinstance(a, str) else None for a in step.arguments)


@lru_cache(maxsize=1024)
def sizes_of(shape: tuple[int, ...]) -> Shape:
    """The numbers of a shape as sizes."""
    return tuple(map(sp.Integer, shape))


def _plain(array: Any) -> Any:
    """Exact constants as they are, everything else in floats where it is no integer."""
    if array is None:
        return None  # an operand that was left out
    return array if array.dtype == object or not np.issubdtype(array.dtype, np.floating) else as_float(array)
