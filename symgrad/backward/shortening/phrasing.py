"""How one form is put into words of its own: a root that is named, a number, an einsum's own letters.

Comes in: a proven form as a syntax tree. Goes out: the same value, said as a person would.

    (a − b) / (x.var(…) + ε).sqrt()      →  r = 1 / (x.var(…) + ε).sqrt(); r * (a − b)
    ones_like(x) / 8                     →  1 / 8, where a number does
    (x.T @ v).T                          →  v.T @ x
    v.reshape(t.shape).reshape(x.shape)  →  v.reshape(x.shape)

What goes back through the one einsum of a program is said in the letters of that einsum, where they fit those of the
tensors that it reads. It is proven afterwards, as every line.

    einsum('ijkl,ijkm->ilm', p, v)                            →  einsum('bhij,bhid->bjd', p, v)
    (v.permute(2, 0, 1) @ w.permute(2, 1, 0)).permute(1, 2, 0)   →  einsum('box,iox->bix', v, w)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache

from symgrad.backward.parts.trees import rewritten
from symgrad.ops import TABLE, entry_of
from symgrad.program import Program

LONG, DEEP = 90, 24
"""Characters of a form whose divisor has a name of its own, and of that divisor."""
ROOT = "r"
"""The reciprocal of a standard deviation in textbooks."""
Definitions = list[tuple[str, ast.expr]]


def with_a_root(definitions: Definitions, last: ast.expr) -> tuple[Definitions, ast.expr]:
    """A long quotient with its divisor, which reads no cotangent, named; anything else as it is.

    >>> long = "v * x - v.mean(-1, keepdim=True) - x * (v * x).mean(-1, keepdim=True)"
    >>> names, last = with_a_root([], ast.parse(f"({long}) / (x.var(-1, keepdim=True) + 1).sqrt()", mode="eval").body)
    >>> print(ast.unparse(names[0][1]), "|", ast.unparse(last)[:9])
    1 / (x.var(-1, keepdim=True) + 1).sqrt() | r * (v *
    """
    known = {name for name, _ in definitions}
    if len(ast.unparse(last)) <= LONG or not isinstance(last, ast.BinOp) or not isinstance(last.op, ast.Div):
        return definitions, last
    names = {node.id for node in ast.walk(last.right) if isinstance(node, ast.Name)}
    if not names or "v" in names or names & known or ROOT in known or len(ast.unparse(last.right)) <= DEEP:
        return definitions, last
    over = ast.BinOp(ast.Constant(1), ast.Div(), last.right)
    return [*definitions, (ROOT, over)], ast.BinOp(ast.Name(ROOT), ast.Mult(), last.left)


def without_ones(value: ast.expr, like: str) -> ast.expr:
    """``1 / 8``, of ``ones_like(a0) / 8`` where ``like`` is a0: what a number gives in the place of a tensor.

    >>> ast.unparse(without_ones(ast.parse("ones_like(a0) / 8", mode="eval").body, "a0"))
    '1 / 8'
    """
    if isinstance(value, ast.UnaryOp):
        inner = without_ones(value.operand, like)
        return value if inner is value.operand else ast.UnaryOp(value.op, inner)
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
        return value
    above = ast.Constant(1) if ast.unparse(value.left) == f"ones_like({like})" else without_ones(value.left, like)
    return value if above is value.left else ast.BinOp(above, ast.Div(), value.right)


def times_ones(number: ast.expr, ones: ast.expr) -> ast.expr:
    """A number everywhere, the other way round.

    >>> ast.unparse(times_ones(ast.parse("-1 / 8", mode="eval").body, ast.Name("ones")))
    '-ones / 8'
    >>> ast.unparse(times_ones(ast.Constant(-1), ast.Name("ones")))
    '-ones'
    """
    if isinstance(number, ast.Constant) and number.value == 1:
        return ones
    if isinstance(number, ast.Constant) and number.value == -1:
        return ast.UnaryOp(ast.USub(), ones)
    if isinstance(number, ast.UnaryOp):
        return ast.UnaryOp(number.op, times_ones(number.operand, ones))
    if isinstance(number, ast.BinOp) and isinstance(number.op, ast.Div):
        return ast.BinOp(times_ones(number.left, ones), ast.Div(), number.right)
    return ast.BinOp(number, ast.Mult(), ones)


def turned(node: ast.expr) -> ast.expr | None:
    """What is turned: x of x.T."""
    return node.value if isinstance(node, ast.Attribute) and node.attr == "T" else None


def laid_out(node: ast.expr) -> ast.expr | None:
    """x, of x.reshape(…)."""
    match node:
        case ast.Call(ast.Attribute(inner, word), _, []) if word in TABLE:
            given = TABLE[word].signature.parameters  # the one operation with a shape that does no more
            return inner if "shape" in given and TABLE[word].role is None else None
    return None


def turned_once(node: ast.expr) -> ast.expr:
    """(a.T @ b).T → b.T @ a, v.reshape(t.shape).reshape(x.shape) → v.reshape(x.shape)"""
    match node:
        case ast.Call(ast.Attribute(_, word)):
            inner = laid_out(node)
            first = None if inner is None else laid_out(inner)
            if first is not None:
                node.func = ast.Attribute(first, word)
        case ast.Attribute(ast.BinOp(left, ast.MatMult(), right), word) if turned(node) is not None:
            first = turned(left)
            return node if first is None else ast.BinOp(ast.Attribute(right, word), ast.MatMult(), first)
    return node


def without_turns(value: ast.expr) -> ast.expr:
    """Products that are not turned twice.

    >>> ast.unparse(without_turns(ast.parse("(x.T @ v).T", mode="eval").body))
    'v.T @ x'
    """
    return rewritten(value, turned_once)


def is_reciprocal(node: ast.expr) -> bool:
    """Whether something is 1 over something."""
    over = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    return over and isinstance(node.left, ast.Constant) and node.left.value == 1  # type: ignore[attr-defined]  # ``over`` says that it is a quotient


class InOneFraction(ast.NodeTransformer):
    """a * (1 / n) * b → a * b / n"""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A product with one over something among its factors."""
        if not isinstance(node.op, ast.Mult):
            return self.generic_visit(node)  # type: ignore[return-value]  # a visited expression is an expression again
        parts = [self.visit(part) for part in factors(node)]
        over = [part for part in parts if is_reciprocal(part)]
        rest = [part for part in parts if not is_reciprocal(part)]
        if not over or not rest:
            return product(parts)
        return ast.BinOp(product(rest), ast.Div(), product([part.right for part in over]))


def factors(node: ast.expr) -> list[ast.expr]:
    """The factors of a product, from the left."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*factors(node.left), *factors(node.right)]
    return [node]


def product(parts: list[ast.expr]) -> ast.expr:
    """Factors multiplied, from the left."""
    whole, *rest = parts
    for part in rest:
        whole = ast.BinOp(whole, ast.Mult(), part)
    return whole


def in_one_fraction(value: ast.expr) -> ast.expr:
    """Numbers that were put into products, as one division.

    >>> ast.unparse(in_one_fraction(ast.parse("2 * (1 / 8) * t18 + b", mode="eval").body))
    '2 * t18 / 8 + b'
    """
    found: ast.expr = InOneFraction().visit(value)
    return found


def in_one_product(value: ast.expr) -> ast.expr:
    """Products that were put into products, without their brackets.

    >>> ast.unparse(in_one_product(ast.parse("2 * (v * x) * t2 + b", mode="eval").body))
    '2 * v * x * t2 + b'
    """

    def whole(node: ast.expr) -> ast.expr:
        return product(factors(node)) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else node

    return rewritten(value, whole)


Written = tuple[str, str]
"""The letters of what an expression computes, and of a product also how its einsum reads: ``ij`` and ``ij``."""


def in_own_letters(program: Program, wanted: str, text: str) -> str:
    """A line in the letters of the one einsum that ``program`` is."""
    own, word = letters_of(program), str(program.steps[-1].op)
    if wanted not in own or ";" in text:
        return text
    tree = ast.parse(text, mode="eval").body
    read = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in own]
    shorter = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    found = renamed(tree, own) if isinstance(tree, ast.Call) and is_sum(tree, word) else summed(tree, own)
    if not shorter or found is None or found.rpartition("->")[2] != own[wanted]:
        return text
    return f"{word}({found!r}, {', '.join(read)})"


def letters_of(program: Program) -> dict[str, str]:
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


def is_sum(node: ast.Call, word: str) -> bool:
    """Whether ``einsum('…', …)`` stands there, which is called by a ``word``."""
    return isinstance(node.func, ast.Name) and node.func.id == word and isinstance(node.args[0], ast.Constant)


def renamed(node: ast.Call, own: Mapping[str, str]) -> str | None:
    """``bhij,bhid->bjd``, of an einsum in other letters; None where they do not fit."""
    before, _, after = str(ast.literal_eval(node.args[0])).partition("->")
    change: dict[str, str] = {}
    terms = [operand.id if isinstance(operand, ast.Name) else "" for operand in node.args[1:]]
    for term, name in zip(before.split(","), terms, strict=True):
        if len(own.get(name, "")) != len(term):
            return None
        for letter, other in zip(term, own[name], strict=True):
            if change.setdefault(letter, other) != other:
                return None
    if len({*change.values()}) < len(change) or not {*after} <= change.keys():
        return None
    return f"{','.join(own[name] for name in terms)}->{''.join(change[letter] for letter in after)}"


def summed(node: ast.expr, own: Mapping[str, str]) -> str | None:
    """``box,iox->bix``, of a product of two tensors that are turned; None where it is something else."""
    match node:
        case ast.Call(ast.Attribute(inner, word), order, []) if turns(word):
            found = summed(inner, own)
            if found is None:
                return None
            before, _, after = found.partition("->")
            places = [ast.literal_eval(place) for place in order]
            return f"{before}->{''.join(after[place] for place in places)}" if len(places) == len(after) else None
        case ast.BinOp(left, ast.MatMult(), right):
            first, second = as_read(left, own), as_read(right, own)
            if first is None or second is None or not len(first[1]) == len(second[1]) > 2:
                return None
            (one, a), (other, b) = first, second
            if a[:-2] != b[:-2] or a[-1] != b[-2] or a[-2] == b[-1]:
                return None
            return f"{one},{other}->{a[:-1]}{b[-1]}"
    return None


def as_read(node: ast.expr, own: Mapping[str, str]) -> Written | None:
    """The letters of a tensor, as it is and as it is read: ``iox`` and ``xoi``."""
    match node:
        case ast.Name(name):
            return (own[name], own[name]) if name in own else None
        case ast.Attribute(ast.Name(name), word) if turns(word) and len(own.get(name, "")) > 1:
            return own[name], f"{own[name][:-2]}{own[name][-1]}{own[name][-2]}"
        case ast.Call(ast.Attribute(ast.Name(name), word), order, []) if turns(word) and name in own:
            places = [ast.literal_eval(place) for place in order]
            return (own[name], "".join(own[name][p] for p in places)) if len(places) == len(own[name]) else None
    return None


@cache
def turns(word: str) -> bool:
    """Whether an operation has the axes of its operand in another order, and does nothing else."""
    read = re.fullmatch(r"out\[(.*)\] = x\[(.*)\]", (TABLE[word].definition or "") if word in TABLE else "")
    return read is not None and read[1] != read[2] and sorted(read[1].split(",")) == sorted(read[2].split(","))
