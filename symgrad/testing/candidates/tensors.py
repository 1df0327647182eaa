"""A torch function as a candidate: run on fresh leaves, pulled back by its own backward.

Comes in: the function and its arguments, as the user has them. Goes out: `symgrad.testing.candidates`
answers, in float64 NumPy. The user's tensors, parameters and their ``.grad`` are left as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from symgrad.numeric import Array
from symgrad.testing.candidates import (
    PLAIN,
    Heard,
    MemoryLayout,
    Mutation,
    PullResult,
    Seeds,
    Variation,
    listening,
)
from symgrad.testing.candidates.watching import (
    dtype_name,
    functions_of,
    snapshot,
    tensor_mutations,
    to_float64,
    watch_backwards,
)
from symgrad.tracing.session.sampling import graph_nodes

ONCE, ERROR = "marked once_differentiable", "torch::autograd::Error"
"""The node that stands in the graph of a gradient that says that it cannot be differentiated again."""
DONATED, NO_SECOND = "donated buffers", "does not currently support double backward"
"""What torch says of a compiled graph that is asked twice, or differentiated again."""
LEAF = "a leaf variable that requires grad"


class Tensors:
    """A torch function; ``parameters`` are those of its module that are differentiated, by name."""

    masks = True

    def __init__(
        self, function: Any, inputs: Mapping[str, Any], wanted: Sequence[str], parameters: Mapping[str, Any]
    ) -> None:
        self.function, self.inputs, self.parameters = function, dict(inputs), dict(parameters)
        self.names = tuple(wanted)
        known = {**self.inputs, **self.parameters}
        self.shapes: Mapping[str, tuple[int, ...]] = {name: tuple(known[name].shape) for name in self.names}
        self.dtypes = {name: known[name].dtype for name in self.names}
        self.writes = False
        """Whether the function writes into its inputs, which is then done to copies of the leaves."""
        self.frees = False
        """Whether its graph serves one backward only, as torch.compile's may: each pull then runs forward again."""
        self.spent = ""
        """What a second backward through the same graph raised, where one through a fresh graph does not."""
        self.functions: Mapping[type[Any], str] | None = None
        """The user's own Functions of its graph, once it has run."""

    def leaves(self, variation: Variation) -> dict[str, Any]:
        """Fresh leaves, constants and options, in the order given."""
        found = {}
        for name, given in self.inputs.items():
            if not isinstance(given, torch.Tensor):
                found[name] = given
                continue
            values, layout = variation.values.get(name), variation.layouts.get(name)
            fresh = given.detach().clone(memory_format=torch.contiguous_format)
            if variation.double and fresh.is_floating_point():
                fresh = fresh.double()
            if values is not None or layout is not None:
                fresh = tensor_in_layout(
                    to_float64(given) if values is None else values, fresh.dtype, fresh.device, layout
                )
            required = self.names if variation.required is None else variation.required
            found[name] = fresh.requires_grad_(name in required) if name in self.names else fresh
        return found

    def run(self, variation: Variation = PLAIN) -> TensorRun:
        """The forward pass; a function that writes into its inputs gets copies of the leaves from then on."""
        run = self.once(variation)
        if LEAF in run.failure.lower() and not self.writes:
            self.writes = True
            run = self.once(variation)
        return run

    def once(self, variation: Variation) -> TensorRun:
        """One forward pass."""
        with self.requiring(variation.required), self.moved(variation):
            return TensorRun(self, self.leaves(variation), variation)

    @contextlib.contextmanager
    def requiring(self, required: frozenset[str] | None) -> Iterator[None]:
        """Parameters require a gradient where they are asked for."""
        before = {name: p.requires_grad for name, p in self.parameters.items()}
        try:
            for name, parameter in self.parameters.items():
                parameter.requires_grad_(name in self.names if required is None else name in required)
            yield
        finally:
            for name, parameter in self.parameters.items():
                parameter.requires_grad_(before[name])

    @contextlib.contextmanager
    def moved(self, variation: Variation) -> Iterator[None]:
        """Parameters hold other numbers, where nothing is pulled back: what backward reads later is as it was."""
        others = {n: variation.values[n] for n in self.parameters if n in variation.values}
        if variation.required != frozenset():
            others = {}
        before = {name: self.parameters[name].data for name in others}
        try:
            for name, numbers in others.items():
                self.parameters[name].data = torch.as_tensor(numbers).to(before[name])
            yield
        finally:
            for name, data in before.items():
                self.parameters[name].data = data

    def pushed(self, name: str, tangent: Array) -> tuple[Array, ...] | str | None:
        """Ju by ``jvp`` of the user's own Functions, where all of them have one."""
        own = self.functions if self.functions is not None else self.run().functions
        if not own or any(f.jvp is torch.autograd.Function.jvp for f in own) or name not in self.inputs:
            return None
        with listening() as heard, forward_ad.dual_level():
            leaves = self.leaves(PLAIN)
            moved = torch.as_tensor(tangent, dtype=leaves[name].dtype, device=leaves[name].device)
            leaves[name] = forward_ad.make_dual(leaves[name].detach(), moved)  # type: ignore[no-untyped-call]  # torch's gap
            results = tensors_among(self.function(*leaves.values()))
            parts = [forward_ad.unpack_dual(t) for t in results]  # type: ignore[no-untyped-call]  # torch's gap
            return tuple(
                np.zeros(t.shape) if p.tangent is None else to_float64(p.tangent)
                for p, t in zip(parts, results, strict=True)
            )  # one sentence
        return heard.failure or None

    def second(self, name: str, seeds: Seeds, weights: Array) -> PullResult:
        """By ``create_graph=True``."""
        run = self.run()
        with listening() as heard:
            pairs = run.pairs(seeds, ())
            outs = [t for t, _ in pairs]
            weighing = [s.requires_grad_() for _, s in pairs]
            first: Any = torch.autograd.grad(outs, run.asked[name], weighing, create_graph=True, allow_unused=True)[0]
            if first is None or not first.requires_grad:
                return PullResult(dict.fromkeys(run.asked))  # right where the second derivative is 0
            if any(node.name() == ERROR for node in graph_nodes([first])):
                return PullResult({}, ONCE)
            total = (first * torch.as_tensor(weights, dtype=first.dtype, device=first.device)).sum()
            found: Sequence[Any] = torch.autograd.grad(total, [*run.asked.values(), *weighing], allow_unused=True)
            names = [*run.asked, *(f"v{n + 1}" if len(weighing) > 1 else "v" for n in range(len(weighing)))]
            gradients = {n: None if g is None else to_float64(g) for n, g in zip(names, found, strict=True)}
            return PullResult(gradients)
        return PullResult({}, f"{ONCE}: compiled" if NO_SECOND in heard.failure else heard.failure, heard.printed)


