"""torch's own rules: where its backward is no derivative of its forward pass, and the lines that it has for a backward.

`own_numbers` and `with_torchs_own`: what an operation's equation gives where it has no derivative, and what torch puts
there. `contradicts_itself`: whether torch's forward pass along one entry has the derived slope on both sides and
its backward says something else, as that of ``polar`` does at negative lengths. Both are reasons for `judge`, and so
are ties, where torch has several gradients beside the point. `torch_rules`: the backward nodes that torch recorded for
a program, each with its lines of ``derivatives.yaml``, which lies in the installed wheel; a node is found by the name
that torch's own generator gives it (``torchgen``, ``load_derivatives.py``: the function's name in title case,
"Backward", and the how many-th of that name it is).
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array, Values, as_float, forward, is_finite, numeric_pullback
from symgrad.numeric.exact import plus
from symgrad.ops import entry_of
from symgrad.oracles.comparisons import Check, Comparison, Place, compare, compare_some, skipped
from symgrad.oracles.numerical import Sides, one_sided_slopes
from symgrad.oracles.torch import data_inputs, run_torch, torch_forward, torch_leaves, torch_version
from symgrad.oracles.typed_text import ask_torch
from symgrad.program import Apply, Argument, Program

SAME = 1e-9
"""Relative to torch's, how far a derivative may be from it and be the same."""
ELSEWHERE = 0.5
"""What the inputs are that an edge says nothing of."""


@dataclass(frozen=True)
class OwnNumber:
    """∂L/∂x₀ by one input ``by``, L the sum of the outputs: what the equation gives ``here``, and what torch has."""

    by: str
    here: float
    torch: float


def own_numbers(program: Program, at: Mapping[str, float], names: Sequence[str]) -> Iterator[OwnNumber]:
    """Where torch has a number of its own: ``at`` are inputs of which every entry is one number."""
    inputs = {t.name: np.full(program.numbers(t.shape), at.get(t.name, ELSEWHERE)) for t in program.inputs}
    weights = np.ones(program.numbers(program.out.shape))
    answer = run_torch(program, inputs, weights, names)
    if answer is None or answer.refusal:
        return
    derived = numeric_pullback(program, forward(program, inputs), weights, names)
    for name in names:
        gradient = answer.gradients[name]
        if gradient is None or not gradient.size:
            continue
        here, torchs = float(as_float(derived[name]).reshape(-1)[0]), float(gradient.reshape(-1)[0])
        if not np.isclose(torchs, here, rtol=SAME, atol=0.0, equal_nan=True):
            yield OwnNumber(name, here, torchs)


def on_an_edge(step: Apply, arrays: Mapping[str, Array]) -> bool:
    """Whether operands have values at which torch has a number of its own, though all that is derived is finite."""
    entry = entry_of(step.op)
    if entry is None or not entry.limits.edges:
        return False
    margin: Any = entry.limits.margin
    margin = float(dict[str, Any](step.options)[margin] if isinstance(margin, str) else margin)
    given = dict(zip(entry.operands, step.arguments, strict=False))
    return any(
        all(has_value_near(given[name], value, margin, arrays) for name, value in edge.items() if name in given)
        for edge in entry.limits.edges
    )


def has_value_near(argument: Argument, value: float, margin: float, arrays: Mapping[str, Array]) -> bool:
    """Whether an argument, a tensor or a number in its place, has a value somewhere, within a margin."""
    held = arrays[argument] if isinstance(argument, str) else argument.value
    if held is None:
        return False
    near = np.abs(as_float(np.asarray(held)) - value) <= margin if margin else np.asarray(held) == value
    return bool(np.any(near))


