"""The backward of a program as lines that a person would write: plain frozen data.

`symgrad.backward.cotangent_lines` builds it; whoever shows or exports a backward reads it. ``v_h`` has the shape of
``h`` and is the derivative of Σ v·out with respect to it. The index equations that a line is derived from are made when
something asks for them: a line that an earlier run proved is shown without. Where lines do not hold as they stand, or
where torch has other numbers, `provisos` says so in a sentence each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

import sympy as sp

from symgrad.backward.code import LONG, recursion_room, write_function
from symgrad.backward.form_guards import product_to_where
from symgrad.calculus import Back, Push, Sweep, back, pullback
from symgrad.closed_form import DIVIDED, describe_dropped_guards
from symgrad.errors import UnsupportedError
from symgrad.indexing import Equation, instantiate
from symgrad.indexing.equation import with_names
from symgrad.language.python_text import read_python, write_python
from symgrad.language.trees import tensor_names
from symgrad.notation.tree import SyntaxNode
from symgrad.notebook import Listed
from symgrad.numeric import Array
from symgrad.ops.lookup import entry_of
from symgrad.program import Apply, Constant, Own, Program
from symgrad.shapes import Shape, Size

WIDE = 240
"""Nodes of the formula that a line may come from."""
WORD, SHORT = re.compile(r"\w+"), 4
"""What a name is made of, and so many characters of it count in the length of a line: long ones are read as easily."""


@dataclass(frozen=True)
class LineOrigin:
    """What a line is derived from: a group, and the tensor that the cotangent is pulled back to.

    ``held`` are the names of the whole numbers that its operations found, ``unit`` says that the seed is the number 1.
    """

    program: Program
    held: tuple[tuple[str, str], ...]
    wanted: str
    unit: bool

    @property
    def sweep(self) -> Sweep:
        """The pullback, as index equations."""
        return pull_back_origin(self)

    @property
    def equation(self) -> Equation | None:
        """The pullback entry by entry; None where one formula does not say it all."""
        return self.sweep.equation if self.sweep.whole else None


@lru_cache(maxsize=2048)
def pull_back_origin(of: LineOrigin) -> Sweep:
    """The pullback of a standard group, under the names of what it found."""
    sweep = pullback(of.program, of.wanted, Equation((), sp.S.One) if of.unit else None, WIDE)
    return sweep.changed(partial(with_names, names=dict(of.held))) if of.held else sweep


@dataclass(frozen=True)
class Contribution:
    """What reaches a tensor through one that reads it; ``equation`` says it entry by entry.

    It is derived in standard names, and put into the names of the page, when it is asked for. ``rules`` led from there
    to its line.
    """

    through: str
    origin: LineOrigin | None
    names: Mapping[str, str]
    sizes: Mapping[Size, Size]
    rules: tuple[str, ...] = ()

    @property
    def derived(self) -> Equation | None:
        """The index equation in standard names; None where it would be too long, or is torch's own."""
        return None if self.origin is None else self.origin.equation

    @property
    def equation(self) -> Equation | None:
        """The index equation in the names of the page."""
        return None if self.derived is None else instantiate(self.derived, self.names, self.sizes)


