"""Complex numbers as pairs: a complex tensor is a real one with one more axis, (re, im), as ``view_as_real`` has it.

Nothing here is complex to the calculus. With a real L, torch puts ∂L/∂re + i·∂L/∂im into ``.grad`` of a complex
leaf, so ``view_as_real(z.grad)`` is the ordinary gradient of the pairs: the real derivation is all there is. In an
equation c is the part, 0 or 1.

The discrete Fourier transforms are linear: a sum against cosines and sines of 2πjk/n along each axis. Their pullback
is the same kind of sum the other way round, and comes out of the equation. Where a transform takes or gives half a
spectrum, the other half is its mirror image, and an entry that stands for two counts twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.operands import axis_of, positive, reals
from symgrad.entries.spec import Op
from symgrad.errors import InputError, ShapeError
from symgrad.indexing.symbols import Expr
from symgrad.ops.products import matmul
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes

PAIR = sp.Integer(2)
MADE, TAKEN, KEPT, BOTH = (frozenset(names) for names in (("out",), ("x",), ("x", "out"), ("x", "y", "out")))
"""What is a pair: the result only, the operand only, both, and two operands and the result."""


def unpaired(sizes: Sizes, shape: Shape) -> Shape:
    """The shape of the complex tensor whose pairs have ``shape``."""
    if not shape:
        raise ShapeError("a complex number is a pair (re, im): a last axis of size 2", found=("a single number",))
    if sizes.number(shape[-1]) not in (None, 2):
        raise ShapeError("a complex tensor is one of pairs (re, im): its last axis has size 2")
    sizes.unify(shape[-1], PAIR)
    return shape[:-1]


def broadcast_as_matrices(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
    """Two operands of pairs are broadcast as matrices are."""
    return tuple((*s, PAIR) for s in matmul.rules.align(sizes, tuple(unpaired(sizes, s) for s in shapes)))


def complexes(x: Any) -> Any:
    """NumPy: pairs as complex numbers."""
    return np.ascontiguousarray(x, dtype=np.float64).view(np.complex128)[..., 0]  # a sum would lose the sign of −0


def pairs_from_complex(z: Any) -> Any:
    """NumPy: complex numbers as pairs."""
    return np.stack([np.real(z), np.imag(z)], axis=-1)


def as_torch(torch: Any, x: Any) -> Any:
    """torch: pairs as complex numbers."""
    return torch.view_as_complex(x.contiguous())


# Making and taking apart ----------------------------------------------------------------------------


def combine_complex_in_torch(torch: Any, *parts: Any) -> Any:
    """torch's complex numbers of both parts, which it takes of one type and shape."""
    given = torch.broadcast_tensors(*(torch.as_tensor(part, dtype=torch.float64) for part in parts))
    return torch.view_as_real(torch.complex(*given))


def complex_entry(
    word: str, equation: str, says: str, shown: str = "view_as_real({})", home: Any = (), **given: Any
) -> Op:
    """An entry that takes each complex number to another one, or to a real one, as NumPy and torch call it."""
    paired = shown.startswith("view_as_real")

    def by_torch(torch: Any, x: Any) -> Any:
        found = getattr(torch, word)(as_torch(torch, x))
        return torch.view_as_real(found.resolve_conj()) if paired else found.clone()

    def values(x: Any) -> Any:
        return pairs_from_complex(getattr(np, word)(complexes(x))) if paired else getattr(np, word)(complexes(x))

    shown = f"{shown.format(f'{word}(view_as_complex(x))')} with x:3x2"
    facts: dict[str, Any] = {"torch": by_torch, "examples": (shown,), **given}
    return op(
        f"complex_{word}(x)", equation, says, home, letters="ijkl" if paired else "",
        complex_pairs=KEPT if paired else TAKEN, forward=values, **facts,
    )  # fmt: skip


OFF_AXES = {"x": reals(avoid=(0.0,))}
PARTS = " where a = x[…,0], b = x[…,1]"
SQUARED = " where q = x[…,0]² + x[…,1]²"
PRODUCT = "out[…,c<2] = δ(c, 0)·(x[…,0]·y[…,0] − x[…,1]·y[…,1]) + δ(c, 1)·(x[…,0]·y[…,1] + x[…,1]·y[…,0])"


def of_matrices(shapes: Any, **options: Any) -> str:
    """The equation of the product for matrices, a vector on either side without its index."""
    row, column = ("" if len(shape) == 2 else letter for shape, letter in zip(shapes, ("i,", "k,"), strict=True))
    lead = "…," if len(shapes[0]) > 2 or len(shapes[1]) > 2 else ""
    left, right = (f"{'…,' if len(shape) > 2 else ''}" for shape in shapes)
    x, y = f"x[{left}{row}j,{{}}]", f"y[{right}j,{column}{{}}]"
    parts = [f"(Σ_j {x.format(s)}·{y.format(t)})" for s, t in ("00", "11", "01", "10")]
    return f"out[{lead}{row}{column}c<2] = δ(c, 0)·({parts[0]} − {parts[1]}) + δ(c, 1)·({parts[2]} + {parts[3]})"


def by_both(function: str) -> Callable[..., Any]:
    """torch's function of two complex tensors."""
    return lambda torch, x, y: torch.view_as_real(getattr(torch, function)(as_torch(torch, x), as_torch(torch, y)))


