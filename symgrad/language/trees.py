"""Code as syntax trees: forms, rewritten by a rule, taken apart into factors, under other names.

A line of a backward is made once for all steps of a loop, with a slot in it wherever they read another position:

    pad(v[:, None], (0, 0, p0, 98 - p0))      →  pad(v[:, None], (0, 0, 19, 79))        p0 is 19 here

Comes in: a tree or a form, which may have slots, and the numbers that stand there. Goes out: another one; arithmetic
among the numbers is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

from symgrad.language.python_text import multiply, read_python, strip_minus, to_code, write_python
from symgrad.language.syntax_tree import Attribute, Keyword, Literal, PythonCall, Subscript, Unary
from symgrad.notation.tree import Binary, Name, SyntaxNode, rebuild_node, walk
from symgrad.ops.lookup import ATTRIBUTES

Rule = Callable[[SyntaxNode], SyntaxNode]
FIRST = Literal(0)
WORD, TURN, ENTRY = 2, 1, 3
"""What a name weighs in `FormCode.measure`, a transpose, and ``[0]``."""


def reading_weight(node: SyntaxNode) -> int:
    """What a node weighs to whoever reads it; ``[0]`` is ``.sum(0)`` on an axis of one, and holds for no other."""
    match node:
        case Attribute() if node.name in ATTRIBUTES:
            return TURN
        case Name() | Attribute() | Keyword() | Literal(value=None):
            return WORD
        case Subscript(items=(first,)) if first == FIRST:
            return ENTRY
    return 0


@dataclass(frozen=True)
class FormCode:
    """An expression, and before it what has a name in it: ``K = 1 / w; out @ (K * v)``."""

    last: SyntaxNode
    definitions: tuple[tuple[str, SyntaxNode], ...] = ()

    @cached_property
    def text(self) -> str:
        """As one line."""
        return "; ".join(
            [*(f"{name} = {write_python(value)}" for name, value in self.definitions), write_python(self.last)]
        )

    @property
    def trees(self) -> tuple[SyntaxNode, ...]:
        """What the names stand for, and the expression."""
        return (*(value for _, value in self.definitions), self.last)

    @cached_property
    def measure(self) -> tuple[int, int]:
        """How long it takes to read, of two forms of one gradient: the weights of its nodes, then its characters."""
        return len(self.definitions) * WORD + sum(map(reading_weight, self.nodes())), len(self.text)

    def nodes(self) -> Iterator[SyntaxNode]:
        """Everything that stands in it."""
        return (node for tree in self.trees for node in walk(tree))

    def changed(self, change: Rule) -> FormCode:
        """The same with each of its expressions changed."""
        return FormCode(change(self.last), tuple((name, change(value)) for name, value in self.definitions))


def read_form(text: str) -> FormCode:
    """A form that stands as text.

    >>> [name for name, _ in read_form("w = x * 2; v @ w").definitions]
    ['w']
    """
    *definitions, last = text.split("; ")
    named = (line.partition(" = ") for line in definitions)
    return FormCode(read_python(last), tuple((name, read_python(value)) for name, _, value in named))


def rewrite_tree(tree: SyntaxNode, rule: Rule) -> SyntaxNode:
    """A tree with a rule applied to every expression in it, from within."""
    return rebuild_node(tree, rule, deep=True)


def tensor_names(tree: SyntaxNode) -> frozenset[str]:
    """The names of tensors that are read, functions left out: a tensor is never called, whatever its name."""
    found, waiting = set[str](), [tree]
    while waiting:
        match waiting.pop():
            case Name(name):
                found.add(name)
            case PythonCall(Name(), positional, keywords):
                waiting += (*positional, *keywords)
            case node:
                waiting += node.parts
    return frozenset(found)


def is_tensor_free(node: SyntaxNode) -> bool:
    """Whether no tensor is read, but for its sizes: what Python computes by itself."""
    if isinstance(node, Attribute):
        return node.name in ("shape", "numel") or node.owner == Name("math")
    return not isinstance(node, Name) and all(map(is_tensor_free, node.parts))


def owner_name(node: SyntaxNode) -> str:
    """m, of ``m[0].T``; nothing of what is no part of a name."""
    while isinstance(node, (Subscript, Attribute)):
        node = node.owner
    return node.name if isinstance(node, Name) else ""


def called_word(function: SyntaxNode) -> str:
    """The last name of what is called: sum, of ``x.sum`` and ``torch.sum``."""
    return function.name if isinstance(function, Attribute) else write_python(function)


def replace_names(expression: SyntaxNode, definitions: Mapping[str, SyntaxNode]) -> SyntaxNode:
    """``expression`` with names replaced."""
    return rewrite_tree(expression, lambda n: definitions.get(n.name, n) if isinstance(n, Name) else n)


def replace_part(expression: SyntaxNode, part: SyntaxNode, other: SyntaxNode) -> SyntaxNode:
    """``expression`` with ``other`` wherever ``part`` stands."""
    return rewrite_tree(expression, lambda node: other if node == part else node)


def inline_names(form: FormCode, definitions: Mapping[str, SyntaxNode]) -> SyntaxNode:
    """A form as one expression: names replaced, and those that it defines by what they stand for.

    >>> write_python(inline_names(read_form("w = x * 2; v @ w"), {"x": Name("a")}))
    'v @ (a * 2)'
    """
    known = dict(definitions)
    for name, value in form.definitions:
        known[name] = replace_names(value, known)
    return replace_names(form.last, known)


def count_mentions(expression: SyntaxNode, name: str) -> int:
    """How often a name is read."""
    return sum(isinstance(node, Name) and node.name == name for node in walk(expression))


Numbers = tuple[tuple[str, int], ...]
"""Slots by name, and what stands there."""


@lru_cache(maxsize=1024)
def fill_slots(form: FormCode, numbers: Numbers) -> FormCode:
    """A form with numbers in its slots.

    >>> fill_slots(read_form("k = x[p0:p0 + 2]; pad(k, (p0, x.shape[0] - p0 - 2))"), (("p0", 3),)).text
    'k = x[3:5]; pad(k, (3, x.shape[0] - 5))'
    """
    return form.changed(lambda tree: fill_tree_slots(tree, numbers)) if numbers else form


def fill_tree_slots(tree: SyntaxNode, numbers: Numbers) -> SyntaxNode:
    """An expression with numbers in its slots; sums and differences with a slot are put in order, numbers last."""
    known = dict(numbers)

    def filled(node: SyntaxNode) -> SyntaxNode:
        """A slot as its number; −p0, p0 + 2 and n − p0 − 1 as sums."""
        match node:
            case Name(name) if name in known:
                return Literal(known[name])
            case Unary("-") | Binary("+" | "-" | "*"):
                terms = split_terms(node, 1)
                if any(isinstance(term, Name) and term.name in known for term, _ in terms):
                    return add_numbers(terms)
        return rebuild_node(node, filled)

    def add_numbers(terms: Sequence[tuple[SyntaxNode, int]]) -> SyntaxNode:
        """The numbers among terms added up, behind the others."""
        number, rest = 0, list[SyntaxNode]()
        for term, sign in terms:
            value = filled(term)
            if isinstance(value, Literal) and isinstance(value.value, int):
                number += sign * value.value
            else:
                rest.append(value if sign > 0 else Unary("-", value))
        if number or not rest:
            rest.append(to_code(number))
        return add_terms(rest)

    return filled(tree) if numbers else tree


def split_terms(node: SyntaxNode, sign: int) -> list[tuple[SyntaxNode, int]]:
    """The terms of a sum, each with its sign."""
    match node:
        case Unary("-", operand) | Binary("*", Unary("-", Literal(1)), operand):
            return split_terms(operand, -sign)
        case Binary("+" | "-" as own, left, right):
            return [*split_terms(left, sign), *split_terms(right, sign if own == "+" else -sign)]
    return [(node, sign)]


Fraction = tuple[list[SyntaxNode], list[SyntaxNode]]
"""What is multiplied, and what it is divided by."""


def split_fraction(node: SyntaxNode) -> Fraction:
    """The factors of an expression from the left, and its divisors."""
    match node:
        case Binary("/", left, right):
            above, below = split_fraction(left)
            return above, [*below, right]
        case Binary("*", left, right):
            above, below = split_fraction(left)
            over, under = split_fraction(right)
            return [*above, *over], [*below, *under]
        case Subscript():
            return pull_numbers_out(node)
    return [node], []


def pull_numbers_out(node: Subscript) -> Fraction:
    """2 and a[:, None], of (2 * a)[:, None]."""
    above, below = split_fraction(node.owner)
    over, under = ([part for part in own if is_natural(part)] for own in (above, below))
    rest = [part for part in above if not is_natural(part)]
    if not rest or not (over or under):
        return [node], []
    inside = build_fraction((rest, [part for part in below if not is_natural(part)]))
    return [*over, Subscript(inside, node.items)], under


def is_natural(node: SyntaxNode) -> bool:
    """Whether a whole number that is not 0 stands there."""
    return isinstance(node, Literal) and type(node.value) is int and node.value > 0


def build_fraction(parts: Fraction) -> SyntaxNode:
    """a * b / c / d"""
    (first, *above), below = parts[0] or [Literal(1)], parts[1]
    return chain_operators(first, [*(("*", part) for part in above), *(("/", part) for part in below)])


def chain_operators(first: SyntaxNode, rest: Iterable[tuple[str, SyntaxNode]]) -> SyntaxNode:
    """a + b − c, from the left: each of the ``rest`` with the operator before it."""
    return reduce(lambda total, term: Binary(term[0], total, term[1]), rest, first)


def add_terms(terms: Sequence[SyntaxNode]) -> SyntaxNode:
    """a + b − c: what is subtracted stands behind what is added."""
    first, *rest = sorted(terms, key=lambda term: strip_minus(term) is not None)
    bare = ((term, strip_minus(term)) for term in rest)
    return chain_operators(first, (("+", a) if b is None else ("-", b) for a, b in bare))


def fill_ones(number: SyntaxNode, ones: SyntaxNode) -> SyntaxNode:
    """A number times what has 1 in it, divided at the end: 2 * eye(n) / 3.

    >>> [write_python(fill_ones(read_python(text), Name("ones"))) for text in ("-1 / 8", "-1", "2 * n")]
    ['-ones / 8', '-ones', '2 * n * ones']
    """
    match number:
        case Literal(1):
            return ones
        case Unary("-", Literal(1)):
            return Unary("-", ones)
        case Binary("/", above, below):
            return Binary("/", fill_ones(above, ones), below)
    return multiply(number, ones)


def transpose_matrix(code: SyntaxNode) -> SyntaxNode:
    """x.T, and x of x.T."""
    return code.owner if isinstance(code, Attribute) and code.name == "T" else Attribute(code, "T")
