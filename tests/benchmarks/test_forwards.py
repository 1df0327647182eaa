"""What an operation's own equation costs as a plan beside NumPy: `python -m pytest --benchmark-only -n 0 tests/benchmarks`.

About 10⁶ entries with random signs, processor time, the best of several turns in one process; the numbers are compared
first. The aim is 1.5 times what a person would write in NumPy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from symgrad.calculus import standard
from symgrad.calculus.local_derivatives import derive_local
from symgrad.indexing.symbols import names_read, number
from symgrad.language import read_program
from symgrad.numeric.playing import run_plan
from tests.compare import assert_same

Call = Callable[[Any], Any]
N = 1000
WORK: dict[str, tuple[str, Call]] = {
    "relu": ("relu(x)", lambda x: np.maximum(x, 0)),
    "leaky_relu": ("F.leaky_relu(x)", lambda x: np.where(x > 0, x, 0.01 * x)),
    "clamp": ("clamp(x, -1, 1)", lambda x: np.clip(x, -1, 1)),
    "hardswish": ("F.hardswish(x)", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "gelu": ("gelu(x)", lambda x: x * 0.5 * (1 + special.erf(x / np.sqrt(2)))),
    "softmax": ("softmax(x, dim=1)", lambda x: special.softmax(x, axis=1)),
    "logsumexp": ("logsumexp(x, dim=1)", lambda x: special.logsumexp(x, axis=1)),
    "cumsum": ("cumsum(x, 1)", lambda x: np.cumsum(x, 1)),
    "cumprod": ("cumprod(x, 0)", lambda x: np.cumprod(x, 0)),
    "reshape": ("x.reshape(-1)", lambda x: x.reshape(-1)),
    "cat": ("cat([x, x], dim=1)", lambda x: np.concatenate([x, x], 1)),
    "pad, reflect": ('F.pad(x, (1, 2), mode="reflect")', lambda x: np.pad(x, ((0, 0), (1, 2)), mode="reflect")),
    "roll": ("roll(x, 2)", lambda x: np.roll(x, 2)),
    "repeat": ("x.repeat(2, 1)", lambda x: np.tile(x, (2, 1))),
    "tril": ("tril(x)", np.tril),
    "layer_norm": ("layer_norm(x)", lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)),
}
"""By name: the text, and NumPy's own."""


def best(call: Callable[[], Any]) -> float:
    """The processor time of the quickest of nine calls."""
    times = []
    for _ in range(9):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("name", WORK)
def test_a_forward_by_its_equation(name: str, benchmark: Any) -> None:
    text, peer = WORK[name]
    x = np.random.default_rng(0).standard_normal((N, N))
    program = read_program(text, shapes={"x": x.shape}).program
    step = next(step for step in program.steps if step.result.name == program.output)
    form = standard(step, program)
    equation = derive_local(form.key).equation
    sizes = {own: number(size, program.sizes) for own, size in form.sizes.items()}
    arrays = {own: x for own, name in form.names.items() if own in names_read(equation.right)}
    assert_same(peer(x), run_plan(equation, arrays, sizes), tolerance=1e-10)
    mine, theirs = best(lambda: run_plan(equation, arrays, sizes)), best(lambda: peer(x))
    print(
        f"\n{name}: {mine / max(theirs, 1e-5):.2f} times NumPy ({mine * 1e3:.2f} and {theirs * 1e3:.2f} ms; the aim is 1.5)"
    )
    benchmark.pedantic(lambda: run_plan(equation, arrays, sizes), rounds=1, iterations=1)
