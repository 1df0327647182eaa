"""Programs that mix numbers, whole numbers and truth values, captured: vᵀJ is torch's."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from tests.mixes import mixed
from tests.test_singular_programs import Drawn, captured_agrees, ran

VALUES = (0.0, 1.0, -1.0, 0.5, -2.5, 1.75, 3.0, -0.25)


def program(number: int) -> Drawn:
    """The program of a number, at some values, ties and zeros among them."""
    generator = np.random.default_rng(number)
    values = {
        "x": generator.choice(VALUES, 3), "y": generator.uniform(-2, 2, 3),
        "n": generator.integers(-3, 4, 3), "k": generator.integers(0, 3, 3), "m": generator.integers(0, 2, 3),
    }  # fmt: skip
    text = mixed(number)
    return Drawn(
        number, text, {name: v for name, v in values.items() if name == "x" or re.search(rf"\b{name}\b", text)}
    )


def ran_mixes(numbers: range) -> Counter[str]:
    """What became of many programs."""
    return ran(lambda drawn: captured_agrees(program(drawn.number)), numbers, depth=0)


@pytest.mark.parametrize("numbers", [range(50), pytest.param(range(50, 150), marks=pytest.mark.slow)], ids=str)
def test_random_mixes(numbers: range) -> None:
    found = ran_mixes(numbers)
    assert found["same"] > 0.6 * len(numbers)
    assert found["refused"] < 0.1 * len(numbers)


def test_they_cast_mask_count_and_divide() -> None:
    texts = " ".join(mixed(number) for number in range(300))
    for word in ("//", "%", "&", "|", "^", "~", ".long()", ".int()", ".double()", ".bool()", "where", "masked_fill", ".any()",
                 ".sum()", "==", "isfinite", "float()", "argsort", "cumsum"):  # fmt: skip
        assert word in texts, word


PICKED: list[tuple[str, str]] = [
    ("x[n]", "n"), ("x[m]", "m"), ("x[m].sum() + x", "m"), ("x.masked_select(m)", "m"), ("x.index_select(0, n)", "n"),
    ("x.gather(0, n)", "n"), ("x.take(n)", "n"), ("x.masked_fill(m, 0) + x", "m"), ("x.index_fill(0, n, 1.5)", "n"),
    ("x.index_add(0, n, x)", "n"), ("x.scatter(0, n, x * 2)", "n"), ("x.scatter_add(0, n, x)", "n"),
    ("where(m, x, x * 3)", "m"), ("x[n] * 2 + x", "n"), ("x[~m]", "m"), ("x.index_copy(0, n, x * 2)", "n"),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "chooser"), PICKED, ids=[text for text, _ in PICKED])
def test_places_of_an_earlier_call_are_not_kept(text: str, chooser: str) -> None:
    """All entries of x are equal, so that no value tells other places from these: only vᵀJ does."""
    orders = [[0, 1, 2], [1, 2, 0], [2, 1, 0], [0, 2, 1]] if chooser == "n" else [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    for number, order in enumerate(orders * 2):
        drawn = Drawn(number, text, {"x": np.full(3, 0.25), chooser: np.array(order)})
        assert captured_agrees(drawn) != "torch refuses", drawn


@pytest.mark.night
@pytest.mark.parametrize("part", range(20))
def test_twenty_thousand_mixes(part: int) -> None:
    ran_mixes(range(1000 + 1000 * part, 2000 + 1000 * part))
