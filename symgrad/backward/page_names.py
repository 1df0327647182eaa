"""The names of tensors, their cotangents and the seeds on a page, without clashes.

    h → v_h      the seed of the only output → v      x → x.grad

Comes in: a program, the names of the user, the inputs to differentiate with respect to. Goes out: names of Python, and
what is shown for them. Where a function of the user's computes a gradient, the call itself stands in the line:
``Lin.apply(…, w)``, ``Lin.backward(v_h)[1]``, ``hook(v_h)``; `ArgumentSlots` says where its tensors are given.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from keyword import iskeyword

from symgrad.backward.code import MODULES, write_with_modules
from symgrad.program import SEEDS, UNNAMED, Apply, Program, free_name


class Suggested(str):
    """What is shown for a tensor that its author gave no name, as ``fc1.out``: it needs no line of its own for that."""


def is_named(label: str) -> bool:
    """Whether the author of a program gave a tensor its name."""
    return not (isinstance(label, Suggested) or UNNAMED.fullmatch(label))


def rename_results(program: Program, change: Mapping[str, str]) -> Program:
    """The same program with other names for what its steps compute."""

    def step(of: Apply) -> Apply:
        arguments = tuple(change.get(a, a) if isinstance(a, str) else a for a in of.arguments)
        beside = tuple((key, change.get(read, read)) for key, read in of.beside)
        result = replace(of.result, name=change.get(of.result.name, of.result.name))
        return replace(of, arguments=arguments, result=result, beside=beside)

    return replace(program, steps=tuple(map(step, program.steps)), output=change.get(program.output, program.output))


class PageNames:
    """The names of one page."""

    def __init__(
        self,
        program: Program,
        given: Collection[str],
        labels: Mapping[str, str],
        wanted: Sequence[str],
        ends: Sequence[str],
    ) -> None:
        self.given = frozenset(given)
        self.ends = tuple(ends)
        self._page: dict[str, str] = {}
        self._labels: dict[str, str] = {}
        self._gradients: dict[str, str] = {}
        self._places: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._taken: set[str] = set(MODULES)
        read = {name for step in program.steps for name in step.tensors}
        self._final = frozenset(end for end in ends if end not in read or len(self.ends) == 1)
        for tensor in sorted(program.tensors(), key=lambda tensor: tensor.name not in labels):
            label = labels.get(tensor.name, tensor.name)
            own = label if label.isidentifier() and not iskeyword(label) else re.sub(r"\W", "_", tensor.name)
            own = self.free(own)
            self._page[tensor.name] = own
            if own != label and (tensor.name in labels or label in MODULES):
                self._labels[own] = label
        worn = {name.partition("_")[0] for name in self._taken if "_" in name}  # v_h is a recorded gradient's, perhaps
        self.letter = free_name(SEEDS, {*self._numbered(), *self._taken, *program.spoken, *worn})
        self._labels |= {f"{self.letter}_{own}": f"{self.letter}_{label}" for own, label in self._labels.items()}
        words = "|".join(self._labels)  # identifiers, each matched as a whole
        self._pattern = re.compile(rf"(?<![\w.])({words})(?!\w)") if words else None
        self._taken |= {tensor.name for tensor in program.tensors()}  # what a line defines belongs to none of them
        self._taken |= {self.letter, *map(self.seed, ends)}
        self._cotangents: dict[str, str] = {}

    def _numbered(self) -> frozenset[str]:
        """The letters of which a numbered one is taken, where there are several outputs."""
        every = range(1, len(self.ends) + 1) if len(self.ends) > 1 else ()
        return frozenset(letter for letter in SEEDS for n in every if f"{letter}{n}" in self._taken)

    def free(self, name: str) -> str:
        """``name``, numbered if it is taken; taken from here on."""
        found = free_name((name,), self._taken)
        self._taken.add(found)
        return found

    def page(self, name: str) -> str:
        """A tensor's name on the page."""
        return self._page[name]

    def cotangent(self, name: str) -> str:
        """``v_h``; that of an output that nothing else reads is its seed."""
        if name in self._final:
            return self.seed(name)
        if name not in self._cotangents:
            self._cotangents[name] = self.free(f"{self.letter}_{self._page[name]}")
        return self._cotangents[name]

    def seed(self, end: str) -> str:
        """``v``, or v1, v2, … for several outputs."""
        return self.letter if len(self.ends) == 1 else f"{self.letter}{self.ends.index(end) + 1}"

    def gradient(self, name: str) -> str:
        """``x_grad``, which is shown as ``x.grad``."""
        if name not in self._gradients:
            target = self.free(f"{self._page[name]}_grad")
            self._gradients[name] = target
            self._shown[target] = f"{self.shown(self._page[name])}.grad"
        return self._gradients[name]

    def places(self, own: str, name: str) -> str:
        """``at_h``: the whole numbers, called ``own`` among the values, that were found on the way to h."""
        if own not in self._places:
            self._places[own] = self.free(f"at_{self._page[name]}")
        return self._places[own]

    def label(self, target: str) -> str:
        """What is shown for the left side of a line."""
        return self._shown.get(target) or self.shown(target)

    def shown(self, text: str) -> str:
        """``text`` with the labels of the user where they are no names of Python: ``fc1.weight``; and with modules."""
        text = write_with_modules(text)
        return text if self._pattern is None else self._pattern.sub(lambda m: self._labels[m[1]], text)


