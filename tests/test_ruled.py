"""What the table says about known sizes is asked once, and told apart by everything that it depends on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import pytest
import sympy as sp

from symgrad.language.dtypes import resolve_shapes, shape_cache_key
from symgrad.ops.lookup import entry_named
from symgrad.shapes import Shape, Sizes


def shape(*sizes: int) -> Shape:
    """A shape of numbers."""
    return tuple(sp.Integer(n) for n in sizes)


def test_the_same_numbers_are_asked_about_once() -> None:
    calls: list[Any] = []

    def resolved(sizes: Sizes, shapes: Any, **options: Hashable) -> dict[str, Hashable]:
        calls.append(shapes)
        return dict(options)

    matmul = entry_named("matmul")
    op = replace(matmul, rules=replace(matmul.rules, resolve=resolved))
    for _ in range(3):
        assert resolve_shapes(op, Sizes(), (shape(2, 3), shape(3, 4)), (True, True), {}).shape == shape(2, 4)
    assert len(calls) == 1
    assert resolve_shapes(op, Sizes(), (shape(2, 3), shape(3, 5)), (True, True), {}).shape == shape(2, 5)
    assert resolve_shapes(op, Sizes(), (shape(3), shape(3, 4)), (True, True), {}).shape == shape(4)
    assert resolve_shapes(entry_named("matmul"), Sizes(), (shape(3), shape(3, 4)), (True, True), {}).shape == shape(4)
    assert len(calls) == 3


def test_sizes_that_are_symbols_are_unified_each_time() -> None:
    for _ in range(2):
        sizes = Sizes()
        m, n, k = (sizes.fresh() for _ in range(3))
        assert resolve_shapes(entry_named("matmul"), sizes, ((m, n), (k, sp.Integer(4))), (True, True), {}).shape == (
            m,
            4,
        )
        assert sizes.find(k) == sizes.find(n)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), (0.0, -0.0), ((1, 2), [1, 2]), ((1,), (True,)), (1, sp.Integer(1)), ("1", 1), (None, "None")],
)
def test_options_that_are_equal_in_python_are_told_apart(one: Any, other: Any) -> None:
    op = entry_named("sum")
    first, second = (shape_cache_key(op, (shape(2),), (True,), {"dim": value}) for value in (one, other))
    assert first is not None
    assert second is not None
    assert first != second


def test_what_is_more_than_numbers_and_words_is_not_kept() -> None:
    op = entry_named("sum")
    assert shape_cache_key(op, (shape(2),), (True,), {"dim": sp.Symbol("n")}) is None
    assert shape_cache_key(op, (shape(2),), (True,), {"dim": (1, object())}) is None
    assert shape_cache_key(op, ((sp.Symbol("n"),),), (True,), {"dim": 1}) is None
    assert shape_cache_key(op, (shape(2),), (True,), {"x": 1}) != shape_cache_key(op, (shape(2),), (False,), {"x": 1})
