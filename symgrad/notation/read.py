"""Text → tree: statements of index equations; their right-hand sides are `symgrad.notation.expressions`.

statement  = left "=" expr [ "where" definition { "," definition } ]
left       = NAME [ "[" slot { "," slot } "]" ]            slot = "…" | run | "(" run "," run { "," run } ")"
run        = letter [ "<" expr ]
definition = NAME [ "[" letters "]" ] "=" expr
"""

from __future__ import annotations

from symgrad.notation.expressions import Expressions
from symgrad.notation.tokens import tokenize
from symgrad.notation.tree import Definition, Dots, Letter, Row, Statement


def read_statement(text: str, start: int = 0) -> Statement:
    """The one equation that ``text`` is; ``start`` is where it stands in the whole text.

    >>> read_statement("out[i] = sum_j x[i+j]*w[j]") == read_statement("out[i] = Σ_j x[i + j]·w[j]")
    True

    Raises `NotationError`, with a span, for whatever is not in the grammar.
    """
    reader = Reader(tokenize(text, start))
    found = reader.statement()
    reader.end()
    return found


class Reader(Expressions):
    """The rules of statements."""

    def statement(self) -> Statement:
        """``out[i] = right where …``."""
        name = self.name("an index equation begins with what it defines", ("out[i] = Σ_j x[i,j]",))
        slots: list[Letter | Dots | Row] = []
        if self.sees("["):
            opened = self.take()
            if not self.sees("]"):
                slots.append(self.slot())
            while self.sees(","):
                self.take()
                slots.append(self.slot())
            if not self.sees("]") and self.next.kind != "end":
                hints = (f"{name.word}[i] = …, which says of every entry what it is",)
                raise self.refusal("on the left stand letters alone", self.next.span, hints)
            self.expect("]", opened)
        if not self.sees("="):
            raise self.unexpected("after what an equation defines there stands a =")
        self.take()
        right = self.expression()
        definitions = []
        if self.sees("where"):
            definitions.append(self.definition())
            while self.sees(","):
                definitions.append(self.definition())
        return Statement(name.word, tuple(slots), right, tuple(definitions), span=self.span_from(name.span))

    def slot(self) -> Letter | Dots | Row:
        """``…``, a letter and how far it runs, or ``(i,r)``."""
        if self.sees("…"):
            return Dots(span=self.take().span)
        if not self.sees("("):
            return self.bounded()
        opened = self.next.span
        letters = self.listed(self.bounded, ")")
        return letters[0] if len(letters) == 1 else Row(tuple(letters), span=self.span_from(opened))

    def definition(self) -> Definition:
        """``s[i,j] = …`` after where."""
        self.take()
        name = self.name("after where there stands a definition", ("where d = x[i] − y[i]",))
        letters = self.listed(self.letter, "]") if self.sees("[") else []
        self.expect("=")
        own = tuple(letter.word for letter in letters)
        return Definition(name.word, own, self.expression(), span=self.span_from(name.span))
