"""Timings side by side, and the page that a run of the benchmarks writes.

Comes in: calls that give the same, ours first. Goes out: medians of processor time, taken in turns in one process, and
`docs/explanation/performance.md` with the machine, the versions and the date.
"""

from __future__ import annotations

import datetime
import importlib
import importlib.metadata
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "performance.md"
PACKAGES = ("numpy", "scipy", "sympy", "torch", "jax", "casadi", "symengine", "tensorgrad")
MISSING = "missing"
ENOUGH = 0.3
"""Seconds that a call is repeated for, at most `ROUNDS` times."""
ROUNDS = 15


@dataclass
class Row:
    """One workload: our first call and the later ones, in seconds, each peer's or why it has none, the aim and whether it was met."""

    work: str
    first: float | None
    later: float
    peers: dict[str, float | str]
    aim: str
    met: bool | None


@dataclass
class Page:
    """What one run found."""

    rows: list[Row] = field(default_factory=list)
    growth: list[tuple[str, float, float, str]] = field(default_factory=list)


FOUND = Page()


def seconds(call: Callable[[], Any]) -> float:
    """The processor time of one call: what else the machine does counts less."""
    start = time.process_time()
    call()
    return time.process_time() - start


def in_turns(calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
    """Median times of calls that take turns; what is slow has fewer turns."""
    once = {name: seconds(call) for name, call in calls.items()}
    rounds = max(1, min(ROUNDS, int(ENOUGH / max(max(once.values()), 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            many = max(1, min(20, int(1e-3 / max(once[name], 1e-9))))  # the clock is not finer
            times[name].append(seconds(lambda call=call, many=many: [call() for _ in range(many)]) / many)
    return {name: statistics.median(found) for name, found in times.items()}


def there(package: str) -> bool:
    """Whether a peer is installed."""
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of log cost against log size, by least squares."""
    x, y = [math.log(s) for s in sizes], [math.log(c) for c in costs]
    mean = statistics.fmean(x), statistics.fmean(y)
    above = sum((a - mean[0]) * (b - mean[1]) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean[0]) ** 2 for a in x)


def in_words(found: float | str) -> str:
    """A time, or why there is none."""
    if isinstance(found, str):
        return found
    return f"{found * 1e6:.0f} µs" if found < 1e-3 else f"{found * 1e3:.3g} ms" if found < 1 else f"{found:.3g} s"


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown: beside each peer's time how many times ours that is."""
    lines = ["| work | first call | later calls | peers | aim | met |", "| --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        peers = "; ".join(
            f"{name} {in_words(found)}" + ("" if isinstance(found, str) else f" (**{found / row.later:.3g} ×**)")
            for name, found in row.peers.items()
        )
        first = "" if row.first is None else in_words(row.first)
        met = {True: "yes", False: "no", None: ""}[row.met]
        lines.append(f"| {row.work} | {first} | {in_words(row.later)} | {peers or '–'} | {row.aim} | {met} |")
    return "\n".join(lines)


def own_times(found: Page) -> dict[str, float]:
    """Of every row with a peer how many times ours the first peer's is: what is kept of a run, to be compared with others."""
    peers = {
        row.work: (row.later, next((t for t in row.peers.values() if isinstance(t, float)), None)) for row in found.rows
    }
    return {work: theirs / later for work, (later, theirs) in peers.items() if theirs is not None}


def apart(runs: Sequence[Mapping[str, float]]) -> str:
    """How far the ratios of several runs lie apart, row by row; one run says nothing of it."""
    shared = set.intersection(*(set(run) for run in runs)) if runs else set()
    if len(runs) < 2 or not shared:
        return "How far runs differ was not measured: this is the only one."
    between = {work: max(run[work] for run in runs) / min(run[work] for run in runs) for work in shared}
    worst = max(between, key=lambda work: between[work])
    return (
        f"Runs differ: over the last {len(runs)} on this machine the largest ratio to the first peer is "
        f"{statistics.median(between.values()):.2f} times the smallest in the median row, and {between[worst]:.2f} times in the worst ({worst})."
    )


MISSED = """## Where an aim is missed

Runs of 25 November, on two cores that others used, too; "alone" is the workload in a process of its own.

- **Hessian of the logistic loss**: 5.4 to 7.9 × in turns with its peers, whose megabytes push X out of the processor's memory; alone 1.2 to 1.3 ms beside 13.3 ms, 10 ×. Xᵀ·diag(d)·X alone takes 0.67 ms: that is the floor. The rest is a copy of X (it may be changed before a number is asked for), the look at whether X is tame, the forward, and reading the question (0.1 ms).
- **Capture, 512 wide**: 2.7 to 3.0 ×. Of 123 ms alone, torch's forward is 50, the same from the equations 46, a copy of the parameters 12 (25 MB, so that the program stays what it is; nine tenths of that is memory that the system hands out for the first time), comparing 8. Two forwards are 2.1 ×. What would help is to compare a product along random directions instead of computing it again.
- **Capture of 300 steps of 3×3**: 80 ms alone, 130 µs an operation beyond two forwards, and as much however deep the stack is that calls it (each of the 40 frames of pytest around it used to cost 1.5 µs an operation: 117 ms). Beside other work 98 to 102 ms. Every sixth capture Python's collector walks over everything that is loaded, 120 ms.
- **`symgrad derive`**: 1.5 to 1.9 × its imports. Of some 270 ms of its own, the 300 entries of the table take 77, the other modules 110, the derivation 80. What `run` and `explain` keep for later runs are the lines of backwards; here it would save the derivation alone, so that 1.3 × is out of reach.
- **A text of 100 layers, first call**: 1.15 to 1.4 s. The collector takes 0.16 to 0.3 of it. Nobody gave the widths, so that they are 3, 4, 5, … and each of some 500 equations has a plan of its own (0.25 s); the formula of J in one piece grows to 240 nodes before it is given up (0.15 s). A later call takes 0.4 s.
- **The lines of a GPT, first call**: 1.7 s, beside other work 2.0.
- **LeNet on tensors** was 1.14 to 1.39 × torch's, where earlier runs had 1.4 to 1.8: each line of the backward is one call into torch of 2 to 4 µs, beside fused kernels."""
WHOLE = """## Whole commands

What is kept of speed is guarded in every run of CI: `python -m tests.benchmarks.guard` measures whole processes in turns with `import torch`, and is red where one takes 1.6 times the multiple that `tests/benchmarks/kept.txt` has for it.
A first story of a GPT of two layers takes 2.6 × `import torch`, a second one 1.7 ×; the aims are 3 × and 1.8 ×.

The second is shorter since `symgrad run` and `symgrad explain` keep what was derived and proven of the lines of a backward: text in the user's folder for caches, one file for each version of symgrad, Python, torch, SymPy and NumPy.
What holds for some data alone is proven again at the numbers at hand, and what torch added is compared in every run.
`--no-cache` keeps and knows nothing; `SYMGRAD_CACHE` names another folder, or none."""
FIXED = "vᵀJ of a text has a fixed part of some 0.1 s, the formula of J in one piece, which is tried before it is given up; each step adds 0.3 ms."
"""What the exponents do not show."""


def written(found: Page, runs: Sequence[Mapping[str, float]] = ()) -> str:
    """The page; ``runs`` are the ratios of this run and of those before it."""
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"{package} {MISSING}")
    growth = [f"| {what} | {slope:.2f} | {aim:.1f} | {how} |" for what, slope, aim, how in found.growth]
    return "\n".join([
        "# Performance", "",
        "Written by `python -m pytest --benchmark-only -n 0 tests/benchmarks`, which asserts of each workload that its peers give the same before it is timed.",
        "Processor time, medians, taken in turns in one process with one thread; the peers' columns say how many times ours theirs is.",
        "A first call derives, with every package loaded; nothing is asserted about time, so this page is what one run on one machine found.",
        apart(runs), "",
        f"{machine()}; {', '.join(versions)}; {datetime.date.today().isoformat()}.", "",
        table(found.rows), "", MISSED, "", WHOLE, "",
        "## Growth", "",
        "Exponents fitted over several sizes: 0 is the same at every size, 1 grows in proportion.", "",
        "| what | exponent | expected | over |", "| --- | --- | --- | --- |", *growth, "", FIXED, "",
    ])  # fmt: skip


def machine() -> str:
    """What it ran on."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"