def with_torchs_own(
    program: Program, values: Values, seed: Array, name: str, gradient: Array
) -> tuple[Array, str] | None:  # fmt: skip
    """A gradient with torch's numbers at the steps that stand on an edge, and where; None where they are the same."""
    parts: dict[str, dict[str, Array]] = {}
    arrived: dict[str, tuple[Apply, Array]] = {}

    def seen(step: Apply, place: int, weights: Array, part: Array) -> None:
        if on_an_edge(step, values.arrays):
            arrived[step.result.name] = step, weights
            own = parts.setdefault(step.result.name, {})
            source = str(step.arguments[place])
            own[source] = plus(own[source], part) if source in own else part

    numeric_pullback(program, values, seed, [name], seen)
    found, told = as_float(gradient), ""
    for result, (step, weights) in arrived.items():
        alone = program.alone(step, values.sizes)
        answer = run_torch(alone, {n: values[n] for n in step.tensors}, weights, list(parts[result]))
        for source, part in parts[result].items() if answer is not None and not answer.refusal else ():
            assert answer is not None
            torchs = answer.gradients[source]
            if torchs is None or not np.isfinite(torchs).all() or not np.isfinite(as_float(part)).all():
                continue
            change = torchs - as_float(part)
            differ = np.argwhere(np.abs(change) > SAME * np.abs(torchs))
            if len(differ):
                before = replace(program, output=source)
                whole = change if source == name else numeric_pullback(before, values, change, [name])[name]
                found, at = found + as_float(whole), tuple(int(i) for i in differ[0])
                entry = format_entry_name(source, at)
                told = told or (
                    f"this close to the edge of the domain of {step.called}, torch uses a rule of its own: at {entry} "
                    f"= {float(as_float(values[source])[at])!r} its slope with respect to {source} is "
                    f"{torchs[at]:.4g}, that of the equation {float(as_float(part)[at]):.4g}"
                )
    return (found, told) if told else None


STEPS, CLOSE, ROUGH, APART = (1e-5, 1e-8, 1e-11), 1e-6, 1e-4, 1e-3
"""How far the input moves, how closely the slope is met by both sides and by each, how far torch's number is off.

What happens below a floor of 1e-8 is seen by no larger step, and beside a 1 by no smaller one: one of them has to do.
"""
NEARER = 1e-5
"""One more step, relative to the entry: a logarithm at 1e-13 has no other side further out."""


def contradicts_itself(derived: float, torchs: float, entry: float, total: Callable[[float], float]) -> bool:
    """Whether ``total``, torch's forward pass with an entry moved by so much, has the derived slope and not torch's."""
    steps, known = (*STEPS, NEARER * abs(entry)) if entry else STEPS, cache(total)
    return any(is_confirmed_slope(derived, torchs, *slopes_with_digits(entry, known, step)) for step in steps)


def is_confirmed_slope(derived: float, torchs: float, left: float, right: float) -> bool:
    """Whether the sides have the derived slope, closely in the middle, and torch's number is far from it."""
    size, middle = max(1.0, abs(derived)), (left + right) / 2
    near = abs(middle - derived) <= CLOSE * size and max(abs(left - derived), abs(right - derived)) <= ROUGH * size
    return near and abs(torchs - derived) > APART * size


def slopes_with_digits(entry: float, total: Callable[[float], float], step: float) -> Sides:
    """The slopes left and right of an entry; NaN where rounding swallows the step or what comes of it."""
    left, right = one_sided_slopes(total, step)
    noise = np.finfo(float).eps * max(abs(total(shift)) for shift in (-step, 0.0, step)) / step
    moved = max(abs((entry + step) - entry - step), abs(entry - (entry - step) - step)) <= CLOSE * step
    clear = noise <= CLOSE * max(1.0, abs(left), abs(right))
    return (left, right) if moved and clear else (float("nan"), float("nan"))


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
        return "torch is not installed here, so its derivatives.yaml cannot be read"
    if not rules():
        return f"torch {torch_version()} is installed without its derivatives.yaml, or PyYAML is missing"
    leaves = torch_leaves(inputs, {t.name for t in program.inputs} - {*program.made} - data_inputs(program))
    names = dict.fromkeys(backward_node_names(torch_forward(program, leaves).grad_fn))
    if not names:
        return f"torch {torch_version()} records no backward node for this call: its output requires no gradient"
    found = tuple(rule for name in names if (rule := rule_of(name)) is not None)[:MOST]
    return found or f"derivatives.yaml of torch {torch_version()} has no line for {next(iter(names))}"


def rule_of(node: str) -> Rule | None:
    """The entry of a node; the copy of a view has the lines of the view (``load_derivatives.py``)."""
    view = rules().get(node.removesuffix("_copy"))
    return replace(view, node=node) if view is not None else None


def backward_node_names(first: Any) -> Iterator[str]:
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
    return rules_by_node(entries)


def rules_by_node(entries: list[Mapping[str, Any]]) -> Mapping[str, Rule]:
    """The entries by their nodes.

    >>> entry = {"name": "mul.Tensor(Tensor self, Tensor other) -> Tensor", "self": "grad * other", "result": "…"}
    >>> rules_by_node([entry])["MulBackward0"].lines
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


MOST_RULES = 16
"""Entries at which torch's backward is held against its forward pass."""
SHIFT, MET = 1e-7, 1e-5
"""How far beside the point, relative to an entry or to 1, and how well an answer has to be met."""
LARGEST_TIED, POINTS = 256, 24
"""Entries of the largest gradient that is looked at, and points beside it that are drawn at random."""


