"""The Program: what every way in (text, a running PyTorch program) becomes, and everything else reads.

A program is in single-assignment form: named inputs, then steps that each apply one operation to earlier tensors or
constants and name one result. An operation is one of the table, the pullback of one, or an equation that the text
states. A program is frozen, compared by structure, and knows neither derivatives nor arrays. Sizes are SymPy integers
or symbols, so that one program stands for every size; ``sizes`` says which numbers the symbols have in the run at hand,
where they are known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import prod

from symgrad.errors import Span, bug
from symgrad.shapes import Shape, Size, fill_sizes

Number = int | float | Fraction | Size
"""A constant; one that depends on sizes (``x.shape[0]``) is a SymPy expression in them."""
Option = tuple[str, Hashable]
BLACK_BOX = "opaque "
"""What the name of an operation begins with that no table has."""
SEEDS = ("v", "g", "u", "w", "s")
"""What the seed of ``backward`` is called: the first that no tensor is called."""

UNNAMED = re.compile(r"(t|wide)\d+")
"""What tensors are called that nobody gave a name."""


def free_name(wishes: Sequence[str], taken: Collection[str]) -> str:
    """The first of ``wishes`` that is not taken, else the first one numbered.

    >>> free_name(("v", "g"), {"v"}), free_name(("v", "g"), {"v", "g"})
    ('g', 'v_2')
    """
    numbered = (f"{wishes[0]}_{count}" for count in range(2, len(taken) + 3))
    return next(name for name in chain(wishes, numbered) if name not in taken)


class Role(Enum):
    """What becomes of the first operand, for those who go by that and not by a name: an entry of the table says so."""

    COPIES = "it is repeated along axes, as broadcasting does: a step that often goes without saying"
    HANDS_ON = "it is handed on as it is"
    CUTS = "it is handed on, and no gradient flows back"
    INDEXES = "its entries at an index or slice of each axis, by an option that is the key"
    PICKS = "its entries at the positions, a vector of whole numbers, along an axis"
    INVERTS = "its inverse: a product of both is the identity"
    SOLVES = "the solution of the linear system that it is the matrix of"
    MEASURES = "its length, which is 0 for nothing but 0"
    PAIRS = "the real part of complex numbers, whose imaginary part is the second operand"
    AVERAGES = "its sum, divided by how many entries are added"
    JOINS = "its entries, and behind them those of the other operands, along an axis that they have"
    STACKS = "its entries, and behind them those of the other operands, along a new axis"
    OPENS = "its entries, with an axis of one more"
    PADS = "its entries, with margins around them"
    FLATTENS = "its entries, with axes that follow each other as one"
    TURNS = "vectors that belong to it, of which each may as well have the other sign"
    SPREADS = "its entries on a diagonal, with zeros beside them"
    ADDS = "its entries, with slices of another operand added at positions along an axis"


@dataclass(frozen=True)
class Constant:
    """A number written into the program, of rank 0; None stands for an optional operand that is left out.

    2 and 2.0 are two numbers: one is exact, and what is derived with it is written as it was.
    """

    value: Number | None
    kind: type = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value))


@dataclass(frozen=True)
class Tensor:
    """A named tensor with its shape."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Own:
    """An input that the text makes itself: with this code; ``seed`` is the generator's where its numbers are drawn."""

    code: str
    seed: int | None = None


Argument = str | Constant
"""The name of an earlier tensor, or a constant."""


@dataclass(frozen=True)
class Pullback:
    """The operation Σ_o v[o]·J[o, p], J the Jacobian of the operation ``of`` by its operand at ``position``.

    It is applied to v, to the output of ``of`` (None where it does not count), to the tensors that a derivative of
    ``of`` reads beside, and to the arguments of ``of``, with the options of ``of``. ``read`` are the places among all
    these whose entries count; of the others it is the shape alone.
    """

    of: Operation
    position: int
    read: tuple[int, ...]

    def __str__(self) -> str:
        return f"the pullback of {self.of}"


