"""Casts: ``x.float()``, ``x.to(torch.float64)``, ``x.type_as(y)``, ``x.sum(dtype=torch.float64)``.

All numbers have double precision here, so a cast to another float dtype leaves them as they are. A cast to integers
drops the fraction, a cast to bool compares with 0: neither has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from symgrad.errors import NotationError, UnknownNameError, UnsupportedError
from symgrad.language.apply import EntryApplier
from symgrad.language.binding import Meaning, Ref, describe_meaning
from symgrad.language.complaints import quote_span
from symgrad.language.constants import is_scalar
from symgrad.language.dtypes import DTYPES, NARROW, NO_TYPE, TYPED, UNREAD, DtypeKind, named_dtype
from symgrad.language.syntax_tree import Attribute, Literal, PythonCall, dotted_name
from symgrad.notation.tree import SyntaxNode
from symgrad.ops.calls.call_texts import SIGNS, TO_WHOLE
from symgrad.ops.lookup import entry_named

TYPES = ("double", "float", "half", "bfloat16", "long", "int", "bool")
"""Methods that are called after a type."""
MOVES = ("cpu", "cuda")
"""Methods after which the numbers are kept elsewhere."""
HALF = "3 digits, and nothing above 65,504"
SHORTER = {"float": "7 digits", "float32": "7 digits", "half": HALF, "float16": HALF, "bfloat16": "2 digits"}
"""Types that would keep fewer digits, and what they keep."""
Reader = Callable[[SyntaxNode], Meaning]
OPTIONS = ("copy", "non_blocking", "memory_format", "device")
"""What a cast may be told beside the type: nothing that changes a number."""


def is_cast(word: str) -> bool:
    """Whether a method so called changes the type, or where the numbers are kept."""
    return word in (*TYPES, *TYPED, *MOVES)


def apply_cast(
    apply: EntryApplier, owner: Meaning, node: PythonCall, word: str, meaning: Reader, name: str | None
) -> Ref:
    """``owner`` as the call of the method ``word`` makes it."""
    if not isinstance(owner, Ref):
        raise NotationError(f"{word} is a method of tensors, not of {describe_meaning(owner)}", span=node.span)
    kind, spelled = parse_cast_target(apply.tensor(owner, node.span), node, word, meaning)
    if kind is None:
        return owner
    if owner.complex:
        raise UnsupportedError(f"{word} of a complex tensor is not supported yet", span=node.span)
    if kind is DtypeKind.REAL:
        if spelled in SHORTER and owner.kind is DtypeKind.REAL:
            said = quote_span(apply.text, node.span)
            told = f"{said} does not round here: symgrad computes in double precision, torch would keep about "
            apply.builder.rounded[said] = apply.builder.remarks[f"{told}{SHORTER[spelled]}"] = None
        return replace(owner, kind=kind, few_bits="")
    few_bits = spelled if spelled in NARROW and kind is DtypeKind.WHOLE and spelled not in ("int", "int32") else ""
    if owner.kind <= kind:
        return replace(owner, kind=kind, few_bits=few_bits)
    operands = [(owner, node.span), *([(0, node.span)] if kind is DtypeKind.TRUTH else [])]
    step = apply.step(
        entry_named(SIGNS["!="] if kind is DtypeKind.TRUTH else TO_WHOLE), operands, {}, node.span, word, name
    )
    return replace(step, kind=kind, few_bits=few_bits)


def parse_cast_target(owner: Ref, node: PythonCall, word: str, meaning: Reader) -> tuple[DtypeKind | None, str]:
    """What the result holds, and the type as it is spelled; None where that stays as it is."""
    for keyword in node.keywords:
        if keyword.name not in (*OPTIONS, "dtype"):
            raise UnknownNameError(f"{word} has no argument {keyword.name}", span=keyword.span)
    if node.positional and word in TYPES:
        raise NotationError(f"{word} takes no dtype, it is one", span=node.span, hints=(f"x.{word}()",))
    told = named_dtype(node)
    if told is not None or word in TYPES:
        return DTYPES[told or word], told or word
    for part in node.positional:
        path = dotted_name(part) or (str(part.value) if isinstance(part, Literal) else "")
        spelled = path.rpartition(".")[2]
        if isinstance(part, Attribute) and spelled == "dtype":
            other = meaning(part.owner)
            return (other.kind if isinstance(other, Ref) else DtypeKind.REAL), spelled
        if spelled in DTYPES:
            return DTYPES[spelled], spelled
        if (isinstance(part, Literal) and not is_scalar(part.value)) or spelled in UNREAD:
            continue
        other = meaning(part)
        if not isinstance(other, Ref):
            raise NotationError(f"{word} takes a dtype, not {describe_meaning(other)}", span=part.span, hints=NO_TYPE)
        return other.kind, "dtype"
    if word in TYPED and not node.positional and not node.keywords:
        raise NotationError(f"{word} needs a dtype", span=node.span, hints=NO_TYPE)
    return None, word


def cast_first_operand(owner: Meaning, node: PythonCall) -> Meaning:
    """The first operand of a call that is told ``dtype=``: torch casts it before anything else."""
    told = named_dtype(node)
    if told is None or not isinstance(owner, Ref):
        return owner
    if DTYPES[told] is not DtypeKind.REAL:
        raise UnsupportedError(
            "an integer or boolean result has no gradient", span=node.span, hints=("dtype=torch.float64",)
        )
    return replace(owner, kind=DtypeKind.REAL)
