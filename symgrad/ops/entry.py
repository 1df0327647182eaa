"""What is known of the operation of a step: one of the table, the pullback of one, a stated equation, or a black box.

Comes in: an `Operation`, as a step has it. Goes out: its entry, and what an entry says of its operands. Whoever asks
something of a step asks here: that a step is in the table is nobody's business else.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from typing import Any

from symgrad.entries.spec import TABLE, Op
from symgrad.entries.stated import entry_stated
from symgrad.errors import bug
from symgrad.program import Operation, Pullback, Role


def entry_of(op: Operation) -> Op | None:
    """What is known of an operation; None of a black box."""
    return TABLE.get(op) if isinstance(op, str) else named(op)


def named(op: Operation | Op) -> Op:
    """The entry called so in the table, or that of the pullback of one, or of an equation; an entry itself."""
    if isinstance(op, Pullback):
        return pulled(op)
    return TABLE[op] if isinstance(op, str) else op if isinstance(op, Op) else entry_stated(op)


def plays(op: Operation, role: Role) -> bool:
    """Whether an operation of the table is the one of this role."""
    return isinstance(op, str) and op in TABLE and TABLE[op].role is role


@lru_cache(maxsize=len(Role))
def playing(role: Role) -> Op:
    """The entry that a step of this role is made with."""
    return next(op for op in TABLE.values() if op.role is role)


def only_read(op: Operation, place: int) -> bool:
    """Whether nothing flows back to the argument at ``place``: positions, a mask, what counts by its shape alone."""
    if isinstance(op, Pullback):
        return place not in op.read
    entry = entry_of(op)
    return entry is not None and not entry.variadic and entry.operands[place] in entry.data


def beside_letters(op: Operation) -> tuple[str, ...]:
    """The letters of the tensors that a derivative of ``op`` reads beside its operands and its output."""
    if isinstance(op, Pullback):
        return ()
    entry = named(op)
    return tuple(letter for letter in entry.held if letter != "out" and letter not in entry.known)


def found_letters(op: Operation) -> tuple[str, ...]:
    """The letters of the whole numbers that ``op``, or what it is the pullback of, found when it ran."""
    while isinstance(op, Pullback):
        op = op.of
    return tuple(letter for letter in named(op).held if letter in named(op).known)


@lru_cache(maxsize=1024)
def pulled(op: Pullback) -> Op:
    """The entry of a pullback: its equation is derived (`symgrad.calculus.local.derive`), so it has none of its own.

    It counts as smooth: where it jumps, what it is the pullback of has a kink, and that is told there.
    """

    def unspoken(*args: Any, **options: Any) -> Any:
        raise bug(f"{op} is derived, and was asked for a definition")

    return Op(
        name=str(op),
        says=f"{op} by operand {op.position + 1}",
        definition="",
        index=unspoken,
        signature=inspect.Signature(),
        held=found_letters(op),
        variadic=True,
        align=unspoken,
        prepare=unspoken,
        resolve=unspoken,
        numpy=unspoken,
        torch=unspoken,
    )
