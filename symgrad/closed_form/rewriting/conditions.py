"""Rules about conditions: which may be left out, which say the same together, and which choose between two values.

    [e ≠ 0] / e → 1 / e                          the form is for the points that have a derivative
    [t[i] ≠ −100]·f(t[i]) → f(t[i])              no class is left out; else f is masked: `mask_ignored_classes`
    max(‖x‖, c) → ‖x‖, [‖x‖ ≥ c] → 1             no length is below the floor c, as in `normalize`
    [c]·a + [not c]·b → a where c, else b

Comes in: an expression. Goes out: one with fewer conditions, or the same. Whether the data meets a condition that was
left out is tested with the numbers: such a form is confirmed on every run, and not shown where it does not hold. No
class has a number below 0 or above the last, so conditions that ask for that are always met.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sympy as sp

from symgrad.calculus.differentiate import Rewrite
from symgrad.closed_form.rewriting.shorthands import Cases
from symgrad.indexing import Bracket, contracted_sum
from symgrad.indexing.equation import rebuild
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of


def merge_two_sided_condition(expression: Expr) -> Expr:
    """[x > c] + [x < −c] → [|x| > c], for numbers c > 0, also with a factor"""
    held = {}
    for term in expression.args if expression.is_Add else ():
        for bracket in (f for f in sp.Mul.make_args(term) if isinstance(f, Bracket)):
            held[term / bracket, bracket.args[0]] = term
    for (factor, condition), term in held.items():
        if not isinstance(condition, (sp.Gt, sp.Ge)) or not condition.rhs.is_positive:
            continue
        other = condition.reversedsign.func(condition.lhs, -condition.rhs)
        if (factor, other) in held:
            outside = Bracket(condition.func(sp.Abs(condition.lhs), condition.rhs))
            return expression - term - held[factor, other] + factor * outside
    return expression


def step_to_cases(expression: Expr) -> Expr:
    """a·[c] + b → a + b where c, else b, for numbers a and b"""
    if not expression.is_Add or len(expression.args) != 2:
        return expression
    (low, scaled) = sorted(expression.args, key=lambda term: not term.is_Rational)
    high, held = scaled.as_coeff_Mul(rational=True)
    if not low.is_Rational or not isinstance(held, Bracket) or not held.args[0].is_Relational or high + low == 0:
        return expression
    plain = held.args[0].atoms(sp.Indexed) and not isinstance(held.args[0], (sp.Eq, sp.Ne))
    return Cases(held.args[0], high + low, low) if plain else expression


def drop_decided_cases(expression: Expr) -> Expr:
    """[c]·(a where c, else b) → [c]·a, also below the line"""
    held = {f.args[0] for f in expression.args if isinstance(f, Bracket)} if expression.is_Mul else set()
    for found in expression.atoms(Cases) if held else ():
        condition, first, other = found.args
        if condition in held:
            return expression.xreplace({found: first})
        if condition.is_Relational and condition.negated in held:
            return expression.xreplace({found: other})
    return expression


def merge_into_cases(expression: Expr) -> Expr:
    """[c]·a + [not c]·b → a where c, else b; not what is divided, of which both are computed and one may be 0·∞"""
    if not expression.is_Add or len(expression.args) != 2 or any(p.exp.is_negative for p in expression.atoms(sp.Pow)):
        return expression
    first, second = ({f for f in sp.Mul.make_args(t) if isinstance(f, Bracket)} for t in expression.args)
    for held in sorted(first, key=str):
        condition = held.args[0]
        other = Bracket(condition.negated) if condition.is_Relational else None
        if other not in second or isinstance(condition, sp.Eq):
            continue
        a, b = expression.args[0] / held, expression.args[1] / other
        if condition.func in (sp.Le, sp.Lt):
            held, other, a, b = other, held, b, a
        a, b = a.xreplace({held: sp.S.One}), b.xreplace({other: sp.S.One})
        share = common_divisor_of_cases(a, b)
        return share * Cases(held.args[0], a / share, sp.expand(b / share) if b.is_Add else b / share)
    return expression


def common_divisor_of_cases(*branches: Expr) -> Expr:
    """1 / n, where all branches are divided by n: that is done once."""
    contents = [abs((branch.primitive() if branch.is_Add else branch.as_coeff_Mul())[0]) for branch in branches]
    if not all(content.is_Rational for content in contents):
        return sp.S.One
    most = max(contents)
    whole = most.p == 1 and all((content / most).q <= content.q / most.q for content in contents)
    return most if whole else sp.S.One


def negate_condition(expression: Expr) -> Expr:
    """c − c·[t] → c·[not t], c a number"""
    number = expression.as_coeff_Add()[0] if expression.is_Add else sp.S.Zero
    for term in expression.args if number else ():
        coefficient, condition = term.as_coeff_Mul()
        if coefficient == -number and isinstance(condition, Bracket) and condition.args[0].is_Relational:
            return expression - number - term + number * Bracket(condition.args[0].negated)
    return expression


def drop_guards(expression: Expr) -> Expr:
    """A product without the conditions that what it is divided by is not 0.

    [e ≠ 0] / e → 1 / e, where e ≠ 0: the form is for the points that have a derivative.
    """
    if not expression.is_Mul:
        return expression
    below = {base for base, exponent in (f.as_base_exp() for f in expression.args) if exponent.is_negative}
    asked = [(f, f.args[0]) for f in expression.args if isinstance(f, Bracket) and isinstance(f.args[0], sp.Ne)]
    needless = [f for f, condition in asked if condition.rhs == 0 and condition.lhs in below]
    return sp.Mul(*(f for f in expression.args if f not in needless)) if needless else expression


SAYS = "max(‖x‖, c) → ‖x‖, where no length is below c"
HIGHEST = sp.Rational(1, 1000)
"""A floor is a small number: what is cut off elsewhere is no length that nearly vanishes."""


def drop_floor(expression: Expr, norms: Collection[str]) -> Expr:
    """max(‖x‖, c) → ‖x‖, for roots of sums and for the tensors ``norms``, which are lengths"""
    if isinstance(expression, Bracket):
        (condition,) = expression.args
        below = condition.is_Relational and is_floor_check(condition.negated, norms)
        return sp.S.Zero if below else sp.S.One if is_floor_check(condition, norms) else expression
    if isinstance(expression, Cases):
        condition, length, floor = expression.args
        return length if is_floor_check(condition, norms) and {length, floor} == set(condition.args) else expression
    return expression


def is_floor_check(condition: Expr, norms: Collection[str]) -> bool:
    """Whether a condition says that a length is not below a floor."""
    if not isinstance(condition, (sp.Ge, sp.Gt)) or not condition.gts.free_symbols:
        return False
    length, floor = condition.gts, condition.lts
    if not (floor.is_Rational or floor.is_Float) or not 0 < floor <= HIGHEST:
        return False
    root = length.is_Pow and length.exp == sp.S.Half and isinstance(length.base, sp.Sum)
    return bool(root) or (is_access(length) and name_of(length) in norms)


NONE_LEFT_OUT = "none left out"
"""The name of the rule that holds for data without such a class."""


def drop_class_tests(expression: Expr, record: list[Rewrite]) -> Expr:
    """[t[i] ≠ c], [t[i] ≥ 0], [t[i] < n] → 1, where t[i] is a class and c < 0"""
    places = [side for d in expression.atoms(sp.KroneckerDelta) for side in d.args]
    places += [index for entry in accesses(expression) for index in indices_of(entry)]
    classes = {name_of(place) for place in places if is_access(place)}

    def changed(node: Expr) -> Expr | None:
        if isinstance(node, Bracket):
            entry = holds_for_classes(node.args[0])
            return sp.S.One if entry is not None and is_access(entry) and name_of(entry) in classes else None
        if type(node) is sp.Sum:  # over all classes there is one 1, where the class is one
            total = contracted_sum(rebuild(node.function, changed), [limit[0] for limit in node.limits])
            return total if total == node or isinstance(total, sp.Sum) else rebuild(total, changed)
        return None

    found = rebuild(expression, changed) if classes else expression
    if found != expression:
        says = "[t[i] ≠ c], [t[i] ≥ 0], [t[i] < n] → 1, where t[i] is a class and c < 0"
        record.append(Rewrite(NONE_LEFT_OUT, found, says))
    return found


def mask_ignored_classes(expression: Expr, record: list[Rewrite]) -> Expr:
    """[t[i] ≠ c]·f(t[i]) → [t[i] ≠ c]·f(t[i]·[t[i] ≠ c]): 0 stands in the place of a class that is none"""

    def changed(node: Expr) -> Expr | None:
        if not node.is_Mul:
            return None
        kept = {mask.args[0].lhs: mask for mask in node.args if ignores_class(mask)}
        rest = [f for f in node.args if not (isinstance(f, Bracket) and holds_for_classes(f.args[0]) in kept)]
        if not kept:
            return None
        masked = {entry: entry * mask for entry, mask in kept.items()}
        found = [rebuild(rebuild(f, changed), lambda n: mask_class(n, masked)) for f in rest if f not in kept.values()]
        return sp.Mul(*found, *kept.values())

    found = rebuild(expression, changed)
    if found != expression:
        record.append(Rewrite("some left out", found, "[t[i] ≠ c]·f(t[i]) → [t[i] ≠ c]·f(t[i]·[t[i] ≠ c])"))
    return found


def ignores_class(node: Expr) -> bool:
    """Whether a condition says that a tensor's entry is not a certain number."""
    relation = node.args[0] if isinstance(node, Bracket) else None
    return isinstance(relation, sp.Ne) and is_access(relation.lhs) and bool(relation.rhs.is_Integer)


def mask_class(node: Expr, masked: Mapping[Expr, Expr]) -> Expr | None:
    """δ(q, t[i]) and w[t[i]] with the class as ``masked`` has it."""
    if not (is_access(node) or isinstance(node, sp.KroneckerDelta)) or node in masked:
        return None
    return node.func(*(masked.get(arg, arg) for arg in node.args)) if masked.keys() & set(node.args) else None


def holds_for_classes(relation: Expr) -> Expr | None:
    """What every class meets this condition: e of e ≠ −100, 0 ≤ e and e < n."""
    if isinstance(relation, sp.Ne):
        return relation.lhs if relation.rhs.is_negative else None
    if isinstance(relation, (sp.Ge, sp.Le)):
        return relation.gts if relation.lts == 0 else None
    if isinstance(relation, (sp.Lt, sp.Gt)):
        return None if free_indices(relation.gts) else relation.lts
    return None
