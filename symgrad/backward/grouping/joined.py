"""Many tensors joined in one step, told as three: what stands before one of them, that one, what stands behind it.

    cat([a, b, c, d, e])     by d:   cat([t, d, e])     t is out[:3]

Comes in: a group of one wide step, and the values. Goes out: a program for each tensor that it reads, as short for the
hundredth of an unrolled loop as for the first; with all of them in it, each would be derived through all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import sympy as sp

from symgrad.backward.grouping.groups import MOST, Group
from symgrad.backward.grouping.standard import Piece, Standard
from symgrad.ops.entry import playing, plays
from symgrad.program import Apply, Program, Role, Tensor
from symgrad.shapes import Shape, Size

BEFORE, OWN, BEHIND, OUT = "a0", "a1", "a2", "out"


def is_wide(group: Group, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a group is one step that joins many different tensors, of sizes that are numbers."""
    step = group.steps[-1]
    joins = plays(step.op, Role.JOINS) or plays(step.op, Role.STACKS)
    if not joins or len(group.steps) > 1 or group.beside or len(step.tensors) <= MOST:
        return False
    numbers = all(size.is_Integer for name in step.tensors for size in tensors[name].shape)
    return numbers and len(set(step.tensors)) == len(step.arguments)


def in_three(group: Group, tensors: Mapping[str, Tensor]) -> Iterator[Standard]:
    """A program for each tensor that is joined."""
    step, begin = group.steps[-1], 0
    dim, new = int(str(dict(step.options)["dim"])), plays(step.op, Role.STACKS)
    for name in step.tensors:
        shape = tensors[name].shape
        width = 1 if new else int(shape[dim])
        yield around(step, Tensor(name, shape), dim, begin, begin + width)
        begin += width


def around(step: Apply, tensor: Tensor, dim: int, begin: int, end: int) -> Standard:
    """``step`` with what stands before and behind one tensor as one tensor each, where anything does."""
    whole = step.result
    ends = {BEFORE: (0, begin), OWN: (begin, end), BEHIND: (end, int(whole.shape[dim]))}
    ends = {name: span for name, span in ends.items() if span[0] < span[1]}
    lengths = {name: sp.Symbol(f"s_{name}", integer=True, positive=True) for name in ends if name != OWN}
    inputs = [Tensor(name, with_size(whole.shape, dim, length)) for name, length in lengths.items()]
    width = sp.Integer(end - begin)
    opened = len(tensor.shape) < len(whole.shape)
    one = Apply(playing(Role.OPENS).name, (OWN,), (("dim", dim),), Tensor("t0", with_size(whole.shape, dim, width)))
    shape = with_size(whole.shape, dim, sp.Add(*lengths.values(), width))
    parts = tuple("t0" if opened and name == OWN else name for name in ends)
    joined = Apply(playing(Role.JOINS).name, parts, (("dim", dim),), Tensor(OUT, shape))
    program = Program((Tensor(OWN, tensor.shape), *inputs), (one, joined) if opened else (joined,), OUT)
    pieces = {name: Piece(whole.name, dim, *ends[name]) for name in lengths}
    sizes = {length: sp.Integer(pieces[name].end - pieces[name].begin) for name, length in lengths.items()}
    return Standard(program, {OWN: tensor.name, OUT: whole.name}, sizes, {}, pieces=pieces)


def with_size(shape: Shape, dim: int, size: Size) -> Shape:
    """A shape with another size along one axis."""
    return (*shape[:dim], size, *shape[dim + 1 :])
