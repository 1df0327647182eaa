"""Casts that nobody wrote: under autocast torch computes in half precision, and its operands are rounded on the way.

Comes in: a call that ran under autocast. Goes out: its operands as steps of the program that round them, so that
the listing says ``linear(x.bfloat16(), weight.bfloat16())`` and the numbers are those torch computed with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from symgrad.language.steps.builder import Operand
from symgrad.language.steps.calls import Ref
from symgrad.ops.entry import playing
from symgrad.program import Role, free_name
from symgrad.tracing.lift.bench import Bench
from symgrad.tracing.record.trace import Node, as_array

HALVES = {"torch.bfloat16": "bfloat16", "torch.float16": "half"}
"""The types that autocast rounds to, by what the method is called."""
SHORT = {"bfloat16": "bf16", "half": "fp16"}
"""What the name of a rounded operand ends in."""


@contextmanager
def rounded(lifter: Bench, node: Node) -> Iterator[None]:
    """Inside, the operands of ``node``'s call are what autocast made of them."""
    call, word = node.call, HALVES.get(str(node.held.dtype))
    if call is None or not call.autocast or word is None:
        yield
        return
    before: dict[int, Ref] = {}
    for operand in {id(n): n for n in call.nodes()}.values():
        if operand.held.is_floating_point() and operand.held.dtype != node.held.dtype:
            before[id(operand)] = lifter.refs[id(operand)] if id(operand) in lifter.refs else lifter.source(operand)
            lifter.refs[id(operand)] = cast(lifter, operand, before[id(operand)], node, word)
    try:
        yield
    finally:
        lifter.refs.update(before)


def cast(lifter: Bench, operand: Node, ref: Ref, node: Node, word: str) -> Ref:
    """``ref`` in half precision; a weight that several calls read is cast once, as autocast does."""
    if (ref.name, word) not in lifter.casts:
        name = lifter.builder.claim(f"{word}_{len(lifter.casts) + 1}")
        found = lifter.emit(playing(Role.HANDS_ON), [Operand(ref, ref.name)], {}, name)
        lifter.labels[found.name] = free_name((label(lifter, ref, word),), {*lifter.labels.values(), *lifter.arrays})
        lifter.arrays[found.name] = as_array(operand.tensor().to(node.held.dtype))
        lifter.casts[ref.name, word] = found
    return lifter.casts[ref.name, word]


def label(lifter: Bench, ref: Ref, word: str) -> str:
    """``x_bf16``, after what is rounded."""
    return f"{lifter.labels.get(ref.name, ref.name)}_{SHORT[word]}"


__all__ = ["rounded"]
