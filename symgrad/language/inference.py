"""Text to Program: `read_program`, which the rest of symgrad calls.

What the text and the given shapes leave open is inferred. Numbers of axes are tried in order of likeliness until the
whole program fits. Sizes follow from unification with each other and with the shape of the output; sizes that nothing
fixes become 2, 3, 4, … in order of appearance. `ParsedProgram` says what was assumed, and `find_broadcast_losses` which
losses broadcast their predictions or targets.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import SupportsIndex

from symgrad.errors import NotationError, SourceText, SymgradError, UnknownNameError, bug
from symgrad.language.arguments import Array
from symgrad.language.attempt import Attempt, ReadingRequest, Wanted, elaborate_program, parse_shapes
from symgrad.language.input_names import (
    LIBRARIES,
    NUMBERS,
    Candidates,
    TextNames,
    candidate_ranks,
    find_names,
    unknown_tensor_error,
)
from symgrad.language.pasted_script import parse_pasted_script
from symgrad.language.sizes import find_number_names
from symgrad.language.syntax_tree import Script
from symgrad.notation.tree import walk
from symgrad.ops.calls.call_texts import sign_of
from symgrad.ops.lookup import has_role
from symgrad.program import Apply, Number, Program, Role, free_name

ATTEMPTS = 300
WORK = 5_000
"""Assignments of ranks to try, and nodes to elaborate in trying: nonsense may not take long."""


@dataclass(frozen=True)
class ParsedProgram:
    """A program, and what was assumed in reading it.

    ``assumed_sizes`` are (input, axis, number) for every axis whose size nothing fixed; ``assumed_ranks`` are
    (input, rank) for every input that could have had another number of axes. ``made`` are the numbers of what the text
    makes itself, ``remarks`` sentences about what it says. ``seed`` is what it gives to backward, as it is written;
    ``numbers`` are the names that stand for one, ``draws`` the random numbers in the order in which they are drawn.
    ``rounded`` are its casts to fewer digits, as they are written, ``conventions`` say how complex inputs are shown.
    """

    source: SourceText
    program: Program
    assumed_sizes: tuple[tuple[str, int, int], ...] = ()
    assumed_ranks: tuple[tuple[str, int], ...] = ()
    made: Mapping[str, Array] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    seed: tuple[str, Array] | None = None
    numbers: Mapping[str, Number] = field(default_factory=dict)
    draws: tuple[Array, ...] = ()
    rounded: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()


LARGER = 20
"""How much larger than necessary an assumed size is tried, to meet the output's shape."""
OUTPUTS = ("out", "y", "result")
LOSSES = ("L", "loss", "total")
"""What an output is called, and a number that is computed from it: the first that nothing else is called."""


def read_program(
    text: str | SourceText,
    *,
    shapes: Mapping[str, Sequence[SupportsIndex | str]] | None = None,
    out_shape: Sequence[int] | None = None,
    symbolic: bool = False,
    output: Sequence[str] = OUTPUTS,
    spoken: Collection[str] = (),
    truths: Collection[str] = (),
    scalars: Mapping[str, Number] | None = None,
    pairs: Collection[str] = (),
) -> ParsedProgram:
    """The program that ``text`` spells.

    ``shapes`` are known shapes of inputs, where a string is a size to be inferred (the same letter is the
    same size). ``out_shape`` is the shape the output should have, if that can be: where it cannot, the
    program is read without it and has another shape. ``symbolic`` gives no size a number. ``output``
    is what the output may be called, the first that no input is and, if possible, nothing that is assigned on the
    way; ``spoken`` are names of something else that neither the output nor the seed can have. ``truths`` are inputs
    that hold truth values, ``pairs`` complex ones, whose last axis is (re, im), ``scalars`` the values of single
    numbers: where only a number can stand (``x.reshape(n, 3)``) a name is that number, or a size that is inferred, and
    no input.

    Raises `SymgradError` of the kinds syntax, name, shape, value, domain or unsupported, with a span.

    >>> reading = read_program("x@a", out_shape=(2, 4))
    >>> [reading.program.numbers(t.shape) for t in reading.program.inputs], reading.assumed_sizes
    ([(2, 3), (3, 4)], (('x', 1, 3), ('a', 0, 3)))
    """
    source = text if isinstance(text, SourceText) else SourceText(text)
    try:
        script = parse_pasted_script(source)
        names, numbers = separate_numbers(
            script, find_names(script, {*(shapes or ()), *(scalars or ())}), scalars or {}
        )
        wanted = {name: shape for name, shape in parse_shapes(shapes or {}).items() if name not in numbers}
        for name in wanted:
            if name not in names.inputs:
                raise unknown_tensor_error(name, names.inputs)
        called = choose_output_name(output, script, names, frozenset(spoken))
        asked = ReadingRequest(script, names, called, symbolic, frozenset(truths), numbers, frozenset(pairs))
        found = RankSearch(asked, wanted, out_shape).read()
        found = replace(found, conventions=complex_notes(pairs)) if pairs else found
        return replace(found, program=replace(found.program, spoken=frozenset(spoken))) if spoken else found
    except SymgradError as error:
        source.locate(error)
        raise


