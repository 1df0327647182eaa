"""What a program centred already: its mean is 0, and centring it again changes nothing.

    t = x − mean x        Σ_k t[k] → 0, t − mean t → t

Comes in: a program and its views. Goes out: a rule, which holds for every value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache

import sympy as sp

from symgrad.calculus import local
from symgrad.calculus.sweeps import substitute
from symgrad.closed_form.rewriting.averages import LINEAR
from symgrad.closed_form.rewriting.rules import Rule, simplify
from symgrad.closed_form.rewriting.shorthands import Centred
from symgrad.indexing import Equation, Index, fresh_axes
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.ops.calls.written import sign_of
from symgrad.program import Apply, Program


def centre_of(
    maker: Apply | None,
    at: Sequence[Expr],
    program: Program,
    makers: Mapping[str, Apply],
    known: Mapping[str, Equation],
) -> Expr | None:
    """x − mean x, where that is what ``maker`` computes at some indices."""
    if maker is None or not all(isinstance(index, Index) for index in at):
        return None
    own = substitute(local(maker, program).equation, known)
    means = [makers[name] for name in {name_of(a) for a in accesses(own.right)} if name in makers]
    own = substitute(own, {step.result.name: substitute(local(step, program).equation, known) for step in means})
    found = simplify(own.right.xreplace(dict(zip(own.axes, at, strict=True))), [])
    return found if isinstance(found, Centred) and is_access(found.args[0]) else None


def centring_rule(program: Program, makers: Mapping[str, Apply], known: Mapping[str, Equation]) -> tuple[Rule, ...]:
    """t − mean t → t and Σ_k c·t[k] → 0, for what the program centred along the same axes"""
    lessened = {name: step for name, step in makers.items() if sign_of(step.op) == "-"}

    @cache
    def along(name: str) -> frozenset[int]:
        """The axes along which a tensor is centred."""
        at = fresh_axes(program.tensor(name).shape)
        found = centre_of(lessened[name], at, program, makers, known)
        return frozenset(n for n, axis in enumerate(at) if found is not None and axis in found.args[1])

    def centred_along(entry: Expr, indices: Collection[Expr]) -> bool:
        """Whether an entry is centred along exactly these of its indices."""
        if not is_access(entry) or name_of(entry) not in lessened:
            return False
        return bool(indices) and {indices_of(entry)[n] for n in along(name_of(entry))} == {*indices}

    def again(expression: Expr) -> Expr:
        if isinstance(expression, Centred) and centred_along(expression.args[0], expression.args[1]):
            return expression.args[0]
        if type(expression) not in LINEAR:
            return expression
        bound, factors = {limit[0] for limit in expression.limits}, sp.Mul.make_args(expression.function)
        for n, factor in enumerate(factors):
            alone = bound - free_indices(sp.Mul(*factors[:n], *factors[n + 1 :]))
            if centred_along(factor, alone & free_indices(factor)):
                return sp.S.Zero
        return expression

    return (Rule("centred already", "t − mean t → t, where t = x − mean x", again),) if lessened else ()
