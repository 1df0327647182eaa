"""The reference gradient: by the derived formula, or, if nothing can be derived, by difference quotients.

Comes in: the claimed expression, and the inputs. Goes out: a `DerivedReference` or a `DifferenceReference`; both
compute vᵀJ in float64 from the same rounded inputs, whatever dtype the candidate has.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from symgrad.backward import Backward, derive_backward
from symgrad.backward.line_templates import ProgramForm, prove_program_form
from symgrad.calculus import Sweep, pullback
from symgrad.errors import InputError, NotationError, ShapeError, SymgradError
from symgrad.language import OUTPUTS, Value, arguments, expand_composites
from symgrad.numeric import Array, Values, as_float, forward, is_exact
from symgrad.numeric.vector_products import Pull
from symgrad.oracles.typed_text import ask_torch, check_reading
from symgrad.program import Program
from symgrad.question import read_once, text_inputs, torch_expression
from symgrad.testing.candidates import Candidate, Seeds, Variation
from symgrad.testing.trial_seeds import shaken_pull
from symgrad.tracing import Capture, capture
from symgrad.tracing.lift import relabel_program

STEP = 1e-3
"""The relative step of difference quotients; two steps give an error of fourth order."""
MOST_MOVED = 200
"""The largest number of input entries for a Jacobian by differences."""


@dataclass(frozen=True, eq=False)
class DerivedReference:
    """A program for each output, its values, and the inputs to differentiate with respect to."""

    text: str
    programs: tuple[Program, ...]
    values: tuple[Values, ...]
    wanted: tuple[str, ...]
    said: str = "formula"
    tolerance: float = 1e-9

    @cached_property
    def inputs(self) -> Mapping[str, Array]:
        """The values of the inputs."""
        return {t.name: v[t.name] for p, v in zip(self.programs, self.values, strict=True) for t in p.inputs}

    @cached_property
    def outputs(self) -> tuple[Array, ...]:
        """The forward values."""
        return tuple(as_float(v[p.output]) for p, v in zip(self.programs, self.values, strict=True))

    @property
    def whole(self) -> bool:
        """Whether the outputs are integers that were computed without rounding."""
        held = [v[p.output] for p, v in zip(self.programs, self.values, strict=True)]
        return all(is_exact(a) and all(getattr(n, "denominator", 1) == 1 for n in np.asarray(a).flat) for a in held)

    @cached_property
    def sweeps(self) -> tuple[Pull, ...]:
        """The backward sweep from each output, prepared once for all seeds."""
        known = [{t.name for t in program.inputs} for program in self.programs]
        pairs = zip(self.programs, self.values, known, strict=True)
        return tuple(Pull(p, v, [n for n in self.wanted if n in inputs]) for p, v, inputs in pairs)

    @cached_property
    def opened(self) -> tuple[tuple[Program, Values] | None, ...]:
        """Each program with its composite steps expanded, and its values; None if it has none."""
        return tuple(map(opened_program, self.programs, self.values))

    def part(self, number: int, seed: Array) -> dict[str, Array]:
        """Return one output's contribution to vᵀJ."""
        found = self.sweeps[number].back({self.programs[number].output: seed})
        nothing = {n: np.zeros(np.shape(self.inputs.get(n, 0.0))) for n in self.wanted if n not in found}
        return {n: nothing[n] if n in nothing else as_float(found[n]) for n in self.wanted}

    def pull(self, seeds: Seeds) -> dict[str, Array]:
        """Return vᵀJ for every wanted input."""
        parts = [self.part(n, seed) for n, seed in enumerate(seeds) if seed is not None]
        return {name: np.asarray(sum(part[name] for part in parts)) for name in self.wanted}

    @cached_property
    def shaken_pull(self) -> Callable[[int, str, float, int], Callable[[Array], Array]]:
        """`trial_seeds.shaken_pull` of one output, cached."""
        return cache(lambda place, *asked: shaken_pull(self.programs[place], self.values[place], *asked))

    def shaken(self, seeds: Seeds, name: str, share: float, number: int) -> Array:
        """Return vᵀJ for one input with all values perturbed in their last digits, which estimates rounding."""
        found = np.zeros(np.shape(self.inputs.get(name, 0.0)))
        for place, (program, seed) in enumerate(zip(self.programs, seeds, strict=True)):
            if seed is not None and any(t.name == name for t in program.inputs):
                found = found + self.shaken_pull(place, name, share, number)(seed)
        return found

    def at(self, inputs: Mapping[str, Array]) -> DerivedReference:
        """Return the reference at other inputs."""
        given = {**self.inputs, **inputs}
        found = [forward(p, {t.name: given[t.name] for t in p.inputs}) for p in self.programs]
        return DerivedReference(self.text, self.programs, tuple(found), self.wanted, self.said, self.tolerance)

    @cached_property
    def sweep(self) -> Callable[[int, str], Sweep]:
        """The pullback of one output with respect to one input, as index equations, cached."""
        return cache(lambda number, name: pullback(self.programs[number], name))

    @cached_property
    def form(self) -> Callable[[int, str], ProgramForm | None]:
        """The closed form of that pullback, or None, cached."""
        return cache(lambda number, name: prove_program_form(self.programs[number], name, self.values[number]))

    @cached_property
    def lines(self) -> Backward:
        """The backward of the single output, line by line."""
        (program,), (values,) = self.programs, self.values
        return derive_backward(program, [t.name for t in program.inputs if t.name in self.wanted], values=values)


