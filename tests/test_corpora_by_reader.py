"""Every text that is held anywhere here is read as torch runs it: value and gradients.

What a text is worth is asked of the reader that shares nothing with symgrad's language.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import symgrad
from symgrad import SymgradError, UnsupportedError
from symgrad.language import find_inputs
from symgrad.numeric import as_float, numeric_pullback
from symgrad.oracles.comparisons import TextOutcome
from symgrad.oracles.typed_text import ask_torch, check_reading
from symgrad.question import ask, torch_expression
from tests.nights import numbers

TESTS = Path(__file__).parent
PARTS = 40
MISTAKEN = ("test_reference_reader.py", "test_text_is_asked.py", "test_mutated_readers.py", "random_texts.py")
REFUSED = ("at_out = max_pool1d(z, kernel_size=(2,), return_indices=True)[1]",)
"""Where a text is read otherwise: ``[1]`` is taken for an entry of the values, and not for the positions."""
STRIDED = "F.batch_norm(y, unbind(x, 1)[0].detach(), (a ** 2).detach(), a, a)"
"""Torch reads a running mean that is every fourth number as four numbers that follow each other."""
EXPRESSION = re.compile(r"(?!.*(?:10\*\*|\d{5}))(?=.*[(@*/+\[])(?=.*[A-Za-z])[\w\s.,()\[\]@*/+=<>:;'&|~%-]{3,160}")
"""What may be a text that symgrad reads, of small tensors."""


@cache
def held() -> tuple[str, ...]:
    """The strings in the tests, the README and the docs that may be texts."""
    pages = [*sorted(TESTS.parent.glob("docs/**/*.md")), TESTS.parent / "README.md"]
    told = [
        *strings(),
        *(text for page in pages for text in re.findall(r'"([^"\n]+)"', page.read_text(encoding="utf-8"))),
    ]
    return tuple(text for text in dict.fromkeys(told) if EXPRESSION.fullmatch(text) and text != STRIDED)


def strings() -> Iterator[str]:
    """The strings of all tests but those that hold what a reader and a language may mistake."""
    for path in sorted({*TESTS.glob("*.py"), *TESTS.glob("contract/*.py")} - {TESTS / name for name in MISTAKEN}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def parses(text: str) -> bool:
    try:
        return bool(find_inputs(text))
    except SymgradError:
        return False


@pytest.mark.parametrize("part", [0, *numbers(range(1, 6), range(6, PARTS))])
def test_every_text_that_a_test_holds_is_what_torch_runs(part: int) -> None:
    texts = [text for text in held()[part::PARTS] if parses(text)]
    assert len(texts) > 60
    ran = [text for text in texts if agrees(text)]
    assert len(ran) > len(texts) / 3
    assert [text for text in texts if text in REFUSED and agrees(text)] == []


def agrees(text: str) -> bool:
    """Whether torch ran a text, and found what was read from it; raises where it found another value."""
    try:
        question = ask(text, {}, None)
        program, inputs = question.program, {g.name: g.value for g in question.inputs}
        if sum(np.size(value) for value in inputs.values()) > 2000:
            return False
        values = question.values
        seed = np.ones(np.shape(values[program.output]))
        names = [t.name for t in program.inputs if t.name not in program.made]
        found = ask_torch(torch_expression(text, question.reading, question.given), program, inputs, seed, names)
    except (
        SymgradError,
        AssertionError,
        ValueError,
        TypeError,
        MemoryError,
    ):  # one that is only read for sizes has no such values
        return False
    assert found is not None
    if not found.text or found.refusal or found.turned or not np.isfinite(as_float(values[program.output])).all():
        return False
    if text in REFUSED:  # what is read otherwise is shown to nobody
        with pytest.raises(UnsupportedError, match="differently from Python"):
            symgrad.explain(text)
        return False
    check_reading(program, inputs, values[program.output], found)
    ours = numeric_pullback(program, values, seed, names)
    for name in names:
        theirs = found.gradients.get(name)
        one, other = (np.zeros(np.shape(inputs[name])) if g is None else as_float(g) for g in (theirs, ours[name]))
        if name not in found.data and not np.allclose(one, other, rtol=1e-7, atol=1e-9):
            assert symgrad.explain(text).outcome is not TextOutcome.DIFFERS, text  # a kink, digits that are lost
    return True
