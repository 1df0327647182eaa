"""The classes of a table entry: an operation as one index equation, and facts about it.

`symgrad.entries.equations.op` builds an entry from a call and its equation. No field holds a derivative. Facts are in
groups: how a call is written, where the derivative exists, rules for shapes and options, what a derivative reads, and
traits of the operation.
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
    """An operand inside an index equation: ``x[i, j]`` is its entry. A constant has one value at every index."""

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
    """An operand without a gradient: positions, classes, a mask, running statistics."""


class HeldTensor(View):
    """A tensor that the equation reads as a constant: the operation's own output, or integers that it computed."""


@dataclass(frozen=True)
class Example:
    """An expression that shows and tests an operation, and the shapes of its inputs."""

    text: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]


def is_operand(annotation: Any) -> bool:
    """Whether a parameter with this annotation is a tensor."""
    return any(annotation == kind for kind in (View, Data, View | None, Data | None))


Opening = Callable[[Any, Size], Size]
"""Replaces a position in an option by a symbol; the second argument is the largest position possible."""
ShapeRule = Callable[..., Shape]  # (sizes, shapes, **options) -> shape of the output
AlignRule = Callable[..., tuple[Shape, ...]]  # (sizes, shapes, **options) -> shapes to broadcast operands to
PrepareRule = Callable[..., dict[str, Hashable]]  # (shapes, **options) -> the options in canonical form
SlotRule = Callable[..., dict[str, Hashable]]  # (open, shapes, **options) -> the options that hold positions, opened
ResolveRule = Callable[..., dict[str, Hashable]]  # (sizes, shapes, **options) -> the options, what sizes decide in them
Definition = Callable[[At, Sequence[View | None], Mapping[str, HeldTensor], Options], Expr]
"""Builds the output's entry at given indices from the operands, the tensors read as constants, and the options."""


