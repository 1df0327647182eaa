"""Explanations for a browser: the answer, numbers to try, the backward beside the forward, and the folded story.

Comes in: an explanation, or formulas alone. Goes out: one HTML file that needs nothing else. The product v × J = vᵀJ is
a table that can be pointed at and edited: cells with their symbol and colour, labels, and the picture in its place
where J is large.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.backward import Line
from symgrad.explanation import Explanation, Gradient
from symgrad.explanation.evidence import shape_text
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array, as_float, reads_positions
from symgrad.program import Program, Stated
from symgrad.render import numbers
from symgrad.render.content import explanation_page
from symgrad.render.content.jacobian_matrix import block_sizes, symbols_of
from symgrad.render.content.speaker import structure_math
from symgrad.render.content.teller import teller_of
from symgrad.render.html.formula_trees import MOST_ENTRIES, editable_inputs, page_data
from symgrad.render.html.pieces import environment, inline_picture, need_packages
from symgrad.render.jacobian_picture import (
    SIGNS,
    cells_of,
    colour_legend,
    copied_from,
    is_drawn_entrywise,
    lit_column,
    product_picture,
    short_labels,
)
from symgrad.render.page import CodeLine, Formula, Page, text_of
from symgrad.render.program_drawing import program_picture


def panel(explanation: Explanation, gradient: Gradient) -> dict[str, Any]:
    """The product by one input: J as rows of cells under its columns, or the ``picture`` where they are many.

    ``heads`` is what stands over the columns: without the name of the input where that is long. It is ``signed`` where
    colours tell positive from negative entries, with those. Where J stands ``in_numbers`` other inputs can make a zero
    of a number, and of a zero a number.
    """
    jacobian = gradient.jacobian
    if not is_drawn_entrywise(jacobian):
        picture = inline_picture(product_picture(explanation, gradient.name), f"product-{gradient.name}")
        return {"name": gradient.name, "lit": 0, "picture": picture}
    symbols, notation = symbols_of(jacobian), jacobian.structure.notation
    in_numbers = symbols is None or reads_positions(jacobian.formula)
    copies = () if in_numbers else copied_from(symbols)
    row_block, column_block = block_sizes(jacobian)
    return {
        "name": gradient.name, "lit": lit_column(jacobian), "picture": None, "columns": jacobian.column_labels,
        "notation": structure_math(notation, explanation.program.sizes).text if notation else "",
        "rows": [*zip(jacobian.row_labels, cells_of(jacobian), strict=True)], "heads": short_labels(jacobian),
        "row_block": row_block, "column_block": column_block, "in_numbers": in_numbers,
        "signed": None if copies else (SIGNS[1], SIGNS[-1]), "legend": colour_legend(copies),
    }  # fmt: skip


def sheet(name: str, array: Array) -> dict[str, Any]:
    """A tensor as a table of numbers for each of its matrices; entries by their place in row-major order.

    It is as ``wide`` as the characters of the longest number.
    """
    values, shape = np.asarray(array, dtype=object), tuple(np.shape(array))
    values = values.reshape(1, -1) if values.ndim < 2 else values
    places, flat = np.arange(values.size).reshape(values.shape), [*map(numbers.text, values.flat)]
    tables = []
    for at in np.ndindex(*values.shape[:-2]) if values.size else ():
        rows = tuple(
            tuple((n, format_entry_name(name, np.unravel_index(n, shape)), flat[n]) for n in row)
            for row in places[at].tolist()
        )
        tables.append((format_entry_name(name, at) if at else "", rows))
    return {"name": name, "shape": shape, "tables": tables, "wide": max(map(len, flat), default=0)}


def to_html(
    explanation: Explanation, *, entry: tuple[str, tuple[int, ...]] | None = None, brief: bool = False,
    asked: Mapping[str, Any] | None = None, hidden: str | None = None,
) -> str:  # fmt: skip
    """The explanation as one HTML file; raises `InputError` where the packages of ``symgrad[pages]`` are missing.

    With ``entry``, the story of that one entry; ``brief``, the answer alone. Both leave out what can be edited.
    ``asked`` is an exercise (`symgrad.exercises.points.exercise_data`); with ``hidden``, an input, the page opens on
    the question and the answers are hidden.
    """
    need_packages()
    page = explanation_page(explanation, entry, brief)
    if entry is not None or brief:
        return render_page(page, version=explanation.torch_version)
    question = (
        None if asked is None else dict(asked) | {"json": in_page(asked), "hidden": hidden is not None, "wrt": hidden}
    )
    return render_page(
        page, explanation=explanation, version=explanation.torch_version, **live(explanation), asked=question
    )  # fmt: skip


def in_page(data: Mapping[str, Any]) -> str:
    """Data for a script of the page; nothing in it ends the script."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def live(explanation: Explanation) -> dict[str, Any]:
    """What can be edited and pointed at."""
    data, lines = page_data(explanation), explanation.backward
    backward = [line for line in lines.statements if line.text is not None]
    return {
        "data": in_page(data),
        "panels": [panel(explanation, g) for g in explanation.gradients.values()],
        "inputs": [sheet(g.name, g.value) for g in editable_inputs(explanation) if g.value.size <= MOST_ENTRIES],
        "seed": sheet(explanation.program.seed, explanation.seed) if explanation.seed.size <= MOST_ENTRIES else None,
        "weights": as_float(explanation.seed).reshape(-1).tolist(),
        "results": [sheet(f"{g.name}.grad", g.shown) for g in explanation.gradients.values()
                    if g.value.size <= MOST_ENTRIES],
        "loss": sheet(explanation.downstream.program.output, explanation.downstream.output)
        if explanation.downstream is not None and data["loss"] else None,
        "out": sheet(explanation.program.output, explanation.shown)
        if explanation.output.size <= MOST_ENTRIES else None,
        "why": data["why"],
        "forward": [code_line(line, explanation.program, entry_equation(line, explanation)) for line in lines.forward],
        "backward": [code_line(line, explanation.program) for line in backward],
        "meaning": "The seed is 1 here and is not shown." if None in lines.seeds.values() else "",
        "program": inline_picture(program_picture(explanation), "program") if explanation.program.steps else None,
    }  # fmt: skip


