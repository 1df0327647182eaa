"""Watching a script: each call of ``backward`` or ``grad`` is let through, and explained from what was recorded.

Comes in: the calls, as they happen. Goes out: events of `symgrad.capture.story`, to whoever listens. The script
must not notice: whatever fails in here becomes a note, and torch's own exceptions pass through.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from symgrad.capture import diagnose, frames
from symgrad.capture.function import active_modes, recording
from symgrad.capture.lift import Lifted, Lifter
from symgrad.capture.mode import Recorder, tensors_in
from symgrad.capture.names import node_names
from symgrad.capture.numbers import digits, short, written
from symgrad.capture.program import Program
from symgrad.capture.story import Backward, Leaf, Note, Session
from symgrad.capture.sweeps import pull, reaching
from symgrad.capture.trace import Node, Where, as_array, upstream
from symgrad.capture.words import shape_text
from symgrad.errors import SymgradError
from symgrad.explanation.build import derive
from symgrad.numeric.exact import as_float

HANDFUL = 6
"""With more leaves than this, formulas are shown on request only."""
LONGEST_FORM = 56
"""A longer closed form is shown on request only."""
SHORT = 14
"""Programs with more steps than this get no Jacobian in one piece."""
OFTEN = 40
"""Calls from one line after which the others are only counted."""
TOLERANCE = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


class Watch:
    """One watched run. ``only`` names leaves and ``call`` the number of a call that is wanted in detail."""

    def __init__(
        self,
        script: str,
        tell: Callable[[Any], None] = lambda event: None,
        only: Sequence[str] = (),
        call: int | None = None,
    ) -> None:
        self.session = Session(script, torch_version=torch.__version__.split("+")[0])
        self.recorder = Recorder(self.heard)
        self.tell, self.only, self.call = tell, tuple(only), call
        self.busy = False
        self.number = 0
        self.per_line: dict[tuple[str, int], int] = {}
        self.shown: dict[tuple[str, int], tuple[str, ...]] = {}
        self.filled: dict[int, tuple[weakref.ref[Any], Where, str]] = {}
        self.names: dict[int, str] = {}
        self.told: set[Any] = set()
        self.weights: list[tuple[Where, str]] = []

    # The calls --------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Stand in for torch's three ways to run a graph backwards."""
        backward: Any = torch.Tensor.backward
        run, grad = torch.autograd.backward, torch.autograd.grad

        def tensor_backward(self_: Any, gradient: Any = None, *args: Any, **kwargs: Any) -> Any:
            return self.through(
                "backward", (self_,), (gradient,), lambda: backward(self_, gradient, *args, **kwargs), kwargs, args
            )

        def run_backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            outputs = tuple(tensors_in(tensors if not hasattr(tensors, "__next__") else list(tensors)))
            seeds = _seeds(grad_tensors, len(outputs))
            return self.through(
                "backward", outputs, seeds, lambda: run(outputs, grad_tensors, *args, **kwargs), kwargs, args
            )

        def run_grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any) -> Any:
            ends = tuple(tensors_in(outputs))
            wanted = tuple(tensors_in(inputs))
            return self.through(
                "grad",
                ends,
                _seeds(grad_outputs, len(ends)),
                lambda: grad(outputs, inputs, grad_outputs, *args, **kwargs),
                {**kwargs, "inputs": wanted},
                args,
            )

        torch.Tensor.backward = tensor_backward  # type: ignore[method-assign, assignment]
        torch.autograd.backward = run_backward
        torch.autograd.grad = run_grad
        try:
            with recording(self.recorder):
                yield
        finally:
            torch.Tensor.backward = backward  # type: ignore[method-assign]
            torch.autograd.backward, torch.autograd.grad = run, grad

    def through(
        self,
        kind: str,
        outputs: tuple[Any, ...],
        seeds: tuple[Any, ...],
        run: Callable[[], Any],
        keywords: dict[str, Any],
        rest: tuple[Any, ...] = (),
    ) -> Any:
        """One call: look, let it happen, explain."""
        if self.busy or not outputs or self.recorder not in active_modes():
            return run()
        self.busy = True
        try:
            return self._through(kind, outputs, seeds, run, keywords, rest)
        finally:
            self.busy = False

    def _through(
        self,
        kind: str,
        outputs: tuple[Any, ...],
        seeds: tuple[Any, ...],
        run: Callable[[], Any],
        keywords: dict[str, Any],
        rest: tuple[Any, ...],
    ) -> Any:
        with torch._C.DisableTorchFunction():
            self.number += 1
            scene = Scene(self, kind, outputs, seeds, keywords, frames.here())
            try:
                result = run()
            except Exception as error:
                self.explain(scene, None, error)
                raise
            self.explain(scene, result, None)
            retained = keywords.get("retain_graph", rest[0] if rest else None)
            if not (keywords.get("create_graph") if retained is None else retained):
                for node in scene.order:
                    node.freed = node.freed or scene.where
            return result

    def explain(self, scene: Scene, result: Any, error: Exception | None) -> None:
        """Turn one call into an event."""
        key = (scene.where.file, scene.where.line)
        count = self.per_line[key] = self.per_line.get(key, 0) + 1
        wanted = self.call is None or self.call == self.number
        if error is None and (not wanted or (count > OFTEN and self.call is None)):
            self.session.counted[scene.where.short] = self.session.counted.get(scene.where.short, 0) + 1
            scene.remember()
            return
        try:
            event = scene.event(result, error)
        except SymgradError as problem:
            event = scene.unexplained(problem.problem, problem.found, error)
        except Exception as problem:  # the script must go on
            event = scene.unexplained(f"symgrad bug: {type(problem).__name__}: {problem}", (), error)
        scene.remember()
        self.say(event)

    def say(self, event: Backward | Note) -> None:
        """Keep an event and pass it on."""
        self.session.events.append(event)
        self.tell(event)

    # What happens in between ------------------------------------------------------------------------------

    def heard(self, spelling: str, subject: Any, where: Where) -> None:
        """The recorder saw something that may matter: a gradient overwritten, replaced, or read."""
        if self.busy:
            return
        with torch._C.DisableTorchFunction():
            if spelling == "grad":
                self.read_none(subject[0], where)
            elif spelling == "Tensor.grad.__set__" and len(subject) == 2 and subject[1] is None:
                self.dropped(subject[0], where)
            elif isinstance(subject, torch.Tensor):
                self.written(spelling, subject, where)

    def written(self, spelling: str, tensor: Any, where: Where) -> None:
        """Something was written in place; if it is a gradient, say so."""
        for leaf, _, name in self.filled.values():
            owner = leaf()
            if owner is not None and owner.grad is tensor and where.text and ("grad" in where.text):
                key = (where.file, where.line, "written")
                if key not in self.told or "zero" not in spelling:
                    self.told.add(key)
                    self.say(Note(where, f"{name}.grad is {short(as_array(tensor))} from here on"))
                return

    def dropped(self, tensor: Any, where: Where) -> None:
        """``.grad`` was set to None, by ``zero_grad`` mostly; said once for each line."""
        key = (where.file, where.line, "dropped")
        if id(tensor) in self.filled and key not in self.told:
            self.told.add(key)
            self.say(Note(where, "the .grad it sets aside is None from here on: the next backward starts afresh"))

    def read_none(self, tensor: Any, where: Where) -> None:
        """``x.grad`` was read and is None: why."""
        if not self.session.calls or frames.asked_by_torch():
            return
        key = (where.file, where.line, "read")
        if key in self.told:
            return
        self.told.add(key)
        name = frames.names_in(frames.user_frame()).get(id(tensor)) or "it"
        node = self.recorder.node_of(tensor)
        self.say(Note(where, diagnose.why_none(name, tensor, node, self.session.calls[-1].where)))


