"""Words that every section uses: code, sizes, the notation of a structure, and sentences in the letters of a program.

Comes in: shapes, names, templates. Goes out: words. What the templates call v, out, L and J stands under the names that
these have: where an input is called v, the seed is g, and so everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from symgrad.closed_form.form import assign_form
from symgrad.explanation.given import only_read
from symgrad.program import Program
from symgrad.render.formula import formula_text
from symgrad.render.latex_alphabet import name_latex
from symgrad.render.letters import Letters, letters_of
from symgrad.render.page import Code, Math, Paragraph, Ready, Words
from symgrad.shapes import Size

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
DOTS = Ready("…", r"\cdots")
PLUS = Ready(" + ", " + ")


def as_code(target: str, form: str) -> Words:
    """A closed form as code; what it names first is said after it.

    >>> as_code("x.grad", "K = 1 / w; out @ (K * v)")
    (Code(code='x.grad = out @ (K * v)'), ', where ', Code(code='K = 1 / w'))
    """
    *definitions, last = assign_form(target, form)
    where = join_words([(Code(definition),) for definition in reversed(definitions)], " and ")
    return (Code(last), ", where ", *where) if definitions else (Code(last),)


def size_text(shape: Sequence[Any]) -> str:
    """``2×3``, ``m×(n − 1)``; a tensor without axes is one number."""
    if len(shape) == 1:
        return one_size_text(shape[0])
    return "×".join(bracketed_size(s) for s in shape) if shape else "1 number"


def shape_words(shape: Sequence[Any]) -> str:
    """``2×3``, ``3 entries``, ``one number``: a shape inside a sentence."""
    if not shape:
        return "one number"
    return f"{shape[0]} {'entry' if shape[0] == 1 else 'entries'}" if len(shape) == 1 else size_text(shape)


def bracketed_size(size: Any) -> str:
    """A size among others, in brackets if it is a sum."""
    text = one_size_text(size)
    return f"({text})" if re.search("[+−]", text) else text


def one_size_text(size: Any) -> str:
    """A size; a symbolic one as formulas are written."""
    return formula_text(size, ()) if isinstance(size, sp.Expr) else str(size)


def join_words(parts: Sequence[Words], between: str = ", ", last: str = " and ") -> Words:
    """a, b and c."""
    result: Words = ()
    for place, part in enumerate(parts):
        joint: Words = () if place == 0 else (last,) if place == len(parts) - 1 else (between,)
        result = (*result, *joint, *part)
    return result


def structure_math(notation: str, sizes: Mapping[Size, int]) -> Math:
    """``I(m) ⊗ aᵀ`` with the size in its place: I₂ ⊗ aᵀ."""
    numbers = {str(size): value for size, value in sizes.items()}
    text = re.sub(r"\bI\(([^()]*)\)", lambda m: f"I{_subscript(_product(m[1], numbers))}", notation)
    return Ready(text, _notation_latex(re.sub(r"\bI\(([^()]*)\)", lambda m: f"I({_product(m[1], numbers)})", notation)))


def _product(text: str, numbers: Mapping[str, int]) -> str:
    """A product of sizes as a number, if all are known."""
    result = 1
    for factor in text.split("*"):
        if factor.isdecimal():
            result *= int(factor)
        elif factor in numbers:
            result *= numbers[factor]
        else:
            return text.replace("*", "·")
    return str(result)


def _subscript(size: str) -> str:
    """₂ for numbers, _m for symbols."""
    return size.translate(SUBSCRIPTS) if size.isdecimal() else f"_{size}" if len(size) == 1 else f"_({size})"


def _notation_latex(notation: str) -> str:
    r"""I_{2} \otimes a^{\top}; a block in torch's syntax in typewriter."""
    parts = []
    for part in notation.split(" ⊗ "):
        identity = re.fullmatch(r"I\((.*)\)", part)
        multiple = re.fullmatch(r"(-|[^·]+·)I", part)
        if part == "I":
            parts.append("I")
        elif multiple:
            factor = re.sub(r"\((-?)(\d+)/(\d+)\)", r"\1\\tfrac{\2}{\3}", multiple[1].removesuffix("·"))
            parts.append(f"{factor} I")
        elif identity:
            parts.append(f"I_{{{identity[1].replace('·', ' ')}}}")
        elif part.isidentifier() or (part.endswith("ᵀ") and part[:-1].isidentifier()):
            parts.append(name_latex(part.rstrip("ᵀ")) + (r"^{\top}" if part.endswith("ᵀ") else ""))
        elif part.startswith("diag(") and part[5:-1].isidentifier():
            parts.append(f"\\operatorname{{diag}}({name_latex(part[5:-1])})")
        else:
            from symgrad.render.mathmode import typewriter

            parts.append(typewriter(part.replace("ᵀ", ".T")))
    return r" \otimes ".join(parts)


OURS = re.compile(r"(?<![\w.{])(?:v|out|L)(?![\w}])")
"""What is ours in the code of a template: the rest is the user's, or torch's."""
IN_WORDS = re.compile(r"(?<![A-Za-z0-9_.])(?:v|out|L|J)(?![A-Za-z0-9_])")
"""The same in what an oracle is called: ⟨v, J u⟩ = ⟨vᵀJ, u⟩."""
SUM = Ready("Σ", r"\sum")


