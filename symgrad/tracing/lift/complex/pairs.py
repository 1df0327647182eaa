"""What the ways to lift a call on complex tensors share: its arguments as pairs, and the sentence that says so.

Comes in: a recorded call. Goes out: references to pairs, to halves, and to entries of the table applied to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.entries.spec import Op
from symgrad.language.steps.builder import Operand
from symgrad.language.steps.calls import Ref
from symgrad.ops import ground
from symgrad.ops.entry import playing
from symgrad.program import Role
from symgrad.tracing.lift.steps import Steps
from symgrad.tracing.record.trace import Call, Node

if TYPE_CHECKING:
    from symgrad.tracing.lift.bench import Bench  # it loads torch, which a description need not


def convention(names: Sequence[str]) -> str:
    """The sentence about the complex tensors called ``names``, wherever their gradients are shown."""
    return (
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} complex, shown as pairs (re, im): torch's .grad is "
        "∂L/∂re + i·∂L/∂im, which is 2·∂L/∂z̄, twice the conjugate of the Wirtinger derivative ∂L/∂z of a real L"
    )


def is_complex(value: Any) -> bool:
    """Whether a node or a number is complex."""
    return isinstance(value, complex) or (isinstance(value, Node) and bool(value.held.is_complex()))


class Pairs(Steps):
    """The arguments of one call as pairs, and entries of the table applied to them."""

    def __init__(self, lifter: Bench, node: Node, op: Op | None = None) -> None:
        super().__init__(lifter)
        self.node, self.op = node, op  # the table's entry for the call itself

    @property
    def call(self) -> Call:
        """The call that is lifted."""
        assert self.node.call is not None
        return self.node.call

    @staticmethod
    def paired(value: Any) -> bool:
        """Whether it is a tensor of pairs: a complex node, or an earlier step."""
        return isinstance(value, Ref) or (isinstance(value, Node) and is_complex(value))

    def again(self, first: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref | None:
        """The call's own entry, of another first tensor."""
        if self.op is None:
            return None
        return self.lifter.apply_op(self.op, self.call.spelling, (first, *arguments), keywords)

    def real(self, value: Any) -> Any:
        """A real tensor as a reference; a number as it is."""
        return self.lifter.refs_in(value)[id(value)] if isinstance(value, Node) else value

    def pair(self, value: Any) -> Ref:
        """Anything as pairs."""
        if isinstance(value, Ref):
            return value
        if not isinstance(value, Node):
            number = complex(value)
            label = {1: "one", 1j: "i"}.get(number, "number")
            return self.lifter.data(label, np.array([number.real, number.imag]))
        ref = self.real(value)
        return ref if is_complex(value) else self(ground.complex_pair, ref, 0)

    def part(self, ref: Ref, number: int) -> Ref:
        """The real (0) or imaginary (1) part of pairs."""
        key = (*[("all",)] * (len(ref.shape) - 1), ("int", number))
        return self.lifter.emit(playing(Role.INDEXES), [Operand(ref, ref.name)], {"key": key})

    def column(self, value: Any) -> Any:
        """A real factor of pairs."""
        return self(ground.unsqueeze, self.real(value), -1) if isinstance(value, (Node, Ref)) else value
