"""Entries of the table applied to what a text stands for: an operation, a call, or one of a call's results.

Comes in: an entry, or a call that is several entries of the table or gives several results, and what stands between its
brackets. Goes out: the last step, its arguments bound and checked; how many results there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symgrad.entries.spec import TORCHS, Op, is_operand
from symgrad.errors import InputError, NotationError, ShapeError, Span, UnsupportedError, place_errors
from symgrad.language.binding import (
    Argument,
    CallResults,
    Meaning,
    Ref,
    bind_arguments,
    check_operand,
    check_option,
    operand_type,
    resolve_keyword,
)
from symgrad.language.builder import EntryCaller, StepBuilder, StepOperand
from symgrad.language.complaints import quote_span, unknown_function_error
from symgrad.language.complex_steps import (
    HINT,
    ComplexEntryCaller,
    ComplexPairs,
    find_complex_rule,
    involves_complex,
    is_complex_ref,
    to_torch_shape,
)
from symgrad.language.constants import FUNCTIONS, apply_to_constant, is_scalar
from symgrad.language.dtypes import DtypeKind, result_type
from symgrad.language.sizes import LARGEST_GUESS, SizeQueries, visible_shape
from symgrad.ops.calls.registry import Compound, Last, in_front
from symgrad.ops.lookup import basics, entry_named, find, short_spelling
from symgrad.program import Role
from symgrad.shapes import Size

ANY = (Any, Any | None)
"""Kinds that ask nothing of an argument."""


def has_complex(given: Any) -> bool:
    """Whether a complex tensor is among arguments, or in a list among them."""
    return any(has_complex(part) for part in given) if isinstance(given, (tuple, list)) else is_complex_ref(given)


@dataclass(frozen=True)
class CompoundCall:
    """A call that is several entries: its arguments by the names that it has here, the first tensor in front."""

    compound: Compound
    spelled: str
    written: Sequence[Argument]
    positional: tuple[Any, ...]
    keywords: dict[str, Any]

    @classmethod
    def of(cls, compound: Compound, parts: CallResults) -> CompoundCall:
        """The call that ``parts`` come from."""
        keywords = {a.keyword: a.meaning for a in parts.arguments if a.keyword is not None}
        positional, keywords = in_front([a.meaning for a in parts.arguments if a.keyword is None], keywords)
        names = list(compound.signature.parameters)
        renamed = {resolve_keyword(names, k, names[: len(positional)]) or k: value for k, value in keywords.items()}
        if not positional and names[0] in renamed:
            positional = (renamed.pop(names[0]),)
        return cls(compound, parts.spelled.removeprefix("Tensor."), parts.arguments, positional, renamed)

    @property
    def given(self) -> tuple[Any, ...]:
        """The arguments without their names."""
        return (*self.positional, *self.keywords.values())

    @property
    def form(self) -> str:
        """How the call is written."""
        return f"{self.spelled}{self.compound.signature}"

    def in_torch_shape(self) -> CompoundCall:
        """The same with tensors as torch sees them."""
        keywords = {key: to_torch_shape(value) for key, value in self.keywords.items()}
        return replace(self, positional=to_torch_shape(self.positional), keywords=keywords)

    def count(self, caller: EntryCaller) -> int:
        """How many tensors the call gives."""
        if self.compound.count is None:
            return len(self.compound.fields)
        seen = self.in_torch_shape()
        return self.compound.count(caller, *seen.positional, **seen.keywords)

    def last_step(self, place: int, caller: EntryCaller, span: Span, known: bool) -> Last | None:
        """The last step of one of the call's results; None where the table's own entry of that name is meant.

        ``known`` says whether there is such an entry: then arguments that do not fit the compound are its business.
        """
        try:
            return self.fitting_step(place, caller, span, known)
        except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
            told = f"{self.spelled} cannot take these arguments"  # compounds are made for sensible ones
            raise InputError(told, span=span, hints=(self.form,)) from error

    def fitting_step(self, place: int, caller: EntryCaller, span: Span, known: bool) -> Last | None:
        """The same, of arguments that make sense."""
        compound, problem = self.compound, self.misfit()
        if problem:
            if known:
                return None
            raise NotationError(f"{self.spelled}: {problem}", span=span, hints=(self.form,))
        self.check_kinds(span)
        of_pairs = has_complex(self.given)
        seen = self.in_torch_shape() if of_pairs or compound.pairs else self
        count = seen.count(caller) if compound.several else None
        if count is not None and place >= count:
            raise ShapeError(f"{self.spelled} gives {count} tensor{'s' * (count != 1)} here", span=span)
        if of_pairs and known:
            return None
        if of_pairs and compound.matrices:
            told = f"{self.spelled} of complex tensors is not supported yet"
            raise UnsupportedError(told, span=span, hints=(HINT,))
        last = compound.steps(caller, place, *seen.positional, **seen.keywords)
        whole = compound.reals and any(getattr(t, "kind", DtypeKind.REAL) is not DtypeKind.REAL for t in seen.given)
        if last is not None and whole:
            raise UnsupportedError("integers and booleans are not supported here", hints=("1.0 * x",))
        return last

    def without_own_options(self, entry: Op) -> list[Argument]:
        """The arguments of a call that comes to the table's ``entry``, without the options that only other steps have.

        ``torch.add(x, y, alpha=1)`` is ``x + y``. Those that do not fit the call are left for the entry to complain of.
        """
        if self.misfit():
            return list(self.written)
        names = iter(self.compound.signature.parameters)
        parameters, by_name = entry.signature.parameters, [(a.keyword or next(names), a) for a in self.written]
        return [
            argument
            for name, argument in by_name
            if isinstance(argument.meaning, (Ref, tuple)) or resolve_keyword(parameters, name) is not None
        ]

    def check_kinds(self, span: Span) -> None:
        """Refuse arguments of another kind than the compound declares; ``any`` admits everything."""
        if self.compound.declared is None:
            return
        declared = self.compound.declared()
        for name, meaning in declared.bind(*self.positional, **self.keywords).arguments.items():
            argument, parameter = Argument(meaning, span), declared.parameters[name]
            if parameter.annotation in ANY:
                continue
            if not is_operand(parameter.annotation):
                check_option(self.spelled, parameter, argument, (self.form,))
            elif meaning is not None or parameter.default is not None:
                check_operand(self.spelled, name, argument, (self.form,))

    def misfit(self) -> str:
        """Why the arguments are not the compound's; nothing where they are."""
        first, *others = self.positional or (None,)
        beside = is_scalar(first) and isinstance(next(iter(others), None), Ref)  # 5 // x
        if not beside and not isinstance(first, (Ref, tuple)):
            return "its first argument has to be a tensor"
        try:
            self.compound.signature.bind(*self.positional, **self.keywords)
        except TypeError as error:
            return str(error)
        return ""


