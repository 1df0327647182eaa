"""The Program: the common form of a typed text and of a running PyTorch program.

A program is in single-assignment form: named inputs, then steps. Each step applies one operation to earlier tensors or
constants and names one result. An operation is an entry of the table, the pullback of one, or an equation given in the
text. A program is frozen, compared by structure, and contains neither derivatives nor arrays. Sizes are SymPy integers
or symbols, so that one program describes every size; ``sizes`` maps the symbols to the numbers known in this run.
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
"""Prefix of the name of an operation that the table does not have."""
SEEDS = ("v", "g", "u", "w", "s")
"""Names for the seed of ``backward``: the first one that no tensor has is taken."""

UNNAMED = re.compile(r"(t|wide)\d+")
"""Matches the generated names of tensors that the user did not name."""


def free_name(wishes: Sequence[str], taken: Collection[str]) -> str:
    """Return the first of ``wishes`` that is not taken, else the first wish with a number.

    >>> free_name(("v", "g"), {"v"}), free_name(("v", "g"), {"v", "g"})
    ('g', 'v_2')
    """
    numbered = (f"{wishes[0]}_{count}" for count in range(2, len(taken) + 3))
    return next(name for name in chain(wishes, numbered) if name not in taken)


class Role(Enum):
    """The effect of an operation on its first operand. Code tests for a role instead of the name of an operation."""

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
    """A number in the program, of rank 0, or None for an optional operand that is left out.

    2 and 2.0 are different constants: an int is exact, and is printed as it was written.
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
    """An input that the text creates with ``code``; ``seed`` is the seed of the generator if its numbers are random."""

    code: str
    seed: int | None = None


Argument = str | Constant
"""The name of an earlier tensor, or a constant."""


@dataclass(frozen=True)
class Pullback:
    """The operation Σ_o v[o]·J[o, p], with J the Jacobian of ``of`` with respect to its operand at ``position``.

    Its arguments are v, the output of ``of`` (None if it is not read), the further tensors that a derivative of ``of``
    reads, and the arguments of ``of``; its options are those of ``of``. ``read`` are the positions of arguments whose
    entries are read; of the others only the shape matters.
    """

    of: Operation
    position: int
    read: tuple[int, ...]

    def __str__(self) -> str:
        return f"the pullback of {self.of}"


