"""How anything flows through a program, back and on, and the backward of a program as a program.

    out = x @ a      →      v_x = the pullback of matmul by x, applied to v and a      v_a = … by a, applied to v and x

The walks carry formulas, numbers or plans. Comes in: steps, what is there at some tensors, what one step makes of it
and how two of it are added. Goes out: what reaches the others; and where anything flows back at all: not through what
is only read, nor through what torch has no backward for.

`back` takes a program, the weights of its outputs and what is asked for, and gives a `Back`, whose program computes
what the given one does and then the cotangents. Each step is the derived equation of one operation by one operand,
and a sum where a tensor is read more than once. It is linear in the length of the program, knows no text, and is closed
under itself: the backward of a `Back` is made by the same call, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import add, or_
from typing import TypeVar

import sympy as sp

from symgrad.calculus.local_derivatives import (
    OUT,
    SEED,
    Standard,
    derive_local,
    known_name,
    letter_name,
    local_pullback,
    no_number,
    operand_name,
    standard,
)
from symgrad.entries.derived_facts import is_non_differentiable
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.indexing.symbols import accesses, name_of
from symgrad.ops import auxiliary_letters, entry_named, entry_of, index_data_letters, is_data_argument
from symgrad.program import Apply, Argument, Constant, Program, Pullback, Tensor, free_name

Carried = TypeVar("Carried")


def carry_back(
    steps: Sequence[Apply],
    carried: dict[str, Carried],
    pull: Callable[[Apply, Carried], Iterable[tuple[str, Carried]]],
    add: Callable[[Carried, Carried], Carried],
    kept: Collection[str] | None = None,
) -> dict[str, Carried]:
    """What reaches each tensor, from the last step to the first: the chain rule backwards, whatever is carried.

    ``pull`` says what a step sends back to the tensors that it reads, ``add`` is the sum of two parts. What reached a
    tensor is let go when it was pulled through the step that makes it, unless it is ``kept``; None keeps all. What is
    there before the first step is ``carried``, which is filled.
    """
    for step in reversed(steps):
        name = step.result.name
        if name in carried:
            cotangent = carried[name] if kept is None or name in kept else carried.pop(name)
            for source, part in pull(step, cotangent):
                carried[source] = add(carried[source], part) if source in carried else part
    return carried


def carry_on(
    steps: Sequence[Apply], moved: Mapping[str, Carried], push: Callable[[Apply, Mapping[int, Carried]], Carried]
) -> dict[str, Carried]:
    """The change of each tensor, from the first step to the last: the chain rule forwards.

    ``push`` makes the change of a step's result of those of its arguments, by place.
    """
    carried = dict(moved)
    for step in steps:
        places = flowing_places(step, carried)
        if places:
            carried[step.result.name] = push(step, {n: carried[str(step.arguments[n])] for n in places})
    return carried


def flowing_places(step: Apply, names: Container[str]) -> list[int]:
    """Where the arguments of ``step`` are among ``names``, but for those that nothing flows through.

    A black box is no entry of the table: everything may flow through it.
    """
    op = entry_of(step.op)
    if op is not None and is_non_differentiable(op):
        return []
    places = [n for n, a in enumerate(step.arguments) if isinstance(a, str) and a in names]
    return [n for n in places if not is_data_argument(step.op, n)]


def flowing(program: Program, names: Sequence[str]) -> frozenset[str]:
    """``names``, and every tensor from which anything flows back to them: fewer than are computed from them."""
    return frozenset(carry_on(program.steps, dict.fromkeys(names, True), lambda *_: True))


def cutting_reads(program: Program, name: str) -> list[tuple[Apply, int]]:
    """The steps that read what an input flows into without passing anything back, and where; none where something is.

    Steps that the output does not depend on are left out.
    """
    found, read = flowing(program, (name,)), program.relevant
    if program.output in found:
        return []
    steps = [step for step in program.steps if step.result.name in read - found]
    return [(step, n) for step in steps for n, a in enumerate(step.arguments) if isinstance(a, str) and a in found]


def flows(program: Program, name: str) -> bool:
    """Whether torch lets anything flow back to an input."""
    return program.output in flowing(program, (name,))


def depending(program: Program, names: Sequence[str]) -> frozenset[str]:
    """``names``, and every tensor whose numbers come from theirs: ``ones_like(x)`` reads the shape of x alone."""
    found = set(names)
    for step in program.steps:
        own = found.intersection(step.tensors)
        if own and (entry_of(step.op) is None or reads_numbers(step, program, own)):
            found.add(step.result.name)
    return frozenset(found)


def reads_numbers(step: Apply, program: Program, names: Container[str]) -> bool:
    """Whether an entry of one of some tensors stands in the equation of a step, or may decide what does."""
    form = standard(step, program)
    try:
        found = derive_local(form.key)
    except SymgradError:  # over no entries
        return True
    decided = bool(found.residual) or bool(entry_named(step.op).saved.names)
    return decided or any(form.names.get(name_of(entry)) in names for entry in accesses(found.equation.right))


def is_multilinear(program: Program) -> bool:
    """Whether the output is linear in each input, but for a constant: no derivative reads what it is taken by."""
    made_of = {tensor.name: frozenset([tensor.name]) for tensor in program.inputs}
    for step in program.steps:
        form = standard(step, program)
        try:
            found = derive_local(form.key)
        except SymgradError:
            return False
        if entry_of(step.op) is None or found.residual or entry_named(step.op).saved.names:
            return False
        made_of[step.result.name] = frozenset[str]().union(*(made_of.get(name, ()) for name in step.tensors))
        for place, derivative in found.derivatives.items():
            own = made_of.get(str(step.arguments[place]), frozenset())
            read = (form.names.get(name_of(entry), "") for entry in accesses(derivative.formula))
            if any(own & made_of.get(name, own) for name in read):
                return False
    return True


def moving(program: Program) -> frozenset[str]:
    """The tensors that the output has a derivative by: classes, positions and masks only decide, turned or not.

    What flows through a black box is not known, and counts.
    """

    def passed(step: Apply, _: bool) -> Iterable[tuple[str, bool]]:
        return ((str(step.arguments[n]), True) for n in passing(step, program))

    return frozenset(carry_back(program.steps, {program.output: True}, passed, or_))


def passing(step: Apply, program: Program) -> list[int]:
    """Where among its arguments a step's derivative is not 0 everywhere."""
    places = flowing_places(step, step.tensors)
    if entry_of(step.op) is None:
        return places
    key = standard(step, program).key
    return [n for n in places if local_pullback(key, n).right != 0]