@dataclass(frozen=True)
class Speaker:
    """Says templates in ``letters``.

    >>> Speaker()("`{name}.grad` is {count} times {J}", name="x", count=2)
    (Code(code='x.grad'), ' is 2 times ', Ready(text='J', latex='J'))
    >>> Speaker(Letters("g"))("`out.backward(v)` reads `{name}`", name="v")
    (Code(code='out.backward(g)'), ' reads ', Code(code='v'))
    """

    letters: Letters = field(default_factory=Letters)

    def __call__(self, template: str, **parts: Any) -> Words:
        """Words from a template: ``{name}`` is a part or one of the symbols, text between backticks is code.

        Parts may be text, numbers, mathematics, code or words; inside backticks they have to be text.
        """
        symbols = {"v": self.v, "J": self.J, "L": self.L, "vJ": self.product, "weighed": self.weighed, "sum": SUM}
        known: dict[str, Any] = {**symbols, **parts}
        result: list[str | Code | Math] = []
        for piece in re.split(r"(`[^`]*`|\{\w+\})", template):
            if piece.startswith("`"):
                result.append(Code(OURS.sub(self._called, piece[1:-1]).format(**parts)))
            elif piece.startswith("{"):
                value = known[piece[1:-1]]
                ready = isinstance(value, Code) or hasattr(value, "latex")
                result += value if isinstance(value, tuple) else [value if ready else str(value)]
            elif piece:
                result.append(piece)
        return _merged(result)

    def paragraph(self, template: str, *, aside: bool = False, alarm: bool = False, **parts: Any) -> Paragraph:
        """A paragraph from a template."""
        return Paragraph(self(template, **parts), aside, alarm)

    def oracle(self, name: str) -> str:
        """What a check is called.

        >>> Speaker(Letters("g", "y")).oracle("⟨v, J u⟩ = ⟨vᵀJ, u⟩ for out")
        '⟨g, J u⟩ = ⟨gᵀJ, u⟩ for y'
        """
        return IN_WORDS.sub(self._called, name)

    def _called(self, match: re.Match[str]) -> str:
        """What a letter of a template is called."""
        letters = self.letters
        ours = {"v": letters.seed, "out": letters.output, "L": letters.loss, "J": letters.jacobian}
        return ours[match.group()]

    @property
    def v(self) -> Ready:
        """The seed."""
        return _ready(self.letters.seed)

    @property
    def out(self) -> Ready:
        """The output."""
        return _ready(self.letters.output)

    @property
    def L(self) -> Ready:  # noqa: N802 - what the field calls it
        """The one number whose gradient is computed."""
        return _ready(self.letters.loss)

    @property
    def J(self) -> Ready:  # noqa: N802 - what the field calls it
        """The Jacobian."""
        return _ready(self.letters.jacobian)

    @property
    def product(self) -> Ready:
        """vᵀJ."""
        return Ready(f"{self.v.text}ᵀ{self.J.text}", f"{self.v.latex}^{{\\top}} {self.J.latex}")

    @property
    def weighed(self) -> Ready:
        """v∘out."""
        return Ready(f"{self.v.text}∘{self.out.text}", f"{self.v.latex} \\circ {self.out.latex}")


def program_notes(program: Program, shown: Collection[str]) -> Iterator[Paragraph]:
    """What has another name here than on other pages, where v is an input; what the text makes; what is only read.

    The inputs that are positions, classes or a mask are told where their gradients are not ``shown``; constants are.
    """
    ours, usual, taken = letters_of(program), Letters(), program.names | program.spoken
    what = (
        (usual.seed, ours.seed, "the seed of backward"),
        (usual.output, ours.output, "the output"),
        (usual.loss, ours.loss, "the number whose gradient is computed"),
        (usual.jacobian, ours.jacobian, "the Jacobian"),
    )
    told = [f"{word} is called {name}, since {wish} is taken" for wish, name, word in what if wish in taken - {name}]
    if told:
        yield Paragraph((f"On this page {'; '.join(told)}.",))
    for name, own in program.made.items():
        drawn = "" if own.seed is None else f", drawn once with NumPy's generator, seed {own.seed}"
        yield Paragraph((Code(name), " is ", Code(own.code), f"{drawn}, a constant: it gets no gradient."))
    read = [name for name in only_read(program) if name not in shown and name not in program.made]
    if read:
        many = len(read) > 1
        said = f"{' are' if many else ' is'} read as positions, classes or a mask: "
        yield Paragraph(
            (*join_words([(Code(name),) for name in read]), said, f"{'they get' if many else 'it gets'} no gradient.")
        )


def speaker_of(program: Program) -> Speaker:
    """Who speaks on a page about ``program``."""
    return Speaker(letters_of(program))


def _ready(name: str) -> Ready:
    return Ready(name, name_latex(name))


def _merged(parts: list[str | Code | Math]) -> Words:
    """Neighbouring text in one piece."""
    result: list[str | Code | Math] = []
    for part in parts:
        if isinstance(part, str) and result and isinstance(result[-1], str):
            result[-1] += part
        else:
            result.append(part)
    return tuple(result)
