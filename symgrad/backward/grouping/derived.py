"""The code of a step that is the pullback of an operation: `P * (v - (v * P).sum(-1, keepdim=True))`.

Comes in: such a step, the shapes and the values around it. Goes out: a Python expression over the step's own tensors,
the template that a line of a backward would have there, proven at these values; None where there is no notation.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import sympy as sp

from symgrad.backward.grouping.standard import Standard, sized
from symgrad.backward.grouping.templates import template
from symgrad.backward.shortening.merging import as_one
from symgrad.errors import SymgradError
from symgrad.numeric import Values, forward
from symgrad.ops import beside_letters
from symgrad.program import Apply, Constant, Program, Pullback, Tensor
from symgrad.shapes import Shape


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
