"""Text → statements that have a meaning at every size: what is assigned to which names, and imports.

Comes in: what the user typed. Goes out: a `Script` of statements in the order in which they run; a name that was
imported is what it stands for. Everything else of Python is refused here or by `symgrad.language.syntax_tree`, with its
place: `symgrad.question` then runs the text once, if torch is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
    PythonCall,
    PythonStatement,
    Script,
    Star,
    Subscript,
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
SHORT = {"torch.nn.functional": "F", "torch.nn": "nn", "numpy": "np", "jax.numpy": "jnp", "torch.linalg": "linalg"}
"""What modules are called in a text."""
OVERWRITES = "{} overwrites a tensor"
KNOWN = ("torch", "numpy", "math", "jax")
"""Packages whose functions a text is read in."""
COUNTED = re.compile(r"(?:^|[;\n])[ \t]*(\w+)[ \t]*=[ \t]*\d+[ \t]*(?=[;\n])")
"""Names that are numbers, and no index of an equation."""


def parse_script(source: SourceText, length: int = LENGTH) -> Script:
    """The statements of ``source``.

    >>> parse_script(SourceText("h = x@a; h.T")).statements[0].target
    'h'

    Raises `NotationError`, with a span, for whatever is not an expression over tensors.
    """
    counts = set(COUNTED.findall(source.text))
    stated = [(text, span) for text, span in split_statements(source.text) if is_equation(text, counts)]
    text = source.text
    for _, (start, stop) in stated:
        text = text[:start] + " " * (stop - start) + text[stop:]
    groups = list(group_statements(tokenize_python(text, length)))
    equations = [parse_equation(text, span[0]) for text, span in stated]
    read = list(PythonParser(source.text).read(groups))
    if not read and not stated:
        raise NotationError("there is no expression", span=(0, len(source.text)), hints=('"x@a"',))
    check_named_constants(read, equations)
    read += [PythonStatement(node.statement.name, node, span=node.span) for node in equations]
    read.sort(key=lambda statement: statement.span[0])
    check_statement_order(read)
    check_no_letters_in_python(read, equations)
    return Script(source, tuple(read))


class PythonParser:
    """Reads groups of tokens, one after the other; ``text`` is the whole text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.imported: dict[str, str] = {}

    def read(self, groups: Iterable[Sequence[Token]]) -> Iterator[PythonStatement]:
        """The statements of ``groups``."""
        for group in groups:
            if group[0].kind == "name" and group[0].word in ("import", "from"):
                self.imports(group)
            else:
                yield self.statement(group)

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
            if isinstance(node, Subscript):
                raise self.written_entries_error(group[0].word, node, sign)
            if not isinstance(node, Name):
                hints = ("h = x@a; h.T", *((ENTRIES,) if isinstance(node, PythonCall) else ()), RUN)
                raise NotationError("only names can be assigned to", span=sign.span, hints=hints)
        return found

    def written_entries_error(self, name: str, node: SyntaxNode, sign: Token) -> NotationError:
        """The error for ``h[0] = 1``; for ``out[1] = x[1]`` one that tells of equations."""
        alone = len(re.findall(rf"(?<!\w){re.escape(name)}(?!\w)", self.text)) == 1
        if alone and "[" in self.text[sign.span[1] :]:
            return NotationError(f"{name} is nothing yet, and nothing uses it", span=node.span, hints=(ENTRIES, RUN))
        return NotationError(OVERWRITES.format("this line"), span=node.span, hints=("torch.where(mask, a, h)", RUN))

    def expression(self, group: Sequence[Token]) -> SyntaxNode:
        """An expression, with what was imported in the place of its names."""
        for token in group:
            if token.kind == "name":
                check_keyword(token, inside=True)
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
