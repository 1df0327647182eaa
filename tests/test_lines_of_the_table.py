"""Every example of the table has a line of code for every operand, and the lines give its pullback when torch runs them.

Where there is no short notation the line is the index equation as array operations (`symgrad.closed_form.array_code`).
What has no code stands in ``WITHOUT``, with the reason; the list may only shrink.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError, UnsupportedError
from symgrad.backward import Backward, derive_backward
from symgrad.numeric import forward, numeric_pullback
from tests.cases import Case, cases
from tests.compare import assert_same
from tests.exports_run import LAYOUTS, TOLERANCES, leaves, slips
from tests.lines_of import run_form, run_lines, strange
from tests.sampling import draw_inputs
from tests.test_export import OTHERWISE as NOT_RUN
from tests.torch_side import known_to_torch, tensors

SIGNS = "torch may hand back the other of two vectors: lines that compute the forward again pull back another sign"
OTHERWISE = {
    "eigh(x).eigenvectors": SIGNS,
    "svd(x, full_matrices=False).U": SIGNS,
    "svd(x, full_matrices=False).Vh": SIGNS,
}
"""Texts that torch does not run as they stand, or not to the same numbers."""
FOUND = "the forward pass finds numbers that no call of torch gives"
LONG = "nobody reads a line of thousands of characters"
WITHOUT: dict[str, str] = {
    "F.pdist(x)": FOUND,
    "F.pdist(x, 1.0)": FOUND,
    "F.pdist(x, 3)": FOUND,
    "quantile(x, 0.3)": FOUND,
    "quantile(x, 0.75, 1, keepdim=True)": FOUND,
    'quantile(x, 0.4, 0, interpolation="midpoint")': FOUND,
    'quantile(x, 0.4, interpolation="higher")': FOUND,
    "lu_factors(x)": "torch has the two factors, not both in one matrix",
    "i1(x)": "torch has no Bessel function of order 2",
    'F.interpolate(x, scale_factor=2, mode="bilinear")': LONG,
    'F.interpolate(x, size=(4, 5), mode="bilinear", align_corners=True)': LONG,
    'F.interpolate(x, size=(3, 4), mode="bicubic")': LONG,
    'F.interpolate(x, size=3, mode="trilinear", align_corners=True)': LONG,
    'F.interpolate(x, size=(2, 2), mode="bilinear", antialias=True)': LONG,
    'F.grid_sample(x, grid, padding_mode="border", align_corners=True)': LONG,
    'F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)': LONG,
    'F.grid_sample(x, grid, "bicubic", align_corners=False)': LONG,
    "grid_sample: F.grid_sample(x, grid, align_corners=False) with x:1x1x2x3x2 grid:1x1x2x1x3": LONG,
}
"""The examples that lack a line, and why."""


def without(case: Case) -> bool:
    """Whether an example is listed, by its text or by that and its shapes."""
    return not WITHOUT.keys().isdisjoint((case.example.text, case.name))


SIZES = (1, 2, 3, 7)
"""What a line for any size is tried at."""
SEEN = "view_as_complex"
"""torch takes pairs for complex numbers only where they lie one after another."""


@pytest.mark.one_in(128)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_lines_of_every_example_give_its_pullback(case: Case) -> None:
    """In one walk: the lines, those without a seed, what is exported, and the closed forms at other sizes."""
    assert not nothing_asked(case).gradients
    names = [name for name in case.names if name not in case.fixed]
    lines = derive_backward(case.program, names, values=case.values)
    try:
        lines.code()
    except UnsupportedError as error:
        assert without(case), error
        return
    assert not without(case)
    assert [*unknown_names(case, lines)] == [] or not known_to_torch(case.example.text)
    assert [*slips_of_forms(case)] == []
    if case.example.text in OTHERWISE:
        return
    (seed,) = case.weights(1)
    expected = numeric_pullback(case.program, case.values, seed, names)
    for floats, layout in PLACES_IN_MEMORY:
        if layout == "strided" and SEEN in case.example.text:
            continue
        given = {name: leaf.detach() for name, leaf in leaves(case.inputs, case.fixed, floats, layout).items()}
        found = run_lines(lines, given, seed, floats=floats)
        for name in names:
            what = f"{case.example.text} in {floats}, {layout}"
            assert found[name].dtype == floats, what
            assert_alike(expected[name], found[name], floats, what)
    if case.last.result.shape == ():
        without_a_seed(case)
    assert [*slips_of_export(case)] == []


PLACES_IN_MEMORY = [(floats, layout) for floats in TOLERANCES for layout in LAYOUTS]


def assert_alike(expected: Any, found: torch.Tensor, floats: torch.dtype, what: str) -> None:
    """As `assert_same`, beside the largest entry: a sum of large terms is as coarse as they are."""
    array = np.asarray(expected, float)
    scale = np.abs(array[np.isfinite(array)]).max(initial=1.0)
    assert_same(array / scale, found.double() / scale, tolerance=TOLERANCES[floats], what=what)


def nothing_asked(case: Case) -> Backward:
    """``autograd.grad(out, other, allow_unused=True)``, where no path leads to the other: nothing is said, in words."""
    found = derive_backward(case.program, [], values=case.values)
    assert not found.lines
    return found


def without_a_seed(case: Case) -> None:
    """`x_grad = 1 / x.numel()` is a number, and no gradient of x."""
    given = {name: case.values[name] for name in case.names}
    found = symgrad.explain(case.example.text, check=False, **given)
    tensor = run_lines(found.backward, {k: v.detach() for k, v in tensors(case.inputs, case.fixed).items()})
    for name in found.backward.gradients:
        value = np.asarray(found.gradients[name].value, float)
        assert_same(value, tensor[name].double(), what=case.name)


def slips_of_export(case: Case) -> Iterator[str]:
    """What the exported function does otherwise than torch, at the sizes of the example and at others."""
    if any(part in case.example.text for part in NOT_RUN):
        return
    try:
        source = symgrad.export(case.example.text, shapes=case.shapes, name="own")
    except UnsupportedError:  # each with its reason, in test_export.py
        return
    yield from slips(source, case.example.text, case.inputs, case.fixed)
    other = case.resized({2: 3, 3: 5, 4: 2, 5: 4})
    if other is not None:
        inputs = draw_inputs(case.op, dict(other), case.seed)
        found = slips(source, case.example.text, inputs, case.fixed)
        yield from (slip for slip in found if "own takes" not in slip)


def slips_of_forms(case: Case) -> Iterator[str]:
    """Where a closed form for any size does not hold at a size at which the text means the same steps."""
    for size in SIZES:
        change = {s: size for shape in case.shapes.values() for s in shape if s != 1}
        other = case.resized(change) if change else None
        if other is None:
            continue
        program = case.at(other).program
        if replace(program, sizes={}) != replace(case.program, sizes={}):
            continue  # it means other steps at this size: a 1 is broadcast, a part is shorter
        try:
            inputs = draw_inputs(case.op, dict(other), case.seed)
            values = forward(program, inputs)
        except (SymgradError, ValueError):  # no such numbers of this size
            continue
        out = np.asarray(values[program.output])
        seed = np.random.default_rng(3).integers(-3, 4, out.shape).astype(float)
        for found in case.derived:
            if found.form is None or found.name in case.fixed:
                continue
            expected = numeric_pullback(program, values, seed, [found.name])[found.name]
            for floats in TOLERANCES:
                given = {name: leaf.detach() for name, leaf in leaves(inputs, case.fixed, floats, "contiguous").items()}
                given |= {"v": torch.tensor(seed, dtype=floats), "out": torch.tensor(out.astype(float), dtype=floats)}
                what = f"{found.form.text} by {found.name} of {case.name} at {size} in {floats}"
                try:
                    got = run_form(found.form.text, given, floats)
                    assert_alike(expected, got.expand(np.shape(expected)) if got.dim() == 0 else got, floats, what)
                except Exception as error:  # whatever a line does wrong
                    yield f"{what}: {type(error).__name__}: {str(error)[:200]}"


def unknown_names(case: Case, lines: Backward) -> Iterator[str]:
    """The names in printed lines that are no tensor, no function of torch's and defined by no line before."""
    known = {tensor.name for tensor in case.program.inputs} | {str(seed) for seed in lines.seeds.values()}
    for line in (*lines.forward, *lines.statements):
        if line.text is not None and "…" not in line.text:  # the middle of a sum of many terms is left out
            yield from (f"{name} in {line}" for name in strange(line.text, known))
        known.add(line.name)


