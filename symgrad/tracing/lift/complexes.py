"""Lifting of calls on complex tensors, torch.fft among them, as real pairs: one more axis, (re, im).

Comes in: a recorded call that reads or returns a complex tensor. Goes out: entries of the table on pairs
(`symgrad.ops.complex_pairs`), and real entries on the leading axes, which are counted from the front; linear functions
are applied to both parts. Each part of the value is compared with torch's afterwards.

A call that only selects entries, conjugated or not, reads the same pairs. The positions are found as for real tensors
(`symgrad.tracing.lift.entry_choices`), by running the call on the numbers of the entries. Their imaginary parts are a
marker, which shows a conjugate, a change of sign or an entry from elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from symgrad.entries.spec import Op
from symgrad.language.binding import Ref
from symgrad.language.builder import StepOperand
from symgrad.language.complex_steps import ComplexEntryCaller, ComplexPairs, TorchShaped, to_torch_shape
from symgrad.numeric.exact import Array
from symgrad.ops.calls.complex_rules import ARITHMETIC, Rule
from symgrad.ops.calls.registry import MOVERS, WRITES, find_compound
from symgrad.ops.fourier import each_axis
from symgrad.ops.lookup import basics, entry_named, find, role_entry
from symgrad.program import Role
from symgrad.tracing.lift import (
    TWICE,
    UNKNOWN,
    Refused,
    bind_entry_arguments,
    complex_definitions,
    complex_matrices,
    inside,
    to_operand,
)
from symgrad.tracing.lift.boxes import replay
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.entry_choices import lift_selection
from symgrad.tracing.lift.rewrites import normalize_index
from symgrad.tracing.record.spelling import is_reflected, plain_spelling, plain_word
from symgrad.tracing.record.trace import Node, map_nested


def is_complex(value: Any) -> bool:
    """Whether a node or a number is complex."""
    return isinstance(value, complex) or (isinstance(value, Node) and bool(value.held.is_complex()))


@dataclass(frozen=True)
class RecordedPairs(ComplexPairs):
    """The arguments of one call as pairs, and entries of the table applied to them."""

    lifter: LiftContext
    node: Node

    @classmethod
    def of(cls, lifter: LiftContext, node: Node, op: Op | None = None, operands: Sequence[StepOperand] = ()) -> Self:
        """Return the pairs of a call, with its entry ``op`` if the table has one."""
        word = node.maker.spelling
        return cls(lifter.builder, None, None, op or role_entry(Role.HANDS_ON), operands, word, lifter, node)

    def again(self, first: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
        """Apply the call's entry to another first tensor."""
        return self.lifter.apply_op(self.op, self.label, (first, *arguments), keywords)

    def constant(self, value: Any) -> Ref:
        """Return a number as one pair."""
        number = complex(value)
        label = {1: "one", 1j: "i"}.get(number, "number")
        return self.lifter.data(label, np.array([number.real, number.imag]))

    def torch_shaped(self, value: Any) -> Any:
        """Return arguments of the call with torch's complex shapes for its tensors."""
        refs = self.lifter.refs_in(value)
        return map_nested(value, lambda part: TorchShaped(refs[id(part)]) if isinstance(part, Node) else part)


LONGEST = 4096
"""The largest number of points of a transform; the cosines of a longer one would not fit into memory."""


def check_transform_length(op: Op, operands: Sequence[StepOperand], options: Mapping[str, Any]) -> None:
    """Refuse a transform of too many points along one of its axes."""
    if op.name.removeprefix("complex_") not in TRANSFORMS:
        return
    shape = to_torch_shape(operands[0].meaning).shape
    for axis, points in zip(*each_axis(len(shape), options.get("n", options.get("s")), options["dim"]), strict=True):
        longest = max(int(shape[axis]), int(points or 0))
        if longest > LONGEST:
            raise Refused(f"{longest} points: the equation is a sum against a table of {longest}² cosines")


