"""What a program computes twice, computed once: `exp(z) / exp(z).sum()` has one exponential, and one cotangent of it.

Comes in: a program, and the tensors that have a line of their own. Goes out: the program with one step for equal ones.
What is in the table is a function of what it reads; a black box may draw at random, and stays. What only turns or
scales one tensor stays where it is read, too: `v @ w.T` is one line, and needs no name for w.T. A tensor that somebody
named stands for no other: what is said to come back to it is what comes back through its own readers. Where only a
derivative reads what has a name, nothing comes back: there it stands for its equals, too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace

import sympy as sp

from symgrad.backward.grouping.groups import moves, written_inside
from symgrad.ops.entry import plays
from symgrad.program import Apply, Program, Role, Tensor


def computed_once(program: Program, kept: Collection[str]) -> Program:
    """``program`` without the steps that only say again what another has computed; those of ``kept`` stay."""
    tensors = {tensor.name: tensor for tensor in program.tensors()}
    equal: dict[str, str] = {}
    first: dict[Hashable, str] = {}
    read = read_by_name(program, kept)
    steps: list[Apply] = []
    dropped: dict[str, str] = {}
    for step in program.steps:
        name = step.result.name
        told = tuple(equal.get(a, a) if isinstance(a, str) else a for a in step.arguments)
        own = name if name in kept else first.setdefault((step.op, told, step.options), name)
        if own != name and written_inside(step):
            equal[name] = own
            if not (only_turns(step, tensors) or plays(step.op, Role.COPIES)):
                dropped[name] = own
                continue
        arguments = tuple(dropped.get(a, a) if isinstance(a, str) else a for a in step.arguments)
        beside = tuple((letter, read.get(own, dropped.get(own, own))) for letter, own in step.beside)
        steps.append(replace(step, arguments=arguments, beside=beside))
    return replace(program, steps=tuple(steps)) if dropped or read else program


def read_by_name(program: Program, kept: Collection[str]) -> dict[str, str]:
    """What only derivatives read and has a name of somebody's: ``h = inverse(X)`` in the derivative of ``det(X)``."""
    forward = {step.result.name for step in program.forward_steps}
    named = {(s.op, s.arguments, s.options): s.result.name for s in program.steps if s.result.name in forward & {*kept}}
    beside = ((s.result.name, named.get((s.op, s.arguments, s.options))) for s in program.steps)
    return {name: known for name, known in beside if known is not None and name not in forward}


def only_turns(step: Apply, tensors: Mapping[str, Tensor]) -> bool:
    """Whether each entry is one of a tensor's in another place, or times a number."""
    sizes = [sp.Mul(*tensors[name].shape) for name in (*step.tensors, step.result.name)]
    return len(set(sizes)) == 1 and moves(step, tensors)