def no_alignment(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
    """Return the shapes of the operands unchanged."""
    return shapes


def shape_of_first(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
    """Return the shape of the first operand."""
    return shapes[0]


def keep_options(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
    """Return the options unchanged: none depends on a size."""
    return dict(options)


def keep_options_as_given(shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
    """Return the options unchanged."""
    return dict(options)


TORCHS = ("torch.", "F.", "Tensor.")
"""Prefixes of the spellings that torch itself has; ``np.`` and ``aten.`` are left out."""


class HasSignature:
    """Properties of the tensors among the parameters of a ``signature``."""

    signature: inspect.Signature

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of the parameters that are tensors."""
        return tuple(p.name for p in self.signature.parameters.values() if is_operand(p.annotation))

    @cached_property
    def optional(self) -> frozenset[str]:
        """The names of the tensors that may be left out."""
        return frozenset(n for n in self.operands if self.signature.parameters[n].default is None)

    @cached_property
    def data(self) -> frozenset[str]:
        """The names of the tensors without a gradient."""
        kinds = (Data, Data | None)
        return frozenset(n for n in self.operands if self.signature.parameters[n].annotation in kinds)

    @cached_property
    def variadic(self) -> bool:
        """Whether it takes any number of tensors: ``cat(*tensors)``."""
        return any(p.kind is p.VAR_POSITIONAL for p in self.signature.parameters.values())


@dataclass(frozen=True, kw_only=True)
class Spelling:
    """How torch, NumPy and jax write a call that does not follow from the name and the options.

    ``template`` is torch's text where it is not a call of the name: ``qr({}).Q``, ``{}.T``. ``returns`` names the parts
    of a result of several tensors; the entry defines the first that is not None. ``index_suffix`` turns torch's call
    into the integers of `SavedForBackward.index_data`: ``.indices``, or a text that replaces the last bracket.
    ``required`` are options that torch requires and this entry gives a default; ``dim if keepdim`` is required only
    together with ``keepdim``. ``implied_axis`` is the axis of a spelling without ``dim``. ``between_two`` is the entry
    that torch means by the same word between two tensors. ``arrays`` is the body of a function of torch's arguments
    for NumPy and jax (`symgrad.exporting.numpy_text`).
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
    """Where the operation is not differentiable, and what torch computes there.

    ``edges`` are values of operands without a derivative, at which torch returns a number of its choice. ``margin`` is
    the distance from them within which torch still does so: a number, or the name of an option. Logarithms in the
    forward are clamped to at least ``least_log``, and 0 times a logarithm is 0.
    """

    edges: tuple[Mapping[str, float], ...] = ()
    margin: float | str = 0.0
    least_log: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Functions of sizes, shapes and options.

    ``shape`` returns the shape of the output, ``align`` the shapes to which operands are broadcast, ``prepare`` the
    options in canonical form. ``resolve`` fills in options that depend on sizes (the start of a slice). ``slots``
    replaces positions among the options by symbols, so that one derivation holds for all positions
    (`symgrad.calculus.differentiate`).
    """

    shape: ShapeRule = shape_of_first
    align: AlignRule = no_alignment
    prepare: PrepareRule = keep_options_as_given
    resolve: ResolveRule = keep_options
    slots: SlotRule | None = None


@dataclass(frozen=True, kw_only=True)
class SavedForBackward:
    """The tensors that the derivative reads as constants, beside the operands.

    ``names`` are all of these tensors, ``out`` for the output. ``index_data`` computes integers from the forward pass,
    ``auxiliaries`` computes tensors from operands and output by entries of the table. ``residual`` returns the
    equations F(*views, out) = 0 that the output solves (`symgrad.ops.decompositions`). With ``reuse`` the derivative
    of an equation without ``out`` may be written in terms of ``out``: 1 − out².
    """

    names: tuple[str, ...] = ()
    index_data: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    auxiliaries: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    residual: Callable[..., tuple[Equation, ...]] | None = None
    reuse: bool = False


@dataclass(frozen=True, kw_only=True)
class Traits:
    """Properties of the operation that do not follow from its equation.

    ``role`` identifies it for other code (`symgrad.program.Role`). ``result_dtype`` describes torch's dtype promotion
    of booleans and integers (`symgrad.entries.derived_facts`). ``gathers``: it reads entries at positions given by an
    operand. ``where_like``: the places of the condition and of the choices, and which choice a true condition selects.
    ``complex_pairs`` are the operands, or ``out``, that are complex in torch and pairs (re, im) here
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
    under other options, ``summary`` one sentence. ``expands`` writes the operation in simpler ones: a text, or a
    function of its operands and options (`symgrad.ops.layers`). ``stated`` is the equation of an operation outside the
    table.

    **How it is called.** Annotations of the ``signature`` mark the tensors. ``torch(torch, *tensors, **options)`` and
    ``numpy(*arrays, **options)`` compute the forward independently; without ``numpy`` the equation is evaluated.
    ``spellings`` are all its names.

    **Where it is defined.** ``domain`` and ``ranks`` describe the operands allowed, ``kinks`` are points where torch
    chooses a derivative. It is ``smooth`` if its derivative has no jumps. ``letters`` are the indices on a page.

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
        """The operation of a program step that applies this entry."""
        return self.stated or self.name

    @property
    def subscripts(self) -> str:
        """The option in front of any number of tensors that names their axes (einsum), or an empty text."""
        first = next(iter(self.signature.parameters.values()))
        option = first.kind is not first.VAR_POSITIONAL and first.name not in self.operands
        return first.name if self.variadic and option else ""

    @property
    def defaults(self) -> dict[str, Any]:
        """The default values of the options."""
        parameters = self.signature.parameters.values()
        return {p.name: p.default for p in parameters if p.default is not p.empty and p.name not in self.operands}

    def is_required(self, option: str, others: Collection[str]) -> bool:
        """Whether torch requires an option together with ``others``, although it has a default here."""
        required = self.spelling.required
        return option in required or any(f"{option} if {other}" in required for other in others)

    def returns_pair(self, options: Mapping[str, Any]) -> bool:
        """Whether torch returns values and indices: along an axis, or with ``return_indices``."""
        along = "values" in self.spelling.returns and options.get("dim", 0) is not None
        return along or options.get("return_indices") is True

    def letters_for(self, options: Mapping[str, Any]) -> str:
        """The letters for the axes of the output on a page, unless another name takes them."""
        return self.letters(**options) if callable(self.letters) else self.letters

    def index_call(self, call: str) -> str | None:
        """Torch's code for the integers of `SavedForBackward.index_data`; None if torch does not return them."""
        found = ".indices" if "indices" in self.spelling.returns else self.spelling.index_suffix
        if found.startswith("."):
            return f"{call.removesuffix('.values')}{found}"
        return f"{call.removesuffix(')')}{found}" if found else None

    def domain_of(self, operand: str) -> Domain:
        """The numbers that ``operand`` may have."""
        return self.domain.get(operand, reals())

    def takes_some(self, place: int) -> bool:
        """Whether an operand must be a matrix of some kind, or lie within bounds."""
        domain = self.domain_of(self.operands[min(place, len(self.operands) - 1)])
        return domain.ends or bool(domain.matrix)

    def __repr__(self) -> str:
        return f"<operation {self.name}: {self.definition}>"


FILES: tuple[list[str], list[str]] = ([], [])
"""The files of the table: in the order of the table, and in the order of search for a name (`symgrad.ops`)."""
TABLE: Registry[Op] = Registry(*FILES)
SPELLINGS: Registry[Op] = Registry(*FILES)
ROLES: Registry[Op] = Registry(*FILES)
"""The entry of each role, by the role's name."""
FAMILIES = TABLE.source
"""The module that defines an entry, by the entry's name; empty for an entry made outside the table."""
COMPOUNDS: Registry[Any] = Registry([], [])
"""The calls of `symgrad.ops.calls`, by name, for suggestions of a name."""


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
