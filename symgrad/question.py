"""Read a user's question: the program of a text, and a value for each of its inputs.

Comes in: a text, values, shapes. Goes out: a `ParsedQuestion`. The same text with the same shapes is read once.
"""

from __future__ import annotations

import ast
import importlib.util
import math
import textwrap
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from threading import RLock
from typing import Any, ParamSpec, TypeVar

import numpy as np

from symgrad.errors import (
    RUN,
    Hint,
    InputError,
    Setting,
    ShapeError,
    SourceText,
    SymgradError,
    UnknownNameError,
    UnsupportedError,
)
from symgrad.explanation import Given
from symgrad.explanation.formulas import Shapes
from symgrad.explanation.given import default_wrt, only_read
from symgrad.language import (
    OUTPUTS,
    ParsedProgram,
    Value,
    arguments,
    find_inputs,
    parse_value,
    read_program,
)
from symgrad.language.input_names import unknown_tensor_error
from symgrad.language.pasted_script import strip_console_prompts
from symgrad.numeric import Array, Values, where_exact
from symgrad.numeric.arranged import arranged
from symgrad.numeric.forward_pass import Later, check_program
from symgrad.oracles.comparisons import Text
from symgrad.program import Program
from symgrad.shapes import fill_sizes

P = ParamSpec("P")
R = TypeVar("R")
KEPT = 256
"""The most parsed programs to cache."""
OTHERS = ((-2.5, 3.1), (2.5, -3.1))
"""Ranges of the inputs in further runs of a text that must compute the same program for all numbers."""
_READINGS: OrderedDict[str, ParsedProgram] = OrderedDict()
_ONE_TEXT = RLock()


@dataclass(frozen=True)
class ParsedQuestion:
    """A parsed program, and the values and shapes given for it."""

    reading: ParsedProgram
    given: Mapping[str, Value]
    shapes: Shapes

    @property
    def program(self) -> Program:
        """The program."""
        return self.reading.program

    @property
    def inputs(self) -> tuple[Given, ...]:
        """The inputs with their values, given or assumed."""
        return given_values(self.program, self.given, self.shapes, self.reading.made)

    @property
    def values(self) -> Values:
        """The value of every tensor, computed at the first access."""
        return Values(Later(self.program, lambda: {g.name: g.value for g in self.inputs}), self.program.sizes)


def synchronized(function: Callable[P, R]) -> Callable[P, R]:
    """Return ``function`` with a lock, so that only one thread calls it at a time.

    Recording a text changes warning filters and torch modes, which all threads share. And `ast.parse` of Python 3.11
    sometimes fails when two threads parse at once (SystemError, "recursion depth mismatch").
    """

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with _ONE_TEXT:
            return function(*args, **kwargs)

    return alone


def ask(expression: str, values: Mapping[str, Any], shapes: Shapes | None) -> ParsedQuestion:
    """Parse ``expression`` with the values and shapes given for it; raise `SymgradError`."""
    expression, shapes = arguments.require_text(expression, "the expression"), arguments.require_shapes(shapes)
    given = given_by_name(arguments.require_values(values), text_inputs(expression, {*values, *shapes}))
    reading = read_once(expression, known_shapes(given, shapes), None, OUTPUTS, (), given)
    return ParsedQuestion(reading, given, shapes)


def hint_as_value(hint: Hint, given: Mapping[str, Value]) -> Hint:
    """Return a hint that sets a shape as a hint that sets a value, if a value, which fixes the shape, was given."""
    if not isinstance(hint, Setting) or hint.what != "shape" or hint.name not in given:
        return hint
    return hint if given[hint.name].shape is None else replace(hint, what="let", value=f"randn({hint.value})")


def refuse_too_many_entries(reading: ParsedProgram, program: Program, most: int) -> None:
    """Raise an error, placed in the text, if a tensor has more than ``most`` entries."""
    try:
        check_program(program, most)
    except InputError as error:
        raise reading.source.locate(error) from None


@synchronized
def read_once(
    expression: str, shapes: Mapping[str, Sequence[int | str]], out_shape: Sequence[int] | None,
    output: Sequence[str], spoken: Collection[str], given: Mapping[str, Value], wrt: Sequence[str] | None = None,
) -> ParsedProgram:  # fmt: skip
    """Return `read_program`, cached; a text that it cannot read is run and recorded, with leaves ``wrt``.

    Errors are not cached.
    """
    (truths, pairs), scalars = masks_and_pairs(given), scalars_of(given)
    known = (sorted(shapes.items()), out_shape, sorted(truths), sorted(pairs), sorted(scalars.items()))
    key = repr((expression, known, output, sorted(spoken)))
    found = _READINGS.get(key)
    if found is None:
        try:
            found = read_program(
                expression, shapes=shapes, out_shape=out_shape, truths=truths, output=output, spoken=spoken,
                scalars=scalars, pairs=pairs,
            )  # fmt: skip
        except SymgradError as error:
            error.hints = tuple(hint_as_value(hint, given) for hint in error.hints)
            if not can_be_walked(error, expression):
                raise
            return walk_instead(error, SourceText(typed_lines(expression)), shapes, given, output, wrt)
        refuse_open_sizes(expression, found.program)
        _READINGS[key] = found
        if len(_READINGS) > KEPT:
            _READINGS.popitem(last=False)
    else:
        _READINGS.move_to_end(key)
    return found


