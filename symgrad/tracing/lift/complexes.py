"""Calls on complex tensors, lifted on pairs: a complex tensor is a real one with one more axis, (re, im).

Comes in: a recorded call that reads or makes a complex tensor. Goes out: entries of the table on pairs
(`symgrad.ops.complex_pairs`), and real ones on the leading axes, which are counted from the front; what is
linear is said by halves. The value is compared with torch's afterwards, part by part.

What only picks and arranges entries, conjugated or not, reads the same pairs. Which ones is found as for real tensors
(`symgrad.tracing.lift.choices`): numbers are sent through the call in place of the entries. The imaginary part of each
number is a mark, so that a conjugate, a change of sign and an entry from elsewhere are seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from symgrad.language.binding import Ref
from symgrad.language.builder import StepOperand
from symgrad.language.complex_steps import apply_to_halves
from symgrad.numeric.exact import Array
from symgrad.ops import ground
from symgrad.ops.calls.complex_rules import ARITHMETIC, Rule
from symgrad.ops.calls.registry import MOVERS, WRITES
from symgrad.ops.lookup import find, role_entry
from symgrad.program import Role
from symgrad.tracing.lift import complex_definitions, complex_matrices, inside
from symgrad.tracing.lift.bench import LiftContext
from symgrad.tracing.lift.boxes import replay
from symgrad.tracing.lift.choices import lift_selection
from symgrad.tracing.lift.complex_pairs import SPECTRA, PairedArgs, is_complex
from symgrad.tracing.lift.lifted import TWICE, UNKNOWN, Refused
from symgrad.tracing.lift.rewrites import normalize_index
from symgrad.tracing.lift.steps import bind_entry_arguments, drop_empty_operands, to_operand
from symgrad.tracing.record.spelling import is_reflected, plain_spelling
from symgrad.tracing.record.trace import Node

MARK = 0.7310585786300049
"""The imaginary part of a number that stands for an entry: nobody writes this constant into a tensor."""


def probe_pairs(lifter: LiftContext, node: Node) -> Ref:
    """The call as a choice of pairs."""
    call = node.call
    assert call is not None
    word = plain_spelling(call.spelling).rpartition(".")[2]
    sources = list({id(n): n for n in call.nodes() if is_indexed_operand(n)}.values())
    if word not in MOVERS or not sources or any(n.held.numel() == 0 for n in (*sources, node)):
        raise Refused("")
    first, total = sources[0].held.numel(), sum(n.held.numel() for n in sources)
    places, conjugated = probe_complex_indices(node, sources)
    if word in WRITES and len(np.unique(places[places >= first])) < total - first:
        raise Refused(TWICE)
    p = PairedArgs(lifter, node)
    pairs = [p.pair(source) for source in sources]
    row = pairs[0] if len(pairs) == 1 else p(ground.cat, [p(ground.reshape, ref, (-1, 2)) for ref in pairs], 0)
    found = lift_selection(lifter, row, 2 * np.maximum(places, 0)[..., None] + np.arange(2), None)
    if conjugated:
        found = p(ground.complex_conj, found)
    if (places < 0).any():
        found = p(ground.mul, found, lifter.data("written", (places >= 0).astype(np.float64)[..., None]))
    return found


def is_indexed_operand(node: Node) -> bool:
    """Whether a node's entries are what is picked, not a mask or places."""
    return bool(node.held.is_complex() or node.held.is_floating_point())


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


def cat(p: PairedArgs, tensors: Any, dim: int = 0) -> Ref:
    """Joined along one of the leading axes."""
    return p(ground.cat, [p.pair(t) for t in drop_empty_operands(tensors)], dim % len(p.node.shape))


def stack(p: PairedArgs, tensors: Any, dim: int = 0) -> Ref:
    """Joined along a new axis in front of the pairs."""
    return p(ground.stack, [p.pair(t) for t in tensors], dim % len(p.node.shape))


def expand(p: PairedArgs, x: Any, *_: Any, **__: Any) -> Ref:
    """The same entries along new axes."""
    return p(ground.expand, p.pair(x), (*p.node.shape, 2))