def stft(
    p: RecordedPairs,
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Ref | None:
    """Lift the transforms of weighted windows: out[f, t] = Σ_j w[j]·x[hop·t + j]·exp(−2πi·jf/n)."""
    if align_to_window or p.paired(x) or p.paired(window):
        return None
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    frames = p(basics.unfold, p.real(x), dimension=len(x.shape) - 1, size=n_fft, step=hop)
    left = (n_fft - width) // 2
    margins = (left, n_fft - width - left)
    if window is not None:
        weights = p.real(window) if width == n_fft else p(basics.pad, p.real(window), pad=margins)
        frames = p(basics.mul, frames, weights)
    elif width != n_fft:
        frames = p(basics.mul, frames, p.lifter.data("window", np.pad(np.ones(width), margins)))
    axis, norm = len(frames.shape) - 1, "ortho" if normalized else None
    half = onesided is None or onesided
    source = frames if half else p(basics.complex_pair, frames, 0)
    entry = entry_named(f"complex_{'r' * half}fft")
    check_transform_length(entry, [StepOperand(frames, "stft")], {"dim": axis})
    return p(basics.transpose, p(entry, source, dim=axis, norm=norm), dim0=axis - 1, dim1=axis)


TRANSFORMS = frozenset(f"{word}{tail}" for tail in ("", "2", "n")
                       for word in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))  # fmt: skip
"""Functions of torch.fft by their last word."""


MARK = 0.7310585786300049
"""The imaginary part of a number that represents an entry; a user's constant will not equal it."""


def probe_pairs(lifter: LiftContext, node: Node) -> Ref:
    """Lift the call as a selection of pairs."""
    call = node.maker
    word = plain_word(call.spelling)
    sources = [n for n in call.operands if n.held.is_complex() or n.held.is_floating_point()]
    if word not in MOVERS or not sources or any(n.held.numel() == 0 for n in (*sources, node)):
        raise Refused("")
    first, total = sources[0].held.numel(), sum(n.held.numel() for n in sources)
    places, conjugated = probe_complex_indices(node, sources)
    if word in WRITES and len(np.unique(places[places >= first])) < total - first:
        raise Refused(TWICE)
    p = RecordedPairs.of(lifter, node)
    pairs = [p.pair(source) for source in p.torch_shaped(sources)]
    row = (
        pairs[0] if len(pairs) == 1 else p(basics.cat, *(p(basics.reshape, ref, shape=(-1, 2)) for ref in pairs), dim=0)
    )
    found = lift_selection(lifter, row, 2 * np.maximum(places, 0)[..., None] + np.arange(2), None)
    if conjugated:
        found = p(basics.complex_conj, found)
    if (places < 0).any():
        found = p(basics.mul, found, lifter.data("written", (places >= 0).astype(np.float64)[..., None]))
    return found


def probe_complex_indices(node: Node, sources: list[Node]) -> tuple[Array, bool]:
    """Return the position of each result entry among those of ``sources``, -1 for 0, and whether all are conjugated."""
    count, marked = 1, []
    for source in sources:
        numbers = torch.arange(count, count + source.held.numel(), dtype=torch.float64)
        marked.append(torch.complex(numbers, torch.full_like(numbers, MARK)).reshape(source.held.shape))
        count += source.held.numel()
    found = replay(node, sources, marked)
    if not found.is_complex() or tuple(found.shape) != node.shape:
        raise Refused("")
    real, imag = np.asarray(found.real.numpy(force=True)), np.asarray(found.imag.numpy(force=True))
    nothing = (real == 0) & (imag == 0)
    for sign in (1.0, -1.0):
        if (nothing | ((imag == sign * MARK) & (real > 0))).all() and not nothing.all():
            return np.where(nothing, -1, real.astype(np.int64) - 1), sign < 0
    raise Refused("it does more than pick entries")


def expand(p: RecordedPairs, x: Any, *_: Any, **__: Any) -> Ref:
    """Lift an expand, with the axis of pairs last."""
    return p(basics.expand, p.pair(x), shape=(*p.node.shape, 2))


def indexed(p: RecordedPairs, x: Any, key: Any) -> Ref | None:
    """Lift an index of integers and slices; return None for any other."""
    basic = normalize_index(key, len(x.shape))
    if basic is None:
        return None
    return p(role_entry(Role.INDEXES), p.pair(x), key=(*basic, ("all",)))


