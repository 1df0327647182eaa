"""Statistics that are given two at a time, or of one variable, or without what is no number."""

from __future__ import annotations

from typing import Any

from symgrad.errors import InputError
from symgrad.ops.calls.registry import Call, Last, compound


def moment(part: int, spread: str, x: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> Last:
    """What is asked for of the two; ``unbiased`` is torch's older word for dividing by n − 1."""
    if isinstance(dim, bool):
        dim, correction = None, int(dim)
    if unbiased is not None:
        correction = int(unbiased)
    if isinstance(dim, list):
        dim = tuple(dim)
    if dim is not None and not isinstance(dim, (int, tuple)):
        raise InputError(f"dim of {spread}_mean has to be an axis", found=(f"dim={dim!r}",))
    options = {"dim": dim, "keepdim": keepdim}
    return ("mean", (x,), options) if part else (spread, (x,), {**options, "correction": correction})


@compound("torch.std_mean", "aten.std_mean", fields=("std", "mean"), reals=True)
def std_mean(
    call: Call, part: int, x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1
) -> Last:
    """The standard deviation and the mean."""
    return moment(part, "std", x, dim, unbiased, correction, keepdim)


@compound("torch.var_mean", "aten.var_mean", fields=("var", "mean"), reals=True)
def var_mean(
    call: Call, part: int, x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = 1
) -> Last:
    """The variance and the mean."""
    return moment(part, "var", x, dim, unbiased, correction, keepdim)


@compound("torch.corrcoef", "Tensor.corrcoef", "np.corrcoef")
def corrcoef(call: Call, part: int, x: Any) -> Last | None:
    """One variable's variance by itself."""
    if len(x.shape) == 2 and call.number(x.shape[0]) != 1:
        return None
    variance = call("cov", x if x.shape else call("reshape", x, shape=(1,)))
    return "div", (variance, variance), {}
