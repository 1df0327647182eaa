"""The grouping of a program's steps into lines: a visible tensor, and the steps that are merged into it.

Comes in: a program and the names that its reader knows. Goes out: `Group`s in the order of execution. A tensor gets a
line, and a cotangent, of its own unless it is unnamed, read once, and one of these rules lets it go into its reader:

    movement   it is one tensor moved or scaled (a view, ± or · a number): its reader reads that tensor moved
    linear     from it to the visible tensor every step is linear, with coefficients that are numbers (a bias added)
    logistic   it is an exponential of which only 1 + e is read: 1 / (1 + e) and log(1 + e) have slopes of their own,
               so this one goes in where it has a name, too, if nobody asks for its cotangent

Nothing else is merged: each line would repeat the same slope. A step that only broadcasts an operand goes along. A step
that reads more tensors than a group has steps (the `cat` behind an unrolled loop) is a line of its own: together with
the steps around it, each of its tensors would be derived through all of them.

Steps that compute the same are merged before that: `exp(z) / exp(z).sum()` has one exponential, and one cotangent of
it. An operation of the table is a function of its operands; one that is not derived may draw random numbers, and stays.
A step that only transposes or scales one tensor stays where it is read, too: `v @ w.T` is one line, and needs no name
for w.T. A tensor with a name of the user's is never merged with its equals, since its gradient is that of its own
readers; but where only a derivative reads it, no gradient flows back, and it stands for its equals there, too.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from symgrad.calculus.local_derivatives import Key, derive_local, standard_at
from symgrad.indexing.symbols import is_access
from symgrad.ops import entry_of
from symgrad.ops.lookup import has_role
from symgrad.program import Apply, Program, Pushforward, Role, Tensor

MOST = 8
"""Steps of a group: with more, a line says more than can be read."""


@dataclass(frozen=True)
class Group:
    """``steps`` compute ``output`` from ``reads``; ``beside`` are the steps that only their derivatives read."""

    output: str
    steps: tuple[Apply, ...]
    reads: tuple[str, ...]
    beside: tuple[Apply, ...] = ()

    @property
    def black(self) -> bool:
        """Whether no equation of the table says what it computes."""
        return is_black_box(self.steps[-1])

    @property
    def computed(self) -> frozenset[str]:
        """What the steps give, but for those that only broadcast."""
        return frozenset(step.result.name for step in self.steps if not has_role(step.op, Role.COPIES))


def is_black_box(step: Apply) -> bool:
    """Whether no equation of the table says what a step computes, so that its pullback is PyTorch's and not derived."""
    return entry_of(step.op) is None


def make_groups(program: Program, visible: Collection[str], fixed: Collection[str] | None = None) -> tuple[Group, ...]:
    """The groups of ``program`` in order; every one of ``visible`` has its own, but for exponentials not ``fixed``."""
    tensors, makers, forward = program.by_name, program.makers, program.forward_steps
    readers: dict[str, list[Apply]] = {}
    for step in forward:
        for name in step.tensors:
            readers.setdefault(name, []).append(step)
    merged: dict[str, str] = {}
    whole: dict[str, bool] = {}
    count: dict[str, int] = {}
    for step in reversed(forward):
        name = step.result.name
        whole[name] = True
        count[name] = 1
        if not can_merge_step(step) or len(readers.get(name, ())) != 1:
            continue
        (reader,) = readers[name]
        grows = name not in (visible if fixed is None else fixed) and is_logistic_step(step, reader, tensors)
        if name in visible and not grows:
            continue
        top = reader.result.name
        if top not in merged and is_hidden_broadcast(reader, readers, visible):
            continue
        end = merged.get(top, top)
        known = can_merge_step(reader)
        straight = known and whole[top] and is_linear_step(reader, name, tensors)
        if not known or count[end] >= MOST:
            continue
        if straight or is_move(step, tensors) or (grows and top in merged):
            merged[name], whole[name] = end, straight
            count[end] += 1
    return tuple(
        collect_group(step.result.name, makers, merged, readers, visible)
        for step in forward
        if step.result.name not in merged and not is_hidden_broadcast(step, readers, visible)
    )


