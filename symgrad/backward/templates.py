"""The line that pulls a cotangent through one group, made once for groups that are built alike.

Comes in: a group, the program it belongs to, and one tensor that it reads. Goes out: a `Template`, text over ``v``,
``out`` and ``a0, a1, …``, proven before anyone sees it; or none where there is no notation, with the index equation
that stands in its place. Twelve equal layers have one template for each of their tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symgrad.backward.code import read_by
from symgrad.backward.groups import Group
from symgrad.calculus import Sweep, flows, pullback
from symgrad.calculus.local import known_name
from symgrad.closed_form import closed_form, grid, lowered
from symgrad.errors import SymgradError
from symgrad.indexing import Equation, replace_accesses
from symgrad.indexing.symbols import access
from symgrad.numeric import Array, Values, as_float, evaluate, forward
from symgrad.numeric.budget import MOST_IN_GRID
from symgrad.ops import found_letters
from symgrad.oracles.forms import check_form, reader_of
from symgrad.oracles.report import compare
from symgrad.program import Apply, Program, Pullback, Tensor
from symgrad.shapes import Shape, Size

WIDE = 240
"""Nodes of the formula that a line may come from."""
SMALL = 20_000
"""Entries of a group up to which a line is proven at more points than the one at hand."""
REMEMBERED = 4096
"""Proven templates that are kept."""


@dataclass(frozen=True)
class Template:
    """``text`` in standard names, None where there is no notation; ``equation`` says the same entry by entry.

    ``rules`` led to the text; with ``careful`` it holds only for some data (no class left out), and is confirmed anew
    on every run. ``lowered`` is text that says the equation as array operations, where no notation is shorter;
    ``reason`` is why there is none.
    """

    text: str | None
    equation: Equation | None
    rules: tuple[str, ...] = ()
    careful: bool = False
    lowered: bool = False
    reason: str = ""

    @property
    def notation(self) -> str | None:
        """The text where it is short notation, and not laid out as array operations."""
        return None if self.lowered else self.text


@dataclass(frozen=True)
class Held:
    """Whole numbers that an operation found: which entry was the largest.

    ``inner`` is their name in a group's equations, ``own`` that in the program's values; ``step`` found them.
    """

    inner: str
    own: str
    step: Apply


@dataclass(frozen=True)
class Standard:
    """A group in standard names, and what they and its sizes are called in the program.

    ``held`` are the whole numbers that its operations found, as further inputs.
    """

    program: Program
    names: Mapping[str, str]
    sizes: Mapping[Size, Size]
    held: Mapping[str, Held]

    def inner(self, held: Held) -> str:
        """The standard name of what a step computes."""
        return held.inner.partition("·")[2]


CAREFUL = frozenset({"none left out", "above the floor"})
"""Rules of closed forms that hold for the data at hand."""

_settled: OrderedDict[tuple[Program, str, bool], Template] = OrderedDict()


def standard_group(
    group: Group, tensors: Mapping[str, Tensor], values: Values | None, required: tuple[Size, ...] = ()
) -> Standard:
    """``group`` as a program of its own: it reads a0, a1, …, and gives out.

    What is ``required`` of the sizes is what is not negative, as in a program.

    Which whole numbers its operations found, the values say: an operation need not have found any.
    """
    arrays = {} if values is None else values.arrays
    new = {name: f"a{n}" for n, name in enumerate(group.reads)}
    for n, step in enumerate((*group.steps, *group.beside)):
        new.setdefault(step.result.name, f"t{n}")
    new[group.output] = "out"
    shapes = [tensors[name].shape for name in new]
    symbols = dict.fromkeys(s for shape in shapes for size in shape for s in sorted(size.free_symbols, key=str))
    swap = {old: sp.Symbol(f"s{n}", integer=True, positive=True) for n, old in enumerate(symbols)}

    def tensor(name: str) -> Tensor:
        return Tensor(new[name], sized(tensors[name].shape, swap))

    every = (*group.steps, *group.beside)
    found = [
        Held(f"{key}·{new[step.result.name]}", dict(step.beside).get(key, known_name(step, key)), step)
        for step in every
        for key in found_letters(step.op)
    ]
    shape_of = {h.own: output_shape(h.step, tensors) for h in found}
    same = [h for h in found if h.own in arrays and np.ndim(arrays[h.own]) == len(shape_of[h.own])]
    held = {f"n{n}": h for n, h in enumerate(same)}
    held = {name: replace(h, inner=name) if isinstance(h.step.op, Pullback) else h for name, h in held.items()}
    given = {h.own: name for name, h in held.items() if h.inner == name}
    numbers = [Tensor(name, sized(shape_of[h.own], swap)) for name, h in held.items()]

    def renamed(own: Apply) -> Apply:
        arguments = tuple(
            new[a] if isinstance(a, str) else replace(a, value=sized(a.value, swap)) for a in own.arguments
        )
        known = {**given, **new}
        beside = tuple((letter, known[name]) for letter, name in own.beside if name in known)  # others: second order's
        return Apply(own.op, arguments, sized(own.options, swap), tensor(own.result.name), None, beside)

    steps = tuple(renamed(own) for own in every)
    inputs = (*(tensor(name) for name in group.reads), *numbers)
    known = set(swap.values())
    needs = tuple(n for n in (sized(size, swap) for size in required) if n.free_symbols and n.free_symbols <= known)
    program = Program(inputs, steps, "out", required=needs)
    return Standard(program, {std: own for own, std in new.items()}, {s: old for old, s in swap.items()}, held)


def output_shape(step: Apply, tensors: Mapping[str, Tensor]) -> Shape:
    """The shape of what a step computes, or of what the operation computes that it is the pullback of: that of v."""
    if isinstance(step.op, Pullback):
        weight = step.arguments[0]
        return tensors[weight].shape if isinstance(weight, str) else ()
    return step.result.shape


def sized(value: Any, swap: Mapping[Size, Size]) -> Any:
    """A shape, an option or a constant with other sizes."""
    if isinstance(value, tuple):
        return tuple(sized(part, swap) for part in value)
    return value.xreplace(dict(swap)) if isinstance(value, sp.Expr) else value


def at_sizes(program: Program, numbers: Mapping[Size, int]) -> Program:
    """``program`` with numbers for its sizes."""
    swap = {size: sp.Integer(number) for size, number in numbers.items()}

    def tensor(own: Tensor) -> Tensor:
        return Tensor(own.name, sized(own.shape, swap))

    def step(own: Apply) -> Apply:
        arguments = tuple(a if isinstance(a, str) else replace(a, value=sized(a.value, swap)) for a in own.arguments)
        return replace(own, arguments=arguments, options=sized(own.options, swap), result=tensor(own.result))

    return Program(tuple(map(tensor, program.inputs)), tuple(map(step, program.steps)), program.output)


@lru_cache(maxsize=REMEMBERED)
def derived(program: Program, held: tuple[tuple[str, str], ...], wanted: str, unit: bool) -> tuple[Sweep, Template]:
    """The pullback of a standard group and the form that is claimed for it; ``unit``: the seed is the number 1."""
    sweep = called(pullback(program, wanted, Equation((), sp.S.One) if unit else None, WIDE), dict(held))
    try:
        form = closed_form(program, sweep, wanted)
    except SymgradError:
        form = None
    equation = sweep.equation if sweep.whole else None
    if form is None:
        return sweep, Template(None, equation)
    rules = tuple(dict.fromkeys(step.rule for step in form.steps))
    return sweep, Template(form.text, equation, rules, not CAREFUL.isdisjoint(rules))


def called(sweep: Sweep, names: Mapping[str, str]) -> Sweep:
    """``sweep`` with other names for what its formulas read."""

    def renamed(equation: Equation) -> Equation:
        return Equation(
            equation.axes, replace_accesses(equation.right, lambda name, at: access(names.get(name, name), at))
        )

    return replace(sweep, stages=tuple((name, renamed(e)) for name, e in sweep.stages)) if names else sweep


def forget() -> None:
    """Prove every line anew."""
    _settled.clear()


def template(standard: Standard, wanted: str, unit: bool, values: Values | None) -> Template:
    """The proven line of a standard group by ``wanted``; without ``values`` it cannot be proven, and has no text."""
    key = (standard.program, wanted, unit)
    known = _settled.get(key)
    if known is not None and (known.text is None or values is None or defined(known, standard, values)):
        return known
    held = tuple((found.inner, name) for name, found in standard.held.items())
    sweep, claimed = derived(standard.program, held, wanted, unit)
    if values is None:
        return replace(claimed, text=None)
    if claimed.text is not None and proven(claimed, sweep, standard, values, unit):
        found = claimed
    else:
        found = as_arrays(standard, sweep, wanted, values, unit)
    if not claimed.careful and (claimed.text is None or defined(claimed, standard, values)):
        _settled[key] = found  # where it is not defined, a convention holds, at this point
    if len(_settled) > REMEMBERED:
        _settled.popitem(last=False)
    return found


def asked_of(
    form: Standard, group: Group, reached: Collection[str], unit: bool, values: Values | None
) -> Iterator[tuple[str, Template]]:
    """The line for each tensor that a group reads and that is ``reached``, by its standard name."""
    for own, name in form.names.items():
        if name in group.reads and name in reached and flows(form.program, own):
            yield own, template(form, own, unit, values)


def as_arrays(standard: Standard, sweep: Sweep, wanted: str, values: Values, unit: bool) -> Template:
    """The line as array operations, where no notation is shorter; with the reason where there is none."""
    equation = sweep.equation if sweep.whole else None
    text = written_out(standard.program, sweep, wanted)
    if text is None:
        return Template(None, equation, reason="no array operations of torch say this")
    points = grid(sweep.equation.right, own_values(standard, values).sizes)
    if points > MOST_IN_GRID:
        return Template(None, equation, reason=f"array operations would lay out a grid of {points:,} points")
    claimed = Template(text, equation, ("array operations",), lowered=True)
    if proven(claimed, sweep, standard, values, unit):
        return claimed
    return Template(None, equation, reason="the array operations were not confirmed")


written_out = lru_cache(maxsize=REMEMBERED)(lowered)


def defined(found: Template, standard: Standard, values: Values) -> bool:
    """Whether a text has a finite value at the point: 0/0 there is not what was proven elsewhere."""
    own = own_values(standard, values)
    inputs = {tensor.name: own[tensor.name] for tensor in standard.program.inputs}
    try:
        known = {"v": np.ones(np.shape(own["out"])), "out": own["out"], **inputs}
        value = reader_of(found.lowered)(str(found.text), known)
    except SymgradError:
        return False
    return bool(np.isfinite(as_float(np.asarray(value))).all())


def proven(claimed: Template, sweep: Sweep, standard: Standard, values: Values, unit: bool) -> bool:
    """Whether a text agrees with the index equation: at the point, and where that is cheap near it and elsewhere."""
    recorded = own_values(standard, values)
    program = replace(standard.program, sizes=recorded.sizes)
    for own in (recorded, *recomputed(program, recorded)):
        if agrees(claimed, sweep, standard, program, own, unit):
            return True
    return False


def recomputed(program: Program, recorded: Values) -> Iterator[Values]:
    """The values of a group of several steps in full precision: a run in floats of 32 bits rounds each of them."""
    if len(program.steps) > 1:
        try:
            found = forward(program, {tensor.name: recorded[tensor.name] for tensor in program.inputs})
        except SymgradError:
            return
        yield recorded.with_arrays(found.arrays)


def agrees(claimed: Template, sweep: Sweep, standard: Standard, program: Program, own: Values, unit: bool) -> bool:
    """`proven` for one set of values of a group."""
    shape = np.shape(own["out"])
    seed = np.ones(()) if unit else np.random.default_rng(5).integers(-4, 5, size=shape)
    text = str(claimed.text)
    if not read_by([text.rpartition("; ")[2]]):  # a number reads back as no tensor
        text = f"{text} + 0 * v"
    if sum(np.size(a) for a in own.arrays.values()) <= SMALL:
        held = {name: found.inner for name, found in standard.held.items()}
        return check_form(text, program, sweep, own, seed, claimed.lowered, held).passed is True
    return at_the_point(text, sweep, program, own, seed, claimed.lowered)


def at_the_point(text: str, sweep: Sweep, program: Program, values: Values, seed: Array, as_lowered: bool) -> bool:
    """Whether a text gives what the index equation gives at one point."""
    inputs = {tensor.name: values[tensor.name] for tensor in program.inputs}
    try:
        known = {"v": seed, "out": values["out"], **inputs}
        written = reader_of(as_lowered)(text, known)
    except SymgradError:
        return False
    raw = evaluate(sweep.equation, {**values.arrays, "v": seed}, values.sizes)
    return compare("the line, read back and evaluated", raw, written).passed is True


def own_values(standard: Standard, values: Values) -> Values:
    """The values of a group under its standard names, what its operations computed beside among them."""
    arrays = {std: values[own] for std, own in standard.names.items() if own in values.arrays}
    for name, found in standard.held.items():
        if found.own in values.arrays:
            arrays[name] = arrays[found.inner] = values[found.own]
    sizes = {std: values.sizes[own] for std, own in standard.sizes.items() if own in values.sizes}
    return Values(arrays, sizes)