def code_line(line: Line, program: Program, code: str = "") -> CodeLine:
    """A line of the forward or of the backward, its ``code`` another one than its own."""
    shape = None if line.shape is None else shape_text(program.numbers(line.shape), "a number")
    return CodeLine(code or line.shown, shape, line.of or line.name, line.name, " ".join(sorted(line.names)))


def entry_equation(line: Line, explanation: Explanation) -> str:
    """The equation of a forward line: where it was given as one, and where no code of torch says it in one line."""
    stated = any(s.result.name == line.name and isinstance(s.op, Stated) for s in explanation.program.steps)
    if line.text is not None and not stated:
        return ""
    teller = teller_of(explanation.program)
    for step, equation in teller.steps:
        if step.result.name == line.name:
            names = teller.names.entry(equation.axes, line.name)
            left = teller.left(line.name, equation.axes, names)
            return f"{left.text} = {Formula(equation.right, names).text}"
    return ""


def render_page(page: Page, explanation: Explanation | None = None, version: str | None = None, **more: Any) -> str:
    """The template with a page in it."""
    title = text_of(page.title)
    absent: dict[str, Any] = {"data": None, "panels": [], "inputs": [], "seed": None, "weights": [], "results": [],
                              "out": None, "loss": None, "why": "", "forward": [], "backward": [], "program": None,
                              "meaning": "", "asked": None}  # fmt: skip
    passed = None if explanation is None or not explanation.checked else explanation.passed
    refused = explanation is not None and bool(explanation.refused)
    text: str = environment().get_template("page.html.jinja").render(
        absent | more | {"page": page, "title": title, "passed": passed, "refused": refused, "torch": version,
                         "letter": "v" if explanation is None else explanation.program.seed}
    )  # fmt: skip
    return text
