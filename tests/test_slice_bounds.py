"""Where Python's slices begin and end, at every size: as the table cuts them, in texts, and in captured programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
import sympy as sp
import torch

from symgrad import UnsupportedError, capture
from symgrad.entries.operands import falls_with_size
from symgrad.language import read_program
from symgrad.ops.subscripts import slice_bounds
from symgrad.shapes import Sizes, fill_sizes
from tests.compare import assert_same

ENDS = (None, *range(-4, 5))
KEYS = [(start, stop, step) for start, stop, step in product(ENDS, ENDS, (1, 2, 3))]


def python(size: int, key: Sequence[int | None]) -> tuple[int, int]:
    """Where Python's slice begins and how many entries it has."""
    places = range(*slice(*key).indices(size))
    return (places.start if len(places) else 0), len(places)


@pytest.mark.parametrize("size", range(2, 7))
def test_a_slice_is_pythons_at_its_size_and_at_every_other_that_it_is_said_to_hold_for(size: int) -> None:
    general = 0
    for key in KEYS:
        sizes = Sizes()
        axis = sizes.given(size)
        begin, count = (sizes.find(found) for found in slice_bounds(sizes, axis, *key))
        numbers = {} if sizes.find(axis).is_Integer else {axis: list(range(1, 9))}
        for other in numbers.get(axis, [size]):
            at = {axis: other}
            if any(fill_sizes(size_, at) < 0 for size_ in sizes.required()):
                continue
            first, many = int(fill_sizes(begin, at)), int(fill_sizes(count, at))
            assert many == python(other, key)[1], (key, other)
            assert many == 0 or first == python(other, key)[0], (key, other)
        assert all(fill_sizes(size_, {axis: size}) >= 0 for size_ in sizes.required()), key
        general += bool(numbers)
    assert general > len(KEYS) / 3


def test_a_slice_of_an_axis_of_any_size_holds_where_it_is_said_to() -> None:
    for key in KEYS:
        sizes = Sizes()
        axis = sizes.fresh()
        if falls_with_size(*key[:2]):
            with pytest.raises(UnsupportedError):
                slice_bounds(sizes, axis, *key)
            continue
        begin, count = slice_bounds(sizes, axis, *key)
        for other in range(1, 12):
            at = {axis: sp.Integer(other)}
            if all(fill_sizes(size, at) >= 0 for size in sizes.required()):
                many = int(fill_sizes(count, at))
                assert many == python(other, key)[1], (key, other)
                assert many == 0 or int(fill_sizes(begin, at)) == python(other, key)[0], (key, other)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_captured_slices_are_torchs(size: int) -> None:
    x = torch.arange(1.0, size + 1, dtype=torch.float64, requires_grad=True)
    for start, stop, step in KEYS[::2]:
        out = x[start:stop:step]
        if not out.numel():
            continue
        seed = torch.arange(1.0, out.numel() + 1, dtype=torch.float64)
        (expected,) = torch.autograd.grad(out, x, seed)
        found = capture(lambda x, key=slice(start, stop, step): x[key], x.detach()).pullback(seed)
        assert_same(expected, found["x"], what=f"x[{start}:{stop}:{step}] of {size}")


def test_a_slice_whose_text_gives_no_size_holds_from_some_size_on() -> None:
    for text, least in (("x[-3:-1]", 3), ("x[2:]", 2), ("x[:-1][-1]", 2), ("x[1:-2]", 3)):
        program = read_program(text, symbolic=True).program
        (axis,) = program.inputs[0].shape
        holds = [n for n in range(1, 8) if all(fill_sizes(size, {axis: n}) >= 0 for size in program.required)]
        assert holds == list(range(least, 8)), text


def test_what_a_size_decides_is_for_that_size() -> None:
    """The number of entries that a half of an axis has is asked: the text is read for the axis at hand."""
    for text, shape in (("x[:x.shape[0] // 2]", (4,)), ("x[-3:]", (2,)), ("x[:5]", (3,)), ("x[-3:2]", (4,))):
        assert read_program(text, shapes={"x": shape}).program.sizes == {}, text
    for text, shape in (("x[:-1]", (3,)), ("x[-3:]", (3,)), ("x[::2]", (5,)), ("x[1:-1:2]", (5,))):
        assert len(read_program(text, shapes={"x": shape}).program.sizes) == 1, text


def test_sizes_that_have_to_be_equal_are_one() -> None:
    program = read_program("x[1:] + cat([y, y[:1]])", shapes={"x": (4,), "y": (2,)}).program
    (x,), (y,) = (tensor.shape for tensor in program.inputs)
    assert x == y + 2
    program = read_program("x[1:] + y[:-1]", symbolic=True, shapes={"x": ("m",), "y": ("n",)}).program
    assert program.inputs[0].shape == program.inputs[1].shape