def find_inputs(text: str, given: Collection[str] = ()) -> frozenset[str]:
    """The inputs of ``text``, parsed once; raises `SymgradError` where it does not parse."""
    return _inputs_of(text, frozenset((*NUMBERS, *LIBRARIES)).intersection(given))


@lru_cache(maxsize=256)
def _inputs_of(text: str, given: frozenset[str]) -> frozenset[str]:
    source = SourceText(text)
    try:
        return frozenset(find_names(parse_pasted_script(source), given).inputs)
    except SymgradError as error:
        source.locate(error)
        raise


def separate_numbers(
    script: Script, names: TextNames, scalars: Mapping[str, Number]
) -> tuple[TextNames, dict[str, Number | None]]:
    """The names that are inputs, and those that are numbers, with None for a size that is to be inferred."""
    places = find_number_names(script)
    numbers = {n: scalars.get(n) for n in names.inputs if (n in scalars and n in places) or places.get(n, False)}
    return replace(names, inputs={n: span for n, span in names.inputs.items() if n not in numbers}), numbers


def choose_output_name(wishes: Sequence[str], script: Script, names: TextNames, spoken: frozenset[str]) -> str:
    """What the output is called: as the text calls it where it asks for backward, else as wished.

    One that has to share its name with what is assigned on the way keeps it.
    """
    on_the_way = {name for statement in script.statements[:-1] for name in statement.names}
    named = (script.asked, *wishes) if script.asked and wishes is OUTPUTS else wishes
    name = free_name(named, {*names.inputs, *on_the_way} | spoken)
    return name if name in named else free_name(wishes, {*names.inputs} | spoken)


def describe_numbers(numbers: Mapping[str, Number | None]) -> Iterator[str]:
    """What is said of names that stand for numbers."""
    told = [f"{name} is {number}" for name, number in numbers.items()]
    if told:
        what = "a number, not a tensor: it has" if len(told) == 1 else "numbers, not tensors: they have"
        yield f"{', '.join(told)}, {what} no gradient"


class RankSearch:
    """The assignments of ranks to inputs, tried in order of likeliness within a budget of work."""

    def __init__(
        self, question: ReadingRequest, wanted: Mapping[str, Wanted], out_shape: Sequence[int] | None = None
    ) -> None:
        self.question = question
        self.wanted = wanted
        self.out_shape = out_shape
        hints = candidate_ranks(question.script, question.names)
        self.candidates = {name: ranks for name, ranks in hints.items() if name not in wanted}
        self.cost = sum(1 for statement in question.script.statements for _ in walk(statement))
        self.work = 0

    def read(self) -> ParsedProgram:
        """The first assignment that fits everything; else the first that fits all but the output's shape.

        One in which a loss has to broadcast its targets is taken where no other fits.

        Raises the error of the likeliest assignment when none fits.
        """
        complaint: SymgradError | None = None
        fitting: dict[str, int] | None = None
        unlikely: ParsedProgram | None = None
        for ranks in islice(rank_assignments(self.candidates), ATTEMPTS):
            if (complaint is not None or unlikely is not None) and self.work > WORK:
                break
            try:
                attempt = self.attempt(ranks)
                fitting = fitting or ranks
                found = self.reading(self.fitted(attempt, ranks), ranks)
                if not any(find_broadcast_losses(found.program.steps)):  # torch warns of it
                    return found
                unlikely = unlikely or found
            except (NotationError, UnknownNameError):
                raise
            except SymgradError as error:
                complaint = complaint or error
        if unlikely is not None:
            return unlikely
        if fitting is not None and self.out_shape is not None:
            return RankSearch(self.question, self.wanted).reading(self.attempt(fitting), fitting)
        if complaint is None:
            raise bug("no assignment of ranks was tried")
        raise complaint

    def shapes(self, ranks: Mapping[str, int]) -> dict[str, Wanted]:
        """The shapes as far as they are known under an assignment of ranks."""
        return {**{name: (None,) * rank for name, rank in ranks.items()}, **self.wanted}

    def attempt(self, ranks: Mapping[str, int], extra: int = 0) -> Attempt:
        """The program under one assignment of ranks."""
        self.work += self.cost
        return elaborate_program(self.question, self.shapes(ranks), extra)

    def fitted(self, attempt: Attempt, ranks: Mapping[str, int]) -> Attempt:
        """``attempt`` with the wanted output, if need be with larger sizes where some had to be assumed."""
        if self.out_shape is None:
            return attempt
        for extra in range(1, LARGER + 1):
            try:
                attempt.unify_output(self.out_shape)
                return attempt
            except SymgradError:
                if not attempt.assumed or self.work > WORK or extra == LARGER:
                    raise
            attempt = self.attempt(ranks, extra)
        raise bug("a fit was neither found nor refused")

    def reading(self, attempt: Attempt, ranks: Mapping[str, int]) -> ParsedProgram:
        """Numbers for what is still open, and the program read once more with them."""
        source = self.question.script.source
        if self.question.symbolic:
            attempt.assign_open_sizes(attempt.sizes.copy())
            return ParsedProgram(source, attempt.program({}), rounded=tuple(attempt.builder.rounded))
        wanted, sizes = self.shapes(ranks), attempt.sizes
        assumed = attempt.assign_open_sizes(sizes)
        found = {name: tuple(map(attempt.settled, shape)) for name, shape in attempt.shapes.items()}
        final = attempt
        if any(not isinstance(size, int) for shape in wanted.values() for size in shape):
            final = elaborate_program(replace(self.question, numbers=attempt.counted()), found)
            final.assign_open_sizes(final.sizes)
        made = final.literal_values()
        drawn = {own.seed: made[name] for name, (own, _) in final.builder.made.items() if own.seed is not None}
        return ParsedProgram(
            source,
            final.program(final.sizes.values()),
            tuple(
                (name, axis, found[name][axis])
                for name, shape in attempt.shapes.items()
                for axis, size in enumerate(shape)
                if sizes.symbols(size) & assumed and not isinstance(wanted[name][axis], int)
            ),
            tuple((name, ranks[name]) for name in self.candidates if self.another_fits(name, ranks)),
            made,
            (*final.builder.remarks, *describe_numbers(final.counted())),
            final.seed_value(),
            {name: value for name, value in final.counted().items() if value is not None},
            tuple(drawn[seed] for seed in sorted(drawn)),
            tuple(final.builder.rounded),
        )

    def another_fits(self, name: str, ranks: Mapping[str, int]) -> bool:
        """Whether the input could have had another number of axes, so that its rank is an assumption."""
        for rank, _ in self.candidates[name]:
            if rank == ranks[name]:
                continue
            if self.work > WORK:
                return True
            try:
                other = {**ranks, name: rank}
                self.fitted(self.attempt(other), other)
            except SymgradError:
                continue
            return True
        return False


