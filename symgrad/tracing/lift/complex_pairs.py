"""Calls on complex tensors as calls on pairs (re, im): their arguments, and torch.fft.

Comes in: a recorded call. Goes out: references to pairs, to halves, and to entries of the table applied to them; of
torch.fft and the short-time transform the last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from symgrad.entries.spec import Op
from symgrad.language.binding import Ref
from symgrad.language.builder import StepOperand
from symgrad.ops import ground
from symgrad.ops.calls.complex_rules import Rule
from symgrad.ops.calls.registry import find_compound
from symgrad.ops.fourier import each_axis
from symgrad.ops.lookup import entry_named, role_entry
from symgrad.program import Role
from symgrad.tracing.lift.bench import LiftContext
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.record.trace import Node, TorchCall


def is_complex(value: Any) -> bool:
    """Whether a node or a number is complex."""
    return isinstance(value, complex) or (isinstance(value, Node) and bool(value.held.is_complex()))


class PairedArgs:
    """The arguments of one call as pairs, and entries of the table applied to them."""

    def __init__(self, lifter: LiftContext, node: Node, op: Op | None = None) -> None:
        self.lifter, self.node, self.op = lifter, node, op  # the table's entry for the call itself

    def __call__(self, name: str | Op, *arguments: Any, **keywords: Any) -> Ref:
        """The result of one entry."""
        return self.lifter(name, *arguments, **keywords)

    @staticmethod
    def number(size: Any) -> int:
        """A size as a number."""
        return int(size)

    @property
    def call(self) -> TorchCall:
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
        return self.lifter.emit(role_entry(Role.INDEXES), [StepOperand(ref, ref.name)], {"key": key})

    def column(self, value: Any) -> Any:
        """A real factor of pairs."""
        return self(ground.unsqueeze, self.real(value), -1) if isinstance(value, (Node, Ref)) else value


LONGEST = 4096
"""Transforms of more points are black boxes: their equation's cosines would not fit into memory."""


def transform_axes(p: PairedArgs, name: str, x: Any, *given: Any, **spoken: Any) -> Ref:
    """One transform along its axes, of a node or of an earlier step."""
    op, of_pairs = entry_named(name), "x" in entry_named(name).traits.complex_pairs
    if isinstance(x, Node) and is_complex(x) and not of_pairs:
        raise Refused(f"{name.removeprefix('complex_')} takes a real tensor")
    ref: Ref = p.pair(x) if of_pairs else p.real(x)
    call = op.signature.bind(ref, *given, **spoken)
    call.apply_defaults()
    _, asked, dim, _ = call.arguments.values()
    sizes = ref.shape[: -1 if of_pairs else None]
    for axis, points in zip(*each_axis(len(sizes), asked, dim), strict=True):
        longest = max(int(sizes[axis]), int(points or 0))
        if longest > LONGEST:
            raise Refused(f"{longest} points: the equation is a sum against a table of {longest}² cosines")
    return p(op, ref, *given, **spoken)


def lift_fft(word: str) -> Rule:
    """One of torch.fft's functions: an entry, or several of them."""

    def rule(p: PairedArgs, x: Node, *given: Any, **spoken: Any) -> Ref | None:
        several, apply = find_compound(f"torch.fft.{word}"), partial(transform_axes, p)
        if several is None:
            return apply(f"complex_{word}", x, *given, **spoken)
        last = several.steps(apply, 0, x, *given, **spoken)
        return None if last is None else apply(last[0], *last[1], **last[2])

    return rule


def stft(
    p: PairedArgs,
    x: Node,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Ref | None:
    """Windows of the signal, each weighed and transformed: out[f, t] = Σ_j w[j]·x[hop·t + j]·exp(−2πi·jf/n)."""
    if align_to_window or is_complex(x):
        return None
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    frames = p(ground.unfold, p.real(x), len(x.shape) - 1, n_fft, hop)
    left = (n_fft - width) // 2
    margins = (left, n_fft - width - left)
    if window is not None:
        if is_complex(window):
            return None
        weights = p.real(window) if width == n_fft else p(ground.pad, p.real(window), margins)
        frames = p(ground.mul, frames, weights)
    elif width != n_fft:
        frames = p(ground.mul, frames, p.lifter.data("window", np.pad(np.ones(width), margins)))
    axis, norm = len(frames.shape) - 1, "ortho" if normalized else None
    half = onesided is None or onesided
    source = frames if half else p(ground.complex_pair, frames, 0)
    return p(ground.transpose, transform_axes(p, f"complex_{'r' * half}fft", source, None, axis, norm), axis - 1, axis)


WORDS = [f"{word}{tail}" for tail in ("", "2", "n") for word in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")]
SPECTRA: Mapping[str, Rule] = {**{word: lift_fft(word) for word in WORDS}, "stft": stft}
"""Functions of torch.fft by their last word."""
