"""Operations along axes: what adds up, averages or chooses, and what runs: sums so far, differences of neighbours.

``dim`` may be one axis, several, or nothing for all; negative axes count from the end; ``keepdim`` leaves an
axis of size 1. A running sum is a sum with a condition: out[i] = Σ_j [j ≤ i]·x[j]. Its pullback is the same sum from
the other end. Running extremes select: the forward pass finds which entry is the extreme so far.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import METHOD, TORCH, op
from symgrad.entries.operands import Dim, axes_of, axis_of
from symgrad.entries.signatures import require_number
from symgrad.errors import InputError, ShapeError
from symgrad.functions import special
from symgrad.ops.distances import as_long_as, numpy_length
from symgrad.program import Role
from symgrad.shapes import Shape

WINNERS = "out = (Σ_j x[j]·[x[j] = out]) / (Σ_k [x[k] = out])"

# one operation, one row
# fmt: off
WITH_AXES = ("dim if keepdim",)
op("sum(x, dim: any=None, keepdim=False)", "out = Σ_j x[j]", "adds up the entries along dim", along="dim", result_dtype="counted", required=WITH_AXES)
op("mean(x, dim: any=None, keepdim=False)", "out = mean_j x[j]", "the average along dim", along="dim", role=Role.AVERAGES, required=WITH_AXES)
op("prod(x, dim: any=None, keepdim=False)", "out = Π_j x[j]", "multiplies the entries along dim", along="dim",
   result_dtype="counted", required=WITH_AXES, torch=lambda torch, x, dim, keepdim: (  # torch takes one axis or all
       torch.prod(x, dim[0], keepdim=keepdim) if len(dim) == 1 else torch.prod(x).reshape([1] * (keepdim * x.dim()))))
op("amax(x, dim: any=None, keepdim=False)", WINNERS, "the largest entry along dim; equal ones share the derivative "
                                                     "evenly", also="np.max", along="dim", forward=np.amax, kinks=0, result_dtype="kept")
op("amin(x, dim: any=None, keepdim=False)", WINNERS, "the smallest entry along dim; equal ones share the derivative "
                                                     "evenly", also="np.min", along="dim", forward=np.amin, kinks=0, result_dtype="kept")
# fmt: on

# Choosing -------------------------------------------------------------------------------------------


def choosing(word: str, place: Callable[..., Any], values: Callable[..., Any]) -> dict[str, Any]:
    """What max, min and median share: which entry it is along one axis, and its value."""
    return {
        "index_data": {"n": lambda x, dim, keepdim: None if dim is None else place(x, dim, keepdim)}, "forward": values,
        "home": METHOD, "along": "dim", "variants": {"dim=None": WINNERS}, "returns": ("values", "indices"),
        "checks": {"keepdim and dim=None": (InputError, "keepdim goes with a dim here", "amax and amin keep all axes")},
        "examples": (f"{word}(x)", f"{word}(x, dim=1).values"),
    }  # fmt: skip


# fmt: off
op("max(x, dim: axis | None=None, keepdim: bool=False)", "out = x[n], n: where the largest is",
   "the largest entry; along one dim the first of several equal ones wins", kinks=0, between_two="maximum", arrays="np.max",
   **choosing("max", lambda x, dim, keepdim: np.argmax(x, axis=dim, keepdims=keepdim), np.amax))
op("min(x, dim: axis | None=None, keepdim: bool=False)", "out = x[n], n: where the smallest is",
   "the smallest entry; along one dim the first of several equal ones wins", kinks=0, between_two="minimum", arrays="np.min",
   **choosing("min", lambda x, dim, keepdim: np.argmin(x, axis=dim, keepdims=keepdim), np.amin))
# fmt: on

# Spread and size ------------------------------------------------------------------------------------


def prepare_spread(
    shapes: tuple[Shape, ...], dim: Dim = None, unbiased: Any = None, correction: Any = None, keepdim: bool = False
) -> dict[str, Hashable]:
    """torch's two ways to say by what the sum of squares is divided, as one."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 0 if unbiased is False else 1
    return {"dim": axes_of(dim, len(shapes[0])), "correction": correction, "keepdim": keepdim}


def variance_of_arrays(x: Any, axis: tuple[int, ...], correction: Any, keepdims: bool) -> Any:
    """Σ (x − mean)² / (n − correction) on arrays; NumPy's own complains on stderr where n is 1 or 0."""
    count = np.float64(np.prod([x.shape[a] for a in axis]))
    far = x - np.sum(x, axis=axis, keepdims=True) / count
    return np.sum(far * far, axis=axis, keepdims=keepdims) / max(count - float(correction), np.float64(0))


