"""A drawing in SVG: rectangles, text and a raster, in colours that serve in the dark and to the colour-blind too.

Comes in: calls with places in pixels. Goes out: one self-contained ``<svg>`` whose text stays text, with a title and a
description for those who hear it. The elements are made by ``xml.etree``, so that what a user called his tensors cannot
break out of them.
"""

from __future__ import annotations

import base64
import struct
import zlib
from textwrap import wrap
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from symgrad.render.wrapping import truncate_end

STYLE = """
.vj .ink{fill:#1b1b1f}.vj .soft{fill:#5f5f6a}.vj .cell{fill:none;stroke:#c9c9d2;stroke-width:1}
.vj .tint{fill-opacity:.34}
.vj .frame{fill:none;stroke:#1b1b1f;stroke-width:2.5}.vj .line{stroke:#5f5f6a;stroke-width:1.5}.vj .bg{fill:#fff}
.vj text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.vj .back{fill:#a02c3c;paint-order:stroke;stroke:#fff;stroke-width:3px}.vj .box{fill:#f4f4f8;stroke:#8b8b98}
.vj .way{fill:none;stroke:#8b8b98;stroke-width:1.2}.vj .flow{fill:none;stroke:#ee6677}.vj .head{fill:#ee6677}
.vj .code{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
@media (prefers-color-scheme:dark){
.vj .ink{fill:#ececf1}.vj .soft{fill:#a3a3af}.vj .cell{stroke:#44444f}.vj .frame{stroke:#ececf1}
.vj .line{stroke:#a3a3af}.vj .bg{fill:#16161a}.vj .back{fill:#ff9aa8;stroke:#16161a}
.vj .box{fill:#24242b;stroke:#6d6d7a}}
"""
"""Of this picture alone: put into a page as it is, it leaves the classes of the page as they are."""
PALETTE = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#e69f00", "#009e73", "#cc79a7", "#56b4e9",
    "#d55e00", "#999933",
)  # fmt: skip
"""Paul Tol's bright colours and Okabe and Ito's, which differ also for the colour-blind; a text says the same."""
WIDE = 0.62
"""The width of a character, of its size."""
LEAST = 7.0
"""The smallest letters; what does not fit in them is cut, and whole where one points at it."""
LEFT, TOP, EDGE = 24, 30, 20
"""The margins; what a page leaves out at the left of a picture, which there stands below words."""
ACROSS = 1100
"""Characters of a line of words, times their size."""