# one operation, one row
# fmt: off
op("complex_pair(x, y)", "out[…,c<2] = δ(c, 0)·x[…] + δ(c, 1)·y[…]",
   "the complex numbers with real part x and imaginary part y, as pairs", ("torch.complex",), complex_pairs=MADE, letters="ijkl", torch=combine_complex_in_torch,
   role=Role.PAIRS,
   examples=("view_as_real(torch.complex(x, y))",))
op("complex_polar(r, t)", "out[…,c<2] = δ(c, 0)·r[…]·cos(t[…]) + δ(c, 1)·r[…]·sin(t[…])",
   "the complex numbers with length r and angle t, as pairs", ("torch.polar",), complex_pairs=MADE, letters="ijkl", domain={"r": positive()},
   torch=lambda torch, r, t: torch.view_as_real(torch.polar(r, t)),
   examples=("view_as_real(torch.polar(r, t))",))
complex_entry("conj", "out[…,c] = δ(c, 0)·x[…,c] − δ(c, 1)·x[…,c]", "the conjugate: the imaginary part turned round",
      "view_as_real(conj_physical(view_as_complex(x)))", ("torch.conj_physical", "Tensor.conj_physical", "torch.conj", "Tensor.conj", "np.conj"))
complex_entry("real", "out[…] = x[…,0]", "the real part of complex numbers", "view_as_complex(x).real", ("torch.real", "Tensor.real", "np.real"))
complex_entry("imag", "out[…] = x[…,1]", "the imaginary part of complex numbers", "view_as_complex(x).imag", ("torch.imag", "Tensor.imag", "np.imag"))

# Lengths and angles ---------------------------------------------------------------------------------

complex_entry("abs", f"out[…] = √(q + [q = 0]) − [q = 0]{SQUARED}",
      "the length |x[i]| of each complex number; the derivative at 0 is 0", "{}", kinks=0)
complex_entry("angle", f"out[…] = (1 − [q = 0])·atan2(x[…,1], x[…,0] + [q = 0]){SQUARED}",
      "the angle of each complex number; 0 with derivative 0 at 0", "{}", ("torch.angle", "Tensor.angle", "np.angle"),
      kinks=0)

# Arithmetic -----------------------------------------------------------------------------------------

op("complex_mul(x, y)", PRODUCT, "products of complex numbers, as pairs", (), complex_pairs=BOTH, letters="ijkl",
   torch=by_both("mul"), examples=("view_as_real(view_as_complex(x) * view_as_complex(y)) with x:3x2 y:3x2",
                                   "view_as_real(view_as_complex(x) * view_as_complex(x)) with x:3x2"))
op("complex_matmul(x, y)", of_matrices(((0,) * 3, (0,) * 3)), "the matrix product of complex matrices, as pairs", (),
   complex_pairs=BOTH, align=broadcast_as_matrices, variants=of_matrices, torch=by_both("matmul"),
   examples=tuple(f"view_as_real(view_as_complex(x) @ view_as_complex(y)) with x:2x3x2 y:{y}" for y in ("3x2x2", "3x2")))
op("complex_div(x, y)", "out[…,c<2] = (δ(c, 0)·(a·p + b·q) + δ(c, 1)·(b·p − a·q)) / (p² + q²)"
   " where a = x[…,0], b = x[…,1], p = y[…,0], q = y[…,1]", "quotients of complex numbers, as pairs", (), complex_pairs=BOTH, letters="ijkl",
   forward=lambda x, y: pairs_from_complex(complexes(x) / complexes(y)), torch=by_both("div"),
   domain={"y": positive()}, examples=("view_as_real(view_as_complex(x) / view_as_complex(y)) with x:3x2 y:3x2",))

# Functions ------------------------------------------------------------------------------------------

complex_entry("exp", f"out[…,c<2] = δ(c, 0)·exp(a)·cos(b) + δ(c, 1)·exp(a)·sin(b){PARTS}",
      "the exponential function of complex numbers a + bi, as pairs")
complex_entry("log", f"out[…,c<2] = δ(c, 0)·log(a² + b²)/2 + δ(c, 1)·atan2(b, a){PARTS}",
      "the logarithm of the length, and the angle, of complex numbers as pairs", domain=OFF_AXES)
complex_entry("sqrt", f"out[…,c<2] = δ(c, 0)·(a² + b²)^(1/4)·cos(atan2(b, a)/2) + δ(c, 1)·(a² + b²)^(1/4)·sin(atan2(b, a)/2){PARTS}",
      "the root of complex numbers as pairs: the root of the length, half the angle", domain=OFF_AXES)
complex_entry("sin", f"out[…,c<2] = δ(c, 0)·sin(a)·cosh(b) + δ(c, 1)·cos(a)·sinh(b){PARTS}",
      "the sine of complex numbers, as pairs")
complex_entry("sinh", f"out[…,c<2] = δ(c, 0)·sinh(a)·cos(b) + δ(c, 1)·cosh(a)·sin(b){PARTS}",
      "the hyperbolic sine of complex numbers, as pairs")
complex_entry("cosh", f"out[…,c<2] = δ(c, 0)·cosh(a)·cos(b) + δ(c, 1)·sinh(a)·sin(b){PARTS}",
      "the hyperbolic cosine of complex numbers, as pairs")
complex_entry("cos", f"out[…,c<2] = δ(c, 0)·cos(a)·cosh(b) + δ(c, 1)·(−sin(a))·sinh(b){PARTS}",
      "the cosine of complex numbers, as pairs")


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
