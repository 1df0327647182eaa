"""What deriving one operation costs: `python -m pytest --benchmark-only -n 0 tests/benchmarks/test_derivations.py`.

The first example of each operation of the table, cold: the caches of symgrad's derivations and SymPy's own are
emptied before each, the libraries are loaded. Nothing is asserted about time; the aim is 20 ms for nine in ten.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from sympy.core.cache import clear_cache

import symgrad
from symgrad.calculus.differentiate import placeholder
from symgrad.calculus.local_derivatives import derive_local, local_pullback, standard
from symgrad.indexing.equation import canonical_sum, conditions_in, indices_in, is_open, stays
from symgrad.indexing.symbols import free_indices, tensor

AIM = 20.0
ROUNDS = 3


def forget() -> None:
    """Empty every cache that a derivation could find something in."""
    for cached in (derive_local, local_pullback, placeholder, canonical_sum, tensor):
        cached.cache_clear()
    for cached in (free_indices, indices_in, conditions_in, is_open, stays):
        cached.cache_clear()
    clear_cache()


def cold(op: Any) -> float:
    """Milliseconds of processor time for the derivatives and the pullbacks of the first example: the best of a few."""
    example = op.examples[0]
    program = symgrad.explain(example.text, shapes=dict(example.shapes), check=False).program
    step = next(s for s in program.steps if s.op == op.name)
    times = []
    for _ in range(ROUNDS):
        forget()
        start = time.process_time()
        key = standard(step, program).key
        for position in derive_local(key).derivatives:
            local_pullback(key, position)
        times.append(time.process_time() - start)
    return min(times) * 1e3


def test_deriving_an_operation(benchmark: Any, capsys: Any) -> None:
    """The share of the table under 20 ms, the median, and the ten that take longest."""
    table = {op.name: op for op in symgrad.operations()}
    cold(table["matmul"])
    taken = sorted(((cold(op), name) for name, op in table.items()), reverse=True)
    share = sum(milliseconds < AIM for milliseconds, _ in taken) / len(taken)
    median = statistics.median(milliseconds for milliseconds, _ in taken)
    benchmark.extra_info |= {"share": share, "median": median, "slowest": taken[:10]}
    benchmark.pedantic(lambda: cold(table["matmul"]), rounds=1)
    with capsys.disabled():
        print(
            f"\n{share:.1%} of {len(taken)} operations are derived in under {AIM:.0f} ms; the median is {median:.1f} ms"
        )
        print(f"slowest: {', '.join(f'{name} {milliseconds:.0f}' for milliseconds, name in taken[:10])}")
