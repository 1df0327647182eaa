"""Calls that one line says in entries: bounds, rounded quotients, shortcuts, truth values, other shapes, several results."""

from __future__ import annotations

import math
import sys

from symgrad.ops.calls.registry import everywhere
from symgrad.ops.calls.written import said

BEYOND = sys.float_info.max
"""No finite number is larger."""
SHORTCUT = 20
"""From here on torch takes x for log(1 + exp(x)) unless it is told otherwise: 2e-9 of it, no kink that anyone means."""

# fmt: off
said("softplus(x, beta: float=1, threshold: float=20)", lambda x, beta, threshold: None if beta == 1 and threshold >= SHORTCUT else
     "softplus(x * beta) / beta" if threshold >= SHORTCUT else "s = x * beta; where(s > threshold, x, softplus(s) / beta)",
     "log(1 + exp(β·x)) / β, and x itself where β·x is above a threshold below 20.", "torch.softplus", "F.softplus", "aten.softplus")
said("div(x, other, *, rounding_mode: 'trunc' | 'floor'=None)", "floor_divide(x, other)",
     "The quotient, or what is left of it when it is rounded towards 0 or down.", *everywhere("div", "divide"), reals=True,
     instead={"rounding_mode=None": None, "rounding_mode=trunc": "trunc(x / other)"})
TIMES = "round((x - remainder(x, other)) / other)"
said("floor_divide(x, other)", lambda x, other: f"times = {TIMES}; where(other == 0, floor(x / other), times)" if hasattr(other, "shape") else
     "floor(x / other)" if other == 0 or abs(math.frexp(other)[0]) == 0.5 else TIMES,
     "How often ``other`` goes into x: 9 times 0.1 into 1, although their quotient is rounded to 10.",
     *everywhere("floor_divide"), "np.floor_divide", reals=True)
said("fill(x, value: any)", lambda x, value: "expand(value, shape=x.shape)" if hasattr(value, "shape") else "ones_like(x) * value",
     "One number everywhere.", *everywhere("fill"), reals=True, instead={"value=True": "ones_like(x)", "value=False": "zeros_like(x)"})
said("clamp(x, min: any=None, max: any=None)", lambda min, max: None if not hasattr(min, "shape") and not hasattr(max, "shape") else
     "clamp_max(x, max)" if min is None else "clamp_min(x, min)" if max is None else "clamp_max(clamp_min(x, min), max)",
     "min where x < min, then max where that is > max; at a bound the derivative is x's, as in torch. A bound at infinity is none, "
     "and NaN, which no bound holds, passes either way.", *everywhere("clamp", "clip"), reals=True,
     instead={"min=-inf and max=None": "x", "min=None and max=inf": "x", "min=-inf": "clamp_max(x, max)", "max=inf": "clamp_min(x, min)"})
said("clamp_min(x, min: any)", lambda x, min: "where(x >= min, x, min)" if hasattr(min, "shape") else "clamp(x, min=min)",
     "At least ``min``.", *everywhere("clamp_min"), reals=True, instead={"min=-inf": "x"})
said("clamp_max(x, max: any)", lambda x, max: "where(x <= max, x, max)" if hasattr(max, "shape") else "clamp(x, max=max)",
     "At most ``max``.", *everywhere("clamp_max"), reals=True, instead={"max=inf": "x"})
said("nan_to_num(x, nan: float=None, posinf: float=None, neginf: float=None)", lambda x, nan, posinf, neginf: None
     if not nan and posinf is None and neginf is None else
     "y = nan_to_num(x); " + f"y = where(x < -{BEYOND}, neginf, y); " * (neginf is not None) + f"y = where(x > {BEYOND}, posinf, y); "
     * (posinf is not None) + (f"where(x <= {BEYOND}, y, where(x > {BEYOND}, y, nan))" if nan else "y"),  # of NaN no comparison holds
     "Numbers of one's own in the place of NaN, ∞ and −∞, 0 and the largest numbers where none is given.", *everywhere("nan_to_num"), reals=True)
