"""A call that is several entries of the table, or gives several results: its arguments bound, its last step found."""

from __future__ import annotations

from typing import Any

from symgrad.entries.spec import Op, is_operand
from symgrad.errors import InputError, NotationError, ShapeError, Span, UnsupportedError
from symgrad.language.outside.constants import is_number
from symgrad.language.steps.builder import Caller
from symgrad.language.steps.calls import Argument, Parts, Ref, operand, option, parameter_name
from symgrad.language.steps.complex_halves import HINT, is_complex, seen
from symgrad.language.steps.kinds import Kind
from symgrad.ops.calls.registry import Compound, Last, in_front


def as_they_stand(parts: Parts) -> tuple[list[Any], dict[str, Any]]:
    """What stands between the brackets, by position and by keyword."""
    positional = [a.meaning for a in parts.arguments if a.keyword is None]
    return positional, {a.keyword: a.meaning for a in parts.arguments if a.keyword is not None}


def arguments_of(parts: Parts) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The same by the names that the call has here, with its first tensor in front."""
    positional, keywords = in_front(*as_they_stand(parts))
    names = list(parts.op.signature.parameters)
    renamed = {parameter_name(names, key, names[: len(positional)]) or key: value for key, value in keywords.items()}
    if not positional and names[0] in renamed:
        positional = (renamed.pop(names[0]),)
    return positional, renamed


def last_step(compound: Compound, parts: Parts, place: int, caller: Caller, span: Span, known: bool) -> Last | None:
    """The last step of one of the call's results; None where the table's own entry of that name is meant.

    ``known`` says whether there is such an entry: then arguments that do not fit the compound are its business.
    """
    spelled = parts.spelled.removeprefix("Tensor.")
    try:
        return fitting_step(compound, parts, place, caller, span, known)
    except (TypeError, ValueError, AttributeError, ArithmeticError, LookupError) as error:
        form = f"{spelled}{compound.signature}"  # compounds are made for sensible arguments
        raise InputError(f"{spelled} cannot take these arguments", span=span, hints=(form,)) from error


def fitting_step(compound: Compound, parts: Parts, place: int, caller: Caller, span: Span, known: bool) -> Last | None:
    """The same, of arguments that make sense."""
    spelled = parts.spelled.removeprefix("Tensor.")
    positional, keywords = arguments_of(parts)
    problem = unfit(compound, positional, keywords)
    if not problem:
        check_kinds(compound, spelled, positional, keywords, span)
    of_pairs = not problem and holds_complex((*positional, *keywords.values()))
    if of_pairs or compound.pairs:
        positional, keywords = seen(positional), {key: seen(value) for key, value in keywords.items()}
    count = results_of(compound, parts, caller) if compound.several and not problem else None
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
    if last is not None and compound.reals and any(getattr(t, "kind", Kind.REAL) is not Kind.REAL for t in given):
        raise UnsupportedError("this is not supported of whole numbers and truth values", hints=("1.0 * x",))
    return last


def as_the_entry_has_them(compound: Compound, entry: Op, parts: Parts) -> list[Argument]:
    """The arguments of a call that comes to the table's own entry, without the options that only other steps have.

    ``torch.add(x, y, alpha=1)`` is ``x + y``. Those that do not fit the call are left for the entry to complain of.
    """
    positional, keywords = arguments_of(parts)
    if unfit(compound, positional, keywords):
        return list(parts.arguments)
    names = iter(compound.signature.parameters)
    by_name = [(argument.keyword or next(names), argument) for argument in parts.arguments]
    return [
        argument
        for name, argument in by_name
        if isinstance(argument.meaning, (Ref, tuple)) or parameter_name(entry.signature.parameters, name) is not None
    ]


ANY = (Any, Any | None)
"""Kinds that ask nothing of an argument."""


def check_kinds(
    compound: Compound, spelled: str, positional: tuple[Any, ...], keywords: dict[str, Any], span: Span
) -> None:
    """Refuse arguments that are not of the kind that is declared, as `bind` does an entry's; ``any`` is not asked."""
    if compound.declared is None:
        return
    form, parameters = (f"{spelled}{compound.signature}",), compound.declared.parameters
    for name, meaning in compound.declared.bind(*positional, **keywords).arguments.items():
        argument = Argument(meaning, span)
        kind = parameters[name].annotation
        if kind in ANY:
            continue
        if not is_operand(kind):
            option(spelled, parameters[name], argument, form)
        elif meaning is not None or parameters[name].default is not None:
            operand(spelled, name, argument, form)


def holds_complex(given: Any) -> bool:
    """Whether a complex tensor is among arguments, or in a list among them."""
    return any(holds_complex(part) for part in given) if isinstance(given, (tuple, list)) else is_complex(given)


def results_of(compound: Compound, parts: Parts, caller: Caller) -> int:
    """How many tensors the call gives."""
    positional, keywords = arguments_of(parts)
    if compound.count is None:
        return len(compound.fields)
    return compound.count(caller, *seen(positional), **{key: seen(value) for key, value in keywords.items()})


def unfit(compound: Compound, positional: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Why the arguments are not the compound's; nothing where they are."""
    beside = len(positional) > 1 and is_number(positional[0]) and isinstance(positional[1], Ref)  # 5 // x
    if not beside and (not positional or not isinstance(positional[0], (Ref, tuple))):
        return "begins with a tensor"
    try:
        compound.signature.bind(*positional, **keywords)
    except TypeError as error:
        return str(error)
    return ""
