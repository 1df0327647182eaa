"""Complex numbers as pairs: a complex tensor is a real one with one more axis, (re, im), as ``view_as_real`` has it.

Nothing here is complex to the calculus. With a real L, torch puts ∂L/∂re + i·∂L/∂im into ``.grad`` of a complex
leaf, so ``view_as_real(z.grad)`` is the ordinary gradient of the pairs: the real derivation is all there is. A
product of complex tensors is built from the real operation's own equation, once for each pair of parts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import ShapeError
from symgrad.indexing import Bracket, delta
from symgrad.indexing.symbols import Expr, access
from symgrad.ops.contracting.contractions import matmul
from symgrad.ops.domain import positive, reals
from symgrad.ops.scalar.pointwise import mul
from symgrad.ops.shaping import broadcast
from symgrad.ops.spec import At, Op, View, example, operation
from symgrad.shapes import Shape, Sizes

PAIR = sp.Integer(2)
MADE, TAKEN, KEPT, BOTH = (frozenset(names) for names in (("out",), ("x",), ("x", "out"), ("x", "y", "out")))
"""What is a pair: the result only, the operand only, both, and two operands and the result."""


@dataclass(frozen=True)
class Half(View):
    """The real (0) or imaginary (1) part of a tensor of pairs, as an operand of its own."""

    part: int = 0

    def __getitem__(self, indices: Any) -> Expr:
        at = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
        return access(self.name, (*at, sp.Integer(self.part)))


def halves(x: View) -> tuple[View, View]:
    """Real and imaginary part."""
    return Half(x.name, x.shape[:-1], None, 0), Half(x.name, x.shape[:-1], None, 1)


def pair(c: Expr, real: Expr, imag: Expr) -> Expr:
    """The part number c of the complex number (real, imag)."""
    return delta(c, sp.S.Zero) * real + delta(c, sp.S.One) * imag


def unpaired(sizes: Sizes, shape: Shape) -> Shape:
    """The shape of the complex tensor whose pairs have ``shape``."""
    if not shape:
        raise ShapeError("a complex number is a pair (re, im): a last axis of size 2", found=("a single number",))
    if sizes.number(shape[-1]) not in (None, 2):
        raise ShapeError("a complex tensor is one of pairs (re, im): its last axis has size 2")
    sizes.unify(shape[-1], PAIR)
    return shape[:-1]


def same_pairs(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
    """The output has the pairs of the first operand."""
    return (*unpaired(sizes, shapes[0]), PAIR)


def one_each(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
    """One real number for each pair."""
    return unpaired(sizes, shapes[0])


def complexes(x: Any) -> Any:
    """NumPy: pairs as complex numbers."""
    return np.ascontiguousarray(x, dtype=np.float64).view(np.complex128)[..., 0]  # a sum would lose the sign of −0


def pairs(z: Any) -> Any:
    """NumPy: complex numbers as pairs."""
    return np.stack([np.real(z), np.imag(z)], axis=-1)


def spelled(*words: str) -> tuple[str, ...]:
    """As function and method."""
    return tuple(f"{place}.{word}" for word in words for place in ("torch", "Tensor"))


def as_torch(torch: Any, x: Any) -> Any:
    """torch: pairs as complex numbers."""
    return torch.view_as_complex(x.contiguous())


def split(x: Any) -> tuple[Any, Any]:
    """NumPy: both parts, exact where they are."""
    x = np.asarray(x)
    return x[..., 0], x[..., 1]


# Making and taking apart ----------------------------------------------------------------------------


@operation(
    says="the complex numbers with real part x and imaginary part y, as pairs",
    numpy=lambda x, y: np.stack(np.broadcast_arrays(x, y), axis=-1),
    torch=lambda torch, x, y: torch.view_as_real(
        torch.complex(*torch.broadcast_tensors(*(torch.as_tensor(part, dtype=torch.float64) for part in (x, y))))
    ),
    shape=lambda sizes, shapes: (*sizes.broadcast_shapes(shapes), PAIR), align=broadcast,
    spelled=("torch.complex",), pairs=MADE,
    examples=(example("view_as_real(torch.complex(x, y))", x=(2, 3), y=(2, 3)),),
)  # fmt: skip
def complex_pair(at: At, x: View, y: View) -> Expr:
    """out[i,c] = δ_c0·x[i] + δ_c1·y[i]"""
    *i, c = at
    return pair(c, x[i], y[i])


@operation(
    says="the complex numbers with length r and angle t, as pairs",
    numpy=lambda r, t: np.stack([r * np.cos(t), r * np.sin(t)], axis=-1),
    torch=lambda torch, r, t: torch.view_as_real(torch.polar(r, t)),
    shape=lambda sizes, shapes: (*sizes.broadcast_shapes(shapes), PAIR), align=broadcast,
    spelled=("torch.polar",), pairs=MADE, domain={"r": positive()},
    examples=(example("view_as_real(torch.polar(r, t))", r=(2, 3), t=(2, 3)),),
)  # fmt: skip
def complex_polar(at: At, r: View, t: View) -> Expr:
    """out[i,c] = δ_c0·r[i]·cos(t[i]) + δ_c1·r[i]·sin(t[i])"""
    *i, c = at
    return pair(c, r[i] * sp.cos(t[i]), r[i] * sp.sin(t[i]))


@operation(
    says="the conjugate: the imaginary part turned round",
    numpy=lambda x: np.stack([split(x)[0], -split(x)[1]], axis=-1),
    torch=lambda torch, x: torch.view_as_real(as_torch(torch, x).conj().resolve_conj()),
    shape=same_pairs, spelled=(*spelled("conj_physical", "conj"), "np.conj"), pairs=KEPT,
    examples=(example("view_as_real(conj_physical(view_as_complex(x)))", x=(3, 2)),),
)  # fmt: skip
def complex_conj(at: At, x: View) -> Expr:
    """out[i,c] = (δ_c0 − δ_c1)·x[i,c], the conjugate of x[i,0] + i·x[i,1]"""
    return pair(at[-1], x[at], -x[at])


def part(number: int, word: str, says: str) -> Op:
    """The entry for one of the two parts."""

    def index(at: At, x: View) -> Expr:
        return halves(x)[number][at]

    index.__name__, index.__doc__ = f"complex_{word}", f"out[i] = x[i,{number}]"
    return operation(
        says=says, numpy=lambda x: split(x)[number], torch=lambda torch, x: getattr(as_torch(torch, x), word).clone(),
        shape=one_each, pairs=TAKEN, spelled=(*spelled(word), f"np.{word}"),
        examples=(example(f"view_as_complex(x).{word}", x=(3, 2)),),
    )(index)  # fmt: skip


complex_real = part(0, "real", "the real part of complex numbers")
complex_imag = part(1, "imag", "the imaginary part of complex numbers")

# Lengths and angles ---------------------------------------------------------------------------------

OFF_AXES = {"x": reals(avoid=(0.0,))}


def squared(x: View, i: Any) -> tuple[Expr, Expr]:
    """|x[i]|², and [x[i] = 0]."""
    real, imag = halves(x)
    length = real[i] ** 2 + imag[i] ** 2
    return length, Bracket(sp.Eq(length, 0))


@operation(
    says="the length |x[i]| of each complex number; the derivative at 0 is 0",
    numpy=lambda x: np.abs(complexes(x)), torch=lambda torch, x: as_torch(torch, x).abs(),
    shape=one_each, pairs=TAKEN, domain=OFF_AXES, kinks=(0.0,), smooth=False,
    examples=(example("abs(view_as_complex(x))", x=(3, 2)),),
)  # fmt: skip
def complex_abs(at: At, x: View) -> Expr:
    """out[i] = √(x[i,0]² + x[i,1]²), and 0 with derivative 0 where both are 0"""
    length, zero = squared(x, at)
    return sp.sqrt(length + zero) - zero


@operation(
    says="the angle of each complex number; 0 with derivative 0 at 0",
    numpy=lambda x: np.angle(complexes(x)), torch=lambda torch, x: as_torch(torch, x).angle(),
    shape=one_each, pairs=TAKEN, domain=OFF_AXES, smooth=False, kinks=(0.0,),
    examples=(example("angle(view_as_complex(x))", x=(3, 2)),), spelled=(*spelled("angle"), "np.angle"),
)  # fmt: skip
def complex_angle(at: At, x: View) -> Expr:
    """out[i] = atan2(x[i,1], x[i,0])"""
    real, imag = halves(x)
    _, zero = squared(x, at)
    return (1 - zero) * sp.atan2(imag[at], real[at] + zero)


# Arithmetic -----------------------------------------------------------------------------------------


def product(name: str, real: Op, says: str, examples: Any, **facts: Any) -> Op:
    """A product of complex tensors, from the real one's equation: (a + bi)(c + di) = (ac − bd) + (ad + bc)i."""

    def shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
        return (*real.shape(sizes, tuple(unpaired(sizes, s) for s in shapes)), PAIR)

    def align(sizes: Sizes, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return tuple((*s, PAIR) for s in real.align(sizes, tuple(unpaired(sizes, s) for s in shapes)))

    def values(x: Any, y: Any) -> Any:
        (a, b), (c, d) = split(x), split(y)
        times = real.numpy
        assert times is not None
        return np.stack([times(a, c) - times(b, d), times(a, d) + times(b, c)], axis=-1)

    def index(at: At, x: View, y: View) -> Expr:
        *i, c = at
        left, right = halves(x), halves(y)

        def term(s: int, t: int) -> Expr:
            return real.index(tuple(i), [left[s], right[t]], {}, {})

        return pair(c, term(0, 0) - term(1, 1), term(0, 1) + term(1, 0))

    index.__name__ = name
    index.__doc__ = f"out[c] = δ_c0·(f(x₀, y₀) − f(x₁, y₁)) + δ_c1·(f(x₀, y₁) + f(x₁, y₀)), f: {real.definition}"
    return operation(
        says=says, numpy=values, shape=shape, align=align, examples=examples, pairs=BOTH,
        torch=lambda torch, x, y: torch.view_as_real(real.torch(torch, as_torch(torch, x), as_torch(torch, y))),
        **facts,
    )(index)  # fmt: skip


complex_mul = product(
    "complex_mul", mul, "products of complex numbers, as pairs",
    (example("view_as_real(view_as_complex(x) * view_as_complex(y))", x=(3, 2), y=(3, 2)),
     example("view_as_real(view_as_complex(x) * view_as_complex(x))", x=(3, 2))),
)  # fmt: skip
complex_matmul = product(
    "complex_matmul", matmul, "the matrix product of complex matrices, as pairs",
    (example("view_as_real(view_as_complex(x) @ view_as_complex(y))", x=(2, 3, 2), y=(3, 2, 2)),
     example("view_as_real(view_as_complex(x) @ view_as_complex(y))", x=(2, 3, 2), y=(3, 2))),
)  # fmt: skip


@operation(
    says="quotients of complex numbers, as pairs",
    numpy=lambda x, y: pairs(complexes(x) / complexes(y)),
    torch=lambda torch, x, y: torch.view_as_real(as_torch(torch, x) / as_torch(torch, y)),
    shape=complex_mul.shape, align=complex_mul.align, pairs=BOTH, domain={"y": positive()},
    examples=(example("view_as_real(view_as_complex(x) / view_as_complex(y))", x=(3, 2), y=(3, 2)),),
)  # fmt: skip
def complex_div(at: At, x: View, y: View) -> Expr:
    """out[i] = x[i]·conj(y[i]) / |y[i]|², as a pair"""
    *i, c = at
    (a, b), (p, q) = ([part[i] for part in halves(view)] for view in (x, y))
    return pair(c, a * p + b * q, b * p - a * q) / (p**2 + q**2)


# Functions ------------------------------------------------------------------------------------------


def function(name: str, formula: Callable[[Expr, Expr], tuple[Expr, Expr]], says: str, **facts: Any) -> Op:
    """An entry that takes each complex number to another, (a, b) ↦ ``formula``(a, b)."""
    word = name.removeprefix("complex_")

    def index(at: At, x: View) -> Expr:
        *i, c = at
        return pair(c, *formula(*(part[i] for part in halves(x))))

    index.__name__ = name
    index.__doc__ = f"out[i] = {says}, as a pair (re, im)"
    return operation(
        says=f"{says}, of complex numbers as pairs",
        numpy=lambda x: pairs(getattr(np, word)(complexes(x))),
        torch=lambda torch, x: torch.view_as_real(getattr(torch, word)(as_torch(torch, x))),
        shape=same_pairs, pairs=KEPT, examples=(example(f"view_as_real({word}(view_as_complex(x)))", x=(3, 2)),), **facts,
    )(index)  # fmt: skip


def root(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """√(a + bi) by half the angle."""
    length, angle = (a**2 + b**2) ** sp.Rational(1, 4), sp.atan2(b, a) / 2
    return length * sp.cos(angle), length * sp.sin(angle)


complex_exp = function(
    "complex_exp", lambda a, b: (sp.exp(a) * sp.cos(b), sp.exp(a) * sp.sin(b)), "exp(x₀[i])·(cos x₁[i], sin x₁[i])"
)  # fmt: skip
complex_log = function(
    "complex_log", lambda a, b: (sp.log(a**2 + b**2) / 2, sp.atan2(b, a)), "(log |x[i]|, angle of x[i])",
    domain=OFF_AXES,
)  # fmt: skip
complex_sqrt = function("complex_sqrt", root, "√x[i], half the angle of x[i]", domain=OFF_AXES)
complex_sin = function(
    "complex_sin", lambda a, b: (sp.sin(a) * sp.cosh(b), sp.cos(a) * sp.sinh(b)), "sin x[i]",
)  # fmt: skip
complex_sinh = function(
    "complex_sinh", lambda a, b: (sp.sinh(a) * sp.cos(b), sp.cosh(a) * sp.sin(b)), "sinh x[i]",
)  # fmt: skip
complex_cosh = function(
    "complex_cosh", lambda a, b: (sp.cosh(a) * sp.cos(b), sp.sinh(a) * sp.sin(b)), "cosh x[i]",
)  # fmt: skip
complex_cos = function(
    "complex_cos", lambda a, b: (sp.cos(a) * sp.cosh(b), -sp.sin(a) * sp.sinh(b)), "cos x[i]",
)  # fmt: skip
