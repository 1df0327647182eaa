"""One try at reading a text: its inputs have these shapes, as far as they are known; does the whole fit?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import lcm, prod
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError, place_errors, seed_shape_error
from symgrad.language.arguments import MOST, Array, abbreviate_repr, too_large_error
from symgrad.language.binding import LiteralTensor, Meaning, Ref
from symgrad.language.builder import StepBuilder
from symgrad.language.complaints import format_sizes
from symgrad.language.constants import simplify_number
from symgrad.language.dtypes import DtypeKind, round_to_dtype
from symgrad.language.input_names import TextNames
from symgrad.language.sizes import LARGEST_GUESS, unify_shapes
from symgrad.language.statements import StatementReader
from symgrad.language.syntax_tree import Script
from symgrad.program import Apply, Constant, Number, Own, Program, Tensor
from symgrad.shapes import Shape, Size, SizeMismatch, Sizes, fill_sizes, size_symbol

Wanted = tuple[int | str | None, ...]
"""A given shape: a number, a letter (one size wherever it stands), or None for unknown."""

ROUNDS, FARTHEST = 4, 64
"""How often, and by how much, sizes are made larger so that no tensor is empty that need not be."""
EXAMPLE = "2,3 or n,3, where n is to be inferred"


def parse_shapes(shapes: Mapping[str, Sequence[SupportsIndex | str]]) -> dict[str, Wanted]:
    """Given shapes in plain integers and letters; raises `InputError` for anything else."""
    return {name: tuple(parse_size(name, size) for size in shape) for name, shape in shapes.items()}


def parse_size(name: str, size: object) -> int | str:
    """One given size."""
    if isinstance(size, str) and size.isidentifier():
        return size
    if isinstance(size, SupportsIndex) and not isinstance(size, bool) and index(size) >= 0:
        return index(size)
    raise InputError(f"the shape of {name} has to consist of sizes", found=(abbreviate_repr(size),), hints=(EXAMPLE,))


def initial_shape(sizes: Sizes, wanted: Wanted, same: dict[str, Size]) -> Shape:
    """Sizes for a given shape: numbers as given, one new size per letter, a new one for every None.

    ``same`` holds the letters met so far, and is added to.
    """
    shape = []
    for size in wanted:
        if isinstance(size, str) and size not in same:
            same[size] = sizes.fresh()
        if size is None:
            shape.append(sizes.fresh())
        else:
            shape.append(same[size] if isinstance(size, str) else sizes.given(size))
    return tuple(shape)


@dataclass(frozen=True)
class ReadingRequest:
    """What does not change between attempts: the text, its names, and how the output is called.

    ``numbers`` are names that stand for numbers; None is a size that is to be inferred.
    """

    script: Script
    names: TextNames
    output: str
    symbolic: bool
    truths: frozenset[str] = frozenset()
    numbers: Mapping[str, Number | None] = field(default_factory=dict)
    pairs: frozenset[str] = frozenset()

    def input(self, name: str, shape: Shape) -> Ref:
        """What an input is before the first line."""
        kind = DtypeKind.TRUTH if name in self.truths else DtypeKind.REAL
        return Ref(name, shape, complex=name in self.pairs, kind=kind)


@dataclass(frozen=True)
class Attempt:
    """An elaboration that went through, and the sizes it left open.

    ``assumed`` are sizes that had to be given a number on the way; ``needs`` says of others how large they
    have to be, and a multiple of what.
    """

    question: ReadingRequest
    sizes: Sizes
    shapes: Mapping[str, Shape]
    builder: StepBuilder
    output: Ref
    assumed: tuple[Size, ...]
    needs: tuple[tuple[Size, int, int], ...]
    counts: Mapping[str, Number]
    seed: tuple[Own, LiteralTensor] | None = None

    def counted(self) -> dict[str, Number | None]:
        """What the names are that stand for numbers, as far as that is known."""
        found: dict[str, Number | None] = dict(self.counts)
        return found | {n: self.sizes.number(c) for n, c in self.counts.items() if isinstance(c, sp.Expr)}

    def unify_output(self, wanted: Sequence[int]) -> None:
        """Unify the output's shape with ``wanted``; raises `ShapeError` where they differ."""
        shape, sizes = self.output.shape, self.sizes
        if len(shape) != len(wanted):
            raise ShapeError(f"the output has {len(shape)} axes, not {len(wanted)}")
        if not unify_shapes(sizes, shape, tuple(map(sizes.given, wanted))):
            raise ShapeError("the output has another shape")

    def assign_open_sizes(self, sizes: Sizes) -> set[Size]:
        """Give every size in ``sizes`` its number; returns the ones that nothing fixed."""
        assumed = set(self.assumed)
        span = self.question.script.statements[-1].span
        try:
            for size, least, multiple in (*self.enlarge_empty_sizes(sizes), *self.needs):
                free = sizes.find(size)
                if free.is_Symbol and sizes.number(free) is None:
                    if sizes.assume(free, least, multiple) > LARGEST_GUESS:
                        raise ShapeError("this needs tensors whose shapes are given", span=span)
                    assumed.add(free)
            assumed |= set(sizes.settle())
        except SizeMismatch as error:
            raise ShapeError(
                f"no sizes were found that fit: {error.first} and {error.second} would have to be equal",
                span=span,
                hints=("give the tensors shapes",),
            ) from None
        return {symbol for size in assumed for symbol in sizes.symbols(size)}

    def enlarge_empty_sizes(self, sizes: Sizes) -> list[tuple[Size, int, int]]:
        """What open sizes have to be at least for every tensor to have entries, and every entry to be inside.

        ``out[i] = Σ_j x[i + j]·w[j]`` would have none with an x of 2 and a w of 3, and ``out[i<2] = Σ_j x[j,2·i+j]``
        read beside an x of 2×3.
        """
        more: list[tuple[Size, int, int]] = []
        for _ in range(ROUNDS):
            trial = sizes.copy()
            try:
                for size, least, multiple in (*more, *self.needs):
                    if trial.find(size).is_Symbol and trial.number(size) is None:
                        trial.assume(trial.find(size), least, multiple)
                trial.settle()
            except SizeMismatch:
                return more
            short = [(size, 1, 2) for step in self.builder.steps for size in step.result.shape if size.free_symbols]
            short += [(gap, 0, 0) for gap in sizes.required()]
            grown: tuple[Size, int, int] | None = None
            for size, least_of_it, better in short:
                found, count = sizes.find(size), trial.number(size)
                if count is None or count >= least_of_it:
                    continue
                values = {s: trial.number(s) or 0 for s in found.free_symbols}
                for symbol in sorted((s for s in values if sizes.number(s) is None), key=str):
                    enough = range(values[symbol] + 1, values[symbol] + FARTHEST)
                    fits = (n for n in enough if found.xreplace({**values, symbol: sp.Integer(n)}) >= better)
                    larger = next(fits, None)
                    if larger is not None:
                        parts = [multiple for need, _, multiple in self.needs if sizes.find(need) == symbol]
                        grown = symbol, larger, lcm(*parts)
                        break
                if grown is not None:
                    break
            if grown is None:
                return more
            more = [*(need for need in more if need[0] != grown[0]), grown]
        return more

    def settled(self, size: Size) -> int:
        """The number of a settled size."""
        found = self.sizes.number(size)
        if found is None or found < 0:
            raise ShapeError(f"no size was found for {size}", hints=("give the tensors shapes",))
        return found

    def program(self, values: Mapping[Size, int]) -> Program:
        """The program, its sizes lettered m, n, h, … by order of appearance in the inputs.

        A letter that names a tensor is left out.
        """
        builder = self.builder
        own = {name: made.shape for name, (_, made) in builder.made.items()}
        inputs = {name: self.sizes.shape(shape) for name, shape in {**self.shapes, **own}.items()}
        symbols = {s: None for shape in inputs.values() for size in shape for s in sorted(size.free_symbols, key=str)}
        free = (letter for letter in map(size_symbol, count()) if letter.name not in builder.used)
        letters = dict(zip(symbols, free, strict=False))
        program = Program(
            tuple(Tensor(n, tuple(size.xreplace(letters) for size in shape)) for n, shape in inputs.items()),
            builder.settled(letters),
            self.output.name,
            {letters[size]: number for size, number in values.items() if size in letters},
            required=tuple(size.xreplace(letters) for size in self.sizes.required()),
            made={name: own for name, (own, _) in builder.made.items() if name not in builder.leaves},
            positions=tuple(builder.positions),
        )
        for step in program.steps if values else ():
            check_step_constants(step, program.sizes)
        return program

    def literal_values(self) -> dict[str, Array]:
        """The numbers of what the text makes itself, once every size has its number."""
        return {name: self.fill(own, made) for name, (own, made) in self.builder.made.items()}

    def seed_value(self) -> tuple[str, Array] | None:
        """What the text gives to backward: as it is written, and its numbers."""
        if self.seed is None:
            return None
        own, made = self.seed
        return own.code, self.fill(own, made)

    def fill(self, own: Own, made: LiteralTensor) -> Array:
        """The numbers of a tensor of the text's own."""

        def plain(value: Any) -> Any:
            if not isinstance(value, sp.Expr):
                return value
            return simplify_number(fill_sizes(self.sizes.find(value), self.sizes.values()))

        shape = tuple(self.settled(size) for size in made.shape)
        if prod(shape) > MOST:
            raise too_large_error(shape, own.code)
        return round_to_dtype(made.kind, made.held, made.fill(shape, plain, np.random.default_rng(own.seed)), own.code)


