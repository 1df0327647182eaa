"""Are the tests any good? Random small changes in the source, each of which some test should see.

    python tests/mutation/draw.py --count 70 --seed 1 --output changes.jsonl
    python tests/mutation/mutate.py changes.jsonl --jobs 2 --output mutants.jsonl

The first command draws the changes and needs cosmic-ray; this one makes them, and needs what the tests need. Each change
is made in a copy of the tree, one copy a job, and the default tests run there until one fails: first the files that are
likely to see it, then all others, in groups. What is red without any change is found first and left out; ``--red``
keeps that list for another time. A change that was told is a line of the output, written at once: where it is, what it
is, and which test saw it; ``"seen": null`` is a survivor. Lines that are there already are not asked for again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
LIKELY = {
    "backward": ["test_backward", "test_templates", "test_story"],
    "calculus": ["test_indexing", "test_cookbook", "test_second_order"],
    "closed_form": ["test_cookbook", "test_closed_forms"],
    "indexing": ["test_indexing", "test_cookbook"],
    "language": ["test_language", "test_literals", "test_shortcuts"],
    "numeric": ["test_truth_values", "test_indexing", "test_ops_options", "test_tape"],
    "tracing": ["test_capture", "test_captured_calls", "test_run"],
}
"""The test files that are asked first, by the package that is changed."""
LONG = ["test_every_op", "test_forms_of_the_table", "test_random_expressions", "test_documentation", "test_render"]
"""Those that take longest are asked alone, and begin first."""
SHORT = 6
"""How many groups the others are asked in."""
TEN_MINUTES = 600.0


def test_files() -> list[str]:
    """Every file of tests, those that take longest first, and the packages, for the examples in their docstrings."""
    found = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))]
    order = {f"tests/{name}.py": number for number, name in enumerate(LONG)}
    return [*sorted(found, key=lambda f: order.get(f, len(LONG))), "symgrad", "cli"]


def groups(files: Sequence[str]) -> list[list[str]]:
    """Test files that are asked together: what is read to begin with is read once a group."""
    long, short = [f for f in files if Path(f).stem in LONG], [f for f in files if Path(f).stem not in LONG]
    return [*([f] for f in long), *(short[n::SHORT] for n in range(SHORT))]


def likely(change: dict[str, Any]) -> list[str]:
    """The test files that are asked first: the one called after the changed module, and those of its package."""
    names = [f"test_{Path(change['path']).stem}", *LIKELY.get(change["path"].split("/")[1], [])]
    return [file for file in dict.fromkeys(f"tests/{name}.py" for name in names) if (ROOT / file).exists()]


class Failures:
    """The tests, or files that cannot be read, that fail."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Asked by pytest after each test."""
        if report.failed and report.nodeid not in self.names:
            self.names.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """Asked by pytest after each file."""
        self.pytest_runtest_logreport(report)


def tested(copy: Path, files: Sequence[str], red: Sequence[str], stop: bool, output: Path) -> None:
    """In a process of its own: the tests of ``files`` in ``copy``, and the names of those that fail written down."""
    import pytest

    os.chdir(copy)
    sys.path[:0] = [str(copy), str(copy / "cli")]
    os.environ["PYTHONPATH"] = f"{copy}:{copy / 'cli'}"
    os.environ["OMP_NUM_THREADS"] = "1"
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    failures = Failures()
    settings = ["-n", "0", "-q", "-p", "no:cacheprovider", f"--basetemp={copy}.tmp", *(["-x"] if stop else [])]
    without = [f"--deselect={name}" if "::" in name else f"--ignore={name}" for name in red]
    asked = [file for file in files if file not in red]
    code = pytest.main([*settings, *without, *asked], plugins=[failures]) if asked else 0
    found = failures.names or ([] if code in (0, 5) else [f"pytest ended with {code}"])
    output.write_text("\n".join(found), encoding="utf-8")


def failures_in(copy: Path, files: Sequence[str], red: Sequence[str], stop: bool, seconds: float) -> list[str]:
    """The tests of ``files`` that fail in ``copy``; asked in a fork, so that torch and SymPy are loaded once."""
    output = Path(f"{copy}.failures")
    output.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            tested(copy, files, red, stop, output)
        finally:
            os._exit(0)
    until = time.monotonic() + seconds
    Worker.child = child
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > until:
            Worker.stop()
            os.waitpid(child, 0)
            return [f"still running after {seconds:.0f} s"]
        time.sleep(0.1)
    Worker.stop()
    return output.read_text(encoding="utf-8").splitlines() if output.exists() else ["the process died"]


