"""Calls on complex tensors, torch.fft among them, lifted on pairs: one more real axis, (re, im).

Comes in: a recorded call that reads or makes a complex tensor. Goes out: entries of the table on pairs
(`symgrad.ops.complex_pairs`), and real ones on the leading axes, which are counted from the front; what is linear is
applied to the two halves. Each part of the value is compared with torch's afterwards.

Calls that only select entries, conjugated or not, read the same pairs. Which ones is found as for real tensors
(`symgrad.tracing.lift.entry_choices`): the call runs on numbers in place of the entries. Their imaginary parts are
marks, so that a conjugate, a change of sign and an entry from elsewhere are seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch

from symgrad.entries.spec import Op
from symgrad.language.binding import Ref
from symgrad.language.builder import StepOperand
from symgrad.language.complex_steps import ComplexPairs, TorchShaped
from symgrad.numeric.exact import Array
from symgrad.ops import basics
from symgrad.ops.calls.complex_rules import ARITHMETIC, Rule
from symgrad.ops.calls.registry import MOVERS, WRITES, find_compound
from symgrad.ops.fourier import each_axis
from symgrad.ops.lookup import entry_named, find, role_entry
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
        """Of a call, for which the table may have the entry ``op``."""
        word = node.maker.spelling
        return cls(lifter.builder, None, None, op or role_entry(Role.HANDS_ON), operands, word, lifter, node)

    def entry(self, op: Op, operands: Sequence[StepOperand], options: Mapping[str, Any], name: str | None) -> Ref:
        """One step with its value."""
        return self.lifter.emit(op, operands, {**op.defaults, **options}, name)

    def __call__(self, name: str | Op, *operands: Any, **options: Any) -> Ref:
        """The result of one entry."""
        return self.lifter(name, *operands, **options)

    def again(self, first: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
        """The call's own entry, of another first tensor."""
        return self.lifter.apply_op(self.op, self.label, (first, *arguments), keywords)

    def constant(self, value: Any) -> Ref:
        """A number as one pair."""
        number = complex(value)
        label = {1: "one", 1j: "i"}.get(number, "number")
        return self.lifter.data(label, np.array([number.real, number.imag]))

    def torch_shaped(self, value: Any) -> Any:
        """What a call was given, its tensors as torch sees them."""
        refs = self.lifter.refs_in(value)
        return map_nested(value, lambda part: TorchShaped(refs[id(part)]) if isinstance(part, Node) else part)


LONGEST = 4096
"""Transforms of more points are black boxes: their equation's cosines would not fit into memory."""


def transform_axes(p: RecordedPairs, name: str, x: Any, *given: Any, **spoken: Any) -> Ref:
    """One transform along its axes, of a node or of an earlier step."""
    op, of_pairs = entry_named(name), "x" in entry_named(name).traits.complex_pairs
    if isinstance(x, TorchShaped) and p.paired(x) and not of_pairs:
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

    def rule(p: RecordedPairs, x: Any, *given: Any, **spoken: Any) -> Ref | None:
        several, apply = find_compound(f"torch.fft.{word}"), partial(transform_axes, p)
        if several is None:
            return apply(f"complex_{word}", x, *given, **spoken)
        last = several.steps(apply, 0, x, *given, **spoken)
        return None if last is None else apply(last[0], *last[1], **last[2])

    return rule


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
    """Windows of the signal, each weighed and transformed: out[f, t] = Σ_j w[j]·x[hop·t + j]·exp(−2πi·jf/n)."""
    if align_to_window or p.paired(x) or p.paired(window):
        return None
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    frames = p(basics.unfold, p.real(x), len(x.shape) - 1, n_fft, hop)
    left = (n_fft - width) // 2
    margins = (left, n_fft - width - left)
    if window is not None:
        weights = p.real(window) if width == n_fft else p(basics.pad, p.real(window), margins)
        frames = p(basics.mul, frames, weights)
    elif width != n_fft:
        frames = p(basics.mul, frames, p.lifter.data("window", np.pad(np.ones(width), margins)))
    axis, norm = len(frames.shape) - 1, "ortho" if normalized else None
    half = onesided is None or onesided
    source = frames if half else p(basics.complex_pair, frames, 0)
    return p(basics.transpose, transform_axes(p, f"complex_{'r' * half}fft", source, None, axis, norm), axis - 1, axis)


