"""What torch keeps the result of truth values or whole numbers as: read off the equation, or said by the entry.

Comes in: an entry. Goes out: words. Sums, products and choices of whole numbers are whole; a quotient, a root and a
function are not. Where torch has its own way the entry says so (``holds``):

truth, whole: it is that, whatever comes in · counted: truth values are counted · kept: as the operands are · joined:
kept, and a sum of truth values is "or" · cut: kept, and a fraction would be cut off · first: as what is written into ·
behind: as the operands behind the first · bounded: as the operands and the options · subscripts: as the letters say ·
real: a number · masked: the last operand is added, where torch would read truth values as who takes part · alike: torch
takes operands of one type · numbers: no truth values.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from symgrad.entries.along import Loss
from symgrad.entries.readings import spelled
from symgrad.entries.spec import TABLE, Op
from symgrad.functions import ALSO, ROUNDING
from symgrad.notation.tree import (
    Access,
    Big,
    Binary,
    Call,
    Condition,
    Delta,
    Floor,
    Name,
    Node,
    Number,
    Power,
    Root,
    Size,
    walk,
)

TORCHS = ("torch.", "F.", "Tensor.")
KEPT, REAL = frozenset({"kept"}), frozenset({"real"})


def held_as(op: Op) -> frozenset[str]:
    """The words for an entry."""
    return frozenset(op.holds.split()) if op.holds else found(op.name) if op.name in TABLE else REAL


def text_of(op: Op) -> str:
    """The equation that an entry is read from; none where it is a function, or the equation of no table."""
    reading = getattr(op.index, "__self__", None)
    return str(getattr(reading.entry if isinstance(reading, Loss) else reading, "text", ""))


def same_everywhere(op: Op) -> Fraction | None:
    """The number that an operation gives in every entry, whatever goes in: 1 of ``out = 1``."""
    text = text_of(op)
    right = spelled(text).right if text else None
    return right.value if isinstance(right, Number) else None


@lru_cache(maxsize=1024)
def found(name: str) -> frozenset[str]:
    """What follows from the equation of an entry of the table; of one that is a function, nothing."""
    op, text = TABLE[name], text_of(TABLE[name])
    broken = any(isinstance(value, float) and value % 1 for value in op.defaults.values())
    if not text or op.pairs or broken or op.residual is not None:  # what solves an equation of whole numbers is none
        return REAL
    right = spelled(text).right
    how = KEPT if stays_whole(right, name) else REAL
    torchs = any(word.startswith(TORCHS) for word in op.spelled) and len(set(op.operands) - op.data) > 1
    return how | {"alike"} if torchs and contracts(right) else how


def contracts(node: Node) -> bool:
    """Whether products of entries of two tensors are added up: what torch hands to a product of matrices."""
    if isinstance(node, Big) and node.sign == "Σ":
        inside = list(walk(node.body))
        names = {part.name for part in inside if isinstance(part, Access)}
        plain = not any(isinstance(part, (Call, Root, Condition, Power)) for part in inside)
        return plain and len(names) > 1 and any(isinstance(part, Binary) and part.sign in "·*" for part in inside)
    return isinstance(node, Binary) and node.sign in "+·*" and any(map(contracts, node.parts))


def stays_whole(node: Node, name: str) -> bool:
    """Whether an expression of whole numbers is one; ``name`` is whose equation it is, which may call it by itself."""
    match node:
        case Number():
            return node.value.denominator == 1
        case Name():
            return node.name not in ("π", "pi", "e")
        case Access() | Condition() | Delta() | Size() | Floor():
            return True
        case Root():
            return False
        case Call():
            word = ALSO.get(node.function, node.function)
            own = word in ROUNDING or (word != name and word in TABLE and "kept" in held_as(TABLE[word]))
            return own and all(stays_whole(part, name) for part in node.arguments)
        case Binary(sign="/") | Big(sign="mean"):
            return False
        case Power():
            return isinstance(node.exponent, Number) and stays_whole(node.base, name)
    return all(stays_whole(part, name) for part in node.parts)
