"""What a Jacobian would be, before it is computed: its plan, held against torch and the Jacobian itself."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import pytest
import torch

import symgrad
from symgrad import InputError
from symgrad.lowering.graph import bytes_of, memory_of
from symgrad.numeric import patterns
from tests import torch_side
from tests.chains import chain
from tests.compare import assert_same
from tests.nights import numbers
from tests.test_patterns import found_in

SIZES = {
    "x@a by x": ("x@a", "x", {"x": (720, 720), "a": (720, 720)}, 720**3, True, 720, 720, 720),
    "x@a by a": ("x@a", "a", {"x": (720, 720), "a": (720, 720)}, 720**3, True, 720, 720, 720),
    "tanh": ("tanh(x)", "x", {"x": (10**6,)}, 10**6, True, 10**6, 1, 1),
    "softmax": ("softmax(x, -1)", "x", {"x": (1000, 300)}, 1000 * 300**2, True, 1000, 300, 300),
    "transpose": ("x.T", "x", {"x": (3000, 2000)}, 6 * 10**6, True, 6 * 10**6, 1, 1),
    "reshape": ("x.reshape(3000, 400)", "x", {"x": (2000, 600)}, 1_200_000, True, 1_200_000, 1, 1),
    "x + x.T": ("x + x.T", "x", {"x": (1500, 1500)}, 2 * 1500**2 - 1500, True, None, None, None),
    "conv1d": ("F.conv1d(x, w)", "x", {"x": (1, 1, 10**5), "w": (1, 1, 5)}, 5 * (10**5 - 4), True, 1, 5, 5),
    "cumsum": ("cumsum(x, 0)", "x", {"x": (1000,)}, 500500, True, 1, 1000, 1000),
    "flat rows": ("softmax(x, -1).reshape(-1)", "x", {"x": (300, 40)}, 300 * 40**2, True, None, None, None),
    "flat sums": ("cumsum(x, 1).reshape(-1)", "x", {"x": (300, 40)}, 300 * 40 * 41 // 2, True, 300, 40, 40),
    "one for all": ("x.repeat(2, 3)[1:] * x[0, 0]", "x", {"x": (128, 128)}, 195837, True, 1, None, None),
    "every second": ("cumsum(exp(x.sum(0)[::2]), 0)", "x", {"x": (900, 900)}, 91327500, True, 1, 450, 405000),
    "one line of a square": ("diag(x)", "x", {"x": (10**5, 10**5)}, 10**5, True, 10**5, 1, 1),
    "a trace": ("trace(x)", "x", {"x": (10**5, 10**5)}, 10**5, True, 1, 1, 10**5),
    "sums of sums": ("cumsum(cumsum(x, 1), 1)", "x", {"x": (9, 9)}, 9**3, False, 9, 9, 9),  # an upper bound
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", SIZES)
def test_a_plan_is_told_at_once_for_any_size(name: str) -> None:
    text, wrt, shapes, nonzeros, exact, blocks, seeds, directions = SIZES[name]
    matrix = symgrad.jacobian(text, wrt, shapes=shapes, check=False)
    start = time.process_time()
    plan = matrix.plan()
    assert time.process_time() - start < 3  # a table of this size would take minutes, or not fit
    assert (plan.nonzeros, plan.exact, plan.blocks) == (nonzeros, exact, blocks)
    if seeds is not None:
        assert (plan.seeds_colored, plan.directions_colored) == (seeds, directions)
    rows, columns = matrix.shape
    assert plan.bytes_dense == 8 * rows * columns
    assert plan.bytes_sparse >= 12 * nonzeros


CUT = [
    ("stack([x, x], -1)[:-1]", (), (1, "one entry in each row and each column")),
    ("stack([x, x], -1)[:-1]", (1,), None),
    ("stack([x, x], -1).diff().prod(0)", (2,), None),
    ("stack([x.cumsum(0), x.cumsum(0)], -1).diff()", (), None),
    ("diagonal(stack([x, x], -1).prod(0))", (1, 1), (1, "one entry in each row and each column")),
    ("tensor_split(kron(x, y), 2)[0]", (2,), (2, "at most one entry in a row, at most 2 in a column")),
    ("kron(x, y)[:2]", (3,), None),
    ("kron(y, x)[:3]", (3,), None),
]


def seen_by_torch(text: str, shape: tuple[int, ...]) -> np.ndarray:
    """Where torch's Jacobian is nonzero at one of a few points."""
    generator, found = torch.Generator().manual_seed(7), np.zeros((1, 1), dtype=bool)
    for _ in range(4):
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        if not torch_side.evaluate(text, {"x": x}).numel():  # torch makes no Jacobian of nothing
            return np.zeros((0, x.numel()), dtype=bool)
        whole = torch.autograd.functional.jacobian(lambda x: torch_side.evaluate(text, {"x": x}), x)
        found = found | (np.abs(whole.numpy().reshape(-1, x.numel())) > 1e-11)
    return found