def can_be_walked(error: SymgradError, text: str) -> bool:
    """Whether a text that cannot be read may be run and recorded: it is Python, and torch is installed."""
    if isinstance(error, UnknownNameError) or RUN not in error.hints or importlib.util.find_spec("torch") is None:
        return False
    try:
        return bool(ast.parse(typed_lines(text)).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def typed_lines(text: str) -> str:
    """Return the typed text without console prompts and without indentation."""
    return textwrap.dedent(strip_console_prompts(text)).strip()


@synchronized
def read_text(text: str, shapes: Shapes | None, symbolic: bool = False) -> ParsedProgram:
    """Return `read_program`, or, with a remark, the program recorded by running the text.

    Raise `UnsupportedError` if the recorded program depends on the values of the inputs.
    """
    text = arguments.require_text(text, "the expression")
    try:
        return replace(read_program(text, shapes=shapes, symbolic=symbolic), remarks=())
    except SymgradError as error:
        if not can_be_walked(error, text):
            raise
        source, sizes = SourceText(typed_lines(text)), dict(shapes or {})
        found = walk_instead(error, source, sizes, {}, OUTPUTS)
        inputs = {t.name: found.program.numbers(t.shape) for t in found.program.inputs if t.name not in found.made}
        for ends in OTHERS:
            other = {n: Value.of(n, np.linspace(*ends, math.prod(s)).reshape(s)) for n, s in inputs.items()}
            if not is_same_walk(found, walk_instead(error, source, {**sizes, **inputs}, other, OUTPUTS)):
                problem = "what these lines compute depends on the numbers"
                hints = ("explain them with values", "torch.where(mask, a, h) has a meaning for all")
                raise UnsupportedError(problem, hints=hints) from error
        return found


def is_same_walk(one: ParsedProgram, other: ParsedProgram) -> bool:
    """Whether two runs recorded the same program; tensors that the text names may have other values."""
    unnamed = (name for name, made in one.program.made.items() if made.code == name)
    same = one.program == other.program and one.program.made == other.program.made
    return same and all(np.array_equal(one.made[name], other.made[name]) for name in unnamed)


@synchronized
def text_inputs(expression: str, named: Collection[str]) -> frozenset[str]:
    """Return the inputs of a text; names in ``named`` may be inputs of a text that must be run to be read."""
    try:
        return find_inputs(expression, named)
    except SymgradError as error:
        if not can_be_walked(error, expression):
            raise
        from symgrad.tracing.captured.walked_text import free_names  # which needs torch

        return frozenset(free_names(expression, named))


def walk_instead(
    error: SymgradError, source: SourceText, shapes: Mapping[str, Sequence[int | str]], given: Mapping[str, Value],
    output: Sequence[str], wrt: Sequence[str] | None = None,
) -> ParsedProgram:  # fmt: skip
    """Run and record a text that cannot be read for every size; raise ``error`` if it cannot be run either.

    Inputs without a value are small numbers at first, then the values assumed for the recorded program.
    """
    from symgrad.reference import TextRejected, UnsupportedText
    from symgrad.tracing.captured.walked_text import WalkedText, free_names

    numbers = {name: number for name, number in scalars_of(given).items() if isinstance(number, int)}
    names = [name for name in free_names(source.text, {*shapes, *given}) if name not in numbers]
    truths, pairs = masks_and_pairs(given)
    text = WalkedText(source, numbers, truths, pairs, tuple(output), None if wrt is None else frozenset(wrt))
    try:
        sizes = text.choose_sizes({name: shapes.get(name) for name in names})
        known = {name: given[name].array(sizes[name], name) for name in names if name in given}
        found = text.read(sizes, known)
        if len(known) < len(names):
            assumed = {g.name: g.value for g in given_values(found.program, given, sizes, found.made)}
            found = text.read(sizes, {name: assumed[name] for name in names if name in assumed})
    except UnsupportedText as unread:
        error.found = (*error.found, str(unread))
        raise error from unread
    except TextRejected as refused:
        hints = ("h = x.clone(), and lines that overwrite h",) if "leaf" in str(refused) else ()
        raise InputError("Python cannot run these lines", found=(str(refused),), hints=hints) from refused
    lettered = [(name, axis) for name in names for axis in range(len(sizes[name]))
                if name not in shapes or isinstance(shapes[name][axis], str)]  # fmt: skip
    return replace(found, assumed_sizes=tuple((name, axis, sizes[name][axis]) for name, axis in lettered))


def refuse_open_sizes(text: str, program: Program) -> None:
    """Raise an error if the program has a named size without a value."""
    open_ones = {s for t in program.tensors() for s in t.shape if not fill_sizes(s, program.sizes).is_Integer}
    if open_ones:
        names = sorted(find_inputs(text) - {tensor.name for tensor in program.inputs})
        raise InputError(
            f"{' and '.join(names)} {'is a size' if len(names) == 1 else 'are sizes'}, without a value",
            hints=tuple(Setting("let", name, "2") for name in names),
        )


def torch_expression(typed: str, reading: ParsedProgram, given: Mapping[str, Value]) -> Text:
    """Return the text, as it was ``typed``, that torch evaluates for the comparison."""
    truths, pairs = masks_and_pairs(given)
    made, fixed = frozenset(reading.made), frozenset(only_read(reading.program))
    return Text(typed, reading.numbers, reading.draws, made, truths, fixed, pairs)


def known_shapes(given: Mapping[str, Value], shapes: Shapes) -> dict[str, Sequence[int | str]]:
    """Return the shapes of values and the given shapes; raise `ShapeError` if they contradict."""
    known: dict[str, Sequence[int | str]] = {name: tuple(shape) for name, shape in shapes.items()}
    for name, value in given.items():
        if value.shape is None:
            continue
        shape = known.get(name)
        if shape is not None and (len(shape) != len(value.shape) or any(
            isinstance(s, int) and s != n for s, n in zip(shape, value.shape, strict=True)
        )):  # fmt: skip
            raise ShapeError(
                f"the value of {name} does not have the shape that was given for it",
                found=(f"value {'×'.join(map(str, value.shape))}, shape {'×'.join(map(str, shape))}",),
            )
        known[name] = value.shape
    return known


def scalars_of(given: Mapping[str, Value]) -> dict[str, Any]:
    """Return the scalars among the values."""
    return {name: value.array(()).item() for name, value in given.items() if value.shape == ()}


def masks_and_pairs(given: Mapping[str, Value]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the boolean inputs and of the complex inputs."""
    truths = frozenset(name for name, value in given.items() if value.truths)
    return truths, frozenset(name for name, value in given.items() if value.pairs)


def given_values(
    program: Program, given: Mapping[str, Value], shapes: Shapes, made: Mapping[str, Array]
) -> tuple[Given, ...]:
    """Return every input with its value: given, created by the text, or assumed."""
    known, missing = {name: where_exact(array).copy() for name, array in made.items()}, dict[str, tuple[int, ...]]()
    for tensor in program.inputs:
        shape = program.numbers(tensor.shape)
        if tensor.name in given and tensor.name not in made:
            known[tensor.name] = given[tensor.name].array(shape, tensor.name)
        elif tensor.name not in made:
            missing[tensor.name] = shape
    shaped = {*made, *shapes, *(name for name, value in given.items() if value.shape is not None)}
    values = {name: (array, "") for name, array in known.items()} | arranged(
        program, known, missing, only_read(program) if missing else ()
    )
    names = [tensor.name for tensor in program.inputs]
    return tuple(Given(n, values[n][0], n not in missing, n in shaped, values[n][1]) for n in names)


def choose_wrt(wrt: Sequence[str] | None, program: Program) -> tuple[str, ...]:
    """Return the inputs to differentiate with respect to; raise `UnknownNameError` for other names in ``wrt``."""
    if wrt is None:
        return default_wrt(program)
    names = tuple(tensor.name for tensor in program.inputs if tensor.name not in program.made)
    for name in wrt:
        if name not in names:
            raise UnknownNameError(
                f"there is no input {name!r} to differentiate with respect to", found=(f"inputs: {', '.join(names)}",)
            )
    return tuple(dict.fromkeys(wrt))


def given_by_name(values: Mapping[str, Any], inputs: Collection[str]) -> dict[str, Value]:
    """Parse the values by name; raise `UnknownNameError` for a name that is not an input."""
    for name in values:
        if name not in inputs:
            raise unknown_tensor_error(name, sorted(inputs))
    return {name: parse_given_value(value, name) for name, value in values.items()}


def parse_given_value(value: Any, name: str) -> Value:
    """Return the value of an array, or of a literal such as ``ones`` or ``onehot(0,1)``."""
    if isinstance(value, Value):
        return value
    if isinstance(value, str):
        return parse_value(value)
    return Value.of(name, value)
