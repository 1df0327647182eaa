"""The forward pass of an equation of the user's own as code: in matrix notation, else as array operations.

Comes in: a program and a tensor that an equation computes. Goes out: an expression over what it reads, which gave the
tensor's own numbers when it was read back; None where there is none. The gradients of such a step are lines already.

The code of a step that is the pullback of an operation: `P * (v - (v * P).sum(-1, keepdim=True))`.

Comes in: such a step, the shapes and the values around it. Goes out: a Python expression over the step's own tensors,
the template that a line of a backward would have there, proven at these values; None where there is no notation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.backward.grouping.standard import Standard, sized
from symgrad.backward.grouping.templates import template
from symgrad.backward.parts.trees import as_one
from symgrad.calculus import Sweep, local
from symgrad.closed_form import closed_form, lowered
from symgrad.closed_form.texts.pieces import NoForm
from symgrad.closed_form.texts.source_text import Writer
from symgrad.errors import SymgradError
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.ops import beside_letters
from symgrad.oracles.forms import reader_of
from symgrad.program import Apply, Constant, Program, Pullback, Tensor
from symgrad.shapes import Shape

Way = Callable[[Program, Sweep, str], str | None]
NEAR = 1e-9


def equation_code(program: Program, name: str, values: Values) -> ast.expr | None:
    """What computes ``name`` of inputs of the program, in their names; proven at ``values``."""
    maker = next(step for step in program.steps if step.result.name == name)
    inputs = {tensor.name for tensor in program.inputs}
    if not maker.tensors or not inputs.issuperset(maker.tensors):
        return None
    for way, as_arrays in ((in_notation, False), (lowered, True)):
        text = told(program, maker, way)
        found = None if text is None else read_back(text, maker, values, as_arrays)
        if text is None or found is None or not agrees(found, as_float(values[name])):
            continue
        whole = as_one(text, {})
        return ast.BinOp(ast.Constant(1.0), ast.Mult(), whole) if found.dtype == np.bool_ else whole  # as in `Typed`
    return None


@lru_cache(maxsize=1024)
def told(program: Program, step: Apply, way: Way) -> str | None:
    """The text of one step, said one way; what has its shape has it in sizes of what it reads."""
    inputs, own = tuple(map(program.tensor, dict.fromkeys(step.tensors))), step.result
    try:
        alone = Program(inputs, (step,), own.name, sizes=program.sizes)
        text = way(alone, Sweep(((own.name, local(step, alone).equation),)), own.name)
        sizes = ", ".join(map(Writer(alone).size, own.shape))
    except (NoForm, SymgradError):
        return None
    return None if text is None else in_sizes(text, own.name, inputs[0].name, f"({sizes},)" if sizes else "()")


def in_sizes(text: str, name: str, read: str, shape: str) -> str:
    """A text that says the tensor's shape and kind by its own name, as ``out.shape``, by sizes and what it reads.

    >>> in_sizes("x.sum().expand(out.shape)", "out", "x", "(3,)"), in_sizes("2 * ones_like(out)", "out", "x", "(3,)")
    ('x.sum().expand((3,))', '2 * ones_like(x.sum()).expand((3,))')
    """
    own = re.escape(name)
    text = text.replace(f".to({name})", f".to({read})")
    text = re.sub(rf"\b(ones|zeros)_like\({own}\)", rf"\1_like({read}.sum()).expand({shape})", text)
    return re.sub(rf"\b{own}\.shape\b(?!\[)", shape, text)


def in_notation(program: Program, sweep: Sweep, wanted: str) -> str | None:
    """As a person writes it."""
    form = closed_form(program, sweep, wanted)
    return None if form is None else form.text


def read_back(text: str, step: Apply, values: Values, as_arrays: bool) -> Array | None:
    """What a text comes to, read back; None where it cannot be, as a form that reads the output itself."""
    known: Mapping[str, Array] = {name: as_float(values[name]) for name in step.tensors}
    try:
        with np.errstate(all="ignore"):
            return np.asarray(reader_of(as_arrays)(text, known))
    except (SymgradError, ValueError, IndexError, KeyError):
        return None


def agrees(found: Array, right: Array) -> bool:
    """Whether these are the numbers that the step gave."""
    scale = float(np.abs(right[np.isfinite(right)]).max(initial=1.0))
    return found.shape == right.shape and bool(np.allclose(as_float(found), right, rtol=NEAR, atol=NEAR * scale))


def code_of(step: Apply, values: Values, shapes: Mapping[str, Shape] | None = None) -> ast.expr | None:
    """What a pullback computes, in the names of the tensors it is applied to.

    With ``shapes``, whose sizes may be symbols, it is code for every size; without, for the sizes at hand.
    """
    read = {*step.tensors, *(own for _, own in step.beside)}
    if shapes is not None and not read <= shapes.keys():
        shapes = None  # what is read beside has no shape for every size
    found = stated(step, values, shapes)
    sizes = {} if shapes is None else values.sizes
    own = {std: values[name] for std, name in found.names.items() if name in values.arrays}
    try:
        sized_here = replace(found.program, sizes=sizes)
        inner = forward(sized_here, {t.name: own[t.name] for t in found.program.inputs})
        known = Values({**inner.arrays, **own}, sizes)
        plain = Standard(found.program, {name: name for name in known.arrays}, {size: size for size in sizes}, {})
        unit = isinstance(step.arguments[0], Constant)
        assert isinstance(step.op, Pullback)
        wanted = f"a{step.op.position}"
        text = template(plain, wanted, unit, known).text
        if text is None and unit:
            text = template(plain, wanted, False, known).text
    except (SymgradError, KeyError):
        return None
    if text is None:
        return None
    swap: dict[str, ast.expr] = {"v": ast.parse("ones(())", mode="eval").body}  # the weight 1, as a tensor
    swap |= {std: ast.Name(name) for std, name in found.names.items()}
    return as_one(text, swap)


def stated(step: Apply, values: Values, known: Mapping[str, Shape] | None = None) -> Standard:
    """The operation that ``step`` is the pullback of, as a program: a0, a1, … are its operands, b… is read beside."""
    assert isinstance(step.op, Pullback)
    swap = {} if known is not None else {size: sp.Integer(number) for size, number in values.sizes.items()}

    def shape(name: str) -> Shape:
        return tuple(map(sp.Integer, np.shape(values[name]))) if known is None else known[name]

    letters = beside_letters(step.op.of)
    weight, out, *rest = step.arguments
    operands = list(enumerate(rest[len(letters) :]))
    names = {f"a{n}": a for n, a in operands if isinstance(a, str)}
    aside = {letter: (f"b{n}", a) for n, (letter, a) in enumerate(zip(letters, rest, strict=False))}
    besides = {letter: pair for letter, pair in aside.items() if isinstance(pair[1], str)}
    besides |= {letter: (f"n{n}", a) for n, (letter, a) in enumerate(step.beside)}
    names |= {std: str(a) for std, a in besides.values()}
    shapes = {std: shape(name) for std, name in names.items()}
    inputs = tuple(Tensor(std, own) for std, own in shapes.items())
    arguments = tuple(f"a{n}" if isinstance(a, str) else Constant(sized(a.value, swap)) for n, a in operands)
    result = Tensor("out", shape(weight) if isinstance(weight, str) else ())
    read = tuple((letter, std) for letter, (std, _) in besides.items())
    program = Program(inputs, (Apply(step.op.of, arguments, sized(step.options, swap), result, None, read),), "out")
    names |= {std: name for std, name in (("v", weight), ("out", out)) if isinstance(name, str)}
    return Standard(program, names, {}, {})