@dataclass(frozen=True)
class Line:
    """One statement, ``name = text`` as it is shown and ``target = tree`` as Python.

    The two differ where the user's name for a tensor is no name of Python (``fc1.weight``, ``fc1_weight``). A line of
    the backward belongs to the tensor ``of`` and has its shape; a name for what stands twice belongs to none.
    ``tree`` is None where no short notation says it; ``parts`` say it entry by entry, one for each use. ``through``
    are the tensors whose cotangents it reads, ``rules`` those that merged or shortened it; ``own`` is the reason where
    a part of it is torch's own product. ``value`` are its numbers, where there are any.
    """

    name: str
    text: str | None
    target: str
    tree: SyntaxNode | None
    of: str
    shape: Shape | None
    parts: tuple[Contribution, ...] = ()
    through: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    own: str = ""
    value: Array | None = field(default=None, compare=False, repr=False)

    @cached_property
    def code(self) -> str | None:
        """The right-hand side as Python."""
        return None if self.tree is None else write_python(self.tree)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that its code reads."""
        return frozenset() if self.tree is None else tensor_names(self.tree)

    @property
    def is_told(self) -> bool:
        """Whether it stands among others: it says how it is computed, or that nothing short does."""
        return self.text is not None or bool(self.parts)

    @property
    def shown(self) -> str:
        """The line as it stands among others: of one that nobody would read, how long it is; of none, why."""
        if self.code is None:
            return f"{self}  # {self.own or 'no line of code was found and proven for it'}"
        spare = sum(max(len(word) - SHORT, 0) for word in WORD.findall(self.code or "") if word in self.names)
        if self.text is None or len(self.text) - spare <= LONG:
            return str(self)
        return f"{self.name} = …  # {len(self.code or self.text):,} characters of code, by symgrad code"

    def __str__(self) -> str:
        return f"{self.name} = {self.text if self.text is not None else '…'}"


@dataclass(frozen=True)
class Backward(Listed):
    """``forward`` and ``lines`` in the order of their computation; ``gradients`` by the tensor they belong to.

    ``inputs`` are the tensors that the forward pass begins with, as Python names them. ``seeds`` are what the weights
    of the outputs are called; the one of an output whose seed is the number 1 has no name. ``source`` is the program
    that they are the backward of; ``letter`` what the name of a cotangent begins with.
    """

    inputs: tuple[str, ...]
    forward: tuple[Line, ...]
    lines: tuple[Line, ...]
    gradients: Mapping[str, Line]
    seeds: Mapping[str, str | None]
    source: Program = field(repr=False)
    letter: str = "v"

    @cached_property
    def back(self) -> Back:
        """The backward as a program, and which of its tensors is the cotangent of what.

        Raises `UnsupportedError` where a black box is on the way.
        """
        ones = any(seed is None for seed in self.seeds.values())
        return back(self.source, tuple(self.gradients), ends=tuple(self.seeds), ones=ones)

    @property
    def program(self) -> Program:
        """What the source computes and then its cotangents, each step one derived equation; as `back` raises.

        >>> import symgrad
        >>> found = symgrad.explain("x@a", check=False).backward.program
        >>> [f"{step.result.name} is {step.called}" for step in found.steps]
        ['out is matmul', 'v_x is the pullback of matmul', 'v_a is the pullback of matmul']
        """
        return self.back.program

    @property
    def statements(self) -> tuple[Line, ...]:
        """All lines of the backward, the gradients last."""
        return (*self.lines, *self.gradients.values())

    @property
    def provisos(self) -> tuple[str, ...]:
        """Where the lines do not hold as they stand, or torch has other numbers, in a sentence each."""
        page = dict(zip((tensor.name for tensor in self.source.inputs), self.inputs, strict=True))
        page |= {line.of: line.target for line in reversed(self.forward)}
        moving = self.source.reached(line.of for line in self.statements)
        told = [*provisos_of_lines(self.statements), *provisos_of_steps(self.source, moving, page)]
        return tuple(dict.fromkeys(told))

    @property
    def whole(self) -> bool:
        """Whether every line has code."""
        return all(line.code is not None for line in self.statements)

    def needed(self, name: str) -> tuple[Line, ...]:
        """The lines that the gradient by ``name`` is computed from, in order; raises `KeyError` for other names."""
        gradient, found = self.gradients[name], list[Line]()
        wanted, read = set(gradient.through), set(gradient.names)
        for line in reversed(self.lines):
            if line.of in wanted or line.target in read:
                found.append(line)
                wanted.update(line.through)
                read |= line.names
        return tuple(reversed(found))

    def with_values(self, values: Mapping[str, Array]) -> Backward:
        """These lines with their numbers, by the tensors that they belong to."""
        lines = tuple(replace(line, value=values.get(line.of)) for line in self.lines)
        gradients = {name: replace(line, value=values.get(line.of)) for name, line in self.gradients.items()}
        return replace(self, lines=lines, gradients=gradients)

    def code(self, name: str = "backward") -> str:
        """A Python function of the inputs and the seed, in torch; its docstring says where it does not hold.

        Raises `UnsupportedError` where a line has no code, `InputError` for what is no ``name``.

        >>> import symgrad
        >>> print(symgrad.explain("x@a", check=False).backward.code())
        import torch
        <BLANKLINE>
        <BLANKLINE>
        def backward(x, a, v):
            x_grad = v @ a.T
            a_grad = x.T @ v
            return x_grad, a_grad
        """
        lines = [*self.statements]
        read = set[str]().union(*(line.names for line in lines))
        for line in reversed(self.forward):
            if line.target in read:
                lines.insert(0, line)
                read |= line.names
        missing = next((line for line in lines if line.code is None), None)
        if missing is not None:
            raise UnsupportedError(
                f"the backward cannot be written as code: {missing.name} has no short notation",
                found=(missing.own,) if missing.own else (),
            )
        seeds = [seed for seed in self.seeds.values() if seed is not None]
        results = [line.target for line in self.gradients.values()]
        made = [(name, read_python(own.code)) for name, own in self.constants.items() if name in read]
        given = [name for name in self.inputs if name not in self.constants]
        body = [*made, *((line.target, line.tree) for line in lines if line.tree is not None)]
        with recursion_room(self.source):
            return write_function(name, [*given, *seeds], body, results, self.provisos)

    @property
    def constants(self) -> Mapping[str, Own]:
        """The inputs that the text makes itself, the same at every call."""
        pairs = zip(self.source.inputs, self.inputs, strict=True)
        own = {page: self.source.made[t.name] for t, page in pairs if t.name in self.source.made}
        return {page: made for page, made in own.items() if made.seed is None and made.code.startswith("torch.")}

    def __repr__(self) -> str:
        made = [f"{name} = {own.code}" for name, own in self.constants.items()]
        return "\n".join([*made, *map(str, self.forward), "", *map(str, self.statements)])


LEFT_OUT = "No class may be left out (ignore_index)."
OTHERWISE = "At and beyond the edges of its domain, as at {}, torch's {} may differ from these lines."


def provisos_of_lines(lines: Sequence[Line]) -> Iterator[str]:
    """What the rules left out that led to them."""
    parts = [part for line in lines for part in line.parts if part.derived is None or part.derived.right is not sp.nan]
    rules = {rule for part in parts for rule in part.rules}
    yield from describe_dropped_guards(rules)
    if "none left out" in rules:
        yield LEFT_OUT
    if any(line.tree is not None and product_to_where(line.tree) != line.tree for line in lines):
        yield DIVIDED


def provisos_of_steps(program: Program, moving: frozenset[str], page: Mapping[str, str]) -> Iterator[str]:
    """Where torch's own backward of a step has other numbers than its equation, by what is ``moving``."""
    for step in program.steps:
        points = list(find_step_edges(program, step, moving, page))
        if points:
            yield OTHERWISE.format(" or ".join(points), step.called)


