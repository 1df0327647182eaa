"""What a user's own backward returned that torch repaired without a word: a shape it added up, a type it cast.

    AddBias.backward returned 4×3 for its input 2, which is 3 (train.py:8): torch added it up

Or what torch refused: another number of gradients than the forward has inputs, one of another shape, a write into a v
that is one number. Or that it returned None, which torch takes for no path.

A hook of torch's sees the gradient after the repair, so the return of the function itself is looked at, by
`sys.setprofile`, while torch runs the call. Nothing is run again, nothing of the user's is wrapped or replaced, and
where somebody profiles already nothing is looked at. Comes in: calls of the user's own functions. Goes out: sentences.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from symgrad.render.content.words import counted
from symgrad.tracing.record.trace import Call, Node
from symgrad.tracing.session.torchs_words import Refusal, refusal_of


@dataclass(frozen=True)
class Returned:
    """Shape and type of each part of what was returned, None for what is no tensor; ``where`` it was."""

    parts: tuple[tuple[tuple[int, ...], Any] | None, ...]
    where: str


class Sensor:
    """Looks, inside ``with``, at what the backwards of some calls return."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = {id(call.graph): call for call in calls}
        self.codes = {code for call in calls if (code := code_of(call.graph)) is not None}
        self.seen: dict[int, Returned] = {}
        self.ended: dict[int, str] = {}

    def __enter__(self) -> None:
        """Look, unless somebody else does."""
        if self.codes and sys.getprofile() is None:
            sys.setprofile(self.look)

    def __exit__(self, *_: object) -> None:
        """Look no more; what the script itself has set meanwhile stays."""
        if sys.getprofile() == self.look:
            sys.setprofile(None)

    def look(self, frame: FrameType, event: str, value: Any) -> None:
        """One event of Python's; what cannot be looked at is left alone."""
        if event != "return" or frame.f_code not in self.codes:
            return
        try:
            context = frame.f_locals.get(frame.f_code.co_varnames[0])
            where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            if value is None:  # so does one end that raises
                self.ended[id(context)] = where
                return
            parts = value if isinstance(value, tuple) else (value,)
            found = tuple((tuple(p.shape), p.dtype) if hasattr(p, "grad_fn") else None for p in parts)
            self.seen[id(context)] = Returned(found, where)
        except Exception:  # the script goes on, whatever its objects do when they are asked
            return

    def told(self) -> list[str]:
        """A sentence for each gradient that is not what torch stored."""
        return list(dict.fromkeys(said for _, said in self.each()))

    def each(self) -> Iterator[tuple[Node, str]]:
        """The same, with the input whose gradient it is."""
        for call, seen in self.returned():
            yield from of_one(call, seen)

    def returned(self) -> list[tuple[Call, Returned]]:
        """What each backward returned in a call that went well."""
        nothing = {
            graph: Returned((None,) * len(self.calls[graph].arguments), where)
            for graph, where in self.ended.items()
            if graph in self.calls
        }
        found = {**nothing, **self.seen}
        return [(self.calls[graph], seen) for graph, seen in found.items() if graph in self.calls]

    def refused(self, error: Exception) -> list[str]:
        """What a backward did that torch does not take, as ``error`` says."""
        refusal = refusal_of(error)
        if refusal is Refusal.MISCOUNTED:
            seen = [(self.calls[graph], seen) for graph, seen in self.seen.items() if graph in self.calls]
            return [line for call, returned in seen for line in miscounted(call, returned)]
        if refusal is Refusal.OTHER_GRADIENT:
            every = (said for call, seen in self.returned() for _, said in of_one(call, seen, taken=False))
            return list(dict.fromkeys(every))
        if refusal is Refusal.SHARED_MEMORY:
            broken = [(self.calls[graph], where) for graph, where in self.ended.items() if graph in self.calls]
            return [line for call, where in broken for line in written_to(call, where)]
        return []


def miscounted(call: Call, seen: Returned) -> Iterator[str]:
    """Another number of gradients than the forward has inputs; torch lets more go by that are all None."""
    given, wanted = len(seen.parts), len(call.arguments)
    if given < wanted or any(part is not None for part in seen.parts[wanted:]):
        name = call.spelling.removesuffix(".apply")
        yield (
            f"{name}.backward returned {counted(given, 'gradient')} ({seen.where}), and {name}.forward has "
            f"{counted(wanted, 'input')}: one for each is returned, in their order, None for what has none"
        )


def written_to(call: Call, where: str) -> Iterator[str]:
    """A v whose entries are one number in memory, in a backward that ended by torch's word about such a tensor."""
    for v in call.observation.live:
        if v is not None and any(size > 1 and not step for size, step in zip(v.shape, v.stride(), strict=True)):
            name, strides = call.spelling.removesuffix(".apply"), tuple(v.stride())
            yield (
                f"{name}.backward wrote into such a tensor ({where}). The v that it was given is one: {size(v.shape)} "
                f"with strides {strides}, as a sum sends it back; v is read only"
            )


def of_one(call: Call, seen: Returned, taken: bool = True) -> Iterator[tuple[Node, str]]:
    """What one passage gave otherwise than its inputs are, and whether torch has ``taken`` it."""
    name = f"{call.spelling.removesuffix('.apply')}.backward"
    for number, (node, part) in enumerate(zip(call.arguments, seen.parts, strict=False)):
        if not isinstance(node, Node) or not node.carries or node.held.is_complex():
            continue
        which = f"its input {number + 1}" if len(call.arguments) > 1 else "its input"
        if part is None:
            yield node, f"{name} returned None for {which} ({seen.where}): no gradient goes on from there"
            continue
        shape, dtype = part
        if shape != node.shape:
            sizes = f"{size(shape)} for {which}, which is {size(node.shape)}"
            ends = ": torch added it up; outside its engine nobody would" if taken else ": the two have to be the same"
            if taken or not broadcasts(node.shape, shape):
                yield node, f"{name} returned {sizes} ({seen.where}){ends}"
        elif dtype != node.held.dtype:
            types = f"{kind(dtype)} for {which}, which is {kind(node.held.dtype)}"
            yield node, f"{name} returned {types} ({seen.where}): torch cast it"


def broadcasts(small: Sequence[int], large: Sequence[int]) -> bool:
    """Whether one shape can be repeated to another, whose gradient torch adds up then."""
    pairs = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(one in (1, other) for one, other in pairs)


def code_of(graph: Any) -> CodeType | None:
    """What a user's own backward runs; None where it is no function of Python's."""
    function = getattr(getattr(type(graph), "_forward_cls", None), "backward", None)
    found = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return found if isinstance(found, CodeType) and found.co_argcount else None


def size(shape: Sequence[int]) -> str:
    """``4×3``."""
    return "×".join(map(str, shape)) or "one number"


def kind(dtype: Any) -> str:
    """``float16``."""
    return str(dtype).removeprefix("torch.")