class Scene:
    """One call, as it was found: nodes, leaves, what stood in ``.grad`` before."""

    def __init__(
        self,
        watch: Watch,
        kind: str,
        outputs: tuple[Any, ...],
        seeds: tuple[Any, ...],
        keywords: dict[str, Any],
        where: Where,
    ) -> None:
        self.watch, self.kind, self.outputs, self.seeds, self.where = watch, kind, outputs, seeds, where
        self.number = watch.number
        self.nodes = [watch.recorder.node_of(t) for t in outputs]
        self.order = upstream(self.nodes)
        self.sight = frames.names_in(frames.user_frame())
        inputs = keywords.get("inputs")
        self.asked = None if inputs is None else list(tensors_in(inputs))
        owned = [(n, n.owner()) for n in self.order if n.kind == "leaf" and n.owner is not None]
        self.leaves: list[tuple[Node, Any]] = [(n, t) for n, t in owned if t is not None]
        self.before = {id(t): None if t.grad is None else t.grad.detach().clone() for _, t in self.leaves}

    # Events -----------------------------------------------------------------------------------------------

    def event(self, result: Any, error: Exception | None) -> Backward:
        """What happened, in full."""
        names = node_names(self.order, {}, self.sight)
        if error is not None:
            return self.failed(names, error)
        lifted = Lifter(names).lift(self.nodes)
        targets = self.targets(lifted, result)
        program = Program(
            lifted.program,
            lifted.outputs,
            lifted.arrays,
            lifted.boxes,
            lifted.labels,
            tuple(targets),
            lifted.lines,
            lifted.spellings,
        )
        shown = self.operations(program)
        key = (self.where.file, self.where.line)
        repeated = self.watch.shown.get(key) == shown and self.watch.call is None
        self.watch.shown[key] = shown
        births: list[Any] = []
        seeds = self.weights(lifted)
        derived = pull(
            lifted.program, program.values, lifted.boxes, seeds, tuple(targets), diagnose.births(births), lifted.origins
        )
        few = len(targets) <= HANDFUL or bool(self.watch.only)
        rows = [
            self.leaf(program, name, tensor, true, derived[name], few and not repeated)
            for name, (tensor, true) in targets.items()
            if not self.watch.only or program.labels[name] in self.watch.only
        ]
        notes = [*self.accumulated(rows), *([] if repeated else self.missing(lifted))]
        if any(row.added is not None and not np.isfinite(row.added).all() for row in rows) or any(
            row.after is not None and not np.isfinite(row.after).all() for row in rows
        ):
            notes += diagnose.not_finite(program, births)
        notes += [f"{n} was changed by a hook" for n in self.hooked(program, targets)]
        if self.seeds[0] is not None:
            self.watch.weights.append((self.where, frames.argument(self.where.text) or self.seed_text()))
        return Backward(
            self.number,
            self.where,
            self.seed_text(),
            self.meaning(lifted),
            shown,
            self.roles(program, targets),
            tuple(rows),
            tuple(notes),
            tuple(f"{b.name}: {b.spelling} is a black box, not derived: {b.reason}" for b in program.black_boxes),
            repeated=repeated,
        )

    def unexplained(self, problem: str, found: tuple[str, ...], error: Exception | None) -> Backward:
        """A call that could not be explained, with the reason."""
        failure = "" if error is None else f"{type(error).__name__}: {first_words(error)}"
        return Backward(
            self.number,
            self.where,
            self.seed_text(),
            "",
            (),
            (),
            (),
            (f"not explained: {problem}", *found),
            failure=failure,
        )

    def failed(self, names: dict[int, str], error: Exception) -> Backward:
        """A call that torch refused."""
        try:
            lifted = Lifter(names).lift(self.nodes)
        except SymgradError:
            lifted = None
        program = None
        if lifted is not None:
            leaves = tuple(n for n, node in lifted.nodes.items() if node.kind == "leaf")
            program = Program(
                lifted.program,
                lifted.outputs,
                lifted.arrays,
                lifted.boxes,
                lifted.labels,
                leaves,
                lifted.lines,
                lifted.spellings,
            )
        reasons = diagnose.failure(self, lifted, program, error)
        shown = self.operations(program) if program is not None else ()
        roles = self.roles(program, program.wanted) if program is not None and shown else ()
        message = first_words(error)
        return Backward(
            self.number,
            self.where,
            self.seed_text(),
            "",
            shown,
            roles,
            (),
            (),
            (),
            f"{type(error).__name__}: {message}",
            tuple(reasons),
        )

    # Parts ------------------------------------------------------------------------------------------------

    def targets(self, lifted: Lifted, result: Any) -> dict[str, tuple[Any, Any]]:
        """The tensors a gradient went to, by name, and torch's vᵀJ for each (None: torch has none)."""
        by_node = {id(node): name for name, node in lifted.nodes.items()}
        if self.kind == "grad":
            found = result if isinstance(result, tuple) else (result,)
            chosen = {}
            for tensor, true in zip(self.asked or (), found, strict=False):
                node = self.watch.recorder.node_of(tensor)
                name = by_node.get(id(node))
                if name is not None:
                    chosen[name] = (tensor, true)
            return chosen
        asked = None if self.asked is None else {id(t) for t in self.asked}
        chosen = {}
        for node, tensor in self.leaves:
            if id(node) in by_node and (asked is None or id(tensor) in asked):
                before, after = self.before[id(tensor)], tensor.grad
                true = None if after is None else after.detach().clone() if before is None else after.detach() - before
                chosen[by_node[id(node)]] = (tensor, true)
        return chosen

    def leaf(self, program: Program, name: str, tensor: Any, true: Any, derived: Any, formulas: bool) -> Leaf:
        """One row."""
        jacobian, form = self.formulas(program, name) if formulas else (self.size(program, name), None)
        before = self.before.get(id(tensor)) if self.kind == "backward" else None
        added = as_float(derived)
        error = agrees = None
        if true is not None:
            got = as_float(as_array(true.to_dense() if true.is_sparse else true))
            error, agrees = difference(added, got, TOLERANCE.get(tensor.dtype, 1e-3), before)
        after = tensor.grad if self.kind == "backward" else true
        return Leaf(
            program.labels[name],
            tuple(tensor.shape),
            jacobian,
            form,
            None if before is None else as_array(before),
            added,
            None if after is None else np.array(as_array(after.to_dense() if after.is_sparse else after)),
            error,
            agrees,
        )

    def formulas(self, program: Program, name: str) -> tuple[str, str | None]:
        """J's size and structure, and the closed form, where they are cheap."""
        size = self.size(program, name)
        if len(program.ends) > 1 or len(program.recording.steps) > SHORT:
            return size, None
        try:
            program._derived(program.recording, name, "")
            structure = derive(program.recording, name).structure
            form = program.closed_form(program.labels[name])
        except SymgradError:
            return size, None
        kind = structure.notation or structure.kind
        for own, label in program.labels.items():
            kind = kind.replace(own, label) if own != label else kind
        if form is not None and len(form) > LONGEST_FORM and not self.watch.only:
            form = None
        return f"{size} {kind}".replace("diag(", "diagonal("), form

    @staticmethod
    def size(program: Program, name: str) -> str:
        """``3×3``: rows of J are outputs, columns entries of the leaf."""
        rows = sum(int(np.prod(np.shape(program.arrays[e]), dtype=object)) for e in dict.fromkeys(program.ends))
        return f"{rows}×{int(np.prod(np.shape(program.arrays[name]), dtype=object))}"

    def operations(self, program: Program) -> tuple[str, ...]:
        """The program's lines."""
        return program.operations

    def roles(self, program: Program, targets: Any) -> tuple[str, ...]:
        """Each input with its shape and what it is."""
        rows = []
        for tensor in program.recording.inputs:
            mark = " (leaf)" if tensor.name in targets else ""
            rows.append(f"{program.labels[tensor.name]} {shape_text(tensor.shape)}{mark}")
        rows += [
            f"{program.labels.get(e, e)} {shape_text(np.shape(program.arrays[e]))}" for e in dict.fromkeys(program.ends)
        ]
        return tuple(rows)

    def weights(self, lifted: Lifted) -> dict[str, Any]:
        """The seeds by output name."""
        found: dict[str, Any] = {}
        for name, tensor, seed in zip(lifted.outputs, self.outputs, self.seeds, strict=True):
            array = np.ones(tuple(tensor.shape)) if seed is None else as_float(as_array(seed))
            found[name] = found[name] + array if name in found else array
        return found

    def seed_text(self) -> str:
        """``1 1 1 (given)``."""
        if len(self.seeds) != 1:
            return f"one for each of {len(self.seeds)} outputs"
        (seed,) = self.seeds
        if seed is None:
            return "1 (implicit: one output)"
        array = as_float(as_array(seed))
        inside = written(array) if array.size <= 8 else short(array)
        return f"{inside.strip('[]') if array.ndim < 2 else inside} (given)"

    def meaning(self, lifted: Lifted) -> str:
        """``L = z[0] + z[1]``: the scalar that the weights stand for."""
        if len(self.seeds) != 1 or self.seeds[0] is None:
            return ""
        array = as_float(as_array(self.seeds[0]))
        name = lifted.labels.get(lifted.outputs[0], lifted.outputs[0])
        if not 0 < array.size <= 6:
            return ": L = Σ v·" + name + (", the sum" if array.size and (array == 1).all() else "")
        terms = []
        for at in np.ndindex(*array.shape):
            entry = f"{name}[{','.join(map(str, at))}]" if at else name
            value = float(array[at])
            terms.append(entry if value == 1 else f"{digits(value)}·{entry}")
        return ": L = " + " + ".join(terms).replace("+ -", "- ") + (", the sum" if (array == 1).all() else "")

    def accumulated(self, rows: list[Leaf]) -> list[str]:
        """A note where this call added to what an earlier one had put there."""
        again = [r.name for r in rows if r.before is not None and np.any(r.before)]
        earlier = sorted({w.line for _, w, n in self.watch.filled.values() if n in again})
        if not again:
            return []
        lines = f"line {earlier[0]}" if len(earlier) == 1 else "an earlier call"
        who = f"{again[0]}.grad" if len(again) == 1 else f".grad of {len(again)} tensors"
        return [
            f"{who} already held what {lines} put there; backward adds: two calls with v₁ and v₂ are one with v₁ + v₂"
        ]

    def missing(self, lifted: Lifted) -> list[str]:
        """Tensors in the program, or cut off from it, that get no gradient, and why."""
        notes: list[str] = []
        unasked: list[str] = []
        for name, node in lifted.nodes.items():
            if node.kind == "data" and id(node) in node_names([node], {}, self.sight) and node.cut is None:
                tensor = node.owner() if node.owner is not None else None
                if tensor is not None and tensor.is_floating_point() and tensor.dim() and not tensor.requires_grad:
                    unasked.append(lifted.labels[name])
            if node.cut is not None:
                reached = {id(t) for _, t in self.leaves}
                lost = [t for t in (r() for r in node.cut.leaves) if t is not None]
                away = [self.sight.get(id(t), "a leaf") for t in lost if id(t) not in reached]
                here = [self.sight.get(id(t), "a leaf") for t in lost if id(t) in reached]
                if away:
                    who = ", ".join(dict.fromkeys(away))
                    notes.append(f"{who} gets nothing: the path was cut in {node.cut.where.short} by {node.cut.how}")
                elif "detach" in node.cut.how or "data" in node.cut.how or "no_grad" in node.cut.how:
                    who = ", ".join(dict.fromkeys(here)) or "a leaf"
                    notes.append(
                        f"one of the ways from {who} was cut in {node.cut.where.short} by {node.cut.how}: "
                        "its part of vᵀJ is left out"
                    )
        if len(unasked) == 1:
            notes.append(f"{unasked[0]} is not asked: requires_grad=False, so {unasked[0]}.grad stays None")
        elif unasked:
            notes.append(f"{', '.join(unasked)} are not asked: requires_grad=False, so their .grad stays None")
        return list(dict.fromkeys(notes))[:8]

    def hooked(self, program: Program, targets: dict[str, tuple[Any, Any]]) -> list[str]:
        """Leaves with hooks: torch's gradient is then what the hook made of vᵀJ."""
        return [program.labels[n] for n, (t, _) in targets.items() if getattr(t, "_backward_hooks", None)]

    def remember(self) -> None:
        """Whose ``.grad`` this call filled."""
        for _, tensor in self.leaves:
            if tensor.grad is not None:
                name = self.sight.get(id(tensor), "a leaf")
                self.watch.filled[id(tensor)] = (weakref.ref(tensor), self.where, name)


