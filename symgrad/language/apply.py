"""Entries of the table applied to what a text stands for: an operation, a call, or one of a call's results.

Comes in: an entry, or a call that is several entries of the table or gives several results, and what stands between its
brackets. Goes out: the last step, its arguments bound and checked; how many results there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symgrad.entries.spec import Op, is_operand
from symgrad.errors import InputError, NotationError, ShapeError, Span, SymgradError, UnsupportedError
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
    apply_complex_compound,
    apply_complex_step,
    find_complex_rule,
    involves_complex,
    is_complex_ref,
    to_torch_shape,
)
from symgrad.language.constants import FUNCTIONS, apply_to_constant, is_scalar
from symgrad.language.dtypes import DtypeKind, result_type
from symgrad.language.sizes import LARGEST_GUESS, SizeQueries, visible_shape
from symgrad.ops.calls.registry import Compound, Last, in_front
from symgrad.ops.lookup import TORCHS, entry_named, find, short_spelling
from symgrad.program import Role
from symgrad.shapes import Size


def split_arguments(parts: CallResults) -> tuple[list[Any], dict[str, Any]]:
    """What stands between the brackets, by position and by keyword."""
    positional = [a.meaning for a in parts.arguments if a.keyword is None]
    return positional, {a.keyword: a.meaning for a in parts.arguments if a.keyword is not None}


def rename_arguments(parts: CallResults) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same by the names that the call has here, with its first tensor in front."""
    positional, keywords = in_front(*split_arguments(parts))
    names = list(parts.op.signature.parameters)
    renamed = {resolve_keyword(names, key, names[: len(positional)]) or key: value for key, value in keywords.items()}
    if not positional and names[0] in renamed:
        positional = (renamed.pop(names[0]),)
    return positional, renamed


def find_last_step(
    compound: Compound, parts: CallResults, place: int, caller: EntryCaller, span: Span, known: bool
) -> Last | None:
    """The last step of one of the call's results; None where the table's own entry of that name is meant.

    ``known`` says whether there is such an entry: then arguments that do not fit the compound are its business.
    """
    spelled = parts.spelled.removeprefix("Tensor.")
    try:
        return find_fitting_step(compound, parts, place, caller, span, known)
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
        form = f"{spelled}{compound.signature}"  # compounds are made for sensible arguments
        raise InputError(f"{spelled} cannot take these arguments", span=span, hints=(form,)) from error


def find_fitting_step(
    compound: Compound, parts: CallResults, place: int, caller: EntryCaller, span: Span, known: bool
) -> Last | None:
    """The same, of arguments that make sense."""
    spelled = parts.spelled.removeprefix("Tensor.")
    positional, keywords = rename_arguments(parts)
    problem = explain_misfit(compound, positional, keywords)
    if not problem:
        check_declared_kinds(compound, spelled, positional, keywords, span)
    of_pairs = not problem and has_complex((*positional, *keywords.values()))
    if of_pairs or compound.pairs:
        positional, keywords = (
            to_torch_shape(positional),
            {key: to_torch_shape(value) for key, value in keywords.items()},
        )
    count = count_compound_results(compound, parts, caller) if compound.several and not problem else None
    if count is not None and place >= count:
        raise ShapeError(f"{spelled} gives {count} tensor{'s' * (count != 1)} here", span=span)
    if problem and not known:
        raise NotationError(f"{spelled}: {problem}", span=span, hints=(f"{spelled}{compound.signature}",))
    given = (*positional, *keywords.values())
    if of_pairs and known:
        return None
    if of_pairs and compound.matrices:
        raise UnsupportedError(f"{spelled} of complex tensors is not supported yet", span=span, hints=(HINT,))
    last = None if problem else compound.steps(caller, place, *positional, **keywords)
    if (
        last is not None
        and compound.reals
        and any(getattr(t, "kind", DtypeKind.REAL) is not DtypeKind.REAL for t in given)
    ):
        raise UnsupportedError("integers and booleans are not supported here", hints=("1.0 * x",))
    return last


