"""Kinds of options: what stands behind a colon in the text of a call brings a value to its canonical form or refuses it."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import symgrad
from symgrad import InputError, ShapeError, SymgradError, UnsupportedError
from symgrad.entries.equations import op
from symgrad.entries.operands import parse_fit_pattern
from symgrad.entries.signatures import call_of
from symgrad.ops import TABLE, Op
from symgrad.shapes import SizeMismatch, Sizes

MATRIX = ((sp.Integer(2), sp.Integer(3)),)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("axis", -1, 1),
        ("axis | None", None, None),
        ("axis | None", -2, 0),
        ("bool", 1, True),
        ("int >= 0", 0, 0),
        ("int >= 1", sp.Symbol("n", integer=True), sp.Symbol("n", integer=True)),
        ("0 <= any <= 1", 0.5, 0.5),
        ("2*int >= 1", 3, (3, 3)),
        ("2*int >= 0", [0, 2], (0, 2)),
        ("float > 0", 0.25, 0.25),
        ("2*size", sp.Symbol("n", integer=True), (sp.Symbol("n", integer=True),) * 2),
        ("tuple", 3, (3,)),
        ("tuple", [3, 1], (3, 1)),
        ("tuple[axis]", (-1, 0), (1, 0)),
        ("tuple[axis, axis]", (0, -1), (0, 1)),
        ("number", float("inf"), float("inf")),
        ("'low' | 'high'", "high", "high"),
    ],
)
def test_a_value_is_brought_to_its_canonical_form(kind: str, value: Any, expected: Any) -> None:
    assert call_of(f"f(x, k: {kind})").canonical(MATRIX, {"k": value}) == {"k": expected}


def test_an_option_may_be_as_another_one_where_nobody_gives_it() -> None:
    call = call_of("f(x, k: 2*int >= 1, step: 2*int >= 1=k)")
    for options in ({"k": 3}, {"k": 3, "step": None}, {"step": (), "k": 3}):
        assert call.canonical(MATRIX, options) == {"k": (3, 3), "step": (3, 3)}
    assert call.canonical(MATRIX, {"k": 3, "step": 1})["step"] == (1, 1)


def fits(pattern: str, **shapes: tuple[int, ...]) -> bool:
    """Whether shapes fit a pattern."""
    try:
        parse_fit_pattern(pattern, tuple(shapes))(
            Sizes(), *(tuple(map(sp.Integer, shape)) for shape in shapes.values())
        )
    except (ShapeError, SizeMismatch):
        return False
    return True


def test_operands_fit_a_pattern_of_their_axes() -> None:
    vectors = "x[…,n] target[…]"
    assert fits(vectors, x=(2, 3), target=(2,))
    assert fits(vectors, x=(3,), target=())
    assert not fits(vectors, x=(), target=())
    assert not fits(vectors, x=(2, 3), target=(3,))
    assert not fits(vectors, x=(2, 3), target=(2, 3))
    channels = "x[n,c,…] weight[c]"
    assert fits(channels, x=(2, 3, 4), weight=(3,), other=(7,))
    assert not fits(channels, x=(2, 3, 4), weight=(2,))
    assert not fits(channels, x=(2,), weight=(2,))
    assert not fits(channels, x=(2, 3), weight=(3, 1))


@pytest.mark.parametrize("kind", ["int >= 1", "2*int >= 1"])
def test_an_option_that_is_none_by_default_may_be_none(kind: str) -> None:
    """And no other: what has a default of its kind, or none at all, is refused."""
    assert call_of(f"f(x, k: {kind}=None)").canonical(MATRIX, {}) == {"k": None}
    for call in (f"f(x, k: {kind}=1)", f"f(x, k: {kind})"):
        with pytest.raises(InputError, match="k has to be an integer from 1 up"):
            call_of(call).canonical(MATRIX, {"k": None})


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("axis", 2, "there is no axis 2"),
        ("axis", True, "dim has to be an integer"),
        ("axis | None", (0, 1), "one axis, or none for all"),
        ("tuple[axis]", (1, -1), "named twice in k"),
        ("tuple[axis, axis]", 0, "k has to be 2 different axes"),
        ("2*size", 0, "k has to be an integer from 1 up"),
        ("number", "two", "this takes a number k"),
        ("number", float("nan"), "this takes a number k"),
        ("int >= 1", 0, "k has to be an integer from 1 up"),
        ("0 <= any <= 1", 1.25, "k has to be a number from 0 to 1"),
        ("0 <= any <= 1", float("nan"), "k has to be a number from 0 to 1"),
        ("0 <= any <= 1", None, "k has to be a number from 0 to 1"),
        ("2*int >= 1", (1, 2, 3), "k has to be an integer from 1 up, or 2 of them"),
        ("2*int >= 1", (1, 0), "k has to be an integer from 1 up, or 2 of them"),
        ("'low' | 'mid' | 'high'", "deep", "k is 'low', 'mid' or 'high'"),
        ("1 <= int <= 2", 3, "k has to be an integer from 1 to 2"),
    ],
)
def test_what_a_value_cannot_be_is_refused(kind: str, value: Any, told: str) -> None:
    with pytest.raises(SymgradError, match=told):
        call_of(f"f(x, k: {kind})").canonical(MATRIX, {"k": value})


@pytest.mark.parametrize("kind", ["string", "axis | int", "1 | 2"])
def test_a_kind_that_there_is_not_is_told_with_those_that_there_are(kind: str) -> None:
    with pytest.raises(InputError, match=f"no kind of option: {re.escape(kind)}") as refused:
        call_of(f"f(x, k: {kind}=1)")
    assert "'same' | 'valid'" in str(refused.value)


@pytest.mark.parametrize("axes", [{"along": "dims"}, {"axes": "dim other"}])
def test_axes_that_nothing_says_are_told_when_the_entry_is_made(axes: Any) -> None:
    with pytest.raises(AssertionError, match=r"has no axes (dims|other): .* dim, all but channels"):
        op("nothing_like_it(x, dim: int)", "out[i] = x[i]", "", **axes)


def test_an_option_that_changes_nothing_is_none_of_the_operations() -> None:
    call = call_of("f(x, momentum: unused=0.1, dropout: unsupported=0.0, k=2)")
    assert call.canonical(MATRIX, {"momentum": 0.5, "dropout": 0.0}) == {"k": 2}
    with pytest.raises(UnsupportedError, match="dropout is not supported yet"):
        call.canonical(MATRIX, {"dropout": 0.5})


def kinds_of(op: Op) -> dict[str, Any]:
    """The kinds of an entry that is a row."""
    reading = getattr(op.index, "__self__", None)
    call = getattr(getattr(reading, "entry", reading), "call", None)
    return {} if call is None else {name: kind for name, kind in call.kinds.items() if kind.rule is not None}


RULED = [op for op in TABLE.values() if any(name for name, kind in kinds_of(op).items() if kind.type is not bool)]


def test_what_changes_nothing_may_be_anything_where_it_is_nothing_by_default() -> None:
    """`cdist(…, compute_mode="…")` was refused, and a black box in captured programs."""
    text = 'torch.cdist(x, x, compute_mode="use_mm_for_euclid_dist")'
    assert symgrad.explain(text, x=[[1.0, 2.0], [3.0, 5.0]]).passed


def test_the_kinds_are_found() -> None:
    assert len(RULED) >= 30


@pytest.mark.one_in(18)
@pytest.mark.parametrize("op", RULED, ids=lambda op: op.name)
@given(data=st.data())
def test_the_canonical_form_of_a_canonical_form_is_itself(op: Op, data: st.DataObject) -> None:
    """And a value that makes no sense ends in a refusal that names it, never in another error."""
    rank = data.draw(st.integers(1, 4))
    for name, kind in kinds_of(op).items():
        default = op.signature.parameters[name].default
        usual = [] if default is inspect.Parameter.empty else [default]
        value = data.draw(st.sampled_from([*usual, 0, 1, -1, 7, 0.5, (1, 2), "sum", "none", None, True, float("nan")]))
        try:
            settled = kind.rule(name, value, rank)
        except SymgradError as error:
            beyond = isinstance(default, tuple) and max(default) >= rank and "there is no axis" in str(error)
            assert value is not default or value is None or beyond, "the usual value is refused"
            assert name in str(error) or "dim" in str(error) or "axis" in str(error)
        else:
            assert kind.rule(name, settled, rank) == settled or settled != settled
