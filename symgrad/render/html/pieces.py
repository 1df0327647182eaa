"""Pieces of a page as HTML: words, formulas as MathML with their code beside them, code whose names can be lit.

Comes in: blocks of `symgrad.render.page`, and LaTeX as `symgrad.render` writes it. Goes out: HTML, and ``<math>``
elements, which browsers set and screen readers read. Whatever a user wrote is escaped, by Jinja2. latex2mathml takes
words apart into letters, which are put together again here, so that a name is one thing to light.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from symgrad.numeric import without_fractions
from symgrad.render import mathmode, numbers
from symgrad.render.page import Code, EquationRow, Grid, Math

if TYPE_CHECKING:
    from jinja2 import Environment
from functools import lru_cache
from itertools import count

from symgrad.errors import InputError, Setting
from symgrad.render.mathmode import MARK, without_code

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
SPACE = f"{{{NAMESPACE}}}"
STAND_INS = {r"\&": "\ue000", "<": "\ue001", ">": "\ue002"}
"""latex2mathml writes text as it is: what is markup there goes by letters of nobody, and comes back in the tree."""
WORD, STAND = re.compile(r"\\math(rm|tt)\{((?:[A-Za-z0-9.]|\\_)+)\}"), "Word"
"""A name in upright letters, one thing to browsers and to whoever lights it; what stands for it on the way."""
PLAIN = (
    (r"\begin{aligned}", r"\begin{array}{rl}"), (r"\end{aligned}", r"\end{array}"), (r"\cr", r"\\"),
    (r"\thinspace", r"\,"), (r"\thickspace", r"\;"),
)  # fmt: skip
"""What browsers leave out of MathML, in what they have."""
BACK = {ord(stand_in): sign[-1] for sign, stand_in in STAND_INS.items()}


def missing_package(package: str) -> InputError:
    """What is said where the packages of pages are not installed."""
    return InputError(
        "pages need packages that a plain installation leaves out", found=(f"{package} is not installed",),
        hints=('pip install "symgrad[pages]"', Setting("format", value="markdown", sentence="{} needs nothing more")),
    )  # fmt: skip


@lru_cache(maxsize=8192)
def mathml(latex: str, display: str = "inline", annotated: bool = False) -> str:
    r"""``latex`` as one ``<math>`` element; ``annotated``, its LaTeX goes with it, to be copied.

    Raises `InputError` where latex2mathml is not installed.

    >>> mathml(r"\mathtt{x.grad}").removeprefix('<math xmlns="http://www.w3.org/1998/Math/MathML" ')
    'display="inline"><mrow><mi class="tt">x.grad</mi></mrow></math>'
    """
    try:
        from latex2mathml.converter import convert
    except ImportError:
        raise missing_package("latex2mathml") from None
    ElementTree.register_namespace("", NAMESPACE)
    written = latex.strip()
    latex, codes = without_code(written)
    for before, after in PLAIN:
        latex = latex.replace(before, after)
    words = [(kind, word.replace("\\_", "_")) for kind, word in WORD.findall(latex)]
    numbers = count()
    latex = WORD.sub(lambda match: f"\\text{{{STAND}{next(numbers)}.}}", latex)
    for sign, stand_in in STAND_INS.items():
        latex = latex.replace(sign, stand_in)
    root = ElementTree.fromstring(convert(latex, display=display))
    marked = {f"{MARK}{place}.": code for place, code in enumerate(codes)}
    named = {f"{STAND}{place}.": word for place, word in enumerate(words)}
    for element in list(root.iter()):
        join(element)
        if element.tag == f"{SPACE}mtext" and element.text in named:
            kind, word = named[element.text]
            element.tag, element.text = f"{SPACE}mi", word
            element.attrib |= {"class": "tt"} if kind == "tt" else {"mathvariant": "normal"} if len(word) == 1 else {}
        if element.tag == f"{SPACE}mtext" and element.text in marked:
            element.text = marked[element.text]
            element.set("class", "tt")
        if element.text in STAND_INS.values():
            element.tag = f"{SPACE}mo"
        element.text = element.text and element.text.translate(BACK)
    if annotated:
        annotate(root, written)
    return ElementTree.tostring(root, encoding="unicode")


def annotate(root: ElementTree.Element, latex: str) -> None:
    """What the formula was written as, inside it."""
    semantics = ElementTree.Element(f"{SPACE}semantics")
    row = ElementTree.SubElement(semantics, f"{SPACE}mrow")
    row.extend(list(root))
    source = ElementTree.SubElement(semantics, f"{SPACE}annotation", {"encoding": "application/x-tex"})
    source.text = latex
    root[:] = [semantics]


def join(element: ElementTree.Element) -> None:
    """Letters of one word beside each other become one element."""
    kept: list[ElementTree.Element] = []
    for child in list(element):
        style = child.get("mathvariant")
        if style and kept and kept[-1].get("mathvariant") == style and kept[-1].tag == f"{SPACE}mi":
            kept[-1].text = (kept[-1].text or "") + (child.text or "")
        else:
            kept.append(child)
            if style:
                child.tag = f"{SPACE}mi"
    if len(kept) < len(element):
        element[:] = kept
    for child in kept:
        style = child.attrib.pop("mathvariant", None) if len(child.text or "") > 1 else None
        if style == "monospace":
            child.set("class", "tt")


TEMPLATES = Path(__file__).parent / "templates"
TOKEN = re.compile(
    r"(?P<power>\d[\d.]*e-\d+)|(?P<word>(?<!\w)[^\W\d]\w*(?:\.grad\b)?)|(?P<after>[(\[](?![)\]]))|(?P<before>\.(?=[^\W\d]))"
)
"""A small number, which a browser would break after its sign; a name; where long code goes on in the next line."""
LONG = re.compile(r"\S{18,}")
"""Code without spaces that takes more of a line on a phone than can be left empty."""
KEYWORDS = frozenset({"with", "and", "more", "lines", "in", "section", "True", "False", "None", "keepdim", "dim"})
WIDE = 76
"""Characters beyond which each part of an equation gets a line of its own."""
MOST_COPIED = 2_000
"""Entries of an array that can be copied as code."""


def need_packages() -> None:
    """Raise `InputError` where a package of pages is missing, before any work."""
    for module, package in (("jinja2", "Jinja2"), ("latex2mathml", "latex2mathml")):
        if find_spec(module) is None:
            raise missing_package(package)


@cache
def environment() -> Environment:
    """The templates; raises `InputError` where Jinja2 is not installed."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise missing_package("Jinja2") from None
    found = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    found.filters |= {
        "mathml": lambda latex: Markup(mathml(latex)),  # latex2mathml escapes what stands in it
        "symbols": symbols,
        "kind": lambda part: type(part).__name__,
        "number": numbers.text,
    }
    found.globals |= {
        "rows_of": equation_data,
        "grid_of": grid_data,
        "cell_latex": mathmode.cell_latex,
        "file": lambda name: Markup((TEMPLATES / name).read_text(encoding="utf-8")),
    }
    found.tests |= {"code": lambda part: isinstance(part, Code), "text": lambda part: isinstance(part, str)}
    return found


