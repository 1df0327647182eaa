"""Powers and products of matrices that are several products one after the other."""

from __future__ import annotations

from typing import Any

from symgrad.errors import InputError, UnsupportedError
from symgrad.ops.calls.factors import sizes_of
from symgrad.ops.calls.registry import Call, Last, of_matrices
from symgrad.ops.calls.systems import unit_matrix


@of_matrices("torch.matrix_power", "torch.linalg.matrix_power", "Tensor.matrix_power", "np.linalg.matrix_power")
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


@of_matrices("torch.matrix_exp", "torch.linalg.matrix_exp", "Tensor.matrix_exp")
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


@of_matrices("torch.linalg.multi_dot", "torch.chain_matmul", "np.linalg.multi_dot")
def multi_dot(call: Call, part: int, tensors: Any) -> Last:
    """a @ b @ c, from the left."""
    first, *rest = tensors if isinstance(tensors, (tuple, list)) else (tensors,)
    if not rest:
        raise InputError("multi_dot takes a list of two tensors or more")
    for tensor in rest[:-1]:
        first = call("matmul", first, tensor)
    return "matmul", (first, rest[-1]), {}
