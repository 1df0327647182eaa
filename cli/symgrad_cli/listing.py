"""The output of ``symgrad ops``: the table, one of its operations in full, or its conventions at kinks."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from textwrap import fill

import symgrad
from symgrad.documents import HEADING, kink_cells, kinks_of, select_operations
from symgrad.errors import InputError
from symgrad.explanation.kinks import Kink, kink_of
from symgrad.ops import COMPOUNDS, Compound, Op, find, find_compound, operations
from symgrad.render import write_derivation as written
from symgrad_cli import output


def print_operations(name: str | None, kinks: bool, at: float | None) -> None:
    """Print the operation ``name``, or all; with ``kinks`` or ``at`` what happens where a derivative is a choice.

    Raises `UnknownNameError` for a name that nothing has.
    """
    compound = find_compound(name) if name and find(name) is None else None
    if compound is not None and not kinks and at is None:
        show_compound(compound)
        return
    op = select_operations([name])[0] if name else None
    if kinks or at is not None:
        if at is not None and op is None:
            raise InputError("--at needs the name of an operation", hints=("symgrad ops relu --at 0",))
        if at is not None and not isfinite(at):
            raise InputError("--at takes a finite number")
        table([kink_of(op, at)] if op is not None and at is not None else kinks_of([op] if op else list(operations())))
    elif op is None:
        width = max(len(op.name) for op in operations())
        for entry in operations():
            output.emit(output.fitting(f"{entry.name:{width}}  {entry.definition}"))
    else:
        show(op)


def table(found: Iterable[Kink]) -> None:
    """Kinks as lines; each has every entry at the point, and moves the first one."""
    rows = [HEADING, *(kink_cells(kink) for kink in found)]
    if len(rows) == 1:
        output.emit("no kinks: it is smooth")
        return
    widths = [max(len(r[n]) for r in rows) for n in range(len(HEADING))]
    for cells in rows:
        line = "  ".join(f"{cell:{w}}" for cell, w in zip(cells, widths, strict=True))
        output.emit(output.fitting(line.rstrip()))


def show_compound(compound: Compound) -> None:
    """A call that is several entries of the table, and how each of its results is asked for."""
    spelled = [spelling for spelling, entry in COMPOUNDS.items() if entry is compound]
    output.emit(f"{compound.usage}\n\n  {compound.says}\n\n  spelled {', '.join(spelled)}\n")
    parameters = compound.signature.parameters.values()
    operands = ", ".join(p.name for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY)
    for field in compound.fields:
        output.emit(f'  symgrad explain "{spelled[0]}({operands}).{field}"')


def set_in(text: str, first: str = "  ") -> str:
    """A paragraph as wide as the terminal, set in but for its ``first`` line."""
    width, rest = output.width(), f"{first}  "
    return fill(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )


def show(op: Op) -> None:
    """One operation in full."""
    output.emit(f"{set_in(f'{op.name}: {op.summary}', '')}\n\n{set_in(op.definition)}\n")
    if op.spellings:
        output.emit(f"{set_in('spelled ' + ', '.join(op.spellings))}\n")
    for example in op.examples:
        program, derived = symgrad.derive(example.text, shapes=dict(example.shapes))
        output.emit(f"{example.text}\n")
        output.emit(f"{written('text', program, derived, width=output.width())}\n")