@dataclass(frozen=True)
class Pushforward:
    """The operation Σ_k Σ_p J_k[o, p]·u_k[p], J_k the Jacobian of ``of`` by its operand at the k-th of ``positions``.

    It is applied to the changes u_k of these operands, and then to what a `Pullback` is applied to behind v.
    """

    of: Operation
    positions: tuple[int, ...]
    read: tuple[int, ...]

    def __str__(self) -> str:
        return f"the pushforward of {self.of}"


VectorProduct = Pullback | Pushforward
"""The product of vectors and the Jacobians of an operation."""


@dataclass(frozen=True)
class Stated:
    """An operation that a text states by its own index equation, ``text``, in the notation of `symgrad.notation`."""

    text: str

    def __str__(self) -> str:
        return self.text.partition("=")[0].strip()


Operation = str | VectorProduct | Stated
"""An operation of the table by its name (one not there is a black box), a product with J of one, or an equation."""


@dataclass(frozen=True)
class Apply:
    """One step: ``result = op(*arguments, **options)``; ``span`` is where the user wrote it.

    ``beside`` says which tensors, computed from this step for its derivative's sake, the equation reads as what.
    """

    op: Operation
    arguments: tuple[Argument, ...]
    options: tuple[Option, ...]
    result: Tensor
    span: Span | None = field(default=None, compare=False)
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def called(self) -> str:
        """What its operation is called; a black box by torch's function."""
        return str(self.op).removeprefix(BLACK_BOX)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names among the arguments, in order, repeated as often as they are used."""
        return tuple(a for a in self.arguments if isinstance(a, str))


@dataclass(frozen=True)
class Program:
    """Inputs, steps in order of execution, the name of the output, and the sizes that are known.

    ``made`` are the inputs that the text makes itself: nothing flows to them.
    ``spoken`` are names of something else beside the program, which the seed cannot have either.
    The steps are right for all sizes at which nothing in ``required`` is negative. ``positions`` are tensors with the
    number of places that the axis has that they count on: which is not said by the steps where those of several axes
    become one number.
    """

    inputs: tuple[Tensor, ...]
    steps: tuple[Apply, ...]
    output: str
    sizes: Mapping[Size, int] = field(default_factory=dict, compare=False, hash=False)
    spoken: frozenset[str] = field(default=frozenset(), compare=False)
    required: tuple[Size, ...] = ()
    made: Mapping[str, Own] = field(default_factory=dict, compare=False, hash=False)
    positions: tuple[tuple[str, int], ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        defined = {t.name for t in self.inputs}
        for step in self.steps:
            missing = [name for name in step.tensors if name not in defined]
            if missing or step.result.name in defined:
                raise bug(f"program is not in single-assignment form at {step}")
            defined.add(step.result.name)
        if self.output not in defined:
            raise bug(f"program output {self.output!r} is not defined")

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor, inputs first."""
        yield from self.inputs
        for step in self.steps:
            yield step.result

    def tensor(self, name: str) -> Tensor:
        """The tensor called ``name``."""
        found = self.by_name.get(name)
        if found is None:
            raise bug(f"no tensor {name!r} in the program")
        return found

    @cached_property
    def by_name(self) -> Mapping[str, Tensor]:
        """Every tensor by its name, inputs first."""
        return {tensor.name: tensor for tensor in self.tensors()}

    @cached_property
    def readers(self) -> Mapping[str, Sequence[Apply]]:
        """The steps that read each tensor, each step once."""
        found: dict[str, list[Apply]] = {}
        for step in self.steps:
            for name in dict.fromkeys(step.tensors):
                found.setdefault(name, []).append(step)
        return found

    @cached_property
    def makers(self) -> Mapping[str, Apply]:
        """The step that gives each computed tensor."""
        return {step.result.name: step for step in self.steps}

    @property
    def out(self) -> Tensor:
        """The output tensor."""
        return self.tensor(self.output)

    def alone(self, step: Apply, sizes: Mapping[Size, int] | None = None) -> Program:
        """The program of one ``step`` and what it reads beside, its operands given; at these ``sizes``, if any."""
        inputs = tuple(self.tensor(name) for name in dict.fromkeys(step.tensors))
        own: tuple[Apply, ...] = (step,)
        read = {name for _, name in step.beside}
        while len(own) < len(read) + 1:
            own = (step, *(s for s in self.steps if s.result.name in read))
            read |= {n for s in own[1:] for n in (*s.tensors, *(name for _, name in s.beside))} - {*step.tensors}
            read -= {step.result.name}
        return Program(inputs, own, step.result.name, dict(self.sizes if sizes is None else sizes))

    def numbers(self, shape: Shape) -> tuple[int, ...]:
        """``shape`` in numbers; every size has to be known."""
        values = [fill_sizes(size, self.sizes) for size in shape]
        unknown = [str(v) for v in values if not v.is_Integer]
        if unknown:
            raise bug(f"the sizes {', '.join(unknown)} have no number")
        return tuple(int(v) for v in values)

    @cached_property
    def entries(self) -> Mapping[str, int]:
        """How many entries each tensor has; 0 where a size is open."""
        found = {}
        for tensor in self.tensors():
            sizes = [fill_sizes(size, self.sizes) for size in tensor.shape]
            found[tensor.name] = prod(map(int, sizes)) if all(size.is_Integer for size in sizes) else 0
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """What tensors and sizes are called."""
        sizes = {str(s) for tensor in self.tensors() for size in tensor.shape for s in size.free_symbols}
        return frozenset({*(tensor.name for tensor in self.tensors()), *sizes})

    @cached_property
    def seed(self) -> str:
        """What the seed of ``backward`` is called: v, unless a tensor is."""
        return free_name(SEEDS, self.names | self.spoken)

    @cached_property
    def back(self) -> str:
        """What the name of a gradient on its way back begins with, as no tensor's does: v_h is the gradient by h."""
        prefix = f"{self.seed}_"
        while any(name.startswith(prefix) for name in self.names):
            prefix += "_"
        return prefix

    def carries_weights(self, name: str) -> bool:
        """Whether ``name`` is the seed's or that of a gradient on its way back."""
        return name == self.seed or name.startswith(self.back)

    @cached_property
    def forward_steps(self) -> tuple[Apply, ...]:
        """The steps but those that only derivatives read."""
        own = self.reaching(name for step in self.steps for _, name in step.beside) - self.relevant
        beside = self.reached(own)  # what is made of them is for the same derivatives
        return tuple(step for step in self.steps if step.result.name not in beside)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """Names of the tensors that the output depends on."""
        return self.reaching((self.output,))

    def reaching(self, ends: Iterable[str]) -> frozenset[str]:
        """``ends``, and every tensor that they are computed from."""
        found = set(ends)
        for step in reversed(self.steps):
            if step.result.name in found:
                found.update(step.tensors)
        return frozenset(found)

    def with_given(self, names: Collection[str]) -> Program:
        """The same program with some steps' results among its inputs, and without what only those steps read."""
        needed, kept = {self.output}, []
        for step in reversed(self.steps):
            if step.result.name in needed and step.result.name not in names:
                kept.append(step)
                needed |= {*step.tensors, *(read for _, read in step.beside)}
        given = tuple(s.result for s in self.steps if s.result.name in names and s.result.name in needed)
        if not given:
            return self
        return replace(self, inputs=(*self.inputs, *given), steps=tuple(reversed(kept)))

    def outside(self, step: Apply) -> Iterator[str]:
        """What the call reads that a step is within: between the steps of one call torch has no tensors."""
        within = {s.result.name: s for s in self.steps if s.span is not None and s.span == step.span}
        for name in step.tensors:
            yield from self.outside(within[name]) if name in within else (name,)

    def reached(self, starts: Iterable[str]) -> frozenset[str]:
        """``starts``, and every tensor that is computed from them."""
        found = set(starts)
        for step in self.steps:
            if not found.isdisjoint(step.tensors):
                found.add(step.result.name)
        return frozenset(found)
