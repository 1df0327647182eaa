"""Expressions of Python as syntax trees: copied, rewritten by a rule, taken apart into factors, under other names.

A line of a backward is made once for all steps of a loop, with a slot in it wherever they read another position:

    pad(v[:, None], (0, 0, p0, 98 - p0))      →  pad(v[:, None], (0, 0, 19, 79))        p0 is 19 here

Comes in: a tree, or text with slots and the numbers that stand there. Goes out: another one; arithmetic among the
numbers is done.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, TypeVar

Rule = Callable[[ast.expr], ast.expr]
Tree = TypeVar("Tree", bound=ast.AST)


def split_definitions(text: str) -> tuple[list[tuple[str, ast.expr]], ast.expr]:
    """A form's definitions, each a name and what it stands for, and the expression after them.

    >>> [name for name, _ in split_definitions("w = x * 2; v @ w")[0]]
    ['w']
    """
    *definitions, last = ast.parse(text.replace("; ", "\n")).body
    found = []
    for line in definitions:
        assert isinstance(line, ast.Assign)
        (target,) = line.targets
        assert isinstance(target, ast.Name)
        found.append((target.id, line.value))
    assert isinstance(last, ast.Expr)
    return found, last.value


class InsideOutRewriter(ast.NodeTransformer):
    """Each expression of a tree made another by a rule, what stands in it first."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def visit(self, node: ast.AST) -> ast.AST:
        """A node, its parts being done."""
        self.generic_visit(node)
        return self.rule(node) if isinstance(node, ast.expr) else node


def rewrite_tree(tree: Tree, rule: Rule) -> Tree:
    """A tree with a rule applied to every expression in it, from within; the given one is written over."""
    return InsideOutRewriter(rule).visit(tree)  # type: ignore[return-value]  # a rule makes expressions of expressions


def tensor_names(tree: ast.AST) -> frozenset[str]:
    """The names of tensors that are read, functions left out: a tensor is never called, whatever its name."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)


def owner_name(node: ast.AST) -> str:
    """m, of ``m[0].T``; nothing of what is no part of a name."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def called_word(function: ast.expr) -> str:
    """The last name of what is called: sum, of ``x.sum`` and ``torch.sum``."""
    return function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)


def items_of(node: ast.Subscript) -> list[ast.expr]:
    """What stands between the brackets of an index."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def is_new_axis(item: ast.expr) -> bool:
    """Whether an index puts an axis in."""
    return isinstance(item, ast.Constant) and item.value is None


def is_full_slice(item: ast.expr) -> bool:
    """Whether an index is a colon alone."""
    return isinstance(item, ast.Slice) and item.lower is item.upper is item.step is None


def names_in_code(codes: Iterable[str]) -> frozenset[str]:
    """The names that are read."""
    return frozenset().union(*(tensor_names(ast.parse(code, mode="eval")) for code in codes))


Copied = TypeVar("Copied")


def copy_tree(tree: Copied) -> Copied:
    """A tree of its own, without places in a source: a tenth of what `copy.deepcopy` takes."""
    if isinstance(tree, list):
        return [copy_tree(part) for part in tree]  # type: ignore[return-value]  # a list of the same
    if not isinstance(tree, ast.AST) or isinstance(tree, (ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)):
        return tree
    return type(tree)(*(copy_tree(getattr(tree, field, None)) for field in tree._fields))


def replace_names(expression: ast.expr, definitions: Mapping[str, ast.expr]) -> ast.expr:
    """``expression`` with names replaced; the given tree stays as it is."""
    return rewrite_tree(copy_tree(expression), lambda n: definitions.get(n.id, n) if isinstance(n, ast.Name) else n)


def inline_names(text: str, definitions: Mapping[str, ast.expr]) -> ast.expr:
    """A form as one expression: names replaced, and those that it defines by what they stand for.

    >>> ast.unparse(inline_names("w = x * 2; v @ w", {"x": ast.Name("a")}))
    'v @ (a * 2)'
    """
    known = dict(definitions)
    own, last = split_definitions(text)
    for name, value in own:
        known[name] = replace_names(value, known)
    return replace_names(last, known)


def count_mentions(expression: ast.AST, name: str) -> int:
    """How often a name is read."""
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(expression))


Numbers = tuple[tuple[str, int], ...]
"""Slots by name, and what stands there."""


@lru_cache(maxsize=1024)
def fill_slots(text: str, numbers: Numbers) -> str:
    """Text with numbers in its slots.

    >>> fill_slots("k = x[p0:p0 + 2]; pad(k, (p0, x.shape[0] - p0 - 2))", (("p0", 3),))
    'k = x[3:5]; pad(k, (3, x.shape[0] - 5))'
    """
    if not numbers:
        return text
    tree = ast.parse(text.replace("; ", "\n"))
    return "; ".join(ast.unparse(SlotFiller(numbers).visit(node)) for node in tree.body)


def fill_tree_slots(tree: ast.expr, numbers: Numbers) -> ast.expr:
    """An expression with numbers in its slots."""
    return ast.parse(fill_slots(ast.unparse(tree), numbers), mode="eval").body if numbers else tree


class SlotFiller(ast.NodeTransformer):
    """Numbers in the place of slots; sums and differences with a slot in them are put in order, numbers last."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = dict(numbers)

    def visit(self, node: ast.AST) -> Any:
        """A slot as its number; −p0, p0 + 2 and n − p0 − 1 as sums."""
        match node:
            case ast.Name(name) if name in self.numbers:
                return ast.Constant(self.numbers[name])
            case ast.UnaryOp(ast.USub()) | ast.BinOp(_, ast.Add() | ast.Sub() | ast.Mult(), _):
                return self.added(node)
        return self.generic_visit(node)

    def added(self, node: ast.expr) -> Any:
        """A sum with its numbers added up, if a slot is one of its terms."""
        terms = split_terms(node, 1)
        if not any(isinstance(term, ast.Name) and term.id in self.numbers for term, _ in terms):
            return self.generic_visit(node)
        known = [
            (t.value if isinstance(t, ast.Constant) else self.numbers.get(getattr(t, "id", "")), s) for t, s in terms
        ]
        number = sum(int(value) * sign for value, sign in known if isinstance(value, int))
        rest = [
            (self.visit(term), sign)
            for (term, sign), (value, _) in zip(terms, known, strict=True)
            if not isinstance(value, int)
        ]
        if number or not rest:
            rest.append((ast.Constant(abs(number)), 1 if number >= 0 else -1))
        return add_terms([term if sign > 0 else ast.UnaryOp(ast.USub(), term) for term, sign in rest])


