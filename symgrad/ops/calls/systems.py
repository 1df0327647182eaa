"""Linear systems: torch's calls for solutions, inverses and pseudo-inverses."""

from __future__ import annotations

import math
from typing import Any

from symgrad.errors import UnsupportedError
from symgrad.ops.calls.factors import sizes_of
from symgrad.ops.calls.registry import Call, Last, of_matrices
from symgrad.ways import Setting


def column(call: Call, b: Any) -> Any:
    """A vector as a column."""
    return call("unsqueeze", b, dim=-1)


def triangle(call: Call, a: Any, upper: bool, ones: bool) -> Any:
    """The triangle of ``a`` that is read, with ones on the diagonal if it is said to have them."""
    part = call("triu", a, diagonal=int(ones)) if upper else call("tril", a, diagonal=-int(ones))
    return call("add", part, unit_matrix(call, a)) if ones else part


def unit_matrix(call: Call, a: Any) -> Any:
    """The identity in the shape of ``a``."""
    return call("diag_embed", call("ones_like", call("diagonal", a, dim1=-2, dim2=-1)))


@of_matrices("torch.linalg.solve_triangular", "aten.linalg_solve_triangular")
def solve_triangular(
    call: Call, part: int, a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Last:
    """solve with one triangle of the matrix."""
    return "solve", (triangle(call, a, upper, unitriangular), b), {"left": left}


@of_matrices("torch.triangular_solve", "Tensor.triangular_solve", fields=("solution", "cloned_coefficient"))
def triangular_solve(
    call: Call, part: int, b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Last:
    """torch's older call."""
    if part:
        return "identity", (a,), {}
    read = triangle(call, a, upper, unitriangular)
    return "solve", (call("mT", read) if transpose else read, b), {}


@of_matrices("torch.cholesky_solve", "Tensor.cholesky_solve")
def cholesky_solve(call: Call, part: int, b: Any, factor: Any, upper: bool = False) -> Last:
    """(L·Lᵀ)·out = b for a factor L."""
    sizes_of(call, b)
    return "solve", (of_factor(call, factor, upper), b), {}


def of_factor(call: Call, factor: Any, upper: bool) -> Any:
    """L·Lᵀ, or Uᵀ·U."""
    lower = call("triangular_factor", call("mT", factor) if upper else factor)
    return call("matmul", lower, call("mT", lower))


def sizes_product(call: Call, shape: tuple[Any, ...]) -> int:
    """How many entries a shape has; every size has to be known."""
    numbers = [call.number(size) for size in shape]
    if None in numbers:
        raise UnsupportedError("the sizes have to be known here", hints=(Setting("shape", "x", "2,3,6"),))
    return math.prod(n for n in numbers if n is not None)


@of_matrices("torch.linalg.tensorinv", "np.linalg.tensorinv")
def tensorinv(call: Call, part: int, x: Any, ind: int = 2) -> Last:
    """The inverse of the matrix whose rows are the first ``ind`` axes."""
    rows, columns = tuple(x.shape[:ind]), tuple(x.shape[ind:])
    matrix = call("reshape", x, shape=(sizes_product(call, rows), sizes_product(call, columns)))
    return "reshape", (call("inverse", matrix),), {"shape": (*columns, *rows)}


@of_matrices("torch.linalg.tensorsolve", "np.linalg.tensorsolve")
def tensorsolve(call: Call, part: int, a: Any, b: Any, dims: Any = None) -> Last:
    """The solution of tensordot(a, out) = b."""
    if dims is not None:
        last = tuple(range(len(a.shape) - len(dims), len(a.shape)))
        a = call("movedim", a, source=tuple(dims), destination=last)
    unknown = tuple(size if call.number(size) is None else call.number(size) for size in a.shape[len(b.shape) :])
    matrix = call("reshape", a, shape=(sizes_product(call, tuple(b.shape)), sizes_product(call, unknown)))
    flat = call("reshape", b, shape=(sizes_product(call, tuple(b.shape)),))
    return "reshape", (call("solve", matrix, flat),), {"shape": unknown}


@of_matrices("torch.linalg.solve_ex", "aten.linalg_solve_ex", fields=("result", "info"))
def solve_ex(call: Call, part: int, a: Any, b: Any, *, left: bool = True, check_errors: bool = False) -> Last:
    """The solution; whether it exists is an integer."""
    if part:
        raise UnsupportedError("info is an integer, it has no derivative")
    return solve(call, 0, a, b, left=left) or ("solve", (a, b), {"left": left})


@of_matrices("torch.linalg.solve")
def solve(call: Call, part: int, a: Any, b: Any, *, left: bool = True) -> Last | None:
    """The solution; a stack of vectors, one for each matrix, is a stack of columns."""
    stacked = len(a.shape) > 2 and tuple(b.shape) == tuple(a.shape[:-1])
    if part or not left or not stacked:
        return None
    return "squeeze", (call("solve", a, column(call, b)),), {"dim": -1}
