"""Are the tests any good? Random small changes in the source, each of which some test should see.

    PYTHONPATH=. python tests/mutation/mutate.py --count 60 --seed 1 --output mutants.jsonl

A change is one of cosmic-ray's: another sign, comparison, constant or condition. It is made in a copy of the tree, and
the default tests run there until one fails, those first that are likely to see it. Each change is a line of the output:
where it is, what it is, and which test saw it; ``"seen": null`` is a survivor. ``--at FILE:NUMBER`` makes one of them
again, ``--all`` has the rest of the suite run as well where the likely tests see nothing.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import cosmic_ray.plugins as plugins
import parso
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = {
    "indexing": ["test_indexing", "test_cookbook", "test_closed_forms"],
    "calculus": ["test_indexing", "test_cookbook", "test_second_order", "test_closed_forms"],
    "closed_form": ["test_cookbook", "test_closed_forms"],
    "numeric": ["test_truth_values", "test_indexing", "test_ops_options", "test_oracles"],
    "language": ["test_language", "test_literals", "test_shortcuts", "test_input_names"],
    "tracing": ["test_capture", "test_captured_calls", "test_complex_programs", "test_run"],
}
"""What is changed, and the test files that are asked first."""
OPERATORS = re.compile(
    r"core/(ReplaceBinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod)_(Add|Sub|Mul|Div|FloorDiv)$"
    r"|ReplaceComparisonOperator|ReplaceUnaryOperator|NumberReplacer|AddNot"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd)"
)
"""Signs, comparisons, constants and conditions; not ``|``, which mostly stands in annotations."""
SECONDS = 1800
"""A change that makes the tests run for ever is seen, too."""


@dataclass(frozen=True)
class Change:
    """One change: the file, cosmic-ray's operator, and which of the places it fits."""

    path: str
    operator: str
    occurrence: int


@cache
def changes(path: Path) -> list[Change]:
    """Every change of a file."""
    tree = parso.parse(path.read_text(encoding="utf-8"))
    found = []
    for name in sorted(plugins.operator_names()):
        if OPERATORS.match(name):
            operator = plugins.get_operator(name)()
            count = sum(len(list(operator.mutation_positions(node))) for node in nodes(tree))
            found += [Change(str(path.relative_to(ROOT)), name, n) for n in range(count)]
    return found


def nodes(node: parso.tree.NodeOrLeaf) -> Iterator[parso.tree.NodeOrLeaf]:
    """``node`` and all below it."""
    yield node
    for child in getattr(node, "children", ()):
        yield from nodes(child)


def drawn(count: int, generator: random.Random) -> list[Change]:
    """So many changes: a package, a file of it by its length, a kind of change, a place, each at random."""
    found: list[Change] = []
    while len(found) < count:
        package = sorted(PACKAGES)[len(found) % len(PACKAGES)]
        files = sorted((ROOT / "symgrad" / package).rglob("*.py"))
        (path,) = generator.choices(files, weights=[f.stat().st_size for f in files])
        kinds: dict[str, list[Change]] = {}
        for change in changes(path):
            kinds.setdefault(change.operator.split("_")[0], []).append(change)
        if not kinds:
            continue
        change = generator.choice(kinds[generator.choice(sorted(kinds))])
        text = path.read_text(encoding="utf-8")
        if change not in found and compiles(mutated(change, text)):
            found.append(change)
    return found


def compiles(text: str | None) -> bool:
    """Whether a change leaves Python; ``x not != y`` is none."""
    try:
        compile(text or "", "mutant", "exec")
    except SyntaxError:
        return False
    return bool(text)


def mutated(change: Change, text: str) -> str | None:
    """The text with the change in it."""
    return mutate_code(text, plugins.get_operator(change.operator)(), change.occurrence)


def shown(change: Change, text: str, after: str) -> str:
    """The lines that differ."""
    lines = difflib.unified_diff(text.splitlines(), after.splitlines(), n=0, lineterm="")
    return "\n".join(line for line in lines if not line.startswith(("---", "+++")))


