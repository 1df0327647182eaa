"""Truth values and whole numbers: what torch keeps as such comes to torch's number, or is refused with a reason.

Over the whole table: each operand of each example, and several at once, is made a comparison or whole numbers, as
torch has them. Where torch takes that, symgrad's value is the same, or there is none; so it is when a fraction is
then written into the result, which only numbers can hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError, UnsupportedError
from symgrad.language import read_program
from symgrad.numeric import forward
from symgrad.ops import TABLE, Op
from symgrad.ops.calls.registry import COMPOUNDS
from tests import torch_side
from tests.compare import assert_same

FORMS = ("({} > 0)", "(({} > 0) + 1)")
FRACTION = "masked_fill({}, sum({}) == sum({}), 2.5)"
"""Truth values and whole numbers cannot hold what this writes."""


def variants(op: Op) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The examples of ``op`` with some operands made truth values or whole numbers, and numbers for the inputs."""
    generator = np.random.default_rng(0)
    for example in op.examples:
        read_only = [name for name, _ in example.shapes if op.domain_of(name).whole]
        moving = [name for name, _ in example.shapes if name not in read_only]
        inputs = {
            n: generator.integers(0, 2, size=s) if n in read_only else generator.uniform(-2, 2, size=s)
            for n, s in example.shapes
        }
        plain = re.sub(r"^(\w+)_part\((.*), part=(\d+)\)$", r"torch.\1(\2)[\3]", example.text)
        for form in FORMS:
            for count in range(1, len(moving) + 1):
                for some in combinations(moving, count):
                    names = rf"(?<![.\w])({'|'.join(some)})\b(?!=)"
                    yield re.sub(names, lambda found, form=form: form.format(found[1]), plain), inputs


def by_torch(op: Op, text: str, inputs: dict[str, np.ndarray]) -> torch.Tensor | None:
    """What torch makes of it, as what it keeps it; None where it refuses."""
    known = {n: torch.tensor(a) if op.domain_of(n).whole else torch_side.tensor(a) for n, a in inputs.items()}
    try:
        return torch_side.evaluate(text, known, as_numbers=False)
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
        return None


def by_symgrad(text: str, inputs: dict[str, np.ndarray]) -> np.ndarray | None:
    """What symgrad makes of it; None where it refuses."""
    try:
        program = read_program(text, shapes={name: a.shape for name, a in inputs.items()}).program
        return np.asarray(forward(program, inputs)[program.output], dtype=float)
    except SymgradError as error:
        assert error.problem
        return None


@pytest.mark.one_in(27)
@pytest.mark.parametrize("name", TABLE)
def test_an_operation_on_truth_values_and_whole_numbers_agrees_with_torch_or_is_refused(name: str) -> None:
    for text, inputs in variants(TABLE[name]):
        expected = by_torch(TABLE[name], text, inputs)
        if expected is None or (got := by_symgrad(text, inputs)) is None:
            continue
        torch_side_number = expected.to(torch.float64).numpy()
        assert_same(torch_side_number, got, what=text)
        written = FRACTION.format(f"({text})", "x", "x") if "x" in inputs else None
        if written is None:
            continue
        after, ours = by_torch(TABLE[name], written, inputs), by_symgrad(written, inputs)
        if expected.dtype == torch.float64:
            assert ours is not None, f"{text} is numbers in torch, and {written} was refused"
        elif after is not None and ours is not None:
            assert_same(after.to(torch.float64).numpy(), ours, what=written)


CALLS = ("{}({})", "{}({})[0]", "{}([{}, x])", "{}([{}, x])[0]", "{}({}, x)", "{}({}, x)[0]", "{}({}, 1)", "{}({}, 2)[1]",
         "{}({}, 0, (2, 2))", "{}({}, {})", "{}(({}, {}))", "{}({}, {}, 0)")  # fmt: skip
"""How a call of several entries may be written: `Compound` by `Compound`, those that fit."""


