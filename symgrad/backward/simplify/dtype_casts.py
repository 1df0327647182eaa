"""Conditions and classes in the type of the tensors beside them, where torch would not bring them there itself.

    v_t = t > 0                     →  v_t = (t > 0).to(t)
    x.grad = (t > 0) @ w            →  x.grad = (t > 0).to(x) @ w
    v_t = m @ w, where m = t > 0    →  v_t = m.to(t) @ w
    v_t = 0.9 * one_hot(y, n)       →  v_t = 0.9 * one_hot(y, n).to(t)
    v_t = where(t > 0, 1, 0.1)      →  v_t = where(t > 0, t.new_full((), 1), 0.1)

torch multiplies matrices of one type, negates no condition, and divides whole numbers in its usual floats, which are
coarser than a tensor of doubles. Comes in: the expression of a line, and the tensor that it belongs to. Goes out: the
same as torch wants it; the page says it without, since a condition is 1 or 0 there, but where it is subtracted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from enum import Enum

from symgrad.backward.simplify.broadcasting import ELEMENTWISE, is_elementwise_call
from symgrad.backward.simplify.factors import computes_truths
from symgrad.entries.derived_facts import KEPT, REAL, dtype_words, is_non_differentiable
from symgrad.language.python_text import is_comparison, method
from symgrad.language.syntax_tree import Attribute, Items, Literal, PythonCall, Subscript, Unary
from symgrad.language.tokens import COMPARISONS
from symgrad.language.trees import owner_name, rewrite_tree, split_fraction
from symgrad.notation.tree import Binary, Name, SyntaxNode, walk
from symgrad.ops import SPELLINGS, TABLE
from symgrad.program import Operation


class HeldKind(Enum):
    """What torch holds: numbers of Python's, truth values, whole numbers, floats."""

    NUMBER = 0
    TRUTH = 1
    WHOLE = 2
    FLOAT = 3


MOVED = (KEPT, frozenset({"first"}))
"""What is said of operations whose result has the type of what they are called on."""
COUNTS = frozenset({"counted"})
"""What is said of an operation that makes whole numbers of truth values."""


def dtype_facts(word: str) -> frozenset[str]:
    """What type the results of a method of one tensor have; nothing of others."""
    op = TABLE.get(word)
    return dtype_words(op) if op is not None and len(op.operands) == 1 else frozenset()


def writes_into_first(word: str) -> bool:
    """Whether an operation puts its last operand into its first, for which torch wants both of one type."""
    op = TABLE[word]
    return len(op.operands) > 1 and "first" in dtype_words(op) and op.traits.where_like is None


def takes_numbers(word: str) -> bool:
    """Whether torch has an operation of numbers alone: it finds no truth, chooses by none, and has a derivative."""
    op = TABLE[word]
    return "truth" not in dtype_words(op) and op.traits.where_like is None and not is_non_differentiable(op)


def gives_truths(op: Operation) -> bool:
    """Whether an operation of the table makes truth values, whatever comes in."""
    return op in TABLE and "truth" in dtype_words(TABLE[str(op)])


def cast_to_float(
    value: SyntaxNode, like: str, truths: Collection[str] = (), wholes: Collection[str] = ()
) -> tuple[SyntaxNode, bool]:
    """``value`` in the type of ``like`` wherever torch would not have it in floats, and whether it held true and false.

    >>> from symgrad.language.python_text import read_python, write_python
    >>> write_python(cast_to_float(read_python("w * m + m @ w - m - (w > 0)"), "t", {"m"})[0])
    'w * m + m.to(t) @ w - m.to(t) - (w > 0).to(t)'
    >>> write_python(cast_to_float(read_python("pad((w > 0)[None], (0, 2)) - w"), "t")[0])
    'pad((w > 0)[None], (0, 2)).to(t) - w'
    >>> write_python(cast_to_float(read_python("v @ n + v * n"), "t", (), {"n"})[0])
    'v @ n.to(t) + v * n'
    >>> write_python(cast_to_float(read_python("zeros_like(t).index_add(0, n, m)"), "t", {"m"})[0])
    'zeros_like(t).index_add(0, n, m.to(t))'
    """
    typed = CastInserter(like, truths, wholes)
    found, kind = typed.seen(value)
    return typed.cast(found) if kind in (HeldKind.TRUTH, HeldKind.WHOLE) else found, kind is HeldKind.TRUTH