CANCELLING = [
    ("x.sum(0) - x[0]", (5,)), ("x.cumsum(0).diff(dim=0)", (6,)), ("logsumexp(x, 1) - logsumexp(x, 1)", (3, 4)),
    ("tril(x) * tril(x)", (4, 4)), ("tril(x) * x.sum()", (4, 4)), ("tanh(tril(x - x[0, 0]))", (3, 4)),
    ("(x[:, None] - x[None, :]) - x[0]", (4,)), ("softmax(triu(x, 1), 0).T @ triu(x, 1)", (3, 4)),
    ("x.cumsum(0)[1:] - x.cumsum(0)[:-1]", (5,)), ("softmax(x, 0)", (1, 3)), ("x.mean(0) * 3 - x", (3,)),
    ("x[1:] * x[:-1] - x[:-1] * x[1:]", (4,)), ("x * arange(4)", (4,)), ("F.pad(x, (1, 2)) * F.pad(x, (1, 2))", (4,)),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "shape"), CANCELLING)
def test_what_cancels_is_not_counted_as_exact(text: str, shape: tuple[int, ...]) -> None:
    plan = symgrad.jacobian(text, "x", shapes={"x": shape}, check=False).plan()
    seen = int(seen_by_torch(text, shape).sum())
    assert seen <= plan.nonzeros
    assert not plan.exact or plan.nonzeros == seen, f"{plan.nonzeros} called exact, {seen} seen"


@pytest.mark.parametrize(
    "text", ["x.scatter(0, i, y)", "x.masked_fill(i, 0)", "x.index_fill(0, i, 1)", "x.index_copy(0, i, y)"]
)
def test_what_data_may_write_over_is_not_counted_as_exact(text: str) -> None:
    """J with respect to x is the identity without the rows that are written."""
    plan = symgrad.jacobian(text, "x", shapes={"x": (3,)}, check=False).plan()
    assert (plan.nonzeros, plan.exact) == (3, False)
    assert plan.structure == "at most one entry in a row, and in a column"


