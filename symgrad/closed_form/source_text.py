"""Programs back to text: a forward value in torch's syntax, with the brackets it needs.

A gradient may mention a forward value (``h > 0``); in a closed form it is written out, since only v, out and
the inputs are in scope. Steps on pairs (re, im) are said as torch says them of complex tensors,
``view_as_real(torch.polar(r, t))``: between two such steps the pairs are not seen.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Hashable
from fractions import Fraction
from functools import cached_property
from itertools import dropwhile
from typing import Any

import sympy as sp

from symgrad.closed_form.number_text import (
    ADD,
    ATOM,
    COMPARE,
    MATMUL,
    MULTIPLY,
    NEGATE,
    POWER,
    NoForm,
    Text,
    find_exact_text,
    in_brackets,
    write_number,
    write_size,
)
from symgrad.errors import SymgradError
from symgrad.ops import entry_named
from symgrad.ops.calls.call_texts import INFIX, PREFIX, sign_of
from symgrad.ops.lookup import ATTRIBUTES, has_role
from symgrad.program import Apply, Argument, Constant, Program, Role
from symgrad.shapes import Size, SizeMismatch, Sizes

BINDS = {
    "+": ADD, "-": ADD, "*": MULTIPLY, "/": MULTIPLY, "@": MATMUL, "**": POWER,
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), COMPARE),
}  # fmt: skip
"""How strongly a sign binds."""
UNSAID = ("tied",)
"""What only a derivative asks of a step that it reads beside: no call takes it."""


def write_constant(value: Any) -> Text:
    """A constant as Python writes it."""
    if isinstance(value, Fraction):
        if value.denominator != 1:
            return f"{value.numerator} / {value.denominator}", NEGATE if value < 0 else MULTIPLY
        value = value.numerator
    if not isinstance(value, (int, float)):
        raise NoForm
    if isinstance(value, float) and (computed := find_exact_text(value)) is not None:
        return computed
    return write_number(value), NEGATE if value < 0 else ATOM


DEEPEST = 110
"""Calls in one another: more take more characters than any form has."""
WIDEST = 4000
"""Characters of a tensor that is written out; one that is read twice at every step doubles its text there."""


class SourceWriter:
    """Text of the tensors of one program; ``in_torch`` says complex ones as torch does, not on pairs.

    ``views`` are written as methods, so that chains of them read from the left.

    Raises `NoForm` for what nobody would read: nested deeper than ``DEEPEST``, or longer than ``WIDEST``.
    """

    in_torch = True

    def __init__(self, program: Program, views: Collection[str] = ()) -> None:
        self.program, self.views = program, views
        self._steps = {step.result.name: step for step in program.steps}
        self._written: dict[str, Text] = {}

    def tensor(self, name: str) -> Text:
        """What computes ``name``: itself for inputs and the output, an expression for an intermediate."""
        step = self._steps.get(name)
        if step is None or name == self.program.output:
            return name, ATOM
        if name not in self._written:
            if self._depths[name] > DEEPEST:
                raise NoForm
            text, binds = self.step(step)
            if len(text) > WIDEST:
                raise NoForm
            self._written[name] = text, binds
        return self._written[name]

    @cached_property
    def _depths(self) -> dict[str, int]:
        """How many calls stand in one another in the text of each intermediate."""
        found: dict[str, int] = {}
        for step in self.program.steps:
            found[step.result.name] = 1 + max((found.get(name, 0) for name in step.tensors), default=0)
        return found

    def factors(self, name: str) -> list[Text] | None:
        """The two matrices whose product an intermediate is, or None."""
        step = self._steps.get(name)
        if step is None or name == self.program.output or sign_of(step.op) != "@":
            return None
        if any(not isinstance(a, str) or len(self.program.tensor(a).shape) != 2 for a in step.arguments):
            return None
        return [self.tensor(a) for a in step.tensors]

    def step(self, step: Apply) -> Text:
        """One operation and what it is applied to."""
        if not isinstance(step.op, str):
            raise NoForm  # no call of torch's computes it: a pullback has lines of its own, an equation its text
        op = entry_named(step.op)
        if op.traits.complex_pairs and self.in_torch:
            text, binds = write_complex_step(self, step)
            return (f"view_as_real({text})", ATOM) if "out" in op.traits.complex_pairs else (text, binds)
        found = [self.operand(a) for a in self.operands(step)]
        arguments = [text for text in found if text is not None]
        if has_role(step.op, Role.HANDS_ON):
            return arguments[0]
        if step.op in PREFIX:
            return f"{PREFIX[step.op]}{in_brackets(*arguments[0], NEGATE)}", NEGATE
        if step.op in INFIX:
            sign = INFIX[step.op]
            binds = BINDS[sign]
            left, right = (
                in_brackets(*arguments[0], binds),
                in_brackets(*arguments[1], NEGATE if binds in (MULTIPLY, MATMUL) else binds + 1),
            )
            if binds == POWER:
                left = in_brackets(*arguments[0], ATOM)
                right = in_brackets(*arguments[1], POWER)
            return f"{left} {sign} {right}", binds
        if op.name in ATTRIBUTES:
            word = "T" if len(step.result.shape) == 2 else op.name
            return f"{in_brackets(*arguments[0], ATOM)}.{word}", ATOM
        if op.traits.role is Role.INDEXES:
            return f"{in_brackets(*arguments[0], ATOM)}[{write_key(dict(step.options)['key'])}]", ATOM
        if (
            op.traits.role is Role.PICKS
            and [len(self.program.tensor(name).shape) > 0 for name in step.tensors] == [True] * 2
        ):
            before = ":, " * int(str(dict(step.options)["dim"]))
            return f"{in_brackets(*arguments[0], ATOM)}[{before}{arguments[1][0]}]", ATOM
        return self.call(step, found)

    def maker(self, argument: Argument) -> Apply | None:
        """The step that is written out in the place of an intermediate."""
        whole = not isinstance(argument, str) or argument == self.program.output
        return None if whole else self._steps.get(str(argument))

    def operand(self, argument: Argument) -> Text | None:
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

    def call(self, step: Apply, operands: list[Text | None]) -> Text:
        """A call; as a method where torch has only that."""
        op = entry_named(step.op)
        if op.variadic:
            tensors = ", ".join(text for text, _ in filter(None, operands))
            if op.subscripts:
                return f"{step.op}({dict(step.options)[op.subscripts]!r}, {tensors})", ATOM
            return f"{step.op}({', '.join([f'[{tensors}]', *self.options(step).values()])})", ATOM
        first, *rest = self.arguments(step, operands)
        pair = ".values" if op.returns_pair(dict(step.options)) else ""
        functions = {f"torch.{step.op}", f"F.{step.op}"} & {*op.spellings}
        if f"Tensor.{step.op}" in op.spellings and (step.result.name in self.views or not functions):
            owner = in_brackets(*(operands[0] or (first, ATOM)), ATOM)
            return f"{owner}.{step.op}({', '.join(self.method_options(step, rest))})", ATOM
        if "part" in op.spelling.returns:
            *rest, part = rest
            return (
                f"{op.spellings[0].rpartition('.')[2]}({', '.join([first, *rest])})[{part.removeprefix('part=')}]",
                ATOM,
            )
        if op.spelling.template:
            return op.spelling.template.format(", ".join([first, *rest])), ATOM
        return f"{step.op}({', '.join([first, *rest])}){pair}", ATOM

    def arguments(self, step: Apply, operands: list[Text | None]) -> list[str]:
        """Operands and options in the order of the signature, by name behind the operands or what is left out."""
        op, options, tensors, gap = entry_named(step.op), self.options(step), iter(operands), False
        last = max((n for n, name in enumerate(op.operands) if name not in op.data), default=0)
        before = {
            name
            for name in dropwhile(lambda name: name not in op.operands, reversed(op.signature.parameters))
            if name in op.spelling.required or name not in op.defaults
        }
        result = []
        for name in op.signature.parameters:
            operand = next(tensors, None) if name in op.operands else None
            if operand is not None:
                result.append(f"{name}={operand[0]}" if gap else operand[0])
            elif name in options and name in before and not gap:
                result.append(options[name].removeprefix(f"{name}="))
                continue
            elif name in options:
                result.append(options[name])
            if operand is None and not gap and name in op.data and op.operands.index(name) < last:
                result.append("None")  # torch's batch_norm has to be told that there are no statistics
            else:
                gap = gap or operand is None
        return result

    def method_options(self, step: Apply, told: list[str]) -> list[str]:
        """What a method is told, without names where it takes options alone, all from the first, and no truth value."""
        op, given, own = entry_named(step.op), self.options(step), dict(step.options)
        names = [name for name in op.signature.parameters if name not in op.operands][: len(given)]
        if len(step.arguments) > 1 or {*names} != {*given} or any(isinstance(own[name], bool) for name in names):
            return told
        texts = [given[name].removeprefix(f"{name}=") for name in names]
        several = len(texts) == 1 and names != ["dim"] and texts[0].startswith("(")
        return [texts[0][1:-1].rstrip(",") or "()"] if several else texts

    def options(self, step: Apply) -> dict[str, str]:
        """The options that are not what the operation takes by itself, as ``name=value``."""
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
                said, several = self.option(value), isinstance(value, tuple) and len(value) != 1
                if name == "dim" and not several:
                    said = said.strip("(),")
                elif name == "dim" and value == () and not any(shapes):
                    said = "-1"  # a number has this axis alone
                result[name] = f"{name}={said}"
        return result

    def option(self, value: Hashable) -> str:
        """An option's value."""
        if isinstance(value, tuple):
            known = self.whole_shape(value)
            if known is not None:
                return known
            return f"({', '.join(self.option(v) for v in value)}{',' if len(value) == 1 else ''})"
        if isinstance(value, Constant):
            return write_constant(value.value)[0]
        if hasattr(value, "free_symbols"):
            return self.size(value)
        return write_number(value) if isinstance(value, float) else repr(value)

    def whole_shape(self, sizes: tuple[Hashable, ...]) -> str | None:
        """Several sizes that are the whole shape of an input; None where a number would be said by a name."""
        if len(sizes) < 2 or not any(isinstance(size, sp.Expr) and size.free_symbols for size in sizes):
            return None
        return next((f"{tensor.name}.shape" for tensor in self.program.inputs if tensor.shape == sizes), None)

    def size(self, size: Size) -> str:
        """A size as text: a number, or made of the inputs' sizes."""
        return write_size(size, self.program.inputs)[0]


