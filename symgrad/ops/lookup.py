"""The entry of an operation, found by how somebody spelled it or by the step of a program that applies it.

Comes in: a spelling (``torch.nn.functional.softmax``, ``F.softmax``, ``np.exp``, ``Tensor.softmax``), or the `Operation`
of a step, which is one of the table, the pullback of one, a stated equation or an opaque call. Goes out: the entry, what
it says of its operands, or the spellings that are close to one that is not known.
"""

from __future__ import annotations

import difflib
import inspect
from functools import lru_cache
from typing import Any

from symgrad.entries.spec import COMPOUND_SPELLINGS, SPELLINGS, TABLE, Op, Rules, SavedForBackward
from symgrad.entries.stated_equations import entry_stated
from symgrad.errors import bug
from symgrad.program import Operation, Pullback, Role

TORCHS = ("torch.", "F.", "Tensor.")
"""What a spelling begins with that torch has; what is NumPy's, or ATen's, it has not in these words."""
PREFIXES = {
    "torch.nn.functional.": "F.",
    "nn.functional.": "F.",
    **dict.fromkeys(("numpy.", "jnp.", "jax.numpy."), "np."),
    "torch.Tensor.": "Tensor.",
}


def short_spelling(spelling: str) -> str:
    """``spelling`` with the long module prefixes shortened."""
    for long, short in PREFIXES.items():
        if spelling.startswith(long):
            return short + spelling.removeprefix(long)
    return spelling


def find(spelling: str) -> Op | None:
    """The entry spelled so, or None. A spelling without a module is tried as torch's, F's, a method's, NumPy's."""
    spelling = short_spelling(spelling)
    if spelling in SPELLINGS:
        return SPELLINGS[spelling]
    if "." not in spelling:
        for prefix in ("torch.", "F.", "Tensor.", "np.", "torch.linalg.", "torch.fft."):
            if prefix + spelling in SPELLINGS:
                return SPELLINGS[prefix + spelling]
    return None


def close_spellings(spelling: str, limit: int = 3) -> list[str]:
    """Spellings that come close to one that nothing knows."""
    spelling, known = short_spelling(spelling), [*SPELLINGS, *sorted(COMPOUND_SPELLINGS)]
    if "." in spelling:
        module, _, word = spelling.rpartition(".")
        candidates = {s.rpartition(".")[2]: s for s in known if s.startswith(module + ".")}
        candidates = candidates or {s.rpartition(".")[2]: s for s in known}
    else:
        word, candidates = spelling, {s.rpartition(".")[2]: s.rpartition(".")[2] for s in known}
    return [candidates[w] for w in difflib.get_close_matches(word.lower(), sorted(candidates), n=limit, cutoff=0.6)]


def entry_of(op: Operation) -> Op | None:
    """What is known of an operation; None of a black box."""
    return TABLE.get(op) if isinstance(op, str) else entry_named(op)


def entry_named(op: Operation | Op) -> Op:
    """The entry called so in the table, or that of the pullback of one, or of an equation; an entry itself."""
    if isinstance(op, Pullback):
        return pullback_entry(op)
    return TABLE[op] if isinstance(op, str) else op if isinstance(op, Op) else entry_stated(op)


def has_role(op: Operation, role: Role) -> bool:
    """Whether an operation of the table is the one of this role."""
    return isinstance(op, str) and op in TABLE and TABLE[op].traits.role is role


@lru_cache(maxsize=len(Role))
def role_entry(role: Role) -> Op:
    """The entry that a step of this role is made with."""
    return next(op for op in TABLE.values() if op.traits.role is role)


def is_data_argument(op: Operation, place: int) -> bool:
    """Whether nothing flows back to the argument at ``place``: positions, a mask, what counts by its shape alone."""
    if isinstance(op, Pullback):
        return place not in op.read
    entry = entry_of(op)
    return entry is not None and not entry.variadic and entry.operands[place] in entry.data


def auxiliary_letters(op: Operation) -> tuple[str, ...]:
    """The letters of the tensors that a derivative of ``op`` reads beside its operands and its output."""
    if isinstance(op, Pullback):
        return ()
    entry = entry_named(op)
    return tuple(letter for letter in entry.saved.names if letter != "out" and letter not in entry.saved.index_data)


def index_data_letters(op: Operation) -> tuple[str, ...]:
    """The letters of the whole numbers that ``op``, or what it is the pullback of, found when it ran."""
    while isinstance(op, Pullback):
        op = op.of
    return tuple(letter for letter in entry_named(op).saved.names if letter in entry_named(op).saved.index_data)


@lru_cache(maxsize=1024)
def pullback_entry(op: Pullback) -> Op:
    """The entry of a pullback: it has no equation of its own, `symgrad.calculus.local_derivatives` derives it.

    It counts as smooth: where it jumps, what it is the pullback of has a kink, and that is told there.
    """

    def unspoken(*args: Any, **options: Any) -> Any:
        raise bug(f"{op} is derived, and has no definition")

    return Op(
        name=str(op),
        summary=f"{op} by operand {op.position + 1}",
        definition="",
        index=unspoken,
        signature=inspect.Signature([inspect.Parameter("tensors", inspect.Parameter.VAR_POSITIONAL)]),
        rules=Rules(align=unspoken, prepare=unspoken, resolve=unspoken),
        saved=SavedForBackward(names=index_data_letters(op)),
        numpy=unspoken,
        torch=unspoken,
    )
