"""The discrete Fourier transforms along one axis or several, complex tensors as pairs (re, im).

Each is linear: a sum against cosines and sines of 2πjk/n. Its pullback is the same kind of sum the other way
round, which nobody has to know: it comes out of the equation. Where a transform takes or gives half a spectrum,
the other half is its mirror image, and an entry that stands for two counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, Index, add_up, bracket, fresh
from symgrad.indexing.symbols import Expr
from symgrad.ops.complex.complex_pairs import (
    KEPT,
    MADE,
    PAIR,
    TAKEN,
    as_torch,
    complexes,
    halves,
    pair,
    pairs,
    unpaired,
)
from symgrad.ops.options import one_of
from symgrad.ops.shaping import axis_of
from symgrad.ops.spec import At, Example, Op, PrepareRule, ShapeRule, View, example, operation
from symgrad.shapes import Shape, Sizes

NORMS = ("backward", "ortho", "forward")
"""Where 1/n goes: into the inverse, into both as 1/√n, into the forward transform."""
Lengths = tuple[Expr, ...]
Axes = tuple[int, ...]


def scale(lengths: Lengths, norm: str, forward: bool) -> Expr:
    """What a sum is multiplied by."""
    points = sp.Mul(*lengths)
    if norm == "ortho":
        return 1 / sp.sqrt(points)
    return 1 / points if (norm == "forward") is forward else sp.S.One


def half(n: Expr) -> Expr:
    """The entries that a real signal's spectrum needs."""
    return sp.floor(n / 2) + 1


def whole(m: Expr) -> Expr:
    """The length of the real signal that m entries stand for."""
    return 2 * (m - 1)


def checked_length(n: Any) -> Expr:
    """A length of at least one point."""
    length = sp.sympify(n, strict=True)
    if length.is_number and not (length.is_Integer and length >= 1):
        raise InputError("a Fourier transform has at least one point", found=(f"n={length}",))
    return length


def signal_shape(shape: Shape, complex_in: bool) -> Shape:
    """The axes that a transform may go along."""
    signal = shape[:-1] if complex_in else shape
    if not signal:
        raise ShapeError("a Fourier transform needs an axis to go along")
    return signal


def running(size: Expr, count: Expr, hint: str) -> tuple[Index, Expr]:
    """An index over the entries that are read: those of an axis that come before ``count``; the rest are 0."""
    if size.is_Integer and count.is_Integer:
        return fresh(hint, min(size, count)), sp.S.One
    index = fresh(hint, size)
    return index, sp.S.One if size == count else bracket(sp.Lt(index, count, evaluate=False))


def spun(real: list[Expr], imag: list[Expr], angle: Expr, sign: int) -> tuple[list[Expr], list[Expr]]:
    """(real + i·imag)·exp(sign·i·angle), term by term: each term is a product, so that its sum is a contraction."""
    cos, sin = sp.cos(angle), sign * sp.sin(angle)
    return (
        [*(t * cos for t in real), *(-t * sin for t in imag)],
        [*(t * sin for t in real), *(t * cos for t in imag)],
    )


def transformed(
    i: Any, x: View, lengths: Lengths, dims: Axes, sign: int, complex_in: bool, halved: bool
) -> tuple[Expr, Expr]:
    """Σ_j x[j]·exp(sign·2πi·Σ jk/n) over ``dims``; where the last holds half a spectrum, what stands for two twice."""
    parts = halves(x) if complex_in else (x,)
    place, weight, sums = list(i), sp.S.One, list[Index]()
    for n, dim in zip(lengths, dims, strict=True):
        last = halved and dim == dims[-1]
        j, inside = running(parts[0].shape[dim], half(n) if last else n, "jlab"[min(len(sums), 3)])
        twice = 2 - Bracket(sp.Eq(j, 0)) - Bracket(sp.Eq(2 * j, n)) if last else sp.S.One
        place[dim], weight = j, weight * inside * twice
        sums.append(j)
    real, imag = [parts[0][place]], [part[place] for part in parts[1:]]
    for n, dim, j in zip(lengths, dims, sums, strict=True):
        real, imag = spun(real, imag, 2 * sp.pi * j * i[dim] / n, sign)
    return tuple(sp.Add(*(add_up(weight * t, sums) for t in terms)) for terms in (real, imag))


# The entries ----------------------------------------------------------------------------------------


