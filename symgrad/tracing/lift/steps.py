"""What a composition is made of: entries of the table, applied one after the other to what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from symgrad.entries.spec import Op
from symgrad.language.steps.calls import Ref
from symgrad.numeric.exact import Array
from symgrad.ops.calls.registry import Last
from symgrad.ops.entry import named, plays
from symgrad.program import Role

if TYPE_CHECKING:
    from symgrad.tracing.lift.bench import Bench  # it loads torch, which a description need not

Said = Last
Composition = Callable[..., Said | None]
Entered = TypeVar("Entered", bound=Callable[..., Any])


def entering(table: dict[str, Callable[..., Any]]) -> Callable[..., Callable[[Entered], Entered]]:
    """A decorator that enters a function under torch's last words for what it says, or its own name and ``also``."""

    def under(*words: str, also: Sequence[str] = ()) -> Callable[[Entered], Entered]:
        def entered(function: Entered) -> Entered:
            table.update(dict.fromkeys(words or (function.__name__, *also), function))
            return function

        return entered

    return under


COMPOSITIONS: dict[str, Composition] = {}
"""What only a run can say in entries, by the last word of torch's spelling."""
composition = entering(COMPOSITIONS)


class Steps:
    """Entries of the table applied one after the other: ``steps(parts.mul, x, 2)``."""

    def __init__(self, lifter: Bench) -> None:
        self.lifter = lifter

    def __call__(self, name: str | Op, *arguments: Any, **keywords: Any) -> Ref:
        """One entry, on nodes, earlier steps and numbers."""
        op = named(name)
        return self.lifter.apply_op(op, f"torch.{op.name}", in_one_list(op, arguments), keywords)

    def text(self, text: str, **meanings: Any) -> Ref:
        """The steps of a text in symgrad's own language, over nodes, earlier steps and numbers."""
        return self.lifter.read(text, meanings)

    def data(self, label: str, array: Array) -> Ref:
        """Numbers of the run, as an input of its own."""
        return self.lifter.data(label, array)

    @staticmethod
    def number(size: Any) -> int:
        """A size as a number."""
        return int(size)

    whole = number


def in_one_list(op: Op, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The tensors of an entry that takes any number of them as torch takes them: as one list."""
    row = op.variadic and bool(arguments) and all(hasattr(a, "shape") for a in arguments)
    return (tuple(arguments),) if row else tuple(arguments)


def joined_parts(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Of tensors to join those that torch does not pass over: an empty one with one axis fits any other.

    One is left where all of them are like that.
    """
    parts = tuple(tensors)
    return tuple(t for t in parts if tuple(t.shape) != (0,)) or parts[:1]


def done(ref: Any) -> Said:
    """The result as it stands."""
    return "", (ref,), {}


def as_said(last: Last) -> Said:
    """A last step of the registry's, whose ``identity`` is the result as it stands."""
    return done(*last[1]) if plays(last[0], Role.HANDS_ON) else last


def of_part(known: Callable[..., Last | None]) -> Composition:
    """What the registry knows by the number of the result, for a node."""

    def by_part(steps: Steps, node: Any, *arguments: Any, **keywords: Any) -> Said | None:
        last = known(steps, node.index or 0, *arguments, **keywords)
        return None if last is None else as_said(last)

    return by_part
