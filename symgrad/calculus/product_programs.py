"""The backward of a program, and its forward mode, as programs.

    out = x @ a      →      v_x = the pullback of matmul by x, applied to v and a      v_a = … by a, applied to v and x
                     →      Ju = the pushforward of matmul by x and a, applied to u_x, u_a, x and a

`back` takes a program, the weights of its outputs and what is asked for, and gives a `Back`, whose program computes
what the given one does and then the cotangents. Each step is the derived equation of one operation by one operand,
and a sum where a tensor is read more than once. It is linear in the length of the program, knows no text, and is closed
under itself: the backward of a `Back` is made by the same call, to any order. `push` is its twin: how outputs change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from operator import add

import sympy as sp

from symgrad.calculus.local_derivatives import (
    OUT,
    SEED,
    TANGENT,
    Key,
    Standard,
    derive_local,
    known_name,
    letter_name,
    local_pullback,
    local_pushforward,
    no_number,
    operand_name,
    standard,
)
from symgrad.calculus.propagation import carry_back, carry_on, flowing, moving_places
from symgrad.errors import UnsupportedError
from symgrad.indexing import replace_accesses
from symgrad.indexing.equation import canonical
from symgrad.indexing.symbols import accesses, name_of
from symgrad.ops import auxiliary_letters, entry_named, entry_of, index_data_letters
from symgrad.program import (
    UNNAMED,
    Apply,
    Argument,
    Constant,
    Program,
    Pullback,
    Pushforward,
    Tensor,
    VectorProduct,
    free_name,
)

ONE = Constant(1)
"""The weight of a loss."""
TANGENTS = ("u", "d", "w", "s")
"""What a change of an input is called: the first that no tensor is called."""
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
        return claim(next_unnamed(taken) if tensor is None else f"{letter}_{tensor}")

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


def next_unnamed(taken: Collection[str]) -> str:
    """A free name for what has none."""
    return next(f"t{n}" for n in count(1) if f"t{n}" not in taken)


def steps_back(
    program: Program, weights: Mapping[str, Argument], wanted: Sequence[str], called: Called
) -> tuple[tuple[Apply, ...], Mapping[str, Argument]]:
    """The steps that pull ``weights`` of some tensors back to ``wanted``, and what reaches each tensor by then."""
    reached = flowing(program, wanted)
    pulls: dict[str, list[int]] = {}

    def used(step: Apply, _: int) -> Iterator[tuple[str, int]]:
        places = pulls[step.result.name] = moving_places(step, program, reached)
        if places and entry_of(step.op) is None:
            raise UnsupportedError(
                f"a gradient through {step.called} cannot be differentiated again: that operation is not derived",
                span=step.span,
            )
        derived = derive_local(standard(step, program).key).derivatives if places else {}
        if any(derived[n].formula.has(sp.nan, sp.zoo) for n in places):
            raise no_number(step)
        return ((str(step.arguments[n]), 1) for n in places)

    uses = carry_back(program.steps, dict.fromkeys(weights, 1), used, add)
    made: list[Apply] = []
    found: dict[str, Argument] = {}

    def pulled(step: Apply, parts: list[Argument]) -> Iterator[tuple[str, list[Argument]]]:
        if pulls[step.result.name]:
            found[step.result.name] = sum_of_parts(parts, step.result, called, made)
        for n in pulls[step.result.name]:
            name = str(step.arguments[n])
            result = Tensor(called(name if uses[name] == 1 else None), program.tensor(name).shape)
            made.append(product_step(step, [n], standard(step, program), [found[step.result.name]], result, back=True))
            yield name, [result.name]

    parts = carry_back(program.steps, {name: [weight] for name, weight in weights.items()}, pulled, add)
    for name in wanted:
        if name in parts and name not in found:
            found[name] = sum_of_parts(parts[name], program.tensor(name), called, made)
    return tuple(made), found


def sum_of_parts(terms: Sequence[Argument], tensor: Tensor, called: Called, made: list[Apply]) -> Argument:
    """The sum of what reaches a tensor; steps for it are appended to ``made``."""
    total, *rest = terms
    for n, term in enumerate(rest, 2):
        result = Tensor(called(tensor.name if n == len(terms) else None), tensor.shape)
        made.append(Apply("add", (total, term), (), result))
        total = result.name
    return total


def product_step(
    step: Apply, places: Sequence[int], form: Standard | None, vectors: Sequence[Argument], result: Tensor, back: bool
) -> Apply:
    """The step that pulls the vector of ``step`` back to the operand at a place, or those of its operands forward.

    Without a ``form``, that of a black box, which reads everything.
    """
    letters, beside = auxiliary_letters(step.op) if form is not None else (), dict(step.beside)
    local, vector = (local_pullback, SEED) if back else (local_pushforward, TANGENT)
    inner = [*(vector for _ in vectors), OUT, *map(letter_name, letters)]
    inner += [operand_name(n) for n in range(len(step.arguments))]
    rights = [local(form.key, place).right for place in places] if form is not None else []
    named = {name_of(entry) for right in rights for entry in accesses(right)} if form is not None else {*inner}
    others = {OUT: step.result.name, **{letter_name(k): beside.get(k) for k in letters}}
    extra = (others[name] if name in named else None for name in inner[len(vectors) :][: 1 + len(letters)])
    arguments = (*vectors, *(Constant(None) if name is None else name for name in extra), *step.arguments)
    read = tuple(n for n, name in enumerate(inner) if name in named and isinstance(arguments[n], str))
    held = index_data_letters(step.op) if form is not None else ()
    found = [(k, beside.get(k, known_name(step, k))) for k in held if letter_name(k) in named]
    op = Pullback(step.op, places[0], read) if back else Pushforward(step.op, tuple(places), read)
    return Apply(op, arguments, step.options, result, step.span, tuple(found))


@dataclass(frozen=True)
class Push:
    """``program`` is the given one and its way on; ``tangents`` says by tensor how it changes, if it does.

    ``directions`` are the names of the changes of the inputs that are moved, inputs of ``program``, and begin with
    ``letter``; ``steps`` are those that were added to the ``source``.
    """

    source: Program
    program: Program
    steps: tuple[Apply, ...]
    tangents: Mapping[str, str]
    directions: Mapping[str, str]
    letter: str


def push(program: Program, moved: Sequence[str], *, ends: Sequence[str] = ()) -> Push:
    """``program`` and its forward mode: how ``ends``, or its output, change where the tensors in ``moved`` change.

    The change of h is called ``u_h``, that of the only one that is moved ``u``, that of an output ``Ju``. What is
    linear is applied to the changes as it stands, and what nobody derived has a step that is to be asked of torch.
    """
    chosen, taken = tuple(dict.fromkeys(ends)) or (program.output,), set(program.names)
    letter = free_name(TANGENTS, taken | program.spoken)

    def called(tensor: str | None) -> str:
        wish = f"J{letter}" if chosen == (tensor,) else f"{letter}_{tensor}"
        unnamed = tensor is None or (UNNAMED.fullmatch(tensor) is not None and tensor not in chosen)
        taken.add(name := free_name((next_unnamed(taken) if unnamed else wish,), taken))
        return name

    directions = dict.fromkeys(moved, letter) if len(moved) == 1 else {name: called(name) for name in moved}
    taken.update(directions.values())
    on_the_way, made = program.reaching(chosen), list[Apply]()

    def pushed(step: Apply, changes: Mapping[int, Argument]) -> Argument | None:
        form = standard(step, program) if entry_of(step.op) is not None else None
        places = [n for n in changes if form is None or local_pushforward(form.key, n).right != 0]
        name = step.result.name
        if not places or name not in on_the_way:
            return None
        ways = () if form is None else linear_ways(form.key, tuple(places), len({step.arguments[n] for n in places}))
        parts: list[Argument] = []
        for some in ways or (tuple(places),):
            result = Tensor(called(name if len(ways) < 2 else None), step.result.shape)
            vectors = {n: changes[n] for n in some}
            if ways:
                arguments = tuple(vectors.get(n, argument) for n, argument in enumerate(step.arguments))
                made.append(replace(step, arguments=arguments, result=result))
            else:
                made.append(product_step(step, places, form, [*vectors.values()], result, back=False))
            parts.append(result.name)
        return sum_of_parts(parts, step.result, called, made)

    tangents = {n: str(own) for n, own in carry_on(program.steps, dict[str, Argument](directions), pushed).items()}
    inputs = (*program.inputs, *(Tensor(own, program.tensor(name).shape) for name, own in directions.items()))
    found = [tangents[end] for end in chosen if end in tangents]
    whole = replace(program, inputs=inputs, steps=(*program.steps, *made), output=[program.output, *found][-1])
    needed = whole.reaching(found)  # a tensor that is read for its shape alone may change, and nothing with it
    steps = tuple(step for step in made if step.result.name in needed)
    known = {name: own for name, own in tangents.items() if own in needed or name in directions}
    return Push(program, replace(whole, steps=(*program.steps, *steps)), steps, known, directions, letter)


@lru_cache(maxsize=1024)
def linear_ways(key: Key, places: tuple[int, ...], tensors: int) -> tuple[tuple[int, ...], ...]:
    """Which operands to change together so that the results of the operation itself add up to its pushforward.

    All at once where it is linear in them together, one by one where it is in each, of ``tensors`` that are as many;
    none elsewhere.
    """
    if is_linear(key, places):
        return (places,)
    alone = tensors == len(places) and all(is_linear(key, (n,)) for n in places)
    return tuple((n,) for n in places) if alone else ()


def is_linear(key: Key, places: tuple[int, ...]) -> bool:
    """Whether no derivative by operands at ``places`` reads one of them or the result, which is 0 where they are.

    What takes only some numbers, or is computed in its own way, does not count.
    """
    found, names, op = derive_local(key), {OUT, *map(operand_name, places)}, entry_named(key.op)
    own = not isinstance(key.op, VectorProduct) and (op.numpy is not None or any(map(op.takes_some, places)))
    if own or found.residual or op.saved.names or found.equation.right is sp.nan:
        return False
    formulas = (found.derivatives[n].formula for n in places)
    if any(name_of(entry) in names for formula in formulas for entry in accesses(formula)):
        return False
    nothing = replace_accesses(found.equation.right, lambda name, at: sp.S.Zero if name in names else None)
    return bool(canonical(nothing) == 0)