class Worker:
    """What a job keeps: its own copy of the tree, and the process that runs the tests there."""

    copy: Path
    child: int | None = None

    @classmethod
    def begin(cls, folder: str) -> None:
        """Make the copy."""
        import scipy.special
        import sympy
        import torch

        assert all((scipy.special, sympy, torch))  # loaded before the forks
        signal.signal(signal.SIGTERM, cls.end)
        cls.copy = Path(folder) / str(os.getpid())
        left = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, cls.copy, ignore=left)

    @classmethod
    def stop(cls) -> None:
        """End the tests, with all that they have begun."""
        if cls.child is not None:
            with suppress(ProcessLookupError):
                os.killpg(cls.child, signal.SIGKILL)
            cls.child = None

    @classmethod
    def end(cls, *_: object) -> None:
        """The command itself is ended."""
        cls.stop()
        os._exit(1)


def asked(
    change: dict[str, Any] | None, files: Sequence[str], red: Sequence[str], seconds: float
) -> tuple[list[str], float]:
    """In a job: the tests that fail with ``change`` in its copy, the first one only, and how long that took."""
    begun = time.monotonic()
    if change is None:
        return failures_in(Worker.copy, files, red, False, seconds), time.monotonic() - begun
    path = Worker.copy / change["path"]
    text = path.read_text(encoding="utf-8")
    lines, first = text.splitlines(), change["first"] - 1
    assert lines[first : first + len(change["before"])] == change["before"], f"{change['path']} is not what it was"
    lines[first : first + len(change["before"])] = change["after"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        return failures_in(Worker.copy, files, red, True, seconds), time.monotonic() - begun
    finally:
        path.write_text(text, encoding="utf-8")


class Hunt:
    """The changes that are still to be told, and what is asked about each."""

    def __init__(self, pool: ProcessPoolExecutor, red: Sequence[str], seconds: float, output: Path) -> None:
        self.pool, self.red, self.seconds, self.output = pool, red, seconds, output
        self.waiting: dict[Future[tuple[list[str], float]], int] = {}
        self.changes: dict[int, dict[str, Any]] = {}

    def ask(self, number: int, groups: Sequence[Sequence[str]]) -> None:
        """Ask groups of test files about a change."""
        for files in groups:
            self.waiting[self.pool.submit(asked, self.changes[number], files, self.red, self.seconds)] = number

    def run(self, changes: Sequence[dict[str, Any]]) -> None:
        """Ask the likely files about every change, then all others about those that nobody saw."""
        self.changes = {change["number"]: change for change in changes}
        everyone: set[int] = set()
        for number, change in self.changes.items():
            self.ask(number, [likely(change)])
        while self.waiting:
            for future in wait(self.waiting, return_when=FIRST_COMPLETED).done:
                number = self.waiting.pop(future)
                if number not in self.changes or future.cancelled():
                    continue
                seen, took = future.result()
                left = [f for f, n in self.waiting.items() if n == number]
                if seen:
                    for other in left:
                        other.cancel()
                    self.told(number, seen[0], took)
                elif number not in everyone:
                    everyone.add(number)
                    self.ask(number, groups([f for f in test_files() if f not in likely(self.changes[number])]))
                elif not left:
                    self.told(number, None, took)

    def told(self, number: int, seen: str | None, took: float) -> None:
        """Write down what became of a change."""
        row = {**self.changes.pop(number), "seen": seen, "seconds": round(took, 1)}
        with self.output.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
        print(f"{number} {row['path']}:{row['first']}: {seen or 'SURVIVED'}, {len(self.changes)} to go", flush=True)


def red_without_change(pool: ProcessPoolExecutor, seconds: float) -> list[str]:
    """The tests that fail as it is: no change could be told by them."""
    futures = [pool.submit(asked, None, files, [], seconds) for files in groups(test_files())]
    found = [name for future in futures for name in future.result()[0]]
    if strange := [name for name in found if not name.startswith(("tests/", "symgrad/", "cli/"))]:
        sys.exit(f"the tests do not run here: {strange[0]}")
    return found


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, where there is one."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> None:
    """Make the changes, one after the other, and write what saw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", type=Path, help="what draw.py wrote")
    parser.add_argument("--only", type=int, action="append", help="the number of a change, more than once for several")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--seconds", type=float, default=TEN_MINUTES, help="after which a group of tests counts as red")
    parser.add_argument("--red", type=Path, help="tests to leave out, one a line; made where there is none")
    parser.add_argument("--output", type=Path, default=Path("mutants.jsonl"))
    chosen = parser.parse_args()
    known = {row["number"] for row in rows(chosen.output)}
    wanted = [
        c for c in rows(chosen.changes) if c["number"] not in known and c["number"] in (chosen.only or [c["number"]])
    ]
    context = get_context("fork")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(chosen.jobs, context, initializer=Worker.begin, initargs=(folder,)) as pool,
    ):
        if chosen.red and chosen.red.exists():
            red = chosen.red.read_text(encoding="utf-8").splitlines()
        else:
            red = red_without_change(pool, chosen.seconds)
            if chosen.red:
                chosen.red.write_text("\n".join(red), encoding="utf-8")
        print(f"{len(red)} tests are red without any change and are left out", *red[:20], sep="\n  ", flush=True)
        Hunt(pool, red, chosen.seconds, chosen.output).run(wanted)


if __name__ == "__main__":
    main()
