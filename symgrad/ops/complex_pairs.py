"""Complex numbers as pairs: a complex tensor is a real one with one more axis, (re, im), as ``view_as_real`` has it.

Nothing here is complex to the calculus. With a real L, torch puts ∂L/∂re + i·∂L/∂im into ``.grad`` of a complex
leaf, so ``view_as_real(z.grad)`` is the ordinary gradient of the pairs: the real derivation is all there is. In an
equation c is the part, 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from symgrad.entries.equations import op
from symgrad.entries.operands import PAIR, complex_shape, positive, reals
from symgrad.entries.spec import Op
from symgrad.ops.products import matmul
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes

MADE, TAKEN, KEPT, BOTH = (frozenset(names) for names in (("out",), ("x",), ("x", "out"), ("x", "y", "out")))
"""What is a pair: the result only, the operand only, both, and two operands and the result."""


def broadcast_as_matrices(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
    """Two operands of pairs are broadcast as matrices are."""
    return tuple((*s, PAIR) for s in matmul.rules.align(sizes, tuple(complex_shape(sizes, s) for s in shapes)))


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
      "the logarithm of the length, and the angle, of complex numbers as pairs", domain=OFF_AXES, smooth=True)
complex_entry("sqrt", f"out[…,c<2] = δ(c, 0)·(a² + b²)^(1/4)·cos(atan2(b, a)/2) + δ(c, 1)·(a² + b²)^(1/4)·sin(atan2(b, a)/2){PARTS}",
      "the root of complex numbers as pairs: the root of the length, half the angle", domain=OFF_AXES, smooth=True)
complex_entry("sin", f"out[…,c<2] = δ(c, 0)·sin(a)·cosh(b) + δ(c, 1)·cos(a)·sinh(b){PARTS}",
      "the sine of complex numbers, as pairs")
complex_entry("sinh", f"out[…,c<2] = δ(c, 0)·sinh(a)·cos(b) + δ(c, 1)·cosh(a)·sin(b){PARTS}",
      "the hyperbolic sine of complex numbers, as pairs")
complex_entry("cosh", f"out[…,c<2] = δ(c, 0)·cosh(a)·cos(b) + δ(c, 1)·sinh(a)·sin(b){PARTS}",
      "the hyperbolic cosine of complex numbers, as pairs")
complex_entry("cos", f"out[…,c<2] = δ(c, 0)·cos(a)·cosh(b) + δ(c, 1)·(−sin(a))·sinh(b){PARTS}",
      "the cosine of complex numbers, as pairs")
