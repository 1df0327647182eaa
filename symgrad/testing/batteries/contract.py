"""What a backward hands to the engine: how many gradients, of which shapes, types and devices; before any repair.

The engine adds up what was broadcast and casts what has another type, so that ``.grad`` is right and the slip stays:
until the backward is called by something else. Also here: what is raised, printed, and where the way back was cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.testing.candidates.attempts import Pull, Returned
from symgrad.testing.candidates.pairs import summed
from symgrad.testing.data import Finding
from symgrad.testing.right.bench import Bench, Outcome, not_made, outcome

BATTERY = "contract"


def contract(bench: Bench) -> Outcome:
    """Arity, shape, type and device of what custom backwards return."""
    seen = [returned for pull in bench.pulls for returned in pull.returned]
    found = list(raised(bench))
    kinds: set[tuple[str, str, int]] = set()
    for returned in seen:
        for kind, position, finding in breaches(returned):
            if (kind, returned.function, position) not in kinds:
                kinds.add((kind, returned.function, position))
                found.append(finding)
    if not seen and not found:
        return not_made(BATTERY, "no autograd.Function in Python: what the engine is handed is not seen")
    return outcome(BATTERY, len(seen), found)


def raised(bench: Bench) -> Iterator[Finding]:
    """A backward that raises, for some v or through a graph that was used, unless what it returned says why."""
    for weights, pull in zip(bench.weights, bench.pulls, strict=True):
        who = pull.functions[0] if len(pull.functions) == 1 else "backward"
        if bench.candidate.spent and not pull.failure:
            said = f"{who} {bench.candidate.spent} when it is called a second time through the same graph"
            yield Finding("raises", "", who, said, {})
            return
        if pull.failure and any(True for returned in pull.returned for _ in breaches(returned)):
            return
        if pull.failure:
            yield Finding("raises", "", who, f"{who} {pull.failure} with v = {weights.name}", {"seed": weights.name})
            return


def breaches(returned: Returned) -> Iterator[tuple[str, int, Finding]]:
    """What is wrong with one answer: its kind, the argument's place, and the finding."""
    got, wanted = returned.got, returned.wanted
    extra = got[len(wanted) :]
    if len(got) < len(wanted) or any(meta is not None for meta in extra):
        said = f"{returned.function} returns {counted(len(got))} for {counted(len(wanted), 'argument')} of forward"
        hint = "one for each, None for those that have none"
        yield "arity", -1, Finding(
            "arity", "", returned.function, f"{said}: {hint}", {"returned": len(got), "arguments": len(wanted)}
        )  # fmt: skip
        return
    for position, (meta, right) in enumerate(zip(got, wanted, strict=False)):
        if meta is None or right is None:
            continue
        name = returned.names[position] if position < len(returned.names) else ""
        what = name or f"argument {position + 1}"
        evidence = {"function": returned.function, "argument": position + 1}
        returns = f"{returned.function} returns"
        breach = "shape" if summed(np.zeros(meta.shape), right.shape) is None else "unreduced"
        reduced = f": {adding(meta.shape, right.shape)}" if breach == "unreduced" else ""
        for kind, came, due, said in (
            (breach, meta.shape, right.shape, f"the shape {meta.shape} for {what}, which is {right.shape}{reduced}"),
            ("dtype", meta.dtype, right.dtype, f"{meta.dtype} for {what}, which is {right.dtype}: the engine casts it"),
            (
                "device",
                meta.device,
                right.device,
                f"a gradient on {meta.device} for {what}, which is on {right.device}",
            ),
        ):
            if came != due:
                more = {**evidence, "returned": came, "wanted": due}
                yield kind, position, Finding(kind, name, what, f"{returns} {said}", more)


def adding(shape: tuple[int, ...], right: tuple[int, ...]) -> str:
    """What autograd does to a gradient that was left unreduced, and what would do."""
    extra = len(shape) - len(right)
    axes = (*range(extra), *(extra + n for n, size in enumerate(right) if size == 1 and shape[extra + n] != 1))
    said = f"what was broadcast has to be added up, .sum({axes[0] if len(axes) == 1 else axes}); autograd does that "
    return f"{said}silently, and whoever else calls it gets the wrong shape"


def counted(number: int, what: str = "gradient") -> str:
    """``1 gradient``, ``2 gradients``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def printed(bench: Bench, pulls: tuple[Pull, ...]) -> Iterator[Finding]:
    """What the candidate prints."""
    for where, text in (("the forward pass", bench.run.printed), *(("backward", p.printed) for p in pulls)):
        if text:
            first = text.strip().splitlines() or ["a blank line"]
            yield Finding("prints", "", where, f"{where} prints {first[0][:80]!r}", {"printed": text[:2000]})
            return