def merged_tensors(group: Group, visible: Collection[str], tensors: Mapping[str, Tensor]) -> frozenset[str]:
    """What falls apart of a group but ``visible``; what only turns one tensor stays if anything else falls."""
    names = group.computed - {*visible}
    merged = [step for step in group.steps if step.result.name in names and len(step.tensors) == 1]
    return names - {step.result.name for step in merged if is_reshuffle(step, tensors)} or names


def is_reshuffle(step: Apply, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a step gives the entries of one tensor, all of them, in other places."""
    if not can_merge_step(step) or sp.Mul(*tensors[step.tensors[0]].shape) != sp.Mul(*step.result.shape):
        return False
    return is_access(derive_local(key_of_step(step, tensors)).equation.right)


def can_merge_step(step: Apply) -> bool:
    """Whether a line may be made of a step and others; black boxes, pullbacks, equations, solutions have one alone."""
    return isinstance(step.op, str) and entry_of(step.op) is not None and not step.beside and len(step.tensors) <= MOST


def is_hidden_broadcast(step: Apply, readers: Mapping[str, Sequence[Apply]], visible: Collection[str]) -> bool:
    """Whether a step only broadcasts what its readers read, which have equations, and nobody calls it by a name."""
    name = step.result.name
    read = readers.get(name, ())
    return (
        has_role(step.op, Role.COPIES)
        and name not in visible
        and bool(read)
        and not any(names_operand(reader, name) for reader in read)
    )


def names_operand(step: Apply, name: str) -> bool:
    """Whether the line of a step says an operand by its name, broadcast or not: a black box's, and what is pushed."""
    pushed = isinstance(step.op, Pushforward) and any(step.arguments[n] == name for n in step.op.read)
    return pushed or is_black_box(step)


def collect_group(
    output: str,
    makers: Mapping[str, Apply],
    merged: Mapping[str, str],
    readers: Mapping[str, Sequence[Apply]],
    visible: Collection[str],
) -> Group:
    """The group that makes ``output``: its own step, what was merged into it, and what broadcasts their operands."""
    own = makers[output]
    steps: dict[str, Apply] = {}
    reads: dict[str, None] = {}
    open_steps = [(own, iter(own.tensors))]
    while open_steps:  # what a step reads comes before it; a long chain is no depth of calls
        step, names = open_steps[-1]
        for name in names:
            maker = makers.get(name)
            if maker is None or not (merged.get(name) == output or is_hidden_broadcast(maker, readers, visible)):
                reads.setdefault(name)
            elif name not in steps:
                open_steps.append((maker, iter(maker.tensors)))
                break
        else:
            steps[step.result.name] = step
            open_steps.pop()
    for _, name in own.beside:
        if name in visible and name in readers:  # what its derivative reads has a name on the page
            reads.setdefault(name)
    beside = steps_beside(steps.values(), makers, {*reads, *steps})
    return Group(output, tuple(steps.values()), tuple(reads), tuple(beside))


def group_program(program: Program) -> Group:
    """All of ``program`` as one group; inputs that it does not read come last."""
    makers = program.makers
    group = collect_group(program.output, makers, dict.fromkeys(makers, program.output), {}, ())
    return replace(group, reads=tuple(dict.fromkeys((*group.reads, *(tensor.name for tensor in program.inputs)))))


def steps_beside(steps: Iterable[Apply], makers: Mapping[str, Apply], known: Collection[str]) -> Iterator[Apply]:
    """The steps behind what derivatives of some ``steps`` read beside their operands and nobody knows, in order."""
    needed: set[str] = set()
    waiting = [name for step in steps for _, name in step.beside]
    while waiting:
        name = waiting.pop()
        if name in makers and name not in needed and name not in known:
            needed.add(name)
            waiting += makers[name].tensors
    yield from (maker for name, maker in makers.items() if name in needed)


def key_of_step(step: Apply, tensors: Mapping[str, Tensor]) -> Key:
    """What the derivation of one step depends on."""
    return standard_at(step, tuple(tensors[a].shape if isinstance(a, str) else None for a in step.arguments)).key


def is_linear_step(step: Apply, name: str, tensors: Mapping[str, Tensor]) -> bool:
    """Whether the derivative by ``name`` is the same at every point, and there is only one."""
    if step.tensors.count(name) != 1:
        return False
    return has_constant_slope(key_of_step(step, tensors), step.arguments.index(name))


def is_logistic_step(step: Apply, reader: Apply, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a step is e = exp(z) and the one that reads it 1 + e."""
    if not all(can_merge_step(own) and len(own.tensors) == 1 for own in (step, reader)):
        return False
    return are_exp_and_one_plus(*(key_of_step(own, tensors) for own in (step, reader)))


@lru_cache(maxsize=1024)
def are_exp_and_one_plus(below: Key, above: Key) -> bool:
    """Whether two operations are exp(z) and 1 + e."""
    inner, outer = (derive_local(key).equation.right for key in (below, above))
    return isinstance(inner, sp.exp) and is_access(inner.args[0]) and bool(outer.is_Add) and is_access(outer - 1)


@lru_cache(maxsize=1024)
def has_constant_slope(key: Key, position: int) -> bool:
    """Whether a local derivative reads no tensor, and is not 0 throughout."""
    formula = derive_local(key).derivatives[position].formula
    return not any(is_access(node) for node in sp.preorder_traversal(formula)) and formula != 0


def is_move(step: Apply, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a step moves or scales one tensor."""
    return len(step.tensors) == 1 and is_linear_step(step, step.tensors[0], tensors)


def merge_equal_steps(program: Program, kept: Collection[str]) -> Program:
    """``program`` without the steps that only say again what another has computed; those of ``kept`` stay."""
    equal: dict[str, str] = {}
    first: dict[Hashable, str] = {}
    read = find_named_auxiliaries(program, kept)
    steps: list[Apply] = []
    dropped: dict[str, str] = {}
    for step in program.steps:
        name = step.result.name
        told = tuple(equal.get(a, a) if isinstance(a, str) else a for a in step.arguments)
        own = name if name in kept else first.setdefault((step.op, told, step.options), name)
        if own != name and can_merge_step(step):
            equal[name] = own
            if not (only_moves_entries(step, program.by_name) or has_role(step.op, Role.COPIES)):
                dropped[name] = own
                continue
        arguments = tuple(dropped.get(a, a) if isinstance(a, str) else a for a in step.arguments)
        beside = tuple((letter, read.get(own, dropped.get(own, own))) for letter, own in step.beside)
        steps.append(replace(step, arguments=arguments, beside=beside))
    return replace(program, steps=tuple(steps)) if dropped or read else program


def find_named_auxiliaries(program: Program, kept: Collection[str]) -> dict[str, str]:
    """What only derivatives read and has a name of somebody's: ``h = inverse(X)`` in the derivative of ``det(X)``."""
    forward = {step.result.name for step in program.forward_steps}
    named = {(s.op, s.arguments, s.options): s.result.name for s in program.steps if s.result.name in forward & {*kept}}
    beside = ((s.result.name, named.get((s.op, s.arguments, s.options))) for s in program.steps)
    return {name: known for name, known in beside if known is not None and name not in forward}


def only_moves_entries(step: Apply, tensors: Mapping[str, Tensor]) -> bool:
    """Whether each entry is one of a tensor's in another place, or times a number."""
    sizes = [sp.Mul(*tensors[name].shape) for name in (*step.tensors, step.result.name)]
    return len(set(sizes)) == 1 and is_move(step, tensors)
