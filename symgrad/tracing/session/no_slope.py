"""Why there is no J where something not finite is born, and what would do: advice that fits the cause alone.

Comes in: a program, the step, and the entry with its value. Goes out: lines.

Or why there is one all the same: numbers on the way are too large or too small for their type, and no singular point.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symgrad.explanation.notable import undefined_anywhere
from symgrad.numeric.exact import Array, as_float
from symgrad.ops import entry_of
from symgrad.ops.entry import plays
from symgrad.program import Apply, Argument, Constant, Role
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.captured.words import step_text
from symgrad.tracing.record.numbers import MOST, digits, short

RANK = 1e-10
"""Values that differ by less than this share of the largest are equal."""

AT_NOTHING = "whose gradient at 0 torch takes to be 0"
IN_RANGE = "which is the same, and nothing on its way leaves the range"
BY_HAND = (
    ("sqrt(sum(pow(x, 2)))", "{x}.norm({some})", AT_NOTHING),
    ("sqrt(sum(mul(x, x)))", "{x}.norm({some})", AT_NOTHING),
    ("div(exp(x), sum(exp(x)))", "{x}.softmax({axes})", IN_RANGE),
    ("log(sum(exp(x)))", "{x}.logsumexp({axes}{kept})", IN_RANGE),
    ("log(softmax(x))", "{x}.log_softmax({axes})", IN_RANGE),
    ("log(sigmoid(x)), log(sub(1, sigmoid(x)))", "F.binary_cross_entropy_with_logits({x}, …)", IN_RANGE),
    ("log(sub(1, sigmoid(x)))", "F.logsigmoid(-{x})", IN_RANGE),
    ("log(sigmoid(x))", "F.logsigmoid({x})", IN_RANGE),
    ("log(add(exp(x), 1))", "F.softplus({x})", IN_RANGE),
    ("log(add(1, exp(x)))", "F.softplus({x})", IN_RANGE),
    ("log(p), log(sub(1, p))", "F.binary_cross_entropy({p}, …)", "which keeps the logarithms from -100 on"),
)
"""What is written by hand, in the names of steps, and the function of torch's that goes on where this ends."""


@dataclass(frozen=True)
class InRange:
    """What a program and its gradients come to with many digits, where nothing is too large or too small."""

    program: Capture
    arrays: Mapping[str, Array]
    gradients: Mapping[str, Array]

    def lines(self, kinds: Mapping[str, str]) -> list[str]:
        """Which number left the range of its type, and what the gradients are; ``kinds`` are the types by name."""
        recording, known = self.program.recording, self.program.arrays
        gone: dict[str, tuple[int, ...]] = {}
        for step in recording.steps:
            ours, true = as_float(known[step.result.name]), self.arrays[step.result.name]
            lost = ~np.isfinite(ours) | ((ours == 0) & (true != 0))
            if lost.any():
                gone[step.result.name] = tuple(int(i) for i in np.argwhere(lost)[0])
        beyond = [name for name, at in gone.items() if not np.isfinite(as_float(known[name])[at])]
        behind = recording.reaching(beyond[:1]) if beyond else gone  # what made the first of them, as 0 its logarithm
        told = []
        for step in [step for step in recording.steps if step.result.name in gone and step.result.name in behind][:1]:
            name, at = step.result.name, gone[step.result.name]
            entry, kind = f" at {list(at)}" if at else "", kinds.get(name, "float64")
            made, real = digits(float(as_float(known[name])[at])), written(self.arrays[name][at])
            told.append(f"  {step_text(self.program, step)} is {real}{entry}; in {kind} that is {made}")
        return [*told, f"  In the mathematics {self.gradient()}."]

    def gradient(self) -> str:
        """The gradients, or of a large one its largest entry."""
        parts = []
        for name, true in [*self.gradients.items()][:2]:
            label, sizes = self.program.labels.get(name, name), np.abs(true)
            if true.size <= MOST and np.isfinite(as_float(true)).all():
                parts.append(f"{label}.grad is {short(as_float(true))}")
            else:
                at = np.unravel_index(int(np.argmax(sizes)), true.shape)
                parts.append(f"the largest entry of {label}.grad is {written(true[at])}")
        return " and ".join(parts)


def in_range(program: Capture, seeds: Mapping[str, Array]) -> InRange | None:
    """The gradients by many digits; None where they have no number either, or where that would take too long."""
    from symgrad.numeric.rounding import TooLong  # loads SymPy's functions, which a story seldom needs
    from symgrad.oracles.digits import DIGITS, FIRST, MORE, Truth

    if program.boxes or len(set(program.ends)) != 1:
        return None
    truth = Truth(replace(program.recording, output=program.ends[0]), program.values, program.wanted)
    for count in (FIRST, DIGITS):  # 1 - sigmoid(200) is 0 in the first ones
        try:
            found = truth.at(count + MORE + truth.at(count).asked)
            gradients = found.pulled(as_float(seeds[program.ends[0]]), program.wanted)
        except TooLong:
            continue
        return InRange(program, found.arrays, {name: gradients[name] for name in program.wanted if name in gradients})
    return None


def written(number: Any) -> str:
    """A number that no float may hold."""
    import mpmath

    held = float(number)
    return digits(held) if np.isfinite(held) and (held or not number) else str(mpmath.nstr(number, 3))