def spread_by(equation: str) -> Callable[..., str]:
    """The equation, divided by 0 where there are fewer entries than the correction."""

    def text(shapes: Any, dim: tuple[int, ...], correction: Any, **options: Any) -> str:
        below = sp.Mul(*(shapes[0][a] for a in dim)) - sp.sympify(correction, strict=True)
        n = "size(x, -1)"
        return equation if below.is_nonnegative else equation.replace(BELOW, f"([{n} ≥ correction]·{BELOW})")

    return text


BELOW = "(size(x, -1) − correction)"
VAR = f"(Σ_j (x[j] − mean_k x[k])²) / {BELOW}"

# fmt: off
op("var(x, dim: any=None, unbiased: bool=None, correction: float=None, keepdim=False)", f"out = {VAR}",
   "the variance along dim: squared distances from the mean, over their number less the correction: 1, 0 if not unbiased", METHOD, along="dim",
   variants=spread_by(f"out = {VAR}"), prepare=prepare_spread,
   more=("var(x, dim=1, correction=0)",),
   arrays="x, dim=None, correction=1, keepdim=False: np.var(x, axis=dim, ddof=correction, keepdims=keepdim)")
op("std(x, dim: any=None, unbiased: bool=None, correction: float=None, keepdim=False)", f"out = [out ≠ 0]·√({VAR})",
   "the standard deviation along dim: the root of the variance, its correction 1, 0 if not unbiased; the derivative at 0 is 0", METHOD, along="dim",
   variants=spread_by(f"out = [out ≠ 0]·√({VAR})"), prepare=prepare_spread, reuse=True, kinks=0,
   forward=lambda x, **given: np.sqrt(variance_of_arrays(np.asarray(x, float), **given)),
   arrays="x, dim=None, correction=1, keepdim=False: np.std(x, axis=dim, ddof=correction, keepdims=keepdim)")
# fmt: on


def prepare_norm(shapes: tuple[Shape, ...], p: Any = 2, dim: Dim = None, keepdim: bool = False) -> dict[str, Hashable]:
    """p as a number."""
    return {
        "p": require_number("p", 2 if p in ("fro", None) else p),
        "dim": axes_of(dim, len(shapes[0])),
        "keepdim": keepdim,
    }


def prepare_linalg_norm(
    shapes: tuple[Shape, ...], ord: Any = None, dim: Dim = None, keepdim: bool = False
) -> dict[str, Hashable]:
    """As `prepare_norm` for vectors; of a matrix only the norm that looks at every entry."""
    over = len(shapes[0]) if dim is None else len(dim) if isinstance(dim, (tuple, list)) else 1
    if (isinstance(ord, str) or over != 1 or not shapes[0]) and (ord, over) not in ((None, over), ("fro", 2)):
        raise ShapeError(f"linalg.norm with ord={ord!r} is that of a vector or a matrix", found=(f"{over} axes",))
    told = prepare_norm(shapes, ord, dim, keepdim)
    return {"ord": told.pop("p"), **told}


def torch_length(torch: Any, x: Any, dim: tuple[int, ...], keepdim: bool, **p: Any) -> Any:
    """torch's, whatever the call has p for a name."""
    return torch.linalg.vector_norm(x, float(*p.values()), dim, keepdim)


LENGTH: dict[str, Any] = {"along": "dim", "torch": torch_length, "reuse": True, "kinks": 0, "role": Role.MEASURES}

# fmt: off
op("norm(x, p: any=2, dim: any=None, keepdim=False)", "out = [out ≠ 0]·(Σ_j |x[j]|^p)^(1/p)",
   "the length along dim: (Σ |x|ᵖ)^(1/p), Euclid's for p=2; the derivative at 0 is 0", METHOD, "torch.linalg.vector_norm",
   variants=as_long_as("x[j]"), prepare=prepare_norm, forward=numpy_length, **LENGTH,
   more=("norm(x, 1) with x:3", "norm(x, 3, dim=1)", "norm(x, 0.5, dim=0)", "norm(x, -1, dim=1)", "norm(x, 0) with x:3"))
op("linalg_norm(x, ord: any=None, dim: any=None, keepdim=False)", "out = [out ≠ 0]·(Σ_j |x[j]|^ord)^(1/ord)",
   "the length along dim as torch.linalg has it; with ord only of vectors, for a matrix that is another norm",
   ("torch.linalg.norm", "np.linalg.norm"), variants=as_long_as("x[j]", p="ord"), prepare=prepare_linalg_norm,
   forward=lambda x, ord, axis, keepdims: numpy_length(x, ord, axis, keepdims), template="torch.linalg.norm({})", **LENGTH,
   examples=("torch.linalg.norm(x)", "torch.linalg.norm(x, 1) with x:3", "torch.linalg.norm(x, 3, dim=1)"))
# fmt: on


