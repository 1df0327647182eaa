"""What a program computes twice, computed once: `exp(z) / exp(z).sum()` has one exponential, and one cotangent of it.

Comes in: a program, and the tensors that have a line of their own. Goes out: the program with one step for equal ones.
What is in the table is a function of what it reads; a black box may draw at random, and stays. What only turns or
scales one tensor stays where it is read, too: `v @ w.T` is one line, and needs no name for w.T. A tensor that somebody
named stands for no other: what is said to come back to it is what comes back through its own readers.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import replace

import sympy as sp

from symgrad.backward.groups import moves, written_inside
from symgrad.program import Apply, Program, Tensor


def computed_once(program: Program, kept: Collection[str]) -> Program:
    """``program`` without the steps that only say again what another has computed; those of ``kept`` stay."""
    tensors = {tensor.name: tensor for tensor in program.tensors()}
    equal: dict[str, str] = {}
    first: dict[Hashable, str] = {}
    steps: list[Apply] = []
    dropped: dict[str, str] = {}
    for step in program.steps:
        name = step.result.name
        told = tuple(equal.get(a, a) if isinstance(a, str) else a for a in step.arguments)
        own = name if name in kept else first.setdefault((step.op, told, step.options), name)
        if own != name and written_inside(step):
            equal[name] = own
            if not only_turns(step, tensors):
                dropped[name] = own
                continue
        arguments = tuple(dropped.get(a, a) if isinstance(a, str) else a for a in step.arguments)
        beside = tuple((letter, dropped.get(read, read)) for letter, read in step.beside)
        steps.append(replace(step, arguments=arguments, beside=beside))
    return replace(program, steps=tuple(steps)) if dropped else program


def only_turns(step: Apply, tensors: Mapping[str, Tensor]) -> bool:
    """Whether each entry is one of a tensor's in another place, or times a number."""
    sizes = [sp.Mul(*tensors[name].shape) for name in (*step.tensors, step.result.name)]
    return len(set(sizes)) == 1 and moves(step, tensors)


__all__ = ["computed_once"]
