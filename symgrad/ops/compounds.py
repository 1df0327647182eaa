"""Calls of torch's that are several entries of the table one after the other, or that give several results.

A compound is a function of ``call`` (apply an entry, get its result), the number of the result that is wanted, and
the arguments as torch has them. It answers with the last step: an entry, its operands, its options; or with None,
where the call is the table's own entry of that name. The text language and captured programs read the same ones.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from symgrad.errors import InputError, UnsupportedError
from symgrad.ops.arranging import at_least
from symgrad.ops.lookup import normal
from symgrad.ops.spec import COMPOUND_SPELLINGS, TABLE


class Call(Protocol):
    """What applies an entry of the table and hands back its result, and knows sizes."""

    def __call__(self, name: str, *operands: Any, **options: Any) -> Any:
        """The result of one entry."""

    def number(self, size: Any) -> int | None:
        """A size as a number, None where it is open."""


Steps = TypeVar("Steps", bound=Callable[..., Any])
Last = tuple[str, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Compound:
    """``fields`` name the results of a call that gives several, in torch's order."""

    name: str
    steps: Callable[..., Last | None]
    fields: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """What it does."""
        return (inspect.getdoc(self.steps) or "").splitlines()[0]

    @property
    def usage(self) -> str:
        """How it is called, and what it gives."""
        gives = f" → {', '.join(self.fields)}" if self.fields else ""
        return f"{self.name}{self.signature}{gives}"

    @property
    def signature(self) -> inspect.Signature:
        """What users may write between the brackets."""
        parameters = list(inspect.signature(self.steps).parameters.values())[2:]
        return inspect.Signature([p.replace(annotation=p.empty) for p in parameters])


COMPOUNDS: dict[str, Compound] = {}


def compound(*spelled: str, fields: tuple[str, ...] = ()) -> Callable[[Steps], Steps]:
    """Enter a function under every spelling."""

    def enter(steps: Steps) -> Steps:
        entry = Compound(steps.__name__, steps, fields)
        COMPOUNDS.update(dict.fromkeys(spelled, entry))
        COMPOUND_SPELLINGS.update(spelled)
        return steps

    return enter


def find_compound(spelling: str) -> Compound | None:
    """The compound spelled so, or None; without a module, torch.linalg's or torch's where the table has no such name."""
    spelling = normal(spelling)
    if spelling in TABLE:
        return None
    tried = (spelling, *(() if "." in spelling else (f"torch.linalg.{spelling}", f"torch.{spelling}")))
    return next((COMPOUNDS[s] for s in tried if s in COMPOUNDS), None)


def sizes_of(call: Call, x: Any) -> tuple[int | None, int | None]:
    """Rows and columns, where they are known."""
    rows, columns = at_least(x.shape, 2)[-2:]
    return call.number(rows), call.number(columns)


def absent(wanted: Any, what: str) -> None:
    """Refuse an argument that changes the result in a way the entries do not know."""
    if wanted not in (None, False):
        raise UnsupportedError(f"{what} is not supported yet", found=(f"{what}={wanted!r}",))


SHORTCUT = 20
"""From here on torch takes x for log(1 + exp(x)) unless it is told otherwise: 2e-9 of it, no kink that anyone means."""


@compound("torch.softplus", "F.softplus", "aten.softplus")
def softplus(call: Call, part: int, x: Any, beta: Any = 1, threshold: Any = SHORTCUT) -> Last | None:
    """log(1 + exp(β·x)) / β, and x itself where β·x is above a threshold below 20."""
    if beta == 1 and threshold >= SHORTCUT:
        return None
    scaled = call("mul", x, beta)
    soft = call("softplus", scaled)
    if threshold >= SHORTCUT:
        return "div", (soft, beta), {}
    return "where", (call("gt", scaled, threshold), x, call("div", soft, beta)), {}


# Factors -----------------------------------------------------------------------------------------------------


@compound("torch.linalg.qr", "torch.qr", "Tensor.qr", "np.linalg.qr", "aten.linalg_qr", fields=("Q", "R"))
def qr(call: Call, part: int, x: Any, mode: str = "reduced") -> Last:
    """The first columns of a wide matrix decide Q; R is Qᵀ·x."""
    if mode not in ("reduced", True):
        raise UnsupportedError(f"mode {mode!r} of qr is not supported yet", hints=("mode='reduced'",))
    rows, columns = sizes_of(call, x)
    if rows is None or columns is None or rows >= columns:
        return ("qr_q", "qr_r")[part], (x,), {}
    q = call("qr_q", call("narrow", x, dim=-1, start=0, length=rows))
    return ("identity", (q,), {}) if part == 0 else ("matmul", (call("mT", q), x), {})


@compound("torch.linalg.eigh", "np.linalg.eigh", "aten._linalg_eigh", fields=("eigenvalues", "eigenvectors"))
def eigh(call: Call, part: int, x: Any, UPLO: str = "L", compute_v: bool = True) -> Last:  # as torch calls it
    """Of a symmetric matrix either triangle says the same."""
    return ("eigvalsh", "eigenvectors")[part], (x,), {}


