"""f(x) as torch spells it: ``x.exp()``, ``F.softplus(x)``, ``torch.special.i0e(x)``.

Comes in: a function of one expression. Goes out: its piece; `NoForm` for functions that torch has no name for.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.calculus import local
from symgrad.closed_form.rewriting.of_numbers import is_difference
from symgrad.closed_form.texts.notation import Notation
from symgrad.closed_form.texts.pieces import ATOM, NoForm, Piece, applied
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access, name_of
from symgrad.ops import Op
from symgrad.ops.entry import plays
from symgrad.ops.lookup import find
from symgrad.program import Role

MODULES = ("F.", "torch.special.")
"""Where functions stand that are no methods."""

OTHERWISE = {sp.Abs: "abs", sp.loggamma: "lgamma"}
"""Functions that torch calls otherwise than SymPy."""


def function(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Piece:
    """A method where there is one, else a call."""
    op = find(OTHERWISE.get(node.func, node.func.__name__))
    if op is None:
        raise NoForm
    *parameters, entry = node.args
    inner = notation.write(difference(notation, entry), prefer)
    if parameters:
        return with_parameters(op, parameters, inner)
    if f"Tensor.{op.name}" in op.spelled:
        return applied(inner, f"{op.name}()")
    spelled = next((word for word in op.spelled if word.startswith(MODULES)), None)
    if spelled is None:
        raise NoForm
    kept = None if inner.kept is None else Piece(f"{spelled}({inner.kept.text})", ATOM, inner.kept.axes)
    return Piece(f"{spelled}({inner.text})", ATOM, inner.axes, kept)


def difference(notation: Notation, entry: Expr) -> Expr:
    """b − a, where −t is that of an intermediate t = a − b."""
    if not is_access(-entry):
        return entry
    right = made_of(notation, -entry)
    if right is None or not is_difference(right):
        return entry
    spread = {a: e for a in accesses(right) if (e := made_of(notation, a, copies=True)) is not None}
    return -right.xreplace(spread)


def made_of(notation: Notation, entry: Expr, copies: bool = False) -> Expr | None:
    """What an entry of an intermediate is, of those that are only repeated where that is asked for."""
    program, name = notation.program, name_of(entry)
    step = next((s for s in program.steps if s.result.name == name != program.output), None)
    if step is None or (copies and not plays(step.op, Role.COPIES)):
        return None
    equation = local(step, program).equation
    return equation.right.xreplace(dict(zip(equation.axes, indices_of(entry), strict=True)))


def with_parameters(op: Op, parameters: Sequence[Expr], inner: Piece) -> Piece:
    """``torch.polygamma(2, x)``"""
    spelled = next((word for word in op.spelled if word.startswith("torch.")), None)
    if spelled is None or not all(number.is_Integer for number in parameters):
        raise NoForm
    return Piece(f"{spelled}({', '.join([*map(str, parameters), inner.text])})", ATOM, inner.axes)
