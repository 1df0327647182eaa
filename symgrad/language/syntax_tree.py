"""The syntax tree of lines of Python, and the expression of one line, read by Python's own parser and a whitelist.

`symgrad.notation.tree` has the base class and the nodes that lines share with index equations. Comes in: the tokens of
one expression. Goes out: a `SyntaxNode`, before anything is known about the names in it. Only ``ast.parse`` is used;
nothing is ever compiled or evaluated. Spans are character offsets into the whole text, although Python counts UTF-8
bytes within a line: each expression is parsed as one line, with blanks for line ends and comments, so that only a byte
column has to be translated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isinf

from symgrad.errors import InputError, NotationError, SourceText, Span
from symgrad.language.tokens import ALLOWED, AUGMENTED, find_missing, tokenize_python
from symgrad.notation.tokens import Token
from symgrad.notation.tree import APART, Binary, Dots, IndexEquation, Name, SyntaxNode
from symgrad.ops.calls.call_texts import WRITTEN


@dataclass(frozen=True)
class Literal(SyntaxNode):
    """``3``, ``0.5``, ``True``, ``None``, and ``"ij,jk->ik"``: an option, never an operand."""

    value: int | float | complex | str | None

    def __eq__(self, other: object) -> bool:
        """2 is not 2.0 here: two literals that are written differently are two."""
        return isinstance(other, Literal) and repr(self.value) == repr(other.value)


@dataclass(frozen=True)
class Items(SyntaxNode):
    """``[a, b]``, which is ``listed``, or ``(a, b)``."""

    items: tuple[SyntaxNode, ...]
    listed: bool = False


@dataclass(frozen=True)
class Unary(SyntaxNode):
    """``-x`` or ``+x``."""

    sign: str
    operand: SyntaxNode


@dataclass(frozen=True)
class Star(SyntaxNode):
    """``*shape`` among the arguments of a call."""

    value: SyntaxNode


@dataclass(frozen=True)
class Keyword(SyntaxNode):
    """``dim=0`` among the arguments of a call."""

    name: str
    value: SyntaxNode


@dataclass(frozen=True)
class PythonCall(SyntaxNode):
    """``f(x, dim=0)``, ``torch.exp(x)``, ``x.sum(0)``."""

    function: SyntaxNode
    positional: tuple[SyntaxNode, ...]
    keywords: tuple[Keyword, ...]


@dataclass(frozen=True)
class Attribute(SyntaxNode):
    """``x.T``, ``torch.exp``."""

    owner: SyntaxNode
    name: str


@dataclass(frozen=True)
class Slice(SyntaxNode):
    """``1:5:2`` inside brackets."""

    start: SyntaxNode | None
    stop: SyntaxNode | None
    step: SyntaxNode | None


@dataclass(frozen=True)
class Subscript(SyntaxNode):
    """``x[0, 1:]``."""

    owner: SyntaxNode
    items: tuple[SyntaxNode, ...]


@dataclass(frozen=True)
class EquationNode(SyntaxNode):
    """``out[i] = Σ_j x[i+j]·w[j]``: an index equation, the tensors it reads, and its names for whole numbers.

    ``ranks`` says of each tensor how many indices it has, and whether ``…`` stands for more.
    """

    statement: IndexEquation = field(metadata=APART)
    tensors: tuple[Name, ...]
    counts: tuple[Name, ...]
    ranks: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class PythonStatement(SyntaxNode):
    """``h = expression``, or an expression alone.

    ``targets`` are what is more than one name (``p = q``, ``p, *q``), ``sign`` is that of ``h += 1``.
    """

    target: str | None
    value: SyntaxNode
    targets: tuple[SyntaxNode, ...] = ()
    sign: str = ""

    @cached_property
    def parts(self) -> tuple[SyntaxNode, ...]:
        """What is assigned to where that is more than a name, and the expression."""
        return (*self.targets, self.value)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are given a value."""
        return (self.target,) if self.target is not None else tuple(n for t in self.targets for n in assigned_names(t))

    @property
    def read(self) -> tuple[SyntaxNode, ...]:
        """What is read: the expression, and h of ``h += 1``."""
        return (*(self.targets if self.sign else ()), self.value)


@dataclass(frozen=True)
class Script:
    """A text as a sequence of statements; the last one is the output.

    ``leaves`` are what the text makes and wants a gradient of, ``seed`` what it gives to backward, ``asked`` the name
    that it calls backward of.
    """

    source: SourceText
    statements: tuple[PythonStatement, ...]
    leaves: frozenset[str] = frozenset()
    seed: SyntaxNode | None = None
    asked: str = ""


def assigned_names(target: SyntaxNode) -> Iterator[str]:
    """The names in what is assigned to."""
    if isinstance(target, Name):
        yield target.name
    elif isinstance(target, (Items, Star)):
        for part in target.parts:
            yield from assigned_names(part)


def dotted_name(node: SyntaxNode) -> str | None:
    """``torch.nn.functional.softmax`` as one word, or None for anything but names and dots."""
    words: list[str] = []
    while isinstance(node, Attribute):
        words.append(node.name)
        node = node.owner
    return ".".join([node.name, *reversed(words)]) if isinstance(node, Name) else None


SIGNS: dict[type[ast.AST], str] = {
    **WRITTEN, ast.FloorDiv: "//", ast.Mod: "%", ast.UAdd: "+", ast.USub: "-", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^", ast.Invert: "~",
}  # fmt: skip


