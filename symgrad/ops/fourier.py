"""The discrete Fourier transforms along one axis, complex tensors as pairs (re, im).

Each is linear: a sum against cosines and sines of 2πjk/n. Its pullback is the same kind of sum the other way
round, which nobody has to know: it comes out of the equation. Where a transform takes or gives half a spectrum,
the other half is its mirror image, and an entry that stands for two counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, Index, add_up, bracket, fresh
from symgrad.indexing.symbols import Expr
from symgrad.ops.complex_pairs import KEPT, MADE, PAIR, TAKEN, as_torch, complexes, halves, pair, pairs, unpaired
from symgrad.ops.reductions import axis_of
from symgrad.ops.spec import At, Op, View, example, operation
from symgrad.shapes import Shape, Sizes

NORMS = ("backward", "ortho", "forward")
"""Where 1/n goes: into the inverse, into both as 1/√n, into the forward transform."""
Part = Callable[[Index], tuple[Expr, Expr]]


def scale(n: Expr, norm: str, forward: bool) -> Expr:
    """What a sum is multiplied by."""
    if norm == "ortho":
        return 1 / sp.sqrt(n)
    return 1 / n if (norm == "forward") is forward else sp.S.One


def half(n: Expr) -> Expr:
    """The entries that a real signal's spectrum needs."""
    return sp.floor(n / 2) + 1


def prepared(complex_in: bool, whole: Callable[[Expr], Expr]) -> Callable[..., dict[str, Hashable]]:
    """The axis from the front among those of the complex tensor, and the length of the whole signal."""

    def prepare(
        shapes: tuple[Shape, ...], n: Any = None, dim: int = -1, norm: str | None = None
    ) -> dict[str, Hashable]:
        shape = shapes[0][:-1] if complex_in else shapes[0]
        if not shape:
            raise ShapeError("a Fourier transform needs an axis to go along")
        if norm not in (None, *NORMS):
            raise InputError(
                "there is no such norm", found=(f"norm={norm!r}",), hints=("'backward', 'ortho', 'forward'",)
            )
        axis = axis_of(dim, len(shape))
        length = whole(shape[axis]) if n is None else sp.sympify(n, strict=True)
        if length.is_number and not (length.is_Integer and length >= 1):
            raise InputError("a Fourier transform has at least one point", found=(f"n={length}",))
        return {"n": length, "dim": axis, "norm": norm or "backward"}

    return prepare


def put(at: Any, dim: int, index: Expr) -> list[Expr]:
    """The indices ``at`` with one of them replaced."""
    return [*at[:dim], index, *at[dim + 1 :]]


def running(size: Expr, count: Expr, hint: str) -> tuple[Index, Expr]:
    """An index over the entries that are read: those of an axis that come before ``count``; the rest are 0."""
    if size.is_Integer and count.is_Integer:
        return fresh(hint, min(size, count)), sp.S.One
    index = fresh(hint, size)
    return index, sp.S.One if size == count else bracket(sp.Lt(index, count, evaluate=False))


def spun(real: Expr, imag: Expr, angle: Expr, sign: int) -> tuple[Expr, Expr]:
    """(real + i·imag)·exp(sign·i·angle)."""
    cos, sin = sp.cos(angle), sign * sp.sin(angle)
    return real * cos - imag * sin, real * sin + imag * cos


def spectrum(at: At, x: View, n: Expr, dim: int, factor: Expr, sign: int, complex_in: bool) -> Expr:
    """Σ_j x[j]·exp(sign·2πi·jk/n), a pair."""
    n, (*i, c) = sp.sympify(n, strict=True), at
    parts = halves(x) if complex_in else (x, None)
    j, inside = running(parts[0].shape[dim], n, "j")
    place = put(i, dim, j)
    imag = parts[1][place] if parts[1] is not None else sp.S.Zero
    re, im = spun(parts[0][place], imag, 2 * sp.pi * j * i[dim] / n, sign)
    return pair(c, factor * add_up(inside * re, [j]), factor * add_up(inside * im, [j]))


def signal(at: At, x: View, n: Expr, dim: int, factor: Expr, sign: int) -> Expr:
    """Σ_k w[k]·Re(x[k]·exp(sign·2πi·jk/n)) over half a spectrum: w[k] is 2, but 1 where k is its own mirror image."""
    n = sp.sympify(n, strict=True)
    real, imag = halves(x)
    k, inside = running(real.shape[dim], half(n), "k")
    place = put(at, dim, k)
    twice = 2 - Bracket(sp.Eq(k, 0)) - Bracket(sp.Eq(2 * k, n))
    re, _ = spun(real[place], imag[place], 2 * sp.pi * k * at[dim] / n, sign)
    return factor * add_up(inside * twice * re, [k])


# The entries ----------------------------------------------------------------------------------------