def logsumexp_values(x: Any, axis: Any, keepdims: bool) -> Any:
    """SciPy's values, along every axis where ``axis`` is empty; a number of rank 0 has no axis to keep."""
    values = np.asarray(x, float)
    over: dict[str, Any] = {"axis": axis or None, "keepdims": keepdims and np.ndim(x) > 0}
    if not values.size:  # along several axes SciPy's fails there
        return np.sum(values, **over) - np.inf
    return special.logsumexp(values, **over)


op("logsumexp(x, dim: any=None, keepdim=False)", "out = log(Σ_j exp(x[j]))",
   "the logarithm of the sum of exponentials along dim, a smooth maximum", METHOD, "torch.special.logsumexp", along="dim",
   forward=logsumexp_values,  # of no entries −∞: SymPy's log(0) has no sign
   torch=lambda torch, x, dim, keepdim: torch.logsumexp(x, dim or 0, keepdim=keepdim), reuse=True,
   examples=("logsumexp(x, dim=0) with x:3", "logsumexp(x, dim=0)", "logsumexp(x, dim=-1, keepdim=True)"),
   expands="log(sum(exp(x), dim=dim, keepdim=keepdim))", required=("dim",))  # fmt: skip

# Running along an axis ----------------------------------------------------------------------------


# fmt: off
op("cumsum(x, dim: int)", "out[i] = Σ_j [j ≤ i]·x[j]", "the sum of the entries so far", TORCH, "np.cumsum", along="dim",
   forward=np.cumsum, result_dtype="counted")  # one pass instead of n²
op("cumprod(x, dim: int)", "out[i] = Π_j ([j ≤ i]·x[j] + 1 − [j ≤ i])", "the product of the entries so far", TORCH,
   "np.cumprod", along="dim", forward=np.cumprod, result_dtype="counted")  # one pass instead of n²
op("logcumsumexp(x, dim: int)", "out[i] = log(Σ_j [j ≤ i]·exp(x[j]))", "the logarithm of the sum of exponentials so far",
   TORCH, along="dim")
# fmt: on


op("trapezoid(y, dx=1.0, dim: int=-1)", "out = dx·(Σ_j y[j]·([j > 0] + [j < size(y, -1) − 1]))/2",
   "the area under straight lines between points dx apart along dim", ("torch.{}", "np.{}"), "torch.trapz", along="dim", least=1,
   examples=("trapezoid(y) with y:4", "trapezoid(y, dx=0.5, dim=0)"))  # fmt: skip


def last_extreme(x: Any, dim: int, largest: bool) -> Any:
    """Where the extreme so far is; the last of several equal ones, as torch counts."""
    x = np.asarray(x, float)
    line = np.atleast_1d(x)
    hits = (line == (np.maximum if largest else np.minimum).accumulate(line, axis=dim)) | np.isnan(line)
    places = np.expand_dims(np.arange(line.shape[dim]), [a for a in range(line.ndim) if a != dim])
    return np.maximum.accumulate(np.where(hits, places, 0), axis=dim).reshape(x.shape)


# fmt: off
for name, word, largest in (("cummax", "largest", True), ("cummin", "smallest", False)):
    op(f"{name}(x, dim: int)", f"out[i] = x[n[i]], n: where the {word} of x[0], …, x[i] is (the last of equal ones)",
       f"the {word} entry so far", TORCH, along="dim", kinks=0, returns=("values", "indices"),
       index_data={"n": partial(last_extreme, largest=largest)}, examples=(f"{name}(x, 0).values with x:4", f"{name}(x, 1).values"))
# fmt: on


def prepare_diff(shapes: tuple[Shape, ...], n: int = 1, dim: int = -1) -> dict[str, Hashable]:
    """How often, no more than there are entries, and along which axis."""
    if not shapes[0]:
        raise ShapeError("diff needs at least one axis")
    axis = axis_of(dim, len(shapes[0]))
    size = shapes[0][axis]
    return {"n": min(n, int(size)) if size.is_Integer else n, "dim": axis}


# fmt: off
op("diff(x, n: int >= 0=1, dim: int=-1)", "out[i] = x[i + 1] − x[i]", "differences of neighbours along dim, n times over",
   variants=lambda shapes, n, dim: "out[i] = " + " + ".join(f"({(-1) ** (n - k) * comb(n, k)})·x[i + {k}]" for k in range(n + 1)),
   axes="dim", prepare=prepare_diff, examples=("diff(x) with x:4", "diff(x, 2, 0) with x:4x2"),
   result_dtype="joined", arrays="np.diff")
op("cumulative_trapezoid(y, dx=1.0, dim: int=-1)", "out[i] = dx·Σ_j [j ≤ i]·(y[j] + y[j + 1])/2",
   "the area under straight lines between points dx apart along dim, up to each point but the first", ("torch.{}",), axes="dim", least=1,
   examples=("cumulative_trapezoid(y) with y:4", "cumulative_trapezoid(y, dx=0.5, dim=0) with y:3x2"))
# fmt: on