def count_results(parts: CallResults, extents: SizeQueries, builder: StepBuilder, span: Span) -> int | None:
    """The number of results; None where this is not known. The size of the axis that is cut becomes a number."""
    if isinstance(parts.op, Compound):
        return CompoundCall.of(parts.op, parts).count(EntryCaller(builder, span, extents.whole))
    arguments = [*parts.arguments, Argument(0, span, "part")]
    bound = bind_arguments(parts.op, parts.spelled, arguments, span)
    tensor, dim = bound.operands[0][0], bound.options["dim"]
    shape = visible_shape(tensor) if isinstance(tensor, Ref) else ()
    if not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return None
    length = bound.options.get("split_size_or_sections", 1)
    chunks = bound.options.get("chunks")
    each = chunks if isinstance(chunks, int) else length
    wanted = sum(length) if isinstance(length, tuple) else 2 * each if isinstance(each, int) else None
    if extents.sizes.number(shape[dim]) is None and not extents.symbolic and isinstance(wanted, int):
        if wanted > LARGEST_GUESS:
            raise ShapeError("this needs a tensor whose shape is given", span=span)
        extents.assume(shape[dim], max(wanted, 1))
    if isinstance(length, tuple):
        return len(length)
    size = extents.whole(shape[dim], span)
    if isinstance(chunks, int) and chunks > 0:
        length = -(-size // chunks)
    return -(-size // length) if isinstance(length, int) and length > 0 and size > 0 else None


@dataclass(frozen=True)
class EntryApplier:
    """Appends steps to ``builder``; complaints quote ``text``; ``whole`` makes an open size a number."""

    text: str
    builder: StepBuilder
    whole: Callable[[Size, Span], int]

    def step(
        self,
        op: Op,
        operands: list[tuple[Any, Span]],
        options: Mapping[str, Hashable],
        span: Span,
        label: str,
        name: str | None,
        chosen: tuple[str, ...] = (),
    ) -> Ref:
        """One operation of the table; ``chosen`` are the options that the text gives."""
        described = [StepOperand(meaning, quote_span(self.text, where)) for meaning, where in operands]
        if involves_complex(op, described, label):
            pairs = ComplexPairs(self.builder, span, self.whole, op, described, label)
            return pairs.step(options, name)
        type_ = place_errors(span, lambda: result_type(op, [operand_type(meaning) for meaning, _ in operands], options))
        return replace(self.builder.apply(op, described, options, span, label, name, chosen), **type_)

    def call(self, op: Op, spelled: str, arguments: list[Argument], span: Span, name: str | None) -> Meaning:
        """The step for a call, or the number it comes to when it holds no tensor."""
        method, whole, spelled = spelled.startswith("Tensor."), short_spelling(spelled), spelled.removeprefix("Tensor.")
        tensors = [a for a in arguments if isinstance(a.meaning, Ref)]
        if op.spelling.between_two and len(tensors) > 1:
            op = entry_named(op.spelling.between_two)
        if op.traits.role is Role.INDEXES:
            raise NotationError("indexing is written with brackets", span=span, hints=("x[0]",))
        if "part" in op.spelling.returns and not any(a.keyword == "part" for a in arguments):
            return CallResults(op, spelled, tuple(arguments))
        if whole in op.spelling.implied_axis:  # dim=None leaves it out
            arguments = [a for a in arguments if a.keyword != "dim" or a.meaning is not None]
        bound = bind_arguments(op, spelled, [*arguments, *self.unsaid(op, whole, tensors, arguments)], span, method)
        if whole.startswith(TORCHS):
            check_torch_options(op, spelled, arguments, bound.chosen, span)
        operands: list[tuple[Any, Span]] = []
        for meaning, where in bound.operands:
            operands.append((self.tensor(meaning, where) if isinstance(meaning, Ref) else meaning, where))
        if not any(isinstance(meaning, Ref) for meaning, _ in operands):
            if op.name in FUNCTIONS and len(operands) == 1 and not bound.chosen:
                return place_errors(span, lambda: apply_to_constant(op.name, operands[0][0]))
            raise NotationError(
                f"{spelled} contains no tensor, only numbers", span=span, hints=("compute the number and write it",)
            )
        result = self.step(op, operands, bound.options, span, spelled, name, bound.chosen)
        return replace(result, pair=True) if op.returns_pair(bound.options) else result

    def unsaid(
        self, op: Op, spelled: str, tensors: Sequence[Argument], arguments: Sequence[Argument]
    ) -> list[Argument]:
        """The axis that a call of torch's own goes along where the text names none, and that is not the table's."""
        if spelled not in op.spelling.implied_axis or not tensors or len(arguments) > len(tensors):
            return []
        sizes = [self.builder.sizes.number(size) for size in tensors[0].meaning.shape]
        return [Argument(op.spelling.implied_axis[spelled](sizes), tensors[0].span, "dim")]

    def part(self, parts: CallResults, place: int, span: Span, name: str | None) -> Meaning:
        """One of the results of a call that gives several."""
        if not isinstance(parts.op, Compound):
            chosen = Argument(place, span, "part")
            return self.call(parts.op, parts.spelled, [*parts.arguments, chosen], span, name)
        return self.compound(parts.op, parts, place, span, name)

    def compound(self, compound: Compound, parts: CallResults, place: int, span: Span, name: str | None) -> Meaning:
        """The steps of a call that is several entries of the table."""
        entry, call = find(parts.spelled), CompoundCall.of(compound, parts)
        of_pairs = has_complex(call.given)
        if entry is None and find_complex_rule(compound.name) and of_pairs:
            flat = [part for given in call.positional for part in (given if isinstance(given, tuple) else (given,))]
            operands, word = [StepOperand(part, compound.name) for part in flat], compound.name
            pairs = ComplexPairs(self.builder, span, self.whole, basics.norm, operands, word)
            return pairs.by_rule(word, call.positional, call.keywords, name) or pairs.refuse()
        kind = ComplexEntryCaller if compound.pairs or of_pairs else EntryCaller
        caller, before = kind(self.builder, span, self.whole), len(self.builder.steps)
        last = place_errors(span, lambda: call.last_step(place, caller, span, entry is not None))
        if last is not None:
            found = self.handed_on(last, name) if len(self.builder.steps) > before else None
            return found or caller.last(last[0], last[1], last[2], name)
        if entry is not None:
            return self.call(entry, parts.spelled, call.without_own_options(entry), span, name)
        raise unknown_function_error(parts.spelled, span, is_tensor=False)  # F.dropout in training

    def handed_on(self, last: Last, name: str | None) -> Ref | None:
        """The step before the last one, under the name of the whole, where the last only hands its result on."""
        word, operands, _ = last
        if entry_named(word).traits.role is not Role.HANDS_ON or name is None or not isinstance(operands[0], Ref):
            return None
        return self.builder.renamed(operands[0], name)

    def tensor(self, value: Ref, span: Span) -> Ref:
        """``value``, unless it is torch's pair of values and indices."""
        if value.pair:
            said = quote_span(self.text, span)
            along = find("a" + said.partition("(")[0].rpartition(".")[2])
            hints: tuple[str, ...] = (f"{said}[0]",)
            if along:
                hints = (f"{said}[0], or {along.name}", "compared with 0: clamp(x, min=0)")
            raise NotationError("torch returns values and indices here, not one tensor", span=span, hints=hints)
        return value


def check_torch_options(
    op: Op, spelled: str, arguments: Sequence[Argument], chosen: Collection[str], span: Span
) -> None:
    """Refuse a call of torch's own without an option that torch wants, though the table has a value for it.

    NumPy, which keeps axes by ``keepdims``, keeps all of them where none is named.
    """
    beside = [a.keyword for a in arguments if a.keyword and a.meaning is True]
    missing = [name for name in op.defaults if name not in chosen and op.is_required(name, beside)]
    if missing:
        given = "-1" if missing[0] == "dim" else "…"
        call = f"{spelled}({beside[0]}=True)" if beside else spelled
        raise NotationError(f"{call} needs {missing[0]}", span=span, hints=(f"{missing[0]}={given}",))


def choose_from_pair(owner: Ref, place: int, span: Span) -> Ref:
    """The values of torch's (values, indices)."""
    if place not in (0, -2):
        raise UnsupportedError("indices are integers, they have no derivative", span=span)
    return replace(owner, pair=False)