class Drawing:
    """One picture in the making; ``height`` grows with what is drawn."""

    def __init__(self) -> None:
        self.body: list[ElementTree.Element] = []
        self.caption: list[ElementTree.Element] = []
        self.width = self.height = self.head = self.head_width = 0.0

    def add(self, tag: str, **attributes: str | float) -> ElementTree.Element:
        """One element; numbers with six digits."""
        texts = ((name, value if isinstance(value, str) else f"{value:g}") for name, value in attributes.items())
        named = {name.rstrip("_").replace("_", "-"): text for name, text in texts}
        element = ElementTree.Element(tag, named)
        self.body.append(element)
        return element

    def reach(self, x: float, y: float) -> None:
        """The picture goes at least so far."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def text(
        self, x: float, y: float, text: str, *, size: float = 13, anchor: str = "start", kind: str = "ink",
        bold: bool = False, room: float | None = None, whole: str = "",
    ) -> None:  # fmt: skip
        """``text`` with its baseline at y; smaller where it has only so much ``room``, cut where it would be tiny."""
        whole = whole or text  # what it stands for, told where one points
        if room is not None and text:
            size = min(size, max(LEAST, room / (WIDE * len(text))))
            text = truncate_end(text, int(room / (WIDE * size) + 1e-9))
        weight = {"font_weight": 600.0} if bold else {}
        element = self.add("text", x=x, y=y, font_size=f"{size:.3g}", text_anchor=anchor, class_=kind, **weight)
        element.text = text
        if text != whole:
            ElementTree.SubElement(element, "title").text = whole
        start = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        self.reach(x + (1 - start) * WIDE * size * len(text), y + size / 3)

    def lines(self, x: float, y: float, text: str, *, size: float = 13, kind: str = "ink", bold: bool = False) -> float:
        """``text`` on as many lines as it takes; the baseline of the last one."""
        for n, line in enumerate(wrap(text, int(ACROSS / size), break_on_hyphens=False)):
            y += 1.35 * size if n else 0
            self.text(x, y, line, size=size, kind=kind, bold=bold)
        return y

    def headed(self, title: str, below: str = "") -> float:
        """What stands above the picture, ``title`` and a line ``below`` it; the last baseline.

        A page says it in its own letters, which go on in the next line, and leaves it out of the picture.
        """
        begun = len(self.body)
        y = self.lines(LEFT, TOP, title, size=17, bold=True)
        y = self.lines(LEFT, y + 22, below, kind="soft") if below else y
        self.caption, self.body[begun:] = self.body[begun:], []
        self.head, self.head_width, self.width = y + 10, self.width, 0.0
        return y

    def cell(self, x: float, y: float, side: float, high: float, colour: str | None = None) -> None:
        """One cell of a table, tinted or not: ink can be read on every tint, in the light and in the dark."""
        self.add("rect", x=x, y=y, width=side, height=high, class_="cell")
        if colour is not None:
            self.add("rect", x=x + 1, y=y + 1, width=side - 2, height=high - 2, fill=colour, class_="tint")
        self.reach(x + side, y + high)

    def frame(self, x: float, y: float, wide: float, high: float) -> None:
        """A frame around what is lit."""
        self.add("rect", x=x, y=y, width=wide, height=high, class_="frame", rx=3)

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """A straight line."""
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="line")

    def image(self, x: float, y: float, wide: float, high: float, alpha: npt.NDArray[np.uint8], colour: str) -> None:
        """A raster in one colour; ``alpha`` says how much of it stands where."""
        data = base64.b64encode(png(alpha, colour)).decode()
        self.add(
            "image", x=x, y=y, width=wide, height=high, preserveAspectRatio="none",
            style="image-rendering:pixelated", href=f"data:image/png;base64,{data}",
        )  # fmt: skip
        self.reach(x + wide, y + high)

    def finished(self, title: str, description: str) -> str:
        """The picture as text."""
        inner, outer = (int(np.ceil(w + 24)) for w in (self.width, max(self.width, self.head_width)))
        width, height = outer, int(np.ceil(self.height + 24))
        root = ElementTree.Element(
            "svg",
            {"xmlns": "http://www.w3.org/2000/svg", "class": "vj", "viewBox": f"0 0 {width} {height}",
             "width": str(width), "height": str(height), "role": "img", "aria-labelledby": "title description"},
        )  # fmt: skip
        ElementTree.SubElement(root, "title", id="title").text = title
        ElementTree.SubElement(root, "desc", id="description").text = description
        ElementTree.SubElement(root, "style").text = STYLE
        ElementTree.SubElement(root, "rect", {"class": "bg", "width": str(width), "height": str(height)})
        if self.caption:
            alone = f"{EDGE} {self.head:g} {inner - EDGE} {height - self.head:g}"
            ElementTree.SubElement(root, "g", {"class": "caption", "data-alone": alone}).extend(self.caption)
        root.extend(self.body)
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode") + "\n"


def truncate_start(text: str, most: int) -> str:
    """At most so many characters, the beginning left out: weight and bias of a layer begin alike.

    >>> truncate_start("self_attn.in_proj_weight", 15), truncate_start("weight", 15)
    ('…in_proj_weight', 'weight')
    """
    return text if len(text) <= most else f"…{text[len(text) - most + 1 :]}"


def png(alpha: npt.NDArray[np.uint8], colour: str) -> bytes:
    """A PNG of one colour, more or less of it (RFC 2083: RGBA, no filter, one compressed block)."""
    high, wide = alpha.shape
    pixels = np.empty((high, wide, 4), dtype=np.uint8)
    pixels[..., :3] = [int(colour[n : n + 2], 16) for n in (1, 3, 5)]
    pixels[..., 3] = alpha
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", wide, high, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
