"""Are the tests any good? Random small changes in the source, each of which some test should see.

    python tests/mutation/draw.py --count 70 --seed 1 --output changes.jsonl
    python tests/mutation/mutate.py changes.jsonl --jobs 2 --output mutants.jsonl

The first command draws the changes and needs cosmic-ray; this one makes them, and needs what the tests need. First the
default tests run once without any change, and it is noted which of them run which changed lines (`record.py`);
``--record`` keeps that for another time. Then each change is made in a copy of the tree, one copy a job, and the tests
that run it are asked there, the quickest first, until one fails; what no test in this process can tell, since it starts
another, is asked last. That is the whole default suite, less what cannot see the change. A change that was told is a
line of the output, written at once: where it is, what it is, and which test saw it; ``"seen": null`` is a survivor.
Lines that are there already are not asked for again. ``--whole`` asks every test about a change, to hold one way
against the other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from record import Record

ROOT = Path(__file__).resolve().parent.parent.parent
FILES, FIRST = 3, 20
"""Of how many files how many tests are asked first: most changes are seen by one of them, and few files are read."""
MEMORY = 16 << 30
"""Addresses that a process of tests may have: a change may make a size without bounds."""


class Chosen:
    """A plugin of pytest: the tests that are asked, in this order, and which of them failed."""

    def __init__(self, names: Sequence[str]) -> None:
        self.order = {name: number for number, name in enumerate(names)}
        self.failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave out all others."""
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in self.order])
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Asked by pytest after each test."""
        if report.failed and report.nodeid not in self.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        """Asked by pytest after each file."""
        self.pytest_runtest_logreport(report)


def tests(copy: Path, plugin: object, *arguments: str) -> int:
    """Run pytest on a copy of the tree, in this process, and print nothing."""
    os.chdir(copy)
    sys.path[:0] = [str(copy), str(copy / "cli")]
    os.environ["PYTHONPATH"] = f"{copy}:{copy / 'cli'}"
    os.environ["OMP_NUM_THREADS"] = "1"
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    settings = ["-n", "0", "-q", "-p", "no:cacheprovider", f"--basetemp={copy}.tmp"]
    return pytest.main([*settings, *arguments], plugins=[plugin])


def recorded(copy: Path, changes: Sequence[dict[str, Any]], output: Path, where: str | None) -> None:
    """Which of the tests, the default ones or those of one folder, run which changes, as a file."""
    record = Record(copy, changes)
    record.install()
    # without plain assertions pytest reads symgrad's files itself, for its plugin
    if tests(copy, record, "--assert=plain", *([where] if where else [])) in (0, 1):
        record.write(output)


def seen(copy: Path, names: Sequence[str], output: Path, stop: bool = True) -> None:
    """Ask these tests, until the first that fails, and write its name."""
    plugin = Chosen(names)
    files = dict.fromkeys(name.partition("::")[0] for name in names)
    code = tests(copy, plugin, *(["-x"] if stop else []), *files)
    found = plugin.failed or ([] if code in (0, 5) else [f"pytest ended with {code}"])
    output.write_text("\n".join(found), encoding="utf-8")


def record_of(changes: Sequence[dict[str, Any]], output: Path, folder: str, where: str | None) -> None:
    """Record the tests; one that fails only while it is recorded, counts calls say, is asked about every change."""
    Worker.begin(folder)
    Worker.run(7200, lambda: recorded(Worker.copy, changes, output, where))
    found = json.loads(output.read_text(encoding="utf-8")) if output.exists() else {}
    if not any(test["runs"] for test in found.get("tests", {}).values()):
        sys.exit("the tests do not run here, or none runs a change")
    red = found["red"]
    if red:
        failures = Path(f"{Worker.copy}.failures")
        Worker.run(7200, lambda: seen(Worker.copy, red, failures, stop=False))
        found["red"] = failures.read_text(encoding="utf-8").splitlines()
        found["apart"] = sorted({*found["apart"], *red} - {*found["red"]})
        output.write_text(json.dumps(found), encoding="utf-8")


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

    @classmethod
    def run(cls, seconds: float, work: Callable[[], None]) -> None:
        """Do ``work`` in a fork, so that torch and SymPy are loaded once, within so much processor time."""
        child = os.fork()
        if child == 0:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            try:
                work()
            finally:
                os._exit(0)
        cls.child = child
        until = time.monotonic() + 20 * seconds  # what waits uses no processor time
        while os.waitpid(child, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                cls.stop()
                os.waitpid(child, 0)
            time.sleep(0.1)
        cls.stop()


def asked(change: dict[str, Any], names: Sequence[str], seconds: float) -> tuple[str | None, float]:
    """In a job: the first of these tests that fails with ``change`` in its copy, and how long that took."""
    begun = time.monotonic()
    path, output = Worker.copy / change["path"], Path(f"{Worker.copy}.failures")
    text = path.read_text(encoding="utf-8")
    lines, first = text.splitlines(), change["first"] - 1
    assert lines[first : first + len(change["before"])] == change["before"], f"{change['path']} is not what it was"
    lines[first : first + len(change["before"])] = change["after"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    output.unlink(missing_ok=True)
    try:
        Worker.run(120 + 10 * seconds, lambda: seen(Worker.copy, names, output))
        found = output.read_text(encoding="utf-8").splitlines() if output.exists() else ["the process died"]
    finally:
        path.write_text(text, encoding="utf-8")
    return (found[0] if found else None), time.monotonic() - begun


def groups(record: dict[str, Any], number: int, whole: bool) -> list[list[str]]:
    """The tests that are asked about a change: the quickest of the files that run it most often, then all others."""
    red, apart = set(record["red"]), set(record["apart"])
    every = {name: test["seconds"] for name, test in record["tests"].items() if name not in red}
    if not whole and number not in record["everywhere"]:
        every = {n: s for n, s in every.items() if number in record["tests"][n]["runs"] or n in apart}
    names = sorted(every, key=lambda name: (name in apart, every[name]))
    by_file: dict[str, list[str]] = {}
    for name in names:
        if name not in apart:
            by_file.setdefault(name.partition("::")[0], []).append(name)
    files = sorted(by_file.values(), key=len, reverse=True)[:FILES]
    first = sorted((n for file in files for n in file[:FIRST]), key=every.__getitem__)
    return [first, [name for name in names if name not in set(first)]]


class Hunt:
    """The changes that are still to be told, and the questions about them that wait for an answer."""

    def __init__(self, pool: ProcessPoolExecutor, record: dict[str, Any], whole: bool, output: Path) -> None:
        self.pool, self.record, self.whole, self.output = pool, record, whole, output
        self.waiting: dict[Future[tuple[str | None, float]], tuple[dict[str, Any], list[list[str]]]] = {}

    def ask(self, change: dict[str, Any], names: list[str], later: list[list[str]]) -> None:
        """Ask tests about a change, and keep the others for later."""
        seconds = sum(self.record["tests"][name]["seconds"] for name in names)
        self.waiting[self.pool.submit(asked, change, names, seconds)] = change, later

    def run(self, changes: Sequence[dict[str, Any]]) -> None:
        """Ask the first tests about every change, then all others about those that none of them saw."""
        left = len(changes)
        for change in changes:
            first, *later = [g for g in groups(self.record, change["number"], self.whole) if g] or [[]]
            self.ask(change, first, later)
        while self.waiting:
            for future in wait(self.waiting, return_when=FIRST_COMPLETED).done:
                (change, later), (name, took) = self.waiting.pop(future), future.result()
                if name is None and later:
                    self.ask(change, later[0], later[1:])
                    continue
                left -= 1
                row = {**change, "seen": name, "seconds": round(took, 1)}
                with self.output.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                print(f"{row['number']} {row['path']}:{row['first']}: {name or 'SURVIVED'}, {left} to go", flush=True)


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, where there is one."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> None:
    """Make the changes, one after the other, and write what saw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("changes", type=Path, help="what draw.py wrote")
    parser.add_argument("--only", type=int, action="append", help="the number of a change, more than once for several")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--record", type=Path, help="which tests run which changes; made where there is none")
    parser.add_argument("--tests", help="a folder or file of tests that is asked instead of all, tests/contract say")
    parser.add_argument("--whole", action="store_true", help="ask every default test, not only those that run a change")
    parser.add_argument("--output", type=Path, default=Path("mutants.jsonl"))
    chosen = parser.parse_args()
    changes = rows(chosen.changes)
    known = {row["number"] for row in rows(chosen.output)}
    wanted = [c for c in changes if c["number"] not in known and c["number"] in (chosen.only or [c["number"]])]
    with tempfile.TemporaryDirectory() as folder:
        record = chosen.record or Path(folder) / "record.json"
        if not record.exists():
            record_of(changes, record.absolute(), folder, chosen.tests)
        notes = json.loads(record.read_text(encoding="utf-8"))
        red = sorted(notes["red"])
        print(f"{len(red)} tests are red without any change and are left out", *red[:20], sep="\n  ", flush=True)
        with ProcessPoolExecutor(
            chosen.jobs, get_context("fork"), initializer=Worker.begin, initargs=(folder,)
        ) as pool:
            Hunt(pool, notes, chosen.whole, chosen.output).run(wanted)


if __name__ == "__main__":
    main()
