"""A group of steps as a program of its own: in standard names, at standard sizes, with slots for positions.

Comes in: a group and the tensors around it. Goes out: a `StandardGroup`. Groups of one structure have one program,
whatever their names, their sizes and the positions that they read: what is derived for one holds for all.

A step that joins many tensors has a program for each, by which it has the same derivative: that one, with zeros before
and behind it. It is as short for the hundredth of an unrolled loop as for the first; with all of them in it, each would
be derived through all.

    cat([a, b, c, d, e])     by d:   pad(d, (3, 1))     3 stands in a slot
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp

from symgrad.backward.groups import MOST, Group
from symgrad.calculus.local_derivatives import known_name
from symgrad.language.trees import Numbers
from symgrad.numeric import Values
from symgrad.ops import auxiliary_letters, index_data_letters
from symgrad.ops.lookup import Slots, has_role, role_entry
from symgrad.program import Apply, Constant, Program, Pullback, Role, Tensor, VectorProduct
from symgrad.shapes import Shape, Size, SlotSymbol


@dataclass(frozen=True)
class HeldIndices:
    """Whole numbers that an operation found: which entry was the largest.

    ``inner`` is their name in a group's equations, ``own`` that in the program's values; ``step`` found them.
    """

    inner: str
    own: str
    step: Apply


@dataclass(frozen=True)
class StandardGroup:
    """A group in standard names, and what they and its sizes are called in the program.

    ``held`` are the whole numbers that its operations found, as further inputs; ``slots`` hold the positions that its
    views read: two groups that differ in those alone have one program.
    """

    program: Program
    names: Mapping[str, str]
    sizes: Mapping[Size, Size]
    held: Mapping[str, HeldIndices]
    slots: Slots = field(default_factory=Slots)

    @property
    def numbers(self) -> Numbers:
        """What stands in the slots, by their names."""
        return tuple((slot.name, int(position)) for slot, position in self.slots.found.items())

    @property
    def own_sizes(self) -> Mapping[Size, Size]:
        """What its sizes and its slots are in the program."""
        return {**self.sizes, **{slot: sp.Integer(position) for slot, position in self.slots.found.items()}}

    def at(self, positions: Mapping[SlotSymbol, int]) -> StandardGroup:
        """The same with these positions, and no slots."""
        numbers = {slot: sp.Integer(position) for slot, position in positions.items()}
        return StandardGroup(resize_program(self.program, numbers), self.names, self.sizes, self.held)

    def inner(self, held: HeldIndices) -> str:
        """The standard name of what a step computes."""
        return held.inner.partition("·")[2]


def standardise_group(
    group: Group, tensors: Mapping[str, Tensor], values: Values | None, required: tuple[Size, ...] = ()
) -> StandardGroup:
    """``group`` as a program of its own: it reads a0, a1, …, and gives out.

    What is ``required`` of the sizes is what is not negative, as in a program.

    Which whole numbers its operations found, the values say: an operation need not have found any.
    """
    arrays = {} if values is None else values.arrays
    new = {name: f"a{n}" for n, name in enumerate(group.reads)}
    for n, step in enumerate((*group.steps, *group.beside)):
        new.setdefault(step.result.name, f"t{n}")
    new[group.output] = "out"
    others = list(find_size_tensors(group, new, tensors))
    new |= {name: f"a{len(group.reads) + n}" for n, name in enumerate(others)}
    shapes = [tensors[name].shape for name in new]
    symbols = dict.fromkeys(s for shape in shapes for size in shape for s in sorted(size.free_symbols, key=str))
    swap = {old: sp.Symbol(f"s{n}", integer=True, positive=True) for n, old in enumerate(symbols)}

    every = (*group.steps, *group.beside)
    found = [
        HeldIndices(f"{key}·{new[step.result.name]}", dict(step.beside).get(key, known_name(step, key)), step)
        for step in every
        for key in index_data_letters(step.op)
    ]
    shape_of = {h.own: shape_of_result(h.step, tensors) for h in found}
    same = [h for h in found if h.own in arrays and np.ndim(arrays[h.own]) == len(shape_of[h.own])]
    held = {f"n{n}": h for n, h in enumerate(same)}
    held = {name: replace(h, inner=name) if isinstance(h.step.op, VectorProduct) else h for name, h in held.items()}
    given = {h.own: name for name, h in held.items() if h.inner == name}
    numbers = [Tensor(name, resize(shape_of[h.own], swap)) for name, h in held.items()]

    steps = [rename_step(own, {**given, **new}, swap) for own in every]
    slots = Slots()
    if not held:
        shapes_of = {new[name]: resize(tensors[name].shape, swap) for name in new}
        for n, own in enumerate(steps):
            read = [shapes_of[a] if isinstance(a, str) else None for a in own.arguments]
            steps[n] = replace(own, options=slots.opened(own.op, read, own.options))
    inputs = (*(Tensor(new[name], resize(tensors[name].shape, swap)) for name in (*group.reads, *others)), *numbers)
    known = set(swap.values())
    needs = tuple(n for n in (resize(size, swap) for size in required) if n.free_symbols and n.free_symbols <= known)
    said = [most - slots.found[slot] for slot, most in slots.most.items()]  # of the positions at hand: here of all
    needs = tuple(n for n in needs if not any((n - own).is_nonnegative for own in said))
    needs += tuple(most - slot for slot, most in slots.most.items())
    program = Program(inputs, tuple(steps), "out", required=needs)
    names, sizes = {std: own for own, std in new.items()}, {s: old for old, s in swap.items()}
    return StandardGroup(program, names, sizes, held, slots)


def find_size_tensors(group: Group, names: Collection[str], tensors: Mapping[str, Tensor]) -> Iterator[str]:
    """Tensors that have the sizes a group computes with and nothing that it reads has: the 4 of ``/ A.shape[0]``."""
    steps = (*group.steps, *group.beside)
    sizes = [size for step in steps for size in step.result.shape]
    constants = (a.value for step in steps for a in step.arguments if isinstance(a, Constant))
    sizes += [value for value in constants if isinstance(value, sp.Expr)]
    read = {size for name in group.reads for size in tensors[name].shape}
    wanted = {symbol for size in sizes for symbol in size.free_symbols} - read
    for tensor in tensors.values() if wanted else ():
        if tensor.name not in names and not wanted.isdisjoint(tensor.shape):
            wanted.difference_update(tensor.shape)
            yield tensor.name


def resize_program(program: Program, numbers: Mapping[Size, Size]) -> Program:
    """``program`` at other sizes, or with positions in its slots."""
    needs = tuple(size for size in (n.xreplace(dict(numbers)) for n in program.required) if size.free_symbols)
    same = {tensor.name: tensor.name for tensor in program.tensors()}
    inputs = tuple(Tensor(tensor.name, resize(tensor.shape, numbers)) for tensor in program.inputs)
    steps = tuple(rename_step(own, same, numbers) for own in program.steps)
    return Program(inputs, steps, program.output, required=needs)


def rename_step(own: Apply, names: Mapping[str, str], swap: Mapping[Size, Size]) -> Apply:
    """A step under other names and at other sizes; what is read beside and has no name there is left out."""
    given = own.arguments
    arguments = tuple(names[a] if isinstance(a, str) else replace(a, value=resize(a.value, swap)) for a in given)
    beside = tuple((letter, names[name]) for letter, name in own.beside if name in names)  # others: second order's
    result = Tensor(names[own.result.name], resize(own.result.shape, swap))
    return Apply(own.op, arguments, resize(own.options, swap), result, None, beside)


def resize(value: Any, swap: Mapping[Size, Size]) -> Any:
    """A shape, an option or a constant with other sizes; a position is a number of Python's."""
    if isinstance(value, tuple):
        return tuple(resize(part, swap) for part in value)
    if not isinstance(value, sp.Expr):
        return value
    found = value.xreplace(dict(swap))
    return int(found) if found.is_Integer and value.has(SlotSymbol) else found


