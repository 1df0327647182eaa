"""Text → tree: statements of index equations, and einsum's subscripts.

Right-hand sides are `symgrad.notation.expressions`.

statement  = left "=" expr [ "where" definition { "," definition } ]
left       = NAME [ "[" slot { "," slot } "]" ]            slot = "…" | run | "(" run "," run { "," run } ")"
run        = letter [ "<" expr ]
definition = NAME [ "[" letters "]" ] "=" expr

einsum's subscripts (``"ij,jk->ik"``) are one letter for each axis, and ``...`` for those that have none: the letters of
each tensor and of the result go out.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

from symgrad.errors import NotationError, ShapeError
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
        raise NotationError(f"einsum has {len(terms)} subscripts for {count} tensors")
    return terms, output


def lettered(subscripts: str, ranks: Sequence[int]) -> str:
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
