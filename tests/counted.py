"""What calls cost, counted in a process of their own: ``python -m tests.counted`` prints JSON.

Each call is made once before at a small size, so that what is derived once is there, and counted then at two sizes. Counted: forward passes, sweeps, readings of a text, SymPy objects made, the most bytes that were held at
once, and the Python objects that what comes out holds.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
import torch

import symgrad
from symgrad.api import plans
from symgrad.tracing import run_script

WARM, SIZES = 48, {"small": 60, "large": 480}
"""Rows and columns of the matrices."""
COUNTED = {
    "forward passes": ("symgrad.numeric.forward_pass", "forward"),
    "sweeps": ("symgrad.numeric.vector_products", "numeric_pullback"),
    "readings": ("symgrad.language.inference", "parse_pasted_script"),
    "sweeps in symbols": ("symgrad.calculus.reverse_sweep", "reverse"),
}
SCRIPT = """
import torch
w = torch.full(({n}, {n}), 0.01, requires_grad=True)
torch.tanh(torch.ones({n}, {n}) @ w).sum().backward()
"""


def matrix(n: int) -> np.ndarray:
    """Numbers between −1 and 1, none of them whole."""
    return np.linspace(-0.91, 0.93, n * n).reshape(n, n)


def script(n: int) -> None:
    """What ``symgrad run`` does with one backward."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        path = Path(folder) / "script.py"
        path.write_text(SCRIPT.format(n=n), encoding="utf-8")
        run_script(str(path), [])


def captured(n: int) -> Any:
    """A captured program and its backward."""
    w = torch.from_numpy(matrix(n))
    program = symgrad.capture(lambda x: torch.tanh(x @ w).sum(), torch.from_numpy(matrix(n)))
    return program, program.backward()


CALLS: dict[str, Callable[[int], Any]] = {
    "explain shapes": lambda n: symgrad.explain("x@a", shapes={"x": (n, n), "a": (n, n)}),
    "explain": lambda n: symgrad.explain("softmax(x @ a, -1)", x=matrix(n), a=matrix(n)),
    "explain in part": lambda n: symgrad.explain("x[0, :2] * 2", x=matrix(n)),
    "explain nested sums": lambda n: symgrad.explain("F.cross_entropy(x, t)", x=matrix(n), t=np.arange(n) % 3),
    "explain text": lambda n: symgrad.explain("tanh(x)", x=matrix(n)).to_text(),
    "sparse": lambda n: symgrad.jacobian("tanh(x)", "x", x=matrix(n)).sparse(),
    "plan": lambda n: plans("tanh(x)", {"x": matrix(n)}),
    "derive": lambda n: symgrad.derive("tanh(x @ a)", shapes={"x": (n, n), "a": (n, n)}),
    "vjp": lambda n: symgrad.vjp("(x @ a).sum(0)", "x", x=matrix(n), a=matrix(n)),
    "hvp": lambda n: symgrad.hvp("(tanh(x)**2).sum()", "x", matrix(n), x=matrix(n)),
    "capture": captured,
    "run": script,
}


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """What is called while it lasts, wherever it was imported to."""
    found: Counter[str] = Counter()
    undo: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, new: Any) -> None:
        undo.append((owner, name, vars(owner)[name]))
        setattr(owner, name, new)

    for what, (module, name) in COUNTED.items():
        own = getattr(importlib.import_module(module), name)

        def counted(*args: Any, own: Any = own, what: str = what, **options: Any) -> Any:
            found[what] += 1
            return own(*args, **options)

        for user in [m for n, m in sys.modules.items() if n.startswith("symgrad") and vars(m).get(name) is own]:
            put(user, name, counted)
    basic = sp.Basic.__new__

    def made(cls: Any, *args: Any) -> Any:
        found["SymPy objects"] += 1
        return basic(cls, *args)

    put(sp.Basic, "__new__", staticmethod(made))
    try:
        yield found
    finally:
        for owner, name, old in reversed(undo):
            setattr(owner, name, old)


def count(call: Callable[[int], Any], n: int) -> dict[str, int]:
    """The counts of a call that was made before, at another size."""
    call(WARM)
    with counting() as found:
        call(n)  # and what a size loads for the first time is there
    gc.collect()
    gc.freeze()  # what stays is half a million objects: each further search would look through them
    blocks = sys.getallocatedblocks()
    result = call(n)
    gc.collect()
    held = sys.getallocatedblocks() - blocks
    del result
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    call(n)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return {**{what: found[what] for what in (*COUNTED, "SymPy objects")}, "objects held": held, "bytes": peak}


if __name__ == "__main__":
    counts = {name: {size: count(call, n) for size, n in SIZES.items()} for name, call in CALLS.items()}
    sys.stdout.write(json.dumps(counts))