WORDS = [f"{word}{tail}" for tail in ("", "2", "n") for word in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")]
SPECTRA: Mapping[str, Rule] = {**{word: lift_fft(word) for word in WORDS}, "stft": stft}
"""Functions of torch.fft by their last word."""


MARK = 0.7310585786300049
"""The imaginary part of a number that stands for an entry: nobody writes this constant into a tensor."""


def probe_pairs(lifter: LiftContext, node: Node) -> Ref:
    """The call as a choice of pairs."""
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
    row = pairs[0] if len(pairs) == 1 else p(basics.cat, [p(basics.reshape, ref, (-1, 2)) for ref in pairs], 0)
    found = lift_selection(lifter, row, 2 * np.maximum(places, 0)[..., None] + np.arange(2), None)
    if conjugated:
        found = p(basics.complex_conj, found)
    if (places < 0).any():
        found = p(basics.mul, found, lifter.data("written", (places >= 0).astype(np.float64)[..., None]))
    return found


def probe_complex_indices(node: Node, sources: list[Node]) -> tuple[Array, bool]:
    """The place of each result's entry among all entries of ``sources``, -1 for 0; and whether all are conjugated."""
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
    """The same entries along new axes."""
    return p(basics.expand, p.pair(x), (*p.node.shape, 2))


def indexed(p: RecordedPairs, x: Any, key: Any) -> Ref | None:
    """An index of integers and slices."""
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
    "zero": lambda p, x: p(basics.zeros_like, p.pair(x)),
    "view_as_complex": lambda p, x: p.real(x),
    **dict.fromkeys(SAME, lambda p, x, *_, **__: p.pair(x)),
    **dict.fromkeys(CASTS, lambda p, x, *_, **__: p.pair(x) if is_complex(p.node) else p.part(p.pair(x), 0)),
}
"""Functions by their last word."""
DEFINED = (complex_definitions, complex_matrices)
"""Where the DEFINITIONS stand."""


def touches_complex(node: Node) -> bool:
    """Whether a call reads or makes a complex tensor, or passes through one."""
    call = node.call
    if call is None or call.spelling.endswith(".apply"):
        return False
    word = call.spelling.rpartition(".")[2]
    return (
        is_complex(node) or any(map(is_complex, call.nodes())) or (word in SPECTRA and is_fft_function(call.spelling))
    )


def is_fft_function(spelling: str) -> bool:
    """Whether a function is one of torch.fft, or the short-time transform."""
    return ".fft." in spelling or spelling.endswith("stft")


# The way in -----------------------------------------------------------------------------------------------


def lift_by_pairs(lifter: LiftContext, node: Node) -> Ref:
    """The call in entries of the table on pairs."""
    call = node.maker
    word = plain_word(call.spelling)
    arguments, keywords = call.arguments, {k: v for k, v in call.keywords.items() if k != "out"}
    if is_reflected(call.spelling):
        arguments = (arguments[1], arguments[0], *arguments[2:])
    p = RecordedPairs.of(lifter, node, find(plain_spelling(call.spelling)))
    rule = (SPECTRA if is_fft_function(call.spelling) and "shift" not in word else RULES).get(word)
    try:
        ref: Ref | None = None if rule is None else rule(p, *p.torch_shaped(arguments), **p.torch_shaped(keywords))
    except TypeError as error:  # the call has other arguments than the rule
        raise Refused(f"{word}: {error}") from error
    if ref is None:
        raise Refused(f"{plain_spelling(call.spelling)} of complex tensors {UNKNOWN}")
    return ref


def lift_by_halves(lifter: LiftContext, node: Node) -> Ref:
    """What is linear in its tensors, of their halves: which of them it is linear in is read off its equation."""
    call = node.maker
    spelling = plain_spelling(call.spelling)
    op, refs = find(spelling), lifter.refs_in((call.arguments, call.keywords))
    if op is None or op.traits.complex_pairs or is_reflected(call.spelling) or spelling.rpartition(".")[2] in WRITES:
        raise Refused("")
    spoken = {key: to_operand(value, refs) for key, value in call.keywords.items() if key != "out"}
    operands, options = bind_entry_arguments(op, spelling, [to_operand(a, refs) for a in call.arguments], spoken)
    found = RecordedPairs.of(lifter, node, op, operands).by_halves(options, None)
    if found is None:
        raise Refused(f"{spelling} of complex tensors is not linear in them")
    return found


WAYS = (lift_by_pairs, probe_pairs, lift_by_halves, inside.lift_definition, inside.lift_operations)
"""The ways to lift a call on complex tensors, in turn."""
