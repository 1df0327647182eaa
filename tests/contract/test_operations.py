"""Every operation of the table against torch, by public functions: value, J, gradient, closed form, and kinks.

One walk over `symgrad.operations`. Nothing here names an operation: one that is added is tested because it is there.

``golden/closed_forms.txt`` has a line for each operand of each example, ``+`` where the gradient by it has a closed form.
One that is lost, or comes, is red until the file says so, after a look at the difference:

    SYMGRAD_UPDATE_GOLDENS=1 python -m pytest -n 0 tests/contract/test_operations.py -k kept

A form is withheld where its text, read back, is not the gradient: `symgrad.dropped_forms` notes each, and none may be.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from tests import torch_side
from tests.compare import assert_same
from tests.sampling import draw_inputs, random_seed, seed_of

KEPT = Path(__file__).parent / "golden" / "closed_forms.txt"


@dataclass(frozen=True, eq=False)
class Case:
    """One example of one operation, with samples in its domain."""

    op: Any
    example: Any

    @property
    def text(self) -> str:
        """What is typed."""
        return str(self.example.text)

    @cached_property
    def inputs(self) -> dict[str, np.ndarray]:
        """Samples; whole numbers where only those are allowed."""
        return draw_inputs(self.op, dict(self.example.shapes), seed_of(str(self)))

    @property
    def moving(self) -> list[str]:
        """The inputs by which there is a gradient: whole numbers cannot be moved a little."""
        return [name for name, array in self.inputs.items() if array.dtype.kind != "i"]

    def __str__(self) -> str:
        shapes = " ".join(f"{name}:{'x'.join(map(str, shape)) or 'scalar'}" for name, shape in self.example.shapes)
        return f"{self.op.name}: {self.text} with {shapes}"


def cases() -> list[Any]:
    """All examples; the first of each operation by default, all tests of one operation in one process."""
    return [
        pytest.param(Case(op, example), id=str(Case(op, example)), marks=[
            pytest.mark.xdist_group(op.name), *([pytest.mark.slow] if number else [])
        ])
        for op in symgrad.operations() for number, example in enumerate(op.examples)
    ]  # fmt: skip


def held_against_torch(case: Case, inputs: dict[str, np.ndarray], thorough: bool) -> None:
    """The value, every gradient and, where it is asked for, every entry of J and the closed form as torch code."""
    fixed = {*inputs} - {*case.moving}
    shape = torch_side.evaluate(case.text, torch_side.tensors(inputs, fixed)).shape
    weights = random_seed(shape, np.random.default_rng(seed_of(case.text)))
    with symgrad.dropped_forms() as dropped:
        found = symgrad.explain(case.text, seed=weights, check=False, **inputs)
        forms = {name: gradient.closed_form for name, gradient in found.gradients.items()} if thorough else {}
    assert not thorough or dropped == []
    assert {*case.moving} <= {*found.gradients}
    fixed |= {*inputs} & {*case.op.data}
    if thorough:
        assert lines_of(case, found) <= kept(), "after a look at it, see the head of this file"
    out, gradients = torch_side.text_gradients(case.text, inputs, weights, fixed)
    assert_same(out, found.output, what=f"the value of {case}")
    rows = jacobians(case.text, inputs, fixed) if thorough else {}
    for name, gradient in found.gradients.items():
        assert_same(gradients[name], gradient.value, what=f"{name}.grad of {case}")
        dense = gradient.jacobian.dense()
        by_rows = (weights.reshape(-1) @ dense).reshape(np.shape(gradient.value))
        assert_same(gradients[name], by_rows, what=f"v times J by {name} of {case}")
        if name in rows:
            assert_same(rows[name], dense, what=f"J by {name} of {case}")
        if (form := forms.get(name)) is not None:
            known = torch_side.tensors({**inputs, "v": weights, "out": out}, fixed)
            assert_same(gradient.value, torch_side.evaluate(form, known), what=f"{form} of {case}")


def lines_of(case: Case, found: symgrad.Explanation) -> set[str]:
    """The lines of one example."""
    signs = {name: "-" if found.gradients[name].closed_form is None else "+" for name in case.moving}
    return {f"{sign} {case}, by {name}" for name, sign in signs.items()}


@lru_cache
def kept() -> frozenset[str]:
    """The lines of the file."""
    return frozenset(KEPT.read_text(encoding="utf-8").splitlines())


def test_every_operand_of_the_table_is_kept() -> None:
    walked = [case.values[0] for case in cases()]
    if os.environ.get("SYMGRAD_UPDATE_GOLDENS"):
        told = {case: lines_of(case, symgrad.explain(case.text, check=False, **case.inputs)) for case in walked}
        KEPT.write_text("".join(f"{line}\n" for case in walked for line in sorted(told[case])), encoding="utf-8")
    names = [line[2:] for line in KEPT.read_text(encoding="utf-8").splitlines()]
    assert sorted(names) == sorted(f"{case}, by {name}" for case in walked for name in case.moving)


def jacobians(text: str, inputs: dict[str, Any], fixed: set[str]) -> dict[str, np.ndarray]:
    """torch.autograd.functional.jacobian by every input that moves: a row for each entry of the output."""
    moving = [name for name in inputs if name not in fixed]
    given = torch_side.tensors(inputs, fixed)

    def run(*arguments: torch.Tensor) -> torch.Tensor:
        return torch_side.evaluate(text, {**given, **dict(zip(moving, arguments, strict=True))})

    found = torch.autograd.functional.jacobian(run, tuple(given[name] for name in moving))
    return {name: j.reshape(-1, given[name].numel()).numpy() for name, j in zip(moving, found, strict=True)}


@pytest.mark.one_in(4, alone=5)
@pytest.mark.parametrize("case", cases())
def test_value_jacobian_and_gradient_are_torchs(case: Case) -> None:
    held_against_torch(case, case.inputs, thorough=True)


def at_kinks(case: Case) -> list[dict[str, np.ndarray]]:
    """Every entry at a kink, every second one, and all inputs equal."""
    points = []
    moving = {n: a for n, a in case.inputs.items() if not case.op.domain_of(n).whole}
    for kink in case.op.kinks:
        points.append({**case.inputs, **{n: np.full(a.shape, float(kink)) for n, a in moving.items()}})
        half = {n: a.copy() for n, a in case.inputs.items()}
        for name in moving:
            half[name].reshape(-1)[::2] = kink
        points.append(half)
        first = next(iter(case.inputs.values()))
        if all(a.shape == first.shape for a in case.inputs.values()):
            points.append({name: np.round(first) for name in case.inputs})
    return points


@pytest.mark.one_in(4, alone=2)
@pytest.mark.parametrize("case", [case for case in cases() if case.values[0].op.kinks])
def test_value_and_gradient_at_a_kink_are_torchs(case: Case) -> None:
    for inputs in at_kinks(case):
        held_against_torch(case, inputs, thorough=False)
