"""Every example of every operation of the table as a case to test: program, shapes, inputs, seeds.

Nothing here names an operation: a new entry of the table is tested because it is there. What is derived of a case
is derived once in a process, and all tests of one operation run in the same one (tests/conftest.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pytest
import sympy as sp
from _pytest.mark import ParameterSet

from symgrad import Explanation, SymgradError, operations
from symgrad.documents.operation import worked
from symgrad.explanation import derive_only
from symgrad.language import read_program
from symgrad.numeric import Values, forward
from symgrad.oracles.torch import data_inputs
from tests.sampling import draw_inputs, random_seed, seed_of


@dataclass(frozen=True, eq=False)
class Case:
    """One example of one operation."""

    op: Any
    example: Any
    name: str

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs."""
        return dict(self.example.shapes)

    @cached_property
    def seed(self) -> int:
        """The random seed of this case."""
        return seed_of(self.name)

    @cached_property
    def program(self) -> Any:
        """The example read."""
        return read_program(self.example.text, shapes=self.shapes).program

    @property
    def last(self) -> Any:
        """The step that computes the output: what only derivatives read may come after it."""
        return next(step for step in self.program.steps if step.result.name == self.program.output)

    @cached_property
    def inputs(self) -> dict[str, np.ndarray]:
        """Samples in the operation's domain."""
        return draw_inputs(self.op, self.shapes, self.seed)

    @cached_property
    def values(self) -> Values:
        """Every tensor of the program at the samples."""
        return forward(self.program, self.inputs)

    @cached_property
    def output(self) -> np.ndarray:
        """The forward value."""
        return self.values[self.program.output]

    @property
    def names(self) -> list[str]:
        """The inputs."""
        return [tensor.name for tensor in self.program.inputs]

    @cached_property
    def fixed(self) -> frozenset[str]:
        """The inputs that are only read: nothing flows back to them."""
        return data_inputs(self.program)

    @cached_property
    def derived(self) -> tuple[Any, ...]:
        """What is derived by each input, its closed form where it has one."""
        return derive_only(self.program, self.names)

    @cached_property
    def story(self) -> Explanation:
        """The worked example of the operation's page: every oracle asked, at round numbers."""
        return worked(self.op, self.example, check=True)

    def weights(self, count: int) -> list[np.ndarray]:
        """Random integer seeds in the shape of the output."""
        generator = np.random.default_rng(self.seed)
        return [random_seed(self.output.shape, generator) for _ in range(count)]

    @cached_property
    def elsewhere(self) -> dict[Any, Case]:
        """The same text at other shapes, those that a test has asked for."""
        return {}

    def at(self, shapes: Mapping[str, tuple[int, ...]]) -> Case:
        """The same text at other shapes; what is read and derived there is so once as well."""
        example = replace(self.example, shapes=tuple(shapes.items()))
        return self.elsewhere.setdefault(example.shapes, Case(self.op, example, self.name))

    def resized(self, change: Mapping[int, int]) -> Mapping[str, tuple[int, ...]] | None:
        """The shapes with every size replaced by ``change``, the same everywhere; None where that does not fit."""
        shapes = {n: tuple(change.get(size, size) for size in shape) for n, shape in self.shapes.items()}
        try:
            other = self.at(shapes).program
        except SymgradError:  # the example's own numbers, a reshape's say, may allow no other size
            return None
        # A wide matrix may take other steps than a tall one, or its diagonal be as long as another axis: that is another
        # program, with forms of its own.
        numbers = {size: sp.Integer(number) for size, number in other.sizes.items()}
        required = [size.xreplace(numbers) for size in self.program.required]
        same = [s.op for s in other.steps] == [s.op for s in self.program.steps]
        return shapes if same and not any(number.is_negative for number in required) else None


@lru_cache(maxsize=1)
def cases() -> Sequence[Case]:
    """All examples of all operations, in the order of the table."""
    found: list[Case] = []
    for op in operations():
        for example in op.examples:
            shapes = " ".join(f"{name}:{'x'.join(map(str, shape)) or 'scalar'}" for name, shape in example.shapes)
            found.append(Case(op, example, f"{op.name}: {example.text} with {shapes}"))
    return found


DERIVED = 6
"""By default the formulas of one operation in so many are derived at every size, and held against torch's gradient; the
slow tests do so for all."""
STORIES = 30
"""By default the worked example of one operation in so many is made, proven and printed; the slow tests do so for all."""


@lru_cache
def first_by_default(every: int = 1, others: str = "slow") -> Sequence[ParameterSet]:
    """`cases` as parameters: the first example of every operation in the default run, the others in the slow one.

    With ``every`` only of so manyth operation, for what takes its time; ``others`` marks examples that are not the first.
    """
    first = {case.op.name: case for case in reversed(cases())}
    default = {case for number, case in enumerate(first.values()) if number % every == 0}
    marks = {case: [] if case in default else [pytest.mark.slow] for case in first.values()}
    return [pytest.param(case, id=case.name, marks=marks.get(case, [getattr(pytest.mark, others)])) for case in cases()]


def first_stories() -> Sequence[ParameterSet]:
    """`cases` for what is told of a worked example: one of each operation in the slow run, the others at night.

    The numbers of the others, their lines and their exports have tests of their own in the slow run.
    """
    return first_by_default(STORIES, "night")
