"""Which examples of the table have a closed form, by which operand: losing one is red, and so is one written wrongly.

``tests/golden/closed_forms.txt`` has a line for each operand of each example, ``+`` where the gradient by it has a
closed form and ``-`` where the index formula is shown. It is written anew, after a look at the difference, by

    SYMGRAD_UPDATE_GOLDENS=1 python -m pytest -n 0 tests/test_forms_of_the_table.py -k kept

A form is withheld where its text, read back, is not the gradient: `symgrad.oracles.dropped_forms` notes each. Here
they are counted; what the writers get wrong today stands in ``WRITTEN_WRONGLY``, and the list may only shrink.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cases import DERIVED, Case, cases, first_by_default

KEPT = Path(__file__).parent / "golden" / "closed_forms.txt"
COMMAND = "SYMGRAD_UPDATE_GOLDENS=1 python -m pytest -n 0 tests/test_forms_of_the_table.py -k kept"

WRITTEN_WRONGLY: dict[str, tuple[str, str]] = {}
"""Operand by operand, where the text fails and how."""


def key(case: Case, name: str) -> str:
    """What an operand of an example is called in the file."""
    return f"{case.name}, by {name}"


def lines_of(case: Case) -> list[str]:
    """The lines of one example."""
    return [f"{'-' if d.form is None else '+'} {key(case, d.name)}" for d in case.derived]


def kept() -> list[str]:
    """The file's lines."""
    return KEPT.read_text(encoding="utf-8").splitlines()


def test_every_operand_of_the_table_is_kept() -> None:
    if os.environ.get("SYMGRAD_UPDATE_GOLDENS"):
        KEPT.write_text("".join(f"{line}\n" for case in cases() for line in lines_of(case)), encoding="utf-8")
    names = [line[2:] for line in kept()]
    assert len(names) == len(set(names))
    assert set(names) == {key(case, name) for case in cases() for name in case.names}, COMMAND


@pytest.mark.parametrize("case", first_by_default(DERIVED))
def test_no_closed_form_is_lost_and_none_comes_unseen(case: Case) -> None:
    there = set(kept())
    changed = [line for line in lines_of(case) if line not in there]
    assert not changed, f"{changed}: after a look at it, {COMMAND}"


@pytest.mark.parametrize("case", first_by_default(DERIVED))
def test_every_form_that_is_written_is_right(case: Case) -> None:
    """One that is mended leaves the list."""
    _ = case.derived
    found = {key(case, d.wanted): d.where for d in case.dropped}
    listed = {key(case, name) for name in case.names} & WRITTEN_WRONGLY.keys()
    assert found == {name: WRITTEN_WRONGLY[name][0] for name in listed}, [d.text for d in case.dropped]


def test_the_list_names_operands_of_the_table() -> None:
    assert WRITTEN_WRONGLY.keys() <= {key(case, name) for case in cases() for name in case.names}
