"""Statistics that are given two at a time, or of one variable, or without what is no number."""

from __future__ import annotations

from typing import Any

from symgrad.errors import InputError
from symgrad.ops.calls.registry import Call, Compound, Last, compound, enter


def moments(spread: str, says: str) -> None:
    """Enter what gives a spread and the mean; ``unbiased`` is torch's older word for dividing by n − 1."""

    def steps(
        call: Call,
        part: int,
        x: Any,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        *,
        correction: Any = 1,
    ) -> Last:
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

    word = f"{spread}_mean"
    enter(Compound(word, steps, says, fields=(spread, "mean"), reals=True), (f"torch.{word}", f"aten.{word}"))


moments("std", "The standard deviation and the mean.")
moments("var", "The variance and the mean.")


@compound("torch.corrcoef", "Tensor.corrcoef", "np.corrcoef")
def corrcoef(call: Call, part: int, x: Any) -> Last | None:
    """One variable's variance by itself."""
    if len(x.shape) == 2 and call.number(x.shape[0]) != 1:
        return None
    variance = call("cov", x if x.shape else call("reshape", x, shape=(1,)))
    return "div", (variance, variance), {}
