"""Text → Program: the one function that the rest of symgrad calls.

What the text and the given shapes leave open is inferred: ranks are tried in order of likeliness until the
whole program fits, sizes follow from unification with each other and with the output's shape, and sizes that
nothing fixes become 2, 3, 4, … by order of appearance. `Reading` says what was assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.errors import InputError, NotationError, ShapeError, SymgradError, UnknownNameError, bug
from symgrad.language.builder import Builder
from symgrad.language.calls import Ref
from symgrad.language.constants import tidy
from symgrad.language.elaborate import Elaborator
from symgrad.language.names import Candidates, Names, candidate_ranks, names_of, unknown_tensor
from symgrad.language.nodes import Script
from symgrad.language.ranks import assignments
from symgrad.language.syntax import parse
from symgrad.program import Apply, Constant, Program, Tensor
from symgrad.shapes import Shape, Size, SizeMismatch, Sizes, size_symbol, with_numbers
from symgrad.source import Source

Wanted = tuple[int | str | None, ...]
"""A shape as somebody gives it: a number, a letter (one size wherever it stands), or None for unknown."""

ATTEMPTS = 300
WORK = 2_000
"""Assignments of ranks to try, and steps to elaborate in trying: nonsense may not take long."""


@dataclass(frozen=True)
class Reading:
    """A program, and what was assumed in reading it.

    ``assumed_sizes`` are (input, axis, number) for every axis whose size nothing fixed; ``assumed_ranks`` are
    (input, rank) for every input that could have had another number of axes.
    """

    source: Source
    program: Program
    assumed_sizes: tuple[tuple[str, int, int], ...] = ()
    assumed_ranks: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Attempt:
    """One elaboration that went through."""

    sizes: Sizes
    shapes: Mapping[str, Shape]
    builder: Builder
    output: Ref
    assumed: tuple[Size, ...]
    needs: tuple[tuple[Size, int], ...]


RESERVED = ("v", "out")
"""The seed and the output: names that an input cannot have."""


def read(
    text: str | Source,
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    out_shape: Sequence[int] | None = None,
    symbolic: bool = False,
    reserved: Collection[str] = RESERVED,
) -> Reading:
    """The program that ``text`` spells.

    ``shapes`` are known shapes of inputs, where a string is a size to be inferred (the same letter is the
    same size). ``out_shape`` is the shape the output should have, if that can be: where it cannot, the
    program is read without it and has another shape. ``symbolic`` gives no size a number. ``reserved``
    are names that cannot be inputs; without ``out`` among them, ``out`` is an input like any other (for what
    happens downstream of it) and the output is called ``loss``.

    Raises `SymgradError` of the kinds syntax, name, shape, value, domain or unsupported, with a span.

    >>> reading = read("x@a", out_shape=(2, 4))
    >>> [reading.program.numbers(t.shape) for t in reading.program.inputs], reading.assumed_sizes
    ([(2, 3), (3, 4)], (('x', 1, 3), ('a', 0, 3)))
    """
    source = text if isinstance(text, Source) else Source(text)
    try:
        script = parse(source)
        names = names_of(script, reserved)
        wanted = {name: checked_shape(name, shape) for name, shape in (shapes or {}).items()}
        for name in wanted:
            if name not in names.inputs:
                raise unknown_tensor(name, names.inputs)
        if not names.inputs:
            raise NotationError(
                "there is no tensor in this", span=script.statements[-1].span, hints=("an expression such as x@a",)
            )
        output = free_name("out" if "out" in reserved else "loss", names)
        return Reader(script, names, wanted, out_shape, symbolic, output).read()
    except SymgradError as error:
        source.locate(error)
        raise


def free_name(word: str, names: Names) -> str:
    """``word``, or ``word_2`` … where an input has that name."""
    count, name = 1, word
    while name in names.inputs:
        count += 1
        name = f"{word}_{count}"
    return name


def checked_shape(name: str, shape: Sequence[int | str]) -> Wanted:
    """A given shape, refused where it is not made of sizes and letters."""
    for size in shape:
        if not isinstance(size, str) and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
            raise InputError(
                f"the shape of {name} is not made of sizes", found=(str(size),), hints=(f"--shape {name}=2,3",)
            )
    return tuple(size if isinstance(size, str) else int(size) for size in shape)


class Reader:
    """Finds the assignment of ranks and sizes under which a script fits."""

    def __init__(
        self,
        script: Script,
        names: Names,
        wanted: Mapping[str, Wanted],
        out_shape: Sequence[int] | None,
        symbolic: bool,
        output: str,
    ) -> None:
        self.script = script
        self.names = names
        self.wanted = wanted
        self.out_shape = out_shape
        self.symbolic = symbolic
        self.output = output
        self.work = 0

    def read(self) -> Reading:
        """The first assignment that fits everything; else the first that fits all but the output's shape."""
        candidates = {n: c for n, c in candidate_ranks(self.script, self.names).items() if n not in self.wanted}
        complaint: SymgradError | None = None
        without: dict[str, int] | None = None
        for count, ranks in enumerate(assignments(candidates)):
            if count >= ATTEMPTS or (count and self.work > WORK):
                break
            try:
                attempt = self.attempt(ranks)
            except (NotationError, UnknownNameError):
                raise
            except SymgradError as error:
                complaint = complaint or error
                continue
            try:
                if self.out_shape is not None:
                    without = ranks if without is None else without
                    self.fit_output(attempt)
                return self.reading(attempt, candidates, ranks)
            except SymgradError as error:
                complaint = complaint or error
        if without is not None:
            self.out_shape = None
            return self.reading(self.attempt(without), candidates, without)
        if complaint is None:
            raise bug("no assignment of ranks was tried")
        raise complaint

    def attempt(self, ranks: Mapping[str, int]) -> Attempt:
        """The program under one assignment of ranks; sizes are unknown where nothing gives them."""
        return self.elaborate({**{n: (None,) * rank for n, rank in ranks.items()}, **self.wanted})

    def elaborate(self, wanted: Mapping[str, Wanted], letters: Mapping[str, int] | None = None) -> Attempt:
        """The program under the shapes ``wanted``."""
        sizes = Sizes()
        same = {letter: sizes.given(number) for letter, number in (letters or {}).items()}
        shapes = {name: starting_shape(sizes, wanted[name], same) for name in self.names.inputs}
        builder = Builder(sizes, shapes, {*self.names.assigned, self.output})
        environment = {name: Ref(name, shape) for name, shape in shapes.items()}
        elaborator = Elaborator(self.script.source.text, builder, environment, self.symbolic)
        try:
            output = elaborator.run(self.script, self.output)
        finally:
            self.work += len(builder.steps) + 1
        return Attempt(sizes, shapes, builder, output, tuple(elaborator.assumed), tuple(elaborator.needs))

    def fit_output(self, attempt: Attempt) -> None:
        """Unify the output's shape with the wanted one; raises `ShapeError` where they differ."""
        shape, wanted = attempt.output.shape, tuple(self.out_shape or ())
        try:
            if len(shape) != len(wanted):
                raise ShapeError(f"the output has {len(shape)} axes, not {len(wanted)}")
            for size, number in zip(shape, wanted, strict=True):
                attempt.sizes.unify(size, attempt.sizes.given(number))
        except SizeMismatch:
            raise ShapeError("the output has another shape") from None

    # What is left open ------------------------------------------------------------------------------

    def reading(self, attempt: Attempt, candidates: Mapping[str, Candidates], ranks: Mapping[str, int]) -> Reading:
        """Numbers for what is still open, and the program read once more with them."""
        if self.symbolic:
            self.settle(attempt, attempt.sizes.copy())
            return Reading(self.script.source, self.program(attempt, {}))
        sizes = attempt.sizes
        assumed = self.settle(attempt, sizes)
        numbers = {name: tuple(self.number(sizes, s) for s in shape) for name, shape in attempt.shapes.items()}
        final = attempt
        if any(None in shape or any(isinstance(s, str) for s in shape) for shape in self.given(ranks).values()):
            final = self.elaborate(numbers)
            self.settle(final, final.sizes)
        program = self.program(final, final.sizes.values())
        return Reading(
            self.script.source,
            program,
            tuple(
                (name, axis, numbers[name][axis])
                for name, shape in attempt.shapes.items()
                for axis, size in enumerate(shape)
                if sizes.find(size).free_symbols & assumed and not isinstance(self.given(ranks)[name][axis], int)
            ),
            tuple((n, ranks[n]) for n in candidates if self.another_fits(n, candidates[n], ranks)),
        )

    def given(self, ranks: Mapping[str, int]) -> dict[str, Wanted]:
        """The shapes as far as they are given."""
        return {**{n: (None,) * rank for n, rank in ranks.items()}, **self.wanted}

    def settle(self, attempt: Attempt, sizes: Sizes) -> set[Size]:
        """Give every size its number; the ones that nothing fixed."""
        assumed = set(attempt.assumed)
        try:
            for size, least in attempt.needs:
                free = sizes.find(size)
                if free.is_Symbol and sizes.number(free) is None:
                    sizes.assume(free, least)
                    assumed.add(free)
            assumed |= set(sizes.settle())
        except SizeMismatch as error:
            raise ShapeError(
                f"no sizes were found that fit ({error.first} and {error.second} have to be equal)",
                span=self.script.statements[-1].span,
                hints=("give the tensors shapes",),
            ) from None
        return {sizes.find(symbol) for symbol in assumed}

    def number(self, sizes: Sizes, size: Size) -> int:
        """The number of a settled size."""
        number = sizes.number(size)
        if number is None or number < 0:
            raise ShapeError(f"no size was found for {size}", hints=("give the tensors shapes",))
        return number

    def another_fits(self, name: str, candidates: Candidates, ranks: Mapping[str, int]) -> bool:
        """Whether the input could have had another number of axes, so that its rank is an assumption."""
        for rank, _ in candidates:
            if rank == ranks[name]:
                continue
            if self.work > WORK:
                return True
            try:
                attempt = self.attempt({**ranks, name: rank})
                if self.out_shape is not None:
                    self.fit_output(attempt)
            except SymgradError:
                continue
            return True
        return False

    def program(self, attempt: Attempt, values: Mapping[Size, int]) -> Program:
        """The program of an attempt, its sizes lettered by order of appearance."""
        inputs = {name: attempt.sizes.shape(shape) for name, shape in attempt.shapes.items()}
        symbols = {symbol: None for shape in inputs.values() for size in shape for symbol in in_order(size)}
        letters = {symbol: size_symbol(place) for place, symbol in enumerate(symbols)}
        program = Program(
            tuple(Tensor(n, tuple(size.xreplace(letters) for size in shape)) for n, shape in inputs.items()),
            attempt.builder.settled(letters),
            attempt.output.name,
            {letters[size]: number for size, number in values.items() if size in letters},
        )
        for step in program.steps if values else ():
            check_constants(step, program.sizes)
        return program


def in_order(size: Size) -> list[Size]:
    """The symbols of a size, always in the same order."""
    return sorted(size.free_symbols, key=str)


def starting_shape(sizes: Sizes, wanted: Wanted, same: dict[str, Size]) -> Shape:
    """Sizes for a given shape: numbers as given, one new size per letter, a new one for every None."""
    shape = []
    for size in wanted:
        if isinstance(size, str) and size not in same:
            same[size] = sizes.fresh()
        if size is None:
            shape.append(sizes.fresh())
        else:
            shape.append(same[size] if isinstance(size, str) else sizes.given(size))
    return tuple(shape)


def check_constants(step: Apply, values: Mapping[Size, int]) -> None:
    """A constant made of sizes has to be a finite real number once the sizes have numbers."""
    for argument in step.arguments:
        if isinstance(argument, Constant) and isinstance(argument.value, sp.Expr):
            try:
                tidy(with_numbers(argument.value, values))
            except SymgradError as error:
                error.span = error.span or step.span
                raise
