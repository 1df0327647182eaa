"""Casts in a text: ``(x > 0).float()``, ``x.to(torch.float64)``, ``x.type_as(y)``, ``x.sum(dtype=torch.float64)``.

Comes in: a call as it is written. Goes out: the tensor with another type; a step where its numbers change. All numbers
have double precision here, so a cast to decimal numbers leaves them as they are; whole numbers lose their fraction, and
truth values say whether a number is not 0: no gradient comes through either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from symgrad.errors import NotationError, UnknownNameError, UnsupportedError
from symgrad.language.grammar.nodes import Attribute, Call, Literal, dotted
from symgrad.language.outside.constants import is_number
from symgrad.language.steps.apply import Applier
from symgrad.language.steps.calls import Meaning, Ref, kind_of
from symgrad.language.steps.complaints import excerpt
from symgrad.language.steps.kinds import Kind
from symgrad.language.steps.made import DTYPES, NARROW, NO_TYPE, TYPED, UNREAD, dtype_of
from symgrad.notation.tree import Node
from symgrad.ops.calls.written import SIGNS, TO_WHOLE
from symgrad.ops.entry import named

TYPES = ("double", "float", "half", "bfloat16", "long", "int", "bool")
"""Methods that are called after a type."""
MOVES = ("cpu", "cuda")
"""Methods after which the numbers are kept elsewhere."""
HALF = "3 digits, and nothing above 65,504"
SHORTER = {"float": "7 digits", "float32": "7 digits", "half": HALF, "float16": HALF, "bfloat16": "2 digits"}
"""Types that would keep fewer digits, and what they keep."""
Reader = Callable[[Node], Meaning]
OPTIONS = ("copy", "non_blocking", "memory_format", "device")
"""What a cast may be told beside the type: nothing that changes a number."""


def is_cast(word: str) -> bool:
    """Whether a method so called changes the type, or where the numbers are kept."""
    return word in (*TYPES, *TYPED, *MOVES)


def cast(apply: Applier, owner: Meaning, node: Call, word: str, meaning: Reader, name: str | None) -> tuple[Ref, bool]:
    """``owner`` as the call of the method ``word`` makes it, and whether torch hands back the tensor itself."""
    if not isinstance(owner, Ref):
        raise NotationError(f"{word} is said of a tensor, not of {kind_of(owner)}", span=node.span)
    kind, spelled = wanted(apply.tensor(owner, node.span), node, word, meaning)
    if kind is None:
        return owner, True
    if owner.complex:
        raise UnsupportedError(f"{word} of a complex tensor is not supported yet", span=node.span)
    same = owner.kind is kind and spelled not in (*SHORTER, "int", "short")
    if kind is Kind.REAL:
        if spelled in SHORTER and owner.kind is Kind.REAL:
            said = excerpt(apply.text, node.span)
            told = f"{said} is not rounded here: all numbers have double precision, where torch would keep about "
            apply.builder.rounded[said] = apply.builder.remarks[f"{told}{SHORTER[spelled]}"] = None
        return replace(owner, kind=kind, few_bits=""), same and not owner.few_bits
    few_bits = spelled if spelled in NARROW and kind is Kind.WHOLE and spelled not in ("int", "int32") else ""
    if owner.kind <= kind:
        return replace(owner, kind=kind, few_bits=few_bits), same and few_bits == owner.few_bits
    operands = [(owner, node.span), *([(0, node.span)] if kind is Kind.TRUTH else [])]
    step = apply.step(named(SIGNS["!="] if kind is Kind.TRUTH else TO_WHOLE), operands, {}, node.span, word, name)
    return replace(step, kind=kind, few_bits=few_bits), False


def wanted(owner: Ref, node: Call, word: str, meaning: Reader) -> tuple[Kind | None, str]:
    """What the result holds, and the type as it is spelled; None where that stays as it is."""
    for keyword in node.keywords:
        if keyword.name not in (*OPTIONS, "dtype"):
            raise UnknownNameError(f"{word} has no argument {keyword.name}", span=keyword.span)
    if node.positional and word in TYPES:
        raise NotationError(f"{word} takes no type, it names one", span=node.span, hints=(f"x.{word}()",))
    told = dtype_of(node)
    if told is not None or word in TYPES:
        return DTYPES[told or word], told or word
    for part in node.positional:
        path = dotted(part) or (str(part.value) if isinstance(part, Literal) else "")
        spelled = path.rpartition(".")[2]
        if isinstance(part, Attribute) and spelled == "dtype":
            other = meaning(part.owner)
            return (other.kind if isinstance(other, Ref) else Kind.REAL), spelled
        if spelled in DTYPES:
            return DTYPES[spelled], spelled
        if (isinstance(part, Literal) and not is_number(part.value)) or spelled in UNREAD:
            continue
        other = meaning(part)
        if not isinstance(other, Ref):
            raise NotationError(f"{word} takes a type, not {kind_of(other)}", span=part.span, hints=NO_TYPE)
        return other.kind, "dtype"
    if word in TYPED and not node.positional and not node.keywords:
        raise NotationError(f"{word} needs a type", span=node.span, hints=NO_TYPE)
    return None, word


def held_first(owner: Meaning, node: Call) -> Meaning:
    """The first operand of a call that is told ``dtype=``: torch casts it before anything else."""
    told = dtype_of(node)
    if told is None or not isinstance(owner, Ref):
        return owner
    if DTYPES[told] is not Kind.REAL:
        raise UnsupportedError(
            "a result of whole numbers or truth values has no gradient", span=node.span, hints=("dtype=torch.float64",)
        )
    return replace(owner, kind=Kind.REAL)