def cast_where_needed(
    value: SyntaxNode, like: str, truths: Collection[str], wholes: Collection[str] = ()
) -> SyntaxNode:
    """``value`` in the type of ``like`` wherever torch takes numbers alone, but for the whole: a condition stays one.

    >>> from symgrad.language.python_text import read_python, write_python
    >>> write_python(cast_where_needed(read_python("y * m.mean(0) - m"), "y", {"m"}))
    'y * m.to(y).mean(0) - m.to(y)'
    """
    found, kind = CastInserter(like, truths, wholes).seen(value)
    counted = kind is HeldKind.WHOLE and isinstance(found, PythonCall) and isinstance(found.function, Attribute)
    return CastInserter(like, truths).cast(found) if counted else found


def drop_casts(value: SyntaxNode) -> SyntaxNode:
    """``value`` as the page says it, t of t.to(x)."""

    def owner(node: SyntaxNode) -> SyntaxNode:
        match node:
            case PythonCall(Attribute(inner, "to")):
                return inner
        return node

    return rewrite_tree(value, owner)


def kind_held(value: SyntaxNode, truths: Collection[str]) -> HeldKind:
    """What torch would hold here: true and false, which it neither negates nor multiplies as matrices, or numbers."""
    return CastInserter("", truths).seen(value)[1]


def holds_truth(value: SyntaxNode, truths: Collection[str]) -> bool:
    """Whether torch would hold true and false here."""
    return kind_held(value, truths) is HeldKind.TRUTH


def subtracts_truths(value: SyntaxNode, truths: Collection[str]) -> bool:
    """Whether truth values are subtracted in an expression, or from: torch refuses that. Times a number they are none.

    >>> from symgrad.language.python_text import read_python
    >>> [subtracts_truths(read_python(text), {"m"}) for text in ("v * (w > 0) - m", "v * m - v", "v - 1 * m")]
    [True, False, False]
    """
    taken = (node for node in walk(value) if isinstance(node, Binary) and node.sign == "-")
    sides = (side for node in taken for side in (node.left, node.right) if holds_truth(side, truths))
    return not all(any(isinstance(factor, Literal) for factor in split_fraction(side)[0]) for side in sides)