def no_slope(program: Capture, step: Apply, source: str, entry: str, value: float) -> list[str]:
    """Why there is no J, and what would do: advice that fits the cause alone."""
    if value != value or value in (float("inf"), float("-inf")):
        return [f"  {entry} is {digits(value)} already: nothing has a derivative there. Look for what made it so."]
    op = entry_of(step.op)
    known = as_float(program.arrays[source])
    reads = known.ndim > 1 and known.shape[-1] == known.shape[-2]
    if step.result.name in program.boxes or (op is not None and any(d.matrix for d in op.domain.values())):
        return vectors_of_equals(known) if reads else ["  there is no J at this matrix"]
    if whatever := undefined_anywhere(step, program.recording):
        return [f"  there is no J: {whatever}"]
    lines = [f"  there is no J at {entry} = {digits(value)}: the slope of {step.op} is infinite or undefined there."]
    made = as_float(program.arrays[step.result.name])
    if np.isfinite(made).all():
        return [*lines, away(step, entry)]
    domains = list(op.domain.values()) if op is not None else []
    outside = any(not d.low < value < d.high or value in d.avoid for d in domains)
    if not outside and not np.isnan(made).any():
        return [f"  {step.op} is too large for floats at {entry} = {digits(value)}: what comes back is no slope of it"]
    what = ": what goes into it has to be kept inside its domain" if outside else ""
    return [*lines, f"  {step.op} has no finite value there either{what}"]


def away(step: Apply, entry: str) -> str:
    """What keeps an entry from where there is no slope."""
    return f"  keep {entry} away from it: clamp it, or add a small eps to it before {step.op}"


def vectors_of_equals(matrix: Array) -> list[str]:
    """What there is to say of a matrix at which a decomposition has no derivative."""
    found = np.linalg.svd(matrix, compute_uv=False) if np.isfinite(matrix).all() else np.zeros(0)
    largest = float(found.max(initial=0.0))
    if found.size and np.any(found.min(axis=-1) <= RANK * largest):
        return [
            "  the matrix has no full rank: to a singular value of 0 belong no vectors in particular, so there is no J"
        ]
    if found.size and np.any(np.abs(np.diff(found, axis=-1)) <= RANK * largest):
        return [
            "  two of its values are equal: any two directions in their plane may be their vectors, so there is no J.",
            "  the values by themselves have one (eigvalsh, svdvals), and so has what does not change as the two turn;",
            "  small different numbers on the diagonal take the values apart",
        ]
    return ["  there is no J at this matrix"]


def instead(program: Capture, steps: Sequence[Apply]) -> list[str]:
    """Which function of torch's does what the script writes by hand with one of ``steps`` in it."""
    made = [step.result.name for step in program.recording.steps]
    for text, call, why in BY_HAND:
        whole = ast.parse(f"[{text}]", mode="eval").body
        parts = whole.elts if isinstance(whole, ast.List) else []
        for name in made:
            met = ByHand(program)
            if not met.reads(name, parts[0]) or not all(any(met.reads(n, part) for n in made) for part in parts[1:]):
                continue
            if any(step.result.name in met.steps for step in steps):
                names = {own: program.labels.get(n, n) for own, n in met.tensors.items()}
                return [f"  call {call.format(**names, **met.axes())} instead, {why}"]
    return []


class ByHand:
    """A pattern that is looked for among the steps; holds what it has met."""

    def __init__(self, program: Capture) -> None:
        self.program, self.makers = program, {step.result.name: step for step in program.recording.steps}
        self.steps, self.tensors = dict[str, Apply](), dict[str, str]()

    def reads(self, argument: Argument, part: ast.expr) -> bool:
        """Whether an argument is computed as the pattern says; nothing is held of what is not."""
        if isinstance(part, ast.Constant):
            return isinstance(argument, Constant) and argument.value == part.value
        if not isinstance(argument, str):
            return False
        step = self.makers.get(argument)
        if step is not None and (plays(step.op, Role.COPIES) or plays(step.op, Role.HANDS_ON)):
            return self.reads(step.arguments[0], part)
        if isinstance(part, ast.Name):
            return self.tensors.setdefault(part.id, argument) == argument
        assert isinstance(part, ast.Call)
        if step is None or step.op != ast.unparse(part.func) or len(step.arguments) != len(part.args):
            return False
        held = dict(self.steps), dict(self.tensors)
        if not all(map(self.reads, step.arguments, part.args)):
            self.steps, self.tensors = held
            return False
        self.steps[step.result.name] = step
        return True

    def axes(self) -> dict[str, str]:
        """The axes that it adds over, as options: ``axes`` always, ``some`` where they are not all of one tensor."""
        step = next((step for step in self.steps.values() if "dim" in dict(step.options)), None)
        if step is None:
            return {}
        options, rank = dict[str, Any](step.options), np.ndim(self.program.arrays[step.tensors[0]])
        dims = options["dim"] if isinstance(options["dim"], tuple) else (options["dim"],)
        axes = f"dim={dims[0] if len(dims) == 1 else dims}"
        kept = ", keepdim=True" if options.get("keepdim") else ""
        return {"axes": axes, "kept": kept, "some": f"{axes}{kept}" if kept or len(dims) < rank else ""}