@dataclass(frozen=True)
class Pushforward:
    """The operation Σ_k Σ_p J_k[o, p]·u_k[p], with J_k the Jacobian with respect to the k-th of ``positions``.

    Its arguments are the tangents u_k of these operands, then the arguments of a `Pullback` without v.
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
    """An operation that the user defined by an index equation, ``text``, in the notation of `symgrad.notation`."""

    text: str

    def __str__(self) -> str:
        return self.text.partition("=")[0].strip()


Operation = str | VectorProduct | Stated
"""An entry of the table by name, an opaque operation by name, a product with the J of one, or an equation."""


@dataclass(frozen=True)
class Apply:
    """One step: ``result = op(*arguments, **options)``; ``span`` is its place in the user's text.

    ``beside`` are pairs (name in the equation, tensor) of tensors that only the derivative of this step reads.
    """

    op: Operation
    arguments: tuple[Argument, ...]
    options: tuple[Option, ...]
    result: Tensor
    span: Span | None = field(default=None, compare=False)
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def called(self) -> str:
        """The name of the operation; for an opaque one, the name of torch's function."""
        return str(self.op).removeprefix(BLACK_BOX)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of tensors among the arguments, in order, with repetitions."""
        return tuple(a for a in self.arguments if isinstance(a, str))


@dataclass(frozen=True)
class Program:
    """Inputs, steps in order of execution, the name of the output, and the known sizes.

    ``made`` are the inputs that the text creates; they have no gradient. ``spoken`` are names used outside the program,
    which the seed may not take. The steps hold for all sizes at which no expression in ``required`` is negative.
    ``positions`` are pairs (tensor of positions, size of the axis they index), needed where positions on several axes
    are combined into one number.
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
        """Iterate over all tensors, inputs first."""
        yield from self.inputs
        for step in self.steps:
            yield step.result

    def tensor(self, name: str) -> Tensor:
        """Return the tensor called ``name``."""
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
        """The step that computes each tensor, by its name."""
        return {step.result.name: step for step in self.steps}

    @property
    def out(self) -> Tensor:
        """The output tensor."""
        return self.tensor(self.output)

    def alone(self, step: Apply, sizes: Mapping[Size, int] | None = None) -> Program:
        """Return the program of one ``step`` and of its auxiliary tensors, with its operands as inputs."""
        inputs = tuple(self.tensor(name) for name in dict.fromkeys(step.tensors))
        own: tuple[Apply, ...] = (step,)
        read = {name for _, name in step.beside}
        while len(own) < len(read) + 1:
            own = (step, *(s for s in self.steps if s.result.name in read))
            read |= {n for s in own[1:] for n in (*s.tensors, *(name for _, name in s.beside))} - {*step.tensors}
            read -= {step.result.name}
        return Program(inputs, own, step.result.name, dict(self.sizes if sizes is None else sizes))

    def numbers(self, shape: Shape) -> tuple[int, ...]:
        """Return ``shape`` in numbers; every size must be known."""
        values = [fill_sizes(size, self.sizes) for size in shape]
        unknown = [str(v) for v in values if not v.is_Integer]
        if unknown:
            raise bug(f"the sizes {', '.join(unknown)} have no number")
        return tuple(int(v) for v in values)

    @cached_property
    def entries(self) -> Mapping[str, int]:
        """The number of entries of each tensor; 0 if a size is unknown."""
        found = {}
        for tensor in self.tensors():
            sizes = [fill_sizes(size, self.sizes) for size in tensor.shape]
            found[tensor.name] = prod(map(int, sizes)) if all(size.is_Integer for size in sizes) else 0
        return found

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of tensors and sizes."""
        sizes = {str(s) for tensor in self.tensors() for size in tensor.shape for s in size.free_symbols}
        return frozenset({*(tensor.name for tensor in self.tensors()), *sizes})

    @cached_property
    def seed(self) -> str:
        """The name of the seed of ``backward``: v, unless it is taken."""
        return free_name(SEEDS, self.names | self.spoken)

    @cached_property
    def back(self) -> str:
        """Prefix of the name of a cotangent, which no tensor has: v_h is the cotangent of h."""
        prefix = f"{self.seed}_"
        while any(name.startswith(prefix) for name in self.names):
            prefix += "_"
        return prefix

    def carries_weights(self, name: str) -> bool:
        """Whether ``name`` is the seed or a cotangent."""
        return name == self.seed or name.startswith(self.back)

    @cached_property
    def forward_steps(self) -> tuple[Apply, ...]:
        """The steps without those that only derivatives read."""
        own = self.reaching(name for step in self.steps for _, name in step.beside) - self.relevant
        beside = self.reached(own)  # what is made of them is for the same derivatives
        return tuple(step for step in self.steps if step.result.name not in beside)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """Names of the tensors that the output depends on."""
        return self.reaching((self.output,))

    def reaching(self, ends: Iterable[str]) -> frozenset[str]:
        """Return ``ends`` and all tensors from which they are computed."""
        found = set(ends)
        for step in reversed(self.steps):
            if step.result.name in found:
                found.update(step.tensors)
        return frozenset(found)

    def with_given(self, names: Collection[str]) -> Program:
        """Return the program with the results ``names`` as inputs, without the steps that only they needed."""
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
        """Iterate over the operands of the call that a step belongs to; torch has no tensors between its steps."""
        within = {s.result.name: s for s in self.steps if s.span is not None and s.span == step.span}
        for name in step.tensors:
            yield from self.outside(within[name]) if name in within else (name,)

    def reached(self, starts: Iterable[str]) -> frozenset[str]:
        """Return ``starts`` and all tensors computed from them."""
        found = set(starts)
        for step in self.steps:
            if not found.isdisjoint(step.tensors):
                found.add(step.result.name)
        return frozenset(found)