def difference(derived: Any, got: Any, tolerance: float, before: Any) -> tuple[float, bool]:
    """How far apart, relative to the largest entry, and whether that is within rounding."""
    if derived.shape != got.shape:
        return float("inf"), False
    held = 0.0 if before is None else float(before.abs().max()) if before.numel() else 0.0
    finite = np.abs(got[np.isfinite(got)])
    scale = max(float(finite.max()) if finite.size else 0.0, held, 1e-30)
    with np.errstate(invalid="ignore"):
        same = (derived == got) | (np.isnan(derived) & np.isnan(got))
        gap = np.where(same, 0.0, np.abs(derived - got))
    worst = float(np.max(np.where(np.isfinite(gap), gap, np.inf))) if gap.size else 0.0
    return worst / scale, bool(worst <= tolerance * max(scale, 1e-6))


def first_words(error: Exception) -> str:
    """An exception's first sentence: the whole stands in the traceback."""
    line = (str(error).splitlines() or [""])[0]
    sentence = line.split(". ")[0].split(": [")[0]
    return sentence if len(sentence) <= 120 else f"{sentence[:117]}…"


def _seeds(value: Any, count: int) -> tuple[Any, ...]:
    """One seed for each output."""
    if value is None:
        return (None,) * count
    if isinstance(value, torch.Tensor):
        return (value,)
    parts = tuple(value)
    return parts if len(parts) == count else (None,) * count


__all__ = ["Node", "Watch", "reaching"]