def files_for(change: Change) -> tuple[list[str], list[str]]:
    """The test files that are likely to see it, and the others."""
    package = change.path.split("/")[1]
    first = [f"tests/{name}.py" for name in PACKAGES[package]]
    everything = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests").rglob("test_*.py"))]
    table = ["tests/test_every_op.py", "tests/test_forms_of_the_table.py"]
    others = [*table, *(f for f in everything if f not in first + table), "symgrad", "cli"]
    return [f for f in first if f in everything], others


class Seen:
    """The first test that fails."""

    def __init__(self) -> None:
        self.name: str | None = None

    def pytest_runtest_logreport(self, report: object) -> None:
        """Asked by pytest after each test."""
        if self.name is None and getattr(report, "failed", False):
            self.name = str(getattr(report, "nodeid", ""))

    def pytest_collectreport(self, report: object) -> None:
        """Asked by pytest after each file."""
        self.pytest_runtest_logreport(report)


def tested(copy: Path, stages: Sequence[Sequence[str]], output: Path) -> None:
    """In a process of its own: run the stages in ``copy`` until a test fails, and write down which."""
    import pytest

    os.chdir(copy)
    sys.path[:0] = [str(copy), str(copy / "cli")]
    os.environ["PYTHONPATH"] = f"{copy}:{copy / 'cli'}"
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        for stage in stages:
            seen = Seen()
            code = pytest.main(["-x", "-n", "0", "-q", "-p", "no:cacheprovider", *stage], plugins=[seen])
            if code not in (0, 5) or seen.name:
                output.write_text(seen.name or f"pytest ended with {code}", encoding="utf-8")
                return
        output.write_text("", encoding="utf-8")


def seen_by(copy: Path, stages: Sequence[Sequence[str]]) -> str | None:
    """The test that sees what is changed in ``copy``; a fork, so that torch and SymPy are loaded once."""
    output = copy / "seen.txt"
    output.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        try:
            tested(copy, stages, output)
        finally:
            os._exit(0)
    until = time.monotonic() + SECONDS
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"still running after {SECONDS} s"
        time.sleep(0.2)
    return (output.read_text(encoding="utf-8") or None) if output.exists() else "the process died"


def main() -> None:
    """Draw, change, test, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--all", action="store_true", help="the rest of the suite, too, where the likely tests see nothing"
    )
    parser.add_argument("--at", help="one change: FILE:OPERATOR:OCCURRENCE")
    parser.add_argument("--output", type=Path, default=Path("mutants.jsonl"))
    chosen = parser.parse_args()
    import scipy.special
    import sympy
    import torch

    assert all((scipy.special, sympy, torch))  # loaded before the forks
    if chosen.at:
        path, operator, occurrence = chosen.at.split(":")
        todo = [Change(path, operator, int(occurrence))]
    else:
        todo = drawn(chosen.count, random.Random(chosen.seed))
    with tempfile.TemporaryDirectory() as folder, chosen.output.open("a", encoding="utf-8") as lines:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache"))
        asked = sorted({f for change in todo for f in files_for(change)[0]})
        if (red := seen_by(copy, [asked])) is not None:
            sys.exit(f"{red} is red as it is: no change could be told from none")
        for number, change in enumerate(todo, 1):
            text = (ROOT / change.path).read_text(encoding="utf-8")
            after = mutated(change, text) or text
            (copy / change.path).write_text(after, encoding="utf-8")
            likely, others = files_for(change)
            seen = seen_by(copy, [likely, others] if chosen.all else [likely])
            (copy / change.path).write_text(text, encoding="utf-8")
            row = {**asdict(change), "lines": shown(change, text, after), "seen": seen}
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")
            lines.flush()
            print(f"{number}/{len(todo)} {change.path}: {seen or 'SURVIVED'}\n{row['lines']}", flush=True)


if __name__ == "__main__":
    main()