def opened_program(program: Program, values: Values) -> tuple[Program, Values] | None:
    """Return an equal program of smaller steps, with its values; None if there is none."""
    with contextlib.suppress(SymgradError):
        wider = expand_composites(program)
        if len(wider.steps) > len(program.steps):
            return wider, forward(wider, {t.name: values[t.name] for t in wider.inputs})
    return None


@dataclass(frozen=True, eq=False)
class DifferenceReference:
    """The Jacobians by central differences of the candidate's own forward pass."""

    text: str
    outputs: tuple[Array, ...]
    jacobians: Mapping[str, tuple[Array, ...]]
    said: str
    tolerance: float

    def pull(self, seeds: Seeds) -> dict[str, Array]:
        """Return vᵀJ for every input."""
        return {
            name: np.asarray(sum(np.tensordot(s, j, s.ndim) for s, j in zip(seeds, js, strict=True) if s is not None))
            for name, js in self.jacobians.items()
        }


GradientReference = DerivedReference | DifferenceReference


def derive_reference(
    expression: Any, arrays: Mapping[str, Array], scalars: Mapping[str, Any], wanted: Sequence[str],
    shapes: Mapping[str, Sequence[Any]],
) -> DerivedReference:  # fmt: skip
    """Return the reference of an expression, one for each output, or of a captured program, at these inputs.

    Raises `SymgradError` if it does not fit them.
    """
    if isinstance(expression, Capture):
        return reference_from_capture(expression, arrays, wanted)
    several = isinstance(expression, (tuple, list))
    texts = [arguments.require_text(part, "the expression") for part in (expression if several else [expression])]
    found = [program_at_values(text, arrays, scalars, shapes) for text in texts]
    if not found:
        raise InputError("there is no expression", hints=('"softmax(x, dim=-1)"',))
    programs, values = zip(*found, strict=True)
    return DerivedReference("; ".join(texts), programs, values, tuple(wanted))


def reference_for_outputs(expression: Any, count: Callable[[], int], *given: Any) -> DerivedReference:
    """Return `derive_reference`, also for one text with several outputs if the function returns ``count`` of them."""
    try:
        return derive_reference(expression, *given)
    except NotationError:
        outputs = count() if isinstance(expression, str) else 0
        if outputs < 2:
            raise
    found = None
    for more in (0, 1):  # one more than the function returns is another function
        with contextlib.suppress(SymgradError):
            found = derive_reference([f"({expression})[{n}]" for n in range(outputs + more)], *given)
    return derive_reference(expression, *given) if found is None else replace(found, text=expression)


def program_at_values(
    text: str, arrays: Mapping[str, Array], scalars: Mapping[str, Any], shapes: Mapping[str, Sequence[Any]]
) -> tuple[Program, Values]:
    """Read one expression and compute its values; inputs that it does not mention have gradient 0."""
    mentioned = text_inputs(text, {**arrays, **scalars})
    numbers = {name: value for name, value in scalars.items() if name in mentioned}
    known: dict[str, Any] = {name: tuple(s) for name, s in shapes.items()}
    known |= {name: a.shape for name, a in arrays.items() if name in mentioned} | dict.fromkeys(numbers, ())
    spoken = {n: Value.of(n, value) for n, value in {**arrays, **numbers}.items() if n in mentioned}
    reading = read_once(text, known, None, OUTPUTS, (), spoken)
    given = {**arrays, **{name: np.asarray(value) for name, value in numbers.items()}, **reading.made}
    missing = [t.name for t in reading.program.inputs if t.name not in given]
    if missing:
        raise InputError(f"{text!r} needs a value for {', '.join(missing)}", hints=(f"{missing[0]}=torch.randn(…)",))
    inputs = {t.name: given[t.name] for t in reading.program.inputs}
    values = forward(reading.program, inputs)
    out = values[reading.program.output]
    with contextlib.suppress(InputError):  # torch refuses the numbers
        found = ask_torch(torch_expression(text, reading, {}), reading.program, inputs, np.ones(np.shape(out)), ())
        if found is not None:
            check_reading(reading.program, inputs, out, found)
    return reading.program, values


