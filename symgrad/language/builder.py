"""Applying entries of the table to tensors and constants, one step each.

Comes in: an operation, its operands and options. Goes out: the steps, broadcasting as steps of its own, every
result with its shape and a name. The table's functions say which sizes fit; what they complain about gets its
place in the text, and the shapes that were found, here and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from symgrad.entries.spec import Op
from symgrad.errors import InputError, ShapeError, Span, SymgradError, UnsupportedError, bug
from symgrad.language.arguments import MOST_AXES
from symgrad.language.binding import LiteralTensor, Meaning, Ref, operand_type
from symgrad.language.complaints import computed_leaf_error, list_shapes, mismatch_error
from symgrad.language.dtypes import DtypeKind, resolve_shapes, result_type
from symgrad.language.input_names import UsedNames
from symgrad.language.sizes import map_sizes
from symgrad.language.syntax_tree import PythonStatement
from symgrad.ops.lookup import entry_named, role_entry
from symgrad.program import Apply, Argument, Constant, Number, Own, Role, Tensor, free_name
from symgrad.shapes import Shape, Size, SizeMismatch, Sizes, fill_sizes

LENGTHS = ("p", "ord")
"""Options that may be infinite: which length is meant."""


def is_infinite_or_nan(value: object) -> bool:
    """Whether this is an infinity or NaN."""
    return isinstance(value, float) and not math.isfinite(value)


@dataclass(frozen=True)
class StepOperand:
    """A tensor or a number, and how the user wrote it; None is an operand that was left out."""

    meaning: Ref | Number | None
    text: str

    @property
    def shape(self) -> Shape | None:
        """The shape; a number has no axes, what was left out no shape."""
        return self.meaning.shape if isinstance(self.meaning, Ref) else None if self.meaning is None else ()


class StepBuilder:
    """Collects steps over inputs of given shapes.

    ``kept`` are names that intermediate results may not have: what the text assigns, and the output. Of what the text
    has ``made``, ``leaves`` are to have a gradient; the others are constants.
    """

    def __init__(self, sizes: Sizes, inputs: Mapping[str, Shape], kept: Collection[str] = ()) -> None:
        self.sizes = sizes
        self.inputs = dict(inputs)
        self.steps: list[Apply] = []
        self.kept = frozenset(kept)
        self.used = UsedNames(inputs)
        self.count = 0
        self.pending: list[tuple[int, Op, list[Any]]] = []
        self.made: dict[str, tuple[Own, LiteralTensor]] = {}
        self.leaves: set[str] = set()
        self.remarks, self.rounded = dict[str, None](), dict[str, None]()
        self.positions: dict[tuple[str, int], None] = {}

    def make(self, made: LiteralTensor, code: str, name: str | None = None) -> Ref:
        """A tensor that the text makes with ``code``, as an input of the program; what is not drawn is made once."""
        same = [n for n, (own, other) in self.made.items() if own.code == code and other.shape == made.shape]
        if name is None and same and not made.drawn:
            return Ref(same[0], made.shape, kind=made.kind, few_bits=made.few_bits)
        called = self.claim(name) if name is not None else free_name(("c",), self.used | self.kept)
        self.used.add(called)
        draws = sum(other.drawn for _, other in self.made.values())
        self.made[called] = (Own(code, draws if made.drawn else None), made)
        return Ref(called, made.shape, kind=made.kind, few_bits=made.few_bits)

    def forget_counts(self, output: str) -> None:
        """Positions that no step reads: x[arange(n), y] reads y alone, x[tensor([-1])] those counted from the front."""
        read = {name for step in self.steps for name in step.tensors} | {output, *self.leaves}
        for name in [
            name for name, (_, made) in self.made.items() if made.kind is DtypeKind.WHOLE and name not in read
        ]:
            del self.made[name]

    def want(self, found: Meaning, statement: PythonStatement) -> None:
        """A gradient by what ``statement`` gives a name, which has to be numbers that the text makes."""
        if not isinstance(found, Ref) or found.name not in self.made:
            raise computed_leaf_error(statement)
        self.leaves.add(found.name)
        own, _ = self.made[found.name]
        if own.seed is not None:
            self.remarks[f"{found.name} is {own.code}, drawn once with NumPy's generator, seed {own.seed}"] = None

    def known(self, operand: StepOperand) -> StepOperand:
        """An infinity, NaN or −0 beside tensors as data: no formula has them as numbers, which would lose ∞·0."""
        told = isinstance(operand.meaning, Ref) or str(operand.meaning) != "-0.0"
        if told and not is_infinite_or_nan(operand.meaning):
            return operand
        value = float(cast(float, operand.meaning))
        word = "nan" if math.isnan(value) else "inf"
        code = f"torch.tensor({'-' * (value == -math.inf)}torch.{word})" if value else "torch.tensor(-0.0)"
        fill = LiteralTensor((), lambda *_: np.array(value))
        return replace(operand, meaning=self.make(fill, code))

    def fresh_name(self) -> str:
        """t1, t2, … as far as they are free."""
        while True:
            self.count += 1
            name = f"t{self.count}"
            if name not in self.used and name not in self.kept:
                return name

    def claim(self, name: str | None = None) -> str:
        """``name`` if it is free, else ``name_2``, ``name_3``, …, or a `fresh_name`: it is taken from here on."""
        found = self.fresh_name() if name is None else self.used.first_free(name, self.kept)
        self.used.add(found)
        return found

    def apply(
        self,
        op: Op,
        operands: Sequence[StepOperand],
        options: Mapping[str, Hashable],
        span: Span | None,
        label: str | None = None,
        name: str | None = None,
        chosen: Collection[str] = (),
    ) -> Ref:
        """The result of one operation, as a new step (after those that broadcast its operands).

        ``label`` is what the user calls it, ``name`` what the result should be called, ``chosen`` the options
        that the user wrote: the table is made for sensible ones, so what it trips over with others is refused.
        """
        label = label or op.name
        operands = [self.known(operand) for operand in operands]
        beyond = [n for n, value in options.items() if is_infinite_or_nan(value) and n not in LENGTHS]
        if beyond:
            raise InputError(f"{beyond[0]} of {label} has to be finite", span=span, found=(str(options[beyond[0]]),))
        shapes = tuple(None if o.shape is None else self.literal(self.sizes.shape(o.shape)) for o in operands)
        try:
            ruled = resolve_shapes(op, self.sizes, shapes, [isinstance(o.meaning, Ref) for o in operands], options)
            arguments = [self.aligned(o, t, span) for o, t in zip(operands, ruled.targets, strict=True)]
            shape = self.literal(ruled.shape)
        except SizeMismatch as error:
            found = [(o.text, o.meaning.shape) for o in operands if isinstance(o.meaning, Ref)]
            raise mismatch_error(error, label, found, self.inputs, self.sizes, span or (0, 0)) from None
        except SymgradError as error:
            raise self.placed(error, operands, span) from None
        except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
            self.check_ranks(op, operands, label, span)
            if not chosen:
                told = list_shapes([(o.text, o.shape or ()) for o in operands], self.sizes)
                raise bug(f"{op.name} cannot take these operands: {told}") from error
            written = ", ".join(f"{key}={options[key]!r}" for key in chosen)
            raise InputError(f"{label} cannot take these options", span=span, found=(written,)) from error
        if len(shape) > MOST_AXES:
            raise UnsupportedError(f"{label} would have {len(shape)} axes, more than {MOST_AXES}", span=span)
        for size in shape:
            self.check_whole(size, label, span)
        names = tuple(a.name if isinstance(a, Ref) else Constant(a) for a in arguments)
        result = self.add(op, names, ruled.options, shape, span, name)
        if op.saved.auxiliaries:
            self.pending.append((len(self.steps) - 1, op, [*arguments, result]))
            if len(self.pending) == 1:
                self.put_beside()
        return result

    def put_beside(self) -> None:
        """Steps for what derivatives read beside operands and outputs; what those read in turn comes after them."""
        try:
            while self.pending:
                place, op, arguments = self.pending[0]
                caller, found = EntryCaller(self, self.steps[place].span, None), []
                for key, recipe in op.saved.auxiliaries.items():
                    entry, operands, options = recipe(caller, *arguments)
                    found.append((key, caller.last(entry, operands, options, key).name))
                self.steps[place] = replace(self.steps[place], beside=tuple(found))
                self.pending.pop(0)
        finally:
            self.pending.clear()

    def check_ranks(self, op: Op, operands: Sequence[StepOperand], label: str, span: Span | None) -> None:
        """Refuse operands with another number of axes than the table expects; what it trips over is its say."""
        for name, operand in zip(op.operands, operands, strict=False):
            ranks = op.ranks.get(name, ())
            if ranks and operand.shape is not None and len(operand.shape) not in ranks:
                expected = " or ".join(map(str, sorted(ranks)))
                complaint = ShapeError(f"{label} takes a tensor with {expected} axes here, not {len(operand.shape)}")
                raise self.placed(complaint, operands, span) from None

    def check_whole(self, size: Size, label: str, span: Span | None) -> None:
        """Refuse a size that is no whole number, and note what an unknown one has to be a multiple of."""
        if size.is_Symbol:
            return
        value = fill_sizes(size, self.sizes.values())
        if value.free_symbols:
            self.sizes.whole(size)
        elif not (value.is_Integer and value >= 0):
            raise ShapeError(f"{label} would give an axis of size {value}", span=span)

    def placed(self, error: SymgradError, operands: Sequence[StepOperand], span: Span | None) -> SymgradError:
        """``error`` of the table with its place and the shapes it is about."""
        error.span = error.span or span
        tensors = [(o.text, o.meaning.shape) for o in operands if isinstance(o.meaning, Ref)]
        if isinstance(error, ShapeError) and tensors:
            error.found = (*error.found, list_shapes(tensors, self.sizes))
        return error

    def aligned(self, operand: StepOperand, target: Shape | None, span: Span | None) -> Ref | Number | None:
        """``operand`` broadcast to ``target`` where it has another shape; a number fits everywhere."""
        meaning = operand.meaning
        if not isinstance(meaning, Ref):
            return meaning
        wanted = self.sizes.shape(target or ())
        if self.sizes.shape(meaning.shape) == wanted:
            return meaning
        return self.add(role_entry(Role.COPIES), (meaning.name,), {"shape": wanted}, wanted, span, None)

    def literal(self, shape: Shape) -> Shape:
        """``shape`` with 0 and 1 as numbers where a computed size comes to that: 1 broadcasts, 0 is empty.

        What it was computed from is then what it is here: for no other sizes is it 0 or 1.
        """
        for size in shape:
            if not size.is_Integer and self.sizes.number(size) in (0, 1):
                self.sizes.fix(size)
        return self.sizes.shape(shape)

    def add(
        self,
        op: Op,
        arguments: tuple[Argument, ...],
        options: Mapping[str, Hashable],
        shape: Shape,
        span: Span | None,
        name: str | None,
    ) -> Ref:
        """Append a step."""
        result = self.claim(name)
        frozen = tuple(sorted((key, make_hashable(value)) for key, value in options.items()))
        self.steps.append(Apply(op.operation, arguments, frozen, Tensor(result, shape), span))
        return Ref(result, shape)

    def step_of(self, name: str) -> Apply | None:
        """The step whose result is called ``name``."""
        return next((step for step in reversed(self.steps) if step.result.name == name), None)

    def shape_of(self, name: str) -> Shape:
        """The shape of an input, of a tensor that the text makes, or of a result."""
        step = self.step_of(name)
        if step is not None:
            return step.result.shape
        return self.made[name][1].shape if name in self.made else self.inputs[name]

    def renamed(self, ref: Ref, name: str) -> Ref | None:
        """The last step's result under another name; None where ``ref`` is not that."""
        if not self.steps or self.steps[-1].result.name != ref.name:
            return None
        last = self.steps[-1]
        self.used.free((ref.name,))
        self.count -= 1
        self.steps[-1] = replace(last, result=replace(last.result, name=self.claim(name)))
        return replace(ref, name=self.steps[-1].result.name)

    def settled(self, letters: Mapping[Size, Size]) -> tuple[Apply, ...]:
        """The steps with every size as its representative, and that in new ``letters``."""
        final = partial(map_sizes, change=lambda size: self.sizes.find(size).xreplace(letters))
        return tuple(
            replace(
                step,
                arguments=tuple(Constant(final(a.value)) if isinstance(a, Constant) else a for a in step.arguments),
                options=tuple((key, final(value)) for key, value in step.options),
                result=Tensor(step.result.name, final(step.result.shape)),
            )
            for step in self.steps
        )