said("softmin(x, dim: int)", "softmax(-x, dim=dim)", "softmax(−x)", "F.softmin")
said("angle(x)", f"(x < 0) * {math.pi}", "π where a real number is negative, else 0.", *everywhere("angle"), reals=True)
for name, sign, spelled in (("add", "+", ("torch.add", "Tensor.add")),
                            ("sub", "-", ("torch.sub", "Tensor.sub", "torch.subtract", "Tensor.subtract"))):
    said(f"{name}(x, other, *, alpha: float=1)", f"x {sign} other * alpha", f"x {sign} alpha·other", *spelled, reals=True, instead={"alpha=1": None})
said("zero(x)", "zeros_like(x)", "0 in the same shape.", "torch.zero", "Tensor.zero", "aten.zero")

# Truth values ---------------------------------------------------------------------------------------

said("isfinite(x)", f"abs(x) <= {BEYOND}", "Whether an entry is neither infinite nor NaN.", *everywhere("isfinite"))
said("isinf(x)", f"abs(x) > {BEYOND}", "Whether an entry is ∞ or −∞.", *everywhere("isinf"))
said("isnan(x)", f"size = abs(x); (size <= {BEYOND}) == (size > {BEYOND})", "Whether an entry is NaN, of which neither comparison holds.", *everywhere("isnan"))
said("logical_not(x)", "x == 0", "Whether an entry is 0.", *everywhere("logical_not"))
said("logical_and(x, other)", "(x != 0) * (other != 0) > 0", "Whether neither entry is 0.", *everywhere("logical_and"))
said("logical_or(x, other)", "(x == 0) * (other == 0) == 0", "Whether one entry or both are not 0.", *everywhere("logical_or"))
said("logical_xor(x, other)", "(x != 0) != (other != 0)", "Whether one entry is 0 and the other is not.", *everywhere("logical_xor"))
said("isclose(x, other, rtol=1e-5, atol=1e-8, equal_nan: unsupported=False)", "gap = abs(x - other); near = (gap <= abs(other) * rtol + atol) * "
     f"(gap <= {BEYOND}); (x != other) * (near == 0) == 0", "Whether two entries are equal, or closer than atol + rtol·|other|.", *everywhere("isclose"))
said("signbit(x)", "copysign(ones_like(x), x) < 0", "Whether an entry is negative, or −0.", *everywhere("signbit"))
said("count_nonzero(x, dim: any=None)", "sum(x != 0, dim=dim)", "How many entries are not 0.", *everywhere("count_nonzero"))
FULL = f"size = abs(x); empty = (size <= {BEYOND}) == (size > {BEYOND}); full = where(empty, zeros_like(x), x); sum(full, dim=dim, keepdim=keepdim)"
said("nansum(x, dim: any=None, keepdim=False)", FULL, "The sum of the entries that are numbers.", *everywhere("nansum"))
said("nanmean(x, dim: any=None, keepdim=False)", f"{FULL} / sum(empty == 0, dim=dim, keepdim=keepdim)", "Their mean.", "torch.nanmean", "Tensor.nanmean")
said("any(x, dim: any=None, keepdim=False)", "sum(x != 0, dim=dim, keepdim=keepdim) > 0", "Is one not 0?", *everywhere("any"))
said("all(x, dim: any=None, keepdim=False)", "sum(x == 0, dim=dim, keepdim=keepdim) == 0", "Is none 0?", *everywhere("all"))

said("diagonal(x, offset: int=0, dim1: int=-2, dim2: int=-1)", "diagonal(x, offset=offset, dim1=dim1, dim2=dim2)",
     "Diagonals of the matrices in the last two axes.", "torch.linalg.diagonal")
said("expand_as(x, other)", "expand(x, shape=other.shape)", "Broadcast to the shape of another tensor.", "Tensor.expand_as")
said("view_as(x, other)", "reshape(x, shape=other.shape)", "Row by row in the shape of another tensor.", "Tensor.view_as", "Tensor.reshape_as")
said("diag(x, diagonal: int=0)", lambda x, diagonal: None if diagonal == 0 or len(x.shape) > 2 else
     "diag_embed(x, offset=diagonal)" if len(x.shape) == 1 else "diagonal(x, offset=diagonal)",
     "A vector on a diagonal, or a diagonal of a matrix.", "torch.diag", "Tensor.diag", "np.diag")
said("np_sort(x, axis: int=-1)", "sort(x, dim=axis)", "NumPy's, which does not say where the entries were.", "np.sort")
said("np_cross(x, y, axisa: unsupported=-1, axisb: unsupported=-1, axisc: unsupported=-1, axis: int=-1)", "cross(x, y, dim=axis)",
     "NumPy's, whose third argument is an axis of x alone.", "np.cross")
