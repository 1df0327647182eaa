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
from pathlib import Path
from typing import Any

import cosmic_ray.plugins as plugins
import parso
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parent.parent.parent
OPERATORS = re.compile(
    r"core/(ReplaceBinaryOperator_(Add|Sub|Mul|Div|FloorDiv|Mod)_(Add|Sub|Mul|Div|FloorDiv)$"
    r"|ReplaceComparisonOperator|ReplaceUnaryOperator|NumberReplacer|AddNot"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd)"
)
"""Signs, comparisons, constants and conditions; not ``|``, which mostly stands in annotations."""
SAFEGUARDS = re.compile(r"\b(strict|frozen)=False|\bmaxsize=\d")
"""What only guards against a mistake in the code around it: without it the program does the same."""


def places(path: Path) -> list[dict[str, int]]:
    """Where cosmic-ray's operators fit in a file: by operator, the how manieth of its places each is."""
    found: dict[tuple[str, int], dict[str, int]] = {}
    known = [(name, plugins.get_operator(name)()) for name in plugins.operator_names() if OPERATORS.match(name)]
    counts = dict.fromkeys((name for name, _ in known), 0)
    for node in nodes(parso.parse(path.read_text(encoding="utf-8"))):
        for name, operator in known:
            for _ in operator.mutation_positions(node):
                found.setdefault((name.split("_")[0], id(node)), {})[name] = counts[name]
                counts[name] += 1
    return list(found.values())


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
    """So many changes: each place in symgrad is as likely as any other, and there each of the operators that fit."""
    files = sorted((ROOT / "symgrad").rglob("*.py"))
    every = [(path, place) for path in files for place in places(path)]
    found: list[dict[str, Any]] = []
    while len(found) < count:
        path, operators = generator.choice(every)
        change = changed(path, *generator.choice(sorted(operators.items())))
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