def elaborate_program(question: ReadingRequest, wanted: Mapping[str, Wanted], extra: int = 0) -> Attempt:
    """The program under the shapes ``wanted``; raises the error of the first thing that does not fit.

    ``extra`` enlarges the sizes that have to be assumed on the way.
    """
    sizes, letters = Sizes(), dict[str, Size]()
    shapes = {name: initial_shape(sizes, wanted[name], letters) for name in question.names.inputs}
    builder = StepBuilder(sizes, shapes, {*question.names.assigned, question.output})
    environment: dict[str, Meaning] = {name: question.input(name, shape) for name, shape in shapes.items()}
    counts = {name: sizes.fresh() if value is None else value for name, value in question.numbers.items()}
    environment |= counts
    elaborator = StatementReader(question.script.source.text, builder, environment, question.symbolic, extra)
    output = elaborator.run(question.script, question.output)
    builder.forget_counts(output.name)
    if elaborator.seed is not None:
        unify_seed_shape(sizes, output.shape, elaborator.seed[1].shape, question.script)
    extents = elaborator.extents
    needs = [*((s, least, 1) for s, least in extents.needs), *find_multiples(sizes.parts())]
    needs += find_least_sizes(sizes.required())
    return Attempt(
        question,
        sizes,
        shapes,
        builder,
        output,
        tuple(extents.assumed),
        merge_size_demands(sizes, needs),
        counts,
        elaborator.seed,
    )