def rank_assignments(candidates: Mapping[str, Candidates]) -> Iterator[dict[str, int]]:
    """Every choice of one candidate per name, by total unlikeliness; at a tie the first names give way first.

    >>> [list(a.values()) for a in rank_assignments({"x": ((2, 0), (1, 3)), "a": ((2, 0), (1, 2))})]
    [[2, 2], [2, 1], [1, 2], [1, 1]]
    """
    names = list(candidates)
    # Places count downwards from 0, so that among equals the heap gives the one where the first names moved.
    start = (0,) * len(names)
    waiting = [(sum(c[0][1] for c in candidates.values()), start, 0)]
    while waiting:
        cost, choice, first = heapq.heappop(waiting)
        yield {name: candidates[name][-place][0] for name, place in zip(names, choice, strict=True)}
        for position in range(first, len(names)):
            options = candidates[names[position]]
            place = -choice[position]
            if place + 1 < len(options):
                step = options[place + 1][1] - options[place][1]
                further = (*choice[:position], -place - 1, *choice[position + 1 :])
                heapq.heappush(waiting, (cost + step, further, position))


def find_broadcast_losses(steps: Sequence[Apply], differences: bool = False) -> Iterator[tuple[Apply, str, str]]:
    """Each loss one side of which is broadcast to the other, or both to a third shape; predictions, then targets.

    With ``differences`` those that are written out, too.
    """
    made = {step.result.name: step for step in steps}

    def before(name: str) -> str:
        step = made.get(name)
        return before(str(step.arguments[0])) if step is not None and has_role(step.op, Role.COPIES) else name

    for step in steps:
        written = differences and sign_of(step.op) == "-"
        if ("reduction" in dict(step.options) or written) and len(step.tensors) > 1:
            sides = step.tensors[:2]
            first, second = map(before, sides)
            if (first, second) != sides:
                yield step, first, second


PAIRS = "Complex tensors are shown as pairs (re, im), on one more axis of size 2"


def complex_notes(names: Collection[str]) -> tuple[str, ...]:
    """What is said of the complex tensors called ``names``, wherever their gradients are shown; nothing of none."""
    told = (
        f"{', '.join(sorted(names))} {'is' if len(names) == 1 else 'are'} complex, shown as pairs (re, im): "
        "torch's .grad is ∂L/∂re + i·∂L/∂im, which is 2·∂L/∂z̄, twice the conjugate of the Wirtinger derivative "
        "∂L/∂z of a real L"
    )
    return (told,) if names else ()
