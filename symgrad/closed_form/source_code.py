"""Programs back to code: a forward value in torch's syntax, as a tree.

A gradient may mention a forward value (``h > 0``); in a closed form it is written out, since only v, out and
the inputs are in scope. Steps on pairs (re, im) are said as torch says them of complex tensors,
``view_as_real(torch.polar(r, t))``: between two such steps the pairs are not seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Hashable, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import dropwhile
from typing import Any

import sympy as sp

from symgrad.closed_form.number_code import NoForm, find_exact_code, write_size
from symgrad.errors import SymgradError
from symgrad.language.python_text import COLON, call, index, method, read_python, to_code, write_python
from symgrad.language.syntax_tree import Attribute, Items, Keyword, Literal, PythonCall, Slice, Subscript, Unary
from symgrad.notation.tree import Binary, Dots, Name, SyntaxNode, rebuild_node
from symgrad.ops import entry_named
from symgrad.ops.calls.call_texts import INFIX, PREFIX, sign_of
from symgrad.ops.lookup import ATTRIBUTES, has_role
from symgrad.program import Apply, Argument, Constant, Program, Role
from symgrad.shapes import Size, SizeMismatch, Sizes

UNSAID = ("tied",)
"""What only a derivative asks of a step that it reads beside: no call takes it."""


def write_constant(value: Any) -> SyntaxNode:
    """A constant as Python writes it."""
    if isinstance(value, Fraction):
        if value.denominator != 1:
            return Binary("/", to_code(value.numerator), Literal(value.denominator))
        value = value.numerator
    if not isinstance(value, (int, float)):
        raise NoForm
    return (find_exact_code(value) if isinstance(value, float) else None) or to_code(value)


DEEPEST = 110
"""Calls in one another: more take more characters than any form has."""
WIDEST = 4000
"""Characters of a tensor that is written out; one that is read twice at every step doubles its text there."""


class SourceWriter:
    """Code of the tensors of one program; ``in_torch`` says complex ones as torch does, not on pairs.

    ``views`` are written as methods, so that chains of them read from the left.

    Raises `NoForm` for what nobody would read: nested deeper than ``DEEPEST``, or longer than ``WIDEST``.
    """

    in_torch = True

    def __init__(self, program: Program, views: Collection[str] = ()) -> None:
        self.program, self.views = program, views
        self._steps = {step.result.name: step for step in program.steps}
        self._written: dict[str, SyntaxNode] = {}

    def tensor(self, name: str) -> SyntaxNode:
        """What computes ``name``: itself for inputs and the output, an expression for an intermediate."""
        step = self._steps.get(name)
        if step is None or name == self.program.output:
            return Name(name)
        if name not in self._written:
            if self._depths[name] > DEEPEST:
                raise NoForm
            code = self.step(step)
            if len(write_python(code)) > WIDEST:
                raise NoForm
            self._written[name] = code
        return self._written[name]

    @cached_property
    def _depths(self) -> dict[str, int]:
        """How many calls stand in one another in the text of each intermediate."""
        found: dict[str, int] = {}
        for step in self.program.steps:
            found[step.result.name] = 1 + max((found.get(name, 0) for name in step.tensors), default=0)
        return found

    def factors(self, name: str) -> list[SyntaxNode] | None:
        """The two matrices whose product an intermediate is, or None."""
        step = self._steps.get(name)
        if step is None or name == self.program.output or sign_of(step.op) != "@":
            return None
        if any(not isinstance(a, str) or len(self.program.tensor(a).shape) != 2 for a in step.arguments):
            return None
        return [self.tensor(a) for a in step.tensors]

    def step(self, step: Apply) -> SyntaxNode:
        """One operation and what it is applied to."""
        if not isinstance(step.op, str):
            raise NoForm  # no call of torch's computes it: a pullback has lines of its own, an equation its text
        op = entry_named(step.op)
        if op.traits.complex_pairs and self.in_torch:
            code = write_complex_step(self, step)
            return call("view_as_real", code) if "out" in op.traits.complex_pairs else code
        found = [self.operand(a) for a in self.operands(step)]
        arguments = [code for code in found if code is not None]
        if has_role(step.op, Role.HANDS_ON):
            return arguments[0]
        if step.op in PREFIX:
            return Unary(PREFIX[step.op], arguments[0])
        if step.op in INFIX:
            return Binary(INFIX[step.op], *arguments)
        if op.name in ATTRIBUTES:
            return Attribute(arguments[0], "T" if len(step.result.shape) == 2 else op.name)
        if op.traits.role is Role.INDEXES:
            return Subscript(arguments[0], write_key(self, dict(step.options)["key"]))
        if (
            op.traits.role is Role.PICKS
            and [len(self.program.tensor(name).shape) > 0 for name in step.tensors] == [True] * 2
        ):
            before = [COLON] * int(str(dict(step.options)["dim"]))
            return index(arguments[0], [*before, arguments[1]])
        return self.call(step, found)

    def maker(self, argument: Argument) -> Apply | None:
        """The step that is written out in the place of an intermediate."""
        whole = not isinstance(argument, str) or argument == self.program.output
        return None if whole else self._steps.get(str(argument))

    def operand(self, argument: Argument) -> SyntaxNode | None:
        """A tensor or a constant; None for an operand that is left out."""
        if isinstance(argument, str):
            return self.tensor(argument)
        if isinstance(argument.value, sp.Expr):
            return write_size(argument.value, self.program.inputs)
        return None if argument.value is None else write_constant(argument.value)

    def operands(self, step: Apply) -> list[Argument]:
        """The arguments of a step; what only broadcasts them is left out where the operation does it by itself.

        At these sizes, and where all sizes meet: torch takes a 2×2 beside a stack of two 2×2 for vectors.
        """
        plain = [self.unexpanded(a) for a in step.arguments]
        shapes, targets = (
            tuple(self.program.tensor(a).shape if isinstance(a, str) else () for a in names)
            for names in (plain, step.arguments)
        )
        symbols = {symbol for shape in (*shapes, *targets) for size in shape for symbol in size.free_symbols}
        for numbers in (self.program.sizes, dict.fromkeys(symbols, 2)):
            try:
                aligned = entry_named(step.op).rules.align(Sizes.of((), numbers), shapes, **dict(step.options))
            except (SizeMismatch, SymgradError):
                return list(step.arguments)
            if aligned != targets:
                return list(step.arguments)
        return plain

    def unexpanded(self, argument: Argument) -> Argument:
        """What was broadcast to give ``argument``, or itself."""
        maker = self._steps.get(argument) if isinstance(argument, str) else None
        return argument if maker is None or not has_role(maker.op, Role.COPIES) else maker.arguments[0]

    def call(self, step: Apply, operands: Sequence[SyntaxNode | None]) -> SyntaxNode:
        """A call; as a method where torch has only that."""
        op, name = entry_named(step.op), str(step.op)
        if op.variadic:
            tensors = [code for code in operands if code is not None]
            if op.subscripts:
                return call(name, Literal(str(dict(step.options)[op.subscripts])), *tensors)
            return call(name, tensors, *self.options(step).values())
        first, *rest = self.arguments(step, operands)
        functions = {f"torch.{name}", f"F.{name}"} & {*op.spellings}
        if f"Tensor.{name}" in op.spellings and (step.result.name in self.views or not functions):
            return apply_to(Attribute(operands[0] or first, name), self.method_options(step, rest))
        if "part" in op.spelling.returns:
            *rest, part = rest
            whole = apply_to(Name(op.spellings[0].rpartition(".")[2]), [first, *rest])
            return index(whole, [part.value if isinstance(part, Keyword) else part])
        if op.spelling.template:
            return fill_template(op.spelling.template, [first, *rest])
        whole = apply_to(Name(name), [first, *rest])
        return Attribute(whole, "values") if op.returns_pair(dict(step.options)) else whole

    def arguments(self, step: Apply, operands: Sequence[SyntaxNode | None]) -> list[SyntaxNode]:
        """Operands and options in the order of the signature, by name behind the operands or what is left out."""
        op, options, tensors, gap = entry_named(step.op), self.options(step), iter(operands), False
        last = max((n for n, name in enumerate(op.operands) if name not in op.data), default=0)
        before = {
            name
            for name in dropwhile(lambda name: name not in op.operands, reversed(op.signature.parameters))
            if name in op.spelling.required or name not in op.defaults
        }
        result: list[SyntaxNode] = []
        for name in op.signature.parameters:
            operand = next(tensors, None) if name in op.operands else None
            if operand is not None:
                result.append(Keyword(name, operand) if gap else operand)
            elif name in options and name in before and not gap:
                result.append(options[name].value)
                continue
            elif name in options:
                result.append(options[name])
            if operand is None and not gap and name in op.data and op.operands.index(name) < last:
                result.append(Literal(None))  # torch's batch_norm has to be told that there are no statistics
            else:
                gap = gap or operand is None
        return result

    def method_options(self, step: Apply, told: list[SyntaxNode]) -> list[SyntaxNode]:
        """What a method is told, without names where it takes options alone, all from the first, and no truth value."""
        op, given, own = entry_named(step.op), self.options(step), dict(step.options)
        names = [name for name in op.signature.parameters if name not in op.operands][: len(given)]
        if len(step.arguments) > 1 or {*names} != {*given} or any(isinstance(own[name], bool) for name in names):
            return told
        values = [given[name].value for name in names]
        several = values[0] if len(values) == 1 and names != ["dim"] else None
        return list(several.items) or values if isinstance(several, Items) else values

    def options(self, step: Apply) -> dict[str, Keyword]:
        """The options that are not what the operation takes by itself."""
        op, own = entry_named(step.op), dict(step.options)
        defaults = {n: p.default for n, p in op.signature.parameters.items() if n not in op.operands}
        given = {n: own.get(n) if d is inspect.Parameter.empty else d for n, d in defaults.items()}
        shapes = tuple(self.program.tensor(a).shape if isinstance(a, str) else () for a in step.arguments)
        try:
            usual = op.rules.prepare(shapes, **given)
        except SymgradError:  # by its defaults alone it cannot be called, as clamp without bounds
            usual = given
        result = {}
        for name, value in own.items():
            told = name in op.spelling.required or (name == "dim" and own.get("keepdim") is True)
            required = told or defaults.get(name) is inspect.Parameter.empty
            if value is not None and name not in UNSAID and (required or usual.get(name) != value):
                if name == "dim" and isinstance(value, tuple) and len(value) == 1:
                    value = value[0]
                elif name == "dim" and value == () and not any(shapes):
                    value = -1  # a number has this axis alone
                result[name] = Keyword(name, self.option(value))
        return result

    def option(self, value: Hashable) -> SyntaxNode:
        """An option's value."""
        if isinstance(value, tuple):
            return self.whole_shape(value) or Items(tuple(map(self.option, value)))
        if isinstance(value, Constant):
            return write_constant(value.value)
        if hasattr(value, "free_symbols"):
            return self.size(value)
        return Literal(value) if isinstance(value, str) else to_code(value)  # type: ignore[arg-type]  # a number, or None

    def whole_shape(self, sizes: tuple[Hashable, ...]) -> SyntaxNode | None:
        """Several sizes that are the whole shape of an input; None where a number would be said by a name."""
        if len(sizes) < 2 or not any(isinstance(size, sp.Expr) and size.free_symbols for size in sizes):
            return None
        found = next((tensor.name for tensor in self.program.inputs if tensor.shape == sizes), None)
        return None if found is None else to_code(f"{found}.shape")

    def size(self, size: Size) -> SyntaxNode:
        """A size: a number, or made of the inputs' sizes."""
        return write_size(size, self.program.inputs)


