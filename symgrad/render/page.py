"""The parts of a page: plain data between the content, which has the words, and the writers, which have the form.

A page has sections, a section blocks. Words are tuples of plain text, `Code` and mathematics; mathematics is
anything with ``.text`` (Unicode) and ``.latex``. Code and mathematics are never taken apart by a writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from symgrad.indexing.symbols import Expr, leaves_exceed
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array
from symgrad.render.formula import UNICODE, formula_text
from symgrad.render.latex_alphabet import LATEX, escape_name, formula_latex, label_latex, name_latex
from symgrad.render.letters import Names

LEAVES_A_SIGN = 2
"""More leaves of a formula than that stand in no sign of its text: of x⁻¹ there is a sign for each, and of Σ the limits
are not counted."""


class Math(Protocol):
    """Mathematics, in both alphabets."""

    @property
    def text(self) -> str:
        """In Unicode, on one line."""

    @property
    def latex(self) -> str:
        """In LaTeX, for math mode."""


@dataclass(frozen=True)
class Ready:
    """Mathematics that is written out already."""

    text: str
    latex: str


@dataclass(frozen=True, eq=False)
class Formula:
    """An index expression under the names in scope."""

    expression: Expr
    names: Names

    @cached_property
    def text(self) -> str:
        """In Unicode."""
        return formula_text(self.expression, self.names)

    def fits(self, most: int) -> bool:
        """Whether the text has at most so many signs; it is not written where it has far more letters and numbers."""
        return not leaves_exceed(self.expression, LEAVES_A_SIGN * most) and len(self.text) <= most

    @cached_property
    def latex(self) -> str:
        """In LaTeX."""
        return formula_latex(self.expression, self.names)


@dataclass(frozen=True)
class Chained:
    """Mathematics side by side, with an operator between; what is added and is negative is taken away."""

    parts: tuple[Math, ...]
    operator: Math

    @property
    def text(self) -> str:
        """In Unicode."""
        return join_signed([part.text for part in self.parts], self.operator.text, "−")

    @property
    def latex(self) -> str:
        """In LaTeX."""
        return join_signed([part.latex for part in self.parts], self.operator.latex, "-")


def join_signed(texts: Sequence[str], operator: str, minus: str) -> str:
    """Texts with an operator between; a minus sign stands for + and a negative one."""
    first, *others = texts
    taken = [operator == " + " and text.startswith(minus) for text in others]
    pairs = zip(others, taken, strict=True)
    return first + "".join(f" {minus} {text[1:]}" if away else f"{operator}{text}" for text, away in pairs)


@dataclass(frozen=True)
class Code:
    """Something to type, or an answer of a program."""

    code: str


Words = tuple["str | Code | Math", ...]


@dataclass(frozen=True)
class Paragraph:
    """Sentences; ``aside`` ones stand beside what is said, those of ``notation`` explain the formulas above.

    ``alarm`` ones say that something is wrong.
    """

    words: Words
    aside: bool = False
    alarm: bool = False
    notation: bool = False


@dataclass(frozen=True)
class Listing:
    """Lines of code or of a program's output; ``beside`` are the shapes of what they read.

    They begin at ``column`` where there is one line; without room they stand below, without a column above. What is no
    code that ``runs`` is not offered to be copied.
    """

    code: str
    beside: str = ""
    column: int = 46
    runs: bool = True


@dataclass(frozen=True)
class CodeLine:
    """A line of a forward or of a backward: what it computes, ``of`` which tensor, in which shape.

    ``name`` and ``reads`` are what it makes and the names that it reads; ``where`` the user's line that it stands for.
    """

    code: str
    shape: str | None = None
    of: str = ""
    name: str = ""
    reads: str = ""
    where: Any = None


@dataclass(frozen=True)
class Both:
    """A forward and its backward, beside each other where they fit; ``meaning`` says what the backward's names are.

    ``between`` is what the backward begins with: it stands before it, or below the two columns.
    """

    forward: tuple[CodeLine, ...]
    backward: tuple[CodeLine, ...]
    meaning: str
    between: tuple[Block, ...] = ()

    @property
    def apart(self) -> tuple[Block, ...]:
        """The same one below the other, for pages that have no columns."""
        lines = align_equal_signs([line.code for line in self.forward])
        wide = max(map(len, lines), default=0)
        pairs = zip(lines, self.forward, strict=True)
        ahead = "\n".join(f"{code.ljust(wide)}  {line.shape or ''}".rstrip() for code, line in pairs)
        back = "\n".join(align_equal_signs([line.code for line in self.backward]))
        return Listing(ahead), *self.between, Paragraph((f"{self.meaning}:",)), Listing(back)


@dataclass(frozen=True)
class Remarks:
    """Remarks, each an item of its own; one that begins with blanks belongs to the one before it."""

    items: tuple[str, ...]
    alarm: bool = False


@dataclass(frozen=True)
class EquationRow:
    """``parts[0] = parts[1] = …``, and a remark beside it."""

    parts: tuple[Math, ...]
    remark: Words = ()

    @property
    def text(self) -> str:
        """On one line; what is only nearly 0 is not equal to it."""
        return " = ".join(part.text for part in self.parts).replace("= ≈", "≈ ")


@dataclass(frozen=True)
class Equations:
    """Equations below one another."""

    rows: tuple[EquationRow, ...]


@dataclass(frozen=True, eq=False)
class Grid:
    """Numbers of an array in its own shape: ``name =`` and the rows. Long ones are shortened by the writer."""

    name: Math
    values: Array


@dataclass(frozen=True, eq=False)
class Grids:
    """Several arrays, one after the other."""

    grids: tuple[Grid, ...]


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix with labelled rows and columns; None is an entry that is always 0.

    Lines are drawn after every ``row_block`` rows and ``column_block`` columns (0: none).
    """

    rows: tuple[Math, ...]
    columns: tuple[Math, ...]
    cells: tuple[tuple[Math | None, ...], ...]
    row_block: int = 0
    column_block: int = 0