# Ties: a hair beside the point there is one answer ------------------------------------------------------


def at_ties(case: Comparison, check: Check) -> Check:
    """Without the entries that differ, where torch has several gradients beside the point and both lie between."""
    first, second = case.answers
    if first.shape != second.shape or not 0 < first.size <= LARGEST_TIED:
        return check
    if not all(is_finite(array).all() for array in (first, second, *case.inputs.values())):
        return check
    found = list(gradients_beside(case))
    spread = np.ptp(found, axis=0).reshape(first.shape) if found else np.zeros(first.shape)
    tied = [at for at in case.differ if spread[at] > MET * case.scale]
    if not tied or not all(is_mean_of(found, answer.reshape(-1), MET * case.scale) for answer in case.answers):
        return check
    at = tied[0]
    note = (
        f"{case.entry(at)} ties with others, and either may be taken: here {second[at]:.4g}, there {first[at]:.4g}, "
        "both between the gradients beside the point"
    )
    return case.without(tied, note)


def gradients_beside(case: Comparison) -> Iterator[Array]:
    """torch's gradients at points beside the given one: drawn at random, and towards and away from each answer."""
    generator, point = np.random.default_rng(13), as_float(case.inputs[case.name])
    ways = [generator.uniform(-1, 1, point.shape) for _ in range(POINTS)]
    for answer in case.answers:
        size = max(float(np.abs(answer).max()), 1e-300)
        for sign in (1.0, -1.0, 1.0, -1.0):
            ways.append(sign * answer / size + 0.1 * generator.uniform(-1, 1, point.shape))
    for way in ways:
        moved = point + SHIFT * np.maximum(1.0, np.abs(point)) * way
        try:
            found = ask_torch(case.text, case.program, {**case.inputs, case.name: moved}, case.seed, [case.name])
        except SymgradError:
            continue
        gradient = None if found is None else found.gradients.get(case.name)
        if gradient is not None and is_finite(gradient).all():
            yield as_float(gradient).reshape(-1)


def is_mean_of(found: list[Array], answer: Array, allowed: float) -> bool:
    """Whether an answer is a mean of the found ones, each with a weight that is not negative."""
    from scipy.optimize import nnls  # loads much, and only a check that failed comes here

    weight = max(1.0, float(np.abs(found).max()))
    table = np.vstack([np.transpose(found), np.full((1, len(found)), weight)])
    wanted = np.append(answer, weight)
    shares, _ = nnls(table, wanted)
    return bool(np.abs(table @ shares - wanted).max() <= allowed)


# torch's own rules --------------------------------------------------------------------------------------


def own_rule(case: Comparison, check: Check) -> Check:
    """Not made where torch contradicts its own forward pass and agrees elsewhere, or has a rule of its own at an edge.

    The forward pass that is asked is torch's: nothing derived is taken for granted.
    """
    torchs, derived = case.answers
    able = np.ones(torchs.shape, dtype=bool)
    for at in case.differ[:MOST_RULES]:
        here = float(as_float(case.inputs[case.name])[at])
        able[at] = not contradicts_itself(float(derived[at]), float(torchs[at]), here, weighted_by_torch(case, at))
    rest = compare_some(case.oracle, case.reference, case.derived, able, "", standing=case.standing)
    if able.all() or rest.passed is False:
        return near_edges(case, check)
    at, more = case.differ[0], len(case.differ) - 1
    why = (
        f"torch's backward says {torchs[at]:.4g} for {case.entry(at)}{f' and {more} more' if more else ''}, where its "
        f"own forward pass has the slope {derived[at]:.4g} on both sides: that is torch's own rule, not a derivative"
    )
    return replace(skipped(case.oracle, why), own_rule=True)


def weighted_by_torch(case: Comparison, at: Place) -> Callable[[float], float]:
    """Σ v·out for a shift of one entry, by torch's forward pass; NaN where it refuses."""

    def total(shift: float) -> float:
        try:
            found = ask_torch(case.text, case.program, case.moved(at, shift), case.seed, [])
        except SymgradError:
            found = None
        if found is None or found.refusal or found.refused:
            return float("nan")
        return case.weighted(found.output)

    return total


def near_edges(case: Comparison, check: Check) -> Check:
    """Not made, with the reason, where torch's number follows from rules of its own at edges; else ``check``."""
    found = with_torchs_own(case.program, case.values, case.seed, case.name, case.derived)
    if found is None or compare(case.oracle, case.reference, found[0], standing=case.standing).passed is False:
        return check
    return replace(skipped(case.oracle, found[1]), own_rule=True)
