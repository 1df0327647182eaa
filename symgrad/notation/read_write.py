"""Text to tree and back: statements of index equations are read and printed, and einsum's subscripts are read.

What `format_node` prints, `read_statement` reads as the same tree. Right-hand sides are `symgrad.notation.expressions`.

    statement  = left "=" expr [ "where" definition { "," definition } ]
    left       = NAME [ "[" slot { "," slot } "]" ]            slot = "…" | run | "(" run "," run { "," run } ")"
    run        = letter [ "<" expr ]
    definition = NAME [ "[" letters "]" ] "=" expr

einsum's subscripts (``"ij,jk->ik"``) have one letter for each axis, and ``...`` for axes without one: out come the
letters of each tensor and of the result.

Every text that is printed has a binding strength; one that binds too weakly for its place goes into brackets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_letters

from symgrad.errors import NotationError, ShapeError, bug
from symgrad.notation import tree
from symgrad.notation.expressions import ExpressionParser
from symgrad.notation.tokens import LETTER, tokenize_equation


def read_statement(text: str, start: int = 0) -> tree.IndexEquation:
    """The one equation that ``text`` is; ``start`` is where it stands in the whole text.

    >>> read_statement("out[i] = sum_j x[i+j]*w[j]") == read_statement("out[i] = Σ_j x[i + j]·w[j]")
    True

    Raises `NotationError`, with a span, for whatever is not in the grammar.
    """
    reader = StatementParser(tokenize_equation(text, start))
    found = reader.statement()
    reader.end()
    return found


class StatementParser(ExpressionParser):
    """The rules of statements."""

    def statement(self) -> tree.IndexEquation:
        """``out[i] = right where …``."""
        name = self.name("an index equation begins with the name that it defines", ("out[i] = Σ_j x[i,j]",))
        slots: list[tree.Slot] = []
        if self.sees("["):
            opened = self.take()
            if not self.sees("]"):
                slots.append(self.slot())
            while self.takes(","):
                slots.append(self.slot())
            if not self.sees("]") and self.next.kind != "end":
                hints = (f"{name.word}[i] = …, which says of every entry what it is",)
                raise self.refusal("only letters can stand on the left", self.next.span, hints)
            self.expect("]", opened)
        if not self.takes("="):
            raise self.unexpected("an = has to follow what the equation defines")
        right = self.expression()
        definitions = []
        if self.sees("where"):
            definitions.append(self.definition())
            while self.sees(","):
                definitions.append(self.definition())
        return tree.IndexEquation(name.word, tuple(slots), right, tuple(definitions), span=self.span_from(name.span))

    def slot(self) -> tree.Slot:
        """``…``, a letter and how far it runs, or ``(i,r)``."""
        if self.sees("…"):
            return tree.Dots(span=self.take().span)
        if not self.sees("("):
            return self.bounded()
        opened = self.next.span
        letters = self.listed(self.bounded, ")")
        return letters[0] if len(letters) == 1 else tree.RowIndex(tuple(letters), span=self.span_from(opened))

    def definition(self) -> tree.Definition:
        """``s[i,j] = …`` after where."""
        self.take()
        name = self.name("where has to be followed by a definition", ("where d = x[i] − y[i]",))
        letters = self.listed(self.letter, "]") if self.sees("[") else []
        self.expect("=")
        own = tuple(letter.word for letter in letters)
        return tree.Definition(name.word, own, self.expression(), span=self.span_from(name.span))


def parse_subscripts(subscripts: str, count: int | None = None) -> tuple[tuple[str, ...], str]:
    """``"ij,jk->ik"`` as ``(("ij", "jk"), "ik")``; without an arrow the output is as einsum has it."""
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    terms = tuple(left.split(","))
    letters = "".join(terms)
    if not arrow:
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if not all(c.isalpha() and c.isascii() for c in letters + output):
        raise NotationError(
            f"einsum subscripts {subscripts!r} may hold letters, commas, one ... each and one ->",
            hints=('"ij,jk->ik"',),
        )
    if len(set(output)) < len(output) or not set(output) <= set(letters):
        raise NotationError(f"einsum output {output!r} must name input letters, each once")
    if count is not None and len(terms) != count:
        raise NotationError(f"einsum names {len(terms)} tensors, and is given {count}")
    return terms, output


def spell_out_dots(subscripts: str, ranks: Sequence[int]) -> str:
    """``"...ij,...jk->...ik"`` with letters for the axes that each ``...`` stands for: the last ones are shared."""
    text = subscripts.replace(" ", "")
    left, arrow, output = text.partition("->")
    terms = left.split(",")
    if "..." not in text or len(terms) != len(ranks):
        return text
    covered = [rank - len(term) + 3 if "..." in term else 0 for term, rank in zip(terms, ranks, strict=True)]
    if min(covered) < 0:
        raise ShapeError(f"einsum subscripts {subscripts!r} name more axes than there are")
    letters = "".join(c for c in ascii_letters if c not in text)[: max(covered)]
    if not arrow:
        output = "..." + "".join(sorted(c for c in set(left) - set(".,") if left.count(c) == 1))
    terms = [t.replace("...", letters[len(letters) - n :], 1) for t, n in zip(terms, covered, strict=True)]
    return f"{','.join(terms)}->{output.replace('...', letters, 1)}"


SUM, OPEN, PRODUCT, POWER, ATOM = range(5)
"""How tightly a text holds together; OPEN ends with a Σ, which takes all that follows it."""
HIGH = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")

Text = tuple[str, int]


def format_node(node: tree.SyntaxNode) -> str:
    """``node`` on one line, so that it reads back.

    >>> from symgrad.notation.read_write import read_statement
    >>> format_node(read_statement("out[i] = sum_j x[i+j]^2/sqrt(w[j])"))
    'out[i] = Σ_j x[i + j]² / √(w[j])'
    """
    return NodeFormatter().text(node)[0]


class NodeFormatter:
    """The walk over a tree."""

    def inside(self, node: tree.SyntaxNode, level: int) -> str:
        """A node as part of something that holds together at ``level``."""
        text, binds = self.text(node)
        return text if binds >= level else f"({text})"

    def text(self, node: tree.SyntaxNode) -> Text:
        """A node and how tightly it holds together."""
        match node:
            case tree.Number():
                return node.text, ATOM
            case tree.Name():
                return node.name, ATOM
            case tree.Dots():
                return "…", ATOM
            case tree.Letter():
                return node.name if node.bound is None else f"{node.name}<{self.inside(node.bound, SUM)}", ATOM
            case tree.Access():
                return f"{node.name}[{self.listed(node.slots)}]", ATOM
            case tree.RowIndex():
                return f"({self.listed(node.places)})", ATOM
            case tree.FlatEntry():
                places = node.number.places if isinstance(node.number, tree.RowIndex) else (node.number,)
                return f"{node.name}⟨{self.listed(places)}⟩", ATOM
            case tree.ScalarCall():
                return f"{node.function}({', '.join(self.text(a)[0] for a in node.arguments)})", ATOM
            case tree.PaddedEntry():
                return f"{node.entry.name}\u0302[{self.listed(node.entry.slots)}]", ATOM
            case tree.AxisSize():
                if node.axis is None:
                    return f"size({node.name})", ATOM
                return f"size({node.name}, {'−' if node.axis < 0 else ''}{abs(node.axis)})", ATOM
            case tree.BigOperator():
                letters = self.listed(node.letters)
                under = letters if len(node.letters) == 1 and node.letters[0].bound is None else f"{{{letters}}}"
                return f"{node.sign}_{under} {self.inside(node.body, OPEN)}", OPEN
            case tree.Negative():
                return f"−{self.inside(node.operand, OPEN)}", SUM
            case tree.Root():
                alone, inner = isinstance(node.operand, (tree.Name, tree.Number)), self.text(node.operand)[0]
                return f"√{inner if alone else f'({inner})'}", POWER
            case tree.Absolute():
                return f"|{self.text(node.operand)[0]}|", ATOM
            case tree.Floor():
                return f"⌊{self.text(node.operand)[0]}⌋", ATOM
            case tree.Binary():
                return self.binary(node)
            case tree.Power():
                return self.power(node)
            case tree.Condition():
                told = []
                for chain in node.chains:
                    sides = [self.text(side)[0] for side in chain.sides]
                    rest = (f" {r} {side}" for r, side in zip(chain.relations, sides[1:], strict=True))
                    told.append(sides[0] + "".join(rest))
                return f"[{' and '.join(told)}]", ATOM
            case tree.Delta():
                both = (node.left, node.right)
                names = [side.name for side in both if isinstance(side, tree.Name) and re.fullmatch(LETTER, side.name)]
                if len(names) < 2:
                    return f"δ({self.listed(both, ', ')})", ATOM
                return f"δ_{''.join(names)}" if len("".join(names)) == 2 else f"δ_{{{','.join(names)}}}", ATOM
            case tree.IndexEquation():
                return self.statement(node)
        raise bug(f"no text for {type(node).__name__}")

    def binary(self, node: tree.Binary) -> Text:
        """A sum, a product, a quotient or a remainder."""
        if node.sign in ("+", "−"):
            left, remainder = self.text(node.left)[0], isinstance(node.left, tree.Binary) and node.left.sign == "mod"
            left = f"({left})" if remainder else left
            return f"{left} {node.sign} {self.inside(node.right, OPEN)}", SUM
        if node.sign == "mod":
            return f"{self.inside(node.left, PRODUCT)} mod {self.inside(node.right, ATOM)}", SUM
        left = self.inside(node.left, PRODUCT)
        right, binds = self.text(node.right)
        if binds in (PRODUCT, SUM) or (isinstance(node.right, tree.Binary) and binds == OPEN):
            right, binds = f"({right})", ATOM
        sign = " / " if node.sign == "/" and " " in left + right else node.sign
        return f"{left}{sign}{right}", OPEN if binds == OPEN else PRODUCT

    def power(self, node: tree.Power) -> Text:
        """A number that stands high, or what stands behind ^."""
        base = self.inside(node.base, ATOM)
        exponent, negative = node.exponent, isinstance(node.exponent, tree.Negative)
        size = exponent.operand if isinstance(exponent, tree.Negative) else exponent
        if isinstance(size, tree.Number) and size.text.isdigit():
            return f"{base}{('-' * negative + size.text).translate(HIGH)}", POWER
        minus = "−" if negative else ""
        return f"{base}^{minus}{self.inside(size, POWER)}", POWER

    def statement(self, node: tree.IndexEquation) -> Text:
        """Both sides, and what where defines."""
        left = f"{node.name}[{self.listed(node.slots)}]" if node.slots else node.name
        text = f"{left} = {self.text(node.right)[0]}"
        told = []
        for definition in node.definitions:
            letters = f"[{','.join(definition.letters)}]" if definition.letters else ""
            told.append(f"{definition.name}{letters} = {self.text(definition.right)[0]}")
        return f"{text} where {', '.join(told)}" if told else text, SUM

    def listed(self, nodes: tuple[tree.SyntaxNode, ...], between: str = ",") -> str:
        """Nodes side by side."""
        return between.join(self.text(node)[0] for node in nodes)
