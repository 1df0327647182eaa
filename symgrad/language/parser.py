"""Text → statements, as Python has them: what is assigned to what, imports, loops over a range, and no_grad.

Comes in: what the user typed. Goes out: a `Script` of statements in the order in which they run: a loop over a written
range is its body once for each number, and a name that was imported is what it stands for. Everything else of Python
is refused here or by `symgrad.language.syntax_tree`, with its place; a script as it stands is run by
``symgrad run``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from symgrad.errors import RUN, NotationError, SourceText, Span, UnknownNameError
from symgrad.language.index_equations import (
    check_named_constants,
    check_no_letters_in_python,
    check_statement_order,
    is_equation,
    parse_equation,
    split_statements,
)
from symgrad.language.syntax_tree import (
    Attribute,
    Items,
    Literal,
    PythonCall,
    PythonStatement,
    Script,
    Star,
    Subscript,
    Unary,
    dotted_name,
    parse_expression,
)
from symgrad.language.tokens import (
    AUGMENTED,
    LENGTH,
    check_keyword,
    count_open_brackets,
    group_statements,
    tokenize_python,
)
from symgrad.notation.tokens import Token
from symgrad.notation.tree import Name, SyntaxNode, rebuild_node

ENTRIES = "each entry of an equation has letters on the left: out[i] = …"
FORMS = ("for k in range(3):", "with torch.no_grad():")
TURNS = 100
"""Statements that all loops of a text may come to."""
SHORT = {"torch.nn.functional": "F", "torch.nn": "nn", "numpy": "np", "jax.numpy": "jnp", "torch.linalg": "linalg"}
"""What modules are called in a text."""
HELD = "·"
"""What stands in the names of what a loop runs over, and in no name that somebody writes."""
KNOWN = ("torch", "numpy", "math", "jax")
"""Packages whose functions a text is read in."""
COUNTED = re.compile(r"\bfor\s+(\w+)\s+in\b|(?:^|[;\n])[ \t]*(\w+)[ \t]*=[ \t]*\d+[ \t]*(?=[;\n])")
"""Names that are numbers, and no index of an equation."""


def parse_script(source: SourceText, length: int = LENGTH) -> Script:
    """The statements of ``source``.

    >>> parse_script(SourceText("h = x@a; h.T")).statements[0].target
    'h'

    Raises `NotationError`, with a span, for whatever is not an expression over tensors.
    """
    counts = {name for found in COUNTED.findall(source.text) for name in found if name}
    stated = [(text, span) for text, span in split_statements(source.text) if is_equation(text, counts)]
    text = source.text
    for _, (start, stop) in stated:
        text = text[:start] + " " * (stop - start) + text[stop:]
    groups = list(group_statements(tokenize_python(text, length)))
    equations = [parse_equation(text, span[0]) for text, span in stated]
    read = list(BlockParser(source.text).read(groups))
    if not read and not stated:
        raise NotationError("there is no expression", span=(0, len(source.text)), hints=('"x@a"',))
    check_named_constants(read, equations)
    read += [PythonStatement(node.statement.name, node, span=node.span) for node in equations]
    read.sort(key=lambda statement: statement.span[0])
    check_statement_order(read)
    check_no_letters_in_python(read, equations)
    return Script(source, tuple(read))


class BlockParser:
    """Reads groups of tokens, one after the other; ``text`` is the whole text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.imported: dict[str, str] = {}
        self.turns = 0
        self.before: list[PythonStatement] = []

    def read(self, groups: Sequence[Sequence[Token]]) -> Iterator[PythonStatement]:
        """The statements of ``groups``."""
        place = 0
        while place < len(groups):
            group = groups[place]
            place += 1
            head = group[0].word if group[0].kind == "name" else ""
            if head in ("import", "from"):
                self.imports(group)
            elif head in ("for", "with"):
                inside = len(list(self.inside(group, groups[place:])))
                yield from self.block(group, groups[place : place + inside])
                place += inside
            else:
                yield self.statement(group)

    def inside(self, head: Sequence[Token], rest: Sequence[Sequence[Token]]) -> Iterator[Sequence[Token]]:
        """The groups of ``rest`` that stand in the block of ``head``: on its line, or further in than it."""
        alone = head[-1].word == ":"
        for group in rest:
            column = self.column(group[0])
            if not (column is None if not alone else column is None or column > (self.column(head[0]) or 0)):
                return
            yield group

    def column(self, token: Token) -> int | None:
        """Where a token stands in its line; None where something stands before it."""
        start = self.text.rfind("\n", 0, token.span[0]) + 1
        return None if self.text[start : token.span[0]].strip() else token.span[0] - start

    def block(self, head: Sequence[Token], rest: Sequence[Sequence[Token]]) -> Iterator[PythonStatement]:
        """A loop over a range turn by turn, or what stands under ``with torch.no_grad()``."""
        colon = next((n for n, t in enumerate(head) if t.word == ":" and not count_open_brackets(head[:n])), None)
        if colon is None or colon < 2:
            raise NotationError("this line has to end in a colon", span=span_of_tokens(head), hints=FORMS)
        body = [*([head[colon + 1 :]] if head[colon + 1 :] else []), *rest]
        if not body:
            raise NotationError("this block is empty", span=span_of_tokens(head), hints=FORMS)
        span = (head[0].span[0], body[-1][-1].span[1])
        for turn in self.turned(head[:colon]) if head[0].word == "for" else self.apart(head[:colon]):
            found = [*self.before, *([turn] if turn is not None else [])]
            self.before = []
            for statement in [*found, *self.read(body)]:
                self.turns += 1
                if self.turns > TURNS:
                    told = f"the loops run more than {TURNS} statements"
                    raise NotationError(told, span=span_of_tokens(head[:colon]), hints=(RUN,))
                yield replace(statement, span=span, apart=statement.apart or (head[0].word == "with" and turn is None))

    def turned(self, head: Sequence[Token]) -> Iterator[PythonStatement]:
        """What a loop's name is, turn by turn; what it runs over is read once, before all turns."""
        name, word, over = head[1], head[2].word if len(head) > 2 else "", head[3:]
        if name.kind != "name" or word != "in" or not over:
            raise NotationError("a loop here has one variable", span=span_of_tokens(head), hints=(FORMS[0], RUN))
        node = self.expression(over)
        numbers = parse_range(node)
        if numbers is None and not (isinstance(node, Items) and node.items):
            told = "the number of turns of a loop has to be in the text"
            raise NotationError(told, span=node.span, hints=("range(3), (x, y)", RUN))
        if numbers is None:
            held = tuple(Name(f"{name.word}{HELD}{n}", span=node.span) for n in range(len(node.parts)))
            self.before = [PythonStatement(None, node, (Items(held, span=node.span),), span=node.span)]
        for value in held if numbers is None else (Literal(n, span=node.span) for n in numbers):
            yield self.assigned(PythonStatement(name.word, value, span=name.span))

    def apart(self, head: Sequence[Token]) -> Iterator[PythonStatement | None]:
        """Once, where it is torch.no_grad()."""
        node = self.expression(head[1:])
        path = dotted_name(node.function) if isinstance(node, PythonCall) and len(node.parts) == 1 else None
        if path not in ("torch.no_grad", "torch.autograd.no_grad"):
            raise NotationError("symgrad does not read this block", span=span_of_tokens(head), hints=(FORMS[1], RUN))
        yield None

    def imports(self, group: Sequence[Token]) -> None:
        """What ``import torch as t`` and ``from math import pi`` give names to."""
        words = [token.word for token in group if token.word not in ("(", ")")]
        at = words.index("import") if "import" in words else len(words)
        module = "".join(words[1:at]) + "." if words[0] == "from" else ""
        for part in " ".join(words[at + 1 :]).replace(" . ", ".").split(","):
            path, _, name = part.partition(" as ")
            path, name = path.strip(), name.strip()
            if not all(word.isidentifier() for word in [*path.split("."), name or "x"]) and path != "*":
                raise NotationError("this is not a valid import", span=span_of_tokens(group), hints=("import torch",))
            if path == "*" and module.partition(".")[0] != "torch":
                raise UnknownNameError(
                    f"the contents of {module[:-1]} are not known here", span=span_of_tokens(group), hints=(RUN,)
                )
            whole = module + path if name or module else path.partition(".")[0]
            self.imported[name or path.partition(".")[0]] = whole

    def statement(self, group: Sequence[Token]) -> PythonStatement:
        """One assignment or expression."""
        span, signs = span_of_tokens(group), find_assignment_signs(group)
        if not signs:
            return PythonStatement(None, self.expression(group), span=span)
        *parts, value = split_at(group, signs)
        sign = group[signs[0]].word
        if not value:
            raise NotationError("the assignment has no value", span=span)
        if sign != "=" and len(signs) > 1:
            raise NotationError(f"{sign} needs one name on its left", span=group[signs[0]].span, hints=("h += 1",))
        targets = tuple(self.target(part, group[place]) for part, place in zip(parts, signs, strict=True))
        found = self.expression(value)
        if len(targets) == 1 and isinstance(targets[0], Name) and sign == "=":
            return self.assigned(PythonStatement(targets[0].name, found, span=span))
        return self.assigned(PythonStatement(None, found, targets, sign.removesuffix("="), span=span))

    def assigned(self, statement: PythonStatement) -> PythonStatement:
        """``statement``, after which its names are no imports any more."""
        for name in statement.names:
            self.imported.pop(name, None)
        return statement

    def target(self, group: Sequence[Token], sign: Token) -> SyntaxNode:
        """What is assigned to: names, several of them, entries."""
        if not group:
            raise NotationError("there is nothing before this", span=sign.span, hints=("h = x@a; h.T",))
        if group[0].word in ("True", "False", "None") and len(group) == 1:
            raise NotationError(f"{group[0].word} cannot be assigned to", span=group[0].span)
        found = parse_expression(group)
        for node in [found] if isinstance(found, Star) else iterate_targets(found):
            node = node.value if isinstance(node, Star) and node is not found else node
            if isinstance(node, Attribute):
                raise NotationError(f"{node.name} cannot be assigned to here", span=node.span, hints=(RUN,))
            if not isinstance(node, (Name, Subscript)):
                entries = (ENTRIES,) if isinstance(node, PythonCall) else ()
                told = "only names and entries of a tensor can be assigned to"
                raise NotationError(told, span=sign.span, hints=("h = x@a; h.T", *entries, RUN))
        if not isinstance(found, Subscript):
            return found
        name = group[0].word
        alone = len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", self.text)) == 1
        if alone and "[" in self.text[sign.span[1] :]:  # out[1] = x[1]: meant as an equation
            raise NotationError(f"{name} is nothing yet, and nothing uses it", span=found.span, hints=(ENTRIES, RUN))
        return self.followed(found)

    def expression(self, group: Sequence[Token]) -> SyntaxNode:
        """An expression, with what was imported in the place of its names."""
        for token in group:
            if token.kind == "name":
                check_keyword(token, block=True)
        return self.followed(parse_expression(group))

    def followed(self, node: SyntaxNode) -> SyntaxNode:
        """``node`` with what was imported in the place of its names."""
        return rebuild_node(node, self.stands_for, deep=True) if self.imported else node

    def stands_for(self, node: SyntaxNode) -> SyntaxNode:
        """A name that was imported as what it stands for; anything else as it is."""
        path = self.imported.get(node.name) if isinstance(node, Name) else None
        if path is None or not isinstance(node, Name):
            return node
        if path.partition(".")[0] not in KNOWN:
            told = f"{path} is not a library that symgrad reads"
            raise UnknownNameError(told, span=node.span, hints=("the same function of torch or NumPy", RUN))
        if SHORT.get(path, path) == node.name:
            return node
        module, _, rest = next(
            ((s, *path.removeprefix(m).partition(".")[1:]) for m, s in SHORT.items() if f"{path}.".startswith(f"{m}.")),
            path.partition("."),
        )
        found: SyntaxNode = Name(module, span=node.span)
        for word in rest.split(".") if rest else ():
            found = Attribute(found, word, span=node.span)
        return found


