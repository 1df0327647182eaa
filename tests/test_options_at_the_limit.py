"""Huge, negative, zero and odd numbers as options of every operation: an answer or a sentence, soon."""

from __future__ import annotations

import ast
import random
import signal
from collections.abc import Iterator
from typing import Any

import pytest

import symgrad
from symgrad.entries.spec import Example
from symgrad.errors import SymgradError
from symgrad.ops import TABLE

ODD: tuple[float, ...] = (
    0,
    -1,
    7,
    10**4,
    -(10**4),
    10**6,
    10**9 + 7,
    10**17,
    -(10**17),
    0.5,
    -2.5,
    1e-300,
    1e300,
    -1e9,
)
SECONDS = 20
"""Of processor time, for what takes one or two."""


def places(tree: ast.AST) -> list[ast.Constant]:
    """The numbers among the arguments of calls, and in lists and indices."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and type(n.value) in (int, float)]


def odd_texts(example: Example, rng: random.Random) -> Iterator[str]:
    """The example with one of its numbers replaced, and with an option that it leaves out."""
    try:
        tree = ast.parse(example.text, mode="eval")
    except SyntaxError:
        return
    for constant in places(tree):
        kept = constant.value
        constant.value = rng.choice(ODD)
        yield ast.unparse(tree)
        constant.value = kept
    call = tree.body
    named = [op for op in TABLE.values() if isinstance(call, ast.Call) and example in op.examples]
    for op in named:
        taken = {k.arg for k in call.keywords} if isinstance(call, ast.Call) else set()
        for name, default in op.defaults.items():
            if name not in taken and type(default) in (int, float) and isinstance(call, ast.Call):
                call.keywords.append(ast.keyword(name, ast.Constant(rng.choice(ODD))))
                yield ast.unparse(tree)
                call.keywords.pop()


def too_late(*_: Any) -> None:
    raise TimeoutError


def outcome(text: str, example: Example) -> str:
    """What comes of a text; nothing where it is an answer or a sentence."""
    before = signal.signal(signal.SIGPROF, too_late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        symgrad.explain(text, shapes=dict(example.shapes)).to_text(brief=True)
    except SymgradError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return ""


def wrong_of(name: str, seed: int) -> list[str]:
    """The texts of an operation that end in anything but an answer or a sentence."""
    rng = random.Random(f"{name}{seed}")
    found = [(text, outcome(text, example)) for example in TABLE[name].examples for text in odd_texts(example, rng)]
    return [f"{text}  {told}" for text, told in found if told]


@pytest.mark.one_in(96)
@pytest.mark.parametrize("name", sorted(TABLE))
def test_odd_numbers_as_options_are_answered_or_refused(name: str) -> None:
    assert wrong_of(name, 0) == []
