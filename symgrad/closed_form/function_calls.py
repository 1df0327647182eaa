"""f(x) as torch spells it: ``x.exp()``, ``F.softplus(x)``, ``torch.special.i0e(x)``.

Comes in: a function of one expression. Goes out: its piece; `NoForm` for functions that torch has no name for.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.notation import Notation
from symgrad.closed_form.pieces import ATOM, NoForm, Piece, applied
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr
from symgrad.ops import Op
from symgrad.ops.lookup import find

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
    inner = notation.write(entry, prefer)
    if parameters:
        return with_parameters(op, parameters, inner)
    if f"Tensor.{op.name}" in op.spelled:
        return applied(inner, f"{op.name}()")
    spelled = next((word for word in op.spelled if word.startswith(MODULES)), None)
    if spelled is None:
        raise NoForm
    kept = None if inner.kept is None else Piece(f"{spelled}({inner.kept.text})", ATOM, inner.kept.axes)
    return Piece(f"{spelled}({inner.text})", ATOM, inner.axes, kept)


def with_parameters(op: Op, parameters: Sequence[Expr], inner: Piece) -> Piece:
    """``torch.polygamma(2, x)``"""
    spelled = next((word for word in op.spelled if word.startswith("torch.")), None)
    if spelled is None or not all(number.is_Integer for number in parameters):
        raise NoForm
    return Piece(f"{spelled}({', '.join([*map(str, parameters), inner.text])})", ATOM, inner.axes)
