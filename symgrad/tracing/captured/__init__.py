"""The captured program, a public class.

Comes in: a run lifted by `symgrad.tracing.lift.lifter`; seeds and tangents as a tensor, an array, nested lists, or
None. Goes out: derivatives of all kinds, by the derived equations; an opaque call's local product is torch's, and the
program reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.backward import Backward, derive_backward, take_with_opened
from symgrad.backward.line_templates import prove_program_form
from symgrad.errors import InputError, ShapeError, UnknownNameError, UnsupportedError, seed_shape_error
from symgrad.explanation import Explanation, Given, Seed, build, with_hessians
from symgrad.explanation.formulas import derive_formulas
from symgrad.explanation.jacobian import Jacobian
from symgrad.language import arguments
from symgrad.language.inference import complex_notes
from symgrad.notebook import Listed
from symgrad.numeric import Array, Values
from symgrad.numeric.exact import as_float
from symgrad.numeric.vector_products import Taken, push_numbers
from symgrad.program import Program
from symgrad.render import write
from symgrad.tracing.captured.planned import SweepCache
from symgrad.tracing.captured.step_text import (
    RecordedProgram,
    StepWriter,
    draw_sweep,
    list_program,
    program_line,
    pull_recording,
    with_labels,
)
from symgrad.tracing.lift import LiftedProgram, relabel_program
from symgrad.tracing.lift.call_sweeps import CallwisePull
from symgrad.tracing.record.trace import as_numbers

if TYPE_CHECKING:
    from symgrad.tracing.captured.on_jax import OnJax
    from symgrad.tracing.captured.on_torch import OnTorch


def seed_array(seed: Any, output: Array, name: str) -> Array:
    """Return a seed as an array of the output's shape; raise `ShapeError` for any other shape."""
    shape = output.shape
    if seed is None and output.size != 1:
        raise ShapeError(
            f"{name} has {output.size} entries: the seed is a weight for each of them",
            hints=(f"a seed of shape {shape}", f"np.ones({shape}) for the gradient of the sum"),
        )
    array = np.ones(shape) if seed is None else to_numbers(seed)
    if array.shape != shape:
        raise seed_shape_error(array.shape, name, shape)
    return array


def to_numbers(value: Any) -> Array:
    """Return the values of a tensor, an array or nested lists as an array; integers stay exact."""
    try:
        array = as_numbers(value) if hasattr(value, "detach") else np.asarray(value)
        array = arguments.split_pairs(array) if np.iscomplexobj(array) else array
        return array if np.issubdtype(array.dtype, np.integer) else as_float(array)
    except (TypeError, ValueError, OverflowError, RuntimeError, RecursionError):
        raise arguments.argument_error(value, "weights and directions have to be numbers", "[[1, 2], [3, 4]]") from None


