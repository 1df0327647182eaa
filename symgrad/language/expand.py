"""A program written another way: its composite operations in simpler ones, its axes of one entry at any size.

An entry of the table may say what it is made of, as text in symgrad's own language over the names of its
operands and options. Reading that text in place of the step is all there is to ``--expand``.

What is true of a batch of one is true of any batch. So a program with axes of one entry is also given with axes of open
sizes, for what is said shortest without them: ``x.T @ v`` and not ``v * x[0][:, None]``. An axis that is broadcast, or
that an operation asks to be of one entry, stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any

import sympy as sp

from symgrad.entries.spec import Op
from symgrad.errors import SourceText, SymgradError, bug
from symgrad.language.binding import Meaning, Ref
from symgrad.language.builder import StepBuilder
from symgrad.language.input_names import iterate_tensor_names
from symgrad.language.parser import parse_script
from symgrad.language.sizes import map_sizes
from symgrad.language.statements import StatementReader
from symgrad.language.syntax_tree import Script
from symgrad.ops.lookup import entry_named, entry_of, has_role
from symgrad.program import Apply, Constant, Program, Role, Tensor
from symgrad.shapes import Shape, Size, SizeMismatch, Sizes, fill_sizes

DEEPEST = 10


def expand_composites(program: Program) -> Program:
    """``program`` without composite operations, as far as the table says what they are made of.

    >>> from symgrad.language import read_program
    >>> [step.op for step in expand_composites(read_program("silu(x)").program).steps]
    ['neg', 'exp', 'add', 'div', 'mul']
    """
    for _ in range(DEEPEST):
        shapes = {tensor.name: tensor.shape for tensor in program.tensors()}
        if not any(expansion_script(step, shapes) for step in program.steps):
            return program
        program = expand_steps(program)
    raise bug("a composite operation contains itself")


def expand_steps(program: Program, only: Collection[str] | None = None) -> Program:
    """Every composite step, or those that make ``only``, replaced by the steps of its text, which may be composite."""
    shapes: dict[str, Shape] = {tensor.name: tensor.shape for tensor in program.tensors()}
    symbols = {s: None for shape in shapes.values() for size in shape for s in sorted(size.free_symbols, key=str)}
    builder = StepBuilder(
        Sizes.of(symbols, program.sizes), {t.name: t.shape for t in program.inputs}, kept=frozenset(shapes)
    )
    for step in program.steps:
        script = expansion_script(step, shapes) if only is None or step.result.name in only else None
        if script is None:
            builder.steps.append(step)
            builder.used.add(step.result.name)
            continue
        begin = len(builder.steps)
        environment = bind_expansion_names(entry_named(step.op), step, shapes)
        result = StatementReader(script.source.text, builder, environment).run(script, step.result.name)
        if builder.sizes.shape(result.shape) != builder.sizes.shape(step.result.shape):
            raise bug(f"{step.op} differs from its expansion {script.source.text!r} says")
        builder.steps[begin:] = [replace(new, span=step.span) for new in builder.steps[begin:]]
    return replace(program, steps=builder.settled({}))


def why_whole(program: Program) -> tuple[str, ...]:
    """What `expand_composites` leaves as it is, and why: a sentence for each operation, or one where nothing opens.

    >>> from symgrad.language import read_program
    >>> why_whole(read_program("tanh(x@a)").program)
    ('There is nothing to expand: matmul and tanh are one equation each.',)
    """
    whole = expand_composites(program)
    composite = dict.fromkeys(s.called for s in whole.steps if (op := entry_of(s.op)) is not None and op.expands)
    if composite:
        return tuple(
            f"{name} is not expanded: with these operands and options it is one equation." for name in composite
        )
    if whole is not program:
        return ()
    *rest, last = dict.fromkeys(step.called for step in program.steps)
    are = f"{', '.join(rest)} and {last} are one equation each" if rest else f"{last} is one equation"
    return (f"There is nothing to expand: {are}.",)


def expansion_script(step: Apply, shapes: Mapping[str, Shape]) -> Script | None:
    """What ``step`` is made of, or None.

    A text that does not mention an option holds for the option's default only; one that was made for the options says
    itself what it holds for.
    """
    op = entry_of(step.op)
    if op is None or op.expands is None:
        return None
    options = dict(step.options)
    if callable(op.expands):
        given = zip(op.operands, step.arguments, strict=False)
        ranks = {name: len(shapes[a]) if isinstance(a, str) else 0 for name, a in given if a != Constant(None)}
        text = op.expands(ranks, **options)
        return None if text is None else parse_script(SourceText(text))
    script = parse_script(SourceText(op.expands))
    mentioned = {name.name for statement in script.statements for name in iterate_tensor_names(statement.value)}
    own = tuple(() if isinstance(a, Constant) else shapes[a] for a in step.arguments)
    usual = op.rules.prepare(own, **op.defaults)
    unmentioned = [(key, value) for key, value in step.options if key not in mentioned]
    return script if all(usual.get(key) == value for key, value in unmentioned) else None


def bind_expansion_names(op: Op, step: Apply, shapes: Mapping[str, Shape]) -> dict[str, Meaning]:
    """The operands and options of a step under the names that its expansion uses; None is what was left out."""
    operands = {
        name: a.value if isinstance(a, Constant) else Ref(a, shapes[a])
        for name, a in zip(op.operands, step.arguments, strict=False)
    }
    return {**dict.fromkeys(op.operands), **operands, **dict(step.options)}


def open_unit_axes(program: Program) -> Program | None:
    """``program`` with open sizes in the place of 1, each 1 by `Program.sizes`; None where nothing can be opened.

    >>> from symgrad.language import read_program
    >>> wide = open_unit_axes(read_program("x @ w", shapes={"x": (1, 3), "w": (3, 1)}).program)
    >>> [tensor.shape for tensor in wide.tensors()]
    [(o1, m), (m, o2), (o1, o2)]
    >>> open_unit_axes(read_program("x + w", shapes={"x": (1, 3), "w": (2, 3)}).program)
    """
    return (
        open_unit_axes_cached(program) if any(size == 1 for tensor in program.inputs for size in tensor.shape) else None
    )


@lru_cache(maxsize=1024)
def open_unit_axes_cached(program: Program) -> Program | None:
    """`open_unit_axes` of a program that has axes of one entry: looking it up compares all its steps."""
    names = (sp.Symbol(f"o{n}", integer=True, positive=True) for n in count(1))
    ones: dict[Size, int] = {}

    def opened(shape: Shape) -> Shape:
        found = tuple(next(names) if size == 1 else size for size in shape)
        ones.update({new: 1 for new, old in zip(found, shape, strict=True) if old == 1})
        return found

    shapes = {tensor.name: opened(tensor.shape) for tensor in program.tensors()}
    symbols = {s: None for shape in shapes.values() for size in shape for s in sorted(size.free_symbols, key=str)}
    sizes = Sizes.of(symbols, {**program.sizes, **ones})
    try:
        for step in program.steps:
            unify_step_shapes(step, shapes, sizes)
    except (SymgradError, SizeMismatch, TypeError, ValueError, AttributeError, ArithmeticError, LookupError):
        return None  # what the table says of a literal 1, it need not say of a symbol
    found = {name: sizes.shape(shape) for name, shape in shapes.items()}
    known = set().union(*(size.free_symbols for tensor in program.tensors() for size in tensor.shape))
    left = {size for shape in found.values() for size in shape} - known
    if not any(size in ones for size in left):
        return None
    wide = replace(
        program,
        inputs=tuple(Tensor(tensor.name, found[tensor.name]) for tensor in program.inputs),
        steps=tuple(substitute_shapes(step, found, sizes) for step in program.steps),
        sizes={**program.sizes, **{size: 1 for size in ones if size in left}},
    )
    return wide if is_same_at_unit_sizes(wide, program, ones) else None


def unify_step_shapes(step: Apply, shapes: Mapping[str, Shape], sizes: Sizes) -> None:
    """Note in ``sizes`` what a step asks of the new ``shapes``."""
    result = shapes[step.result.name]
    read = tuple(shapes[a] if isinstance(a, str) else None for a in step.arguments)
    if has_role(step.op, Role.COPIES):
        for own, size in zip((read[0] or ())[::-1], result[::-1], strict=False):
            one = sizes.number(own) == 1
            sizes.unify(own, sp.Integer(1) if one and sizes.number(size) != 1 else size)
        return
    op = entry_of(step.op) if isinstance(step.op, str) else None
    if op is None:
        raise LookupError(str(step.op))
    options, number = dict(step.options), [isinstance(a, Constant) and a.value is not None for a in step.arguments]
    given = tuple(() if is_number else shape for is_number, shape in zip(number, read, strict=True))
    targets = op.rules.align(sizes, given, **options)
    for shape, target in zip(read, targets, strict=True):
        for own, size in zip(shape or (), target or (), strict=True):
            sizes.unify(own, size)
    aligned = tuple(
        () if is_number else sizes.shape(target) if target else target
        for is_number, target in zip(number, targets, strict=True)
    )
    for own, size in zip(result, op.rules.shape(sizes, aligned, **options), strict=True):
        sizes.unify(own, size)


def substitute_shapes(step: Apply, shapes: Mapping[str, Shape], sizes: Sizes) -> Apply:
    """A step with every size as its representative; a copy has the shape of its result."""
    shape = shapes[step.result.name]
    copies = has_role(step.op, Role.COPIES)
    options = (("shape", shape),) if copies else tuple((key, map_sizes(own, sizes.find)) for key, own in step.options)
    return replace(step, options=options, result=Tensor(step.result.name, shape))


def is_same_at_unit_sizes(wide: Program, program: Program, ones: Mapping[Size, int]) -> bool:
    """Whether ``wide`` is ``program`` where the open sizes are 1: shapes, operations, options."""

    def closed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(closed(part) for part in value)
        return fill_sizes(value, ones) if isinstance(value, sp.Expr) else value

    shapes = [closed(tensor.shape) for tensor in wide.tensors()]
    options = [closed(step.options) for step in wide.steps]
    return shapes == [t.shape for t in program.tensors()] and options == [s.options for s in program.steps]
