"""Linear algebra: factors of a matrix, linear systems, powers and products that are several products in a row.

Norms that are made of singular values, of sums or of the largest entry: calls in front of the entries for the others.
"""

from __future__ import annotations

import math
from functools import partial, reduce
from typing import Any

from symgrad.entries.operands import axis_of, require_rank
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.ops.calls.call_texts import define_call
from symgrad.ops.calls.registry import CallApplier, Last, compound, spellings_everywhere

# Factors -----------------------------------------------------------------------------------------------------


def extra_columns(call: CallApplier, x: Any) -> int:
    """How many more columns than rows a matrix has; 0 where that is not known."""
    rows, columns = map(call.number, require_rank(x.shape, 2)[-2:])
    return 0 if rows is None or columns is None else columns - rows


@compound("torch.linalg.qr", "torch.qr", "Tensor.qr", "np.linalg.qr", "aten.linalg_qr", fields=("Q", "R"), matrices=True)  # fmt: skip
def qr_steps(call: CallApplier, part: int, x: Any, mode: str = "reduced", *, some: bool = True) -> Last:
    """The first columns of a wide matrix decide Q; R is Qᵀ·x."""
    if mode not in ("reduced", True) or not some:
        raise UnsupportedError("of qr only the reduced factors are supported yet", hints=("mode='reduced'",))
    if extra_columns(call, x) <= 0:
        return ("qr_q", "qr_r")[part], (x,), {}
    q = call("qr_q", call("narrow", x, dim=-1, start=0, length=x.shape[-2]))
    return ("identity", (q,), {}) if part == 0 else ("matmul", (call("mT", q), x), {})


@compound("torch.linalg.svd", "np.linalg.svd", "aten._linalg_svd", fields=("U", "S", "Vh"), matrices=True)
def svd_steps(call: CallApplier, part: int, x: Any, full_matrices: bool = True, compute_uv: bool = True, *, driver: Any = None) -> Last:  # fmt: skip
    """The thin factors; columns that full_matrices adds to them are arbitrary."""
    if part != 1 and not compute_uv:
        raise UnsupportedError("compute_uv=False makes none of these vectors", hints=("compute_uv=True",))
    if extra_columns(call, x) * (part - 1) > 0 and full_matrices:
        told = "the extra vectors of full_matrices=True are arbitrary, so they have no derivative"
        raise UnsupportedError(told, hints=("full_matrices=False",))
    return ("svd_u", "svdvals", "svd_vh")[part], (x,), {}


@compound("torch.svd", "Tensor.svd", fields=("U", "S", "V"), matrices=True)
def old_svd_steps(call: CallApplier, part: int, x: Any, some: bool = True, compute_uv: bool = True) -> Last:
    """torch's older call, which gives V rather than its transpose."""
    found = svd_steps(call, part, x, not some, compute_uv)
    return found if part < 2 else ("mT", (call("svd_vh", x),), {})


LOWER, UPPER = "l = triangular_factor(factor); ", "l = triangular_factor(mT(factor)); "
# fmt: off
define_call("cholesky(x, upper=False)", "cholesky(x)", "The lower factor, or its transpose.", "torch.linalg.cholesky", "torch.cholesky",
     "Tensor.cholesky", "np.linalg.cholesky", instead={"upper": "mT(cholesky(x))"}, matrices=True)
define_call("cholesky_ex(x, upper=False, check_errors=False)", ("cholesky(x)", None), "The factor; whether it exists is an integer.",
     "torch.linalg.cholesky_ex", "aten.linalg_cholesky_ex", instead={"upper": ("mT(cholesky(x))", None)}, fields=("L", "info"), matrices=True)
define_call("cholesky_inverse(factor, upper=False)", f"{LOWER}inverse(l @ mT(l))", "The inverse of L·Lᵀ.", "torch.cholesky_inverse",
     "Tensor.cholesky_inverse", instead={"upper": f"{UPPER}inverse(l @ mT(l))"}, matrices=True)
define_call("cholesky_solve(b, factor, upper=False)", lambda b, upper: require_rank(b.shape, 2) and f"{UPPER if upper else LOWER}solve(l @ mT(l), b)",
     "(L·Lᵀ)·out = b for a factor L.", "torch.cholesky_solve", "Tensor.cholesky_solve", matrices=True)

# Systems -----------------------------------------------------------------------------------------------------

define_call("unit_matrix(a)", lambda a: require_rank(a.shape, 2) and "diag_embed(ones_like(diagonal(a, dim1=-2, dim2=-1)))", "The identity in the shape of a matrix.")
define_call("triangle(a, upper, ones)", "tril(a)", "The triangle that is read, with ones on the diagonal if it is said to have them.",
     instead={"upper and ones": "triu(a, diagonal=1) + unit_matrix(a)", "upper": "triu(a)", "ones": "tril(a, diagonal=-1) + unit_matrix(a)"})
define_call("solve_triangular(a, b, *, upper: bool, left=True, unitriangular=False)", "solve(triangle(a, upper, unitriangular), b, left=left)",
     "solve with one triangle of the matrix.", "torch.linalg.solve_triangular", "aten.linalg_solve_triangular", matrices=True)
