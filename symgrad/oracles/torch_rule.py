"""What torch itself writes for a backward: the lines of ``derivatives.yaml``, which lies in the installed wheel.

Comes in: a program and its inputs. Goes out: the backward nodes that torch recorded for it, each with its lines. A node
is found by the name that torch's own generator gives it (``torchgen``, ``load_derivatives.py``: the function's name in
title case, "Backward", and the how many-th of that name it is).
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from symgrad.numeric import Array
from symgrad.oracles.torch import leaves_of, only_data, torch_forward, torch_version
from symgrad.program import Program

WHERE = ("packaged", "autograd", "derivatives.yaml")
NOT_LINES = frozenset({"name", "dispatch", "result", "output_differentiability"})
"""Keys of an entry that are no backward: of these ``result`` is the forward mode."""
MOST = 6
"""Nodes of a graph that are shown."""


@dataclass(frozen=True)
class Rule:
    """A backward node, the function that torch called, and a line for each of its arguments."""

    node: str
    function: str
    lines: tuple[tuple[str, str], ...]


def torch_rules(program: Program, inputs: Mapping[str, Array]) -> tuple[Rule, ...] | str:
    """The nodes from the output back to the inputs, those that the file knows, or why there is none."""
    if torch_version() is None:
        return "torch is not installed here, so its file of derivatives is not at hand"
    if not rules():
        return f"torch {torch_version()} is installed here without its file of derivatives, or without a reader of YAML"
    leaves = leaves_of(inputs, {t.name for t in program.inputs} - {*program.made} - only_data(program))
    names = dict.fromkeys(nodes(torch_forward(program, leaves).grad_fn))
    if not names:
        return f"torch {torch_version()} records no backward node for this call: its output requires no gradient"
    found = tuple(rule for name in names if (rule := rule_of(name)) is not None)[:MOST]
    return found or f"derivatives.yaml of torch {torch_version()} has no line for {next(iter(names))}"


def rule_of(node: str) -> Rule | None:
    """The entry of a node; the copy of a view has the lines of the view (``load_derivatives.py``)."""
    view = rules().get(node.removesuffix("_copy"))
    return replace(view, node=node) if view is not None else None


def nodes(first: Any) -> Iterator[str]:
    """The names of the backward nodes, nearest to the output first."""
    waiting, seen = [first] if first is not None else [], set()
    while waiting:
        node = waiting.pop(0)
        if node not in seen:
            seen.add(node)
            yield node.name()
            waiting += [before for before, _ in node.next_functions if before is not None]


@cache
def rules() -> Mapping[str, Rule]:
    """Every entry of the file by the name of its node; empty where there is no file, or nothing that reads it."""
    home = importlib.util.find_spec("torchgen")
    if home is None or not home.submodule_search_locations or importlib.util.find_spec("yaml") is None:
        return {}
    path = Path(home.submodule_search_locations[0]).joinpath(*WHERE)
    if not path.is_file():
        return {}
    import yaml

    with path.open(encoding="utf-8") as stream:
        entries = yaml.load(stream, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return named(entries)


def named(entries: list[Mapping[str, Any]]) -> Mapping[str, Rule]:
    """The entries by their nodes.

    >>> entry = {"name": "mul.Tensor(Tensor self, Tensor other) -> Tensor", "self": "grad * other", "result": "…"}
    >>> named([entry])["MulBackward0"].lines
    (('self', 'grad * other'),)
    """
    count, found = Counter[str](), dict[str, Rule]()
    for entry in entries:
        lines = entry.get("dispatch", {}).get("Default", entry) if "dispatch" in entry else entry
        told = tuple((str(key), " ".join(str(line).split())) for key, line in lines.items() if key not in NOT_LINES)
        if not any(line not in ("not_differentiable", "non_differentiable") for _, line in told):
            continue
        base = entry["name"].partition("(")[0].partition(".")[0]
        prefix = ("".join(part.title() for part in base.split("_")) + "Backward").replace("ForwardBackward", "Backward")
        node = f"{prefix}{count[prefix]}"
        count[prefix] += 1
        found[node] = Rule(node, entry["name"], told)
    return found