def find_step_edges(program: Program, step: Apply, moving: frozenset[str], page: Mapping[str, str]) -> Iterator[str]:
    """The edges of a step at which torch has numbers of its own: ``x = 0, y = 2 (by y)``."""
    entry = entry_of(step.op)
    given = dict(zip(entry.operands, step.arguments, strict=False)) if entry else {}
    names = [str(argument) for argument in dict.fromkeys(given.values()) if argument in moving]
    for edge in entry.limits.edges if entry and names else ():
        if all(not isinstance(a := given[operand], Constant) or a.value == value for operand, value in edge.items()):
            at = {a: value for operand, value in edge.items() if isinstance(a := given[operand], str)}
            from symgrad.oracles.torch_rules import own_numbers

            found = list(own_numbers(program.alone(step), at, names))
            if found:
                told = ", ".join(f"{page.get(name, name)} = {value:g}" for name, value in at.items())
                yield f"{told} (by {' and '.join(page.get(own.by, own.by) for own in found)})"


@dataclass(frozen=True)
class ForwardMode:
    """``push`` as a program, and its ``lines``: those of the program itself, and those of the changes."""

    push: Push
    lines: tuple[Line, ...]

    @property
    def changes(self) -> tuple[Line, ...]:
        """The lines of the changes alone."""
        own = {step.result.name for step in self.push.steps}
        return tuple(line for line in self.lines if line.of in own)

    @property
    def texts(self) -> list[str]:
        """The lines as they are shown; none where no change of an input changes the output."""
        end = self.push.tangents.get(self.push.source.output)
        if end is None:
            return []
        same = [f"J{self.push.letter} = {end}"] if end in self.push.directions.values() else []
        return [*(line.shown for line in self.lines), *same]
