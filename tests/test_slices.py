"""Slices in chains of views, and of products: what is said of a part holds for that part, at every size."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError, capture, dropped_forms
from symgrad.explanation.formulas import derive_formulas, prove_form
from symgrad.language import read_program
from symgrad.numeric import forward
from tests.chains import FEW, Chain, chain, check

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
