"""An index equation among the statements of a text, applied as a step.

Comes in: the node and what its names stand for. Goes out: the step's result. Names for whole numbers are put into the
equation as the numbers that they are, so that the operation is its text alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import sympy as sp

from symgrad.errors import InputError, Setting, Span, SymgradError
from symgrad.language.binding import Meaning, Ref, describe_meaning
from symgrad.language.builder import StepBuilder, StepOperand
from symgrad.language.constants import is_scalar
from symgrad.language.syntax_tree import EquationNode
from symgrad.notation import tree
from symgrad.notation.read_write import format_node, read_statement
from symgrad.notation.scope import classify_names, inline_definitions
from symgrad.ops import equation_functions
from symgrad.ops.lookup import entry_named, equation_of
from symgrad.program import Stated, free_name


def apply_equation(
    builder: StepBuilder, node: EquationNode, environment: Mapping[str, Meaning], name: str | None
) -> Ref:
    """The result of the operation that ``node`` states."""
    numbers = {count.name: require_whole_number(count, environment[count.name]) for count in node.counts}
    statement = put_numbers(node.statement, numbers)
    meanings = {tensor.name: environment[tensor.name] for tensor in node.tensors}
    *early, last = split_off_choices(statement)
    for part in early:
        meanings[part.name] = apply_single_equation(builder, part, meanings, node.span, None)
    return apply_single_equation(builder, last, meanings, node.span, name)


def apply_single_equation(
    builder: StepBuilder, statement: tree.IndexEquation, meanings: Mapping[str, Meaning], span: Span, name: str | None
) -> Ref:
    """The result of one equation, as a step."""
    op = entry_named(Stated(format_node(statement)))
    tensors = classify_names(inline_definitions(statement), equation_functions()).tensors
    operands = [equation_operand(tree.Name(tensor, span=span), meanings[tensor]) for tensor in tensors]
    try:
        result = builder.apply(op, operands, {}, span, label="the equation", name=name)
    except SymgradError as error:
        error.span = find_source_span(error.span or span, op.definition, statement)
        raise
    builder.remarks |= dict.fromkeys(describe_ranges(builder, op.definition, operands))
    return result


def find_source_span(span: Span, text: str, statement: tree.IndexEquation) -> Span:
    """Where what stands at ``span`` of the equation as it is printed stands in the text that the user wrote."""
    pairs = zip(tree.walk(read_statement(text)), tree.walk(statement), strict=False)
    return next((own.span for printed, own in pairs if printed.span == span and type(printed) is type(own)), span)


def describe_ranges(builder: StepBuilder, text: str, operands: Sequence[StepOperand]) -> Iterator[str]:
    """How far the letters run that no axis simply says, and who computes the equation in the proof."""
    shapes = tuple(operand.shape or () for operand in operands)
    found = equation_of(text).found(builder.sizes, shapes)
    for letter, texts in found.told.items():
        number = builder.sizes.number(found.found[letter])
        many = "" if number is None else f" over {number} {'value' if number == 1 else 'values'},"
        yield f"{letter} runs{many} as far as {' and '.join(texts)} {'stays' if len(texts) == 1 else 'stay'} in range"
    yield "to verify, torch evaluates the equation itself, entry by entry"


def equation_operand(name: tree.Name, meaning: Meaning) -> StepOperand:
    """A tensor or a number that the equation reads."""
    if not isinstance(meaning, Ref) and not is_scalar(meaning):
        raise InputError(f"{name.name} is {describe_meaning(meaning)}, not a tensor", span=name.span)
    return StepOperand(meaning, name.name)


def require_whole_number(name: tree.Name, meaning: Meaning) -> int:
    """The whole number that a name inside an index is."""
    if isinstance(meaning, (int, sp.Integer)) and not isinstance(meaning, bool):
        return int(meaning)
    hints = (Setting("let", name.name, "2", "{}, or the number itself in the text"),)
    if isinstance(meaning, Ref) or not is_scalar(meaning):
        raise InputError(f"{name.name} is used in an index, so it has to be an integer", span=name.span, hints=hints)
    raise InputError(f"{name.name} is not an integer", span=name.span, hints=hints)


def put_numbers(statement: tree.IndexEquation, numbers: Mapping[str, int]) -> tree.IndexEquation:
    """``statement`` with the numbers in the places of their names."""

    def put(node: tree.SyntaxNode) -> tree.SyntaxNode:
        if isinstance(node, tree.Name) and node.name in numbers:
            number = numbers[node.name]
            plain = tree.Number(str(abs(number)), span=node.span)
            return tree.Negative(plain, span=node.span) if number < 0 else plain
        return tree.rebuild_node(node, put)

    found = tree.rebuild_node(statement, put)
    assert isinstance(found, tree.IndexEquation)
    return found


def split_off_choices(statement: tree.IndexEquation) -> list[tree.IndexEquation]:
    """``statement``, with a step in front of it for what a max or a min chooses among, where that is a longer product.

    Two sides of a comparison may multiply or add up in another order: the largest is then not as large as itself.
    """
    early: list[tree.IndexEquation] = []
    whole = inline_definitions(statement)
    taken = {
        n.name for n in tree.walk(whole) if isinstance(n, (tree.Name, tree.Access, tree.FlatEntry, tree.Letter))
    } | {statement.name}

    def put(node: tree.SyntaxNode, letters: Mapping[str, tree.Letter]) -> tree.SyntaxNode:
        if not isinstance(node, tree.BigOperator):
            return tree.rebuild_node(node, lambda part: put(part, letters))
        inner = {**letters, **{letter.name: letter for letter in node.letters}}
        body = put(node.body, inner)
        slots = find_step_axes(body, whole, inner) if node.chooses and has_long_product(body) else ()
        if slots:
            name = free_name([f"{n}{k}" for k in ("", *range(len(taken))) for n in "hs"], taken)
            taken.add(name)
            early.append(tree.IndexEquation(name, slots, body, span=node.body.span))
            places = tuple(tree.Name(s.name, span=s.span) if isinstance(s, tree.Letter) else s for s in slots)
            body = tree.Access(name, places, span=node.body.span)
        return replace(node, body=body)

    right = put(whole.right, {letter.name: letter for letter in whole.letters})
    return [*early, replace(whole, right=right)] if early else [statement]


def has_long_product(body: tree.SyntaxNode) -> bool:
    """Whether more than two are multiplied or added up somewhere, which is exact in either order."""
    kinds = dict.fromkeys("+-−", "+") | dict.fromkeys("·/", "·")

    def chained(node: tree.SyntaxNode) -> bool:
        sides = [side.operand if isinstance(side, tree.Negative) else side for side in node.parts]
        inner = {kinds.get(side.sign) for side in sides if isinstance(side, tree.Binary)}
        return isinstance(node, tree.BigOperator) or (
            isinstance(node, tree.Binary) and kinds.get(node.sign, "") in inner
        )

    return any(map(chained, tree.walk(body)))


def find_step_axes(
    body: tree.SyntaxNode, whole: tree.IndexEquation, letters: Mapping[str, tree.Letter]
) -> tuple[tree.Letter | tree.Dots, ...]:
    """The axes of ``body`` as a step of its own; none where it does not say how far each of them runs."""
    used = {node.name for node in tree.walk(body) if isinstance(node, tree.Name)}
    own = [letter for name, letter in letters.items() if name in used]

    def read(node: tree.SyntaxNode) -> list[tree.SyntaxNode]:
        return [slot for n in tree.walk(node) if isinstance(n, tree.Access) for slot in n.slots]

    def alone(node: tree.SyntaxNode) -> set[str]:
        return {slot.name for slot in read(node) if isinstance(slot, tree.Name)}

    reads = {node.name for slot in read(body) for node in tree.walk(slot) if isinstance(node, tree.Name)}
    told = alone(body) | (reads - alone(whole.right))
    if any(letter.bound is None and letter.name not in told for letter in own):
        return ()
    dots = [slot for slot in read(body) if isinstance(slot, tree.Dots)][:1]
    return (*dots, *own)
