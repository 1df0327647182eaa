"""Names that are taken: the first free one is found without counting from the beginning."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from symgrad.language.input_names import UsedNames


def test_a_name_of_a_loop_is_not_counted_from_the_beginning_at_every_turn() -> None:
    asked = Counter()

    class Watched(UsedNames):
        def __contains__(self, name):
            asked["in"] += 1
            return super().__contains__(name)

    names = Watched(["h"])
    for _ in range(300):
        names.add(names.first_free("h"))
    assert len(names) == 301
    assert asked["in"] <= 600


@pytest.mark.parametrize("seed", range(20))
def test_the_first_free_name_is_the_one_that_counting_finds(seed) -> None:
    draw = random.Random(seed)
    names, kept = UsedNames(), {"a_3", "b_2", "a_2_2"}
    stems = ["a", "b", "a_2", "b_1", "c_02", "_"]
    for _ in range(200):
        if draw.random() < 0.4 and names:
            names.free([draw.choice(sorted(names))])
            continue
        stem = draw.choice(stems)
        wishes = (stem, *(f"{stem}_{n}" for n in range(2, 300)))
        naive = next(w for n, w in enumerate(wishes) if w not in set(names) and not (n and w in kept))
        found = names.first_free(stem, kept)
        assert found == naive
        names.add(found)