@dataclass(frozen=True)
class EntryCaller:
    """Applies entries of the table by name: what compounds (`symgrad.ops.calls`) and recipes are written in."""

    builder: StepBuilder
    span: Span | None
    settled: Callable[[Size, Span], int] | None

    def __call__(self, name: str | Op, *operands: Any, **options: Any) -> Ref:
        """The result of one entry."""
        return self.last(name, operands, options, None)

    def last(self, name: str | Op, operands: Sequence[Any], options: Mapping[str, Any], wish: str | None) -> Ref:
        """The same, under the name ``wish``; what torch keeps as truth values or whole numbers stays that."""
        op, chosen = entry_named(name), {**entry_named(name).defaults, **options}
        type_ = result_type(op, [operand_type(operand) for operand in operands], chosen)
        described = [StepOperand(operand, op.name) for operand in operands]
        written = tuple(options) if self.settled is not None else ()  # by the author of a text: they may make no sense
        return replace(self.builder.apply(op, described, chosen, self.span, name=wish, chosen=written), **type_)

    def number(self, size: Size) -> int | None:
        """A size as a number, None where it is open."""
        return self.builder.sizes.number(size)

    def whole(self, size: Size) -> int:
        """A size as a number, and from here on no other; ``settled`` gives one to what is open."""
        number = self.number(size)
        if number is not None:
            self.builder.sizes.fix(size)
            return number
        if self.settled is None:
            raise UnsupportedError(
                "this needs a size that is known", span=self.span, hints=("give the tensor a shape",)
            )
        return self.settled(size, self.span or (0, 0))


def make_hashable(value: Any) -> Hashable:
    """Lists as tuples."""
    return tuple(make_hashable(v) for v in value) if isinstance(value, (list, tuple)) else value