ONE = Constant(1)
"""The weight of a loss."""
Called = Callable[[str | None], str]
"""A free name: for what reaches a tensor, or for a part of it, which belongs to none."""


@dataclass(frozen=True)
class Back:
    """``program`` is the given one and its way back; ``cotangents`` says by tensor what reaches it.

    ``weights`` are the names of the weights of the outputs, inputs of ``program``; that of a loss is the number 1 and
    has no name. A tensor that nothing reaches has no cotangent.
    """

    program: Program
    cotangents: Mapping[str, Argument]
    weights: Mapping[str, Argument]


def back(
    program: Program, wanted: Sequence[str], *, ends: Sequence[str] = (), ones: bool = False, prefix: str = ""
) -> Back:
    """``program`` and its backward by ``wanted``; ``ones``: the weight of an output that is a number is 1.

    What reaches h is called ``v_h``, v being what the seed is called; a ``prefix`` stands in the place of v. The
    output of the program is the gradient by the last of ``wanted`` that anything reaches, or stays what it was.
    Raises `UnsupportedError` where a black box is on the way.
    """
    chosen = tuple(dict.fromkeys(ends)) or (program.output,)
    taken = set(program.names)
    letter = prefix or program.seed

    def claim(wish: str) -> str:
        name = free_name((wish,), taken)
        taken.add(name)
        return name

    def called(tensor: str | None) -> str:
        if tensor is not None:
            return claim(f"{letter}_{tensor}")
        return claim(next(f"t{n}" for n in count(1) if f"t{n}" not in taken))

    weights: dict[str, Argument] = {}
    given = []
    for n, end in enumerate(chosen):
        tensor = program.tensor(end)
        if ones and not tensor.shape:
            weights[end] = ONE
        else:
            weights[end] = claim(letter if len(chosen) == 1 else f"{letter}{n + 1}")
            given.append(Tensor(str(weights[end]), tensor.shape))
    steps, found = steps_back(program, weights, wanted, called)
    reached = [str(found[name]) for name in wanted if isinstance(found.get(name), str)]
    whole = replace(
        program,
        inputs=(*program.inputs, *given),
        steps=(*program.steps, *steps),
        output=reached[-1] if reached else program.output,
    )
    return Back(whole, found, weights)


