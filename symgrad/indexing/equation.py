"""The index equation: out[axes] = right-hand side, how one is put to use inside another, and other names for indices.

Substituting an equation for an access (composition) renames every bound index of what is put in, so that
nothing is captured however often it is put in.

`relabel` makes what `xreplace` makes of an expression and new indices for some of its own, without evaluating anything
anew. SymPy evaluates every node that it rebuilds, with all its questions about signs; under other names the answers are
the same, since to SymPy every index is a non-negative integer. Only the order of terms and factors may change.

Σ_j x[j] and Σ_k x[k] differ only in what the index is called. `canonical` renames every bound index to the standard one
of its size and nesting depth: they are the same SymPy expression then, and like terms cancel or add up by themselves.
Standard indices are only ever bound; `with_fresh_sums` renames them before an expression is put inside another, so that
nothing is captured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key, lru_cache

import sympy as sp
from sympy.core.relational import Relational
from sympy.core.sorting import default_sort_key

from symgrad.indexing.brackets import Bracket
from symgrad.indexing.symbols import (
    Expr,
    Index,
    access,
    accesses,
    bound_indices,
    free_indices,
    fresh,
    indices_of,
    is_access,
    name_of,
    over,
    unevaluated,
)
from symgrad.shapes import Shape, Size

_in_order = cmp_to_key(sp.Basic.compare)
"""How SymPy orders the terms of a sum and the factors of a product."""

_stand_ins = [Index("i", 1) for _ in range(16)]


def relabel(expression: Expr, names: Mapping[Index, Expr]) -> Expr:
    """``expression`` with its indices replaced by ``names``."""
    own = indices_in(expression)
    if own.isdisjoint(names):
        return expression
    new = {names.get(index, index) for index in own}
    if len(new) < len(own) or not all(isinstance(index, Index) for index in new):
        return expression.xreplace(names)
    touched = (c for c in conditions_in(expression) if not indices_in(c).isdisjoint(names))
    judged = {c: c.func(*c.args) for c in touched if not is_open(c)}
    return _relabelled(expression.xreplace(judged) if judged else expression, names)


@lru_cache(maxsize=2048)
def indices_in(expression: Expr) -> frozenset[Index]:
    """Every index that stands in ``expression``, free or bound."""
    if isinstance(expression, Index):
        return frozenset((expression,))
    return frozenset().union(*map(indices_in, expression.args))


@lru_cache(maxsize=2048)
def conditions_in(expression: Expr) -> frozenset[Expr]:
    """The conditions on indices alone in ``expression``: some are written down before SymPy has judged them."""
    if isinstance(expression, Relational) and not expression.has(sp.Indexed):
        return frozenset((expression,))
    return frozenset().union(*map(conditions_in, expression.args))


@lru_cache(maxsize=1024)
def is_open(condition: Expr) -> bool:
    """Whether SymPy leaves a condition as it stands: asked once, whatever its indices are called."""
    return stays(_relabelled(condition, dict(zip(_order(condition), _stand_ins, strict=False))))


def _order(expression: Expr) -> list[Index]:
    """The indices of ``expression`` by where they stand first."""
    if isinstance(expression, Index):
        return [expression]
    return list(dict.fromkeys(index for a in expression.args for index in _order(a)))


@lru_cache(maxsize=1024)
def stays(condition: Expr) -> bool:
    """Whether evaluating a condition changes nothing."""
    return bool(condition.func(*condition.args) == condition)


def _relabelled(node: Expr, names: Mapping[Index, Expr]) -> Expr:
    """`relabel` where indices stay apart."""
    if isinstance(node, Index):
        return names.get(node, node)
    if indices_in(node).isdisjoint(names):
        return node
    return rebuilt_like(node, [_relabelled(a, names) for a in node.args])


def rebuilt_like(node: Expr, args: Sequence[Expr]) -> Expr:
    """``node`` with other names in its arguments; as SymPy writes it where one of them became something else."""
    if any(type(a) is not type(b) for a, b in zip(args, node.args, strict=True)):
        return node.func(*args)
    if isinstance(node, (sp.Add, sp.Mul)) and _is_flat(node):
        numbers = 1 if node.args[0].is_Number else 0
        return node._new_rawargs(*args[:numbers], *sorted(args[numbers:], key=_in_order))
    if isinstance(node, sp.KroneckerDelta):
        return unevaluated(sp.KroneckerDelta, *sorted(args, key=default_sort_key))
    if isinstance(node, (Bracket, sp.Mod, sp.floor)) or _keeps_its_sign(node):
        return unevaluated(node.func, *args)
    if isinstance(node, (Relational, sp.Pow)):
        return node.func(*args, evaluate=False)
    if isinstance(node, (sp.Sum, sp.Product)):
        return over(node.func, *args)
    return node.func(*args)


def _keeps_its_sign(node: Expr) -> bool:
    """Whether names cannot decide how a function is written, as they do for sin(i − j) or −sin(j − i)."""
    return isinstance(node, sp.Function) and len(node.args) == 1 and not node.args[0].has(sp.Add)


def _is_flat(node: Expr) -> bool:
    """Whether a sum or a product stands as SymPy would write it: nothing to flatten, no number to multiply in."""
    first, *rest = node.args
    if any(a.is_Number or a.func is node.func for a in rest):
        return False
    return not (first.is_Number and len(rest) == 1 and rest[0].is_Add)


@dataclass(frozen=True)
class Equation:
    """``out[axes] = right``, for every size at once."""

    axes: tuple[Index, ...]
    right: Expr

    @property
    def shape(self) -> Shape:
        """The shape of what the equation defines."""
        return tuple(axis.size for axis in self.axes)

    def at(self, indices: tuple[Expr, ...]) -> Expr:
        """The right-hand side at ``indices``, its sums renamed."""
        return relabel(with_fresh_sums(self.right), dict(zip(self.axes, indices, strict=True)))


def evaluated_node(node: Expr, args: Sequence[Expr]) -> Expr:
    """``node`` on other arguments, as SymPy writes it."""
    return node.func(*args)


def rebuild(
    expression: Expr,
    change: Callable[[Expr], Expr | None],
    make: Callable[[Expr, Sequence[Expr]], Expr] = evaluated_node,
) -> Expr:
    """``expression`` with each node for which ``change`` has an answer replaced by it, outermost first."""
    answer = change(expression)
    if answer is not None:
        return answer
    if not expression.args:
        return expression
    args = [rebuild(a, change, make) for a in expression.args]
    return expression if all(a is b for a, b in zip(args, expression.args, strict=True)) else make(expression, args)


def with_fresh_sums(expression: Expr) -> Expr:
    """``expression`` with every bound index renamed to a new one."""

    def renamed(node: Expr) -> Expr | None:
        if not isinstance(node, (sp.Sum, sp.Product)):
            return None if bound_indices(node) else node
        new = {limit[0]: fresh(limit[0].name, limit[0].size) for limit in node.limits}
        limits = [sp.Tuple(new[k], low, high) for k, low, high in node.limits]
        return over(node.func, relabel(with_fresh_sums(node.function), new), *limits)

    return rebuild(expression, renamed, rebuilt_like) if bound_indices(expression) else expression


def replace_accesses(
    expression: Expr,
    change: Callable[[str, tuple[Expr, ...]], Expr | None],
    make: Callable[[Expr, Sequence[Expr]], Expr] = evaluated_node,
) -> Expr:
    """``expression`` with each access ``name[indices]`` replaced by ``change(name, indices)``, if not None."""

    def changed(node: Expr) -> Expr | None:
        if not is_access(node):
            return None
        inner = tuple(replace_accesses(i, change, make) for i in indices_of(node))
        answer = change(name_of(node), inner)
        if answer is None and all(a is b for a, b in zip(inner, indices_of(node), strict=True)):
            return node
        return access(name_of(node), inner) if answer is None else answer

    return rebuild(expression, changed, make)


def with_names(expression: Expr, names: Mapping[str, str]) -> Expr:
    """``expression`` with other names for the tensors that it reads."""

    def renamed(name: str, at: tuple[Expr, ...]) -> Expr | None:
        return access(names[name], at) if names.get(name, name) != name else None

    read = {name_of(entry) for entry in accesses(expression)}
    apart = len({names.get(name, name) for name in read}) == len(read)  # else x·y may become x²
    return replace_accesses(expression, renamed, rebuilt_like if apart else evaluated_node)


HINTS = "jklabcd"
_standard: dict[tuple[int, Size], Index] = {}
_places: dict[Index, int] = {}
"""How deep the sums of each standard index nest."""


def standard_index(depth: int, size: Size) -> Index:
    """The one index that stands for a bound index of ``size`` at ``depth``."""
    key = (depth, size)
    if key not in _standard:
        _standard[key] = fresh(HINTS[depth % len(HINTS)], size)
        _places[_standard[key]] = depth
    return _standard[key]


def _nesting_depth(expression: Expr) -> int:
    """How many bound indices are nested inside ``expression`` at most."""
    if not expression.has(sp.Sum, sp.Product):
        return 0
    inside = max((_nesting_depth(a) for a in expression.args), default=0)
    return inside + len(expression.limits) if isinstance(expression, (sp.Sum, sp.Product)) else inside


def canonical(expression: Expr) -> Expr:
    """``expression`` with every bound index under its standard name."""

    def renamed(node: Expr) -> Expr | None:
        return canonical_sum(node) if isinstance(node, (sp.Sum, sp.Product)) else None

    return rebuild(expression, renamed, _remade) if expression.has(sp.Sum, sp.Product) else expression


def _remade(node: Expr, args: Sequence[Expr]) -> Expr:
    """``node`` on the canonical forms of its arguments, where terms may have become alike."""
    if node.is_Mul:
        apart = {a.as_base_exp()[0] for a in args}
    else:
        apart = {a.as_coeff_Mul()[1] for a in args} if node.is_Add else set(args)
    return rebuilt_like(node, args) if len(apart) == len(args) else node.func(*args)


@lru_cache(maxsize=1024)
def canonical_sum(node: Expr) -> Expr:
    """One sum or product under standard names; formulas hold the same one many times."""
    own, body = _out_of_reach(node)
    body = canonical(body)
    if body == 0 and isinstance(node, sp.Sum):
        return sp.S.Zero
    depth = _nesting_depth(body)
    limits = list(zip(own, node.limits, strict=True))
    if len(own) > 1:
        limits.sort(key=lambda pair: _first_use(body, pair[0]))
    new = {index: standard_index(depth + place, index.size) for place, (index, _) in enumerate(limits)}
    renamed = (sp.Tuple(new[k], *limit[1:]) for k, limit in limits)
    return over(node.func, relabel(body, new), *renamed)


def _out_of_reach(node: Expr) -> tuple[tuple[Index, ...], Expr]:
    """A sum's own indices and its body, under names that no sum inside will get: it would catch them."""
    own = tuple(limit[0] for limit in node.limits)
    places = [_places[index] for index in own if index in _places]
    if not places or min(places) >= _nesting_depth(node.function):
        return own, node.function
    apart = {index: fresh(index.name, index.size) for index in own}
    return tuple(apart.values()), relabel(node.function, apart)


def _first_use(body: Expr, index: Index) -> tuple[str, ...]:
    """A key that tells the bound indices of one sum apart by how they are used, not by what they are called."""
    uses = [
        f"{node.func.__name__}:{place}:{node.args[0]}"
        for node in body.atoms(sp.Indexed, sp.KroneckerDelta)
        for place, argument in enumerate(node.args[1:] if isinstance(node, sp.Indexed) else node.args)
        if index in free_indices(argument)
    ]
    return (*sorted(uses), str(index.size))
