"""What is said of leaves beside their numbers: in which order, and why one gets zero.

Comes in: the nodes of a call, its program, and the sweep as it goes. Goes out: the order in which the forward pass
reads the leaves, the size and structure of their Jacobians, and for a gradient that is zero the steps through which
nothing comes back, as the sweep saw them.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array
from symgrad.program import Apply
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.captured.words import step_text
from symgrad.tracing.lift.labels import cast_of, goes_without_saying
from symgrad.tracing.record.numbers import MOST
from symgrad.tracing.record.trace import Node
from symgrad.tracing.record.weakly import Weakly


def as_read(leaves: Sequence[tuple[Node, Any]], order: Sequence[Node]) -> list[tuple[Node, Any]]:
    """``leaves`` in the order in which the forward pass reads them."""
    first: dict[int, tuple[int, int]] = {}
    for node in order:
        if node.call is not None:
            for place, source in enumerate(node.call.nodes()):
                first[id(source)] = min(first.get(id(source), (node.call.number, place)), (node.call.number, place))
    return sorted(leaves, key=lambda pair: first.get(id(pair[0]), (0, 0)))


class Flow:
    """What the sweep carried: whether anything arrived at a step, and whether anything came out of it."""

    def __init__(self) -> None:
        self.arrived: dict[str, bool] = {}
        self.passed: dict[tuple[str, int], bool] = {}
        self.small: dict[str, Array] = {}

    def seen(self, step: Apply, place: int, weights: Array, result: Array) -> None:
        """One step of the sweep."""
        name = step.result.name
        if name not in self.arrived:
            self.arrived[name] = bool(np.any(weights))
            if np.size(weights) <= MOST:
                self.small[name] = np.array(weights)
        self.passed[name, place] = self.arrived[name] and bool(np.any(result))

    def small_of(self, order: Sequence[Node], refs: Mapping[int, Any]) -> dict[int, tuple[weakref.ref[Any], Array]]:
        """What reached small tensors that are no leaves and are still there, by their identity."""
        found: dict[int, tuple[weakref.ref[Any], Array]] = {}
        for node in order:
            tensor = node.owner() if node.owner is not None and node.kind != "leaf" else None
            name = refs[id(node)].name if id(node) in refs else ""
            if tensor is not None and name in self.small:
                found[id(tensor)] = (Weakly(tensor), self.small[name])
        return found

    def stopped(self, program: Capture, name: str) -> tuple[list[Apply], bool]:
        """The steps at which what would reach ``name`` becomes 0, and whether something reaches it all the same."""
        readers: dict[str, list[tuple[Apply, int]]] = {}
        for step in program.recording.steps:
            for place, argument in enumerate(step.arguments):
                if isinstance(argument, str):
                    readers.setdefault(argument, []).append((step, place))
        found: dict[str, Apply] = {}
        reaches, stack, known = False, [name], {name}
        while stack:
            for step, place in readers.get(stack.pop(), ()):
                own = step.result.name
                if self.passed.get((own, place)):
                    reaches = True
                elif self.arrived.get(own):
                    found[own] = step
                elif own not in known:
                    known.add(own)
                    stack.append(own)
        return list(found.values()), reaches

    def why(self, program: Capture, name: str) -> str:
        """Why the gradient by ``name`` is 0, as far as the sweep shows it; nothing where it does not.

        What was broadcast is added up along those axes.
        """
        steps, reaches = self.stopped(program, name)
        if reaches:
            return "what reaches it adds up to 0"
        if len(steps) != 1:
            return f"nothing comes back through {len(steps)} steps" if steps else ""
        (step,) = steps
        if goes_without_saying(step, program.labels) and not cast_of(step):
            (source,) = step.tensors
            return f"what reaches {'it' if source == name else program.labels.get(source, source)} adds up to 0"
        return f"nothing comes back through {step_text(program, step)}{program.place(step.result.name)}"


def watching(*watchers: Callable[..., None]) -> Callable[..., None]:
    """Several watchers as one."""

    def seen(*what: Any) -> None:
        for watcher in watchers:
            watcher(*what)

    return seen


DIAGONAL = "diagonal("
"""How what is shown of a diagonal Jacobian begins."""
SHORT = 14
"""Programs with more steps than this get no Jacobian in one piece."""


def structure(program: Capture, name: str) -> str:
    """J's size and structure, where that is cheap."""
    found = size(program, name)
    if len(program.ends) > 1 or len(program.recording.steps) > SHORT or found == "1×1":
        return found
    try:
        read = program.jacobian(program.labels[name]).structure
    except SymgradError:
        return found
    return f"{found} {renamed(read.notation, program.labels) or read.kind}".rstrip()


WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")
"""A name in a notation, not an attribute (``.T``) and not the end of another name."""


def renamed(notation: str, labels: Mapping[str, str]) -> str:
    """``notation`` with the names that the script gives, all at once; ``diag`` is written out.

    ``a`` is not looked for in the ``tanh`` of ``tanh(a)``, nor in what already stands for another name.

    >>> renamed("diag(tanh(a)*b.T)", {"a": "b", "b": "a", "T": "u"})
    'diagonal(tanh(b)*a.T)'
    """

    def said(word: re.Match[str]) -> str:
        called = notation[word.end() :].startswith("(")
        return word[0] if called else labels.get(word[0], word[0])

    return WORD.sub(said, notation).replace("diag(", DIAGONAL)


def size(program: Capture, name: str) -> str:
    """``3×3``: rows of J are outputs, columns entries of the leaf."""
    rows = sum(int(np.prod(np.shape(program.arrays[e]), dtype=object)) for e in dict.fromkeys(program.ends))
    return f"{rows}×{int(np.prod(np.shape(program.arrays[name]), dtype=object))}"