class TensorRun:
    """One forward pass of a torch function, whose graph is kept."""

    def __init__(self, owner: Tensors, leaves: dict[str, Any], variation: Variation) -> None:
        self.owner, self.leaves, self.variation = owner, leaves, variation
        self.used = False
        """Whether backward ran through the graph."""
        self.tensors: tuple[Any, ...] = ()
        self.handed: dict[str, Any] = {}
        self.was: dict[str, Array | None] = {}
        """The gradients that the last call handed over, and what was in them."""
        before = {name: snapshot(leaf) for name, leaf in leaves.items()}
        given = [leaf.clone() if owner.writes and isinstance(leaf, torch.Tensor) else leaf for leaf in leaves.values()]
        with listening() as heard, torch.enable_grad():
            result = owner.function(*given)
            found = tensors_among(result)
            self.tensors = tuple(t for t in found if t.is_floating_point())
            if not self.tensors:
                heard.failure = f"returns {type(result).__name__}, not a tensor of floating-point numbers"
        self.failure, self.printed = heard.failure, heard.printed
        self.outputs = tuple(to_float64(t) for t in self.tensors)
        self.dtypes = tuple(dtype_name(t.dtype) for t in self.tensors)
        self.cut = tuple(not t.requires_grad for t in self.tensors)
        self.changes = tensor_mutations("mutates_input", "the forward pass", before, leaves)
        known = {**leaves, **owner.parameters}
        self.asked = {name: known[name] for name in owner.names if known[name].requires_grad}

    @cached_property
    def functions(self) -> Mapping[type[Any], str]:
        """The user's own Functions of its graph."""
        self.owner.functions = functions_of(self.tensors)
        return self.owner.functions

    def accumulated(self, seeds: Seeds) -> PullResult | None:
        """What ``backward`` adds to a ``.grad`` of ones."""
        run = self.fresh()
        pairs = run.pairs(seeds, ())
        asked = {name: leaf for name, leaf in run.asked.items() if name in run.leaves}
        if not pairs:
            return None
        run.used = True
        with listening() as heard:
            for leaf in asked.values():
                leaf.grad = torch.ones_like(leaf)
            torch.autograd.backward(
                [t for t, _ in pairs], [s for _, s in pairs], retain_graph=not run.owner.frees,
                inputs=list(asked.values()),
            )  # fmt: skip
        found = {n: None if t.grad is None else to_float64(t.grad) - 1 for n, t in asked.items()}
        for leaf in asked.values():
            leaf.grad = None
        return PullResult(found, heard.failure, heard.printed)

    def pairs(self, seeds: Seeds, layouts: Sequence[MemoryLayout | None]) -> list[tuple[Any, Any]]:
        """The outputs that count, each with its seed as a tensor."""
        chosen = [*layouts, *[None] * (len(self.tensors) - len(layouts))]
        return [
            (t, tensor_in_layout(s, t.dtype, t.device, layout))
            for t, s, layout in zip(self.tensors, seeds, chosen, strict=True)
            if s is not None and t.requires_grad
        ]

    def pull(self, seeds: Seeds, layouts: Sequence[MemoryLayout | None] = (), watched: bool = False) -> PullResult:
        """``torch.autograd.grad`` on the graph that is kept; what raises is looked at, and tried by a fresh graph."""
        before = self.used
        found = self.fresh().pull_here(seeds, layouts, watched)
        donated = DONATED in found.failure  # raised of the first pull, too: the graph was asked to be kept
        if not found.failure or not (before or donated) or self.owner.frees:
            return found
        self.owner.frees = donated
        again = self.owner.run(self.variation).pull_here(seeds, layouts, watched)
        if again.failure:
            return found
        self.owner.frees = True
        self.owner.spent = "" if donated else found.failure
        return again

    def fresh(self) -> TensorRun:
        """This run, or the same once more where its graph is used up."""
        return self.owner.run(self.variation) if self.owner.frees and self.used else self

    def pull_here(self, seeds: Seeds, layouts: Sequence[MemoryLayout | None], watched: bool) -> PullResult:
        """By this graph."""
        pairs = self.pairs(seeds, layouts)
        if not pairs or not self.asked:
            return PullResult(dict.fromkeys(self.asked))
        if watched:
            return self.watched(pairs)
        found, heard, changes = self.engine(pairs)
        untouched = self.pairs(seeds, layouts)
        written = any(not torch.equal(s, own) for (_, s), (_, own) in zip(pairs, untouched, strict=True))
        if heard.failure or written:  # once more, to say which
            again = self.fresh()
            return again.watched(again.pairs(seeds, layouts))
        return PullResult(found, "", heard.printed, changes)

    def engine(self, pairs: Sequence[tuple[Any, Any]]) -> tuple[dict[str, Array | None], Heard, tuple[Mutation, ...]]:
        """One call of the engine, and what it wrote into the gradients of the call before."""
        outs, weights = zip(*pairs, strict=True)
        found: Sequence[Any] = [None] * len(self.asked)
        self.used = True
        with listening() as heard:
            found = torch.autograd.grad(
                outs, list(self.asked.values()), weights, retain_graph=not self.owner.frees, allow_unused=True
            )  # fmt: skip
        changes = tensor_mutations("mutates_gradient", "backward", self.was, self.handed)
        self.handed = {f"{n}.grad": g for n, g in zip(self.asked, found, strict=True) if g is not None}
        self.was = {name: snapshot(g) for name, g in self.handed.items()}
        return {n: None if g is None else to_float64(g) for n, g in zip(self.asked, found, strict=True)}, heard, changes

    def watched(self, pairs: Sequence[tuple[Any, Any]]) -> PullResult:
        """One call of the engine, with what custom backwards return, and what is other than it was."""
        before = [snapshot(s) for _, s in pairs]
        leaves = {name: snapshot(leaf) for name, leaf in self.asked.items()}
        labels = {id(leaf): name for name, leaf in self.asked.items()}
        with watch_backwards(self.functions, labels) as notes:
            found, heard, rewritten = self.engine(pairs)
        changes = [*notes.changes, *rewritten]
        if not any(c.kind == "mutates_seed" for c in changes):
            for was, (_, s) in zip(before, pairs, strict=True):
                changes += tensor_mutations("mutates_seed", "backward", {"v": was}, {"v": s})
        changes += tensor_mutations("mutates_input", "backward", leaves, self.asked)
        gradients = {} if heard.failure else found
        return PullResult(
            gradients, heard.failure, heard.printed, tuple(changes), tuple(notes.returned), tuple(notes.functions)
        )  # fmt: skip


def tensor_in_layout(values: Array, dtype: Any, device: Any, layout: MemoryLayout | None) -> Any:
    """A tensor with these numbers, lying as ``layout`` says."""
    if layout is None:
        return torch.tensor(np.array(values, order="C"), dtype=torch.float64, device=device).to(dtype)
    where = layout.place(values)
    buffer = torch.tensor(where.buffer, dtype=torch.float64).to(dtype).to(device)
    return torch.as_strided(buffer, where.shape, where.strides, where.offset)


def tensors_among(result: Any) -> list[Any]:
    """The tensors of a result, containers opened."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, Mapping):
        result = list(result.values())
    return [t for part in result for t in tensors_among(part)] if isinstance(result, (tuple, list)) else []