@compound("torch.linalg.eigvalsh", "np.linalg.eigvalsh")
def eigvalsh(call: Call, part: int, x: Any, UPLO: str = "L") -> Last:  # as torch calls it
    """Of a symmetric matrix either triangle says the same."""
    return "eigvalsh", (x,), {}


@compound("torch.linalg.svd", "np.linalg.svd", "aten._linalg_svd", fields=("U", "S", "Vh"))
def svd(
    call: Call, part: int, x: Any, full_matrices: bool = True, compute_uv: bool = True, *, driver: Any = None
) -> Last:
    """The thin factors; columns that full_matrices adds to them are nobody's choice."""
    rows, columns = sizes_of(call, x)
    if full_matrices and rows is not None and columns is not None and (columns - rows) * (part - 1) > 0:
        raise UnsupportedError(
            "the vectors that full_matrices=True adds are any that fit, so they have no derivative",
            hints=("full_matrices=False",),
        )
    return ("svd_u", "svdvals", "svd_vh")[part], (x,), {}


@compound("torch.svd", "Tensor.svd", fields=("U", "S", "V"))
def old_svd(call: Call, part: int, x: Any, some: bool = True, compute_uv: bool = True) -> Last:
    """torch's older call, which gives V rather than its transpose."""
    found = svd(call, part, x, full_matrices=not some)
    return found if part < 2 else ("mT", (call("svd_vh", x),), {})


@compound("torch.linalg.cholesky", "torch.cholesky", "Tensor.cholesky", "np.linalg.cholesky")
def cholesky(call: Call, part: int, x: Any, upper: bool = False) -> Last:
    """The lower factor, or its transpose."""
    return ("mT", (call("cholesky", x),), {}) if upper else ("cholesky", (x,), {})


@compound("torch.linalg.cholesky_ex", "aten.linalg_cholesky_ex", fields=("L", "info"))
def cholesky_ex(call: Call, part: int, x: Any, upper: bool = False, check_errors: bool = False) -> Last:
    """The factor; whether it exists is an integer."""
    if part:
        raise UnsupportedError("info is an integer, it has no derivative")
    return cholesky(call, 0, x, upper)


@compound(
    "torch.linalg.slogdet", "torch.slogdet", "Tensor.slogdet", "np.linalg.slogdet", "aten._linalg_slogdet",
    fields=("sign", "logabsdet"),
)  # fmt: skip
def slogdet(call: Call, part: int, x: Any) -> Last:
    """The sign of the determinant, and the logarithm of its absolute value."""
    return ("logabsdet", (x,), {}) if part else ("sign", (call("det", x),), {})


# Linear systems ----------------------------------------------------------------------------------------------


def column(call: Call, b: Any) -> Any:
    """A vector as a column."""
    return call("unsqueeze", b, dim=-1)


def triangle(call: Call, a: Any, upper: bool, ones: bool) -> Any:
    """The triangle of ``a`` that is read, with ones on the diagonal if it is said to have them."""
    shift = int(ones)
    part = call("triu", a, diagonal=shift) if upper else call("tril", a, diagonal=-shift)
    return call("add", part, unit_matrix(call, a)) if ones else part


def unit_matrix(call: Call, a: Any) -> Any:
    """The identity in the shape of ``a``."""
    return call("diag_embed", call("ones_like", call("diagonal", a, dim1=-2, dim2=-1)))


