"""Calls on complex tensors that only pick and arrange entries, conjugated or not: views, indices, joins, writes.

Comes in: a recorded call. Goes out: steps that read the same pairs. Which ones they are is found as for real
tensors (`symgrad.tracing.lift.choices`): numbers are sent through the call in place of the entries. The imaginary part
of each number is a mark, so that a conjugate, a change of sign and an entry from elsewhere are seen.
"""

from __future__ import annotations

import numpy as np
import torch

from symgrad.language.steps.calls import Ref
from symgrad.numeric.exact import Array
from symgrad.ops import ground
from symgrad.ops.calls.picks import MOVERS, WRITES
from symgrad.tracing.lift.bench import Bench
from symgrad.tracing.lift.boxes import replayed
from symgrad.tracing.lift.choices import choose
from symgrad.tracing.lift.lifted import TWICE, Refused
from symgrad.tracing.lift.steps import Steps
from symgrad.tracing.record.spelling import plain_spelling
from symgrad.tracing.record.trace import Node

MARK = 0.7310585786300049
"""The imaginary part of a number that stands for an entry: nobody writes this constant into a tensor."""


def by_places(lifter: Bench, node: Node) -> Ref:
    """The call as a choice of pairs."""
    call = node.call
    assert call is not None
    word = plain_spelling(call.spelling).rpartition(".")[2]
    sources = list({id(n): n for n in call.nodes() if moves(n)}.values())
    if word not in MOVERS or not sources or any(n.held.numel() == 0 for n in (*sources, node)):
        raise Refused("")
    first, total = sources[0].held.numel(), sum(n.held.numel() for n in sources)
    places, conjugated = sent_through(node, sources)
    if word in WRITES and len(np.unique(places[places >= first])) < total - first:
        raise Refused(TWICE)
    steps, refs = Steps(lifter), lifter.refs_in(tuple(sources))
    pairs = [paired(steps, refs[id(n)], n) for n in sources]
    source = pairs[0] if len(pairs) == 1 else in_a_row(steps, pairs)
    both = 2 * np.maximum(places, 0)[..., None] + np.arange(2)
    found = choose(lifter, source, both, None)
    if conjugated:
        found = steps(ground.complex_conj, found)
    if (places < 0).any():
        mask = lifter.data("written", (places >= 0).astype(np.float64)[..., None])
        found = steps(ground.mul, found, mask)
    return found


def moves(node: Node) -> bool:
    """Whether a node's entries are what is picked, not a mask or places."""
    return bool(node.held.is_complex() or node.held.is_floating_point())


def paired(steps: Steps, ref: Ref, node: Node) -> Ref:
    """A real tensor among complex ones as pairs."""
    if node.held.is_complex():
        return ref
    return steps(ground.complex_pair, ref, 0)


def in_a_row(steps: Steps, pairs: list[Ref]) -> Ref:
    """The pairs of several tensors, one after the other."""
    return steps(ground.cat, [steps(ground.reshape, ref, (-1, 2)) for ref in pairs], 0)


def sent_through(node: Node, sources: list[Node]) -> tuple[Array, bool]:
    """The place of each result's entry among all entries of ``sources``, -1 for 0; and whether all are conjugated."""
    count, marked = 1, []
    for source in sources:
        numbers = torch.arange(count, count + source.held.numel(), dtype=torch.float64)
        marked.append(torch.complex(numbers, torch.full_like(numbers, MARK)).reshape(source.held.shape))
        count += source.held.numel()
    found = replayed(node, sources, marked)
    if not found.is_complex() or tuple(found.shape) != node.shape:
        raise Refused("")
    real, imag = np.asarray(found.real.numpy(force=True)), np.asarray(found.imag.numpy(force=True))
    nothing = (real == 0) & (imag == 0)
    for sign in (1.0, -1.0):
        if (nothing | ((imag == sign * MARK) & (real > 0))).all() and not nothing.all():
            return np.where(nothing, -1, real.astype(np.int64) - 1), sign < 0
    raise Refused("it does more than pick entries")
