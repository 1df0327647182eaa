"""Positions, classes and counts that torch refuses are refused here, too: with a sentence, with and without checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from symgrad.language import read_program
from symgrad.numeric.arranged import integer_inputs
from symgrad.ops import TABLE, entry_named
from symgrad.program import Program
from tests.compare import assert_same

NUMBERS = {"cosine_embedding_loss": "1 or -1, and torch computes with others", "hinge_embedding_loss": "the same"}
"""Whole numbers in the examples, that torch takes for numbers like any other."""
STRICTER = {
    "index_fill": "torch counts negative places from the end here, against its own index_add and index_copy",
    "take_along_dim": "torch takes a place beyond the axis modulo its size",
}
ODD = (0.5, -1, 10**6)


def read_at_positions() -> Iterator[tuple[str, str]]:
    """The first example of every operation that reads whole numbers, with the operand that they are."""
    for op in TABLE.values():
        shapes = dict(op.examples[0].shapes) if op.examples else {}
        if op.name not in NUMBERS and any(op.domain_of(name).whole for name in shapes):
            reading = read_program(op.examples[0].text, shapes=shapes)
            yield from ((op.name, name) for name in integer_inputs(reading.program))


def point(program: Program, name: str, value: float) -> dict[str, np.ndarray]:
    """Values for every input: the least whole number where those are read, and ``value`` for ``name``."""
    whole = integer_inputs(program)
    values = {t.name: np.full(program.numbers(t.shape), 0.75) for t in program.inputs}
    values |= {n: np.full(values[n].shape, low) for n, (low, _) in whole.items()}
    return values | {name: np.full(values[name].shape, value)}


def torch_takes(program: Program, values: dict[str, np.ndarray]) -> bool:
    """Whether torch's own calls go through."""
    known = {n: torch.tensor(np.asarray(v, dtype=np.float64)) for n, v in values.items()}
    try:
        for step in program.steps:
            arguments = [known[a] if isinstance(a, str) else torch.tensor(float(a.value)) for a in step.arguments]
            known[step.result.name] = entry_named(step.op).torch(torch, *arguments, **dict(step.options))
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


@pytest.mark.parametrize(("operation", "name"), list(read_at_positions()))
def test_odd_positions_are_refused_where_torch_refuses_them(operation: str, name: str) -> None:
    example = TABLE[operation].examples[0]
    program = read_program(example.text, shapes=dict(example.shapes)).program
    wrt = [t.name for t in program.inputs if t.name not in integer_inputs(program)]
    for value in ODD:
        values = point(program, name, value)
        if value != 0.5 and torch_takes(program, values):
            if operation not in STRICTER:
                assert symgrad.explain(example.text, wrt=wrt, **values).passed
            continue
        for check in (False, True):
            with pytest.raises(SymgradError):
                symgrad.explain(example.text, wrt=wrt, check=check, **values)


@pytest.mark.parametrize("value", [0.5, -1.0, 1.0, 1.5])
@pytest.mark.parametrize("operation", NUMBERS)
def test_a_target_that_torch_reads_as_a_number_is_one(operation: str, value: float) -> None:
    """Made an integer first, 1.5 was 1, and torch was said to have another value."""
    example = TABLE[operation].examples[0]
    program = read_program(example.text, shapes=dict(example.shapes)).program
    draw = np.random.default_rng(1)
    values = {t.name: draw.uniform(0.2, 0.9, program.numbers(t.shape)) for t in program.inputs}
    values["target"] = np.full(values["target"].shape, value)
    found = symgrad.explain(example.text, **values)
    function = getattr(torch.nn.functional, operation)
    assert found.passed
    assert_same(function(*map(torch.tensor, values.values())).numpy(), found.output, what=example.text)


def test_what_is_refused_says_why() -> None:
    told = {
        "take_along_dim(x, n)": ([-1], "the position -1 is negative"),
        "take_along_dim(x, n, 0)": ([0.5], "the position 0.5 is not an integer"),
        "x[n]": ([0.5], "is not an integer"),
        "cov(x, fweights=n)": ([0], "sum to 0"),
    }
    for text, (n, why) in told.items():
        with pytest.raises(SymgradError, match=why):
            symgrad.explain(text, x=[2.0], n=n)
    found = symgrad.explain("take_along_dim(x, n, 0)", x=[2.0, 3.0], n=[-1], wrt="x")
    assert_same([0.0, 1.0], found.gradients["x"].value)