define_call("triangular_solve(b, a, upper=True, transpose=False, unitriangular=False)", ("solve(triangle(a, upper, unitriangular), b)", "a"),
     "torch's older call.", "torch.triangular_solve", "Tensor.triangular_solve", fields=("solution", "cloned_coefficient"),
     instead={"transpose": ("solve(mT(triangle(a, upper, unitriangular)), b)", "a")}, matrices=True)


def solve_in_columns(a: Any, b: Any, left: bool) -> str | None:
    """The solution; a stack of vectors, one for each matrix, is a stack of columns."""
    stacked = left and len(a.shape) > 2 and tuple(b.shape) == tuple(a.shape[:-1])
    return "squeeze(solve(a, unsqueeze(b, dim=-1)), dim=-1)" if stacked else None


# fmt: off
define_call("solve(a, b, *, left=True)", solve_in_columns, None, "torch.linalg.solve", matrices=True)
define_call("solve_ex(a, b, *, left=True, check_errors=False)", lambda a, b, left: (solve_in_columns(a, b, left) or "solve(a, b, left=left)", None),
     "The solution; whether it exists is an integer.", "torch.linalg.solve_ex", "aten.linalg_solve_ex", fields=("result", "info"), matrices=True)
define_call("inv_ex(x, *, check_errors=False)", ("inverse(x)", None), "The inverse; whether it exists is an integer.",
     "torch.linalg.inv_ex", "aten.linalg_inv_ex", fields=("inverse", "info"), matrices=True)
# fmt: on


@compound("torch.linalg.tensorinv", "np.linalg.tensorinv", matrices=True)
def tensorinv(call: CallApplier, part: int, x: Any, ind: int = 2) -> Last:
    """The inverse of the matrix whose rows are the first ``ind`` axes."""
    rows, columns = tuple(x.shape[:ind]), tuple(x.shape[ind:])
    matrix = call("reshape", x, shape=(math.prod(rows), math.prod(columns)))
    return "reshape", (call("inverse", matrix),), {"shape": (*columns, *rows)}


@compound("torch.linalg.tensorsolve", "np.linalg.tensorsolve", matrices=True)
def tensorsolve(call: CallApplier, part: int, a: Any, b: Any, dims: Any = None) -> Last:
    """The solution of tensordot(a, out) = b."""
    if dims is not None:
        a = call("movedim", a, source=tuple(dims), destination=tuple(range(len(a.shape) - len(dims), len(a.shape))))
    unknown: tuple[Any, ...] = tuple(call.number(size) or size for size in a.shape[len(b.shape) :])
    count = math.prod(b.shape)
    matrix, flat = call("reshape", a, shape=(count, math.prod(unknown))), call("reshape", b, shape=(count,))
    return "reshape", (call("solve", matrix, flat),), {"shape": unknown}


# Powers ------------------------------------------------------------------------------------------------------


def matrix_power_steps(x: Any, n: int) -> str:
    """x·x·…·x, of the inverse if n is negative."""
    if not isinstance(n, int):
        raise InputError("matrix_power takes a whole number", found=(f"n={n!r}",))
    if abs(n) > 64:
        raise UnsupportedError("a power beyond 64 would take as many steps", found=(f"n={n}",))
    return f"y = {'x' if n > 0 else 'inverse(x)'}; {' @ '.join('y' * abs(n))}" if n else "unit_matrix(x)"


# fmt: off
define_call("matrix_power(x, n: int)", matrix_power_steps, None, "torch.matrix_power", "torch.linalg.matrix_power", "Tensor.matrix_power", "np.linalg.matrix_power", matrices=True)
TERMS, HALVINGS = 12, 8
"""With eight halvings twelve terms of the series are exact in float64 for matrices of norm up to 70."""
define_call("matrix_exp(x)", f"one = unit_matrix(x); y = x / {2**HALVINGS}; p = one; "
     f"{''.join(f'p = one + y @ p / {n}; ' for n in range(TERMS, 0, -1))}{'p = p @ p; ' * (HALVINGS - 1)}p @ p",
     "exp(x) = exp(x/2⁸)^(2⁸), the inner one by its series I + y·(I + y/2·(I + y/3·(…)))", "torch.matrix_exp", "torch.linalg.matrix_exp",
     "Tensor.matrix_exp", matrices=True)
# fmt: on


@compound("torch.linalg.multi_dot", "torch.chain_matmul", "np.linalg.multi_dot", matrices=True)
def multi_dot(call: CallApplier, part: int, *tensors: Any) -> Last:
    """a @ b @ c, from the left; torch's older call has no list of them."""
    *before, last = tensors[0] if isinstance(tensors[0], (tuple, list)) else tensors
    if not before:
        raise InputError("multi_dot takes a list of two tensors or more")
    return "matmul", (reduce(partial(call, "matmul"), before), last), {}


SINGULAR = {2: "amax", -2: "amin", "nuc": "sum"}
"""The largest singular value, the smallest, and their sum."""
SUMS = (1, -1, math.inf, -math.inf)
"""The largest and the smallest sum of a column's entries, and of a row's."""