@dataclass(frozen=True)
class Table:
    """Words in columns; the first row is the heading.

    On a page that is too narrow the cells from ``first`` on stand below the others of their row, if there is such a
    place, and ``brief`` are the rows in fewer words.
    """

    heading: tuple[Words, ...]
    rows: tuple[tuple[Words, ...], ...]
    first: int = 0
    brief: tuple[tuple[Words, ...], ...] = ()


@dataclass(frozen=True)
class Picture:
    """A drawing in SVG, and the same in words; ``name`` is that of its file, where it has one."""

    name: str
    svg: str

    @property
    def alt(self) -> str:
        """The description that the drawing carries."""
        from xml.etree import ElementTree

        root = ElementTree.fromstring(self.svg)
        said = (root.findtext(f"{{http://www.w3.org/2000/svg}}{tag}", "") for tag in ("title", "desc"))
        return " ".join(". ".join(said).split())


Block = Paragraph | Listing | Both | Remarks | Equations | Grids | Matrix | Table | Picture


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it; a ``folded`` one is opened by those who want it."""

    heading: Words
    blocks: tuple[Block, ...]
    folded: bool = False


@dataclass(frozen=True)
class Page:
    """``title`` is the expression, ``facts`` the tensors with their sizes, ``lead`` what stands before section 1.

    Sections are ``numbered`` from 1, but for those of a story, whose calls have numbers of their own.
    """

    title: Words
    facts: tuple[tuple[str, str], ...]
    lead: tuple[Block, ...]
    sections: tuple[Section, ...]
    numbered: bool = True


def text_of(words: Words) -> str:
    """Words as they read, on one line."""
    return "".join(w if isinstance(w, str) else w.code if isinstance(w, Code) else w.text for w in words)


NAME = 14
"""Names up to this length stand in a column of their own."""


def align_equal_signs(lines: Sequence[str]) -> list[str]:
    r"""Lines with their = below each other, where no name is long.

    >>> print(*align_equal_signs(["t1 = x @ w", "loss = t1.sum()"]), sep="\n")
    t1   = x @ w
    loss = t1.sum()
    """
    longest = max((len(line.partition(" = ")[0]) for line in lines), default=0)
    if longest > NAME:
        return list(lines)
    parts = [line.partition(" = ") for line in lines]
    return [f"{name.ljust(longest)}{sign}{text}" if sign else name for name, sign, text in parts]


def tensor_label(name: str, letters: Sequence[str] = ()) -> Ready:
    """``out[i,k]``: a tensor's entry under letters or numbers; ``x.grad`` upright."""
    latex = f"\\mathtt{{{escape_name(name)}}}" if "." in name else name_latex(name)
    return Ready(format_entry_name(name, letters), label_latex(latex, letters))


def entry_label(name: str, at: Sequence[int], names: Names) -> Ready:
    """A numbered entry, ``x01`` where that can be read."""
    text = format_entry_name(names.name(name), at)
    if at and name in names.compact and all(0 <= i <= 9 for i in at):
        text = names.name(name) + "".join(map(str, at))
    return Ready(text, label_latex(name_latex(names.name(name)), at))


def partial_derivative(out: Math, by: Math) -> Ready:
    """∂out/∂x."""
    return Ready(f"∂{out.text}/∂{by.text}", f"\\frac{{\\partial {out.latex}}}{{\\partial {by.latex}}}")


def number_math(value: Any) -> Ready:
    """A number."""
    return Ready(UNICODE.number(value)[0], LATEX.number(value)[0])
