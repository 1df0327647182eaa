"""The discrete Fourier transforms along one axis or several, complex tensors as pairs (re, im).

Each is linear: a sum against cosines and sines of 2πjk/n. Its pullback is the same kind of sum the other way
round, which nobody has to know: it comes out of the equation. Where a transform takes or gives half a spectrum,
the other half is its mirror image, and an entry that stands for two counts twice.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.operands import axis_of
from symgrad.errors import InputError, ShapeError
from symgrad.indexing.symbols import Expr
from symgrad.ops.complex_pairs import (
    KEPT,
    MADE,
    TAKEN,
    as_torch,
    complexes,
    pairs_from_complex,
)
from symgrad.shapes import Shape

NORMS = ("backward", "ortho", "forward")
"""Where 1/n goes: into the inverse, into both as 1/√n, into the forward transform."""
Axes = tuple[int, ...]
Terms = list[tuple[int, str]]


def half(n: Expr) -> Expr:
    """The entries that a real signal's spectrum needs."""
    return sp.floor(n / 2) + 1


def checked_length(n: Any) -> Expr:
    """A length of at least one point."""
    length = sp.sympify(n, strict=True)
    if isinstance(n, bool) or (length.is_number and not (length.is_Integer and length >= 1)):
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


def spun(real: Terms, imag: Terms, angle: str, sign: int) -> tuple[Terms, Terms]:
    """(real + i·imag)·exp(sign·i·angle), term by term: each term is a product, so that its sum is a contraction."""

    def times(function: str, terms: Terms, by: int) -> Terms:
        return [(own * by, f"{term}·{function}({angle})") for own, term in terms]

    return (
        times("cos", real, 1) + times("sin", imag, -sign),
        times("sin", real, sign) + times("cos", imag, 1),
    )


# The entries ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Transform:
    """A transform: its direction, what it takes and gives, and the ``usual`` axes: one, several, or None for all."""

    word: str
    forward: bool
    complex_in: bool = True
    complex_out: bool = True
    usual: int | tuple[int, ...] | None = -1

    def text(self, shapes: Any, norm: str, dim: Any, n: Any = None, s: Any = None) -> str:
        """Σ_j x[j]·exp(±2πi·Σ jk/n); where the last axis holds half a spectrum, what stands for two twice."""
        (x,), dims, lengths = shapes, (dim,) if s is None else dim, (n,) if s is None else s
        names = ["n"] if s is None else [f"s{t}" for t in range(len(dims))]
        left, letters = [f"i{a}" for a in range(len(x) - self.complex_in)], [*"jlab", *(f"j{a}" for a in dims)]
        places, over, weight = list(left), list[str](), ""
        for a, name, length, j in zip(dims, names, lengths, letters, strict=False):
            halved, full = a == dims[-1] and not self.complex_out, self.complex_in or a != dims[-1]
            read, count = (half(length), f"⌊{name}/2⌋ + 1") if halved else (length, name)
            numbers = x[a].is_Integer and read.is_Integer
            left[a], places[a] = f"i{a}<{name if full else f'⌊{name}/2⌋ + 1'}", j
            over.append(f"{j}<{min(x[a], read)}" if numbers else j)
            weight += f"[{j} < {count}]·" * (not numbers and x[a] != read)
            weight += f"(2 − [{j} = 0] − [2·{j} = {name}])·" * halved
        at, points = ",".join(places), "·".join(names)
        real, imag = [(1, f"x[{at},0]" if self.complex_in else f"x[{at}]")], [(1, f"x[{at},1]")] * self.complex_in
        for a, name, j in zip(dims, names, letters, strict=False):
            real, imag = spun(real, imag, f"2·π·{j}·i{a}/{name}", -1 if self.forward else 1)
        factor = f"1/√({points})·" if norm == "ortho" else f"1/({points})·" * ((norm == "forward") is self.forward)
        re, im = (
            " ".join(f"{'−' if sign < 0 else '+'} (Σ_{{{','.join(over)}}} {weight}{term})" for sign, term in terms)
            for terms in (real, imag)
        )
        if self.complex_out:
            return f"out[{','.join(left)},c<2] = δ(c, 0)·{factor}(0 {re}) + δ(c, 1)·{factor}(0 {im})"
        return f"out[{','.join(left)}] = {factor}(0 {re})"

    def prepare(
        self, shapes: tuple[Shape, ...], dim: Any, norm: Any, n: Any = None, s: Any = None
    ) -> dict[str, Hashable]:
        """The axes from the front, each with its length."""
        signal, one = shapes[0][: -1 if self.complex_in else None], self.usual == -1
        if not signal:
            raise ShapeError("a Fourier transform needs an axis to go along")
        axes, asked = each_axis(len(signal), s if n is None else (n,), (dim,) if one else dim)
        own = [signal[a] if self.complex_out or a != axes[-1] else 2 * (signal[a] - 1) for a in axes]
        kept = [length is None or (length == -1 and not one) for length in asked]
        points = tuple(checked_length(a if k else b) for a, b, k in zip(own, asked, kept, strict=True))
        along: dict[str, Hashable] = {"n": points[0], "dim": axes[0]} if one else {"s": points, "dim": axes}
        return {**along, "norm": norm or "backward"}

    def called(self, library: Any, x: Any, dim: Any, norm: str, n: Any = None, s: Any = None) -> Any:
        """The function of an array library."""
        return getattr(library, self.word)(x, int(n) if s is None else tuple(map(int, s)), dim, norm)

    def by_torch(self, torch: Any, x: Any, **given: Any) -> Any:
        """torch's own."""
        found = self.called(torch.fft, as_torch(torch, x) if self.complex_in else x, **given)
        return torch.view_as_real(found.resolve_conj()) if self.complex_out else found

    def by_numpy(self, x: Any, **given: Any) -> Any:
        """NumPy's own: in n·log n steps."""
        found = self.called(np.fft, complexes(x) if self.complex_in else np.asarray(x, float), **given)
        return pairs_from_complex(found) if self.complex_out else found


