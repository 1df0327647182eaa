"""The discrete Fourier transforms along one axis or several, complex tensors as pairs (re, im).

Each is linear: a sum against cosines and sines of 2πjk/n. Its pullback is the same kind of sum the other way
round, which nobody has to know: it comes out of the equation. Where a transform takes or gives half a spectrum,
the other half is its mirror image, and an entry that stands for two counts twice.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.options import one_of
from symgrad.entries.shaping import axis_of
from symgrad.entries.spec import At, Held, Options, View, no_alignment
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


def each_axis(rank: int, asked: Any, dim: Any) -> tuple[Axes, tuple[Any, ...]]:
    """Axes counted from the front, and the length that is asked for on each, or None."""
    lengths = None if asked is None else tuple(asked) if isinstance(asked, (tuple, list)) else (asked,)
    if dim is None:
        dim = range(rank - (rank if lengths is None else len(lengths)), rank)
    axes = tuple(axis_of(d, rank) for d in (dim if isinstance(dim, (tuple, list, range)) else (dim,)))
    if not axes or len(set(axes)) < len(axes) or (lengths is not None and len(lengths) != len(axes)):
        raise ShapeError("a Fourier transform goes along each axis once, with one length for each")
    return axes, (None,) * len(axes) if lengths is None else lengths


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


@dataclass(frozen=True)
class Transform:
    """A transform: its direction, what it takes and gives, and the ``usual`` axes: one, several, or None for all."""

    word: str
    forward: bool
    complex_in: bool = True
    complex_out: bool = True
    usual: int | tuple[int, ...] | None = -1

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, Held], options: Options) -> Expr:
        """The output's entry."""
        lengths, dims, norm = *self.along(options), str(options["norm"])
        factor, sign = scale(lengths, norm, self.forward), -1 if self.forward else 1
        i, real_out, (x,) = at[:-1] if self.complex_out else at, not self.complex_out, views
        assert x is not None
        real, imag = transformed(i, x, lengths, dims, sign, self.complex_in, halved=real_out)
        return factor * real if real_out else pair(at[-1], factor * real, factor * imag)

    def along(self, options: Options) -> tuple[Lengths, Axes]:
        """The axes, and how many points there are on each."""
        given: Any = options
        lengths, dims = ((given["n"],), (given["dim"],)) if "n" in options else (given["s"], given["dim"])
        return tuple(sp.sympify(n, strict=True) for n in lengths), dims

    def shape(self, sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
        """The output's shape: half the spectrum where a real signal goes in."""
        lengths, dims = self.along(options)
        result = list(unpaired(sizes, shapes[0]) if self.complex_in else shapes[0])
        for n, dim in zip(lengths, dims, strict=True):
            result[dim] = n if self.complex_in or dim != dims[-1] else half(n)
        return (*result, *((PAIR,) if self.complex_out else ()))

    def prepare(
        self, shapes: tuple[Shape, ...], dim: Any, norm: Any, n: Any = None, s: Any = None
    ) -> dict[str, Hashable]:
        """The axes from the front, each with its length."""
        signal, one = shapes[0][: -1 if self.complex_in else None], self.usual == -1
        if not signal:
            raise ShapeError("a Fourier transform needs an axis to go along")
        axes, asked = each_axis(len(signal), s if n is None else (n,), (dim,) if one else dim)
        own = [signal[a] if self.complex_out or a != axes[-1] else whole(signal[a]) for a in axes]
        kept = [length is None or (length == -1 and not one) for length in asked]
        points = tuple(checked_length(a if k else b) for a, b, k in zip(own, asked, kept, strict=True))
        along: dict[str, Hashable] = {"n": points[0], "dim": axes[0]} if one else {"s": points, "dim": axes}
        return {**along, "norm": one_of(NORMS, "norm", norm or "backward")}

    def by_torch(self, torch: Any, x: Any, *, dim: Any, norm: str, n: Any = None, s: Any = None) -> Any:
        """torch's own."""
        found = getattr(torch.fft, self.word)(as_torch(torch, x) if self.complex_in else x, numbers(n, s), dim, norm)
        return torch.view_as_real(found.resolve_conj()) if self.complex_out else found

    def by_numpy(self, x: Any, *, dim: Any, norm: str, n: Any = None, s: Any = None) -> Any:
        """NumPy's own: in n·log n steps."""
        values = complexes(x) if self.complex_in else np.asarray(x, float)
        found = getattr(np.fft, self.word)(values, numbers(n, s), dim, norm)
        return pairs(found) if self.complex_out else found


def numbers(n: Any, s: Any) -> Any:
    """A length, or several, for the array libraries."""
    return int(n) if s is None else tuple(int(k) for k in s)


def transform(kind: Transform, equation: str, says: str) -> None:
    """Put it into the table."""
    given, last = ("view_as_complex(x)", "x2") if kind.complex_in else ("x", "")
    length, calls = "n", [("", "4"), (', dim=0, norm="ortho"', "3x2"), (', 3, 1, "forward"', "2x4"), (", n=6", "3")]
    if kind.usual != -1:
        length, calls = "s", [("", "2x3"), (', (2, 3), (1, 0), "ortho"', "2x2")]
        says = f"{says}, along {'the last two' if kind.usual else 'all'} axes or those of dim, j, k and n one for each"
        equation = equation.replace("·jk/n", "·Σ jk/n").replace(" / n", " / Πn")
    shown = "view_as_real(torch.fft.{}({}{}))" if kind.complex_out else "torch.fft.{}({}{})"
    op(f"complex_{kind.word}(x, {length}: any=None, dim: any={kind.usual}, norm: any | str=None)", equation,
       f"{says}; n points, by {length} cut off or filled up with 0, and norm can put 1/n, or 1/√n both ways, elsewhere",
       (f"torch.fft.{kind.word}", f"np.fft.{kind.word}"), reading=kind, prepare=kind.prepare, shape=kind.shape,
       align=no_alignment, forward=kind.by_numpy, torch=kind.by_torch, letters="kjl",
       pairs=KEPT if kind.complex_in and kind.complex_out else TAKEN if kind.complex_in else MADE,
       examples=[f"{shown.format(kind.word, given, option)} with x:{shape}{last}" for option, shape in calls])  # fmt: skip


KINDS = (
    (Transform("fft", forward=True), "out[k] = Σ_j x[j]·exp(−2πi·jk/n), complex numbers as pairs (re, im)",
     "the discrete Fourier transform"),
    (Transform("ifft", forward=False), "out[k] = Σ_j x[j]·exp(2πi·jk/n) / n, complex numbers as pairs (re, im)",
     "the inverse discrete Fourier transform"),
    (Transform("rfft", forward=True, complex_in=False), "out[k] = Σ_j x[j]·exp(−2πi·jk/n) for k ≤ n/2, as pairs (re, im)",
     "the first half of a real signal's spectrum: the rest is its mirror image"),
    (Transform("irfft", forward=False, complex_out=False),
     "out[j] = Σ_k w[k]·Re(x[k]·exp(2πi·jk/n)) / n, w[k] = 2, but 1 at 0 and n/2",
     "the real signal with this half of a spectrum"),
)  # fmt: skip
"""The transforms that go along several axes, too."""
HALVED = (
    (Transform("hfft", forward=True, complex_out=False),
     "out[k] = Σ_j w[j]·Re(x[j]·exp(−2πi·jk/n)), w[j] = 2, but 1 at 0 and n/2",
     "the real spectrum of a signal of which this is the first half, the rest its mirror image"),
    (Transform("ihfft", forward=False, complex_in=False), "out[j] = Σ_k x[k]·exp(2πi·jk/n) / n for j ≤ n/2, as pairs (re, im)",
     "the first half of the signal with this real spectrum"),
)  # fmt: skip
"""Their counterparts for a signal that is its own mirror image."""

for kind, equation, says in (*KINDS, *HALVED):
    transform(kind, equation, says)
for tail, usual in (("2", (-2, -1)), ("n", None)):
    for kind, equation, says in KINDS:
        transform(replace(kind, word=f"{kind.word}{tail}", usual=usual), equation, says)