@dataclass(frozen=True, eq=False)
class Capture(RecordedProgram, Listed):
    """One run of a PyTorch function, with the path and the random numbers of this run.

    ``inputs`` are the tensors to differentiate with respect to, ``data`` the other inputs; ``outputs`` the results, in
    order; ``operations`` the steps; ``black_boxes`` the steps that were not derived; ``conventions`` the steps without
    a derivative at this point, where pullbacks take torch's values, each with the reason; ``complexes`` the tensors
    that are complex in torch: here, also in seeds and gradients, they are pairs (re, im) on a last axis.
    """

    @classmethod
    def of(cls, lifted: LiftedProgram, wanted: Iterable[str], title: str = "", file: str = "") -> Capture:
        """Create a capture from a lifted program and the names of the tensors to differentiate with respect to."""
        parts = (lifted.arrays, lifted.boxes, lifted.labels, tuple(wanted), lifted.lines, lifted.spellings)
        return cls(lifted.program, lifted.outputs, *parts, title, lifted.origins, lifted.complexes, file)

    @property
    def operations(self) -> tuple[str, ...]:
        """The steps in symgrad's language, in order; broadcasts are implicit."""
        lines = StepWriter(self)
        return tuple(lines.text(step) for step in self.told)

    @cached_property
    def _ways_back(self) -> SweepCache:
        """The prepared backward sweeps on NumPy."""
        return SweepCache(self._sweep)

    @cached_property
    def _on_torch(self) -> OnTorch:
        """The prepared backward sweeps on torch's tensors."""
        from symgrad.tracing.captured.on_torch import (
            OnTorch,  # only here: nobody else of this file's readers needs torch
        )

        return OnTorch(self._sweep, self._ways_back.held)

    def ready(self) -> None:
        """Compute cached properties of a pullback on tensors, since torch.compile does not trace their first use."""
        _ = self._on_torch, self.ends, self.values

    def _sweep(self, ends: Sequence[str], wanted: Sequence[str]) -> CallwisePull:
        """Return the sweep from ``ends`` to the inputs ``wanted``."""
        return CallwisePull(self.recording, self.values, wanted, self.boxes, ends=ends, origins=self.origins)

    @cached_property
    def _on_jax(self) -> OnJax:
        """The prepared backward sweeps on jax's arrays."""
        from symgrad.tracing.captured.on_jax import OnJax

        return OnJax(self._sweep, self._ways_back.held)

    def pullback(self, seed: Any = None, *, wrt: Sequence[str] | None = None, backend: str = "numpy") -> dict[str, Any]:
        """Return vᵀJ for every input, which is what ``backward(seed)`` would add to its ``.grad``.

        ``seed`` has the shape of the output; its default is 1 for an output of one entry. For several outputs it is a
        sequence with one seed, or None, for each. With ``backend="torch"`` or ``"jax"`` seeds and gradients are finite
        tensors or arrays of that library, in the seed's dtype and on its device, and gradients are differentiable with
        respect to the seed. Raises `UnsupportedError` if a step has no plan for the backend.
        """
        chosen = self._names(wrt)
        if arguments.require_text(backend, "backend") not in ("numpy", "torch", "jax"):
            raise InputError(f"there is no backend {backend!r}", hints=("numpy, torch or jax",))
        if backend == "torch":
            found = self._on_torch.pull(self._seeds(seed, self._on_torch.seed), chosen)
        elif backend == "jax":
            found = self._on_jax.pull(self._seeds(seed, self._on_jax.seed), chosen)
        else:
            found = self._ways_back.pull(self._seeds(seed), chosen)
        return {self.labels[name]: found[name] for name in chosen}

    def backward(self, seed: Any = None, wrt: Sequence[str] | None = None) -> Backward:
        """Return ``backward(seed)`` as short lines of code, each proven, with their values.

        There is one line for each tensor that has a name, is read twice or enters a nonlinearity: ``v_h`` has the shape
        of ``h``. ``seed`` is as for `pullback`; ``.code()`` returns the lines as a function. Raises `ShapeError` for a
        seed of another shape, `UnknownNameError` for an unknown input.
        """
        return self.backward_by(self._seeds(seed), self._names(wrt), seed is None and len(self.ends) == 1)

    def lines_for_any_seed(self, wrt: Sequence[str] | None = None) -> Backward:
        """Return the lines of `backward` for a symbolic seed, without values."""
        return self._lines(self._names(wrt))

    def _lines(self, wanted: Sequence[str], **told: Any) -> Backward:
        """Return the backward from all outputs with respect to ``wanted``."""
        ends = tuple(dict.fromkeys(self.ends))
        return derive_backward(self.recording, wanted, ends=ends, labels=self.labels, values=self.values, **told)

    def backward_by(
        self,
        seeds: Mapping[str, Array],
        wanted: Sequence[str],
        ones: bool,
        reader: Callable[[Backward], Taken] | None = None,
        sweep: Callable[[Sequence[str], Taken], Any] | None = None,
    ) -> Backward:
        """Return `backward` for seeds and inputs by the recording's names; ``ones``: a scalar's seed 1 is not written.

        ``reader`` turns the lines into a callback that receives their values one by one, which are then not kept.
        They come from ``sweep``, another sweep of the caller's, if possible.
        """

        def numbers(program: Program, values: Values, names: Sequence[str], lines: Backward) -> Mapping[str, Array]:
            taken = None if reader is None else reader(lines)
            asked = taken and sweep and take_with_opened(self.recording, program, values, names, taken)
            if sweep is not None and asked:
                sweep(*asked)
                return {}
            return pull_recording(self, seeds, names, program=program, values=values, taken=taken)

        return self._lines(wanted, ones=ones, pull=numbers, complexes=self.complexes)

    def to_svg(self, seed: Any = None, *, wrt: Sequence[str] | None = None) -> str:
        """Draw the program with the norm of each cotangent of ``backward(seed)``."""
        from symgrad.render.program_drawing import CotangentSums

        seeds, watched = self._seeds(seed), CotangentSums()
        pull_recording(self, seeds, self._names(wrt), seen=[watched])
        return draw_sweep(self, seeds, watched)

    def pushforward(self, tangents: Mapping[str, Any]) -> Array | tuple[Array, ...]:
        """Return Ju, the change of the outputs for tangents of some inputs."""
        changes = {}
        for name, tangent in arguments.require_values(tangents).items():
            own = self._name(name)
            array = to_numbers(tangent)
            if array.shape != np.shape(self.arrays[own]):
                raise ShapeError(
                    f"the tangent of {name} has to have its shape",
                    found=(f"tangent {array.shape}, {name} {np.shape(self.arrays[own])}",),
                )
            changes[own] = array
        found = push_numbers(self.recording, self.values, changes, self.ends, self.boxes)
        return found[0] if len(found) == 1 else tuple(found)

    def closed_form(self, name: str, *, output: str | None = None, longest: int | None = None) -> str | None:
        """Return the gradient with respect to one input in matrix notation, or None.

        It is None if there is no short form, or if the form has more than ``longest`` characters.
        """
        most = None if longest is None else arguments.require_count(longest, "longest")
        own, program = self._name(name), self.single(output)
        program = self._derived(program, own, "a closed form")
        form = prove_program_form(program, own, self.values)
        text = None if form is None else with_labels(form.text, self.labels)
        return None if text is None or (most is not None and len(text) > most) else text

    def jacobian(self, name: str, *, output: str | None = None) -> Jacobian:
        """Return ∂out/∂input: its formula if short, its structure, sparse and dense values."""
        own, program = self._name(name), self.single(output)
        program = self._derived(program, own, "a Jacobian")
        derived = derive_formulas(program, (own,))[own]
        return Jacobian(
            own,
            program,
            self.values,
            derived.axes,
            derived.inner,
            derived.jacobian,
            derived.claims,
            np.shape(self.arrays[program.output]),
            np.shape(self.arrays[own]),
            write,
        )

    def explain(
        self,
        seed: Any = None,
        *,
        wrt: Sequence[str] | None = None,
        output: str | None = None,
        check: bool = True,
        order: int = 1,
    ) -> Explanation:
        """Explain ``backward(seed)`` for this program, derived and proven.

        ``order=2`` adds the second derivatives with respect to every pair of inputs. Raises `UnsupportedError` if an
        opaque call is on the path.
        """
        program, check = self.single(output), arguments.require_flag(check, "check")
        order = arguments.require_order(order)
        chosen = self._names(wrt)
        for name in chosen:
            program = self._derived(program, name, "an explanation")
        program = relabel_program(program, self.labels)
        shape = program.numbers(program.out.shape)
        kind = "given" if seed is not None else "scalar" if int(np.prod(shape, dtype=object)) == 1 else "assumed"
        ones = np.ones(shape, dtype=np.int64)
        weights = ones if seed is None else seed_array(seed, ones, "out")
        given = tuple(Given(t.name, np.asarray(self.arrays[t.name]), True, True) for t in program.inputs)
        spoken = [self.labels[name] for name in chosen if name in self.complexes]
        text = {"given": str(weights.tolist()), "scalar": "1", "assumed": "ones"}[kind]
        pulled = {self.labels.get(name, name): with_labels(text, self.labels) for name, text in self.pulled.items()}
        found = build(
            program_line(program, pulled),
            program,
            given,
            Seed(weights, kind, text),
            chosen,
            check=check,
            conventions=complex_notes(spoken),
            writers=write,
        )
        return found if order == 1 else with_hessians(found)

    def reaches(self, name: str) -> bool:
        """Whether the outputs depend on an input."""
        return self._name(name) in self.recording.reaching(self.ends)

    # Names and seeds ------------------------------------------------------------------------------------

    @cached_property
    def _own_names(self) -> Mapping[str, str]:
        """The recording's names of inputs, by the user's names and by themselves; of equal names the first."""
        found: dict[str, str] = {}
        for name in self.wanted:
            found.setdefault(self.labels[name], name)
            found.setdefault(name, name)
        return found

    def _name(self, label: str) -> str:
        """Return the recording's name for the user's ``label``; raise `UnknownNameError` if there is none."""
        own = self._own_names.get(arguments.require_name(label, "an input"))
        if own is not None:
            return own
        raise UnknownNameError(f"there is no input {label!r}", found=(f"inputs: {', '.join(self.inputs)}",))

    def _names(self, wrt: Sequence[str] | None) -> tuple[str, ...]:
        chosen = arguments.require_names(wrt, "wrt")
        return self.wanted if chosen is None else tuple(self._name(label) for label in chosen)

    def _seeds(self, seed: Any, make: Callable[[Any, Array, str], Any] = seed_array) -> dict[str, Any]:
        """Return one seed for each output; the seeds of a repeated output are added."""
        several = len(self.ends) > 1
        parts = list(seed) if several and seed is not None else [seed] * (1 if seed is not None or not several else 0)
        if len(parts) != len(self.ends):
            raise InputError(
                f"there are {len(self.ends)} outputs: a seed for each is needed",
                hints=("None for an output with weight 0",),
            )
        found: dict[str, Array] = {}
        for name, part in zip(self.ends, parts, strict=True):
            if part is None and several:
                continue
            weights = make(part, np.asarray(self.arrays[name]), self.labels.get(name, name))
            found[name] = found[name] + weights if name in found else weights
        return found

    def single(self, output: str | None = None) -> Program:
        """The recording with one output."""
        output = None if output is None else arguments.require_name(output, "output")
        if output is None and len(self.ends) > 1:
            raise InputError("there are several outputs", hints=(f"output={self.outputs[0]!r}",))
        for name in self.ends:
            if output in (None, name, self.labels.get(name)):
                return Program(self.recording.inputs, self.recording.steps, name, self.recording.sizes)
        raise UnknownNameError(f"there is no output {output!r}", found=(f"outputs: {', '.join(self.outputs)}",))

    def boxed(self, own: str) -> bool:
        """Whether an opaque call is between an input, by its recorded name, and the outputs."""
        return not (self.recording.reached((own,)) & self.recording.reaching(self.ends)).isdisjoint(self.boxes)

    def _derived(self, program: Program, wanted: str, what: str) -> Program:
        """Refuse an opaque call between an input and the output; results of other opaque calls become data."""
        on_the_way = program.reached((wanted,)) & program.relevant
        boxes = [box for name, box in self.boxes.items() if name in on_the_way]
        if boxes:
            raise UnsupportedError(
                f"{what} with respect to {self.labels[wanted]} cannot be derived: {boxes[0].spelling} on the path has "
                "no derivation",
                found=(boxes[0].reason,),
                hints=("pullback(seed) gives its numbers, with torch's for that step",),
            )
        return program.with_given(self.boxes)

    def __repr__(self) -> str:
        return list_program(self)