def of_matrix(x: Any, ord: Any, dim: Any, keepdim: bool) -> str:
    """Of its singular values (2, −2, 'nuc'), of its entries ('fro'), the largest sum over a column (1) or row (∞)."""
    rank = len(x.shape)
    two = isinstance(dim, (tuple, list)) and len(dim) == 2
    rows, columns = axes = tuple(axis_of(axis, rank) for axis in dim) if two else (0, 0)
    if rows == columns:
        raise ShapeError("matrix_norm goes over two axes", found=(f"dim={dim!r} of {rank}",))
    if ord == "fro":
        return f"norm(x, p=2, dim={axes}, keepdim=keepdim)"
    if ord in SINGULAR:
        turned = "x" if axes == (rank - 2, rank - 1) else f"movedim(x, source={axes}, destination=(-2, -1))"
        value = f"{SINGULAR[ord]}(svdvals({turned}), dim=-1)"
        return f"unsqueeze(unsqueeze({value}, dim={min(axes)}), dim={max(axes)})" if keepdim else value
    if ord not in SUMS:
        raise InputError("there is no such norm of a matrix", found=(f"ord={ord!r}",), hints=("fro, 1, -1, ∞ or −∞",))
    along, across = axes if abs(ord) == 1 else (columns, rows)
    word = "sum" if ord > 0 and x.shape[across] == 0 else "amax" if ord > 0 else "amin"  # of none 0
    left = across - (not keepdim and across > along)
    return f"{word}(sum(abs(x), dim={along}, keepdim=keepdim), dim={left}, keepdim=keepdim)"


def of_entries(ord: Any) -> str | None:
    """The largest |x| for ord = ∞, the smallest for −∞; the others are the table's."""
    endless = isinstance(ord, (int, float)) and math.isinf(ord)
    return f"{'amax' if ord > 0 else 'amin'}(abs(x), dim=dim, keepdim=keepdim)" if endless else None


def norm_steps(x: Any, ord: Any, dim: Any, name: str, matrix: bool) -> str | None:
    """That of a matrix, if two axes are named or are all, or else of the entries: 'fro' and 'nuc' are of a matrix alone."""
    two = len(x.shape) == 2 if dim is None else isinstance(dim, (tuple, list)) and len(dim) == 2
    written = f"matrix_norm(x, {name}, {tuple(range(len(x.shape))) if dim is None else 'dim'}, keepdim)"
    return written if (two or isinstance(ord, str)) and matrix else of_entries(ord)


# fmt: off
define_call("matrix_norm(x, ord: any='fro', dim: any=(-2, -1), keepdim=False, *, dtype: unused=None)", of_matrix, None, "torch.linalg.matrix_norm", matrices=True)
define_call("nuclear_norm(x, dim: any=(-2, -1), keepdim=False)", "matrix_norm(x, 'nuc', dim, keepdim)", "The sum of the singular values.",
     "torch.nuclear_norm", matrices=True)
define_call("norm(x, p: any=2, dim: any=None, keepdim=False, dtype: unused=None)", lambda x, p, dim:
     "norm(x, p=2, dim=dim, keepdim=keepdim)" if p in ("fro", None) else norm_steps(x, p, dim, "p", p == "nuc"),
     "The nuclear norm of a matrix, the largest |x| for p = ∞; the others are those of the entries.", "torch.norm", "Tensor.norm")
define_call("vector_norm(x, ord: any=2, dim: any=None, keepdim=False, *, dtype: unused=None)", of_entries, None,
     "torch.linalg.vector_norm", "aten.linalg_vector_norm")
define_call("linalg_norm(x, ord: any=None, dim: any=None, keepdim=False, *, dtype: unused=None)",
     lambda x, ord, dim: norm_steps(x, ord, dim, "ord", ord is not None), "Of a matrix where two axes are meant and an ord is said, else of the entries.",
     "torch.linalg.norm", "np.linalg.norm")
define_call("renorm(x, p: any, dim: axis, maxnorm: float)", lambda x, p, dim: None if not math.isinf(p) else
     f"size = amax(abs(x), dim={tuple(a for a in range(len(x.shape)) if a != dim)}, keepdim=True); "
     "x * where(size > maxnorm, reciprocal(size + 1e-7) * maxnorm, 1.0)", "Slices shortened by their largest |x|, where p = ∞.", *spellings_everywhere("renorm"))
EXTREMES = "v = svdvals(x); largest = select(v, -1, 0); smallest = select(v, -1, -1); "  # in order; of equal ones one is chosen
define_call("cond(x, p: any=None)", "matrix_norm(x, p) * matrix_norm(inverse(x), p)",
     "The largest singular value over the smallest, or the norm of x times that of its inverse.", "torch.linalg.cond", "np.linalg.cond",
     instead={**dict.fromkeys(("p=None", "p=2"), f"{EXTREMES}largest / smallest"), "p=-2": f"{EXTREMES}smallest / largest"}, matrices=True)