@pytest.mark.parametrize("error", [RuntimeError, TypeError, AssertionError, ZeroDivisionError, KeyError])
def test_what_only_torch_refuses_is_a_sentence_too(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error("not today")

    monkeypatch.setattr(torch, "exp", refuse)
    with pytest.raises(SymgradError, match="torch refuses this at these numbers"):
        symgrad.explain("exp(x)", x=[1.0])


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "text",
    [
        "F.cross_entropy(z.flatten(0, 1), t.flatten())",
        "F.cross_entropy(z.view(-1, 4), t.view(-1))",
        "F.cross_entropy(z.transpose(1, 2), t)",
        "F.cross_entropy(z.flatten(0, 1), t.T.T.reshape(-1))",
        "z[t.flatten() // 2, 0]",
    ],
)
def test_positions_that_are_turned_first_are_positions(text: str) -> None:
    """They stay whole numbers wherever a form is tried, nothing flows to them, and nobody asks for their gradient."""
    found = symgrad.explain(text, t=[[0, 1, 2], [3, 0, 1]], shapes={"z": (2, 3, 4)})
    assert found.passed
    assert [*found.gradients] == ["z"]
    assert "t is read as positions, classes or a mask: it gets no gradient" in found.to_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("F.cross_entropy(x.view(-1, x.size(-1)), n.view(-1))", "n"),
        ("F.nll_loss(F.log_softmax(x[0], 1), (n + 0)[0])", "n"),
        ("x[0][n.flatten()]", "n"),
        ("F.cross_entropy(x[0], torch.cat([n[0, :1], n[1, 1:]]))", "n"),
    ],
)
def test_positions_in_another_shape_are_positions(text: str, read: str) -> None:
    """What only decides has no gradient and is nowhere moved by a little, also where a view lies between."""
    x, n = np.random.default_rng(0).uniform(-1, 1, (2, 3, 3)), np.array([[0, 1, 2], [1, 1, 0]])
    found = symgrad.explain(text, x=x, n=n)
    assert found.passed
    assert list(found.gradients) == ["x"]
    assert read not in symgrad.derive(text, shapes={"x": (2, 3, 3), "n": (2, 3)})[1]


@pytest.mark.parametrize(
    ("read", "shape", "forward", "line"),
    [
        (lambda w, n: w[n].exp(), (3, 2), "w[n]", "zeros_like(w).index_add(0, n, exp(t1))"),
        (lambda w, n: w[:, n].exp(), (2, 3), "w[:, n]", "zeros_like(w).index_add(1, n, exp(t1))"),
        (lambda w, n: w[n].exp(), (3,), "w[n]", "zeros_like(w).index_add(0, n, exp(t1))"),
        (lambda w, n: w[n.tolist()].exp(), (3, 2), "w[places]", "zeros_like(w).index_add(0, places, exp(t1))"),
    ],
)  # fmt: skip
def test_what_a_program_reads_at_positions_is_told_as_it_was_written(
    read: Callable[[Any, Any], Any], shape: tuple[int, ...], forward: str, line: str
) -> None:
    n = torch.tensor([0, 2, 1, 1])
    found = symgrad.capture(lambda w: read(w, n).sum(), torch.ones(shape)).backward()
    assert str(found.forward[0]) == f"t1 = {forward}"
    assert found.gradients["w"].code == line


def test_positions_in_a_matrix_are_put_in_a_row() -> None:
    n = torch.tensor([[0, 2], [1, 1]])
    program = symgrad.capture(lambda w: (w[n] ** 2).sum(), torch.arange(6.0).reshape(3, 2))
    assert list(map(str, program.backward().forward))[:2] == ["t1 = n.reshape(4)", "t2 = w[t1]"]
    w = torch.arange(6.0).reshape(3, 2).requires_grad_()
    (w[n] ** 2).sum().backward()
    assert_same(w.grad, program.pullback()["w"])


SEVERAL = ("x[i, :, j]", "x[i, j]", "x[i, j, k]", "x[i - 1, j]", "x[[0, 1], j]", "x[torch.tensor([1, -1]), j, k]")
"""Positions on several axes, of a 2×3×4."""


@pytest.mark.parametrize("text", SEVERAL)
def test_positions_on_several_axes_are_each_on_their_own(text: str) -> None:
    """They become one number, in which one beyond its axis was another entry, and so was −1."""
    draw, x = np.random.default_rng(1), torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4).requires_grad_()
    refused = 0
    for _ in range(24):
        given = {n: torch.tensor(draw.integers(-4, 4, size=2)) for n in "ijk" if n in text.replace("tensor", "")}
        values = {"x": x.detach().numpy(), **{n: p.numpy() for n, p in given.items()}}
        try:
            wanted = eval(text, {"torch": torch}, {"x": x, **given})  # noqa: S307 - texts of this file
        except IndexError:
            refused += 1
            with pytest.raises(SymgradError, match="is out of bounds for an axis with size"):
                symgrad.explain(text, wrt="x", check=False, **values)
            continue
        found = symgrad.explain(text, wrt="x", check=False, **values)
        assert_same(wanted.detach().numpy(), found.output, what=text)
        (by_x,) = torch.autograd.grad(wanted.sum(), x)
        assert_same(by_x.numpy(), found.gradients["x"].value, what=text)
    assert 0 < refused < 24


@pytest.mark.parametrize("text", ["x[n]", "x.gather(0, n)"])
def test_a_position_from_the_end_says_what_would_do(text: str) -> None:
    with pytest.raises(SymgradError, match="is negative") as error:
        symgrad.explain(text, x=[2.0, 3.0], n=[-1])
    assert "n % x.shape[0] in the place of n" in str(error.value)
    assert (
        symgrad.explain(
            text.replace("n)", "n % x.shape[0])").replace("n]", "n % x.shape[0]]"), x=[2.0, 3.0], n=[-1]
        ).output
        == 3
    )