def symbols(code: str) -> Any:
    """Code, each name in it in an element of its own."""
    from markupsafe import Markup, escape

    found, last = Markup(), 0
    long = {place for match in LONG.finditer(code) for place in range(*match.span())}
    for match in TOKEN.finditer(code):
        found += escape(code[last : match.start()])
        word, kind, last = match[0], match.lastgroup, match.end()
        if kind == "power":
            found += Markup('<span class="whole">{}</span>').format(word)
        elif kind != "word":
            gap = Markup("<wbr>") if match.start() in long else ""
            found += gap + word if kind == "before" else word + gap
        elif word in KEYWORDS or code[last:].startswith("(") or code[: match.start()].endswith("."):
            found += escape(word)
        else:
            found += Markup('<span data-s="{0}">{1}</span>').format(word.removesuffix(".grad"), word)
    return found + escape(code[last:])


def equation_data(row: EquationRow) -> dict[str, Any]:
    """One equation: its lines, each a list of formulas, and itself as LaTeX and as code."""
    head, *rest = row.parts
    joined = row.text
    if len(joined) <= WIDE or len(rest) < 2:
        lines: list[list[Math]] = [list(row.parts)]
    else:
        lines = [[head, rest[0]], *([part] for part in rest[1:])]
    return {"lines": lines, "latex": mathmode.aligned_environment(mathmode.equation_lines(row)), "code": joined}


def grid_data(grid: Grid) -> dict[str, Any]:
    """An array of numbers: its formulas, and itself as code."""
    values = without_fractions(grid.values)
    code = ""
    if values.size <= MOST_COPIED:
        code = f"{grid.name.text} = {numbers.data(values)}".replace("'", "")
    return {"formulas": mathmode.grid_formulas(grid), "code": code}


def inline_picture(svg: str, key: str) -> Any:
    """A picture inside the page: its style is the page's, and what it is called is its own.

    What stands above it is said by the page, so that it goes on in the next line where the screen is narrow.
    """
    from markupsafe import Markup

    namespace = "http://www.w3.org/2000/svg"
    ElementTree.register_namespace("", namespace)
    root = ElementTree.fromstring(svg)
    for style in root.findall(f"{{{namespace}}}style"):
        root.remove(style)
    for element in root.iter():
        if "id" in element.attrib:
            element.set("id", f"{key}-{element.get('id')}")
    root.set("aria-labelledby", " ".join(f"{key}-{name}" for name in root.get("aria-labelledby", "").split()))
    said = Markup()
    caption = root.find(f"{{{namespace}}}g[@class='caption']")
    if caption is not None:
        root.remove(caption)
        box = caption.get("data-alone", "")
        width, height = box.split()[2:]
        for name, value in {"viewBox": box, "width": width, "height": height, "style": f"--own:{width}px"}.items():
            root.set(name, value)
        for bold, kind in ((True, "headline"), (False, "below")):
            line = " ".join(part.text or "" for part in caption if ("font-weight" in part.attrib) == bold)
            said += Markup('<p class="{}">{}</p>').format(kind, line) if line else ""
    return said + Markup(ElementTree.tostring(root, encoding="unicode"))
