"""The backward of a program as lines that a person would write: plain frozen data.

Built by `symgrad.backward.lines`; read by whoever shows or exports it. ``v_h`` has the shape of ``h`` and is the
derivative of Σ v·out by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from symgrad.backward.parts.code import as_function
from symgrad.backward.parts.deep import room_for
from symgrad.backward.parts.line import Line
from symgrad.backward.parts.provisos import provisos
from symgrad.calculus import Back, back
from symgrad.errors import UnsupportedError
from symgrad.notebook import Listed
from symgrad.numeric import Array
from symgrad.program import Program


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
        return provisos(self.source, self.inputs, self.forward, self.statements)

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
        forward = [(line.target, line.code) for line in self.forward if line.code is not None]
        backward = [(line.target, line.code) for line in self.statements if line.code is not None]
        read = frozenset().union(*(line.names for line in (*self.forward, *self.statements)))
        unsaid = [line for line in self.forward if line.code is None and line.target in read]
        missing = next((line for line in (*unsaid, *self.statements) if line.code is None), None)
        if missing is not None:
            raise UnsupportedError(
                f"the backward cannot be written as code: {missing.name} has no short notation",
                found=(missing.own,) if missing.own else (),
            )
        seeds = [seed for seed in self.seeds.values() if seed is not None]
        results = [line.target for line in self.gradients.values()]
        with room_for(self.source):
            return as_function(name, [*self.inputs, *seeds], forward, backward, results, self.provisos)

    def __repr__(self) -> str:
        return "\n".join([*map(str, self.forward), "", *map(str, self.statements)])