def indexed(p: PairedArgs, x: Any, key: Any) -> Ref | None:
    """An index of integers and slices."""
    basic = normalize_index(key, len(x.shape))
    if basic is None:
        return None
    ref = p.pair(x)
    return p.lifter.emit(role_entry(Role.INDEXES), [StepOperand(ref, ref.name)], {"key": (*basic, ("all",))})


def keep_pairs(p: PairedArgs, x: Any, *_: Any, **__: Any) -> Ref:
    """The pairs as they are."""
    return p.pair(x)


def lift_complex_cast(p: PairedArgs, x: Any, *_: Any, **__: Any) -> Ref:
    """Complex from real, real from complex, or the same in another precision."""
    return p.pair(x) if is_complex(p.node) else p.part(p.pair(x), 0)


SAME = ("clone", "contiguous", "positive", "resolve_conj", "resolve_neg", "alias", "view_as_real", "requires_grad",
        "cpu", "lift_fresh", "alias_copy", "to_dense", "_to_dense")  # fmt: skip
CASTS = ("to", "type", "type_as", "cdouble", "cfloat", "chalf", "double", "float", "half", "bfloat16", "real",
         "_to_copy")  # fmt: skip
RULES: Mapping[str, Rule] = {
    **ARITHMETIC,
    **{rule.__name__: rule for rule in (cat, stack, expand)},
    **dict.fromkeys(("concat", "concatenate"), cat),
    **dict.fromkeys(("expand_as", "broadcast_to"), expand),
    "__getitem__": indexed,
    "copy": lambda p, x, source, *_: expand(p, source),
    "zero": lambda p, x: p(ground.zeros_like, p.pair(x)),
    "view_as_complex": lambda p, x: p.real(x),
    **dict.fromkeys(SAME, keep_pairs),
    **dict.fromkeys(CASTS, lift_complex_cast),
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
    call = node.call
    assert call is not None
    word = plain_spelling(call.spelling).rpartition(".")[2]
    arguments, keywords = call.arguments, {k: v for k, v in call.keywords.items() if k != "out"}
    if is_reflected(call.spelling):
        arguments = (arguments[1], arguments[0], *arguments[2:])
    p = PairedArgs(lifter, node, find(plain_spelling(call.spelling)))
    rule = (SPECTRA if is_fft_function(call.spelling) and "shift" not in word else RULES).get(word)
    try:
        ref: Ref | None = None if rule is None else rule(p, *arguments, **keywords)
    except TypeError as error:  # the call has other arguments than the rule
        raise Refused(f"{word}: {error}") from error
    if ref is None:
        raise Refused(f"{plain_spelling(call.spelling)} of complex tensors {UNKNOWN}")
    return ref


def lift_by_halves(lifter: LiftContext, node: Node) -> Ref:
    """What is linear in its tensors, of their halves: which of them it is linear in is read off its equation."""
    call = node.call
    assert call is not None
    spelling = plain_spelling(call.spelling)
    op, refs = find(spelling), lifter.refs_in((call.arguments, call.keywords))
    if op is None or op.traits.complex_pairs or is_reflected(call.spelling) or spelling.rpartition(".")[2] in WRITES:
        raise Refused("")
    p, pairs = PairedArgs(lifter, node, op), {refs[id(n)].name for n in call.nodes() if is_complex(n)}
    spoken = {key: to_operand(value, refs) for key, value in call.keywords.items() if key != "out"}
    operands, options = bind_entry_arguments(op, spelling, [to_operand(a, refs) for a in call.arguments], spoken)
    parts = [
        (p.part(o.meaning, 0), p.part(o.meaning, 1))
        if isinstance(o.meaning, Ref) and o.meaning.name in pairs
        else (o.meaning,)
        for o in operands
    ]

    def of(chosen: Sequence[Any]) -> Ref:
        return lifter.emit(op, [StepOperand(part, op.name) for part in chosen], options)

    both = apply_to_halves(p, lifter.builder, op, parts, of)
    if both is None:
        raise Refused(f"{spelling} of complex tensors is not linear in them")
    return p(ground.complex_pair, *both)


WAYS = (lift_by_pairs, probe_pairs, lift_by_halves, inside.lift_definition, inside.lift_operations)
"""The ways to lift a call on complex tensors, in turn."""
