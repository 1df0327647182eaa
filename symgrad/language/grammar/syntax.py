"""Text → syntax tree, by Python's own parser and a whitelist.

Comes in: what the user typed. Goes out: a `Script`. Only ``ast.parse`` in expression mode is used; nothing is
ever compiled to code or evaluated. Spans are character offsets into the whole text, although Python counts
UTF-8 bytes within a line: each statement is parsed as one line of its own, with blanks for line ends and
comments, so that a byte column of the statement is all there is to translate.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from math import isinf

from symgrad.errors import InputError, NotationError, Span
from symgrad.language.grammar.equations import (
    check_constants,
    check_letters,
    check_order,
    equation,
    is_equation,
    pieces,
)
from symgrad.language.grammar.nodes import (
    Attribute,
    Binary,
    Call,
    Dots,
    Items,
    Keyword,
    Name,
    Node,
    Number,
    Script,
    Slice,
    Star,
    Statement,
    Subscript,
    Text,
    Unary,
    Word,
)
from symgrad.language.grammar.tokens import ALLOWED, LENGTH, Token, statements, tokenize
from symgrad.source import Source
from symgrad.ways import Setting

ENTRIES = "each entry of an equation has letters on the left: out[i] = …"
SCRIPT = Setting("command", value="run SCRIPT", sentence="a script that writes into entries: {}")
SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.UAdd: "+", ast.USub: "-", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Eq: "==", ast.NotEq: "!=", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.Invert: "~",
}  # fmt: skip


def parse(source: Source, length: int = LENGTH) -> Script:
    """The statements of ``source``.

    >>> parse(Source("h = x@a; h.T")).statements[0].target
    'h'

    Raises `NotationError`, with a span, for whatever is not an expression over tensors.
    """
    stated = [(text, span) for text, span in pieces(source.text) if is_equation(text)]
    text = source.text
    for _, (start, stop) in stated:
        text = text[:start] + " " * (stop - start) + text[stop:]
    groups = list(statements(tokenize(text, length)))
    if not groups and not stated:
        raise NotationError("there is no expression", span=(0, len(source.text)), hints=('"x@a"',))
    equations = [equation(text, span[0]) for text, span in stated]
    later = frozenset(name.name for node in equations for name in node.tensors)
    read = [s for n, group in enumerate(groups) for s in statements_of(source.text, group, groups[n + 1 :], later)]
    check_constants(read, equations)
    read += [Statement(node.span, node.statement.name, node) for node in equations]
    read.sort(key=lambda statement: statement.span[0])
    check_order(read)
    check_letters(read, equations)
    return Script(source, tuple(read))


def statements_of(
    text: str, group: Sequence[Token], rest: Sequence[Sequence[Token]], later: frozenset[str]
) -> Iterator[Statement]:
    """One statement; for ``q, r = …`` one for each name that is used later, in ``rest`` or by the equations."""
    names = unpacked(group)
    if not names or not (rest or later):
        yield statement(text, group)
        return
    used = {token.word for other in rest for token in other if token.kind == "name"} | later
    value = statement(text, group[2 * len(names) :])
    for place, name in enumerate(names):
        if name.word in used:
            part = Subscript(value.span, value.value, (Number(name.span, place),))
            yield Statement(value.span, name.word, part)


def unpacked(group: Sequence[Token]) -> tuple[Token, ...]:
    """The names on the left of ``q, r = …``; none for any other statement."""
    count = 0
    while 2 * count + 1 < len(group) and group[2 * count].kind == "name":
        sign = group[2 * count + 1].word
        if sign == "=":
            return tuple(group[: 2 * count + 1 : 2]) if count else ()
        if sign != ",":
            return ()
        count += 1
    return ()


def statement(text: str, group: Sequence[Token]) -> Statement:
    """One assignment or expression."""
    span = (group[0].span[0], group[-1].span[1])
    if len(group) > 1 and group[0].kind == "name" and group[1].word == "=":
        target, value = group[0], group[2:]
        if not value:
            raise NotationError("the assignment has no value", span=span)
        if target.word in ("True", "False", "None"):
            raise NotationError(f"{target.word} cannot be assigned to", span=target.span)
        return Statement(span, target.word, expression(text, value))
    return Statement(span, None, expression(text, group))


def expression(text: str, group: Sequence[Token]) -> Node:
    """The expression that the tokens of ``group`` spell."""
    start = group[0].span[0]
    line = [" "] * (group[-1].span[1] - start)
    level = 0
    for token in group:
        level += (token.word in ("(", "[")) - (token.word in (")", "]")) if token.kind == "sign" else 0
        if token.word == "=" and token.kind == "sign" and not level:
            before = {t.word for t in group if t.span[0] < token.span[0]}
            entries = (ENTRIES, SCRIPT) if before & {"[", "("} else ()
            raise NotationError(
                "an assignment goes to one name, at the beginning", span=token.span, hints=("h = x@a; h.T", *entries)
            )
        line[token.span[0] - start : token.span[1] - start] = token.word
    return Reader("".join(line), start).read()


class Reader:
    """Turns Python's tree for one line of text into nodes with spans in the whole text."""

    def __init__(self, line: str, start: int) -> None:
        self.line = line
        self.start = start
        self.characters: list[int] = []
        for position, character in enumerate(line):
            self.characters += [position] * len(character.encode())
        self.characters.append(len(line))

    def read(self) -> Node:
        """The node for the line."""
        try:
            tree = ast.parse(self.line, mode="eval").body
        except SyntaxError as error:
            raise self.syntax_error(error) from None
        except (ValueError, RecursionError, MemoryError, OverflowError):
            raise NotationError("this does not read as an expression", span=self.whole) from None
        return self.node(tree)

    @property
    def whole(self) -> Span:
        """The span of the line."""
        return (self.start, self.start + len(self.line))

    def syntax_error(self, error: SyntaxError) -> NotationError:
        """Python's complaint, with its place in the whole text."""
        column = min(max((error.offset or 1) - 1, 0), len(self.line))
        stop = (error.end_offset or 0) - 1
        span = (self.start + column, self.start + max(min(stop, len(self.line)), column + 1))
        said = (error.msg or "").rstrip(".")
        found = () if said.startswith("invalid syntax") or not said else (f"Python says: {said}",)
        return NotationError("this does not read as an expression", span=span, found=found, hints=(ALLOWED,))

    def span(self, tree: ast.expr | ast.keyword) -> Span:
        """The characters that ``tree`` was written as."""
        stop = tree.end_col_offset if tree.end_col_offset is not None else tree.col_offset
        return (self.start + self.characters[tree.col_offset], self.start + self.characters[stop])

    def node(self, tree: ast.expr) -> Node:
        """The node for ``tree``, or a refusal."""
        span = self.span(tree)
        match tree:
            case ast.Name(id=name):
                return Name(span, name)
            case ast.Constant(value=value):
                return self.constant(span, value)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return Items(span, tuple(self.node(item) for item in items))
            case ast.UnaryOp(op=sign, operand=operand) if type(sign) in SIGNS:
                return Unary(span, SIGNS[type(sign)], self.node(operand))
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in SIGNS:
                return Binary(span, SIGNS[type(operator)], self.node(left), self.node(right))
            case ast.Compare(left=left, ops=[relation], comparators=[right]) if type(relation) in SIGNS:
                return Binary(span, SIGNS[type(relation)], self.node(left), self.node(right))
            case ast.Compare():
                raise NotationError("comparisons do not chain over tensors", span=span, hints=("(0 < x) * (x < 1)",))
            case ast.Attribute(value=owner, attr=name):
                return Attribute(span, self.node(owner), name)
            case ast.Subscript(value=owner, slice=key):
                indices = key.elts if isinstance(key, ast.Tuple) else [key]
                return Subscript(span, self.node(owner), tuple(self.item(item) for item in indices))
            case ast.Call():
                return self.call(span, tree)
        raise NotationError("this form of Python is not allowed here", span=span, hints=(ALLOWED,))

    def constant(self, span: Span, value: object) -> Node:
        """A number, a string, or True, False, None."""
        if value is None or isinstance(value, bool):
            return Word(span, value)
        if isinstance(value, float) and isinf(value):
            raise InputError("this number is not finite", span=span, hints=("a number up to about 1.8e308",))
        if isinstance(value, (int, float)):
            return Number(span, value)
        if isinstance(value, str):
            return Text(span, value)
        raise NotationError("... stands inside brackets only", span=span, hints=("x[..., 0]",))

    def item(self, tree: ast.expr) -> Node:
        """One index inside brackets."""
        if isinstance(tree, ast.Slice):
            start, stop, step = (None if t is None else self.node(t) for t in (tree.lower, tree.upper, tree.step))
            return Slice(self.span(tree), start, stop, step)
        if isinstance(tree, ast.Constant) and tree.value is Ellipsis:
            return Dots(self.span(tree))
        return self.node(tree)

    def call(self, span: Span, tree: ast.Call) -> Call:
        """A call with its arguments."""
        positional = tuple(
            Star(self.span(a), self.node(a.value)) if isinstance(a, ast.Starred) else self.node(a) for a in tree.args
        )
        keywords = []
        for keyword in tree.keywords:
            if keyword.arg is None:
                raise NotationError("** is not allowed among arguments", span=self.span(keyword))
            keywords.append(Keyword(self.span(keyword), keyword.arg, self.node(keyword.value)))
        return Call(span, self.node(tree.func), positional, tuple(keywords))
