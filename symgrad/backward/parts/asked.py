"""What a function of the user's is asked, in words: ``Lin.apply(…, w)``, ``Lin.backward(v_h)[1]``, ``hook(v_h)``.

Comes in: the step that stands for its call, with `Slots`. Goes out: text, in the place of code that nobody here wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.program import Apply

OPTION = "slots"
"""The option of a black box that says where its tensors stand in the user's call."""


@dataclass(frozen=True)
class Slots:
    """A user's call: ``places`` among so many arguments ``given``, for each tensor that a gradient goes to.

    The step computes ``result`` of so many ``results``; ``call`` tells calls apart.
    """

    given: int
    places: tuple[tuple[int, ...], ...]
    result: int
    results: int
    call: str


@dataclass(frozen=True)
class Asked:
    """What comes back to one argument: ``called`` is given the ``weight`` of one result."""

    called: str
    weight: str
    slots: Slots
    argument: int

    def gives(self, weights: Sequence[str]) -> str:
        """``Lin.backward(v_h)[1]``, the sum where a tensor was given twice."""
        call, many = f"{self.called}({', '.join(weights)})", self.slots.given > 1
        return " + ".join(f"{call}[{place}]" if many else call for place in self.slots.places[self.argument])


def slots_of(step: Apply) -> Slots | None:
    """Where the tensors of a user's function stand; None for other black boxes."""
    found = dict(step.options).get(OPTION)
    return found if isinstance(found, Slots) else None


def asked(step: Apply, argument: int, weight: str) -> Asked | None:
    """What a step is asked for one of its arguments."""
    slots, own = slots_of(step), step.called.removesuffix(".apply")
    called = own if own == step.called else f"{own}.backward"
    return None if slots is None else Asked(called, weight, slots, argument)


def answers(questions: Sequence[Asked]) -> list[str]:
    """What is asked in words; the results of one call are asked at once, nothing (0) for what no line leads to."""
    together: dict[tuple[str, int], list[Asked]] = {}
    for one in questions:
        together.setdefault((one.slots.call, one.argument), []).append(one)
    return [first.gives(weights([first, *rest])) for first, *rest in together.values()]


def weights(questions: Sequence[Asked]) -> list[str]:
    """The weights of all results of one call."""
    known = {one.slots.result: one.weight for one in questions}
    return [known.get(result, "0") for result in range(questions[0].slots.results)]


def applied(step: Apply, arguments: Sequence[str]) -> str:
    """``Split.apply(x, …, y)[1]``: a black box forward; ``…`` is what is no tensor that a gradient goes to."""
    slots = slots_of(step)
    if slots is None:
        return f"{step.called}({', '.join(arguments)})"
    own = {place: text for text, places in zip(arguments, slots.places, strict=True) for place in places}
    given = ", ".join(own.get(place, "…") for place in range(slots.given))
    return f"{step.called}({given})" + (f"[{slots.result}]" if slots.results > 1 else "")