def write_key(key: Any) -> str:
    """What stands between the brackets of an index: that of x[0, :, :] is 0."""
    forms: list[str] = []
    for item in key:
        if item[0] == "int":
            forms.append(str(item[1]))
        elif item[0] == "slice":
            start, stop, step = ("" if part is None else str(part) for part in item[1:4])
            forms.append(f"{start}:{stop}" + (f":{step}" if step not in ("", "1") else ""))
        else:
            forms.append("None" if item[0] == "new" else ":")
    while len(forms) > 1 and forms[-1] == ":":
        forms.pop()
    return ", ".join(forms) or "..."


def write_complex_step(writer: SourceWriter, step: Apply) -> Text:
    """The step in torch's words, a complex result as it is."""
    op = entry_named(step.op)
    operands = [
        view_pairs_as_complex(writer, a) if name in op.traits.complex_pairs else write_real_operand(writer, step, a)
        for name, a in zip(op.operands, writer.operands(step), strict=True)
    ]
    if sign := sign_of(step.op):
        binds = BINDS[sign]
        return f"{in_brackets(*operands[0], binds)} {sign} {in_brackets(*operands[1], NEGATE)}", binds
    word = op.spellings[0] if op.spellings else f"torch.{op.name.removeprefix('complex_')}"
    text = f"{word}({', '.join(writer.arguments(step, list(operands)))})"
    return (f"{text}.resolve_conj()" if word.endswith("ihfft") else text), ATOM


def view_pairs_as_complex(writer: SourceWriter, argument: Argument) -> Text:
    """Pairs as complex numbers."""
    maker = writer.maker(argument)
    if maker is not None and "out" in entry_named(maker.op).traits.complex_pairs:
        return write_complex_step(writer, maker)
    text, binds = writer.operand(argument) or ("", ATOM)
    rows = text if text.isidentifier() else f"{in_brackets(text, binds, ATOM)}.contiguous()"
    return f"view_as_complex({rows})", ATOM


def write_real_operand(writer: SourceWriter, step: Apply, argument: Argument) -> Text:
    """A real operand; torch takes no number here, so 0 is written as a tensor."""
    if not isinstance(argument, Constant):
        return writer.operand(argument) or ("", ATOM)
    others = step.tensors
    if argument.value != 0 or not others:
        raise NoForm
    return f"zeros_like({writer.tensor(others[0])[0]})", ATOM