MADE = (
    "logdet(torch.eye(2) + a.T @ a)", "(a[..., [0, 0, 0]] ** 2).sum()", "(torch.arange(3) * a ** 3).sum()",
    "a[torch.tensor([0, 0, 1])].pow(3).sum()", "(torch.eye(2) @ a).pow(3).sum()", "torch.linalg.solve(a, a.T).sum()",
    "torch.linalg.eigvalsh(a @ a.T).pow(2).sum()", "torch.float_power(a, 3).sum()", "(a > 0).sum() * a.pow(3).sum()",
    "torch.linalg.svdvals(a).pow(3).sum()", "h = torch.ones(2, 1) * a; (h @ h).pow(2).sum()", "(F.one_hot(torch.tensor([0, 1]), 2) * a ** 3).sum()",
)  # fmt: skip
"""Constants that a text makes itself, and functions that torch has in a module below its own."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", MADE)
def test_every_name_on_a_page_is_a_tensor_a_function_of_torch_or_defined_before(text: str) -> None:
    shape = (3,) if "arange" in text or "a[torch" in text else (2, 3) if "..." in text else (2, 2)
    draw = np.random.default_rng(0).uniform(0.5, 1.5, shape)
    found = symgrad.explain(text, a=draw, order=2 if text.endswith("sum()") or "logdet" in text else 1, check=False)
    known, page = {"a", "v", "out"}, found.to_text()
    for line in filter(None, str(found.backward).splitlines()):
        name, _, code = line.partition(" = ")
        assert strange(code, known) == [], line
        known.add(name)
    codes = [h.closed_form for h in found.hessians.values()] + [g.closed_form for g in found.gradients.values()]
    constants = {
        name for name in found.backward.constants if f"{name} is {found.backward.constants[name].code}" in page
    }
    for code in filter(None, codes):
        assert strange(code, {"a", "v", "out", *constants}) == [], code


def test_the_lists_name_examples_of_the_table() -> None:
    assert {*OTHERWISE, *WITHOUT} <= {text for case in cases() for text in (case.example.text, case.name)}


def line_of(text: str, **shapes: tuple[int, ...]) -> str | None:
    """The line of x.grad."""
    return symgrad.explain(text, shapes=shapes, check=False).backward.gradients["x"].code


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "shapes", "line"),
    [
        ("roll(x, 2)", {"x": (2, 3)}, None),
        ("F.interpolate(x, size=5)", {"x": (2, 1, 3)}, None),
        ("F.multi_margin_loss(x, target)", {"x": (3,), "target": ()}, None),
    ],
)  # fmt: skip
def test_what_has_no_short_notation_is_said_in_array_operations(
    text: str, shapes: dict[str, tuple[int, ...]], line: str | None
) -> None:
    found = line_of(text, **shapes)
    assert found is not None
    assert line in (None, found)
    assert "arange(" in found


def test_options_that_stand_before_a_tensor_have_no_name() -> None:
    """torch.polygamma's second argument is not called x."""
    found = symgrad.explain(
        "t = polygamma(1, x); h = gather(t * x, 0, index); h * t[0]", shapes={"x": (3,), "index": (2,)}, check=False
    )
    forward = {line.name: line.code for line in found.backward.forward}
    assert forward["t"] == "polygamma(1, x)"
    assert forward["h"] == "gather(t1, 0, index)"
