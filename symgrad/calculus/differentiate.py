"""The derivative of an index expression by one entry of a tensor, by structure.

    ∂ x[i,j] / ∂x[p,q]          = δ_ip·δ_jq
    ∂ Σ_k f(k) / ∂x[p]          = Σ_k ∂f(k)/∂x[p]
    ∂ Π_k f(k) / ∂x[p]          = Σ_l ∂f(l)/∂x[p] · Π_{k≠l} f(k)
    ∂ g(t₁, t₂, …) / ∂x[p]      = Σ_a ∂g/∂t_a · ∂t_a/∂x[p]     (the t are the accesses, sums and products in g)

The scalar partials ∂g/∂t_a are SymPy's. Sums are contracted with the deltas as soon as they meet. Each move appends a
`Rewrite` that says what it did as it is made: an explanation shows these records, and nothing writes the story a second
time. Where that is shorter, a derivative names the output instead of forming it again (`reuse_output`):

    t·f(p) → t·out[p]           where out[i] = f(i) or out[i] = log f(i) defines the output: exp(x[p])/Σ_j exp(x[j])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from symgrad.functions import sign
from symgrad.indexing.brackets import Bracket, Unravel, ravel
from symgrad.indexing.definitions import NamedEquation, put_name, take_apart
from symgrad.indexing.equation import Equation
from symgrad.indexing.sums import contracted_sum, delta, is_delta, over_same, over_terms
from symgrad.indexing.symbols import Expr, Index, fresh, fresh_axes, indices_of, is_access, mentions, name_of


def differentiate(expression: Expr, name: str, at: Sequence[Index], output: Expr | None = None) -> Expr:
    """``∂expression / ∂name[at]``; ``at`` are the (free) indices of the entry.

    With ``output``, an access that ``expression`` defines, the scalar partials are written through it where
    that is shorter: ∂tanh(t)/∂t becomes 1 − out².
    """
    if not mentions(expression, name):
        return sp.S.Zero
    if is_access(expression):
        return access_derivative(expression, at) if name_of(expression) == name else sp.S.Zero
    if isinstance(expression, sp.Sum):
        return contracted_sum(differentiate(expression.function, name, at), [limit[0] for limit in expression.limits])
    if isinstance(expression, sp.Product):
        return product_derivative(expression, name, at)
    if expression.is_Add and output is None:
        return sp.Add(*(differentiate(part, name, at) for part in expression.args))
    parts = atomic_parts(expression)
    stand_in = {part: placeholder(part) for part in parts}
    held = {bracket: placeholder(bracket) for bracket in expression.atoms(Bracket)}
    scalar = expression.xreplace({**stand_in, **held})
    if scalar.has(sp.sign):  # SymPy's own, from |x|: it would differentiate to a delta function
        scalar = scalar.replace(sp.sign, sign)
    back = {dummy: part for part, dummy in (*stand_in.items(), *held.items())}
    result = sp.S.Zero
    for part, dummy in stand_in.items():
        inner = differentiate(part, name, at)
        if inner != 0:
            partial = scalar_derivative(scalar, dummy)
            partial = tidied(partial)
            if output is not None:
                written = through_output(partial, scalar, dummy, output, list(stand_in))
                conditions = [b for b in held.values() if b in sp.Mul.make_args(partial)]
                # 1 over a condition is 1 where it holds, and has to be 0 elsewhere, as before.
                written = written.xreplace({1 / b: b for b in conditions})
                lost = [b for b in conditions if not written.has(b)]
                partial = sp.Mul(written, *lost)  # a condition that went into the output still has to hold: |t|/t at 0
            result += content_cancelled(partial.xreplace(back) * inner)
    return result


def content_cancelled(term: Expr) -> Expr:
    """(2·a − 2·b)·f/(2·c) → (a − b)·f/c"""
    number, factors = term.as_coeff_mul()
    if not number.is_Rational or number.q == 1:
        return term
    found = []
    for factor in factors:
        content, rest = factor.primitive() if factor.is_Add else (sp.S.One, factor)
        shared = sp.gcd(content.p, number.q) if content.q == 1 else 1
        found.append(content / shared * rest if shared != 1 else factor)
        number *= shared if shared != 1 else 1
    return sp.Mul(number, *found)


def scalar_derivative(scalar: Expr, variable: Expr) -> Expr:
    """∂scalar/∂variable by SymPy: by the rule of the class itself, since `diff` around it costs as much again."""
    if scalar == variable:
        return sp.S.One
    if variable not in scalar.free_symbols:
        return sp.S.Zero
    if scalar.is_Add:
        return sp.Add(*(scalar_derivative(term, variable) for term in scalar.args))
    if scalar.is_Mul:
        slopes = ((n, scalar_derivative(factor, variable)) for n, factor in enumerate(scalar.args))
        return sp.Add(*(sp.Mul(*scalar.args[:n], s, *scalar.args[n + 1 :]) for n, s in slopes if s != 0))
    if scalar.is_Pow and variable not in scalar.exp.free_symbols:
        return scalar * (scalar_derivative(scalar.base, variable) * scalar.exp / scalar.base)
    if scalar.is_Pow and scalar.base.is_negative and scalar.base.is_number:  # log(−3) is no real number
        return scalar * sp.log(scalar.base, evaluate=False) * scalar_derivative(scalar.exp, variable)
    return scalar._eval_derivative(variable)


def tidied(partial: Expr) -> Expr:
    """What `powsimp` makes of a scalar partial; it is slow, and mostly all it does is to take numbers into sums."""
    return sp.powsimp(partial) if has_powers_to_gather(partial) else numbers_inside(partial)


def has_powers_to_gather(expression: Expr) -> bool:
    """Whether two factors share a base, a broken or an unknown exponent, or a power stands on a power or a number."""
    if expression.is_Pow:
        return bool(expression.base.is_Pow or (expression.base.is_number and not expression.exp.is_number))
    if not (expression.is_Add or expression.is_Mul):
        return False
    if any(map(has_powers_to_gather, expression.args)):
        return True
    if expression.is_Add:
        return False
    bases, exponents = zip(*(f.as_base_exp() for f in expression.as_coeff_mul()[1]), strict=True)
    broken = [abs(e) if e.is_number else None for e in exponents if not e.is_Integer]
    return len(set(bases)) < len(bases) or len(set(broken)) < len(broken)


def numbers_inside(expression: Expr) -> Expr:
    """c·(a + b)/d → (c·a + c·b)/d, in every term."""
    if not (expression.is_Add or expression.is_Mul):
        return expression
    args = [numbers_inside(a) for a in expression.args]
    if any(a is not b for a, b in zip(args, expression.args, strict=True)):
        expression = expression.func(*args)
    if not expression.is_Mul:
        return expression
    number, factors = expression.as_coeff_mul()
    plain = [f for f in factors if not (f.is_Pow or isinstance(f, sp.exp))]
    if number == 1 or len(plain) != 1 or not plain[0].is_Add:
        return expression
    return sp.Mul(number * plain[0], *(f for f in factors if f is not plain[0]))


@lru_cache(maxsize=4096)
def placeholder(part: Expr) -> Expr:
    """What stands for ``part`` in scalar partials: always the same, so that SymPy knows it by the next operand."""
    return sp.Dummy(real=True)


def access_derivative(entry: Expr, at: Sequence[Index]) -> Expr:
    """∂x[i,j]/∂x[p,q] = δ_ip·δ_jq; indices that unravel one number give one δ on that number."""
    indices = indices_of(entry)
    result = sp.S.One
    pairs = list(zip(indices, at, strict=True))
    for number in dict.fromkeys(i.number for i in indices if isinstance(i, Unravel)):
        group = [(i, p) for i, p in pairs if isinstance(i, Unravel) and i.number == number]
        if [i.axis for i, _ in group] == list(range(len(group[0][0].shape))):
            result *= delta(number, ravel([p for _, p in group], group[0][0].shape))
            pairs = [pair for pair in pairs if pair not in group]
    for index, p in pairs:
        result *= delta(index, p)
    return result


def product_derivative(expression: Expr, name: str, at: Sequence[Index]) -> Expr:
    """∂ Π_k f(k) = Σ_l ∂f(l) · Π_k ([k = l] + [k ≠ l]·f(k)); k and l may be several indices."""
    one = {k: fresh(k.name, k.size) for k, _, _ in expression.limits}
    same = sp.Mul(*(Bracket(sp.Eq(k, other)) for k, other in one.items()))
    others = over_same(same + (1 - same) * expression.function, expression)
    factor = differentiate(expression.function.xreplace(one), name, at)
    return contracted_sum(factor * others, list(one.values()))


def atomic_parts(expression: Expr) -> list[Expr]:
    """The accesses, sums and products that ``expression`` varies with: conditions are constant between their edges."""
    if is_access(expression) or isinstance(expression, (sp.Sum, sp.Product)):
        return [expression]
    if isinstance(expression, (sp.KroneckerDelta, Bracket)):
        return []
    return list(dict.fromkeys(part for a in expression.args for part in atomic_parts(a)))


def through_output(partial: Expr, scalar: Expr, variable: Expr, output: Expr, variables: list[Expr]) -> Expr:
    """``partial`` with the function's own value named: exp' = out, tanh' = 1 − out², log' of a sum = exp(−out).

    The value is replaced where it stands. When that leaves the one variable behind, the equation out = g(t)
    is solved for it, so that the sum t need not be formed again.
    """
    y = sp.Dummy("y", real=True)
    written = partial.subs(scalar, y)
    if variable in written.free_symbols and len(variables) == 1:
        solution = solved_for(scalar, variable, y)
        if solution is not None:
            written = sp.powdenest(written.xreplace({variable: solution}), force=True)
    if sp.count_ops(written) > sp.count_ops(partial) + 1:
        return partial
    return sp.factor_terms(written).xreplace({y: output})


def solved_for(scalar: Expr, variable: Expr, y: Expr) -> Expr | None:
    """t with scalar(t) = y, for c·tᵉ (t ≥ 0) and c·log t; None for anything else."""
    coefficient, core = scalar.as_independent(variable, as_Add=False)
    if isinstance(core, sp.log) and core.args[0] == variable:
        return sp.exp(y / coefficient)
    if core.is_Pow and core.exp.is_number:
        inner_coefficient, inner = core.base.as_independent(variable, as_Add=False)
        if inner == variable:
            return (y / coefficient) ** (1 / core.exp) / inner_coefficient
    return None


@dataclass(frozen=True)
class Rewrite:
    """``rule`` turned what stood before into ``formula``, because ``why``."""

    rule: str
    formula: Expr
    why: str


def reuse_output(formula: Expr, equation: Equation, out: str) -> Expr:
    """``formula`` with the output's entries named wherever their definition stands as a factor."""
    axes, formula = fresh_axes(equation.shape), sp.Add(*over_terms(formula, is_delta))
    definition = NamedEquation(out, Equation(axes, equation.at(axes)))
    right = definition.equation.right
    for part, of in ((right, lambda entry: entry), *([(sp.exp(right), sp.exp)] if right.has(sp.log) else [])):
        pattern = take_apart(part)
        if len(pattern.powers) > 1:
            formula = put_name(formula, definition, pattern, of)
    return formula
