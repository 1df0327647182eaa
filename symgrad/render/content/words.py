"""Small pieces that every section uses: code, sizes in words, the notation of a structure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import sympy as sp

from symgrad.closed_form import assigned
from symgrad.render.formula_latex import name_latex
from symgrad.render.formula_text import SUBSCRIPTS, formula_text
from symgrad.render.page import Code, Math, Ready, Words
from symgrad.shapes import Shape, Size

DOTS = Ready("…", r"\cdots")
PLUS = Ready(" + ", " + ")
EQUALS = Ready(" = ", " = ")


def as_code(target: str, form: str) -> Words:
    """A closed form as code; what it names first is said after it.

    >>> as_code("x.grad", "K = 1 / w; out @ (K * v)")
    (Code(code='x.grad = out @ (K * v)'), ', where ', Code(code='K = 1 / w'))
    """
    *definitions, last = assigned(target, form)
    words: list[str | Code | Math] = [Code(last)]
    for place, definition in enumerate(reversed(definitions)):
        words += [" and " if place else ", where ", Code(definition)]
    return tuple(words)


def size_text(shape: Sequence[Any]) -> str:
    """``2×3``, ``m×(n − 1)``; a tensor without axes is one number."""
    if len(shape) == 1:
        return _written(shape[0])
    return "×".join(_size(s) for s in shape) if shape else "1 number"


def shape_words(shape: Sequence[Any]) -> str:
    """``2×3``, ``3 entries``, ``one number``: a shape inside a sentence."""
    if not shape:
        return "one number"
    return f"{shape[0]} {'entry' if shape[0] == 1 else 'entries'}" if len(shape) == 1 else size_text(shape)


def _size(size: Any) -> str:
    """A size among others, in brackets if it is a sum."""
    text = _written(size)
    return f"({text})" if re.search("[+−]", text) else text


def _written(size: Any) -> str:
    """A size; a symbolic one as formulas are written."""
    return formula_text(size, ()) if isinstance(size, sp.Expr) else str(size)


def in_numbers(shape: Shape, sizes: Mapping[Size, int]) -> tuple[Any, ...]:
    """A shape with the sizes that are known as numbers."""
    return tuple(size.xreplace(dict(sizes)) for size in shape)


def grad(name: str) -> Code:
    """``x.grad``."""
    return Code(f"{name}.grad")


def listed(parts: Sequence[Words]) -> Words:
    """a, b and c."""
    result: Words = ()
    for place, part in enumerate(parts):
        joint: Words = () if place == 0 else (" and ",) if place == len(parts) - 1 else (", ",)
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
            parts.append(f"{_factor_latex(multiple[1].removesuffix('·'))} I")
        elif identity:
            parts.append(f"I_{{{identity[1].replace('·', ' ')}}}")
        elif part.isidentifier() or (part.endswith("ᵀ") and part[:-1].isidentifier()):
            parts.append(name_latex(part.rstrip("ᵀ")) + (r"^{\top}" if part.endswith("ᵀ") else ""))
        elif part.startswith("diag(") and part[5:-1].isidentifier():
            parts.append(f"\\operatorname{{diag}}({name_latex(part[5:-1])})")
        else:
            parts.append(typewriter(part))
    return r" \otimes ".join(parts)


def _factor_latex(text: str) -> str:
    r"""2, -, \tfrac{1}{3}."""
    return re.sub(r"\((-?)(\d+)/(\d+)\)", r"\1\\tfrac{\2}{\3}", text)


def typewriter(code: str) -> str:
    r"""Code inside a formula."""
    escaped = code.replace("\\", "").replace("ᵀ", ".T")
    for character in "_{}#%&$":
        escaped = escaped.replace(character, f"\\{character}")
    return f"\\texttt{{{escaped}}}"


def counted(count: int, what: str) -> str:
    """``1 input``, ``1,000 inputs``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
