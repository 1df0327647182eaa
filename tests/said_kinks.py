"""Sentences about kinks, held against torch: the step alone, moved a little to both sides of the entry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from symgrad.numeric import as_float
from symgrad.oracles.torch import data_inputs
from tests import torch_programs, torch_side

if TYPE_CHECKING:
    from tests.said_pages import Read

N = r"[-−]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan)"
KINK = re.compile(
    rf"(?P<x>.+?)(?:\[(?P<at>[\d,]*)\])? = (?P<value>{N}) is a kink of (?P<op>.+?)(?:, one of (?P<count>\d+) such entries)?: left "
    rf"(?P<left>{N}), right (?P<right>{N}), (?:(?:for this entry alone )?anything between is legal(?:(?: as long as|, and) the "
    rf"slopes of all tied entries add up to (?P<sum>{N}))?|and (?P<outside>{N}) does not lie between them); (?P<taken>.*)\."
)
JUMP = re.compile(
    rf"(?P<x>.+?)(?:\[(?P<at>[\d,]*)\])? = (?P<value>{N}) is a jump of (?P<op>.+?)(?:, one of (?P<count>\d+) such entries)?: its "
    rf"slope is (?:(?P<both>{N}) on both sides|(?P<left>{N}) on the left, (?P<right>{N}) on the right), and there is none "
    r"at the jump; (?P<taken>.*)\."
)
TURN = re.compile(
    rf"(?P<x>.+?)(?:\[(?P<at>[\d,]*)\])? = (?P<value>{N}) is where (?P<op>.+?) switches: the slope of (?P<total>.+?) is "
    rf"(?:(?P<both>{N}) on both sides|(?P<left>{N}) on the left, (?P<right>{N}) on the right); (?P<taken>.*)\."
)


def near(a: float, b: float) -> bool:
    """Equal, as far as a quotient and four digits show."""
    return bool(abs(a - b) <= 2e-3 * max(1.0, abs(a), abs(b)))


def is_kink(read: Read, m: re.Match[str]) -> bool:
    """One of the ties of the page says this, and what it says is so."""
    text = m[0]
    found = next((f for p in (KINK, JUMP, TURN) if (f := p.fullmatch(text))), None)
    if found is None:
        return False
    at = tuple(int(n) for n in (found["at"] or "").split(",") if n)
    tie = next(
        (t for t in read.explanation.kinks if t.at == at and found["op"].startswith((t.step.called, str(t.step.op)))),
        next((t for t in read.explanation.kinks if t.at == at), None),
    )
    if tie is None:
        return False
    if found.re is TURN:
        left, right = read.truth.sides(tie.name, at) if tie.name in read.truth.inputs else (tie.left, tie.right)
        below, above = (found["both"] or found[side] for side in ("left", "right"))
        return near(left, float(below)) and near(right, float(above)) and taken(read, found, tie)
    program, values = read.explanation.program, read.explanation.values
    alone = program.alone(tie.step, values.sizes)
    run = torch_programs.function_of(alone)
    inputs = {t.name: as_float(values[t.name]) for t in alone.inputs}
    still = data_inputs(alone)

    def out(by: float) -> float:
        moved = np.array(inputs[tie.name], dtype=float)
        moved[at] += by
        known = torch_side.tensors({**inputs, tie.name: moved}, ())
        for name in still:
            array = inputs[name]
            known[name] = torch_side.tensor(array).long() if (array == np.round(array)).all() else known[name]
        return float(run(*(known[t.name] for t in alone.inputs))[tie.to])

    def side(h: float) -> float:
        return (out(2 * h) - out(h)) / h

    h = 1e-6 * max(1.0, abs(tie.value))
    left, right = side(-h), side(h)
    if not near(tie.value, float(inputs[tie.name][at])):
        return False
    groups = found.groupdict()
    sides = (groups.get("both") or found["left"], groups.get("both") or found["right"])
    if not (near(left, float(sides[0])) and near(right, float(sides[1]))):
        return False
    apart = abs(out(1e-9) - out(-1e-9)) > 1e-6 or abs(out(1e-9) - out(0)) > 1e-6
    return (apart if found.re is JUMP else not apart and not near(left, right)) and taken(read, found, tie)


def taken(read: Read, found: re.Match[str], tie: object) -> bool:
    """What torch takes at the entry of the step, or of the whole: only of one step is it the gradient's own."""
    numbers = re.match(rf"torch \S+ takes (?P<n>{N})", found["taken"])
    if numbers is None or len(read.explanation.program.steps) > 1 or read.truth.out.size != 1:
        return True
    return near(float(numbers["n"]), float(read.truth.gradient(tie.name)[tie.at]))  # type: ignore[attr-defined]  # found among the ties, so it has a place
