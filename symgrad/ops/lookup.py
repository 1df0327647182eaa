"""The entry of an operation, found by how somebody spelled it or by the step of a program that applies it.

Comes in: a spelling (``torch.nn.functional.softmax``, ``F.softmax``, ``np.exp``, ``Tensor.softmax``), or the `Operation`
of a step, which is one of the table, the pullback of one, a stated equation or an opaque call. Goes out: the entry, what
it says of its operands, or the spellings that are close to one that is not known.

The entry of an equation that a text states has the shape rule, the broadcasting and the definition that the text says,
and neither a NumPy nor a torch column: who wants numbers evaluates the equation.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from symgrad.entries.operands import integers_between
from symgrad.entries.readings import equation_functions
from symgrad.entries.spec import (
    COMPOUNDS,
    ROLES,
    SPELLINGS,
    TABLE,
    At,
    Data,
    HeldTensor,
    Op,
    Rules,
    SavedForBackward,
    View,
)
from symgrad.errors import ShapeError, bug, close_names
from symgrad.indexing.symbols import Expr
from symgrad.notation.checks import find_checked_ranges
from symgrad.notation.linear import bind_letters, slots_shape, split_leading_indices
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.ranges import LetterRanges as Found
from symgrad.notation.read_write import read_statement
from symgrad.notation.scope import EquationNames, classify_names, inline_definitions
from symgrad.notation.tree import Absolute, Access, Condition, Floor, IndexEquation, Name, ScalarCall, walk
from symgrad.program import Operation, Option, Role, Stated, VectorProduct
from symgrad.shapes import Shape, Size, Sizes, SlotSymbol

ATTRIBUTES = ("T", "mT")
"""Entries that are an attribute of a tensor, written without brackets: those whose template says so."""
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
    spelling, known = short_spelling(spelling), [*SPELLINGS, *sorted(COMPOUNDS)]
    if "." in spelling:
        module, _, word = spelling.rpartition(".")
        candidates = {s.rpartition(".")[2]: s for s in known if s.startswith(module + ".")}
        candidates = candidates or {s.rpartition(".")[2]: s for s in known}
    else:
        word, candidates = spelling, {s.rpartition(".")[2]: s.rpartition(".")[2] for s in known}
    return [candidates[w] for w in close_names(word.lower(), sorted(candidates), limit)]


def entry_of(op: Operation) -> Op | None:
    """What is known of an operation; None of a black box, and of a product with its J."""
    if isinstance(op, VectorProduct) and entry_of(op.of) is None:
        return None
    return TABLE.get(op) if isinstance(op, str) else entry_named(op)


def entry_named(op: Operation | Op) -> Op:
    """The entry called so in the table, or that of a product with J of one, or of an equation; an entry itself."""
    if isinstance(op, VectorProduct):
        return product_entry(op)
    return TABLE[op] if isinstance(op, str) else op if isinstance(op, Op) else entry_stated(op)


class Basics:
    """The entries that symgrad puts into programs by itself, where it lifts a run or takes complex tensors apart.

    Who decides by what an operation is asks its entry for the fact (fields of `symgrad.entries.spec.Op`) and never whether
    it is one of these; a test sees to it.
    """

    def __getattr__(self, name: str) -> Op:
        if name not in TABLE:
            raise AttributeError(f"no entry is called {name}")
        return TABLE[name]


basics = Basics()


def has_role(op: Operation, role: Role) -> bool:
    """Whether an operation of the table is the one of this role."""
    return isinstance(op, str) and op in TABLE and TABLE[op].traits.role is role


def role_entry(role: Role) -> Op:
    """The entry that a step of this role is made with."""
    return ROLES[role.name]


def is_data_argument(op: Operation, place: int) -> bool:
    """Whether nothing flows back to the argument at ``place``: positions, a mask, what counts by its shape alone."""
    if isinstance(op, VectorProduct):
        return place not in op.read
    entry = entry_of(op)
    return entry is not None and not entry.variadic and entry.operands[place] in entry.data


def auxiliary_letters(op: Operation) -> tuple[str, ...]:
    """The letters of the tensors that a derivative of ``op`` reads beside its operands and its output."""
    if isinstance(op, VectorProduct):
        return ()
    entry = entry_named(op)
    return tuple(letter for letter in entry.saved.names if letter != "out" and letter not in entry.saved.index_data)


def index_data_letters(op: Operation) -> tuple[str, ...]:
    """The letters of the whole numbers that ``op``, or what it is a product with J of, found when it ran."""
    while isinstance(op, VectorProduct):
        op = op.of
    return tuple(letter for letter in entry_named(op).saved.names if letter in entry_named(op).saved.index_data)


@lru_cache(maxsize=1024)
def product_entry(op: VectorProduct) -> Op:
    """The entry of a product with J: it has no equation, `symgrad.calculus.local_derivatives` derives it.

    It counts as smooth: where it jumps, the operation itself has a kink, and that is told there.
    """

    def unspoken(*args: Any, **options: Any) -> Any:
        raise bug(f"{op} is derived, and has no definition")

    return Op(
        name=str(op),
        summary=str(op),
        definition="",
        index=unspoken,
        signature=inspect.Signature([inspect.Parameter("tensors", inspect.Parameter.VAR_POSITIONAL)]),
        rules=Rules(align=unspoken, prepare=unspoken, resolve=unspoken),
        saved=SavedForBackward(names=index_data_letters(op)),
        numpy=unspoken,
        torch=unspoken,
    )


@dataclass
class Slots:
    """The slots of some steps, in order: ``found`` is the position in each, ``most`` the largest."""

    found: dict[SlotSymbol, Any] = field(default_factory=dict)
    most: dict[SlotSymbol, Size] = field(default_factory=dict)

    def open(self, position: Any, most: Size) -> Size:
        """A slot for a position from 0 to ``most``; for one from the end, −1 − a slot."""
        if not position >= 0:
            return -1 - self.open(-1 - position, most)
        slot = SlotSymbol(len(self.found))
        self.found[slot], self.most[slot] = position, most
        return slot

    def opened(self, op: Operation, shapes: Sequence[Shape | None], options: tuple[Option, ...]) -> tuple[Option, ...]:
        """The options of a step with slots for its positions."""
        entry = entry_of(op) if isinstance(op, str) else None
        if entry is None or entry.rules.slots is None:
            return options
        return tuple({**dict(options), **entry.rules.slots(self.open, shapes, **dict(options))}.items())


Ranges = tuple[tuple[str, Size], ...]


@dataclass(frozen=True)
class StatedReading:
    """A statement that is spelled out, and what its names are."""

    whole: IndexEquation
    names: EquationNames

    def aligned(self, sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
        """The axes of ``…`` are broadcast; the others are as the letters say."""
        read = list(zip(self.names.tensors.items(), shapes, strict=True))
        for (name, pattern), shape in read:
            if not pattern.fits(shape):
                more = " or more" if pattern.more else ""
                told = f"the equation reads {name} with {pattern.axes} indices{more}, and it has {len(shape)}"
                entries = (n for n in walk(self.whole) if isinstance(n, (Access, Name)) and n.name == name)
                hints = (
                    () if pattern.axes or pattern.more else (f"an entry is {name}[i], and the left says for which i",)
                )
                raise ShapeError(told, span=next(entries).span, hints=hints)
        common = sizes.broadcast_shapes([pattern.lead(shape) for (_, pattern), shape in read if pattern.more])
        return tuple(pattern.under(common, shape) for (_, pattern), shape in read)

    def found(self, sizes: Sizes, shapes: tuple[Shape, ...]) -> Found:
        """How far each letter runs, and which entries decided where no axis simply says it."""
        return find_checked_ranges(
            self.whole, dict(zip(self.names.tensors, self.aligned(sizes, shapes), strict=True)), sizes
        )

    def resolved(self, sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
        """How far each letter runs, as an option of the step."""
        return {"ranges": tuple((letter, sizes.find(n)) for letter, n in self.found(sizes, shapes).found.items())}

    def shape(self, sizes: Sizes, shapes: tuple[Shape, ...], *, ranges: Ranges) -> Shape:
        """The sizes of the letters on the left, in front of them those of ``…``."""
        leads = (pattern.lead(s) for s, pattern in zip(shapes, self.names.tensors.values(), strict=True))
        return slots_shape(self.whole.slots, max(leads, key=len, default=()), dict(ranges))

    def index(
        self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Mapping[str, Hashable]
    ) -> Expr:
        """The right-hand side at ``at``."""
        given: Any = options["ranges"]
        ranges = dict(given)
        lead, rest = split_leading_indices(self.whole.slots, at)
        letters = bind_letters(self.whole, self.whole.named, rest, ranges)
        tensors = {name: view for name, view in zip(self.names.tensors, views, strict=True) if view is not None}
        return EquationMeaning(tensors, letters, ranges, equation_functions(), lead).of(self.whole.right)


@lru_cache(maxsize=1024)
def equation_of(text: str) -> StatedReading:
    """The equation that ``text`` states; raises `SymgradError` where it means nothing."""
    statement = inline_definitions(read_statement(text))
    return StatedReading(statement, classify_names(statement, equation_functions()))


@lru_cache(maxsize=1024)
def entry_stated(op: Stated) -> Op:
    """The entry of a stated equation."""
    equation = equation_of(op.text)
    names = equation.names

    def unspoken(*args: Any, **options: Any) -> Any:
        raise bug(f"{op.text} is evaluated, and has no column in the table")

    return Op(
        name=str(op),
        summary="stated by the text",
        definition=op.text,
        index=equation.index,
        signature=inspect.Signature(
            [
                inspect.Parameter(
                    name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Data if name in names.data else View
                )
                for name in names.tensors
            ]
        ),
        rules=Rules(shape=equation.shape, align=equation.aligned, resolve=equation.resolved),
        numpy=unspoken,
        torch=unspoken,
        domain=dict.fromkeys(names.data, integers_between(0, 1)),
        smooth=not any(isinstance(node, (Absolute, Floor, Condition)) or kinked(node) for node in walk(equation.whole)),
        letters="".join(letter.name for letter in equation.whole.letters if len(letter.name) == 1) or "ijkl",
        stated=op,
    )


def kinked(node: object) -> bool:
    """Whether a function that is called has kinks."""
    return isinstance(node, ScalarCall) and (entry := TABLE.get(node.function)) is not None and not entry.smooth