def register_transform(kind: Transform, equation: str, says: str) -> None:
    """Put it into the table."""
    given, last = ("view_as_complex(x)", "x2") if kind.complex_in else ("x", "")
    length, calls = "n", [("", "4"), (', dim=0, norm="ortho"', "3x2"), (', 3, 1, "forward"', "2x4"), (", n=6", "3")]
    if kind.usual != -1:
        length, calls = "s", [("", "2x3"), (', (2, 3), (1, 0), "ortho"', "2x2")]
        says = f"{says}, along {'the last two' if kind.usual else 'all'} axes or those of dim, j, k and n one for each"
        equation = equation.replace("·jk/n", "·Σ jk/n").replace(" / n", " / Πn")
    lazy = ".resolve_conj()" if kind.word.startswith("ihfft") else ""  # which torch leaves to be conjugated
    shown = f"view_as_real(torch.fft.{{}}({{}}{{}}){lazy})" if kind.complex_out else "torch.fft.{}({}{})"
    op(f"complex_{kind.word}(x, {length}: {'int' if length == 'n' else 'any'}=None, dim: any={kind.usual}, norm: {' | '.join(map(repr, NORMS))}=None)", "",
       f"{says}; n points, by {length} cut off or filled up with 0, and norm can put 1/n, or 1/√n both ways, elsewhere",
       (f"torch.fft.{kind.word}", f"np.fft.{kind.word}"), definition=equation, variants=kind.text, prepare=kind.prepare,
       forward=kind.by_numpy, torch=kind.by_torch, letters="kjl",
       complex_pairs=KEPT if kind.complex_in and kind.complex_out else TAKEN if kind.complex_in else MADE,
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
    register_transform(kind, equation, says)
for tail, usual in (("2", (-2, -1)), ("n", None)):
    for kind, equation, says in KINDS:
        register_transform(replace(kind, word=f"{kind.word}{tail}", usual=usual), equation, says)
