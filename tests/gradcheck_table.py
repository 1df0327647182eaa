"""The corpus of faulty backwards under plain gradcheck: what it misses, and what it takes.

``python -m tests.gradcheck_table > docs/reference/backward-checks.md`` writes the page.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from symgrad.testing import check_backward
from tests.candidates import Candidate
from tests.correct_backwards import CORRECT, Softmax
from tests.faulty_backwards import FAULTS

HEAD = """# The corpus under gradcheck

{faults} backwards with one fault each, and {right} that are right (`tests/faulty_backwards.py`, `tests/correct_backwards.py`), on torch {torch}.
Under `assert_backward` every fault is caught, {named} are named as a reader would name them, and none of the right ones is accused.
`torch.autograd.gradcheck`, with its defaults and inputs in double precision, passes {missed} of the {torch_faults} faults that are torch functions, and refuses {refused} of the {torch_right} right ones.
One check of a custom 3×4 softmax takes {ratio:.1f} times gradcheck's processor time (the median of {rounds} rounds, formulas known; the first check of a process derives them).

Written by `python -m tests.gradcheck_table > docs/reference/backward-checks.md`.

| Fault | `assert_backward` | `gradcheck` |
|---|---|---|
"""
ROUNDS = 25


def under_gradcheck(candidate: Candidate) -> str:
    """``passes``, ``caught``, or what it raises."""
    given = candidate.inputs()
    wanted = candidate.options.get("wrt", ",".join(given))

    def double(name: str, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        return value.detach().double().clone().requires_grad_(name in wanted.split(","))

    inputs = tuple(double(name, value) for name, value in given.items())
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            found = torch.autograd.gradcheck(candidate.fn, inputs, raise_exception=True)
        except torch.autograd.gradcheck.__globals__["GradcheckError"]:
            return "caught"
        except Exception as error:  # what a candidate does
            return f"raises {type(error).__name__}"
    return "passes" if found else "caught"


def processor_time(call: Callable[[], object]) -> float:
    """The median of some rounds."""
    call()
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return sorted(times)[ROUNDS // 2]


def ratio() -> float:
    """One check of a custom 3×4 softmax, relative to gradcheck of the same."""
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    leaf = x.clone().requires_grad_()
    ours = processor_time(lambda: check_backward(Softmax.apply, "softmax(x, dim=-1)", x=x))
    return ours / processor_time(lambda: torch.autograd.gradcheck(Softmax.apply, (leaf,)))


def page() -> str:
    """The page as Markdown."""
    rows, missed, named, cost = [], 0, 0, ratio()  # first: what the corpus leaves behind slows Python down
    torch_faults = [c for c in FAULTS if not isinstance(c.fn, tuple)]
    for candidate in FAULTS:
        report = candidate.report()
        kind = report.findings[0].kind
        named += kind in candidate.kinds
        theirs = "–" if isinstance(candidate.fn, tuple) else under_gradcheck(candidate)
        missed += theirs == "passes"
        rows.append(f"| {candidate.name} | {kind} | {'**passes**' if theirs == 'passes' else theirs} |")
    functions = [c for c in CORRECT if not isinstance(c.fn, tuple)]
    refused = sum(under_gradcheck(c) != "passes" for c in functions)
    head = HEAD.format(
        faults=len(FAULTS), right=len(CORRECT), torch=torch.__version__.split("+")[0], named=named, missed=missed,
        torch_faults=len(torch_faults), torch_right=len(functions), refused=refused, ratio=cost, rounds=ROUNDS,
    )  # fmt: skip
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
