"""What an entry of the table is: an operation as one index equation, and the facts that go with it.

`symgrad.entries.equations.op` makes one of a call and its equation. There is no field in which a derivative could be
written. A `Domain` says where samples of an operand lie, for examples, assumed values and tests, and not where the
operation is defined: relu is sampled away from its kink at 0, a power on one side of it. What pages say about that is
found by trying (`symgrad.documents.domains`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import FrameType
from typing import Any

from symgrad.indexing.equation import Equation
from symgrad.indexing.symbols import Expr, Index, access
from symgrad.program import Operation, Role, Stated
from symgrad.shapes import Shape, Size, Sizes


@dataclass(frozen=True)
class Domain:
    """Real numbers between ``low`` and ``high`` (open ends), drawn within ``draw``, away from ``avoid``.

    Whole numbers only if ``whole``, both ends of ``draw`` included. ``matrix`` says what the last two axes hold:
    a ``full`` matrix (of full rank, its singular values all different), a ``regular`` one (it has an inverse), a
    ``lower`` triangular one, a ``symmetric`` one (read as such, its eigenvalues all different), a ``definite`` one
    (with positive eigenvalues), or a ``dominant`` one (elimination exchanges none of its rows).
    """

    low: float = -inf
    high: float = inf
    draw: tuple[float, float] = (-2.0, 2.0)
    avoid: tuple[float, ...] = ()
    whole: bool = False
    matrix: str = ""

    @property
    def ends(self) -> bool:
        """Whether there are real numbers outside."""
        return not self.whole and (self.low, self.high) != (-inf, inf)


def reals(within: float = 2.0, avoid: tuple[float, ...] = ()) -> Domain:
    """All real numbers; samples lie within ±``within``, away from ``avoid``."""
    return Domain(draw=(-within, within), avoid=avoid)


def positive(within: float = 3.0) -> Domain:
    """x > 0; samples between 0.3 and ``within``."""
    return Domain(low=0.0, draw=(0.3, within))


def between(low: float, high: float) -> Domain:
    """low < x < high; samples keep a tenth of the width away from the ends."""
    margin = (high - low) / 10
    return Domain(low, high, draw=(low + margin, high - margin))


def whole(low: int, high: int) -> Domain:
    """The whole numbers low, …, high: positions, classes, a mask."""
    return Domain(low - 0.5, high + 0.5, draw=(low, high), whole=True)


def matrices(kind: str) -> Domain:
    """Matrices of a ``kind`` that `Domain` knows."""
    return Domain(matrix=kind)


At = tuple[Index, ...]
"""The output's indices."""
Options = Mapping[str, Hashable]


@dataclass(frozen=True)
class View:
    """An operand inside an index equation: ``x[i, j]`` is its entry; a constant is the same everywhere."""

    name: str
    shape: Shape
    constant: Expr | None = None

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __getitem__(self, indices: Expr | Sequence[Expr]) -> Expr:
        at = tuple(indices) if isinstance(indices, (tuple, list)) else (indices,)
        return access(self.name, at) if self.constant is None else self.constant


class Data(View):
    """An operand that is only read: positions, classes, a mask, running statistics. Nothing flows back to it."""


class Held(View):
    """A tensor the equation reads but holds still: the operation's own output, or integers it computed."""


@dataclass(frozen=True)
class Example:
    """An expression to show and test an operation with, and the shapes of its inputs."""

    text: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]


def is_operand(annotation: Any) -> bool:
    """Whether a parameter annotated so is a tensor of the user's."""
    return any(annotation == kind for kind in (View, Data, View | None, Data | None))


Opening = Callable[[Any, Size], Size]
"""What is written in the place of a position, given the largest one that there may be."""
ShapeRule = Callable[..., Shape]  # (sizes, shapes, **options) -> shape of the output
AlignRule = Callable[..., tuple[Shape, ...]]  # (sizes, shapes, **options) -> shapes to broadcast operands to
PrepareRule = Callable[..., dict[str, Hashable]]  # (shapes, **options) -> the options in canonical form
SlotRule = Callable[..., dict[str, Hashable]]  # (open, shapes, **options) -> the options that hold positions, opened
ResolveRule = Callable[..., dict[str, Hashable]]  # (sizes, shapes, **options) -> the options, what sizes decide in them
Definition = Callable[[At, Sequence[View | None], Mapping[str, Held], Options], Expr]
"""The output's entry at some indices, from the operands, what is held still, and the options."""