def parse_range(node: SyntaxNode) -> range | None:
    """The numbers of ``range(3)``; None for what is no range of written numbers."""
    if not isinstance(node, PythonCall) or dotted_name(node.function) != "range" or node.keywords:
        return None
    signed = [(p.operand, -1) if isinstance(p, Unary) and p.sign == "-" else (p, 1) for p in node.positional]
    bounds = [sign * part.value for part, sign in signed if isinstance(part, Literal) and type(part.value) is int]
    if len(bounds) != len(node.positional) or not 1 <= len(bounds) <= 3 or bounds[2:] == [0]:
        return None
    return range(*bounds)


def iterate_targets(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """What several targets are one by one."""
    if not isinstance(node, Items):
        yield node
        return
    for item in node.items:
        yield from [item] if isinstance(item, Star) else iterate_targets(item)


def span_of_tokens(group: Sequence[Token]) -> Span:
    """Where a group of tokens stands."""
    return (group[0].span[0], group[-1].span[1])


def find_assignment_signs(group: Sequence[Token]) -> list[int]:
    """Where = and += stand outside brackets."""
    signs = [n for n, token in enumerate(group) if token.kind == "sign" and token.word in ("=", *AUGMENTED)]
    return [place for place in signs if not count_open_brackets(group[:place])]


def split_at(group: Sequence[Token], signs: Sequence[int]) -> list[Sequence[Token]]:
    """The tokens before, between and behind the ``signs``."""
    ends = [-1, *signs, len(group)]
    return [group[a + 1 : b] for a, b in pairwise(ends)]
