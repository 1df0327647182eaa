"""Random texts are read as Python runs them: value and gradients, by symgrad and by the reader that shares nothing with it."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

import symgrad
from symgrad import SymgradError
from symgrad.numeric import as_float
from symgrad.oracles.comparisons import TextOutcome
from symgrad.reference import TextRejected, UnsupportedText, run_reference
from tests import random_texts
from tests.compare import assert_same
from tests.nights import numbers


@pytest.mark.parametrize("seed", [*range(30), *numbers(range(30, 60), range(60, 500))])
def test_a_random_text_has_pythons_value_or_none(seed: int) -> None:
    """Names, aliases, writes: what is answered is Python's and torch's, what they refuse is called refused."""
    text, given, own = random_texts.text_of(seed), random_texts.leaves(), random_texts.leaves()
    expected: torch.Tensor | None = None
    gradients: dict[str, torch.Tensor] = {}
    try:
        expected = random_texts.by_python(text, given)
        gradients = random_texts.gradients(expected, given)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        expected = None
    check_reader(text, expected, gradients, own)
    try:
        found = symgrad.explain(
            text, **{name: leaf.detach().numpy() for name, leaf in own.items() if name in words(text)}
        )
    except SymgradError:
        return
    check_page(text, found, expected, gradients)


def words(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text.replace(">>> ", ""))) if isinstance(node, ast.Name)}


def check_reader(
    text: str, expected: torch.Tensor | None, gradients: dict[str, torch.Tensor], own: dict[str, torch.Tensor]
) -> None:
    """The reader gives what Python gives, and refuses what Python refuses."""
    try:
        found = run_reference(text, own).output
        theirs = random_texts.gradients(found, own)
    except (TextRejected, UnsupportedText, RuntimeError):
        assert expected is None, text
        return
    assert expected is not None, text
    assert_same(expected.detach(), found.detach(), what=text)
    for name, gradient in gradients.items():
        assert_same(gradient, theirs[name], what=f"{text}, by {name}")


def check_page(text: str, found: symgrad.Explanation, expected: torch.Tensor | None, gradients: dict[str, Any]) -> None:
    """What is called equal is; nothing is where torch refuses."""
    assert (found.outcome is TextOutcome.REFUSED) == (expected is None), text
    if expected is not None:
        if expected is not None and not expected.requires_grad:
            assert found.outcome in (TextOutcome.UNDERIVED, TextOutcome.EQUAL, TextOutcome.NOT_COMPARED), text
        else:
            assert found.outcome in (TextOutcome.EQUAL, TextOutcome.AS_READ, TextOutcome.NOT_COMPARED), text
        assert_same(expected.detach().double(), as_float(found.output), what=text)
        for name, gradient in found.gradients.items():
            assert_same(gradients[name], as_float(gradient.value), what=f"{text}, by {name}")
