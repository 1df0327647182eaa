"""No rule of shapes, and no number of axes, says what follows from the text of an entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from operator import eq
from typing import Any

import pytest

from symgrad.errors import SourceText
from symgrad.language import read_program
from symgrad.language.input_names import candidate_ranks, find_names
from symgrad.language.parser import parse_script
from symgrad.ops import TABLE, Op
from tests.rows import LOOPS, ROWS, instead, rows, without


def near(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Shapes near those of an example: an axis longer, of one entry or of none, one more in front, one less."""
    yield dict(shapes)
    for name, shape in shapes.items():
        others = [(3, *shape), shape[1:], shape[:-1]]
        others += [(*shape[:a], n, *shape[a + 1 :]) for a in range(len(shape)) for n in (0, 1, shape[a] + 1)]
        yield from ({**shapes, name: other} for other in others)


def answers(text: str, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """What an example comes to at shapes near its own, and at sizes that nobody knows; beside others' wishes for axes."""
    script = parse_script(SourceText(text))
    yield str(candidate_ranks(script, find_names(script)))
    for given in (*near(shapes), None):
        try:
            program = read_program(text, shapes=given).program
            yield f"{[step.result.shape for step in program.steps]} {program.required}"
        except Exception as error:  # of an entry that lacks something, whatever it does then
            yield str(error)


@cache
def kept(name: str) -> list[list[str]]:
    """What the examples of an operation come to."""
    return [list(answers(example.text, dict(example.shapes))) for example in TABLE[name].examples]


def as_before(name: str, less: Op) -> bool:
    """Whether the examples come to the same with another entry; the first that does not is enough."""
    texts, before = [(example.text, dict(example.shapes)) for example in TABLE[name].examples], kept(name)
    with instead(less):
        pairs = ((answers(*each), old) for each, old in zip(texts, before, strict=True))
        return all(all(map(eq, told, old)) for told, old in pairs)


def called(rule: Any) -> str:
    """What a rule is called, of which some arguments may be given already."""
    return rule if isinstance(rule, str) else str(getattr(rule, "func", rule).__qualname__)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["shape", "align", "fits"])
def test_no_rule_of_shapes_says_what_follows(field: str) -> None:
    """Words of its own count as a difference, they may say more; what rows share has to be needed by one of them."""
    found, needed = [], set()
    for name in ROWS:
        less = without(rows()[name], field) if field in rows()[name] else None
        if less is None:
            if field in rows()[name]:
                needed.add(called(rows()[name][field]))
            continue
        follows_too = as_before(name, less)
        rule = called(rows()[name][field])
        if follows_too:
            found.append((name, rule))
        else:
            needed.add(rule)
    alone = [name for name, rule in found if rule not in needed or rule == "<lambda>"]
    assert [name for name in alone if name not in READ_IN_PART] == []


READ_IN_PART = {"reshape": "fewer places than entries are an equation, and no reshape"}
"""Rules that refuse what no example comes near to."""


@pytest.mark.slow
@pytest.mark.parametrize("field", ["ranks", "least"])
def test_no_number_of_axes_says_what_follows(field: str) -> None:
    """As for the rules of shapes; several rows of a loop share what one of them needs."""
    found = []
    for name in (name for name in ROWS if field in rows()[name] and field not in LOOPS.get(name, ())):
        less = without(rows()[name], field)
        if less is not None and as_before(name, less):
            found.append(name)
    assert found == []
