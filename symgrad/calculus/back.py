"""The backward of a program as a program: the steps that pull weights of its outputs back to what is asked for.

    out = x @ a      →      v_x = the pullback of matmul by x, applied to v and a      v_a = … by a, applied to v and x

Comes in: a program, the weights of its outputs, what is asked for. Goes out: a `Back`, whose program computes what the
given one does and then the cotangents. Each step is the derived equation of one operation by one operand, and a sum
where a tensor is read more than once. It is linear in the length of the program, knows no text, and is closed under
itself: the backward of a `Back` is made by the same call, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from operator import add

import sympy as sp

from symgrad.calculus.flow import carry_back, flowing, positions
from symgrad.calculus.local import (
    OUT,
    SEED,
    Standard,
    derive,
    known_name,
    letter_name,
    local_pullback,
    no_number,
    operand,
    standard,
)
from symgrad.errors import UnsupportedError
from symgrad.indexing.symbols import accesses, name_of
from symgrad.ops import beside_letters, entry_of, found_letters
from symgrad.program import Apply, Argument, Constant, Program, Pullback, Tensor, free_name

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
        places = [n for n in positions(step, on_the_way) if step.result.name in on_the_way]
        if places and entry_of(step.op) is None:
            raise UnsupportedError(
                f"a gradient through {step.called} cannot be differentiated again: it is a black box", span=step.span
            )
        form = standard(step, program) if places else None
        pulls[step.result.name] = [(n, form) for n in places if form is not None and moves(step, form, n)]
        return ((str(step.arguments[n]), 1) for n, _ in pulls[step.result.name])

    uses = carry_back(program.steps, dict.fromkeys(weights, 1), used, add)
    made: list[Apply] = []
    found: dict[str, Argument] = {}

    def pulled(step: Apply, parts: list[Argument]) -> Iterator[tuple[str, list[Argument]]]:
        if pulls[step.result.name]:
            found[step.result.name] = added(parts, step.result, called, made)
        for n, form in pulls[step.result.name]:
            name = str(step.arguments[n])
            result = Tensor(called(name if uses[name] == 1 else None), program.tensor(name).shape)
            made.append(pullback_step(step, n, form, found[step.result.name], result))
            yield name, [result.name]

    parts = carry_back(program.steps, {name: [weight] for name, weight in weights.items()}, pulled, add)
    for name in wanted:
        if name in parts and name not in found:
            found[name] = added(parts[name], program.tensor(name), called, made)
    return tuple(made), found


def moves(step: Apply, form: Standard, place: int) -> bool:
    """Whether anything comes back to an operand, whatever the numbers."""
    formula = derive(form.key).derivatives[place].formula
    if formula.has(sp.nan, sp.zoo):
        raise no_number(step)
    return bool(local_pullback(form.key, place).right != 0)


def added(terms: Sequence[Argument], tensor: Tensor, called: Called, made: list[Apply]) -> Argument:
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
    letters, beside = beside_letters(step.op), dict(step.beside)
    inner = (SEED, OUT, *map(letter_name, letters), *(operand(n) for n in range(len(step.arguments))))
    others = {OUT: step.result.name, **{letter_name(k): beside.get(k) for k in letters}}
    extra = (others[name] if name in named else None for name in inner[1 : 2 + len(letters)])
    arguments = (weight, *(Constant(None) if name is None else name for name in extra), *step.arguments)
    read = tuple(n for n, name in enumerate(inner) if name in named and isinstance(arguments[n], str))
    found = [(k, beside.get(k, known_name(step, k))) for k in found_letters(step.op) if letter_name(k) in named]
    return Apply(Pullback(step.op, place, read), arguments, step.options, result, step.span, tuple(found))