def split_terms(node: ast.expr, sign: int) -> list[tuple[ast.expr, int]]:
    """The terms of a sum, each with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return split_terms(node.operand, -sign)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and ast.unparse(node.left) == "-1":
        return split_terms(node.right, -sign)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        other = sign if isinstance(node.op, ast.Add) else -sign
        return [*split_terms(node.left, sign), *split_terms(node.right, other)]
    return [(node, sign)]


Fraction = tuple[list[ast.expr], list[ast.expr]]
"""What is multiplied, and what it is divided by."""


def split_fraction(node: ast.expr) -> Fraction:
    """The factors of an expression from the left, and its divisors."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        above, below = split_fraction(node.left)
        if isinstance(node.op, ast.Div):
            return above, [*below, node.right]
        over, under = split_fraction(node.right)
        return [*above, *over], [*below, *under]
    if isinstance(node, ast.Subscript):
        return pull_numbers_out(node)
    return [node], []


def pull_numbers_out(node: ast.Subscript) -> Fraction:
    """2 and a[:, None], of (2 * a)[:, None]."""
    above, below = split_fraction(node.value)
    over, under = ([part for part in own if is_natural(part)] for own in (above, below))
    rest = [part for part in above if not is_natural(part)]
    if not rest or not (over or under):
        return [node], []
    inside = build_fraction((rest, [part for part in below if not is_natural(part)]))
    return [*over, ast.Subscript(inside, node.slice, node.ctx)], under


def is_natural(node: ast.expr) -> bool:
    """Whether a whole number that is not 0 stands there."""
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value > 0


def build_fraction(parts: Fraction) -> ast.expr:
    """a * b / c / d"""
    (first, *above), below = parts[0] or [ast.Constant(1)], parts[1]
    return chain_operators(first, [*((ast.Mult(), part) for part in above), *((ast.Div(), part) for part in below)])


def chain_operators(first: ast.expr, rest: Iterable[tuple[ast.operator, ast.expr]]) -> ast.expr:
    """a + b − c, from the left: each of the ``rest`` with the operator before it."""
    return reduce(lambda total, term: ast.BinOp(total, *term), rest, first)


SCALING = (ast.Mult, ast.Div)


def strip_minus(term: ast.expr) -> ast.expr | None:
    """a, of −a; a / 2, of −a / 2; None without a minus in front."""
    if isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.USub):
        return term.operand
    if isinstance(term, ast.BinOp) and isinstance(term.op, (*SCALING, ast.MatMult)):
        left = strip_minus(term.left)
        return None if left is None else ast.BinOp(left, term.op, term.right)
    return None


def add_terms(terms: Sequence[ast.expr]) -> ast.expr:
    """a + b − c: what is subtracted stands behind what is added."""
    first, *rest = sorted(terms, key=lambda term: strip_minus(term) is not None)
    bare = ((term, strip_minus(term)) for term in rest)
    return chain_operators(first, ((ast.Add(), a) if b is None else (ast.Sub(), b) for a, b in bare))
