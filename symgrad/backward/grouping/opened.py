"""Composite operations opened where that reads better: attention by its scores and weights, a normalisation by its x̂.

Comes in: a program, which tensors it asks for, and its values. Goes out: the same program with some steps written out
one level down, under the names that the textbook has for what they compute, and the values of those.

Many tensors joined in one step, told as three: what stands before one of them, that one, what stands behind it.

    cat([a, b, c, d, e])     by d:   cat([t, d, e])     t is out[:3]

Comes in: a group of one wide step, and the values. Goes out: a program for each tensor that it reads, as short for the
hundredth of an unrolled loop as for the first; with all of them in it, each would be derived through all.

What a program computes twice, computed once: `exp(z) / exp(z).sum()` has one exponential, and one cotangent of it.

Comes in: a program, and the tensors that have a line of their own. Goes out: the program with one step for equal ones.
What is in the table is a function of what it reads; a black box may draw at random, and stays. What only turns or
scales one tensor stays where it is read, too: `v @ w.T` is one line, and needs no name for w.T. A tensor that somebody
named stands for no other: what is said to come back to it is what comes back through its own readers. Where only a
derivative reads what has a name, nothing comes back: there it stands for its equals, too.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

import sympy as sp

from symgrad.backward.grouping.groups import MOST, Group, groups, moves, written_inside
from symgrad.backward.grouping.standard import Piece, Standard, standard_group
from symgrad.backward.grouping.templates import asked_of
from symgrad.backward.parts.code import in_parts
from symgrad.backward.shortening.phrasing import with_a_root
from symgrad.calculus import flowing
from symgrad.errors import InputError
from symgrad.language.expand import expanded_once, expansion
from symgrad.numeric import Values
from symgrad.numeric.budget import MOST_HELD, check_entries
from symgrad.numeric.forward import compute
from symgrad.ops import named
from symgrad.ops.entry import playing, plays
from symgrad.program import Apply, Program, Role, Tensor
from symgrad.shapes import Shape, Size

UNREADABLE = 150
"""A composite operation whose lines have more characters than this is opened; a divisor with a name does not count."""
DEEPEST = 4
"""Levels that are opened at most."""

Unreadable = Callable[[Program, Values | None], Collection[str]]
"""The results of those steps of a program whose lines are missing or too long to read."""


def opened(program: Program, values: Values | None, unreadable: Unreadable) -> tuple[Program, Values | None]:
    """``program`` with composite steps opened as long as their lines do not read well."""
    for _ in range(DEEPEST):
        shapes = {tensor.name: tensor.shape for tensor in program.tensors()}
        composite = {step.result.name for step in program.steps if expansion(step, shapes) is not None}
        chosen = composite & set(unreadable(program, values)) if composite else set()
        if not chosen:
            break
        wider = expanded_once(program, chosen)
        try:
            values = None if values is None else with_new(program, wider, values)
        except InputError:  # too many numbers to be held
            break
        program = wider
    return program, values


def with_new(program: Program, wider: Program, values: Values) -> Values:
    """The values of ``program`` and those of the steps that opening it made; raises `InputError` where they are many.

    What is only broadcast takes no room.
    """
    known, made = {tensor.name for tensor in program.tensors()}, {step.result.name for step in program.steps}
    steps = [s for s in wider.steps if s.result.name not in known or (s.result.name in made and s not in program.steps)]
    new = [s.result.name for s in steps if s.result.name not in known and not plays(s.op, Role.COPIES)]
    check_entries(sum(wider.entries[name] for name in new), MOST_HELD)
    arrays = dict(values.arrays)
    for step in steps:
        compute(step, wider, arrays)
    return values.with_arrays({name: array for name, array in arrays.items() if name not in values.arrays})


def unreadable(program: Program, wanted: Sequence[str], values: Values | None) -> Iterator[str]:
    """The results of the steps that have no line, or one that nobody reads."""
    tensors = {tensor.name: tensor for tensor in program.tensors()}
    reached = flowing(program, wanted)
    for group in groups(program, tensors):
        if group.black or group.output not in reached or named(group.steps[-1].op).expands is None:
            continue
        form = standard_group(group, tensors, values, program.required)
        texts = [found.notation for _, found in asked_of(form, group, reached, False, values, short=True)]
        if None in texts or sum(read_at_once(text) for text in texts if text is not None) > UNREADABLE:
            yield group.output


def read_at_once(text: str) -> int:
    """Characters of a form; without its divisor where that, and nothing else, has a line of its own."""
    definitions, last = in_parts(text)
    return len(text) if definitions else len(ast.unparse(with_a_root([], last)[1]))


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