def steps_back(
    program: Program, weights: Mapping[str, Argument], wanted: Sequence[str], called: Called
) -> tuple[tuple[Apply, ...], Mapping[str, Argument]]:
    """The steps that pull ``weights`` of some tensors back to ``wanted``, and what reaches each tensor by then."""
    on_the_way = flowing(program, wanted) & program.reaching(weights)
    pulls: dict[str, list[tuple[int, Standard]]] = {}

    def used(step: Apply, _: int) -> Iterator[tuple[str, int]]:
        places = [n for n in flowing_places(step, on_the_way) if step.result.name in on_the_way]
        if places and entry_of(step.op) is None:
            raise UnsupportedError(
                f"a gradient through {step.called} cannot be differentiated again: that operation is not derived",
                span=step.span,
            )
        form = standard(step, program) if places else None
        pulls[step.result.name] = [(n, form) for n in places if form is not None and moves(step, form, n)]
        return ((str(step.arguments[n]), 1) for n, _ in pulls[step.result.name])

    uses = carry_back(program.steps, dict.fromkeys(weights, 1), used, add)
    made: list[Apply] = []
    found: dict[str, Argument] = {}

    def pulled(step: Apply, parts: list[Argument]) -> Iterator[tuple[str, list[Argument]]]:
        if pulls[step.result.name]:
            found[step.result.name] = sum_of_parts(parts, step.result, called, made)
        for n, form in pulls[step.result.name]:
            name = str(step.arguments[n])
            result = Tensor(called(name if uses[name] == 1 else None), program.tensor(name).shape)
            made.append(pullback_step(step, n, form, found[step.result.name], result))
            yield name, [result.name]

    parts = carry_back(program.steps, {name: [weight] for name, weight in weights.items()}, pulled, add)
    for name in wanted:
        if name in parts and name not in found:
            found[name] = sum_of_parts(parts[name], program.tensor(name), called, made)
    return tuple(made), found


def moves(step: Apply, form: Standard, place: int) -> bool:
    """Whether anything comes back to an operand, whatever the numbers."""
    formula = derive_local(form.key).derivatives[place].formula
    if formula.has(sp.nan, sp.zoo):
        raise no_number(step)
    return bool(local_pullback(form.key, place).right != 0)


def sum_of_parts(terms: Sequence[Argument], tensor: Tensor, called: Called, made: list[Apply]) -> Argument:
    """The sum of what reaches a tensor; steps for it are appended to ``made``."""
    total, *rest = terms
    for n, term in enumerate(rest, 2):
        result = Tensor(called(tensor.name if n == len(terms) else None), tensor.shape)
        made.append(Apply("add", (total, term), (), result))
        total = result.name
    return total


def pullback_step(step: Apply, place: int, form: Standard, weight: Argument, result: Tensor) -> Apply:
    """The step that pulls ``weight``, of the result of ``step``, back to the operand at ``place``."""
    named = {name_of(entry) for entry in accesses(local_pullback(form.key, place).right)}
    letters, beside = auxiliary_letters(step.op), dict(step.beside)
    inner = (SEED, OUT, *map(letter_name, letters), *(operand_name(n) for n in range(len(step.arguments))))
    others = {OUT: step.result.name, **{letter_name(k): beside.get(k) for k in letters}}
    extra = (others[name] if name in named else None for name in inner[1 : 2 + len(letters)])
    arguments = (weight, *(Constant(None) if name is None else name for name in extra), *step.arguments)
    read = tuple(n for n, name in enumerate(inner) if name in named and isinstance(arguments[n], str))
    found = [(k, beside.get(k, known_name(step, k))) for k in index_data_letters(step.op) if letter_name(k) in named]
    return Apply(Pullback(step.op, place, read), arguments, step.options, result, step.span, tuple(found))