SAME = ("clone", "contiguous", "positive", "resolve_conj", "resolve_neg", "alias", "view_as_real", "requires_grad",
        "cpu", "lift_fresh", "alias_copy", "to_dense", "_to_dense")  # fmt: skip
CASTS = ("to", "type", "type_as", "cdouble", "cfloat", "chalf", "double", "float", "half", "bfloat16", "real",
         "_to_copy")  # fmt: skip
RULES: Mapping[str, Rule] = {
    **ARITHMETIC,
    **dict.fromkeys((expand.__name__, "expand_as", "broadcast_to"), expand),
    "__getitem__": indexed,
    "copy": lambda p, x, source, *_: expand(p, source),
    "stft": stft,
    "zero": lambda p, x: p(basics.zeros_like, p.pair(x)),
    "view_as_complex": lambda p, x: p.real(x),
    **dict.fromkeys(SAME, lambda p, x, *_, **__: p.pair(x)),
    **dict.fromkeys(CASTS, lambda p, x, *_, **__: p.pair(x) if is_complex(p.node) else p.part(p.pair(x), 0)),
}
"""Functions by their last word."""
DEFINED = (complex_definitions, complex_matrices)
"""The modules that register DEFINITIONS."""


def touches_complex(node: Node) -> bool:
    """Whether a call reads or returns a complex tensor, or uses one inside."""
    call = node.call
    if call is None or call.spelling.endswith(".apply"):
        return False
    word = call.spelling.rpartition(".")[2]
    return is_complex(node) or any(map(is_complex, call.nodes)) or (word in TRANSFORMS and ".fft." in call.spelling)


# The way in -----------------------------------------------------------------------------------------------


def lift_by_pairs(lifter: LiftContext, node: Node) -> Ref:
    """Lift the call by its rule on pairs."""
    call = node.maker
    word = plain_word(call.spelling)
    arguments, keywords = call.arguments, {k: v for k, v in call.keywords.items() if k != "out"}
    if is_reflected(call.spelling):
        arguments = (arguments[1], arguments[0], *arguments[2:])
    p = RecordedPairs.of(lifter, node, find(plain_spelling(call.spelling)))
    try:
        ref: Ref | None = (
            RULES[word](p, *p.torch_shaped(arguments), **p.torch_shaped(keywords)) if word in RULES else None
        )
    except TypeError as error:  # the call has other arguments than the rule
        raise Refused(f"{word}: {error}") from error
    if ref is None:
        raise Refused(f"{plain_spelling(call.spelling)} of complex tensors {UNKNOWN}")
    return ref


def lift_by_entry(lifter: LiftContext, node: Node) -> Ref:
    """Lift the call as one or several entries of the table, on pairs or on both parts of a linear operand."""
    call = node.maker
    spelling, keywords = plain_spelling(call.spelling), {k: v for k, v in call.keywords.items() if k != "out"}
    op, compound, refs = find(spelling), find_compound(spelling), lifter.refs_in((call.arguments, keywords))
    if is_reflected(call.spelling) or spelling.rpartition(".")[2] in WRITES:
        raise Refused("")
    p = RecordedPairs.of(lifter, node)
    if compound is not None and compound.pairs:
        caller = ComplexEntryCaller(lifter.builder, None, lambda size, _: int(size))
        last = compound.steps(caller, node.index or 0, *p.torch_shaped(call.arguments), **p.torch_shaped(keywords))
        if last is not None:
            return caller.last(last[0], last[1], last[2], None)
    if op is None:
        raise Refused("")
    spoken = {key: to_operand(value, refs) for key, value in keywords.items()}
    operands, options = bind_entry_arguments(op, spelling, [to_operand(a, refs) for a in call.arguments], spoken)
    check_transform_length(op, operands, options)
    return replace(p, op=op, operands=operands).step(options, None)


WAYS = (lift_by_pairs, probe_pairs, lift_by_entry, inside.lift_definition, inside.lift_operations)
"""The ways to lift a call on complex tensors, in the order in which they are tried."""
