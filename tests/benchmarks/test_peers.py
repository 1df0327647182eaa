"""Ours beside what others offer for the same question: `python -m pytest --benchmark-only -n 0 tests/benchmarks`.

Each workload is asserted equal to its peers' answers first. A peer that is not installed is reported as missing: all of
them come with the extra ``bench``.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch

import symgrad
from tests.benchmarks.ratios import FOUND, MISSING, Row, exponent, in_turns, seconds, there
from tests.benchmarks.test_pullbacks import Deep
from tests.compare import assert_same

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
"""torch.func.hessian loads torch's own scripted functions."""

RNG = np.random.default_rng(0)
BCE = "binary_cross_entropy_with_logits(X@w, y)"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Any:
    """One thread, float64, and everything loaded that a first call would otherwise load."""
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    symgrad.jacobian("sin(x)", "x", x=np.ones(3), check=False).sparse()
    symgrad.jacobian("sin(x)", "x", x=np.ones(3), check=False).matrix()
    _ = symgrad.hessian("sum(cos(x))", "x", x=np.ones(3), check=False).value
    yield
    torch.set_default_dtype(before)
    torch.set_num_threads(threads)


def measured(
    benchmark: Any, work: str, ours: Callable[[], Any], peers: dict[str, tuple[str, Callable[[], Callable[[], Any]]]],
    same: Callable[[Any, Any], None], aim: str, met: Callable[[float, float, dict[str, Any]], bool],
) -> None:  # fmt: skip
    """Time one workload; ``peers`` are by name the package and what makes the call."""
    first = seconds(ours)
    mine = ours()
    calls: dict[str, Callable[[], Any]] = {"ours": ours}
    absent: dict[str, float | str] = {}
    for name, (package, make) in peers.items():
        if there(package):
            calls[name] = make()
            same(mine, calls[name]())
        else:
            absent[name] = MISSING
    times: dict[str, Any] = in_turns(calls)
    later = times.pop("ours")
    found = {name: times.get(name, absent.get(name)) for name in peers}
    FOUND.rows.append(Row(work, first, later, found, aim, met(first, later, times)))
    benchmark.extra_info |= {"first": first, "later": later, **found}
    benchmark.pedantic(ours, rounds=1)


def ahead(times: float, peer: str, of_first: float = 0) -> Callable[[float, float, dict[str, Any]], bool]:
    """Whether a peer takes so many times as long as a later call, and as a first one."""
    return lambda first, later, found: (
        peer in found and found[peer] >= times * later and found[peer] >= of_first * first
    )


def numbers(mine: Any, theirs: Any) -> None:
    """The same entries."""
    dense = mine.todense() if hasattr(mine, "todense") else mine
    expected = np.asarray(theirs).reshape(np.shape(dense))
    assert_same(expected, np.asarray(dense), tolerance=1e-9, what="a peer")


def products(n: int) -> tuple[Callable[[], Any], dict[str, Any]]:
    """∂(x@a)/∂x in symbols, and by others; as many nonzeros, and the same ones where they are SymPy's."""

    def sympys() -> Callable[[], Any]:
        x, a = (sp.Matrix(n, n, lambda i, j, c=c: sp.Symbol(f"{c}[{i}, {j}]")) for c in "xa")
        return lambda: sp.Matrix((x * a).reshape(n * n, 1)).jacobian(x.reshape(n * n, 1))

    def casadis() -> Callable[[], Any]:
        import casadi

        def call() -> Any:
            x, a = casadi.SX.sym("x", n, n), casadi.SX.sym("a", n, n)
            return casadi.jacobian(casadi.reshape((x @ a).T, -1, 1), casadi.reshape(x.T, -1, 1))

        return call

    def symengines() -> Callable[[], Any]:
        import symengine

        def call() -> Any:
            x, a = (
                symengine.DenseMatrix(n, n, [symengine.Symbol(f"{c}[{i}, {j}]") for i in range(n) for j in range(n)])
                for c in "xa"
            )
            return (x * a).reshape(n * n, 1).jacobian(x.reshape(n * n, 1))

        return call

    peers = {"CasADi": ("casadi", casadis), "SymEngine": ("symengine", symengines)}
    if n <= 12:
        peers["SymPy"] = ("sympy", sympys)
    shapes = {"x": (n, n), "a": (n, n)}
    return lambda: symgrad.jacobian("x@a", "x", shapes=shapes, check=False).matrix(), peers


