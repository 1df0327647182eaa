"""Factors of a matrix: calls that give several of them, and torch's older names."""

from __future__ import annotations

from typing import Any

from symgrad.errors import UnsupportedError
from symgrad.ops.calls.registry import Call, Last, of_matrices
from symgrad.ops.moving.arranging import at_least


def sizes_of(call: Call, x: Any) -> tuple[int | None, int | None]:
    """Rows and columns, where they are known."""
    rows, columns = at_least(x.shape, 2)[-2:]
    return call.number(rows), call.number(columns)


@of_matrices("torch.linalg.qr", "torch.qr", "Tensor.qr", "np.linalg.qr", "aten.linalg_qr", fields=("Q", "R"))
def qr(call: Call, part: int, x: Any, mode: str = "reduced") -> Last:
    """The first columns of a wide matrix decide Q; R is Qᵀ·x."""
    if mode not in ("reduced", True):
        raise UnsupportedError(f"mode {mode!r} of qr is not supported yet", hints=("mode='reduced'",))
    rows, columns = sizes_of(call, x)
    if rows is None or columns is None or rows >= columns:
        return ("qr_q", "qr_r")[part], (x,), {}
    q = call("qr_q", call("narrow", x, dim=-1, start=0, length=x.shape[-2]))
    return ("identity", (q,), {}) if part == 0 else ("matmul", (call("mT", q), x), {})


@of_matrices("torch.linalg.svd", "np.linalg.svd", "aten._linalg_svd", fields=("U", "S", "Vh"))
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


@of_matrices("torch.svd", "Tensor.svd", fields=("U", "S", "V"))
def old_svd(call: Call, part: int, x: Any, some: bool = True, compute_uv: bool = True) -> Last:
    """torch's older call, which gives V rather than its transpose."""
    found = svd(call, part, x, full_matrices=not some)
    return found if part < 2 else ("mT", (call("svd_vh", x),), {})
