"""LaTeX as MathML, which browsers set and screen readers read.

Comes in: LaTeX as `symgrad.render` writes it. Goes out: a ``<math>`` element as text. latex2mathml takes words apart
into letters, which are put together again here, so that a name is one thing to light.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count
from xml.etree import ElementTree

from symgrad.errors import InputError
from symgrad.render.mathmode import MARK, without_code
from symgrad.ways import Setting

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


def missing(package: str) -> InputError:
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
        raise missing("latex2mathml") from None
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