def parse_expression(group: Sequence[Token]) -> SyntaxNode:
    """The expression that the tokens of ``group`` spell."""
    start = group[0].span[0]
    line = [" "] * (group[-1].span[1] - start)
    for token in group:
        if token.kind == "sign" and token.word in AUGMENTED:
            raise NotationError(f"{token.word} inside an expression is not allowed", span=token.span, hints=("h += 1",))
        line[token.span[0] - start : token.span[1] - start] = token.word
    return PythonExpressionReader("".join(line), start).read()


class PythonExpressionReader:
    """Turns Python's tree for one line of text into nodes with spans in the whole text."""

    def __init__(self, line: str, start: int) -> None:
        self.line = line
        self.start = start
        self.characters: list[int] = []
        for position, character in enumerate(line):
            self.characters += [position] * len(character.encode())
        self.characters.append(len(line))

    def read(self) -> SyntaxNode:
        """The node for the line."""
        try:
            starred = self.line.lstrip().startswith("*") or re.search(r",\s*\*", self.line) is not None
            (found,) = ast.parse(self.line).body if starred else (ast.parse(self.line, mode="eval"),)
        except SyntaxError as error:
            raise self.syntax_error(error) from None
        except (ValueError, RecursionError, MemoryError, OverflowError):
            raise NotationError("this is not a valid expression", span=self.whole) from None
        if not isinstance(found, (ast.Expr, ast.Expression)):
            raise NotationError("this is not a valid expression", span=self.whole)
        return self.node(found.value if isinstance(found, ast.Expr) else found.body)

    @property
    def whole(self) -> Span:
        """The span of the line."""
        return (self.start, self.start + len(self.line))

    def syntax_error(self, error: SyntaxError) -> NotationError:
        """Python's complaint, with its place in the whole text."""
        column = min(max((error.offset or 1) - 1, 0), max(len(self.line) - 1, 0))
        stop = (error.end_offset or 0) - 1
        span = (self.start + column, self.start + max(min(stop, len(self.line)), column + 1))
        said = (error.msg or "").rstrip(".")
        found = () if said.startswith("invalid syntax") or not said else (f"Python says: {said}",)
        hint = "a comma between entries: [1, 2, 3]" if "forgot a comma" in said else ALLOWED
        if hint is ALLOWED and (missing := find_missing(tokenize_python(self.line))) is not None:
            (first, last), hint = missing
            span = self.start + first, self.start + last
        return NotationError("this is not a valid expression", span=span, found=found, hints=(hint,))

    def span(self, tree: ast.expr | ast.keyword) -> Span:
        """The characters that ``tree`` was written as."""
        stop = tree.end_col_offset if tree.end_col_offset is not None else tree.col_offset
        return (self.start + self.characters[tree.col_offset], self.start + self.characters[stop])

    def node(self, tree: ast.expr) -> SyntaxNode:
        """The node for ``tree``, or a refusal."""
        span = self.span(tree)
        match tree:
            case ast.Name(id=name):
                return Name(name, span=span)
            case ast.Constant(value=value):
                return self.constant(span, value)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return Items(tuple(self.node(item) for item in items), isinstance(tree, ast.List), span=span)
            case ast.Starred(value=value):
                return Star(self.node(value), span=span)
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in SIGNS:
                return Unary(SIGNS[type(sign)], self.node(operand), span=span)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in SIGNS:
                return Binary(SIGNS[type(operator)], self.node(left), self.node(right), span=span)
            case ast.Compare(left=left, ops=[relation], comparators=[right]) if type(relation) in SIGNS:
                return Binary(SIGNS[type(relation)], self.node(left), self.node(right), span=span)
            case ast.Compare():
                raise NotationError("comparisons do not chain over tensors", span=span, hints=("(0 < x) * (x < 1)",))
            case ast.Attribute(value=owner, attr=name):
                return Attribute(self.node(owner), name, span=span)
            case ast.Subscript(value=owner, slice=key):
                indices = key.elts if isinstance(key, ast.Tuple) else [key]
                return Subscript(self.node(owner), tuple(self.item(item) for item in indices), span=span)
            case ast.Call():
                return self.call(span, tree)
        raise NotationError("this Python syntax is not supported here", span=span, hints=(ALLOWED,))

    def constant(self, span: Span, value: object) -> SyntaxNode:
        """A number, a string, or True, False, None."""
        if isinstance(value, float) and isinf(value):
            raise InputError("this number is not finite", span=span, hints=("a number up to about 1.8e308",))
        if value is None or isinstance(value, (int, float, str)):
            return Literal(value, span=span)
        raise NotationError("... can only be used inside brackets", span=span, hints=("x[..., 0]",))

    def item(self, tree: ast.expr) -> SyntaxNode:
        """One index inside brackets."""
        if isinstance(tree, ast.Slice):
            start, stop, step = (None if t is None else self.node(t) for t in (tree.lower, tree.upper, tree.step))
            return Slice(start, stop, step, span=self.span(tree))
        if isinstance(tree, ast.Constant) and tree.value is Ellipsis:
            return Dots(span=self.span(tree))
        return self.node(tree)

    def call(self, span: Span, tree: ast.Call) -> PythonCall:
        """A call with its arguments."""
        positional = tuple(self.node(a) for a in tree.args)
        keywords = []
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise NotationError("** is not allowed among arguments", span=self.span(keyword))
            keywords.append(Keyword(keyword.arg, self.node(keyword.value), span=self.span(keyword)))
        return PythonCall(self.node(tree.func), positional, tuple(keywords), span=span)
