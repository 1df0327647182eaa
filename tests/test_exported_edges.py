"""Exported code at the edges of every operation: it has torch's number, or its docstring says what is otherwise there.

At edges, kinks and the ends of a domain, with one entry of one operand there, or all of them. Where torch's own forward
pass has no finite value there is nothing to be compared. Matrices that decompositions take are left out: at a singular
one they have no derivative, and which of two signs their factors have differs.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.language import read_program
from symgrad.ops import Example, Op, find, operations
from symgrad.oracles.torch import run_torch
from tests.compare import assert_same
from tests.sampling import draw

OPS = [
    op
    for op in operations()
    if not op.traits.complex_pairs and not any(op.domain_of(name).matrix for name in op.operands)
]
EDGED = [op for op in OPS if op.limits.edges]
TOLD = (
    "may differ from these lines",
    "that term counts as 0",
    "so is what stands beside it",
    "this line divides by 0",
    "norms above eps",
)
"""What a docstring may say of such a point."""
Inputs = dict[str, np.ndarray]


def points(op: Op, example: Example) -> Iterator[Inputs]:
    """Numbers at which something may be undefined; positions, classes and masks are drawn."""
    shapes = dict(example.shapes)
    numbers = [n for n in shapes if not op.domain_of(n).whole]
    base = {n: draw(op.domain_of(n), s, np.random.default_rng(0)) for n, s in shapes.items()}
    for edge in (*op.limits.edges, *(dict.fromkeys(numbers, at) for at in op.kinks)):
        yield base | {n: np.full(shapes[n], edge.get(n, 0.5)) for n in numbers}
    for name in numbers:
        domain = op.domain_of(name)
        for end in sorted({0.0, 1.0, domain.low, domain.high}):
            if np.isfinite(end) and base[name].size:
                one = np.array(base[name], dtype=float)
                one.reshape(-1)[0] = end
                yield base | {name: one}
                yield base | {name: np.full(shapes[name], end)}


def of_the_code(source: str, inputs: Inputs, weights: np.ndarray) -> Inputs:
    """The gradients that exported functions give, by the inputs in their names."""
    space: dict[str, Any] = {}
    exec(compile(source, "exported", "exec"), space)
    function = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    given = [torch.as_tensor(inputs[argument.arg]) for argument in function.args.args]
    found = space["own_backward"](torch.as_tensor(weights), *given)
    names = source.rpartition("return ")[2].strip().split(", ")
    arrays = found if isinstance(found, tuple) else (found,)
    return {name.removesuffix("_grad"): array.numpy() for name, array in zip(names, arrays, strict=True)}


def differences(example: Example, source: str, inputs: Inputs, anywhere: bool = False) -> list[str]:
    """The inputs by which the code and torch have different numbers; none where torch refuses.

    Nor where it has no finite value, unless ``anywhere`` counts.
    """
    program = read_program(example.text, shapes=dict(example.shapes)).program
    weights = np.random.default_rng(1).integers(1, 4, program.numbers(program.out.shape)).astype(float)
    names = source.rpartition("return ")[2].strip().replace("_grad", "").split(", ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = run_torch(program, inputs, weights, names)
    except SymgradError:
        return []
    assert answer is not None
    if answer.refusal or not (anywhere or np.isfinite(answer.output).all()):
        return []
    got, found = of_the_code(source, inputs, weights), []
    for name in names:
        expected = answer.gradients[name]
        try:
            assert_same(np.zeros(got[name].shape) if expected is None else expected, got[name], tolerance=1e-7)
        except AssertionError:
            found.append(name)
    return found


def exported(example: Example) -> str | None:
    """Two functions for torch; None where there is no code."""
    try:
        return symgrad.export(example.text, shapes=dict(example.shapes), name="own", style="functions")
    except UnsupportedError:
        return None


@pytest.mark.one_in(60)
@pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
def test_the_code_has_torchs_number_or_says_that_it_has_not(op: Op) -> None:
    for example in op.examples:
        source = exported(example)
        for inputs in points(op, example) if source else ():
            assert source is not None
            apart = differences(example, source, inputs)
            words = " ".join(source.split())
            assert not apart or any(told in words for told in TOLD), (example.text, inputs, apart, source)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("op", EDGED, ids=[op.name for op in EDGED])
def test_where_the_docstring_names_a_point_torch_does_answer_otherwise(op: Op) -> None:
    told = 0
    for example in op.examples:
        source = exported(example)
        for at in re.findall(r"(?:as at|or) ([^()]*) \(by ([^()]*)\)", " ".join((source or "").split())):
            assert source is not None
            values = {n: float(v) for n, v in (part.split(" = ") for part in at[0].split(", "))}
            inputs = {n: np.full(s, values.get(n, 0.5)) for n, s in example.shapes}
            apart = differences(example, source, inputs, anywhere=True)
            assert set(at[1].split(" and ")) <= {*apart}, (example.text, at)
            told += 1
    assert told


@pytest.mark.parametrize("text", ["xlogy(x, y)", "h = x + 1; h ** y"])
def test_the_lines_of_a_page_as_code_say_it_too(text: str) -> None:
    found = symgrad.explain(text, x=[0.5, 1], y=[2, 1.5], check=False)
    assert "may differ from these lines" in " ".join(found.backward.code().split())
    assert "otherwise" not in symgrad.explain("x ** 2", x=[0.5, 1], check=False).backward.code()


@pytest.mark.parametrize("text", ["lu_factors(x)", "h = lu_factors(x); h.sum()"])
def test_what_torch_has_no_function_for_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match="torch has no function lu_factors"):
        symgrad.export(text, shapes={"x": (3, 3)})


def test_a_layer_whose_shape_is_left_out_is_exported_with_it() -> None:
    op = find("layer_norm")
    assert op is not None
    source = exported(op.examples[0])
    assert source is not None
    assert "F.layer_norm(x, (x.shape[1],))" in source
    assert not differences(op.examples[0], source, {"x": np.arange(6.0).reshape(2, 3) ** 2})
