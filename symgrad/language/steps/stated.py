"""An index equation among the statements of a text, applied as a step.

Comes in: the node and what its names stand for. Goes out: the step's result. Names for whole numbers are put into the
equation as the numbers that they are, so that the operation is its text alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sympy as sp

from symgrad.entries.stated import equation_of
from symgrad.errors import InputError, Span, SymgradError
from symgrad.language.grammar.nodes import Equation, Name
from symgrad.language.outside.constants import is_number
from symgrad.language.steps.builder import Builder, Operand
from symgrad.language.steps.calls import Meaning, Ref, kind_of
from symgrad.notation.read import read_statement
from symgrad.notation.tree import Name as Bare
from symgrad.notation.tree import Negative, Node, Number, Statement, rebuilt, walk
from symgrad.notation.write import written
from symgrad.ops.entry import named
from symgrad.program import Stated
from symgrad.ways import Setting


def stated(builder: Builder, node: Equation, environment: Mapping[str, Meaning], name: str | None) -> Ref:
    """The result of the operation that ``node`` states."""
    numbers = {count.name: whole_number(count, environment[count.name]) for count in node.counts}
    statement = with_numbers(node.statement, numbers)
    op = named(Stated(written(statement)))
    operands = [operand(tensor, environment[tensor.name]) for tensor in node.tensors]
    try:
        result = builder.apply(op, operands, {}, node.span, label="the equation", name=name)
    except SymgradError as error:
        error.span = in_source(error.span or node.span, op.definition, statement)
        raise
    builder.remarks |= dict.fromkeys(remarks(builder, op.definition, operands))
    return result


def in_source(span: Span, text: str, statement: Statement) -> Span:
    """Where what stands at ``span`` of the equation as it is printed stands in the text that the user wrote."""
    pairs = zip(walk(read_statement(text)), walk(statement), strict=False)
    return next((own.span for printed, own in pairs if printed.span == span and type(printed) is type(own)), span)


def remarks(builder: Builder, text: str, operands: Sequence[Operand]) -> Iterator[str]:
    """How far the letters run that no axis simply says, and who computes the equation in the proof."""
    shapes = tuple(operand.shape or () for operand in operands)
    found = equation_of(text).found(builder.sizes, shapes)
    for letter, texts in found.told.items():
        number = builder.sizes.number(found.found[letter])
        many = "" if number is None else f" over {number} {'value' if number == 1 else 'values'},"
        yield f"{letter} runs{many} as far as {' and '.join(texts)} {'stays' if len(texts) == 1 else 'stay'} inside"
    yield "torch runs the equation itself in the proof, entry by entry"


def operand(name: Name, meaning: Meaning) -> Operand:
    """A tensor or a number that the equation reads."""
    if not isinstance(meaning, Ref) and not is_number(meaning):
        raise InputError(f"{name.name} is {kind_of(meaning)}, not a tensor", span=name.span)
    return Operand(meaning, name.name)


def whole_number(name: Name, meaning: Meaning) -> int:
    """The whole number that a name inside an index is."""
    if isinstance(meaning, (int, sp.Integer)) and not isinstance(meaning, bool):
        return int(meaning)
    hints = (Setting("let", name.name, "2", "{}, or the number itself in the text"),)
    if isinstance(meaning, Ref) or not is_number(meaning):
        raise InputError(f"{name.name} stands in an index: it has to be a whole number", span=name.span, hints=hints)
    raise InputError(f"{name.name} is no whole number", span=name.span, hints=hints)


def with_numbers(statement: Statement, numbers: Mapping[str, int]) -> Statement:
    """``statement`` with the numbers in the places of their names."""

    def put(node: Node) -> Node:
        if isinstance(node, Bare) and node.name in numbers:
            number = numbers[node.name]
            plain = Number(str(abs(number)), span=node.span)
            return Negative(plain, span=node.span) if number < 0 else plain
        return rebuilt(node, put)

    found = rebuilt(statement, put)
    assert isinstance(found, Statement)
    return found