def entries(mine: Any, theirs: Any) -> None:
    """The same table of symbols, by the names of the entries."""
    if hasattr(theirs, "nnz") and callable(theirs.nnz):  # CasADi names entries x_0, x_1, …, column by column
        n = round(mine.shape[0] ** 0.5)
        rows, columns = theirs.sparsity().get_triplet()
        assert set(zip(rows, columns, strict=True)) == set(mine.todok())
        for (row, column), entry in list(mine.todok().items())[:: max(1, n // 4)]:
            q, k = entry.indices
            assert str(theirs[row, column]) == f"a_{int(k) * n + int(q)}"
        return
    ours = {place: str(entry) for place, entry in mine.todok().items()}
    rows, columns = mine.shape
    found = [str(entry) for entry in (theirs if not hasattr(theirs, "flat") else theirs.flat())]
    assert {divmod(n, columns): entry for n, entry in enumerate(found) if entry != "0"} == ours
    assert len(found) == rows * columns


@pytest.mark.parametrize("n", [12, 32])
def test_symbols(benchmark: Any, n: int) -> None:
    ours, peers = products(n)
    if n == 12:
        aim, met = "100 × below SymPy", ahead(100, "SymPy", 100)
    else:
        aim, met = "5 × below CasADi", ahead(5, "CasADi", 5)
        peers.pop("SymEngine")  # ten seconds a call
    measured(benchmark, f"explicit symbols of ∂(x@a)/∂x, n = {n}", ours, peers, entries, aim, met)


@pytest.mark.parametrize("n", [4, 32, 128])
def test_formula(benchmark: Any, n: int) -> None:
    shapes = {"x": (n, n), "b": (n, n)}
    text = f"x@b{'*2' * (n == 32)}{'*3' * (n == 128)}"  # so that each first call derives

    def ours() -> Any:
        return symgrad.jacobian(text, "x", shapes=shapes, check=False).formula

    met = lambda first, later, found: first < 0.015 and later < 1e-3  # noqa: E731 -- two numbers of one row
    measured(benchmark, f"`jacobian(\"{text}\", \"x\").formula`, n = {n}", ours, {}, numbers, "15 ms first, 1 ms repeated", met)  # fmt: skip


def by_jax(word: str, x: Any, jaxs: Callable[[Any, Any], Any]) -> Callable[[], Callable[[], Any]]:
    """One of jax's transforms under jit, in float64; jax is imported where it is asked for."""

    def compiled() -> Callable[[], Any]:
        import jax

        jax.config.update("jax_enable_x64", True)
        transform, array = jax.jit(getattr(jax, word)(lambda x: jaxs(jax, x))), jax.numpy.asarray(x.numpy())
        return lambda: transform(array).block_until_ready()

    return compiled


def jacobians(function: Callable[[Any], Any], x: Any, jaxs: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Peers for the whole Jacobian of a function of one tensor."""
    return {
        "torch.func.jacrev": ("torch", lambda: lambda: torch.func.jacrev(function)(x)),
        "autograd.functional.jacobian": ("torch", lambda: lambda: torch.autograd.functional.jacobian(function, x)),
        "jax.jacrev under jit": ("jax", by_jax("jacrev", x, jaxs)),
    }


def test_sparse_tanh(benchmark: Any) -> None:
    x = RNG.normal(size=(64, 64))
    peers = jacobians(torch.tanh, torch.tensor(x), lambda jax, x: jax.numpy.tanh(x))
    ours = lambda: symgrad.jacobian("tanh(x)", "x", x=x, check=False).sparse()  # noqa: E731 -- one call, named
    met = ahead(100, "torch.func.jacrev", 15)
    aim = "jacrev: 15 × ahead on the first call, 100 × later"
    measured(benchmark, "sparse J of tanh at 64²", ours, peers, numbers, aim, met)


def test_large_sparse_tanh(benchmark: Any) -> None:
    x = RNG.normal(size=(720, 720))
    ours = lambda: symgrad.jacobian("tanh(x)", "x", x=x, check=False).sparse()  # noqa: E731 -- one call, named
    tracemalloc.start()
    found = ours()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert_same(1 - np.tanh(x).reshape(-1) ** 2, found.diagonal(), what="the diagonal", tolerance=1e-12)
    met = lambda first, later, found: later < 0.1 and peak < 100  # noqa: E731 -- one call, named
    measured(benchmark, f"sparse J of tanh at 720², {peak:.0f} MB", ours, {}, numbers, "0.1 s and 100 MB", met)


def test_sparse_softmax(benchmark: Any) -> None:
    x, a = RNG.normal(size=(2, 32, 32))
    there_ = torch.tensor(a)
    peers = jacobians(
        lambda x: torch.softmax(x @ there_, -1), torch.tensor(x), lambda jax, x: jax.nn.softmax(x @ a, -1)
    )
    ours = lambda: symgrad.jacobian("softmax(x@a, -1)", "x", x=x, a=a, check=False).sparse()  # noqa: E731 -- one call, named
    aim = "below jacrev from the second call"
    measured(benchmark, "sparse J of softmax(x@a), n = 32", ours, peers, numbers, aim, ahead(1, "torch.func.jacrev"))


def hessians(function: Callable[[Any], Any], x: Any, jaxs: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Peers for the Hessian of a function of one vector."""
    return {
        "torch.func.hessian": ("torch", lambda: lambda: torch.func.hessian(function)(x)),
        "jax.hessian under jit": ("jax", by_jax("hessian", x, jaxs)),
    }


def test_quadratic_form(benchmark: Any) -> None:
    x, A = RNG.normal(size=2048), RNG.normal(size=(2048, 2048))
    there_ = torch.tensor(A)
    peers = hessians(lambda x: x @ there_ @ x, torch.tensor(x), lambda jax, x: x @ A @ x)
    ours = lambda: symgrad.hessian("x@A@x", "x", x=x, A=A, check=False).value  # noqa: E731 -- one call, named
    aim = "8 × below torch.func.hessian later; first call 60 ms beyond the numbers"
    met = lambda first, later, found: found["torch.func.hessian"] >= 8 * later and first - later < 0.06  # noqa: E731 -- one call, named
    measured(benchmark, "Hessian of xᵀAx, n = 2048", ours, peers, numbers, aim, met)


def test_logistic(benchmark: Any) -> None:
    X, w, y = RNG.normal(size=(400, 200)), RNG.normal(size=200), (RNG.random(400) > 0.5).astype(float)
    X_, y_ = torch.tensor(X), torch.tensor(y)

    def by_jax(jax: Any, w: Any) -> Any:
        z = X @ w
        return jax.numpy.mean(jax.numpy.logaddexp(0.0, z) - y * z)

    peers = hessians(
        lambda w: torch.nn.functional.binary_cross_entropy_with_logits(X_ @ w, y_), torch.tensor(w), by_jax
    )
    ours = lambda: symgrad.hessian(BCE, "w", X=X, w=w, y=y, check=False).value  # noqa: E731 -- one call, named
    aim = "8 × below torch.func.hessian later; first call 60 ms beyond the numbers"
    met = lambda first, later, found: found["torch.func.hessian"] >= 8 * later and first - later < 0.06  # noqa: E731 -- one call, named
    measured(benchmark, "Hessian of the logistic loss, 400×200", ours, peers, numbers, aim, met)


def test_formula_beside_tensorgrad(benchmark: Any) -> None:
    """tensorgrad's ∂(x@a)/∂x beside ours: δ·a both times. Its evaluation needs named tensors, which torch has no more."""

    def theirs() -> Callable[[], Any]:
        from tensorgrad import Derivative, Variable

        i, j, k = sp.symbols("i j k")
        return lambda: Derivative(Variable("x", i, j) @ Variable("a", j, k), Variable("x", i, j)).full_simplify()

    def same(mine: Any, found: Any) -> None:
        assert "".join(str(found).split()) == 'Product([Delta(i,"i,i_"),Variable("a",j,k),])'
        (delta, entry) = sorted(sp.Mul.make_args(mine), key=lambda factor: isinstance(factor, sp.Indexed))
        assert isinstance(delta, sp.KroneckerDelta)
        assert str(entry.base) == "a"

    ours = lambda: symgrad.jacobian("x@a", "x", check=False).formula  # noqa: E731 -- one call, named
    peers = {"tensorgrad": ("tensorgrad", theirs)}
    measured(benchmark, "formula of ∂(x@a)/∂x", ours, peers, same, "–", lambda first, later, found: True)
    FOUND.rows[-1].met = None


def test_explaining_with_check(benchmark: Any) -> None:
    """All oracles at full size."""
    shapes = {"x": (720, 720), "a": (720, 720)}
    symgrad.explain("sin(x)", x=[1.0])  # torch is loaded

    def ours() -> Any:
        found = symgrad.explain("x@a", shapes=shapes)
        assert found.passed
        return found.to_text()

    met = lambda first, later, found: first < 1  # noqa: E731 -- one call, named
    measured(benchmark, "`explain` of x@a at 720×720 with check, and its text", ours, {}, numbers, "1 s", met)


def processor_time(*arguments: str, **variables: str) -> float:
    """Of a fresh interpreter that writes and finds its bytecode."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | variables
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    ("arguments", "beside", "aim", "most"),
    [
        (("--help",), "import click", "0.08 s", None),
        (("derive", "x@a"), "import sympy, numpy, click", "1.8 × its imports", 1.8),
    ],
    ids=["help", "derive"],
)
def test_starting(
    benchmark: Any, tmp_path: Path, arguments: tuple[str, ...], beside: str, aim: str, most: float | None
) -> None:
    def ours() -> float:
        return processor_time("-m", "symgrad_cli", *arguments, PYTHONPYCACHEPREFIX=str(tmp_path))

    def theirs() -> float:
        return processor_time("-c", beside, PYTHONPYCACHEPREFIX=str(tmp_path))

    ours(), theirs()  # bytecode
    mine, imports = (statistics.median(call() for _ in range(5)) for call in (ours, theirs))
    met = mine <= most * imports if most else mine <= 0.08
    FOUND.rows.append(Row(f"`symgrad {' '.join(arguments)}`", None, mine, {f"`{beside}`": imports}, aim, met))
    benchmark.pedantic(ours, rounds=1)


def test_growth(benchmark: Any) -> None:
    """Exponents, not points."""

    def formula(n: int) -> Callable[[], Any]:
        return lambda: symgrad.jacobian("x@a", "x", shapes={"x": (n, n), "a": (n, n)}, check=False).formula

    def sparse(n: int) -> Callable[[], Any]:
        x = RNG.normal(size=(n, n))
        return lambda: symgrad.jacobian("tanh(x)", "x", x=x, check=False).sparse()

    def chain(n: int) -> Callable[[], Any]:
        text = ";".join(["h=x", *["h=tanh(h@w)"] * n, "sum(h)"])  # a text has at most 4,000 characters
        values = {"x": RNG.normal(size=(64, 64)), "w": RNG.normal(size=(64, 64)) / 8}
        return lambda: symgrad.vjp(text, "x", check=False, **values)

    def captured(n: int) -> Callable[[], Any]:
        model, seed = Deep(n), np.ones((16, 3))
        torch.nn.init.eye_(model.w)  # what flows back is still there at the end
        program = symgrad.capture(model, torch.randn(16, 3))
        return lambda: program.pullback(seed)

    def rows(
        work: str, call: Callable[[int], Callable[[], Any]], sizes: tuple[int, ...], counts: list[int], over: str
    ) -> None:
        times = in_turns({str(n): call(n) for n in sizes})
        FOUND.growth.append((f"time of {work}", exponent(counts, list(times.values())), 1, over))
        FOUND.growth.append((f"memory of {work}", exponent(counts, [peak(call(n)) for n in sizes]), 1, "the same"))

    sizes = (4, 32, 128, 512)
    found = in_turns({str(n): formula(n) for n in sizes})
    FOUND.growth.append(("time of a formula", exponent(sizes, list(found.values())), 0, "n = 4 to 512"))
    sides, lengths, depths = (1024, 1448, 2048, 2896), (40, 80, 160, 320), (100, 200, 400, 800)
    rows("sparse numbers", sparse, sides, [n * n for n in sides], "1,048,576 to 8,386,816 nonzeros")
    rows("vᵀJ of a text, derived on the way", chain, lengths, list(lengths), "80 to 640 steps")
    rows("vᵀJ of a captured program", captured, depths, list(depths), "200 to 1,600 steps")
    benchmark.pedantic(formula(4), rounds=1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0


def peak(call: Callable[[], Any]) -> float:
    """The most memory that Python held during a call, in bytes."""
    tracemalloc.start()
    call()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(found)