def reference_from_capture(program: Capture, arrays: Mapping[str, Array], wanted: Sequence[str]) -> DerivedReference:
    """Return the reference of a captured program at these inputs, in float64."""
    if program.boxes:
        box = program.black_boxes[0]
        raise InputError(
            "an operation that is not derived has no formula to compare with", found=(f"{box.spelling}: {box.reason}",)
        )
    called = {own: label.replace(".", "_") for own, label in program.labels.items()}
    inputs = tuple(replace(t, name=called.get(t.name, t.name)) for t in program.recording.inputs)
    swap = {old.name: new.name for old, new in zip(program.recording.inputs, inputs, strict=True)}
    steps = tuple(
        replace(step, arguments=tuple(swap.get(a, a) if isinstance(a, str) else a for a in step.arguments))
        for step in program.recording.steps
    )
    held = {swap[old]: array for old, array in program.arrays.items() if old in swap}
    point = {t.name: arrays[t.name] if t.name in arrays else held[t.name] for t in inputs}
    wrong = [n for n, array in point.items() if np.shape(array) != np.shape(held[n])]
    if wrong:
        raise ShapeError(
            f"{wrong[0]} does not have the shape that it was captured with",
            found=(f"{np.shape(point[wrong[0]])}, captured {np.shape(held[wrong[0]])}",),
        )
    recordings = (Program(inputs, steps, swap.get(end, end), program.recording.sizes) for end in program.ends)
    whole = tuple(relabel_program(recording, program.labels) for recording in recordings)
    found = tuple(forward(recording, point) for recording in whole)
    return DerivedReference(program.title or "the captured program", whole, found, tuple(wanted))


def capture_reference(
    function: Callable[..., Any], inputs: Mapping[str, Any], arrays: Mapping[str, Array], wanted: Sequence[str]
) -> DerivedReference | str:
    """Return the function's own forward pass as a formula, or the reason why there is none."""

    def call(*given: Any) -> Any:
        return function(*given)

    kinds = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in inputs]
    call.__signature__ = inspect.Signature(kinds)  # type: ignore[attr-defined]  # what inspect.signature reads
    call.__name__ = getattr(function, "__name__", None) or type(function).__name__
    try:
        program = capture(call, *inputs.values())
        if program.boxes:
            return f"{program.black_boxes[0].spelling} is not derived"
        found = reference_from_capture(program, arrays, wanted)
    except SymgradError as error:
        custom = hasattr(getattr(function, "__self__", None), "backward")  # an apply, of which nothing is known
        return "it cannot be captured" if custom else error.problem
    except Exception as error:  # a function that cannot be recorded is still one that can be checked
        return f"it could not be recorded: {type(error).__name__}"
    known = {t.name for t in found.programs[0].inputs}
    lost = [name for name in wanted if name not in known and name in arrays]
    return replace(found, said="the forward pass, captured") if not lost else f"{lost[0]} was not found in it"


def reference_by_differences(candidate: Candidate, arrays: Mapping[str, Array], why: str) -> DifferenceReference | str:
    """Return Jacobians by differences in float64, or the reason why there are none."""
    names = candidate.names
    if sum(arrays[n].size for n in names) > MOST_MOVED:
        return f"{why}, and the inputs are too large for difference quotients"
    plain = candidate.run(Variation(double=True))
    if plain.failure or any(dtype != "float64" for dtype in plain.dtypes):
        return f"{why}, and the function does not compute in float64, which difference quotients need"
    jacobians = {}
    for name in names:
        columns = []
        for at in np.ndindex(*arrays[name].shape):
            step = STEP * max(1.0, abs(float(arrays[name][at])))
            coarse, fine = (output_quotients(candidate, name, arrays[name], at, step / by) for by in (1, 2))
            columns.append([(4 * f - c) / 3 for c, f in zip(coarse, fine, strict=True)])
        jacobians[name] = tuple(
            np.stack([column[n] for column in columns], -1).reshape(out.shape + arrays[name].shape)
            for n, out in enumerate(plain.outputs)
        )
    said = f"difference quotients of the forward pass ({why})"
    return DifferenceReference("its own forward pass", plain.outputs, jacobians, said, 1e-6)


def output_quotients(candidate: Candidate, name: str, array: Array, at: tuple[int, ...], step: float) -> list[Array]:
    """(f(x + h) − f(x − h)) / 2h for one entry, by output."""
    sides = []
    for shift in (step, -step):
        moved = array.copy()
        moved[at] += shift
        run = candidate.run(Variation(values={name: moved}, double=True, required=frozenset()))
        sides.append(run.outputs)
    return [(high - low) / (2 * step) for high, low in zip(*sides, strict=True)]
