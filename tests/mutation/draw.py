"""Random small changes in the source, to ask the tests whether they see them: where each is, and the lines that differ.

    python tests/mutation/draw.py --count 70 --seed 1 --output changes.jsonl

A change is one of cosmic-ray's: another sign, comparison, constant or condition. What comes out is a line of JSON a
change, plain enough that `mutate.py` makes them on a machine that has no cosmic-ray.
"""

from __future__ import annotations

import argparse
import difflib
import json
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cosmic_ray.plugins as plugins
import parso
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("backward", "calculus", "closed_form", "indexing", "language", "numeric", "tracing")
OPERATORS = re.compile(
    r"core/(ReplaceBinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod)_(Add|Sub|Mul|Div|FloorDiv)$"
    r"|ReplaceComparisonOperator|ReplaceUnaryOperator|NumberReplacer|AddNot"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd)"
)
"""Signs, comparisons, constants and conditions; not ``|``, which mostly stands in annotations."""
SAFEGUARDS = re.compile(r"\b(strict|frozen)=False")
"""What only guards against a mistake in the code around it: without it the program does the same."""


@cache
def places(path: Path) -> tuple[tuple[str, int], ...]:
    """Cosmic-ray's operators that fit somewhere in a file, and which of the places it is."""
    tree = parso.parse(path.read_text(encoding="utf-8"))
    found = []
    for name in sorted(plugins.operator_names()):
        if OPERATORS.match(name):
            operator = plugins.get_operator(name)()
            count = sum(len(list(operator.mutation_positions(node))) for node in nodes(tree))
            found += [(name, number) for number in range(count)]
    return tuple(found)


def nodes(node: parso.tree.NodeOrLeaf) -> Iterator[parso.tree.NodeOrLeaf]:
    """``node`` and all below it."""
    yield node
    for child in getattr(node, "children", ()):
        yield from nodes(child)


def changed(path: Path, operator: str, number: int) -> dict[str, Any] | None:
    """One change as data: lines ``first`` and after it, ``before`` and ``after``; None where it leaves no Python."""
    text = path.read_text(encoding="utf-8")
    other = mutate_code(text, plugins.get_operator(operator)(), number)
    try:
        compile(other or "", "mutant", "exec")
    except SyntaxError:  # x not != y
        return None
    was, now = text.splitlines(), (other or "").splitlines()
    parts = [p for p in difflib.SequenceMatcher(None, was, now, autojunk=False).get_opcodes() if p[0] != "equal"]
    if not other or len(parts) != 1:
        return None
    ((_, first, last, start, end),) = parts
    if any(map(SAFEGUARDS.search, now[start:end])):
        return None
    where = {"path": path.relative_to(ROOT).as_posix(), "operator": operator.removeprefix("core/"), "first": first + 1}
    return {**where, "before": was[first:last], "after": now[start:end]}


def drawn(count: int, generator: random.Random) -> list[dict[str, Any]]:
    """So many changes: the packages in turn, a file by its length, a kind of change, a place, each at random."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        files = sorted((ROOT / "symgrad" / PACKAGES[len(found) % len(PACKAGES)]).rglob("*.py"))
        (path,) = generator.choices(files, weights=[f.stat().st_size for f in files])
        kinds: dict[str, list[tuple[str, int]]] = {}
        for operator, number in places(path):
            kinds.setdefault(operator.split("_")[0], []).append((operator, number))
        if kinds:
            change = changed(path, *generator.choice(kinds[generator.choice(sorted(kinds))]))
            if change is not None and change not in found:
                found.append(change)
    return found


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=70)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("changes.jsonl"))
    chosen = parser.parse_args()
    found = drawn(chosen.count, random.Random(chosen.seed))
    lines = [json.dumps({"number": n, **change}, ensure_ascii=False) + "\n" for n, change in enumerate(found, 1)]
    chosen.output.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
