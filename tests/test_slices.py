"""Python's slices, of every axis: as the table cuts them, in texts, in captured programs, and in chains of views."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch

import symgrad
from symgrad.entries.operands import falls_with_size
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.explanation.formulas import derive_formulas, prove_form
from symgrad.language import read_program
from symgrad.numeric import forward
from symgrad.ops.subscripts import slice_bounds
from symgrad.oracles.forms import dropped_forms
from symgrad.shapes import Sizes, fill_sizes
from symgrad.tracing import capture
from tests.chains import FEW, Chain, chain, check
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


FOUND = [
    ("x[-3:-1]", (2,)), ("x[-2:][-3:-1]", (4,)), ("cat([x, x])[-3:-1]", (1,)), ("cat([x, x])[-3:-1]", (2,)),
    ("x[:-1][-1]", (2,)), ("x[1:-2].mean(0)", (4,)), ("x.unfold(0, 2, 1).mean(0)[1]", (2,)), ("x[-3:2][:, -1:]", (3, 2)),
    ("x[:x.shape[0] // 2]", (4,)), ("(cat([x, x], 0) + cat([x, x], 0))[1:2]", (2,)), ("x.diagonal(0)", (4, 3)),
    ("x[..., -1].diagonal(0)", (5, 3, 3)), ("(x[:].diagonal(0) + x[:].diagonal(0)).mean(0)", (2, 1)),
    ("x[1:] - x[:-1]", (2,)), ("x[1:, 0] + x[0, :-1]", (3, 3)), ("x.chunk(3)[1]", (5,)), ("x.narrow(0, -2, 1)", (4,)),
    ("x[2:].chunk(3)[1]", (2,)),
    ("(x.flatten(0, 1).transpose(0, 1).chunk(3, 0)[0] ** 2)", (3, 3, 5)),
    ("x[0:-3].narrow(1, -2, 1)", (5, 3)), ("x[2:, :].roll(1, 0)", (5, 4, 4)),
    ("x[5:-5, 2:-1].roll(-1, 1).flatten()", (1, 5)),
    ("x + x.reshape(3, 2, 8).transpose(0, 1).reshape(2, 3, 8)", (2, 3, 8)),
]  # fmt: skip


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("text", "shape"), FOUND, ids=[f"{text} {shape}" for text, shape in FOUND])
def test_what_random_chains_found(text: str, shape: tuple[int, ...]) -> None:
    check(Chain(text, shape), 0)


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


def test_a_form_that_folds_a_size_does_not_pass() -> None:
    """As it was: the text reads x[m − 2], the equation x[0], and they agree at m = 2."""
    from symgrad.calculus import pullback
    from symgrad.numeric import forward
    from symgrad.oracles.forms import check_form

    program = read_program("x[:-1][-1]", shapes={"x": (3,)}).program
    values = forward(program, {"x": np.array([1.0, 2.0, 3.0])})
    sweep, seed = pullback(program, "x"), np.asarray(2.0)
    assert check_form("pad(v[None], (x.shape[0] - 2, 1))", program, sweep, values, seed).passed
    assert not check_form("pad(v[None], (1, x.shape[0] - 2))", program, sweep, values, seed).passed


def test_backwards_steps_are_refused() -> None:
    with pytest.raises(SymgradError, match="slices need a positive step"):
        symgrad.explain("x[::-1]", x=np.ones(3))


def test_a_size_that_is_rounded_is_a_size() -> None:
    """What chunk gives is ⌊(n + 2)/3⌋ long."""
    check(Chain("x.chunk(3, 1)[0].transpose(1, 0).unflatten(1, (1, -1)) ** 2", (3, 4)), 1)
    check(Chain("x.chunk(3, 1)[0].reshape(-1)", (3, 4)), 1)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "shape"),
    [("torch.softmax(x, 0)[:1]", (3,)), ("torch.softmax(x, 0)[:2] * 2", (3, 2)), ("x[:, :3].diagonal(1)[:, :]", (3, 4, 2)),
     ("x.diagonal(1)[:2]", (3, 4)), ("x.diagonal(-1)[:2]", (4, 3)), ("x.diagonal(1)", (3, 4)), ("x.diagonal(-1)", (3, 4)),
     ("x.index_select(1, torch.tensor([0, 0])).diagonal(0)", (3, 2)), ("x[:2, 0:2:2, 1:3:2]", (4, 3, 3)), ("x.index_select(0, torch.tensor([0, 0]))[0].unsqueeze(0)[:]", (3,)),
     ("x.unfold(0, 3, 1)[:, -4:-1]", (5,)), ("x.unfold(0, 2, 1)[:1]", (3,)), ("x.unfold(0, 3, 2)[:-1, :2]", (9,)),
     ("x.unfold(0, 2, 1)[:, :3]", (4, 5)), ("x.diagonal(0)[:-4]", (2, 4, 5)), ("x.diagonal(0)[:2]", (4, 4, 5))],
)  # fmt: skip
def test_a_part_is_not_taken_for_the_whole(text: str, shape: tuple[int, ...]) -> None:
    """Beyond ``out`` there is more of the softmax, of a diagonal, and of windows."""
    check(Chain(text, shape), 1)


PART, PARTS = 800, 25


@pytest.mark.one_in(8, slow=2)
@pytest.mark.parametrize("number", range(45))
def test_random_chains(number: int) -> None:
    check(chain(number), number)


@pytest.mark.night
@pytest.mark.parametrize("part", range(PARTS))
def test_twenty_thousand_random_chains(part: int) -> None:
    for number in range(1000 + part * PART, 1000 + (part + 1) * PART):
        check(chain(number), number, FEW)


def test_chains_cover_slices_from_the_end_steps_and_views() -> None:
    texts = " ".join(chain(number).text for number in range(300))
    for word in ("[-", ":-", ":2]", "mT", "permute", "unfold", "flip", "expand", "select", "diagonal", "chunk", "cat",
                 "reshape", "transpose", "narrow", "roll", "None", "mean", "** 2"):  # fmt: skip
        assert word in texts, word


PRODUCTS = ("c[:, None] * d", "addr(b, c, d)", "a @ w", "a @ w * h", "(a @ w).masked_fill(h != 0, 2.0)",
            "addr(b, c, d, alpha=0.5).masked_fill(h != 0, 2.0) * h", "(c[:, None] * d + h) * (h != 0)", "(a @ w).tril() * h")  # fmt: skip
PARTS_OF = ("[:, :2]", "[:, 1:3]", "[:, -5:2]", "[:, -3:-1]", "[..., 1:]", "[:2]", "[1:, :2]", "[-2:, 1:2]", "[:, ::2]")


@pytest.mark.one_in(18, slow=3)
@pytest.mark.parametrize("part", PARTS_OF)
@pytest.mark.parametrize("body", PRODUCTS)
def test_of_a_part_of_a_product_only_that_part_is_read(body: str, part: str) -> None:
    """Σ_k [k < 2]·f(k)·v(k): v ends where the part ends, and no form may read on, however it writes the rest."""
    text, generator = f"({body}){part}", np.random.default_rng(1)
    shapes = {"a": (3, 2), "b": (3, 4), "c": (3,), "d": (4,), "h": (3, 4), "w": (2, 4)}
    arrays = {name: generator.integers(-1, 2, size=shape).astype(float) for name, shape in shapes.items()}
    used = {name: shape for name, shape in shapes.items() if name in re.findall(r"\b[a-z]\b", text)}
    program = read_program(text, shapes=used).program
    values = forward(program, {name: arrays[name] for name in used})
    seed = generator.integers(-4, 5, size=values["out"].shape).astype(float)
    with dropped_forms() as dropped:
        found = [
            prove_form(derived, program, values, seed) for derived in derive_formulas(program, tuple(used)).values()
        ]
    assert not dropped, f"{text}: {dropped} is withheld"
    assert all(proof is None or proof.passed for _, proof in found), f"{text}: {found}"


@pytest.mark.parametrize("text", ["torch.arcsinh(a.trunc()[...]) * a", "s = (a * a)[...]; s[()] * s", "a[...].exp()"])
def test_of_a_number_there_is_one_index(text: str) -> None:
    """``s[...]`` of what has no axes is s itself, on the page and in its lines."""
    found = symgrad.explain(text, a=-2.5)
    assert found.passed
    assert "a.grad" in found.to_text()


@pytest.mark.parametrize(
    ("shape", "key", "form"),
    [
        ((6,), slice(None, None, 2), "zeros_like(x).index_add(0, arange(6)[::2], v)"),
        ((6,), slice(1, None, 2), "zeros_like(x).index_add(0, arange(6)[1::2], v)"),
        ((2, 8), (slice(None), slice(None, None, 4)), "zeros_like(x).index_add(1, arange(8)[::4], v)"),
    ],
)
def test_steps_that_divide_the_axis_go_back_as_others_do(shape: tuple[int, ...], key: slice, form: str) -> None:
    """The remainder of p by 2 is the index along the last axis of 3×2 there, and was no call's."""
    x = np.arange(float(np.prod(shape))).reshape(shape)
    assert capture(lambda x: x[key] * 1.0, torch.as_tensor(x)).closed_form("x") == form
