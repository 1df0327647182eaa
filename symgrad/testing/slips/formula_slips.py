"""A formula with one mistake in it: the closed form of a gradient, or the equation of a local pullback.

Comes in: a `Case`, or an index equation. Goes out: `Slip` s of the whole gradient whose closed form has an operand
turned, the sides of an @ swapped, or a sum along other axes; and other right-hand sides of an equation, each with its
kind and a clause: a term or a factor left out, a sign turned, a mean for a sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import sympy as sp

from symgrad.calculus.local_derivatives import SEED
from symgrad.closed_form.writing.sum_writers import SUMS
from symgrad.indexing import Bracket, Equation, Index, instantiate
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of, ordered_indices
from symgrad.language.python_text import call, to_code, write_python
from symgrad.language.syntax_tree import Attribute, Items, Literal, PythonCall, Subscript, Unary
from symgrad.language.trees import read_form, rewrite_tree
from symgrad.notation.tree import Binary, Name, SyntaxNode, walk
from symgrad.numeric import Array, as_float
from symgrad.ops.lookup import ATTRIBUTES
from symgrad.oracles.forms import evaluate_text
from symgrad.render.formula import formula_text
from symgrad.shapes import Size
from symgrad.testing.bench import Trial
from symgrad.testing.slips import Case, Slip

AXIS, MOST_AXES = (Literal, Unary), 5
LONGEST = 40
"""A longer term is not repeated in a clause."""
PARTS = (Attribute, Subscript, PythonCall)
"""What a name may be a part of that is no operand by itself."""
DELTA, MISSING = re.compile(r"δ_(\w)(\w)"), "the factor {} is missing"

Rows = Iterator[tuple[SyntaxNode, SyntaxNode, str, str]]
"""A part of a text, what stands in its place, the kind of that mistake and a clause."""


def closed_form_slips(case: Case, axes: bool = False) -> Iterator[Slip]:
    """The closed form with one operand turned: ``v @ a`` for ``v @ a.T``; or with ``axes`` added up along others."""
    form = None if case.single is None else case.formula.form(0, case.name)
    if case.single is None or form is None:
        return
    program, values = case.single
    known = {t.name: as_float(values[t.name]) for t in (program.out, *program.inputs)}
    ranks = {program.seed: np.ndim(known[program.output]), **{name: array.ndim for name, array in known.items()}}
    nodes = [*read_form(form.bare).nodes()]
    read = sum(isinstance(n, Name) and n.name in known for n in nodes)
    sizes = sum(isinstance(n, Attribute) and n.name == "shape" for n in nodes)
    along = read == sizes and ranks[case.name] != ranks[program.output]
    turning = partial(transpose_operand, ranks=ranks, kind="wrong_axis" if along else "transposed")
    for kind, text, said in variants(form.bare, sum_over_other_axes) if axes else altered_products(form.bare, turning):

        def made(trial: Trial, text: str = text) -> Array:
            return as_float(evaluate_text(text, {**known, program.seed: trial.weights.seeds[0]}))

        yield Slip(kind, f"equals {text}: {said}", made)


def altered_products(text: str, turning: Callable[[SyntaxNode], Rows]) -> Iterator[tuple[str, str, str]]:
    """A text with an operand turned, with the sides of one @ the other way round, then with both."""
    others = list(variants(text, swap_matmul_operands))
    yield from (*variants(text, turning), *others)
    for kind, other, said in others:
        yield from ((kind, both, f"{said}, and {more}") for _, both, more in variants(other, turning))


def variants(text: str, rows: Callable[[SyntaxNode], Rows]) -> Iterator[tuple[str, str, str]]:
    """The kind, a text with one of its parts replaced, and the clause."""
    form = read_form(text)
    for tree in form.trees:
        for old, new, kind, said in rows(tree):
            other = form.changed(partial(rewrite_tree, rule=partial(put_in_place, old, new)))
            if other != form:
                yield kind, other.text, said


def put_in_place(old: SyntaxNode, new: SyntaxNode, node: SyntaxNode) -> SyntaxNode:
    """One node in the place of another."""
    return new if node is old else node


def transpose_operand(tree: SyntaxNode, ranks: Mapping[str, int], kind: str) -> Rows:
    """One operand transposed that is not, or the other way round."""
    inner = {id(n.function if isinstance(n, PythonCall) else n.owner) for n in walk(tree) if isinstance(n, PARTS)}
    for node in walk(tree):
        if isinstance(node, Attribute) and node.name in ATTRIBUTES:
            said = f"the transpose of {node.owner.name}" if isinstance(node.owner, Name) else "a transpose"
            yield node, node.owner, kind, f"{said} is missing"
        if isinstance(node, Name) and ranks.get(node.name, 0) > 1 and id(node) not in inner:
            for attr in ATTRIBUTES[: ranks[node.name] - 1]:  # of a matrix both are the same
                yield node, Attribute(node, attr), kind, f"{node.name} is transposed, and should not be"


def swap_matmul_operands(tree: SyntaxNode) -> Rows:
    """The sides of one @ the other way round."""
    for node in walk(tree):
        if isinstance(node, Binary) and node.sign == "@":
            said = "the operands of @ are swapped"
            yield node, Binary(node.sign, node.right, node.left), "swapped", said


def sum_over_other_axes(tree: SyntaxNode) -> Rows:
    """The axes of one sum or mean replaced: by as many others, by all, by none that stays as 1."""
    for node in walk(tree):
        if not (isinstance(node, PythonCall) and isinstance(node.function, Attribute) and node.positional):
            continue
        axes = node.positional[0]
        if node.function.name not in SUMS or not all(isinstance(n, (Items, *AXIS)) for n in walk(axes)):
            continue
        plain, several = write_python(axes), isinstance(axes, Items)
        for others in combinations(range(MOST_AXES), len(axes.items) if isinstance(axes, Items) else 1):
            along = to_code(others if several else others[0])
            said = f"it is summed over other axes than {plain}"
            yield node, replace(node, positional=(along,)), "wrong_axis", said
        if node.keywords:
            yield (
                node,
                call(node.function, axes),
                "wrong_axis",
                f"{write_python(node.keywords[0])} is missing",
            )
        said = f"it is summed over everything, not only over {plain}"
        yield node, call(node.function), "wrong_axis", said


def describe_alteration(
    clause: str, parts: Sequence[Expr], axes: Sequence[Index], names: Mapping[str, str], sizes: Mapping[Size, Size]
) -> str:
    """A clause with room for some parts of a formula, in the names of a program."""
    texts = [describe_part(part, axes, names, sizes) for part in parts]
    letters = DELTA.fullmatch(texts[0]) if clause == MISSING else None
    means = ", which is 1 where {} = {} and 0 elsewhere".format(*letters.groups()) if letters else ""
    return clause.format(*texts) + means


def describe_part(node: Expr, axes: Sequence[Index], names: Mapping[str, str], sizes: Mapping[Size, Size]) -> str:
    """A part of a formula; what says most in it where it is too long, "…" where nothing does."""
    placed = instantiate(Equation(tuple(axes), node), names, sizes)
    others = [k for k in free_indices(placed.right) if k not in placed.axes]
    text = formula_text(placed.right, (*placed.axes, *ordered_indices(others)))
    if len(text) <= LONGEST or node in seed_sums(node):
        return text
    inner = [describe_part(part, axes, names, sizes) for part in seed_sums(node)]
    return f"with {min(inner, key=len)}" if inner else "…"


Altered = tuple[str, str, Sequence[Expr], Expr]
"""Another right-hand side of an equation: the kind of that mistake, a clause, the parts that it names, the formula."""


def altered_equations(equation: Equation) -> Iterator[Altered]:
    """Terms first, then factors, sums and powers; what would read between two entries is nobody's mistake.

    Nor is what stood inside of a sum without that sum: it has an index that nothing says.
    """
    own = {index for access in accesses(equation.right) for index in indices_of(access)}
    for where, old, new, kind, clause, parts in every_alteration(equation):
        right = where.xreplace({old: new})
        if free_indices(right) <= {*equation.axes} and all(
            is_whole_index(index) for access in accesses(right) for index in set(indices_of(access)) - own
        ):
            yield kind, clause, parts, right


def is_whole_index(index: Expr) -> bool:
    """Whether an index that was altered is a place: nothing in it is a fraction, or it is rounded down."""
    below = any(power.exp.is_negative for power in index.atoms(sp.Pow))
    return bool(index.has(sp.floor)) or (not below and all(n.is_integer for n in index.atoms(sp.Number)))


def every_alteration(equation: Equation) -> Iterator[tuple[Expr, Expr, Expr, str, str, tuple[Expr, ...]]]:
    """All of them, whether they can be evaluated or not: what stands where in place of what, kind, clause, parts."""
    right = equation.right
    for where in (sp.Add(*multiplied_out(right)), right):
        for node in outermost_nodes(where, sp.Add):
            for term in node.args:
                rest = node - term
                yield where, node, rest, "missing_term", "the term {} is missing", (term,)
                yield where, node, rest - term, "missing_term", "the term {} has the wrong sign", (term,)
            for term in node.args if len(node.args) > 2 and contains_seed(node) else ():
                yield where, node, term, "missing_term", "only the term {} is there", (term,)
    for node in outermost_nodes(right, sp.Sum):
        body, limits = node.function, node.limits
        for factor in plain_factors(body):
            if factor.is_number:
                continue
            plain = node.func(body / factor, *limits)
            size = sp.Mul(*(high - low + 1 for _, low, high in limits))
            mean = "a mean is used instead of a mean weighted by {}"
            yield right, node, plain / size, "missing_factor", mean, (factor,)
            yield right, node, plain, "missing_factor", "{} is missing in the sum", (factor,)
        if contains_seed(body):
            bare = body.xreplace({limit[0]: axis for limit, axis in zip(limits, equation.axes, strict=False)})
            yield right, node, bare, "missing_term", "the sum over the other entries is missing", ()
    for node in outermost_nodes(right, sp.Mul):
        for factor in plain_factors(node):
            yield right, node, node / factor, "scaled" if factor.is_number else "missing_factor", MISSING, (factor,)
    for node in outermost_nodes(right, sp.Pow):
        base, exponent = node.args
        for power in (exponent - 1, exponent + 1, -exponent) if not contains_seed(base) else ():
            other = sp.Pow(base, power)
            yield right, node, other, "missing_factor", "{} is used instead of {}", (other, node)


def plain_factors(product: Expr) -> list[Expr]:
    """The factors that do not read v."""
    return [factor for factor in sp.Mul.make_args(product) if not contains_seed(factor)]


def seed_sums(node: Expr) -> list[Expr]:
    """What of a long term says most: its sums over v, or v."""
    sums = [n for n in outermost_nodes(node, sp.Sum) if contains_seed(n)]
    return sums or [a for a in accesses(node) if name_of(a) == SEED]


def multiplied_out(term: Expr) -> list[Expr]:
    """The terms of a sum; of a product with a sum in it, those that it becomes."""
    if term.is_Add:
        return list(term.args)
    inner = next((f for f in sp.Mul.make_args(term) if f.is_Add), None)
    return [term] if inner is None else [term / inner * part for part in inner.args]


def outermost_nodes(expression: Expr, kind: type[Expr]) -> list[Expr]:
    """The nodes of a kind, outermost first, each once; a position that is read is no part that may be missing."""
    found: dict[Expr, None] = {}
    walk = sp.preorder_traversal(expression)
    for node in walk:
        if is_access(node) or isinstance(node, (Bracket, sp.KroneckerDelta)):
            walk.skip()
        elif isinstance(node, kind):
            found[node] = None
    return list(found)


def contains_seed(expression: Expr) -> bool:
    """Whether v stands in it."""
    return any(name_of(a) == SEED for a in accesses(expression))
