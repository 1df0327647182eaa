"""Classes: δ(t[i], k) is a row of one_hot(t), and each class is one that there is.

A loss leaves out what has the class −100, and what is read at a position is 0 outside. No class has a number below 0 or
above the last, so where none is left out, nothing needs to be said of it; where one is, the form without it disagrees
at the point, and there is another with a mask: ``m = t != -100; … * m[:, None] * one_hot(t * m, n)``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sympy as sp

from symgrad.calculus.differentiate import Step
from symgrad.closed_form.rewriting.asking import indices_in, reads_tensor
from symgrad.closed_form.texts.notation import Notation
from symgrad.closed_form.texts.pieces import ATOM, MULTIPLY, NoForm, Piece, flat
from symgrad.indexing import Bracket, Index, add_up
from symgrad.indexing.equation import rebuild
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access, name_of

NONE_LEFT_OUT = "none left out"
"""The name of the rule that holds for data without such a class."""


def none_left_out(expression: Expr, record: list[Step]) -> Expr:
    """[t[i] ≠ c], [t[i] ≥ 0], [t[i] < n] → 1, where t[i] is a class and c < 0"""
    places = [side for d in expression.atoms(sp.KroneckerDelta) for side in d.args]
    places += [index for entry in accesses(expression) for index in indices_of(entry)]
    classes = {name_of(place) for place in places if is_access(place)}

    def changed(node: Expr) -> Expr | None:
        if isinstance(node, Bracket):
            entry = met_by_classes(node.args[0])
            return sp.S.One if entry is not None and is_access(entry) and name_of(entry) in classes else None
        if type(node) is sp.Sum:  # over all classes there is one 1, where the class is one
            total = add_up(rebuild(node.function, changed), [limit[0] for limit in node.limits])
            return total if total == node or isinstance(total, sp.Sum) else rebuild(total, changed)
        return None

    found = rebuild(expression, changed) if classes else expression
    if found != expression:
        says = "[t[i] ≠ c], [t[i] ≥ 0], [t[i] < n] → 1, where t[i] is a class and c < 0"
        record.append(Step(NONE_LEFT_OUT, found, says))
    return found


def some_left_out(expression: Expr, record: list[Step]) -> Expr:
    """[t[i] ≠ c]·f(t[i]) → [t[i] ≠ c]·f(t[i]·[t[i] ≠ c]): 0 stands in the place of a class that is none"""

    def changed(node: Expr) -> Expr | None:
        if not node.is_Mul:
            return None
        kept = {mask.args[0].lhs: mask for mask in node.args if leaves_out(mask)}
        rest = [f for f in node.args if not (isinstance(f, Bracket) and met_by_classes(f.args[0]) in kept)]
        if not kept:
            return None
        masked = {entry: entry * mask for entry, mask in kept.items()}
        found = [rebuild(rebuild(f, changed), lambda n: read_where(n, masked)) for f in rest if f not in kept.values()]
        return sp.Mul(*found, *kept.values())

    found = rebuild(expression, changed)
    if found != expression:
        record.append(Step("some left out", found, "[t[i] ≠ c]·f(t[i]) → [t[i] ≠ c]·f(t[i]·[t[i] ≠ c])"))
    return found


def leaves_out(node: Expr) -> bool:
    """Whether a condition says that a tensor's entry is not a certain number."""
    relation = node.args[0] if isinstance(node, Bracket) else None
    return isinstance(relation, sp.Ne) and is_access(relation.lhs) and bool(relation.rhs.is_Integer)


def read_where(node: Expr, masked: Mapping[Expr, Expr]) -> Expr | None:
    """δ(q, t[i]) and w[t[i]] with the class as ``masked`` has it."""
    if not (is_access(node) or isinstance(node, sp.KroneckerDelta)) or node in masked:
        return None
    return node.func(*(masked.get(arg, arg) for arg in node.args)) if masked.keys() & set(node.args) else None


def met_by_classes(relation: Expr) -> Expr | None:
    """What every class meets this condition: e of e ≠ −100, 0 ≤ e and e < n."""
    if isinstance(relation, sp.Ne):
        return relation.lhs if relation.rhs.is_negative else None
    if isinstance(relation, (sp.Ge, sp.Le)):
        return relation.gts if relation.lts == 0 else None
    if isinstance(relation, (sp.Lt, sp.Gt)):
        return None if indices_in(relation.gts) else relation.lts
    return None


def is_class(node: Expr) -> bool:
    """Whether a δ says which class an entry has."""
    return isinstance(node, sp.KroneckerDelta) and any(isinstance(s, Index) for s in node.args) and reads_tensor(node)


def one_hot(notation: Notation, node: Expr) -> Piece:
    """The δ of classes by its name in torch."""
    (place,), (entry,) = ([s for s in node.args if isinstance(s, Index) == own] for own in (True, False))
    classes, size = class_of(notation, entry), notation.texts.size(place.size)
    told = max(classes_told(notation, entry), default=0)
    if place.size.is_Integer and told > place.size:  # the first of more
        return Piece(f"one_hot({classes.text}, {told})[..., :{size}]", ATOM, (*classes.axes, place))
    return Piece(f"one_hot({classes.text}, {size})", ATOM, (*classes.axes, place))


def classes_told(notation: Notation, entry: Expr) -> Iterator[int]:
    """How many classes the program says that there are."""
    names = {name_of(part) for part in accesses(entry)}
    for step in notation.program.steps:
        told = dict(step.options).get("num_classes")
        if isinstance(told, int) and not names.isdisjoint(step.tensors):
            yield told


def class_of(notation: Notation, entry: Expr) -> Piece:
    """The tensor of classes t, or ``t * m`` where a mask leaves some out, which has a name."""
    if is_access(entry):
        return flat(notation.write(entry, ()))
    masks = [factor for factor in entry.args if leaves_out(factor)] if entry.is_Mul else []
    if len(masks) != 1 or len(entry.args) != 2 or not is_access(masks[0].args[0].lhs):
        raise NoForm
    classes, mask = flat(notation.write(masks[0].args[0].lhs, ())), flat(notation.write(masks[0], ()))
    if classes.axes != mask.axes:
        raise NoForm
    return Piece(f"{classes.text} * {notation.name('m', mask).text}", MULTIPLY, classes.axes)