@pytest.mark.one_in(60, slow=6)
@pytest.mark.parametrize("word", sorted({name for name in COMPOUNDS if not name.startswith(("aten", "np", "Tensor"))}))
@pytest.mark.parametrize("form", [form.format("x") for form in FORMS])
def test_a_call_of_several_entries_keeps_truth_values_and_whole_numbers_as_torch_does(word: str, form: str) -> None:
    """What is written into its result, and the sum with itself, is torch's number or refused."""
    inputs = {"x": np.array([2.0, -1.0, 1.0, -3.0])}
    for call in CALLS:
        text = call.format(word, *[f"({form})"] * (call.count("{}") - 1))
        kept = by_torch(TABLE["add"], text, inputs)
        if not isinstance(kept, torch.Tensor) or kept.is_complex():
            continue
        for after in (FRACTION.format(text, "x", "x"), f"{text} + {text}", f"x[{text}]"):
            expected, ours = by_torch(TABLE["add"], after, inputs), by_symgrad(after, inputs)
            if isinstance(expected, torch.Tensor) and ours is not None:
                assert_same(expected.to(torch.float64).numpy(), ours, what=after)


FOUND = [
    ("masked_fill(0.5 > x, a != 0, 2.0)", "booleans"),
    ("(x > 0) + (a > 0)", "boolean"),
    ("index_fill(x < a, 0, n, 2.0)", "booleans"),
    ("pad(x > a, (1, 1), value=2.0)", "booleans"),
    ("scatter_add(x > 0, 0, m, a > 0)", "boolean"),
    ("diff(x > 0)", "boolean"),
    ("masked_fill(sum(x > 0, dim=0), a[0] != 0, 2.5)", "integers"),
    ("F.hardtanh((x > 0) + 1, -0.5, 1.5)", "integers"),
    ("F.avg_pool1d((x > 0) + 1, 2)", "integers"),
    ("s = x > 0; t = s.T; t + t", "boolean"),
    ("F.scaled_dot_product_attention(x, x, x, x > a)", "mask"),
    ("F.scaled_dot_product_attention(x, x, x, b)", "mask"),
    ("b + b", "boolean"),
    ("vstack([x > 0, b]) + vstack([b, b])", "boolean"),
    ("x[torch.hstack([b[0, :1], b[1, :1]])]", "mask"),
    ("x[torch.isnan(x)]", "mask"),
    ("(b.view_as(x) + torch.logical_not(b)) * x", "boolean"),
    ("masked_fill(torch.hstack([torch.tensor([1]), torch.tensor([2])]), a[0] == 1, 2.5)", "integers"),
]


@pytest.mark.parametrize(("text", "word"), FOUND, ids=[text for text, _ in FOUND])
def test_what_torch_keeps_as_truth_values_is_refused_with_a_reason(text: str, word: str) -> None:
    """Each gave another number than torch; the remedy says how to have symgrad's."""
    given = {"x": np.eye(2), "a": np.ones((2, 2)), "n": np.array([0]), "m": np.zeros((1, 2), int), "b": np.eye(2) > 0}
    used = {name: value for name, value in given.items() if re.search(rf"\b{name}\b(?!=)", text)}
    with pytest.raises(UnsupportedError, match=word) as caught:
        symgrad.explain(text, check=False, **used)
    assert caught.value.hints


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.0 * (x > 0) + (x > 0)", 2), ("masked_fill(x > 0, x > 0, 1)", 1), ("sum(x > 0) + sum(x > 0)", 2),
        ("(x > 0) * 2.5", 2.5), ("where(x > 0, x > 0, 2.5) + 1", 2), ("(x > 0) / 2 + (x > 0) / 2", 1),
    ],
)  # fmt: skip
def test_truth_values_that_are_numbers_in_torch_too_are_taken(text: str, expected: float) -> None:
    assert symgrad.explain(text, x=[3]).output.reshape(-1).tolist() == [expected]
