"""Rewrites a form before it becomes a line: guards beside divisions, and the letters of an einsum.

Comes in: a form, and the program and equation that it is of. Goes out: another one of the same value, which is proven
afterwards, as every line is; and whether a form is finite wherever its operands are.

For data at which the short form fails (a norm of 0, or a number so small that its square is 0), it has the
conditions that are left out elsewhere, and divides by no squares:

    v * x / out     →  where(out != 0, v * x / out, 0)
    v / out @ y     →  where(out != 0, v / out, 0) @ y
    -v * x / y ** 2 →  -v * x / y / y
    v * (y > 1) / x →  where(y > 1, v / x, 0)

The gradient of a program that is one einsum is written in the letters of that einsum, where they fit those of the
tensors that it reads:

    einsum("ijkl,ijkm->ilm", p, v)                              →  einsum('bhij,bhid->bjd', p, v)
    (v.permute(2, 0, 1) @ w.permute(2, 1, 0)).permute(1, 2, 0)   →  einsum('box,iox->bix', v, w)
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial, reduce

import numpy as np
import sympy as sp

from symgrad.closed_form.array_code import write_condition
from symgrad.closed_form.writing.sum_writers import EINSUM
from symgrad.indexing import Bracket, Equation, is_guard
from symgrad.indexing.symbols import is_access, name_of
from symgrad.language.python_text import call, is_comparison, write_python
from symgrad.language.syntax_tree import Attribute, Literal, PythonCall, Subscript
from symgrad.language.trees import (
    FormCode,
    build_fraction,
    called_word,
    is_natural,
    is_tensor_free,
    rewrite_tree,
    split_fraction,
)
from symgrad.notation.tree import Binary, Name, SyntaxNode, rebuild_node, walk
from symgrad.ops import entry_of, find, find_compound
from symgrad.program import Program

LARGE = np.array([-1e3, 1e3])
"""Numbers at which e^x is more than a float holds, or 0."""


def add_guards(program: Program, equation: Equation, code: SyntaxNode, wanted: str) -> SyntaxNode | None:
    """``code`` with its one condition around it, or with one beside each division; None where it has neither."""
    factors = [f for f in sp.Mul.make_args(equation.right) if is_guard(f)]
    if len(factors) == 1:
        told = write_condition(program, factors[0], equation.axes, wanted)
        return None if told is None else call("where", told, code, 0)
    below = [f.args[0].lhs for f in equation.right.atoms(Bracket) if is_guard(f)]
    return add_guards_inside(code, {name_of(entry) for entry in below if is_access(entry)})


def add_guards_inside(code: SyntaxNode, names: Collection[str]) -> SyntaxNode | None:
    """``v / out @ y`` with a condition beside each division by one of ``names``; None where there is none.

    >>> from symgrad.language.python_text import read_python
    >>> write_python(add_guards_inside(read_python("v / out @ y"), {"out"}))
    'where(out != 0, v / out, 0) @ y'
    """

    def guarded(node: SyntaxNode) -> SyntaxNode:
        """a / t ** 2 → where(t != 0, a / t ** 2, 0), for the tensors that are named, turned ones among them"""
        match node:
            case Binary("/", _, Binary("**", base) | base):
                if write_python(base).removesuffix(".T") in names:
                    return call("where", Binary("!=", base, Literal(0)), node, 0)
        return node

    found = rewrite_tree(code, guarded)
    return None if found == code else found


def divide_twice(code: SyntaxNode) -> SyntaxNode:
    """Two divisions where a square stands below the line.

    >>> from symgrad.language.python_text import read_python
    >>> write_python(divide_twice(read_python("-v * x / y ** 2 + 1 / (x ** 2 + 1)")))
    '-v * x / y / y + 1 / (x ** 2 + 1)'
    """

    def divided(node: SyntaxNode) -> SyntaxNode:
        """a / t ** 2 → a / t / t"""
        match node:
            case Binary("/", above, Binary("**", Name() as below, Literal(2))):
                return Binary("/", Binary("/", above, below), below)
        return node

    return rewrite_tree(code, divided)


def product_to_where(node: SyntaxNode) -> SyntaxNode:
    """Choices where a condition is a factor of what may be no number: 0·∞ is NaN, and what is not chosen is not read.

    >>> from symgrad.language.python_text import read_python
    >>> def told(text):
    ...     return write_python(product_to_where(read_python(text)))
    >>> told("v * (y > 1)[:, None] * (x.log() + 1 / x) + (y > 1) * v / 2")
    'where((y > 1)[:, None], v * (x.log() + 1 / x), 0) + (y > 1) * v / 2'
    >>> told("v * (x != 0) / (x + (x == 0)) - (x == out) / (x == out).sum()")
    'v * (x != 0) / (x + (x == 0)) - (x == out) / (x == out).sum()'
    """
    above, below = split_fraction(node)
    conditions = [factor for factor in above if compares_entries(factor)]
    rest = [factor for factor in above if not compares_entries(factor)]
    chosen = build_fraction((rest, below)) if conditions and (rest or below) else None
    if chosen is None or is_always_finite(FormCode(chosen)):
        return rebuild_node(node, product_to_where)
    return call("where", reduce(partial(Binary, "&"), conditions), product_to_where(chosen), 0)


def compares_entries(node: SyntaxNode) -> bool:
    """Whether it is a comparison, with axes put in."""
    while isinstance(node, Subscript):
        node = node.owner
    return is_comparison(node)


def is_always_finite(form: FormCode) -> bool:
    """Whether a form is finite wherever what it reads is: it divides by numbers alone, and takes no root or logarithm.

    >>> from symgrad.language.trees import read_form
    >>> [is_always_finite(read_form(text)) for text in ("v * (1 - out ** 2) / 4", "v / a0", "v / a0.norm()")]
    [True, False, False]
    """
    return not any(map(may_be_nonfinite, form.nodes()))


def may_be_nonfinite(node: SyntaxNode) -> bool:
    """Whether one node may make something that has no finite value: of a tensor, not a count, or a function ends."""
    match node:
        case PythonCall(function):
            return has_bounded_domain(called_word(function))
        case Binary("/" | "%" | "//", _, below):
            return may_be_zero(below)
        case Binary("**", base, power):
            return not (is_natural(power) or is_tensor_free(base))
    return False


@cache
def has_bounded_domain(word: str) -> bool:
    """Whether a function has no value at some number, or matrix, as a logarithm, or none that a float holds.

    >>> [has_bounded_domain(word) for word in ("log", "rsqrt", "exp", "inverse", "sin", "sum")]
    [True, True, True, True, False, False]
    """
    entry, own, compound = find(word), getattr(np, word, None), find_compound(word)
    if compound is not None and compound.fields:  # a decomposition: of eigenvalues that are equal it has no derivative
        return True
    domains = () if entry is None else map(entry.domain_of, entry.operands)
    if any(domain.ends or domain.matrix for domain in domains) or (entry is not None and entry.limits.edges):
        return True
    with np.errstate(all="ignore"):
        return isinstance(own, np.ufunc) and own.nin == 1 and not np.isfinite(own(LARGE)).all()


def may_be_zero(node: SyntaxNode) -> bool:
    """Whether a tensor is read; a size is none, nor is π, and a condition keeps what holds it from 0, or is counted."""
    return not is_tensor_free(node) and not any(map(is_comparison, walk(node)))


def use_letters(program: Program, wanted: str, form: FormCode) -> FormCode:
    """A line in the letters of the one einsum that ``program`` is, where it is an einsum or turns anything."""
    own, word = find_einsum_letters(program), str(program.steps[-1].op)
    read = [node.name for node in form.nodes() if isinstance(node, Name) and node.name in own]
    others = own.keys() - {wanted}
    if wanted not in own or not turns_axes(form.last) or sorted(read) != sorted(others):
        return form
    if not {*own[wanted]} <= {letter for name in others for letter in own[name]}:
        return form
    return FormCode(call(word, Literal(f"{','.join(own[name] for name in read)}->{own[wanted]}"), *read))


def turns_axes(code: SyntaxNode) -> bool:
    """Whether it is an einsum, or permutes the axes of anything."""
    inside = (node.function for node in walk(code) if isinstance(node, PythonCall))
    permutes = any(isinstance(function, Attribute) and function.name == "permute" for function in inside)
    return permutes or (isinstance(code, PythonCall) and code.function == Name(EINSUM))


def find_einsum_letters(program: Program) -> dict[str, str]:
    """The letters of the axes of each tensor, and of v; none where something else is computed."""
    step = program.steps[-1]
    op = entry_of(step.op)
    if len(program.steps) != 1 or op is None or not op.subscripts:
        return {}
    before, arrow, after = str(dict(step.options)[op.subscripts]).replace(" ", "").partition("->")
    terms = before.split(",")
    if not arrow or len(terms) != len(step.tensors) or any(len({*term}) < len(term) for term in (*terms, after)):
        return {}
    found = dict(zip(step.tensors, terms, strict=True))
    plain = len(found) == len(terms) and all(term.isalpha() for term in terms) and (after + "a").isalpha()
    return found | {"v": after} if plain else {}