@pytest.mark.parametrize("number", [*range(12), *numbers(range(12, 72), range(72, 200))])
def test_a_plan_of_a_chain_is_what_torch_has(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laid out whole, and with what terms share counted apart, as where the matrix is large."""
    drawn = chain(number)
    seen = seen_by_torch(drawn.text, drawn.shape)
    for whole in (patterns.LARGEST_WHOLE, -1):
        monkeypatch.setattr(patterns, "LARGEST_WHOLE", whole)
        plan = symgrad.jacobian(drawn.text, "x", shapes={"x": drawn.shape}, check=False).plan()
        assert plan.nonzeros >= seen.sum(), drawn.text
        assert not plan.exact or plan.nonzeros == seen.sum(), drawn.text
        assert plan.seeds_colored >= seen.sum(0).max(initial=0)
        assert plan.directions_colored >= seen.sum(1).max(initial=0)


def test_colours_of_many_entries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not given out one by one is at least as much: never fewer colours than it takes."""
    texts = [("x.repeat(2, 3)[1:] * x[0, 0]", (3, 3)), ("x + x.T", (5, 5)), ("cumsum(x[::2], 0)", (9,))]
    for text, shape in texts:
        matrix = symgrad.jacobian(text, "x", shapes={"x": shape}, check=False)
        greedy = matrix.plan()
        with monkeypatch.context() as patched:
            patched.setattr(patterns, "MOST_GREEDY", 0)
            bounded = matrix.plan()
        assert greedy.seeds_colored <= bounded.seeds_colored <= greedy.seeds
        assert greedy.directions_colored <= bounded.directions_colored <= greedy.directions


OVERLAPPING = [
    "cat([tril(x).T @ tril(x), tril(x).T @ tril(x)], 1)", "x.T @ x", "(x - x[0, 0]) * x.T", "(x.diff(dim=0).flip(0) + x[0])",
    "cumprod(diagonal(cat([x, x], 0))[-1] * diagonal(cat([x, x], 0)), 0)", "tril(x)[:, ::2]",
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", OVERLAPPING)
def test_overlaps_that_are_not_laid_out_are_counted_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = symgrad.jacobian(text, "x", shapes={"x": (6, 6)}, check=False)
    seen = found_in(matrix.sparse())
    monkeypatch.setattr(patterns, "LARGEST_WHOLE", -1)
    plan = matrix.plan()
    assert plan.nonzeros >= seen.nonzeros
    assert not plan.exact or plan.nonzeros == seen.nonzeros


@pytest.mark.parametrize(("text", "shape", "says"), CUT)
def test_a_plan_keeps_within_the_matrix(text: str, shape: tuple[int, ...], says: tuple[int, str] | None) -> None:
    """Places beyond an axis of one entry are none, and an entry that feeds several is not in one row alone."""
    values = {"x": 1.0 + np.arange(np.prod(shape, dtype=int)).reshape(shape), "y": np.array([2.0, 3.0])}
    matrix = symgrad.jacobian(text, "x", check=False, **{n: a for n, a in values.items() if n in text})
    plan, seen = matrix.plan(), found_in(matrix.sparse())
    assert seen.nonzeros <= plan.nonzeros <= plan.shape[0] * plan.shape[1]
    assert plan.seeds_colored >= seen.in_column
    assert plan.directions_colored >= seen.in_row
    assert says in (None, (plan.nonzeros, plan.structure))


def test_bytes_are_those_that_scipy_takes() -> None:
    matrix = symgrad.jacobian("softmax(x, -1)", "x", x=np.ones((7, 5)), check=False)
    found = matrix.sparse()
    assert matrix.plan().bytes_sparse == found.data.nbytes + found.indices.nbytes + found.indptr.nbytes
    assert matrix.plan().bytes_dense == found.todense().nbytes


def test_colours_do_what_they_promise() -> None:
    """Compressed by seeds that are sums of rows of one colour, a band comes back whole."""
    matrix = symgrad.jacobian(
        "F.conv1d(x, w)", "x", x=np.random.randn(1, 1, 30), w=np.random.randn(1, 1, 4), check=False
    )
    dense, plan = matrix.dense(), matrix.plan()
    seeds = [(np.arange(plan.seeds) % plan.seeds_colored == color).astype(float) for color in range(plan.seeds_colored)]
    swept = np.array([matrix.operator().rmatvec(seed) for seed in seeds])
    rows, columns = np.nonzero(dense)
    assert_same(dense[rows, columns], swept[rows % plan.seeds_colored, columns], seed=0, what="rows found together")


@pytest.mark.parametrize(
    ("text", "shapes"),
    [("tanh(x)", {"x": (3, 4)}), ("softmax(x@a, -1)", {"x": (3, 4), "a": (4, 5)}), ("x.sum(0)", {"x": (3, 4)})],
)
def test_the_operator_is_the_matrix(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    values = {name: np.random.default_rng(3).normal(size=shape) for name, shape in shapes.items()}
    matrix = symgrad.jacobian(text, "x", check=False, **values)
    dense, operator = np.asarray(matrix.dense(), dtype=float), matrix.operator()
    v, u = (np.random.default_rng(4).normal(size=n) for n in matrix.shape)
    assert_same(dense @ u, operator.matvec(u), seed=4, what="Ju")
    assert_same(v @ dense, operator.rmatvec(v), seed=4, what="vᵀJ")
    assert_same(dense @ np.eye(len(u)), operator.matmat(np.eye(len(u))), seed=4, what="J")


def test_the_operator_of_a_hessian_is_the_hessian() -> None:
    w = [0.1, -0.4, 2.0]
    found = symgrad.hessian("sum(log(1 + exp(X@w)))", "w", w=w, X=[[1.0, 2, 3], [0, 1, -1]], check=False)
    u = np.array([1.0, -2, 0.5])
    assert_same(found.value @ u, found.jacobian.operator().matvec(u), seed=0, what="Hu")
    assert_same(u @ found.value, found.jacobian.operator().rmatvec(u), seed=0, what="vᵀH")


def test_what_does_not_fit_is_refused_with_the_number() -> None:
    matrix = symgrad.jacobian("x@a", "x", shapes={"x": (100, 100), "a": (100, 100)}, check=False)
    with pytest.raises(InputError, match=r"100,000,000 entries"):
        matrix.dense()
    with memory_of("10M"), pytest.raises(InputError, match=r"1,000,000 entries of it can be nonzero"):
        matrix.sparse()
    assert matrix.sparse().nnz == 10**6
    small = symgrad.jacobian("tanh(x)", "x", shapes={"x": (4000,)}, check=False)
    with memory_of("100M"), pytest.raises(InputError, match=r"16,000,000 entries"):
        small.dense()


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1e9", "4 X", "inf", "9" * 40])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="memory is a number of bytes"):
        bytes_of(text)


def test_a_program_without_a_formula_has_a_bound() -> None:
    text = "; ".join(["h = x", *["h = torch.softmax(tanh(h * h + h), -1)"] * 6, "h"])
    matrix = symgrad.jacobian(text, "x", shapes={"x": (1000, 50)}, check=False)
    assert matrix.formula is None
    plan = matrix.plan()
    assert (plan.exact, plan.composed) == (False, True)
    assert (plan.nonzeros, plan.blocks, plan.seeds_colored) == (1000 * 50 * 50, 1000, 50)
    assert "at most 2,500,000" in plan.to_text()
    json.dumps(plan.as_dict())


@pytest.mark.parametrize("text", ["x@a", "x.T", "diag(x)", "trace(x)", "tril(x)", "x + x.T"])
def test_what_needs_no_values_asks_for_none(text: str) -> None:
    shapes = {"x": (10**5, 10**5)} | ({"a": (10**5, 10**5)} if "@" in text else {})
    matrix = symgrad.jacobian(text, "x", shapes=shapes, check=False)
    assert matrix.formula is not None
    assert matrix.structure.kind in ("", "row")  # nothing of this size can be tested
    assert text == "tril(x)" or matrix.nonzeros == matrix.plan().nonzeros
    with pytest.raises(InputError, match="too large"):
        matrix.operator().matvec(np.broadcast_to(1.0, matrix.shape[1:]))


def test_nothing_is_looked_at_for_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*of: object) -> None:
        raise AssertionError("a plan computes nothing")

    monkeypatch.setattr(sys.modules["symgrad.numeric.forward_pass"], "forward", refuse)
    monkeypatch.setattr(patterns, "measured", refuse)
    plan = symgrad.jacobian(
        "softmax(x@a, -1)", "x", shapes={"x": (10**4, 10**4), "a": (10**4, 10**4)}, check=False
    ).plan()
    assert plan.nonzeros == 10**12