def apply_to(function: SyntaxNode, arguments: Sequence[SyntaxNode]) -> PythonCall:
    """A call with arguments, some of them by name."""
    named = tuple(argument for argument in arguments if isinstance(argument, Keyword))
    return PythonCall(function, tuple(a for a in arguments if not isinstance(a, Keyword)), named)


def fill_template(template: str, arguments: Sequence[SyntaxNode]) -> SyntaxNode:
    """``qr({}).Q`` and the like, with arguments in the place of the braces.

    >>> write_python(fill_template("svd({}, full_matrices=False).U", [Name("x")]))
    'svd(x, full_matrices=False).U'
    """

    def filled(node: SyntaxNode) -> SyntaxNode:
        match node:
            case Name("_"):
                return arguments[0]
            case PythonCall(function, [Name("_")], keywords):
                return apply_to(filled(function), [*arguments, *keywords])
        return rebuild_node(node, filled)

    return filled(read_python(template.format("_")))


def write_key(writer: SourceWriter, key: Any) -> tuple[SyntaxNode, ...]:
    """What stands between the brackets of an index: that of x[0, :, :] is 0."""
    items: list[SyntaxNode] = []
    for item in key:
        if item[0] == "slice":
            start, stop, step = (None if part is None else writer.option(part) for part in item[1:4])
            items.append(Slice(start, stop, None if step == Literal(1) else step))
        elif item[0] == "int":
            items.append(writer.option(item[1]))
        else:
            items.append(Literal(None) if item[0] == "new" else COLON)
    while len(items) > 1 and items[-1] == COLON:
        items.pop()
    return tuple(items) or (Dots(),)