def drop_compound_options(compound: Compound, entry: Op, parts: CallResults) -> list[Argument]:
    """The arguments of a call that comes to the table's own entry, without the options that only other steps have.

    ``torch.add(x, y, alpha=1)`` is ``x + y``. Those that do not fit the call are left for the entry to complain of.
    """
    positional, keywords = rename_arguments(parts)
    if explain_misfit(compound, positional, keywords):
        return list(parts.arguments)
    names = iter(compound.signature.parameters)
    by_name = [(argument.keyword or next(names), argument) for argument in parts.arguments]
    return [
        argument
        for name, argument in by_name
        if isinstance(argument.meaning, (Ref, tuple)) or resolve_keyword(entry.signature.parameters, name) is not None
    ]


ANY = (Any, Any | None)
"""Kinds that ask nothing of an argument."""


def check_declared_kinds(
    compound: Compound, spelled: str, positional: tuple[Any, ...], keywords: dict[str, Any], span: Span
) -> None:
    """Refuse arguments of another kind than the compound declares; ``any`` admits everything."""
    if compound.declared is None:
        return
    form, parameters = (f"{spelled}{compound.signature}",), compound.declared.parameters
    for name, meaning in compound.declared.bind(*positional, **keywords).arguments.items():
        argument = Argument(meaning, span)
        kind = parameters[name].annotation
        if kind in ANY:
            continue
        if not is_operand(kind):
            check_option(spelled, parameters[name], argument, form)
        elif meaning is not None or parameters[name].default is not None:
            check_operand(spelled, name, argument, form)


def has_complex(given: Any) -> bool:
    """Whether a complex tensor is among arguments, or in a list among them."""
    return any(has_complex(part) for part in given) if isinstance(given, (tuple, list)) else is_complex_ref(given)


def count_compound_results(compound: Compound, parts: CallResults, caller: EntryCaller) -> int:
    """How many tensors the call gives."""
    positional, keywords = rename_arguments(parts)
    if compound.count is None:
        return len(compound.fields)
    return compound.count(
        caller, *to_torch_shape(positional), **{key: to_torch_shape(value) for key, value in keywords.items()}
    )


def count_results(parts: CallResults, extents: SizeQueries, builder: StepBuilder, span: Span) -> int | None:
    """The number of results; None where this is not known. The size of the axis that is cut becomes a number."""
    if isinstance(parts.op, Compound):
        return count_compound_results(parts.op, parts, EntryCaller(builder, span, extents.whole))
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


def explain_misfit(compound: Compound, positional: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Why the arguments are not the compound's; nothing where they are."""
    beside = len(positional) > 1 and is_scalar(positional[0]) and isinstance(positional[1], Ref)  # 5 // x
    if not beside and (not positional or not isinstance(positional[0], (Ref, tuple))):
        return "its first argument has to be a tensor"
    try:
        compound.signature.bind(*positional, **keywords)
    except TypeError as error:
        return str(error)
    return ""


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
            return apply_complex_step(self.builder, op, described, options, span, label, name, self.whole)
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
        if "values" in op.spelling.returns and bound.options.get("dim", 0) is not None:
            return replace(result, pair=True)
        return result

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
        entry, caller = find(parts.spelled), EntryCaller(self.builder, span, self.whole)
        positional, keywords = rename_arguments(parts)
        if entry is None and find_complex_rule(compound.name) and has_complex((*positional, *keywords.values())):
            return apply_complex_compound(self.builder, compound.name, positional, keywords, span, name, self.whole)
        if compound.pairs or has_complex((*positional, *keywords.values())):
            caller = ComplexEntryCaller(self.builder, span, self.whole)
        before = len(self.builder.steps)
        last = place_errors(span, lambda: find_last_step(compound, parts, place, caller, span, entry is not None))
        if last is not None:
            found = self.handed_on(last, name) if len(self.builder.steps) > before else None
            return found or caller.last(last[0], last[1], last[2], name)
        if entry is not None:
            return self.call(entry, parts.spelled, drop_compound_options(compound, entry, parts), span, name)
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
            hints: tuple[str, ...] = (f"{said}.values",)
            if along:
                hints = (f"{said}.values, or {along.name}", "compared with 0: clamp(x, min=0)")
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


def place_errors(span: Span, compute: Callable[[], Meaning]) -> Meaning:
    """The result of ``compute``, its errors placed at ``span``."""
    try:
        return compute()
    except SymgradError as error:
        error.span = error.span or span
        raise
