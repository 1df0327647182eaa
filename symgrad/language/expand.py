"""A program with its composite operations written out in simpler ones.

An entry of the table may say what it is made of, as text in symgrad's own language over the names of its
operands and options. Reading that text in place of the step is all there is to ``--expand``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from symgrad.entries.spec import Op
from symgrad.errors import bug
from symgrad.language.grammar.nodes import Script
from symgrad.language.grammar.syntax import parse
from symgrad.language.steps.builder import Builder
from symgrad.language.steps.calls import Meaning, Ref
from symgrad.language.steps.names import tensor_names
from symgrad.language.steps.statements import Statements
from symgrad.ops.entry import entry_of, named
from symgrad.program import Apply, Constant, Program
from symgrad.shapes import Shape, Sizes
from symgrad.source import Source

DEEPEST = 10


def expand_composites(program: Program) -> Program:
    """``program`` without composite operations, as far as the table says what they are made of.

    >>> from symgrad.language import read
    >>> [step.op for step in expand_composites(read("silu(x)").program).steps]
    ['neg', 'exp', 'add', 'div', 'mul']
    """
    for _ in range(DEEPEST):
        shapes = {tensor.name: tensor.shape for tensor in program.tensors()}
        if not any(expansion(step, shapes) for step in program.steps):
            return program
        program = expanded_once(program)
    raise bug("a composite operation is made of itself")


def expanded_once(program: Program, only: Collection[str] | None = None) -> Program:
    """Every composite step, or those that make ``only``, replaced by the steps of its text, which may be composite."""
    shapes: dict[str, Shape] = {tensor.name: tensor.shape for tensor in program.tensors()}
    symbols = {s: None for shape in shapes.values() for size in shape for s in sorted(size.free_symbols, key=str)}
    builder = Builder(
        Sizes.of(symbols, program.sizes), {t.name: t.shape for t in program.inputs}, kept=frozenset(shapes)
    )
    for step in program.steps:
        script = expansion(step, shapes) if only is None or step.result.name in only else None
        if script is None:
            builder.steps.append(step)
            builder.used.add(step.result.name)
            continue
        begin = len(builder.steps)
        environment = meanings(named(step.op), step, shapes)
        result = Statements(script.source.text, builder, environment).run(script, step.result.name)
        if builder.sizes.shape(result.shape) != builder.sizes.shape(step.result.shape):
            raise bug(f"{step.op} is not what its expansion {script.source.text!r} says")
        builder.steps[begin:] = [replace(new, span=step.span) for new in builder.steps[begin:]]
    return replace(program, steps=builder.settled({}))


def why_whole(program: Program) -> tuple[str, ...]:
    """What `expand_composites` leaves as it is, and why: a sentence for each operation, or one where nothing opens.

    >>> from symgrad.language import read
    >>> why_whole(read("tanh(x@a)").program)
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


def expansion(step: Apply, shapes: Mapping[str, Shape]) -> Script | None:
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
        return None if text is None else parse(Source(text))
    script = parse(Source(op.expands))
    mentioned = {name.name for statement in script.statements for name in tensor_names(statement.value)}
    own = tuple(() if isinstance(a, Constant) else shapes[a] for a in step.arguments)
    usual = op.prepare(own, **op.defaults)
    unmentioned = [(key, value) for key, value in step.options if key not in mentioned]
    return script if all(usual.get(key) == value for key, value in unmentioned) else None


def meanings(op: Op, step: Apply, shapes: Mapping[str, Shape]) -> dict[str, Meaning]:
    """The operands and options of a step under the names that its expansion uses; None is what was left out."""
    operands = {
        name: a.value if isinstance(a, Constant) else Ref(a, shapes[a])
        for name, a in zip(op.operands, step.arguments, strict=False)
    }
    return {**dict.fromkeys(op.operands), **operands, **dict(step.options)}
