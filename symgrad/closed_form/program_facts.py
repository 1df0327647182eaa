"""Facts about the tensors of one program: inverses, the meaning of a norm 0, the definition of ``out``.

    t = x − mean x        Σ_k t[k] → 0, t − mean t → t
    out = x / ‖x‖         x[i] / ‖x‖ → out[i]

Comes in: the program and its views. Goes out: rules that hold for this program alone, where nothing is divided by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial

import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.calculus.reverse_sweep import substitute
from symgrad.closed_form.fragments import find_solved_matrices
from symgrad.closed_form.number_code import drop_decimal_point
from symgrad.closed_form.rewriting import FormRule, apply_rules
from symgrad.closed_form.rewriting.conditions import SAYS, drop_floor
from symgrad.closed_form.rewriting.shorthands import LINEAR, Centred
from symgrad.indexing import Equation, Index, contracted_sum, fresh_axes, is_guard
from symgrad.indexing.definitions import NamedEquation, canonical_at, put_name, take_apart, values_of
from symgrad.indexing.equation import canonical
from symgrad.indexing.symbols import Expr, access, accesses, free_indices, indices_of, is_access, name_of
from symgrad.ops.calls.call_texts import sign_of
from symgrad.ops.lookup import has_role
from symgrad.program import Apply, Program, Role

FEW = 4
"""Signs of what is computed entry by entry and written out."""


def rules_for_program(program: Program, known: Mapping[str, Equation]) -> tuple[FormRule, ...]:
    """The rules that hold for the tensors of ``program``."""
    makers = {step.result.name: step for step in program.steps}
    inverses = find_inverses(program)
    norms = {name: step for name, step in makers.items() if has_role(step.op, Role.MEASURES)}
    return (
        *([FormRule("inverse", "A⁻¹·A → I", lambda e: cancel_inverses(e, inverses))] if inverses else []),
        *([FormRule("norm of 0", "[‖x‖ ≠ 0]·x → x", lambda e: drop_norm_guards(e, program, norms))] if norms else []),
        FormRule("above the floor", SAYS, partial(drop_floor, norms=norms)),
        *centring_rule(program, makers, known),
        *quotient_rules(program, makers, known),
        *power_rule(program, known),
    )


def find_products(program: Program, known: Mapping[str, Equation]) -> tuple[dict[str, Equation], dict[str, Equation]]:
    """The intermediates that are matrix products, and those that are products of entries, written out."""
    products, monomials = dict[str, Equation](), dict[str, Equation]()
    for step in program.steps:
        own, name = local_jacobian(step, program).equation, step.result.name
        if type(own.right) is sp.Sum and name != program.output:
            products[name] = substitute(own, {**known, **products})
        elif is_monomial(own) and name != program.output:
            monomials[name] = substitute(own, {**known, **monomials})
    return products, monomials


def is_monomial(equation: Equation) -> bool:
    """Whether an entry is a product of powers of entries, and of numbers."""
    powers = [factor.as_base_exp() for factor in sp.Mul.make_args(equation.right) if not factor.is_number]
    plain = all(is_access(base) and exponent.is_number for base, exponent in powers)
    return plain and not is_access(equation.right) and equation.right.count_ops() < FEW


def find_inverses(program: Program) -> dict[str, str]:
    """The tensors that are an inverse, and of which."""
    return {step.result.name: str(step.arguments[0]) for step in program.steps if has_role(step.op, Role.INVERTS)}


def find_symmetric(program: Program, known: Mapping[str, Equation]) -> frozenset[str]:
    """The intermediates that are symmetric matrices: A·Aᵀ, what is made of such entry by entry, their inverses."""
    inverses, found = find_inverses(program), set[str]()
    solved = find_solved_matrices(program)
    for step in program.steps if inverses else ():
        name, shape = step.result.name, step.result.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            continue
        if name in inverses:
            found |= {name} if inverses[name] in found and name not in solved else set()
            continue
        equation = sort_symmetric_indices(substitute(local_jacobian(step, program).equation, known), found)
        turned = equation.right.xreplace(dict(zip(equation.axes, reversed(equation.axes), strict=True)))
        if canonical(sort_symmetric_indices(Equation(equation.axes, turned), found).right) == canonical(equation.right):
            found.add(name)
    return frozenset(found)


def sort_symmetric_indices(equation: Equation, symmetric: Collection[str]) -> Equation:
    """``equation`` with the two indices of a symmetric matrix in one order: free ones first."""
    free = {*equation.axes, *free_indices(equation.right)}
    swap = {
        entry: access(name_of(entry), sorted(indices_of(entry), key=lambda i: (i not in free, str(i))))
        for entry in accesses(equation.right)
        if name_of(entry) in symmetric
    }
    return Equation(equation.axes, equation.right.xreplace(swap)) if swap else equation


def cancel_inverses(expression: Expr, inverses: Mapping[str, str]) -> Expr:
    """Σ_k A⁻¹[i,k]·A[k,j] → δ(i,j), contracted"""
    if type(expression) is not sp.Sum:
        return expression
    bound = [limit[0] for limit in expression.limits]
    factors = list(sp.Mul.make_args(expression.function))
    if any(isinstance(f, sp.KroneckerDelta) and free_indices(f) & set(bound) for f in factors):
        return contracted_sum(expression.function, bound)
    for k in bound:
        held = [f for f in factors if k in free_indices(f)]
        if len(held) != 2 or not all(is_access(f) and len(indices_of(f)) > 1 for f in held):
            continue
        pair = {name_of(held[0]), name_of(held[1])}
        if not any({name, of} == pair for name, of in inverses.items()):
            continue
        (*batch, p, q), (*other, r, s) = map(indices_of, held)
        ends = (p, s) if (q, r) == (k, k) else (q, r) if (p, s) == (k, k) else None
        if batch != other or ends is None or k in ends:
            continue
        rest = sp.Mul(*(f for f in factors if f not in held), sp.KroneckerDelta(*ends))
        return contracted_sum(rest, [i for i in bound if i is not k])
    return expression


def drop_norm_guards(expression: Expr, program: Program, norms: Mapping[str, Apply]) -> Expr:
    """[‖x‖ ≠ 0]·x[i] → x[i]: where the norm is 0, so is every entry that it is of"""
    if not expression.is_Mul:
        return expression
    for guard in expression.args:
        if not is_guard(guard):
            continue
        norm = guard.args[0].lhs
        if is_access(norm) and name_of(norm) in norms:
            rest = sp.Mul(*(f for f in expression.args if f is not guard))
            if any(is_entry_of_norm(entry, norm, norms[name_of(norm)], program) for entry in factors_that_vanish(rest)):
                return rest
    return expression


def factors_that_vanish(expression: Expr) -> Iterator[Expr]:
    """What a product is 0 with: its factors, and those of the sums among them."""
    for factor in sp.Mul.make_args(expression):
        if type(factor) in LINEAR:
            yield from factors_that_vanish(factor.function)
        else:
            yield factor


def is_entry_of_norm(entry: Expr, norm: Expr, step: Apply, program: Program) -> bool:
    """Whether ``entry`` is one of those that ``norm``, an entry of the result of ``step``, is the length of."""
    if not is_access(entry) or name_of(entry) != step.arguments[0]:
        return False
    equation = local_jacobian(step, program).equation
    at = dict(zip(equation.axes, indices_of(norm), strict=True))
    read = {indices_of(a) for a in equation.right.atoms(sp.Indexed) if name_of(a) == step.arguments[0]}
    return len(read) == 1 and all(
        i == at.get(own, i) for own, i in zip(next(iter(read)), indices_of(entry), strict=True)
    )


def equations_of(names: Collection[str], program: Program, known: Mapping[str, Equation]) -> dict[str, Equation]:
    """What computes the tensors of these names, but for inputs."""
    steps = (step for step in program.steps if step.result.name in names)
    return {step.result.name: substitute(local_jacobian(step, program).equation, known) for step in steps}


def step_of_output(program: Program, known: Mapping[str, Equation]) -> Equation:
    """What the last step computes; an entry of the output for one that no step computes."""
    axes = fresh_axes(program.out.shape)
    own = Equation(axes, access(program.output, axes))
    return equations_of({program.output}, program, known).get(program.output, own)


@lru_cache(maxsize=256)
def without_floors(right: Expr) -> Expr:
    """What a program computes, without its floors: the same whichever tensor its pullback is asked by."""
    return apply_rules(right, [], (FormRule("above the floor", SAYS, partial(drop_floor, norms=())),))


def quotient_rules(program: Program, makers: Mapping[str, Apply], known: Mapping[str, Equation]) -> Iterator[FormRule]:
    """x / ‖x‖ → out, Σ_k x·y / (‖x‖·‖y‖) → out, for an output that is something over something else.

    Also where x stands as y − mean y.
    """
    equation = step_of_output(program, known)
    read = {name_of(a) for a in accesses(equation.right)}
    inner = equations_of({n for n in read & makers.keys() if sign_of(makers[n].op) == "*"}, program, known)
    for own in (equation, substitute(equation, inner)) if inner else (equation,):
        whole = without_floors(own.right)
        above = find_numerator(whole, own.axes)
        if above is None:
            continue
        maker = makers.get(name_of(above)) if is_access(above) else None
        centre = None if maker is None else find_centred(maker, indices_of(above), program, known)
        for part in filter(None, (above, centre)):
            yield rule_for_output(program, Equation(own.axes, whole.xreplace({above: part})), "f / d → out")


def find_numerator(whole: Expr, axes: Sequence[Index]) -> Expr | None:
    """What stands alone above the line: a sum, a number, or an entry, which nobody says out of in x / y by entries."""
    factors = [f.as_base_exp() if f.is_Pow else (f, sp.S.One) for f in sp.Mul.make_args(whole)]
    above = [base for base, power in factors if power == 1]
    if len(above) != 1 or len(factors) < 2 or any(not power.is_Rational or power > 1 for _, power in factors):
        return None
    (entry,) = above
    if entry.is_number or free_indices(entry) != {*axes}:
        return None
    fewer = is_access(entry) and free_indices(whole / entry) < {*axes}
    return entry if fewer or isinstance(entry, sp.Sum) or not axes else None


def rule_for_output(
    program: Program, equation: Equation, says: str, of: Callable[[Expr], Expr] = lambda out: out
) -> FormRule:
    """The rule that writes, for what ``equation`` says at whatever places, what it is ``of`` out there."""

    def named(entry: Expr) -> Expr:
        places = iter(indices_of(entry))  # an axis of one entry has none
        at = [sp.S.Zero if axis.size == 1 else next(places) for axis in equation.axes]
        return of(access(program.output, at))

    definition, pattern = NamedEquation(program.output, equation), take_apart(equation.right)
    return FormRule("name the output", says, partial(put_name, definition=definition, pattern=pattern, of=named))


def power_rule(program: Program, known: Mapping[str, Equation]) -> tuple[FormRule, ...]:
    """xᵉ → out, 2ˣ → out and x⁻ⁿᵉ → 1 / outⁿ, for an output that is a power: nobody says out / x of x³"""
    equation = step_of_output(program, known)
    right = equation.right
    if not right.is_Pow or right.exp.is_Integer:
        return ()
    read = right.exp if right.base.is_number else right.base

    def named(expression: Expr) -> Expr:
        if not expression.is_Pow:
            return expression
        for at in values_of(equation.axes, (read,), expression):
            base, power = canonical_at(at, equation.axes, right).as_base_exp()
            times = expression.exp / power
            times = drop_decimal_point(float(times)) if times.is_Float else times
            if expression.base == base and (times == 1 or (times.is_Integer and times < 0 and power.is_positive)):
                return access(program.output, at) ** times
        return expression

    return (FormRule("name the power", "xᵉ → out", named),)


def find_centred(maker: Apply, at: Sequence[Expr], program: Program, known: Mapping[str, Equation]) -> Expr | None:
    """x − mean x, where that is what ``maker`` computes at some indices."""
    if not all(isinstance(index, Index) for index in at):
        return None
    own = substitute(local_jacobian(maker, program).equation, known)
    own = substitute(own, equations_of({name_of(a) for a in accesses(own.right)}, program, known))
    found = apply_rules(own.right.xreplace(dict(zip(own.axes, at, strict=True))), [])
    return found if isinstance(found, Centred) and is_access(found.args[0]) else None


def centring_rule(program: Program, makers: Mapping[str, Apply], known: Mapping[str, Equation]) -> tuple[FormRule, ...]:
    """t − mean t → t and Σ_k c·t[k] → 0, for what the program centred along the same axes"""
    lessened = {name: step for name, step in makers.items() if sign_of(step.op) == "-"}

    @cache
    def along(name: str) -> frozenset[int]:
        """The axes along which a tensor is centred."""
        at = fresh_axes(program.tensor(name).shape)
        found = find_centred(lessened[name], at, program, known)
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

    return (FormRule("centred already", "t − mean t → t, where t = x − mean x", again),) if lessened else ()