said("diagflat(x, offset: int=0)", "diag_embed(flatten(x), offset=offset)", "All entries as a diagonal.", *everywhere("diagflat"))
said("where(x, condition, other)", "where(condition, x, other)", "x where the condition holds.", "Tensor.where")
for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
    said(f"{name}(x, p: 0 <= float <= 1=0.5, training={'alpha' not in name}, inplace=False)", "x", "x itself, where nothing is dropped.",
         f"F.{name}", *(("torch.dropout",) if name == "dropout" else ()), instead={"training and p": None})
said("positive(x)", "x", "x itself.", "torch.positive", "Tensor.positive")
said("adjoint(x)", "mT(x)", "Of real numbers the transpose.", "torch.adjoint", "Tensor.adjoint")
said("msort(x)", "sort(x, dim=0)", "Sorted along the first axis.", *everywhere("msort"))
said("constant_pad_nd(x, pad: any, value: float=0)", "pad(x, pad=pad, value=value)", "Padding with one number.",
     "torch.constant_pad_nd", "aten.constant_pad_nd")

# Several results ------------------------------------------------------------------------------------

said("aminmax(x, *, dim: any=None, keepdim=False)", ("amin(x, dim=dim, keepdim=keepdim)", "amax(x, dim=dim, keepdim=keepdim)"),
     "The smallest and the largest entry.", "torch.aminmax", "Tensor.aminmax", "aten.aminmax", fields=("min", "max"))
said("eigh(x, UPLO='L', compute_v=True)", ("eigvalsh(x)", "eigenvectors(x)"), "Of a symmetric matrix either triangle says the same.",
     "torch.linalg.eigh", "np.linalg.eigh", "aten._linalg_eigh", fields=("eigenvalues", "eigenvectors"), matrices=True)
said("eigvalsh(x, UPLO='L')", "eigvalsh(x)", "Of a symmetric matrix either triangle says the same.", "torch.linalg.eigvalsh",
     "np.linalg.eigvalsh", matrices=True)
said("slogdet(x)", ("sign(det(x))", "logabsdet(x)"), "The sign of the determinant, and the logarithm of its absolute value.",
     "torch.linalg.slogdet", "torch.slogdet", "Tensor.slogdet", "np.linalg.slogdet", "aten._linalg_slogdet",
     fields=("sign", "logabsdet"), matrices=True)
said("pinv(x, rcond: float=None, hermitian=False, *, atol: float=None, rtol: float=None)", lambda rcond, rtol: f"pinv(x, atol=atol, rtol={'rtol' if rcond is None else 'rcond'})",
     "The pseudo-inverse of a matrix of full rank, none of whose singular values counts as 0.", "torch.linalg.pinv", "torch.pinverse",
     "Tensor.pinverse", "np.linalg.pinv", "aten.linalg_pinv", matrices=True)
said("lstsq(a, b, rcond: unsupported=None, *, driver: unused=None)",
     ("pinv(a) @ b", "sum(square(a @ (pinv(a) @ b) - b), dim=-2)", None, None),
     "The pseudo-inverse times b; what else torch gives depends on the driver.", "torch.linalg.lstsq", "np.linalg.lstsq",
     fields=("solution", "residuals", "rank", "singular_values"), matrices=True)
for name, says in (("std", "The standard deviation and the mean."), ("var", "The variance and the mean.")):
    said(f"{name}_mean(x, dim: any=None, unbiased: any=None, keepdim=False, *, correction: any=None)",
         (f"{name}(x, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction)", "mean(x, dim=dim, keepdim=keepdim)"), says,
         f"torch.{name}_mean", f"aten.{name}_mean", fields=(name, "mean"), reals=True,
         instead={"dim=True": (f"{name}(x)", "mean(x)"), "dim=False": (f"{name}(x, unbiased=False)", "mean(x)")})
said("corrcoef(x)", lambda x: None if len(x.shape) == 2 and x.shape[0] != 1 else f"v = cov({'x' if x.shape else 'reshape(x, shape=(1,))'}); v / v",
     "One variable's variance by itself.", "torch.corrcoef", "Tensor.corrcoef", "np.corrcoef")
