"""What things cost, as ratios measured in one run: `python -m pytest --benchmark-only -n 0 tests/benchmarks`.

Nothing is asserted about time. Whole commands are compared with importing the libraries they need; the
derivation of x@a with SymPy's own explicit Jacobian; `extra_info` and the printed lines hold the ratios.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

from symgrad.calculus import pullback
from symgrad.calculus.local_derivatives import derive_local, local_pullback, local_pushforward
from symgrad.explanation import Explanation, Given, Seed, build
from symgrad.language import read_program

ROUNDS = 5
ROOT = Path(__file__).resolve().parents[2]


def seconds(call: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """The median time of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def processor_seconds(call: Callable[[], Any]) -> float:
    """The processor time that a call's child processes took: what else the machine does counts less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def command(*arguments: str) -> Callable[[], Any]:
    """A whole process, with bytecode kept as it is where symgrad is installed: all sides load compiled modules."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    paths = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    return lambda: subprocess.run(
        [sys.executable, *arguments], check=True, capture_output=True, env=kept | {"PYTHONPATH": paths}
    )


@pytest.mark.parametrize(
    ("name", "arguments", "imports", "aim"),
    [
        ("without check", ("--no-check",), "import sympy, numpy, click", 2.0),
        ("with check", (), "import sympy, torch", 1.3),
    ],
    ids=["without-check", "with-check"],
)
def test_whole_command(
    benchmark: Any, capsys: Any, name: str, arguments: tuple[str, ...], imports: str, aim: float
) -> None:
    """The forum example against importing its libraries, in turns, in processor time."""
    explain = command("-m", "symgrad_cli", "explain", "x@a", "--seed", "[[1,2,3,4],[5,6,7,8]]", *arguments)
    bare = command("-c", imports)
    explain()
    taken = [(processor_seconds(explain), processor_seconds(bare)) for _ in range(ROUNDS)]
    whole, base = (statistics.median(times) for times in zip(*taken, strict=True))
    benchmark.extra_info["ratio"] = whole / base
    benchmark.pedantic(explain, rounds=1)
    with capsys.disabled():
        print(f"\n{name}: {whole / base:.2f} times `{imports}` ({whole:.2f} s, {base:.2f} s); the aim is {aim}")


def forget() -> None:
    """Empty the caches, so that a derivation is made again."""
    for cached in (derive_local, local_pullback, local_pushforward):
        cached.cache_clear()


def test_deriving_does_not_grow_with_n(benchmark: Any, capsys: Any) -> None:
    """The formula of x@a at n = 2, 32, 1024, cold, against SymPy's explicit Jacobian at n = 4, 8, 12."""

    def formula(n: int) -> Callable[[], Any]:
        program = read_program("x@a", shapes={"x": (n, n), "a": (n, n)}).program

        def run() -> None:
            forget()
            pullback(program, "x")

        return run

    def explicit(n: int) -> Callable[[], Any]:
        x, a = (sp.Matrix(n, n, lambda i, j, c=c: sp.Symbol(f"{c}{i}_{j}")) for c in "xa")
        return lambda: sp.Matrix((x * a).reshape(n * n, 1)).jacobian(x.reshape(n * n, 1))

    formula(2)()
    derived = {n: seconds(formula(n), 15) for n in (2, 32, 1024)}
    written = {n: seconds(explicit(n), 1) for n in (4, 8, 12)}
    benchmark.pedantic(formula(32), rounds=ROUNDS)
    benchmark.extra_info |= {"formula": derived, "explicit": written}
    with capsys.disabled():
        print(f"\nthe formula of x@a by x:    {', '.join(f'n={n} {s * 1e3:.1f} ms' for n, s in derived.items())}")
        print(f"SymPy's Matrix.jacobian:     {', '.join(f'n={n} {s * 1e3:.0f} ms' for n, s in written.items())}")


def test_filling_the_table(benchmark: Any, capsys: Any) -> None:
    """The numbers of the 1024×1024 Jacobian of x@a at n = 32, from the formula."""
    n = 32
    program = read_program("x@a", shapes={"x": (n, n), "a": (n, n)}).program
    inputs = [Given(t.name, _counted(n), True, True) for t in program.inputs]
    story: Explanation = build("x@a", program, inputs, Seed(_counted(n), "given", ""), ("x",), check=False)
    jacobian = story.gradients["x"].jacobian
    benchmark.pedantic(lambda: type(jacobian)(**_fields(jacobian)).sparse(), rounds=ROUNDS, warmup_rounds=1)
    with capsys.disabled():
        print(
            f"\nthe {'×'.join(map(str, jacobian.shape))} Jacobian in numbers: {benchmark.stats.stats.median * 1e3:.0f} ms"
        )


def _counted(n: int) -> Any:
    """The numbers 0, 1, 2, … as a matrix."""
    import numpy as np

    return np.arange(n * n).reshape(n, n)


def _fields(jacobian: Any) -> dict[str, Any]:
    """A Jacobian's fields, for one without its cached numbers."""
    return {name: getattr(jacobian, name) for name in jacobian.__dataclass_fields__}
