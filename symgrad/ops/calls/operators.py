"""What Python's operators are among torch's functions, and which functions draw random numbers or make data.

Comes in: nothing. Goes out: functions by their last word. Recording reads them before a call has run; texts are read and written
with the same signs.
"""

from __future__ import annotations

from symgrad.program import Operation

REFLECTED = {"__rsub__": "sub", "__rdiv__": "div", "__rtruediv__": "div", "__rpow__": "pow", "__rmatmul__": "matmul"}
"""Operators whose operands stand the other way round, and what they are then."""
OPERATORS = {
    **{f"__{word}__": word for word in ("add", "sub", "mul", "div", "pow", "matmul", "neg", "abs", "lt", "le", "gt", "ge", "eq", "ne")},
    **{f"__i{word}__": word for word in ("add", "sub", "mul", "div", "pow")}, "__radd__": "add", "__rmul__": "mul",
    "__truediv__": "div", "__itruediv__": "div", "__mod__": "remainder", "__pos__": "clone", "_neg_view": "neg",
}  # fmt: skip
"""Operators, and a view that torch makes of a conjugate's imaginary part, and the functions they stand for."""
IN_PLACE_OPERATORS = (*(word for word in OPERATORS if word.startswith("__i")), "__setitem__", "__imod__")
RANDOM = ("dropout", "rand", "bernoulli", "normal", "multinomial", "gumbel", "rrelu", "poisson", "exponential",
          "standard_gamma", "scaled_dot_product", "lstm", "gru", "rnn", "attention", "fractional")  # fmt: skip
"""Words in the names of functions that may draw random numbers."""
WRITES_STATE = ("batch_norm", "instance_norm")
"""Words in the names of functions that also write tensors they are given (running statistics)."""
NEW = (
    "rand_like", "randn_like", "bernoulli", "zeros_like", "ones_like", "full_like", "empty_like", "randint_like",
    "new_zeros", "new_ones", "new_full", "new_empty", "detach", "native_dropout_mask", "sign_like",
)  # fmt: skip
"""Operations whose result does not follow the values they are given: it is data."""

SIGNS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "@": "matmul", "%": "remainder",
    "//": "floor_divide", "<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne",
}  # fmt: skip
"""What a sign between two operands of a text stands for."""
LOGIC = {"&": "logical_and", "|": "logical_or", "^": "logical_xor", "~": "logical_not"}
"""What a sign between truth values, or before them, stands for."""
TO_WHOLE = "trunc"
"""The entry that makes whole numbers."""
INFIX = {entry: sign for sign, entry in SIGNS.items() if sign not in ("%", "//")} | {"mm": "@", "mv": "@"}
"""Entries that a text has between their operands."""
OF_PAIRS = {"complex_mul": "*", "complex_div": "/", "complex_matmul": "@"}
"""Those of complex tensors."""
PREFIX = {"neg": "-"}
"""Entries that a text has before their operand."""


def sign_of(op: Operation) -> str:
    """The sign between the operands of an operation; empty for one that a text does not write so."""
    return INFIX.get(op, OF_PAIRS.get(op, "")) if isinstance(op, str) else ""