def shape_of_result(step: Apply, tensors: Mapping[str, Tensor]) -> Shape:
    """The shape of what a step computes, or of what the operation computes that it is the pullback of: that of v."""
    if isinstance(step.op, Pullback):
        weight = step.arguments[0]
        return tensors[weight].shape if isinstance(weight, str) else ()
    return step.result.shape


def group_values(standard: StandardGroup, values: Values) -> Values:
    """The values of a group under its standard names, what its operations computed beside among them."""
    arrays = {std: values[own] for std, own in standard.names.items() if own in values.arrays}
    for name, found in standard.held.items():
        if found.own in values.arrays:
            arrays[name] = arrays[found.inner] = values[found.own]
    sizes = {std: values.sizes[own] for std, own in standard.sizes.items() if own in values.sizes}
    sizes |= {std: int(own) for std, own in standard.sizes.items() if own.is_Integer}
    return Values(arrays, sizes)


def is_wide_join(group: Group, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a group is one step that joins many different tensors, of sizes that are numbers."""
    step = group.steps[-1]
    joins = has_role(step.op, Role.JOINS) or has_role(step.op, Role.STACKS)
    if not joins or len(group.steps) > 1 or group.beside or len(step.tensors) <= MOST:
        return False
    numbers = all(size.is_Integer for name in step.tensors for size in tensors[name].shape)
    return numbers and len(set(step.tensors)) == len(step.arguments)


def split_wide_join(group: Group, tensors: Mapping[str, Tensor]) -> Iterator[StandardGroup]:
    """A program for each tensor that is joined."""
    step, begin = group.steps[-1], 0
    dim, new = int(str(dict(step.options)["dim"])), has_role(step.op, Role.STACKS)
    for name in step.tensors:
        shape = tensors[name].shape
        width = 1 if new else int(shape[dim])
        yield put_between(step, Tensor(name, shape), dim, begin, begin + width)
        begin += width


def put_between(step: Apply, tensor: Tensor, dim: int, begin: int, end: int) -> StandardGroup:
    """``tensor`` with zeros before and behind it, in the place of its neighbours: a slot says where it begins."""
    whole, opened, slots = step.result, len(tensor.shape) < len(step.result.shape), Slots()
    total = whole.shape[dim]
    first = slots.open(begin, total - (end - begin)) if begin > 0 and end < total else sp.Integer(begin)
    wide = (*whole.shape[:dim], sp.Integer(end - begin), *whole.shape[dim + 1 :])
    margins = (0,) * 2 * (len(wide) - 1 - dim) + (first, total - (end - begin) - first)
    one = Apply(role_entry(Role.OPENS).name, ("a0",), (("dim", dim),), Tensor("t0", wide))
    pad, own = role_entry(Role.PADS), one.result if opened else tensor
    options = tuple(pad.rules.prepare((own.shape,), pad=margins).items())
    padded = Apply(pad.name, ("t0" if opened else "a0",), options, Tensor("out", whole.shape))
    needs = tuple(most - slot for slot, most in slots.most.items())
    program = Program((Tensor("a0", tensor.shape),), (one, padded) if opened else (padded,), "out", required=needs)
    return StandardGroup(program, {"a0": tensor.name, "out": whole.name}, {}, {}, slots)


def program_of_pullback(step: Apply, values: Values, known: Mapping[str, Shape] | None = None) -> StandardGroup:
    """The operation that ``step`` is the pullback of, as a program: a0, a1, … are its operands, b… is read beside."""
    assert isinstance(step.op, Pullback)
    swap = {} if known is not None else {size: sp.Integer(number) for size, number in values.sizes.items()}

    def shape(name: str) -> Shape:
        return tuple(map(sp.Integer, np.shape(values[name]))) if known is None else known[name]

    letters = auxiliary_letters(step.op.of)
    weight, out, *rest = step.arguments
    operands = list(enumerate(rest[len(letters) :]))
    names = {f"a{n}": a for n, a in operands if isinstance(a, str)}
    aside = {letter: (f"b{n}", a) for n, (letter, a) in enumerate(zip(letters, rest, strict=False))}
    besides = {letter: pair for letter, pair in aside.items() if isinstance(pair[1], str)}
    besides |= {letter: (f"n{n}", a) for n, (letter, a) in enumerate(step.beside)}
    names |= {std: str(a) for std, a in besides.values()}
    shapes = {std: shape(name) for std, name in names.items()}
    inputs = tuple(Tensor(std, own) for std, own in shapes.items())
    arguments = tuple(f"a{n}" if isinstance(a, str) else Constant(resize(a.value, swap)) for n, a in operands)
    result = Tensor("out", shape(weight) if isinstance(weight, str) else ())
    read = tuple((letter, std) for letter, (std, _) in besides.items())
    program = Program(inputs, (Apply(step.op.of, arguments, resize(step.options, swap), result, None, read),), "out")
    names |= {std: name for std, name in (("v", weight), ("out", out)) if isinstance(name, str)}
    return StandardGroup(program, names, {}, {})