def by_torch(word: str, complex_in: bool, complex_out: bool) -> Callable[..., Any]:
    """torch's own."""

    def values(torch: Any, x: Any, n: Any, dim: int, norm: str) -> Any:
        found = getattr(torch.fft, word)(as_torch(torch, x) if complex_in else x, int(n), dim, norm)
        return torch.view_as_real(found.resolve_conj()) if complex_out else found

    return values


def by_numpy(word: str, complex_in: bool, complex_out: bool) -> Callable[..., Any]:
    """NumPy's own."""

    def values(x: Any, n: Any, dim: int, norm: str) -> Any:
        found = getattr(np.fft, word)(complexes(x) if complex_in else np.asarray(x, float), int(n), dim, norm)
        return pairs(found) if complex_out else found

    return values


def examples(word: str, complex_in: bool, complex_out: bool) -> Any:
    """A signal, and an axis of a matrix with another length and norm."""
    given = "view_as_complex(x)" if complex_in else "x"
    last = (2,) if complex_in else ()
    texts = [f"torch.fft.{word}({given}{rest})" for rest in ("", ', dim=0, norm="ortho"', ', 3, 1, "forward"', ", n=6")]
    shapes = [(4, *last), (3, 2, *last), (2, 4, *last), (3, *last)]
    wrap = "view_as_real({})" if complex_out else "{}"
    return tuple(example(wrap.format(text), x=shape) for text, shape in zip(texts, shapes, strict=True))


def transform(
    word: str, definition: str, says: str, forward: bool, complex_in: bool, complex_out: bool, halved: bool = False
) -> Op:
    """One entry: ``forward`` transforms have exp(−i…), ``halved`` ones give half a spectrum."""
    sign = -1 if forward else 1

    def index(at: At, x: View, n: Any = None, dim: int = -1, norm: str | None = None) -> Expr:
        # hfft and ihfft bring the norm of the other direction
        factor = scale(sp.sympify(n, strict=True), str(norm), forward)
        if complex_out:
            return spectrum(at, x, n, dim, factor, sign, complex_in)
        return signal(at, x, n, dim, factor, sign)

    def shape(sizes: Sizes, shapes: tuple[Shape, ...], n: Expr, dim: int, norm: str) -> Shape:
        whole = unpaired(sizes, shapes[0]) if complex_in else shapes[0]
        length = half(n) if halved else n
        return (*whole[:dim], length, *whole[dim + 1 :], *((PAIR,) if complex_out else ()))

    index.__name__ = f"complex_{word}"
    index.__doc__ = definition
    return operation(
        says=says, numpy=by_numpy(word, complex_in, complex_out), torch=by_torch(word, complex_in, complex_out),
        shape=shape, prepare=prepared(complex_in, (lambda m: m) if complex_out else (lambda m: 2 * (m - 1))),
        spelled=(f"torch.fft.{word}", f"np.fft.{word}"), examples=examples(word, complex_in, complex_out),
        pairs=KEPT if complex_in and complex_out else TAKEN if complex_in else MADE, letters="kjl",
    )(index)  # fmt: skip


fft = transform(
    "fft", "out[k] = Σ_j x[j]·exp(−2πi·jk/n), complex numbers as pairs (re, im)",
    "the discrete Fourier transform", forward=True, complex_in=True, complex_out=True,
)  # fmt: skip
ifft = transform(
    "ifft", "out[k] = Σ_j x[j]·exp(2πi·jk/n) / n, complex numbers as pairs (re, im)",
    "the inverse discrete Fourier transform", forward=False, complex_in=True, complex_out=True,
)  # fmt: skip
rfft = transform(
    "rfft", "out[k] = Σ_j x[j]·exp(−2πi·jk/n) for k ≤ n/2, as pairs (re, im)",
    "the first half of a real signal's spectrum: the rest is its mirror image",
    forward=True, complex_in=False, complex_out=True, halved=True,
)  # fmt: skip
irfft = transform(
    "irfft", "out[j] = Σ_k w[k]·Re(x[k]·exp(2πi·jk/n)) / n, w[k] = 2, but 1 at 0 and n/2",
    "the real signal with this half of a spectrum", forward=False, complex_in=True, complex_out=False,
)  # fmt: skip
hfft = transform(
    "hfft", "out[k] = Σ_j w[j]·Re(x[j]·exp(−2πi·jk/n)), w[j] = 2, but 1 at 0 and n/2",
    "the real spectrum of a signal of which this is the first half, the rest its mirror image",
    forward=True, complex_in=True, complex_out=False,
)  # fmt: skip
ihfft = transform(
    "ihfft", "out[j] = Σ_k x[k]·exp(2πi·jk/n) / n for j ≤ n/2, as pairs (re, im)",
    "the first half of the signal with this real spectrum",
    forward=False, complex_in=False, complex_out=True, halved=True,
)  # fmt: skip
