"""What an entry of the table is: an operation as one index equation, and the facts that go with it.

`symgrad.entries.equations.op` makes one of a call and its equation. There is no field in which a derivative could be
written. Facts are in groups: how a call is written, where the derivative exists, rules for shapes and options, what a
derivative reads, and traits of the operation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from symgrad.entries import Registry
from symgrad.entries.operands import Domain, reals
from symgrad.indexing.equation import Equation
from symgrad.indexing.symbols import Expr, Index, access
from symgrad.program import Operation, Role, Stated
from symgrad.shapes import Shape, Size, Sizes

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


class HeldTensor(View):
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
Definition = Callable[[At, Sequence[View | None], Mapping[str, HeldTensor], Options], Expr]
"""The output's entry at some indices, from the operands, what is held still, and the options."""


def no_alignment(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
    """Operands stay as they are."""
    return shapes


def shape_of_first(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
    """The output has the shape of the first operand."""
    return shapes[0]


def keep_options(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
    """No option depends on a size."""
    return dict(options)


def keep_options_as_given(shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
    """Options stay as they are."""
    return dict(options)


TORCHS = ("torch.", "F.", "Tensor.")
"""What a spelling begins with that torch has; what is NumPy's, or ATen's, it has not in these words."""


class HasSignature:
    """What a signature says of its tensors."""

    signature: inspect.Signature

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The tensors."""
        return tuple(p.name for p in self.signature.parameters.values() if is_operand(p.annotation))

    @cached_property
    def optional(self) -> frozenset[str]:
        """The tensors that may be left out."""
        return frozenset(n for n in self.operands if self.signature.parameters[n].default is None)

    @cached_property
    def data(self) -> frozenset[str]:
        """The tensors to which no gradient flows."""
        kinds = (Data, Data | None)
        return frozenset(n for n in self.operands if self.signature.parameters[n].annotation in kinds)

    @cached_property
    def variadic(self) -> bool:
        """Whether it takes any number of tensors: ``cat(*tensors)``."""
        return any(p.kind is p.VAR_POSITIONAL for p in self.signature.parameters.values())


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """How torch, NumPy and jax write a call, where the name and the options do not say so.

    ``template`` is torch's spelling of what is no call by its name: ``qr({}).Q``, ``{}.T``. ``returns`` names the parts
    of a result that is not one tensor; the entry defines the first that is not None. ``index_suffix`` makes torch's
    call give the whole numbers of `Saved.index_data`: ``.indices``, or what replaces its last bracket. ``required`` are
    options that torch requires although they have a default here, ``dim if keepdim`` only beside that one.
    ``implied_axis`` is the axis of a spelling that has no ``dim``, ``between_two`` the entry that torch means by the
    same word between two tensors. ``arrays`` is the body of a function of torch's arguments for NumPy and jax
    (`symgrad.exporting.numpy_text`).
    """

    template: str = ""
    returns: tuple[str, ...] = ()
    index_suffix: str = ""
    required: tuple[str, ...] = ()
    implied_axis: Mapping[str, Callable[[Sequence[int | None]], int]] = field(default_factory=dict)
    between_two: str = ""
    arrays: str = ""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Where the operation ends to be differentiable, and what torch does there.

    ``edges`` are values of operands at which there is no derivative and torch has a number of its own; ``margin`` is
    how far from them, a number or an option, torch still has one. No logarithm in the forward is less than
    ``least_log``, and 0 times one is 0.
    """

    edges: tuple[Mapping[str, float], ...] = ()
    margin: float | str = 0.0
    least_log: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Functions of sizes, shapes and options.

    ``shape`` is the shape of the output, ``align`` what operands are broadcast to, ``prepare`` the options in canonical
    form, ``resolve`` what in them depends on sizes (where a slice begins), ``slots`` which of them are positions: a
    derivation for one position then holds for all (`symgrad.calculus.differentiate`).
    """

    shape: ShapeRule = shape_of_first
    align: AlignRule = no_alignment
    prepare: PrepareRule = keep_options_as_given
    resolve: ResolveRule = keep_options
    slots: SlotRule | None = None


@dataclass(frozen=True, kw_only=True)
class SavedForBackward:
    """What the derivative reads beside the operands, held still.

    ``names`` are all of these tensors, ``out`` for the output. ``index_data`` computes whole numbers from the forward
    pass, ``auxiliaries`` tensors by entries of the table from operands and output. ``residual`` gives the equations
    F(*views, out) = 0 that the output solves (`symgrad.ops.decompositions`). With ``reuse`` the derivative of an
    equation without ``out`` may be written through it: 1 − out².
    """

    names: tuple[str, ...] = ()
    index_data: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    auxiliaries: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    residual: Callable[..., tuple[Equation, ...]] | None = None
    reuse: bool = False


@dataclass(frozen=True, kw_only=True)
class Traits:
    """How the operation behaves, as far as its equation does not say it.

    ``role`` identifies it for other code (`symgrad.program.Role`). ``result_dtype`` says what torch makes of truth
    values and whole numbers (`symgrad.entries.derived_facts`). ``gathers``: it reads entries at positions that an
    operand has. ``where_like``: the places of its condition and of its choices, and which choice a true condition
    takes. ``complex_pairs`` are the operands, ``out`` among them, that are complex in torch and pairs (re, im) here
    (`symgrad.ops.complex_pairs`).
    """

    role: Role | None = None
    result_dtype: str = ""
    gathers: bool = False
    where_like: tuple[int, tuple[int, ...], int | None] | None = None
    complex_pairs: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Op(HasSignature):
    """One row of the table.

    **What it is.** ``index(at, views, held, options)`` is the equation, ``definition`` its text, ``variants`` the texts
    under other options, ``summary`` a sentence. ``expands`` is the operation in simpler ones, as text or by its
    operands and options (`symgrad.ops.layers`); ``stated`` is the equation of an operation outside the table.

    **How it is called.** The ``signature`` says which parameters are tensors. ``torch(torch, *tensors, **options)`` and
    ``numpy(*arrays, **options)`` compute the forward independently; without the second the equation is evaluated.
    ``spellings`` are all names of it.

    **Where it is defined.** ``domain`` and ``ranks`` say which operands there may be, ``kinks`` are points where torch
    chooses a derivative, and it is ``smooth`` if its derivative has no jumps; ``letters`` are the indices on a page.

    **How it behaves.** The four groups `Rules`, `SavedForBackward`, `Limits` and `Traits`.
    """

    name: str
    summary: str
    definition: str
    index: Definition
    variants: Mapping[str, str] = field(default_factory=dict)
    expands: str | Callable[..., str | None] | None = None
    stated: Stated | None = None

    signature: inspect.Signature
    torch: Callable[..., Any]
    numpy: Callable[..., Any] | None = None
    spellings: tuple[str, ...] = ()
    spelling: Spelling = Spelling()
    examples: tuple[Example, ...] = ()

    domain: Mapping[str, Domain] = field(default_factory=dict)
    ranks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    kinks: tuple[float, ...] = ()
    smooth: bool = True
    letters: str | Callable[..., str] = "ijkl"

    rules: Rules = Rules()
    saved: SavedForBackward = SavedForBackward()
    limits: Limits = Limits()
    traits: Traits = Traits()

    @property
    def operation(self) -> Operation:
        """What a step that applies it has for its operation."""
        return self.stated or self.name

    @property
    def subscripts(self) -> str:
        """The option in front of any number of tensors, which says what their axes are called; none of most."""
        first = next(iter(self.signature.parameters.values()))
        option = first.kind is not first.VAR_POSITIONAL and first.name not in self.operands
        return first.name if self.variadic and option else ""

    @property
    def defaults(self) -> dict[str, Any]:
        """The options nobody gave."""
        parameters = self.signature.parameters.values()
        return {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in self.operands}

    def is_required(self, option: str, others: Collection[str]) -> bool:
        """Whether torch requires an option beside ``others``, although it has a default here."""
        required = self.spelling.required
        return option in required or any(f"{option} if {other}" in required for other in others)

    def returns_pair(self, options: Mapping[str, Any]) -> bool:
        """Whether torch returns values and indices: along an axis, or where both are asked for."""
        along = "values" in self.spelling.returns and options.get("dim", 0) is not None
        return along or options.get("return_indices") is True

    def letters_for(self, options: Mapping[str, Any]) -> str:
        """What the axes of the output are called on a page, where nothing else is called so."""
        return self.letters(**options) if callable(self.letters) else self.letters

    def index_call(self, call: str) -> str | None:
        """Torch's code for the whole numbers of `Saved.index_data`, from its call; None if torch keeps them."""
        found = ".indices" if "indices" in self.spelling.returns else self.spelling.index_suffix
        if found.startswith("."):
            return f"{call.removesuffix('.values')}{found}"
        return f"{call.removesuffix(')')}{found}" if found else None

    def domain_of(self, operand: str) -> Domain:
        """Where ``operand`` may lie."""
        return self.domain.get(operand, reals())

    def takes_some(self, place: int) -> bool:
        """Whether an operand has to be a matrix of some kind, or lie between some numbers."""
        domain = self.domain_of(self.operands[min(place, len(self.operands) - 1)])
        return domain.ends or bool(domain.matrix)

    def __repr__(self) -> str:
        return f"<operation {self.name}: {self.definition}>"


FILES: tuple[list[str], list[str]] = ([], [])
"""The files of the table, in its order and in that in which a name is looked for in them (`symgrad.ops`)."""
TABLE: Registry[Op] = Registry(*FILES)
SPELLINGS: Registry[Op] = Registry(*FILES)
ROLES: Registry[Op] = Registry(*FILES)
"""The one entry of a role that a step is made with, by the role's name."""
FAMILIES = TABLE.source
"""The module of the table that an entry stands in, by its name; empty for one that was made elsewhere."""
COMPOUNDS: Registry[Any] = Registry([], [])
"""What `symgrad.ops.calls` spells: known to those who suggest a name."""


def register(op: Op) -> Op:
    """Put ``op`` into the table under its name and every spelling."""
    if op.name in TABLE.entered:
        raise AssertionError(f"symgrad bug: operation {op.name!r} is defined twice")
    TABLE[op.name] = op
    if op.traits.role is not None:
        ROLES[op.traits.role.name] = op
    for spelling in (op.name, *op.spellings):
        if (other := SPELLINGS.entered.get(spelling, op)) is not op:
            raise AssertionError(f"symgrad bug: {spelling!r} means {other.name} and {op.name}")
        SPELLINGS[spelling] = op
    return op


def operations() -> Iterator[Op]:
    """Every operation of the table, in its order.

    Each has a ``name``, its ``definition`` as an index equation, and ``examples``: a ``text`` and the ``shapes`` of its
    inputs. ``domain_of(operand)`` says where samples lie: within ``draw``, away from ``avoid``; at ``kinks`` torch has
    chosen a derivative.
    """
    yield from TABLE.values()
