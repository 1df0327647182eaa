"""Array operations as text, evaluated with NumPy: what a lowered line says, read back from its characters.

Comes in: text in Python's grammar over named arrays: arithmetic, comparisons, positions in brackets, a dozen primitives
(`symgrad.closed_form.lowering`); any other call is one of the table's and is read by `symgrad.language`. Goes out: the
array. Nothing is run by Python: a whitelist of syntax is walked, and what is not in it is refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.errors import SymgradError, UnsupportedError
from symgrad.numeric import Array, as_float
from symgrad.special import gammaln, polygamma

Read = Callable[[str, Mapping[str, Array]], Array]
"""How a call of the table is evaluated: its text and the arrays that it names."""
SIGNS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
CALLS: dict[str, Callable[..., Any]] = {
    "arange": np.arange, "eye": np.eye, "where": np.where, "ones_like": np.ones_like, "zeros_like": np.zeros_like,
    "atan2": np.arctan2, "copysign": np.copysign, "isfinite": np.isfinite, "round": np.round, "floor": np.floor,
    "lgamma": gammaln, "polygamma": polygamma, "abs": np.abs,
}  # fmt: skip
ATTRIBUTES = ("shape", "T", "mT")
METHODS: dict[str, Callable[..., Any]] = {
    "sum": lambda a, *axes: np.sum(a, axis=axes[0] if axes else None), "prod": lambda a, axis: np.prod(a, axis=axis),
    "clamp": np.clip, "expand": np.broadcast_to, "to": lambda a, _: a.astype(np.float64),
}  # fmt: skip


def evaluate_arrays(text: str, known: Mapping[str, Array], read: Read) -> Array:
    """The value of ``text``; raises `UnsupportedError` for what is no array operation."""
    *definitions, last = ast.parse(text.replace("; ", "\n")).body
    arrays = {name: in_floats(array) for name, array in known.items()}
    with np.errstate(all="ignore"):
        for line in definitions:
            if not (isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name)):
                raise refused(line)
            arrays[line.targets[0].id] = np.asarray(Walker(arrays, read).value(line.value))
        if not isinstance(last, ast.Expr):
            raise refused(last)
        try:
            return np.asarray(Walker(arrays, read).value(last.value))
        except (ValueError, IndexError, TypeError) as error:
            raise UnsupportedError(f"this cannot be evaluated: {error}") from error


def in_floats(array: Array) -> Array:
    """Whole numbers as they are, anything else in floats."""
    return np.asarray(array) if np.issubdtype(np.asarray(array).dtype, np.integer) else as_float(array)


def refused(node: ast.AST) -> SymgradError:
    """The complaint about what is not in the whitelist."""
    return UnsupportedError(f"this is no array operation: {ast.unparse(node)}")


def is_part(node: ast.AST) -> bool:
    """Whether a call gives several tensors, of which one is taken: svd(x).U, split(x, 2)[1]."""
    if not (isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.value, ast.Call)):
        return False
    function = node.value.func
    if isinstance(node, ast.Attribute):
        return node.attr not in ATTRIBUTES
    return isinstance(function, ast.Name) and function.id not in CALLS and isinstance(node.slice, ast.Constant)


class Walker:
    """Walks an expression; ``arrays`` are what its names stand for."""

    def __init__(self, arrays: Mapping[str, Array], read: Read) -> None:
        self.arrays, self.read = arrays, read

    def value(self, node: ast.AST) -> Any:
        """The value of one node: an array, a number, a shape, or None and a slice between brackets."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id in self.arrays:
            return self.arrays[node.id]
        if isinstance(node, ast.Tuple):
            return tuple(map(self.value, node.elts))
        if isinstance(node, ast.List):
            return [*map(self.value, node.elts)]
        if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
            return self.combined(type(node.op), self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SIGNS:
            return SIGNS[type(node.ops[0])](self.value(node.left), self.value(node.comparators[0]))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.value(node.operand)
        if is_part(node):
            return in_floats(self.read(ast.unparse(node), self.arrays))
        if isinstance(node, ast.Subscript):
            return self.value(node.value)[self.places(node.slice)]
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return self.called(node)
        raise refused(node)

    def combined(self, sign: type[ast.AST], left: Any, right: Any) -> Any:
        """Two operands with a sign between them; torch subtracts no truth values and multiplies no matrices of them."""
        truths = [getattr(side, "dtype", None) == np.bool_ for side in (left, right)]
        if any(truths) and sign in (ast.Sub, ast.MatMult, ast.FloorDiv, ast.Mod):
            raise UnsupportedError("torch has no such arithmetic of truth values")
        fitting = (float(s) if isinstance(s, int) and s.bit_length() > 63 else s for s in (left, right))
        return SIGNS[sign](*fitting)

    def places(self, node: ast.AST) -> Any:
        """What stands between brackets; positions are whole numbers."""
        if isinstance(node, ast.Tuple):
            return tuple(map(self.places, node.elts))
        if isinstance(node, ast.Slice):
            return slice(*(None if end is None else self.value(end) for end in (node.lower, node.upper, node.step)))
        found = self.value(node)
        if any(isinstance(part, ast.Div) or getattr(part, "attr", "") == "to" for part in ast.walk(node)):
            raise UnsupportedError("positions have to be whole numbers")
        return found.astype(np.int64) if isinstance(found, (np.ndarray, np.generic)) else found

    def attribute(self, node: ast.Attribute) -> Any:
        """.shape, .T, .mT and math.pi."""
        if ast.unparse(node) == "math.pi":
            return math.pi
        if node.attr not in ATTRIBUTES:
            raise refused(node)
        found = self.value(node.value)
        return found.shape if node.attr == "shape" else found.T if node.attr == "T" else found.swapaxes(-1, -2)

    def called(self, node: ast.Call) -> Any:
        """A primitive; else a call of the table, read by the language, on what its arguments come to."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in CALLS and not node.keywords:
            return CALLS[function.id](*map(self.value, node.args))
        owned = isinstance(function, ast.Attribute) and not (
            isinstance(function.value, ast.Name) and function.value.id not in self.arrays
        )
        if isinstance(function, ast.Attribute) and owned:
            owner = self.value(function.value)
            if function.attr == "numel":
                return owner.size
            if function.attr in METHODS and not node.keywords:
                return METHODS[function.attr](owner, *map(self.value, node.args))
            return self.of_table(f"{{}}.{function.attr}", [owner], node)
        return self.of_table(ast.unparse(function), [], node)

    def of_table(self, name: str, owners: list[Any], node: ast.Call) -> Any:
        """An operation of the table."""
        named: dict[str, Array] = {}

        def told(found: Any) -> str:
            if isinstance(found, list):
                return f"[{', '.join(map(told, found))}]"
            if not isinstance(found, (np.ndarray, np.generic)):
                return repr(found)
            named[f"x{len(named)}"] = np.asarray(found.astype(np.float64) if found.dtype == np.bool_ else found)
            return f"x{len(named) - 1}"

        head = name.format(*map(told, owners))
        plain = [told(self.value(argument)) for argument in node.args]
        options = [f"{k.arg}={told(self.value(k.value))}" for k in node.keywords]
        return in_floats(self.read(f"{head}({', '.join([*plain, *options])})", named))
