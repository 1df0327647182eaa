"""The forward pass and vᵀJ as source that stands on its own: a `torch.autograd.Function`, or plain functions.

Comes in: text, an index equation or a captured program, and in which shapes. Goes out: one module of Python for torch,
NumPy or jax that imports nothing of symgrad's, from the same lines that the pages show (`symgrad.backward`). The
function is `symgrad.export`, so the package cannot be called that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from symgrad.backward import derive_backward
from symgrad.backward.template_cache import written_for
from symgrad.calculus import flows
from symgrad.closed_form.writing.convolution_gradients import CONVOLUTIONS
from symgrad.errors import InputError, SymgradError, UnknownNameError, UnsupportedError
from symgrad.explanation.formulas import Shapes, derive_formulas, sample
from symgrad.exporting.module import ExportSource, choose_function_name, write_torch_module
from symgrad.exporting.numpy_text import write_array_module
from symgrad.exporting.parts import Passes, split_backward
from symgrad.language import ParsedProgram, arguments, expand_composites, read_program
from symgrad.language.python_text import write_python
from symgrad.numeric import Values, forward
from symgrad.numeric.arranged import assumed_value
from symgrad.oracles.forms import resized_points
from symgrad.oracles.typed_text import cast_of
from symgrad.program import Program
from symgrad.question import read_text
from symgrad.render.content.forward import forward_equations
from symgrad.render.content.teller import gradient_formula, teller_of
from symgrad.tracing import Capture

__all__ = ["export"]

LIBRARIES = ("torch", "numpy", "jax")
STYLES = ("class", "functions")


@written_for(run=True)
def export(
    source: Any,
    *,
    to: str = "torch",
    style: str | None = None,
    name: str | None = None,
    wrt: str | Sequence[str] | None = None,
    shapes: Shapes | None = None,
    forward_only: bool = False,
) -> str:
    """Write the forward pass and vᵀJ of ``source``, an expression or a `symgrad.capture`, as a Python module.

    ``to`` is the library: "torch", "numpy" or "jax". ``style`` "class" is a `torch.autograd.Function` that can be
    differentiated twice (in jax a ``jax.custom_vjp``), with a function that checks shapes; "functions" are two,
    ``name(*inputs)`` and ``name_backward(v, *inputs)``, the only style of NumPy. ``wrt`` are the inputs to
    differentiate with respect to (default: all that can have a gradient). ``shapes`` are known shapes; other sizes stay
    open, except those of a capture. ``forward_only`` leaves the backward out.

    Raises `InputError` for what there is not, `UnsupportedError` where a line has no code or a library no counterpart.

    >>> print(export("x @ a", to="numpy"))  # doctest: +ELLIPSIS
    \"\"\"...
    def matmul_backward(v, x, a):
    ...
        x_grad = v @ a.T
        a_grad = x.T @ v
        return x_grad, a_grad
    """
    chosen = choose_one_of(to, LIBRARIES, "library")
    way = choose_one_of(("functions" if chosen == "numpy" else "class") if style is None else style, STYLES, "style")
    forward_only = arguments.require_flag(forward_only, "forward_only")
    if chosen == "numpy" and way == "class":
        raise InputError("NumPy has no autograd: there is no class to write", hints=('style="functions"',))
    name = None if name is None else arguments.require_text(name, "name")
    wished = arguments.require_names(wrt, "wrt")
    found = source_of_capture(source, wished) if isinstance(source, Capture) else source_of_text(source, wished, shapes)
    try:
        return write_module(found, chosen, way, name, forward_only)
    except UnsupportedError:
        if isinstance(source, Capture) or chosen == "torch":
            raise
        opened = expand_composites(found.program)  # what a library has no word for it may have the parts of
        if opened == found.program:
            with written_for(unsaid=CONVOLUTIONS):
                return write_module(source_of_text(source, wished, shapes), chosen, way, name, forward_only)
        return write_module(
            source_of_program(found.title, opened, list(found.lines.gradients), shapes), chosen, way, name, forward_only
        )


def choose_one_of(wish: object, every: Sequence[str], what: str) -> str:
    """``wish``, if it is one of ``every``."""
    if isinstance(wish, str) and wish in every:
        return wish
    told = repr(wish) if isinstance(wish, str) else f"of type {type(wish).__name__}"
    raise InputError(f"there is no {what} {told}", found=(", ".join(every),))


def source_of_text(source: Any, wanted: Sequence[str] | None, shapes: Shapes | None) -> ExportSource:
    """An expression, with open sizes."""
    text, known = arguments.require_text(source, "the expression"), arguments.require_shapes(shapes)
    reading = read_text(text, known) if known else read_with_open_sizes(text)
    program = reading.program
    if program.made:
        hints = tuple(
            f"give it as an input, and {made.code} where the code is called" for made in program.made.values()
        )
        raise UnsupportedError("this cannot be exported: the text creates a tensor itself", hints=hints)
    if reading.rounded:
        what = (
            f"this cannot be exported: {reading.rounded[0]} rounds, but the code would compute in the dtype of its "
            "inputs"
        )
        raise UnsupportedError(what, hints=("leave it out, and give the code inputs of that type",))
    names = [tensor.name for tensor in program.inputs]
    for name in wanted or ():
        if name not in names:
            raise UnknownNameError(
                f"there is no input {name!r} to differentiate with respect to", found=(f"inputs: {', '.join(names)}",)
            )
    chosen = wanted or [name for name in names if flows(program, name)]
    if not chosen:
        raise UnsupportedError("no gradient flows back to any input: there is no backward to write")
    found = source_of_program(text, program, chosen, known)
    pointwise, cast = not known and is_pointwise(text, found, chosen), cast_of(text, *find_point(program, known))
    return replace(found, pointwise=pointwise, cast=cast, remarks=reading.remarks)


ANYHOW = ((2, 3), (2, 3, 2))
"""Shapes at which what is right for a vector may be right as it stands."""


def is_pointwise(text: str, found: ExportSource, wanted: Sequence[str]) -> bool:
    """Whether the lines are the same whatever axes the inputs have, one shape for all of them."""
    inputs = found.program.inputs
    if (
        found.program.required
        or not inputs
        or any(len(t.shape) != 1 or t.shape != inputs[0].shape or t.shape[0].is_Integer for t in inputs)
    ):
        return False
    own, names = found.parts, [t.name for t in inputs]
    try:
        return all(
            have_same_statements(own, source_of_program(text, program, wanted, None).parts)
            for shape in ANYHOW
            for program in [read_program(text, shapes=dict.fromkeys(names, shape)).program]
        )  # fmt: skip
    except SymgradError:
        return False


def read_with_open_sizes(text: str) -> ParsedProgram:
    """An expression of whose shapes nothing is known: every size open, if that can be read."""
    try:
        reading = read_program(text, symbolic=True)
    except SymgradError:
        return read_text(text, None)
    return read_text(text, None) if sample(reading.program, {}) is None else reading


def source_of_program(title: str, program: Program, wanted: Sequence[str], shapes: Shapes | None) -> ExportSource:
    """A program at a point inside its domain; its lines hold for every size, or the sizes stand in it as numbers."""
    sized, values = find_point(program, shapes or {})
    moving = [name for name in wanted if np.asarray(values[name]).dtype.kind == "f"]
    others = [o for o in resized_points(values, sized, moving) if has_no_unit_axis(sized, o)]
    if others and not has_no_unit_axis(sized, values):
        sized, values = replace(sized, sizes=others[0].sizes), others[0]
    lines = derive_backward(sized, moving, values=values)
    own = split_backward(lines)
    if any(tensor.shape != other.shape for tensor, other in zip(sized.inputs, lines.source.inputs, strict=True)):
        raise UnsupportedError("this cannot be exported: its inputs are read in another shape")
    general = all(has_same_lines_at(own, sized, moving, other) for other in others)
    told = tuple(write_short_formulas(sized, moving))
    if not general:
        numbers = tuple(replace(t, shape=tuple(map(sp.Integer, sized.numbers(t.shape)))) for t in sized.inputs)
        lines = replace(lines, source=replace(lines.source, inputs=numbers, required=()))
    return ExportSource(title, lines.source, lines, told)


def has_no_unit_axis(program: Program, values: Values) -> bool:
    """Whether no axis has the length 1: what stands there may be said in a shorter way, for that length alone."""
    sized = replace(program, sizes=values.sizes)
    return all(number != 1 for tensor in sized.inputs for number in sized.numbers(tensor.shape))


def find_point(program: Program, shapes: Shapes) -> tuple[Program, Values]:
    """Numbers for every size and every input, inside the domain: whole ones where nothing else will do."""
    point = sample(program, shapes)
    if point is not None:
        return point[0], point[1]
    generator = np.random.default_rng(3)
    inputs = {t.name: np.asarray(assumed_value(program, t.name, program.numbers(t.shape))) for t in program.inputs}
    try:
        values = forward(program, inputs)
    except SymgradError as error:
        found, hints = (str(error),), ("shapes={…}",)
        raise UnsupportedError("no sizes were found for which this can be computed", found=found, hints=hints) from None
    for name, array in inputs.items():
        drawn = {**inputs, name: generator.uniform(0.3, 0.9, size=array.shape)}
        try:
            values = forward(program, drawn)
        except SymgradError:  # positions: no other numbers will do
            continue
        inputs = drawn
    return program, values


def has_same_lines_at(own: Passes, program: Program, wanted: Sequence[str], values: Any) -> bool:
    """Whether the lines are the same at other sizes."""
    try:
        other = split_backward(derive_backward(replace(program, sizes=values.sizes), wanted, values=values))
    except SymgradError:
        return False
    return have_same_statements(own, other)


def have_same_statements(one: Passes, other: Passes) -> bool:
    """Whether the statements are the same."""
    first, second = ([write_python(s.value) for s in (*parts.forward, *parts.backward)] for parts in (one, other))
    return first == second


def source_of_capture(program: Capture, wanted: Sequence[str] | None) -> ExportSource:
    """What was captured: one run, in the shapes that it had."""
    if program.complex_inputs:
        raise UnsupportedError("this cannot be exported: it is complex, and the lines are of pairs of real numbers")
    lines = program.lines_for_any_seed(wanted)
    return ExportSource(program.title, lines.source, lines, ())


def write_module(found: ExportSource, to: str, style: str, name: str | None, forward_only: bool) -> str:
    """The module."""
    named = replace(found, name=choose_function_name(name, found.program, found.parts))
    if to == "torch":
        return write_torch_module(named, style, forward_only)
    return write_array_module(named, to, style, forward_only)


WIDEST, MOST_STEPS = 100, 24
"""Characters of a formula, and steps of a program, beyond which the code says it better."""


def write_short_formulas(program: Program, wanted: Sequence[str]) -> Iterator[str]:
    """``out[i] = …`` and ``x.grad[p] = …``, where they are short."""
    if len(program.steps) > MOST_STEPS:
        return
    teller = teller_of(program, symbolic=True)
    for row in forward_equations(teller)[1].rows:
        text = " = ".join(part.text for part in row.parts)
        if len(text) <= WIDEST:
            yield text
    for name, derived in derive_formulas(program, wanted).items():
        if not derived.sweep.whole:
            continue
        equation = derived.sweep.equation
        formula, left = gradient_formula(teller, f"{name}.grad", equation, teller.names.inner(equation.axes))
        if len(formula.text) <= WIDEST:
            yield f"{left.text} = {formula.text}"