OPTION = "slots"
"""The option of a black box that says where its tensors stand in the user's call."""


@dataclass(frozen=True)
class ArgumentSlots:
    """A user's call: ``places`` among so many arguments ``given``, for each tensor that a gradient goes to.

    The step computes ``result`` of so many ``results``; ``call`` tells calls apart.
    """

    given: int
    places: tuple[tuple[int, ...], ...]
    result: int
    results: int
    call: str


@dataclass(frozen=True)
class OpaqueCall:
    """What comes back to one argument: ``called`` is given the ``weight`` of one result."""

    called: str
    weight: str
    slots: ArgumentSlots
    argument: int

    def gives(self, weights: Sequence[str]) -> str:
        """``Lin.backward(v_h)[1]``, the sum where a tensor was given twice."""
        call, many = f"{self.called}({', '.join(weights)})", self.slots.given > 1
        return " + ".join(f"{call}[{place}]" if many else call for place in self.slots.places[self.argument])


def find_argument_slots(step: Apply) -> ArgumentSlots | None:
    """Where the tensors of a user's function stand; None for other black boxes."""
    found = dict(step.options).get(OPTION)
    return found if isinstance(found, ArgumentSlots) else None


def opaque_call_of(step: Apply, argument: int, weight: str) -> OpaqueCall | None:
    """What a step is asked for one of its arguments."""
    slots, own = find_argument_slots(step), step.called.removesuffix(".apply")
    called = own if own == step.called else f"{own}.backward"
    return None if slots is None else OpaqueCall(called, weight, slots, argument)


def write_calls(questions: Sequence[OpaqueCall]) -> list[str]:
    """What is asked in words; the results of one call are asked at once, nothing (0) for what no line leads to."""
    together: dict[tuple[str, int], list[OpaqueCall]] = {}
    for one in questions:
        together.setdefault((one.slots.call, one.argument), []).append(one)
    return [first.gives(result_weights([first, *rest])) for first, *rest in together.values()]


def result_weights(questions: Sequence[OpaqueCall]) -> list[str]:
    """The weights of all results of one call."""
    known = {one.slots.result: one.weight for one in questions}
    return [known.get(result, "0") for result in range(questions[0].slots.results)]


def write_apply_call(step: Apply, arguments: Sequence[str]) -> str:
    """``Split.apply(x, …, y)[1]``: a black box forward; ``…`` is what is no tensor that a gradient goes to."""
    slots = find_argument_slots(step)
    if slots is None:
        return f"{step.called}({', '.join(arguments)})"
    own = {place: text for text, places in zip(arguments, slots.places, strict=True) for place in places}
    given = ", ".join(own.get(place, "…") for place in range(slots.given))
    return f"{step.called}({given})" + (f"[{slots.result}]" if slots.results > 1 else "")