def find_least_sizes(required: Iterable[Size]) -> Iterator[tuple[Size, int, int]]:
    """How large a size has to be for what is ``required`` of it alone, where the smallest one assumed would not do."""
    for gap in required:
        symbol = next(iter(gap.free_symbols), None)
        if symbol is not None and len(gap.free_symbols) == 1 and gap.is_polynomial() and sp.degree(gap) == 1:
            slope, rest = gap.coeff(symbol, 1), gap.coeff(symbol, 0)
            if slope.is_positive and -rest / slope > 2:
                yield symbol, int(sp.ceiling(-rest / slope)), 1


def find_multiples(parts: Iterable[Size]) -> Iterator[tuple[Size, int, int]]:
    """What the open sizes in ``parts``, which are whole numbers, are multiples of."""
    for size, part in map(sp.fraction, map(sp.together, parts)):
        if size.free_symbols and part.is_Integer and part > 1:
            yield min(size.free_symbols, key=str), 2, int(part)


def merge_size_demands(sizes: Sizes, needs: Sequence[tuple[Size, int, int]]) -> tuple[tuple[Size, int, int], ...]:
    """One demand per size: the largest least number, the least common multiple."""
    found: dict[Size, tuple[int, int]] = {}
    for size, least, multiple in needs:
        before = found.get(sizes.find(size), (2, 1))
        found[sizes.find(size)] = (max(least, before[0]), lcm(multiple, before[1]))
    return tuple((size, least, multiple) for size, (least, multiple) in found.items())


def unify_seed_shape(sizes: Sizes, out: Shape, seed: Shape, script: Script) -> None:
    """What the text gives to backward has the shape of the output."""
    if not unify_shapes(sizes, out, seed):
        span = None if script.seed is None else script.seed.span
        apart = format_sizes(seed, sizes), "out", format_sizes(out, sizes)
        raise seed_shape_error(*apart, "torch.ones_like(out)", span=span)


def check_step_constants(step: Apply, values: Mapping[Size, int]) -> None:
    """A constant made of sizes has to be a finite real number once the sizes have numbers."""
    for argument in step.arguments:
        if isinstance(argument, Constant) and isinstance(argument.value, sp.Expr):
            place_errors(step.span, partial(simplify_number, fill_sizes(argument.value, values)))