def numbers(n: Any, s: Any) -> Any:
    """A length, or several, for the array libraries."""
    return int(n) if s is None else tuple(int(k) for k in s)


def by_torch(word: str, complex_in: bool, complex_out: bool) -> Callable[..., Any]:
    """torch's own."""

    def values(torch: Any, x: Any, *, dim: Any, norm: str, n: Any = None, s: Any = None) -> Any:
        found = getattr(torch.fft, word)(as_torch(torch, x) if complex_in else x, numbers(n, s), dim, norm)
        return torch.view_as_real(found.resolve_conj()) if complex_out else found

    return values


def by_numpy(word: str, complex_in: bool, complex_out: bool) -> Callable[..., Any]:
    """NumPy's own."""

    def values(x: Any, *, dim: Any, norm: str, n: Any = None, s: Any = None) -> Any:
        found = getattr(np.fft, word)(complexes(x) if complex_in else np.asarray(x, float), numbers(n, s), dim, norm)
        return pairs(found) if complex_out else found

    return values


@dataclass(frozen=True)
class Kind:
    """A transform: its direction, and what it takes and gives."""

    word: str
    definition: str
    says: str
    forward: bool
    complex_in: bool = True
    complex_out: bool = True

    def entry(self, at: At, x: View, lengths: Lengths, dims: Axes, norm: str) -> Expr:
        """The output's entry."""
        factor, sign = scale(lengths, norm, self.forward), -1 if self.forward else 1
        i, real_out = at[:-1] if self.complex_out else at, not self.complex_out
        real, imag = transformed(i, x, lengths, dims, sign, self.complex_in, halved=real_out)
        return factor * real if real_out else pair(at[-1], factor * real, factor * imag)

    def shape(self, sizes: Sizes, shape: Shape, lengths: Lengths, dims: Axes) -> Shape:
        """The output's shape: half the spectrum where a real signal goes in."""
        result = list(unpaired(sizes, shape) if self.complex_in else shape)
        for n, dim in zip(lengths, dims, strict=True):
            result[dim] = n if self.complex_in or dim != dims[-1] else half(n)
        return (*result, *((PAIR,) if self.complex_out else ()))

    def own(self, size: Expr, last: bool = True) -> Expr:
        """The length of an axis that nobody gives one."""
        return size if self.complex_out or not last else whole(size)

    def examples(self, options: tuple[str, ...], shapes: tuple[tuple[int, ...], ...]) -> tuple[Example, ...]:
        """Calls with these options on signals of these shapes."""
        given, last = ("view_as_complex(x)", (2,)) if self.complex_in else ("x", ())
        wrap = "view_as_real(torch.fft.{}({}{}))" if self.complex_out else "torch.fft.{}({}{})"
        return tuple(
            example(wrap.format(self.word, given, option), x=(*shape, *last))
            for option, shape in zip(options, shapes, strict=True)
        )

    def enter(
        self, index: Callable[..., Expr], shape: ShapeRule, prepare: PrepareRule, examples: tuple[Example, ...]
    ) -> Op:
        """Put it into the table."""
        index.__name__, index.__doc__ = f"complex_{self.word}", self.definition
        both = (self.word, self.complex_in, self.complex_out)
        return operation(
            says=self.says, numpy=by_numpy(*both), torch=by_torch(*both), letters="kjl",
            spelled=(f"torch.fft.{self.word}", f"np.fft.{self.word}"),
            pairs=KEPT if self.complex_in and self.complex_out else TAKEN if self.complex_in else MADE,
            shape=shape, prepare=prepare, examples=examples,
        )(index)  # fmt: skip


def along_one(kind: Kind) -> Op:
    """The entry that goes along one axis."""

    def index(at: At, x: View, n: Any = None, dim: int = -1, norm: str | None = None) -> Expr:
        return kind.entry(at, x, (sp.sympify(n, strict=True),), (dim,), str(norm))

    def prepare(
        shapes: tuple[Shape, ...], n: Any = None, dim: int = -1, norm: str | None = None
    ) -> dict[str, Hashable]:
        shape = signal_shape(shapes[0], kind.complex_in)
        axis = axis_of(dim, len(shape))
        length = checked_length(kind.own(shape[axis]) if n is None else n)
        return {"n": length, "dim": axis, "norm": one_of(NORMS, "norm", norm or "backward")}

    def shape(sizes: Sizes, shapes: tuple[Shape, ...], n: Expr, dim: int, norm: str) -> Shape:
        return kind.shape(sizes, shapes[0], (n,), (dim,))

    options = ("", ', dim=0, norm="ortho"', ', 3, 1, "forward"', ", n=6")
    return kind.enter(
        index, prepare=prepare, shape=shape, examples=kind.examples(options, ((4,), (3, 2), (2, 4), (3,)))
    )