def no_alignment(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
    """Operands stay as they are."""
    return shapes


def kept(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
    """The output has the shape of the first operand."""
    return shapes[0]


def unresolved(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
    """No option depends on a size."""
    return dict(options)


def as_given(shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
    """Options stay as they are."""
    return dict(options)


@dataclass(frozen=True, kw_only=True)
class Op:
    """One row of the table.

    ``index(at, views, held, options)`` is the definition. Operands in ``optional`` may be left out (their view is
    None), those in ``data`` are only read. ``returns`` names the parts of what torch returns when it is not one tensor;
    the entry defines the first that is not None. ``shape`` and ``align`` say which sizes fit; ``prepare`` brings
    options to canonical form, and ``resolve`` puts into them what depends on how large the axes are (where a slice
    begins). ``numpy(*arrays, **options)`` and ``torch(torch, *tensors, **options)`` compute the forward and are spelled
    independently; without the first the equation is evaluated. ``known`` computes held integers from the forward pass.
    ``reuse`` allows the derivative to be written through ``out``; ``expands`` is the operation written in simpler ones,
    in symgrad's own language, as text or by its operands and options (`symgrad.ops.layers`); ``kinks`` are
    points where torch's choice is tested, ``edges`` values of operands at which there is no derivative and torch has a
    number of its own; ``margin`` is how far from them, a number or an option, torch still has one. ``pathless`` are
    operations that torch records no backward for, like comparisons: nothing flows back, be it NaN. ``residual`` gives
    the equations F(*views, out) = 0 that the output solves (`symgrad.ops.decompositions`), and ``beside`` what
    their solution reads: held tensors by name, each computed by entries of the table from operands and out. ``written``
    is how torch spells what is no call by its name: ``qr({}).Q``, ``{}.T``. ``pairs`` are the operands, ``out`` among
    them, that are complex in torch and pairs (re, im) here (`symgrad.ops.complex_pairs`). ``places`` is what
    makes torch's call give the whole numbers that ``known`` finds: ``.indices`` of its result, or what stands in the
    place of its last bracket. ``slots`` says which of its options are positions (`symgrad.calculus.reuse`): what is
    derived for one of them holds for all. ``holds`` says what torch keeps the result of truth values and whole numbers
    as, where that does not follow from the equation (`symgrad.entries.read_off`). ``stated`` is the equation of an
    operation that is not in the table. ``arrays`` is what the operation is in NumPy and in jax, as the body of a
    function of torch's arguments, where its spelling there does not say so (`symgrad.exporting.arrays`). ``role`` is
    what others go by (`symgrad.program.Role`). ``told`` are options that torch wants to be given though they have a
    value here, ``dim if keepdim`` only beside that. ``looks_up``: it reads entries at positions that a tensor of whole
    numbers gives. ``chooses``: the places of its condition and of what it chooses from, and which it takes where that
    is met. ``of_two`` is the entry that torch means by the same word between two tensors, ``implied`` the axis that a
    spelling goes along alone. ``otherwise`` has the definitions under other options, by what they are. ``logs``: to its
    forward no logarithm is less than this, and 0 times one is 0.
    """

    name: str
    says: str
    definition: str
    index: Definition
    signature: inspect.Signature
    operands: tuple[str, ...] = ()
    torch: Callable[..., Any]
    numpy: Callable[..., Any] | None = None
    held: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    data: frozenset[str] = frozenset()
    variadic: bool = False
    shape: ShapeRule = kept
    align: AlignRule = no_alignment
    prepare: PrepareRule = as_given
    resolve: ResolveRule = unresolved
    spelled: tuple[str, ...] = ()
    domain: Mapping[str, Domain] = field(default_factory=dict)
    known: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    kinks: tuple[float, ...] = ()
    edges: tuple[Mapping[str, float], ...] = ()
    margin: float | str = 0.0
    reuse: bool = False
    letters: str | Callable[..., str] = "ijkl"
    expands: str | Callable[..., str | None] | None = None
    smooth: bool = True
    pathless: bool = False
    returns: tuple[str, ...] = ()
    residual: Callable[..., tuple[Equation, ...]] | None = None
    beside: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    written: str = ""
    pairs: frozenset[str] = frozenset()
    places: str = ""
    slots: SlotRule | None = None
    holds: str = ""
    stated: Stated | None = None
    arrays: str = ""
    role: Role | None = None
    told: tuple[str, ...] = ()
    looks_up: bool = False
    chooses: tuple[int, tuple[int, ...], int | None] | None = None
    of_two: str = ""
    implied: Mapping[str, Callable[[Sequence[int | None]], int]] = field(default_factory=dict)
    otherwise: Mapping[str, str] = field(default_factory=dict)
    logs: float | None = None

    @property
    def operation(self) -> Operation:
        """What a step that applies it has for its operation."""
        return self.stated or self.name

    @property
    def subscripts(self) -> str:
        """The option in front of any number of tensors, which says what their axes are called; none of most."""
        first = next(iter(self.signature.parameters), "")
        return first if self.variadic and first not in self.operands else ""

    @property
    def defaults(self) -> dict[str, Any]:
        """The options nobody gave."""
        parameters = self.signature.parameters.values()
        return {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in self.operands}

    def is_told(self, option: str, others: Collection[str]) -> bool:
        """Whether torch wants an option to be given beside ``others``, although it has a value here."""
        return option in self.told or any(f"{option} if {other}" in self.told for other in others)

    def letters_for(self, options: Mapping[str, Any]) -> str:
        """What the axes of the output are called on a page, where nothing else is called so."""
        return self.letters(**options) if callable(self.letters) else self.letters

    def found_by(self, call: str) -> str | None:
        """What gives the whole numbers that ``known`` finds, from a call in torch; None where torch keeps them."""
        found = ".indices" if "indices" in self.returns else self.places
        if found.startswith("."):
            return f"{call.removesuffix('.values')}{found}"
        return f"{call.removesuffix(')')}{found}" if found else None

    def domain_of(self, operand: str) -> Domain:
        """Where ``operand`` may lie."""
        return self.domain.get(operand, reals())

    def __repr__(self) -> str:
        return f"<operation {self.name}: {self.definition}>"


TABLE: dict[str, Op] = {}
SPELLINGS: dict[str, Op] = {}
COMPOUND_SPELLINGS: set[str] = set()
"""What `symgrad.ops.calls` spells: known to those who suggest a name."""
FAMILIES: dict[str, str] = {}
"""The module of the table that an entry stands in, by its name; empty for one that was made elsewhere."""


def being_imported() -> str:
    """The module of the table whose top level is running: an entry is made there, through whatever helpers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals["__name__"])
    return module if module.startswith("symgrad.ops.") else ""


def register(op: Op) -> Op:
    """Put ``op`` into the table under its name and every spelling."""
    if op.name in TABLE:
        raise AssertionError(f"symgrad bug: operation {op.name!r} is defined twice")
    TABLE[op.name] = op
    FAMILIES[op.name] = being_imported()
    for spelling in (op.name, *op.spelled):
        if SPELLINGS.setdefault(spelling, op) is not op:
            raise AssertionError(f"symgrad bug: {spelling!r} means {SPELLINGS[spelling].name} and {op.name}")
    return op


def operations() -> Iterator[Op]:
    """Every operation of the table, in its order.

    Each has a ``name``, its ``definition`` as an index equation, and ``examples``: a ``text`` and the ``shapes`` of its
    inputs. ``domain_of(operand)`` says where samples lie: within ``draw``, away from ``avoid``; at ``kinks`` torch has
    chosen a derivative.
    """
    yield from TABLE.values()
