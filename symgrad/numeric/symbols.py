"""Index equations on arrays of symbols: the same evaluation, with x[0,1] instead of a number.

Comes in: an equation and the shapes of the tensors it reads. Goes out: an object array of SymPy expressions.
Explicit Jacobians are filled from the formula this way, all entries at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp
from sympy.polys.domains import EXRAW
from sympy.polys.matrices import DomainMatrix

from symgrad.errors import InputError
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel, fresh
from symgrad.indexing.equation import rebuild
from symgrad.indexing.symbols import Expr, access, indices_of, is_access, name_of
from symgrad.lowering.careful import Field
from symgrad.lowering.graph import Care, TooLarge
from symgrad.numeric.exact import Array
from symgrad.numeric.forward import Values
from symgrad.numeric.limits import check_grid
from symgrad.numeric.playing import of_objects
from symgrad.numeric.sparse import looks, sparse_jacobian
from symgrad.shapes import Size


def evaluate_symbols(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """The entries that ``equation`` defines, as SymPy expressions in the entries of the tensors it reads.

    Integers that the forward pass found (names with a dot) are put in as numbers, and so are positions that say
    which entry is read.
    """
    try:
        return in_symbols(Equation(equation.axes, looked_up(equation.right)), arrays, sizes, SYMBOLS)
    except TooLarge as error:
        check_grid(error.shape, 1)
        raise
    except OverflowError:
        raise InputError("this is too large to be written out", hints=("numbers instead of symbols",)) from None
    except ZeroDivisionError:  # a variance of n entries divided by n − n
        raise InputError("this divides by 0 at these sizes", hints=("numbers instead of symbols",)) from None


def in_symbols(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care) -> Array:
    """What ``equation`` defines, in names of the entries that are read: only those are made."""
    read: dict[str, Array] = {}
    for name in {name_of(node) for node in sp.preorder_traversal(equation.right) if is_access(node)}:
        held = arrays[name.removeprefix("·")]
        read[name] = held if "·" in name else np.arange(1, np.size(held) + 1).reshape(np.shape(held))
    found = of_objects(equation, read, sizes, care)
    if any(entry.has(sp.zoo, sp.nan) for entry in found.flat if isinstance(entry, sp.Basic)):
        found = of_objects(equation, read, sizes, care.guards)
    return np.asarray(np.frompyfunc(as_expression, 1, 1)(found), dtype=object).reshape(found.shape)


def written_out(expression: Expr, places: Mapping[Index, int], values: Values) -> Expr:
    """``expression`` at numbered places: its sums written out, and what says which entry is meant as numbers."""
    one = {index: fresh(index.name, sp.S.One) for index in places}
    right = looked_up(expression, counting=True).xreplace({index: own + places[index] for index, own in one.items()})
    found: Expr = in_symbols(Equation(tuple(one.values()), right), values.arrays, values.sizes, FORMULA).reshape(-1)[0]
    return found


def symbol_matrix(outer: Sequence[Index], inner: Sequence[Index], formula: Expr, values: Values, dense: bool) -> Any:
    """The explicit SymPy matrix of a formula, filled by index arithmetic; a sparse one unless ``dense``."""
    found = sparse_jacobian(outer, inner, formula, values, evaluate_symbols)
    rows: dict[int, dict[int, Expr]] = {}
    columns, entries = found.columns.tolist(), found.values.tolist()
    if found.in_order and found.shape[0]:
        width = len(entries) // found.shape[0]
        cuts = [(n, n * width, (n + 1) * width) for n in range(found.shape[0])]
        rows = {n: dict(zip(columns[i:j], entries[i:j], strict=True)) for n, i, j in cuts}
    else:
        for row, column, entry in zip(found.rows.tolist(), columns, entries, strict=True):
            line = rows.setdefault(row, {})
            line[column] = line[column] + entry if column in line else entry
    if any(entry.is_Number for entry in set(entries)) or not found.in_order:
        rows = {row: {n: e for n, e in line.items() if not e.is_Number or e} for row, line in rows.items()}
    table = DomainMatrix({row: line for row, line in rows.items() if line}, found.shape, EXRAW)
    kind = sp.MutableDenseMatrix if dense else sp.MutableSparseMatrix
    return kind._fromrep(table)


def looked_up(expression: Expr, counting: bool = False) -> Expr:
    """x[n[k]] with the positions called ·n, and those of positions: they are looked up, not shown.

    If ``counting``, those in δ and in the numbers of entries, too.
    """

    def entry(node: Expr) -> Expr | None:
        if counting and isinstance(node, (sp.KroneckerDelta, Ravel, Unravel)):
            return node.func(*(rebuild(a, position) for a in node.args))
        if not is_access(node):
            return None
        return node if "·" in name_of(node) else access(name_of(node), [rebuild(i, position) for i in indices_of(node)])

    def position(node: Expr) -> Expr | None:
        if not is_access(node):
            return None
        return access(f"·{name_of(node).removeprefix('·')}", [rebuild(i, position) for i in indices_of(node)])

    return rebuild(expression, entry)


def reads_positions(formula: Expr) -> bool:
    """Whether entries of tensors say where something is: their numbers are then asked for, by symbols, too."""
    return looks(formula) or looked_up(formula) != formula


def as_expression(value: Any) -> Expr:
    """A number or expression as SymPy has it."""
    return sp.sympify(value, strict=True)


def applied(function: Any, count: int) -> Any:
    """A SymPy function on object arrays, entry by entry."""
    return np.frompyfunc(lambda *values: function(*(as_expression(v) for v in values)), count, 1)


def related(kind: Any) -> Any:
    """A condition about entries stays one."""
    return applied(lambda *sides: Bracket(kind(*sides)), 2)


def symbol_of(node: Expr) -> Any:
    """A constant as SymPy has it; whole ones may be places."""
    return int(node) if node.is_Integer else node


def powered(base: Any, exponent: Any) -> Any:
    """A power; raises `ZeroDivisionError` where numbers of sizes divide by 0, which entries of tensors may."""
    whole, powers = (np.asarray(side, dtype=object).flat for side in (base, exponent))
    if any(type(e) is int and not e for e in whole) and any(type(e) is int and e < 0 for e in powers):
        raise ZeroDivisionError
    return applied(sp.Pow, 2)(base, exponent)


whole = lru_cache(maxsize=2048)(sp.Integer)
"""A position as SymPy has it: entries of one tensor stand at the same ones."""


def named(name: str, *shape: int) -> Any:
    """``name[0,1]`` for the number of an entry, counted from 1; nothing for 0."""

    def entry(number: int) -> Expr:
        return access(name, list(map(whole, np.unravel_index(number - 1, shape)))) if number else sp.S.Zero

    return np.frompyfunc(entry, 1, 1)


SYMBOLS = Care(field=Field(symbol_of, powered, applied, related, named))
FORMULA = Care(field=Field(symbol_of, applied(sp.Pow, 2), applied, related, named, every=True))
"""What is shown: functions of indices stay formulas, too."""