@compound("torch.linalg.solve_triangular", "aten.linalg_solve_triangular")
def solve_triangular(
    call: Call, part: int, a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Last:
    """solve with one triangle of the matrix."""
    return "solve", (triangle(call, a, upper, unitriangular), b), {"left": left}


@compound("torch.triangular_solve", "Tensor.triangular_solve", fields=("solution", "cloned_coefficient"))
def triangular_solve(
    call: Call, part: int, b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Last:
    """torch's older call."""
    if part:
        return "identity", (a,), {}
    read = triangle(call, a, upper, unitriangular)
    return "solve", (call("mT", read) if transpose else read, b), {}


@compound("torch.cholesky_solve", "Tensor.cholesky_solve")
def cholesky_solve(call: Call, part: int, b: Any, factor: Any, upper: bool = False) -> Last:
    """(L·Lᵀ)·out = b for a factor L."""
    sizes_of(call, b)
    return "solve", (of_factor(call, factor, upper), b), {}


@compound("torch.cholesky_inverse", "Tensor.cholesky_inverse")
def cholesky_inverse(call: Call, part: int, factor: Any, upper: bool = False) -> Last:
    """The inverse of L·Lᵀ."""
    return "inverse", (of_factor(call, factor, upper),), {}


def of_factor(call: Call, factor: Any, upper: bool) -> Any:
    """L·Lᵀ, or Uᵀ·U."""
    lower = call("triangular_factor", call("mT", factor) if upper else factor)
    return call("matmul", lower, call("mT", lower))


@compound("torch.linalg.lstsq", "np.linalg.lstsq", fields=("solution", "residuals", "rank", "singular_values"))
def lstsq(call: Call, part: int, a: Any, b: Any, rcond: Any = None, *, driver: Any = None) -> Last:
    """The pseudo-inverse times b; what else torch gives depends on the driver."""
    absent(rcond, "rcond")
    if part == 1:
        away = call("sub", call("matmul", a, call("matmul", call("pinv", a), b)), b)
        return "sum", (call("square", away),), {"dim": -2}
    if part:
        raise UnsupportedError(
            "rank and singular values of lstsq have no gradient in torch", hints=("[0], or .solution",)
        )
    return "matmul", (call("pinv", a), b), {}


@compound("torch.linalg.pinv", "torch.pinverse", "Tensor.pinverse", "np.linalg.pinv", "aten.linalg_pinv")
def pinv(
    call: Call, part: int, x: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Last:
    """The pseudo-inverse of a matrix of full rank, whatever counts as 0."""
    return "pinv", (x,), {}


# Powers ------------------------------------------------------------------------------------------------------


@compound("torch.matrix_power", "torch.linalg.matrix_power", "Tensor.matrix_power", "np.linalg.matrix_power")
def matrix_power(call: Call, part: int, x: Any, n: int) -> Last:
    """x·x·…·x, of the inverse if n is negative."""
    if not isinstance(n, int):
        raise InputError("matrix_power takes a whole number", found=(f"n={n!r}",))
    if abs(n) > 64:
        raise UnsupportedError("a power beyond 64 would take as many steps", found=(f"n={n}",))
    if n == 0:
        return "identity", (unit_matrix(call, x),), {}
    base = x if n > 0 else call("inverse", x)
    power = base
    for _ in range(abs(n) - 2):
        power = call("matmul", power, base)
    return ("identity", (base,), {}) if abs(n) == 1 else ("matmul", (power, base), {})


TERMS, HALVINGS = 12, 8
"""With eight halvings twelve terms of the series are exact in float64 for matrices of norm up to 70."""


@compound("torch.matrix_exp", "torch.linalg.matrix_exp", "Tensor.matrix_exp")
def matrix_exp(call: Call, part: int, x: Any) -> Last:
    """exp(x) = exp(x/2⁸)^(2⁸), the inner one by its series I + y·(I + y/2·(I + y/3·(…)))"""
    sizes_of(call, x)
    one = unit_matrix(call, x)
    small = call("div", x, 2**HALVINGS)
    power = one
    for n in range(TERMS, 0, -1):
        power = call("add", one, call("div", call("matmul", small, power), n))
    for _ in range(HALVINGS - 1):
        power = call("matmul", power, power)
    return "matmul", (power, power), {}


@compound("torch.linalg.multi_dot", "torch.chain_matmul", "np.linalg.multi_dot")
def multi_dot(call: Call, part: int, tensors: Any) -> Last:
    """a @ b @ c, from the left."""
    first, *rest = tensors
    if not rest:
        raise InputError("multi_dot takes two tensors or more")
    for tensor in rest[:-1]:
        first = call("matmul", first, tensor)
    return "matmul", (first, rest[-1]), {}


def sizes_product(call: Call, shape: tuple[Any, ...]) -> int:
    """How many entries a shape has; every size has to be known."""
    numbers = [call.number(size) for size in shape]
    if None in numbers:
        raise UnsupportedError("the sizes have to be known here", hints=("--shape x=2,3,6",))
    return math.prod(n for n in numbers if n is not None)


@compound("torch.linalg.tensorinv", "np.linalg.tensorinv")
def tensorinv(call: Call, part: int, x: Any, ind: int = 2) -> Last:
    """The inverse of the matrix whose rows are the first ``ind`` axes."""
    rows, columns = tuple(x.shape[:ind]), tuple(x.shape[ind:])
    matrix = call("reshape", x, shape=(sizes_product(call, rows), sizes_product(call, columns)))
    return "reshape", (call("inverse", matrix),), {"shape": (*columns, *rows)}


@compound("torch.linalg.tensorsolve", "np.linalg.tensorsolve")
def tensorsolve(call: Call, part: int, a: Any, b: Any, dims: Any = None) -> Last:
    """The solution of tensordot(a, out) = b."""
    if dims is not None:
        last = tuple(range(len(a.shape) - len(dims), len(a.shape)))
        a = call("movedim", a, source=tuple(dims), destination=last)
    unknown = tuple(size if call.number(size) is None else call.number(size) for size in a.shape[len(b.shape) :])
    matrix = call("reshape", a, shape=(sizes_product(call, tuple(b.shape)), sizes_product(call, unknown)))
    flat = call("reshape", b, shape=(sizes_product(call, tuple(b.shape)),))
    return "reshape", (call("solve", matrix, flat),), {"shape": unknown}
