"""What a text says about sizes: ``x.shape[0]``, ``len(x)``, and how large an index needs an axis to be.

Sizes stay symbols as long as possible. Where a plain integer is needed (``x[: n // 2]``, a slice with a step)
an unknown size gets its number at once, and that is noted, so that the explanation can say what was assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from symgrad.errors import NotationError, ShapeError, Span, UnsupportedError
from symgrad.language.steps.calls import Argument, Meaning, Ref, kind_of
from symgrad.language.steps.subscripts import Key, least_sizes
from symgrad.ops.moving.subscripts import falls_with_size
from symgrad.shapes import Size, Sizes

LARGEST_GUESS = 10_000
"""No size is assumed to be larger than this."""
METHODS = ("size", "dim", "ndimension", "numel", "nelement")
"""``x.size(0)`` and the like; ``len(x)`` is the same question."""


class Extents:
    """Answers questions about sizes; ``assumed`` and ``needs`` say what had to be taken for granted.

    ``symbolic`` sizes get no number here: what needs one is refused. ``extra`` is added to what is assumed.
    """

    def __init__(self, sizes: Sizes, symbolic: bool, extra: int) -> None:
        self.sizes = sizes
        self.symbolic = symbolic
        self.extra = extra
        self.assumed: list[Size] = []
        self.needs: list[tuple[Size, int]] = []

    def whole(self, size: Size, span: Span) -> int:
        """``size`` as a plain integer, and from here on no other."""
        if not isinstance(size, sp.Expr):
            return int(size)
        if self.sizes.number(size) is None and not self.symbolic:
            found = self.sizes.find(size)
            self.assume(size, max((least for need, least in self.needs if self.sizes.find(need) == found), default=2))
        number = self.sizes.number(size)
        if number is None:
            raise UnsupportedError("this needs a size that is known", span=span, hints=("give the tensor a shape",))
        self.sizes.fix(size)
        return number

    def whole_if_size(self, value: Any, span: Span) -> Any:
        """A size as its number; other numbers as they are."""
        return self.whole(value, span) if isinstance(value, sp.Expr) else value

    def assume(self, size: Size, least: int = 2) -> None:
        """Give every unknown in ``size`` a number now, because something depends on it."""
        for symbol in sorted(self.sizes.find(size).free_symbols, key=str):
            if self.sizes.number(symbol) is None:
                self.sizes.assume(symbol, least + self.extra)
                self.assumed.append(symbol)

    def prepare(self, key: Key, shape: Sequence[Size], span: Span) -> None:
        """Note how large axes have to be for ``key``; some slices need the number itself."""
        needs_numbers = any(item[0] == "slice" and (item[3] != 1 or falls_with_size(*item[1:3])) for item in key)
        for size, least in least_sizes(key, shape):
            if self.need(size, least, span) and needs_numbers and not self.symbolic:
                self.assume(size, least)

    def need(self, size: Size, least: int, span: Span) -> bool:
        """Note how large an axis has to be, where its size is not known; returns whether that is so."""
        if self.sizes.number(size) is not None:
            return False
        if least > LARGEST_GUESS:
            raise ShapeError("an index this large needs a tensor with a given shape", span=span)
        self.needs.append((size, least))
        return True

    def method(self, word: str, owner: Meaning, arguments: Sequence[Argument], span: Span) -> Meaning:
        """x.size(), x.size(0), x.dim(), x.numel(), len(x)."""
        if word == "len" and isinstance(owner, tuple):
            return len(owner)
        if not isinstance(owner, Ref):
            raise NotationError(f"{word} is about a tensor, not {kind_of(owner)}", span=span)
        shape = shape_of(owner)
        if word == "size" and not arguments:
            return shape
        if word in ("dim", "ndimension") and not arguments:
            return len(shape)
        if word in ("numel", "nelement") and not arguments:
            count = sp.Mul(*shape)
            return int(count) if count.is_Integer else count
        axis = 0 if word == "len" else arguments[0].meaning if len(arguments) == 1 else None
        if word not in ("len", "size") or not isinstance(axis, int):
            raise NotationError(f"{word} has other arguments", span=span, hints=("x.size(0), x.shape[0]",))
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"there is no axis {axis} in a tensor with {len(shape)}", span=span)
        return shape[axis]


def shape_of(tensor: Ref) -> tuple[Size, ...]:
    """The shape as the text sees it: plain integers where they are literal; the axis of (re, im) is not seen."""
    shape = tensor.shape[:-1] if tensor.complex else tensor.shape
    return tuple(int(size) if size.is_Integer else size for size in shape)
