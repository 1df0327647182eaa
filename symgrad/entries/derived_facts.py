"""Facts derived from the equation of an entry: the dtype of its result, and the operands in which it is linear.

Comes in: an entry. Goes out: words for the dtype of the result of booleans or integers. Sums, products and selections
of integers are integers; quotients, roots and functions are not. Where torch differs, the entry states the words
(``result_dtype``):

truth, whole: boolean, integer, for any operands · counted: booleans are counted · kept: the operands' dtype · joined:
kept, and a sum of booleans is "or" · cut: kept, and a fraction would be truncated · first: the dtype of the tensor
written into · behind: the dtype of the operands after the first · bounded: that of the operands and the options ·
subscripts: depends on the letters · real: floating point · masked: the last operand is added, where torch would read
booleans as a mask · alike: torch requires operands of one dtype · numbers: booleans are not allowed.

Comes in: views of operands, and options. Goes out: the operands whose product each term of the equation is. `cat` is
linear in all of its tensors together, `outer` in each of two, `exp` in none. A linear equation holds for complex
tensors as it does for their real and imaginary parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy as sp

from symgrad.entries.along import LossReading
from symgrad.entries.readings import parse_entry_equation
from symgrad.entries.spec import TABLE, TORCHS, HeldTensor, Op, View
from symgrad.functions import ALSO, ROUNDING
from symgrad.indexing.symbols import Expr, accesses, fresh_axes, indices_of, is_access, name_of
from symgrad.notation import tree
from symgrad.shapes import Shape

KEPT, REAL = frozenset({"kept"}), frozenset({"real"})


def dtype_words(op: Op) -> frozenset[str]:
    """Return the words for the dtype of an entry's result."""
    return (
        frozenset(op.traits.result_dtype.split())
        if op.traits.result_dtype
        else infer_dtype_words(op.name)
        if op.name in TABLE
        else REAL
    )


def equation_text(op: Op) -> str:
    """Return the text of an entry's equation; empty if the entry is defined by a function or outside the table."""
    reading = getattr(op.index, "__self__", None)
    return str(getattr(reading.entry if isinstance(reading, LossReading) else reading, "text", ""))


def constant_result(op: Op) -> Fraction | None:
    """Return the value of an operation that is the same for all operands: 1 of ``out = 1``; else None."""
    text = equation_text(op)
    right = parse_entry_equation(text).right if text else None
    return right.value if isinstance(right, tree.Number) else None


def is_non_differentiable(op: Op) -> bool:
    """Whether torch records no backward: comparisons, constants, and operations that only read data."""
    return op.name in TABLE and table_op_is_non_differentiable(op.name)


@lru_cache(maxsize=1024)
def table_op_is_non_differentiable(name: str) -> bool:
    """Return `is_non_differentiable` of an entry of the table, from its equation and the dtype of its result."""
    op = TABLE[name]
    only_data = bool(op.operands) and op.data.issuperset(op.operands)
    return only_data or bool({"truth", "whole"} & dtype_words(op)) or constant_result(op) is not None


@lru_cache(maxsize=1024)
def infer_dtype_words(name: str) -> frozenset[str]:
    """Return the dtype words that follow from an entry's equation; floating point if a function defines it."""
    op, text = TABLE[name], equation_text(TABLE[name])
    broken = any(isinstance(value, float) and value % 1 for value in op.defaults.values())
    if (
        not text or op.traits.complex_pairs or broken or op.saved.residual is not None
    ):  # what solves an equation of whole numbers is none
        return REAL
    right = parse_entry_equation(text).right
    how = KEPT if is_integral(right, name) else REAL
    torchs = any(word.startswith(TORCHS) for word in op.spellings) and len(set(op.operands) - op.data) > 1
    return how | {"alike"} if torchs and has_contraction(right) else how


def has_contraction(node: tree.SyntaxNode) -> bool:
    """Whether a sum of products of two tensors is taken, which torch computes as a matrix product."""
    if isinstance(node, tree.BigOperator) and node.sign == "Σ":
        inside = list(tree.walk(node.body))
        names = {part.name for part in inside if isinstance(part, tree.Access)}
        plain = not any(isinstance(part, (tree.ScalarCall, tree.Root, tree.Condition, tree.Power)) for part in inside)
        return plain and len(names) > 1 and any(isinstance(part, tree.Binary) and part.sign in "·*" for part in inside)
    return isinstance(node, tree.Binary) and node.sign in "+·*" and any(map(has_contraction, node.parts))


def is_integral(node: tree.SyntaxNode, name: str) -> bool:
    """Whether an expression of integers is an integer; ``name`` is the entry, whose equation may call itself."""
    match node:
        case tree.Number():
            return node.value.denominator == 1
        case tree.Name():
            return node.name not in ("π", "pi", "e")
        case tree.Access() | tree.Condition() | tree.Delta() | tree.AxisSize() | tree.Floor():
            return True
        case tree.Root():
            return False
        case tree.ScalarCall():
            word = ALSO.get(node.function, node.function)
            own = word in ROUNDING or (word != name and word in TABLE and "kept" in dtype_words(TABLE[word]))
            return own and all(is_integral(part, name) for part in node.arguments)
        case tree.Binary(sign="/") | tree.BigOperator(sign="mean"):
            return False
        case tree.Power():
            return isinstance(node.exponent, tree.Number) and is_integral(node.base, name)
    return all(is_integral(part, name) for part in node.parts)


# Linear ---------------------------------------------------------------------------------------------

Terms = frozenset[tuple[str, ...]]
"""The operands of every term, sorted: {("x", "y")} for x·y, {("x",), ("y",)} for x + y."""


def polynomial_terms(expression: Expr, read: Collection[str] = ()) -> Terms | None:
    """Return the terms of a polynomial in entries, with numbers or tensors in ``read`` as coefficients; else None."""

    def moves(node: Expr) -> bool:
        return any(name_of(entry) not in read for entry in accesses(node))

    if not moves(expression):
        return frozenset() if expression == 0 else frozenset({()})
    if is_access(expression):
        return None if any(map(moves, indices_of(expression))) else frozenset({(name_of(expression),)})
    parts = [
        polynomial_terms(part, read)
        for part in expression.args[: None if expression.is_Add or expression.is_Mul else 1]
    ]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if expression.is_Add:
        return frozenset().union(*known)
    if expression.is_Mul:
        return frozenset(tuple(sorted(sum(term, ()))) for term in itertools.product(*known))
    return known[0] if isinstance(expression, sp.Sum) and not any(map(moves, expression.args[1:])) else None


def multilinear(
    op: Op, shapes: Sequence[Shape | None], constants: Sequence[Any], result: Shape, options: Mapping[str, Any]
) -> Terms | None:
    """Return the terms of an entry for operands named by their positions; None if it is not linear in each of them.

    An operand may be a number: its value is in ``constants``, its shape is (). Positions and masks count as constants.
    An entry that depends on the order of numbers is not linear: complex numbers have no order.
    """
    views = [
        None if shape is None else View(str(n), shape, None if constant is None else sp.sympify(constant, strict=True))
        for n, (shape, constant) in enumerate(zip(shapes, constants, strict=True))
    ]
    read = {str(n) for n, name in enumerate(op.operands) if name in op.data}
    held = {name: HeldTensor(name, result) for name in op.saved.names}
    terms = polynomial_terms(op.index(fresh_axes(result, op.letters_for(options)), views, held, options), read)
    if terms is None or any(len(set(term)) < len(term) or not term or {*term} & {*held} for term in terms):
        return None
    return terms