class CastInserter:
    """Looks at an expression from the inside out; ``truths`` and ``wholes`` name the tensors that hold those."""

    def __init__(self, like: str, truths: Collection[str] = (), wholes: Collection[str] = ()) -> None:
        self.like, self.truths, self.wholes = like, truths, wholes

    def cast(self, node: SyntaxNode) -> SyntaxNode:
        """In the type of the line's tensor."""
        return method(node, "to", self.like)

    def seen(self, node: SyntaxNode) -> tuple[SyntaxNode, HeldKind]:
        """An expression as torch wants it, and what it holds."""
        match node:
            case Literal() | Attribute(name="shape" | "pi"):
                return node, HeldKind.NUMBER
            case Binary(sign, left, right) if sign not in COMPARISONS:
                return self.of_two(left, sign, right)
            case Name(name) if name in self.truths:
                return node, HeldKind.TRUTH
            case Unary("~"):
                return node, HeldKind.TRUTH
            case Unary(sign, operand):
                found, kind = self.seen(operand)
                found = self.cast(found) if kind is HeldKind.TRUTH else found
                return Unary(sign, found), HeldKind.FLOAT if kind is HeldKind.TRUTH else kind
            case Subscript(inner, places):
                found, kind = self.seen(inner)
                return Subscript(found, places), kind
            case Attribute(inner, word) if dtype_facts(word) == KEPT:
                found, kind = self.seen(inner)
                return Attribute(found, word), kind
            case PythonCall(Attribute(inner, word), arguments, keywords) if dtype_facts(word) in (KEPT, COUNTS):
                found, kind = self.kept(inner, word)
                return PythonCall(Attribute(found, word), arguments, keywords), kind
            case PythonCall(Attribute(inner, word), arguments, keywords) if word in TABLE:  # (x > 0).mean(-1)
                found, kind = self.seen(inner)
                whole = dtype_facts(word) == REAL and kind is HeldKind.WHOLE
                if whole or (kind is HeldKind.TRUTH and takes_numbers(word)):
                    found = self.cast(found)
                if kind is HeldKind.FLOAT and arguments and writes_into_first(word):  # t.index_add(0, n, x > 0)
                    arguments = (*arguments[:-1], self.in_floats(arguments[-1]))
                return PythonCall(Attribute(found, word), arguments, keywords), HeldKind.FLOAT
            case PythonCall(Name(word), [Items(several, True), *_]) if (
                word in TABLE and dtype_words(TABLE[word]) == KEPT
            ):
                kinds = {self.seen(part)[1] for part in several}  # cat([x > 0, y > 0])
                return node, HeldKind.TRUTH if kinds == {HeldKind.TRUTH} else HeldKind.FLOAT
            case PythonCall(Name(word), [inner, *rest], keywords) if dtype_facts(word) in (*MOVED, COUNTS):
                found, kind = self.kept(inner, word)  # pad(x > 0, (1, 0)), sum(x > 0)
                return PythonCall(Name(word), (found, *rest), keywords), kind
            case PythonCall(Name(word), [inner, *rest], keywords) if dtype_facts(word) == REAL:  # mean(x > 0, dim=1)
                return PythonCall(Name(word), (self.in_floats(inner), *rest), keywords), HeldKind.FLOAT
            case PythonCall(Name(word), [condition, *branches]) if word in SPELLINGS:
                if is_non_differentiable(SPELLINGS[word]):  # one_hot(y, n)
                    return node, HeldKind.WHOLE
                if SPELLINGS[word].traits.where_like and all(self.seen(b)[1] is HeldKind.NUMBER for b in branches):
                    # of two numbers torch makes its usual floats, which have fewer digits
                    first = method(self.like, "new_full", (), branches[0])
                    return replace(node, positional=(condition, first, *branches[1:])), HeldKind.FLOAT
                if word in TABLE and takes_numbers(word):  # abs(x > 0)
                    sides = map(self.seen, node.positional)
                    given = tuple(self.cast(side) if kind is HeldKind.TRUTH else side for side, kind in sides)
                    return PythonCall(node.function, given, node.keywords), HeldKind.FLOAT
        return node, HeldKind.TRUTH if computes_truths(node) else HeldKind.FLOAT

    def kept(self, node: SyntaxNode, word: str) -> tuple[SyntaxNode, HeldKind]:
        """What an operation that keeps types is given, and gives: it moves truth values or counts them, |m| is none."""
        found, kind = self.seen(node)
        if kind is HeldKind.TRUTH and is_elementwise_call(word):
            return self.cast(found), HeldKind.FLOAT
        return found, HeldKind.WHOLE if kind is HeldKind.TRUTH and dtype_facts(word) == COUNTS else kind

    def in_floats(self, node: SyntaxNode) -> SyntaxNode:
        """An expression as what torch has for numbers alone wants it."""
        found, kind = self.seen(node)
        return self.cast(found) if kind in (HeldKind.TRUTH, HeldKind.WHOLE) else found

    def of_two(self, left: SyntaxNode, sign: str, right: SyntaxNode) -> tuple[SyntaxNode, HeldKind]:
        """a + b, a @ b: floats on one side make floats of the other, but for products of matrices."""
        sides = [self.seen(side) for side in (left, right)]
        if sign == "@":  # elsewhere whole numbers stay: they may be positions
            sides = [(side, HeldKind.WHOLE if owner_name(side) in self.wholes else kind) for side, kind in sides]
        kinds = {kind for _, kind in sides}
        rough = sign == "/" or any(is_fraction(side) for side, _ in sides)
        signs = sign in ("+", "-") and kinds == {HeldKind.TRUTH}
        less = sign == "-" and HeldKind.TRUTH in kinds  # torch subtracts no truth values, from nothing
        exact = sign in ELEMENTWISE and not less and (HeldKind.FLOAT in kinds or not (rough or signs))
        if sign == "&" or exact or kinds == {HeldKind.NUMBER}:
            most = max(kinds, key=lambda kind: kind.value)
            return Binary(sign, sides[0][0], sides[1][0]), most
        cast = [self.cast(side) if kind in (HeldKind.TRUTH, HeldKind.WHOLE) else side for side, kind in sides]
        return Binary(sign, cast[0], cast[1]), HeldKind.FLOAT


def negate_truths(value: SyntaxNode, truths: Collection[str]) -> SyntaxNode:
    """``value`` with ~m for (m == 0), where m holds truth values.

    >>> from symgrad.language.python_text import read_python, write_python
    >>> write_python(negate_truths(read_python("v * (m == 0) + v * (m != 0) * (n == 0)"), {"m"}))
    'v * ~m + v * m * (n == 0)'
    """

    def told(node: SyntaxNode) -> SyntaxNode:
        """~m and m, of (m == 0) and (m != 0) where m holds truth values, or is a condition itself."""
        match node:
            case Binary("==", left, Literal(0)) if holds_truth(left, truths):
                return Unary("~", left)
            case Binary("!=", left, Literal(0)) if holds_truth(left, truths):
                return left
        return node

    return rewrite_tree(value, told)


def is_fraction(node: SyntaxNode) -> bool:
    """Whether a number stands there that is not whole."""
    if isinstance(node, Binary) and not is_comparison(node):
        return node.sign == "/" or is_fraction(node.left) or is_fraction(node.right)
    return isinstance(node, Literal) and isinstance(node.value, float)