def write_complex_step(writer: SourceWriter, step: Apply) -> SyntaxNode:
    """The step in torch's words, a complex result as it is."""
    op = entry_named(step.op)
    operands = [
        view_pairs_as_complex(writer, a) if name in op.traits.complex_pairs else write_real_operand(writer, step, a)
        for name, a in zip(op.operands, writer.operands(step), strict=True)
    ]
    if sign := sign_of(step.op):
        return Binary(sign, *operands)
    word = op.spellings[0] if op.spellings else f"torch.{op.name.removeprefix('complex_')}"
    whole = apply_to(to_code(word), writer.arguments(step, operands))
    return method(whole, "resolve_conj") if word.endswith("ihfft") else whole


def view_pairs_as_complex(writer: SourceWriter, argument: Argument) -> SyntaxNode:
    """Pairs as complex numbers."""
    maker = writer.maker(argument)
    if maker is not None and "out" in entry_named(maker.op).traits.complex_pairs:
        return write_complex_step(writer, maker)
    rows = writer.operand(argument) or Name("")
    return call("view_as_complex", rows if isinstance(rows, Name) else method(rows, "contiguous"))


def write_real_operand(writer: SourceWriter, step: Apply, argument: Argument) -> SyntaxNode:
    """A real operand; torch takes no number here, so 0 is written as a tensor."""
    if not isinstance(argument, Constant):
        return writer.operand(argument) or Name("")
    others = step.tensors
    if argument.value != 0 or not others:
        raise NoForm
    return call("zeros_like", writer.tensor(others[0]))