def along_several(kind: Kind, usual: Any) -> Op:
    """The entry that goes along several axes, ``usual`` ones where none are named: one after the other, in one sum."""

    def index(at: At, x: View, s: Any = None, dim: Any = usual, norm: str | None = None) -> Expr:
        return kind.entry(at, x, tuple(sp.sympify(n, strict=True) for n in s), dim, str(norm))

    def prepare(
        shapes: tuple[Shape, ...], s: Any = None, dim: Any = usual, norm: str | None = None
    ) -> dict[str, Hashable]:
        shape = signal_shape(shapes[0], kind.complex_in)
        asked = None if s is None else tuple(s) if isinstance(s, (tuple, list)) else (s,)
        if dim is None:
            dim = range(len(shape) - len(asked or shape), len(shape))
        axes = tuple(axis_of(d, len(shape)) for d in (dim if isinstance(dim, (tuple, list, range)) else (dim,)))
        if len(set(axes)) < len(axes) or not axes or (asked is not None and len(asked) != len(axes)):
            raise ShapeError("a Fourier transform goes along each axis once, with one length for each")
        own = [kind.own(shape[a], last=a == axes[-1]) for a in axes]
        lengths = own if asked is None else [mine if n == -1 else n for n, mine in zip(asked, own, strict=True)]
        return {
            "s": tuple(checked_length(n) for n in lengths),
            "dim": axes,
            "norm": one_of(NORMS, "norm", norm or "backward"),
        }

    def shape(sizes: Sizes, shapes: tuple[Shape, ...], s: Lengths, dim: Axes, norm: str) -> Shape:
        return kind.shape(sizes, shapes[0], s, dim)

    options = ("", ', (2, 3), (1, 0), "ortho"')
    return kind.enter(index, prepare=prepare, shape=shape, examples=kind.examples(options, ((2, 3), (2, 2))))


KINDS = (
    Kind("fft", "out[k] = Σ_j x[j]·exp(−2πi·jk/n), complex numbers as pairs (re, im)",
         "the discrete Fourier transform", forward=True),
    Kind("ifft", "out[k] = Σ_j x[j]·exp(2πi·jk/n) / n, complex numbers as pairs (re, im)",
         "the inverse discrete Fourier transform", forward=False),
    Kind("rfft", "out[k] = Σ_j x[j]·exp(−2πi·jk/n) for k ≤ n/2, as pairs (re, im)",
         "the first half of a real signal's spectrum: the rest is its mirror image", forward=True, complex_in=False),
    Kind("irfft", "out[j] = Σ_k w[k]·Re(x[k]·exp(2πi·jk/n)) / n, w[k] = 2, but 1 at 0 and n/2",
         "the real signal with this half of a spectrum", forward=False, complex_out=False),
)  # fmt: skip
"""The transforms that go along several axes, too."""
HALVED = (
    Kind("hfft", "out[k] = Σ_j w[j]·Re(x[j]·exp(−2πi·jk/n)), w[j] = 2, but 1 at 0 and n/2",
         "the real spectrum of a signal of which this is the first half, the rest its mirror image",
         forward=True, complex_out=False),
    Kind("ihfft", "out[j] = Σ_k x[k]·exp(2πi·jk/n) / n for j ≤ n/2, as pairs (re, im)",
         "the first half of the signal with this real spectrum", forward=False, complex_in=False),
)  # fmt: skip
"""Their counterparts for a signal that is its own mirror image."""


def many(kind: Kind, tail: str) -> Kind:
    """The same along several axes."""
    where = "the last two axes" if tail == "2" else "all axes"
    return replace(
        kind, word=f"{kind.word}{tail}", says=f"{kind.says}, along {where} or those of dim",
        definition=kind.definition.replace("·jk/n", "·Σ jk/n").replace(" / n", " / Πn"),
    )  # fmt: skip


ENTRIES = (
    *(along_one(kind) for kind in (*KINDS, *HALVED)),
    *(along_several(many(kind, tail), usual) for tail, usual in (("2", (-2, -1)), ("n", None)) for kind in KINDS),
)
"""All of them, as they stand in the table."""
