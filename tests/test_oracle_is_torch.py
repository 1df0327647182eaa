"""What the oracle says of a text is what torch itself gives for it, word for word, also where two rules meet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import symgrad
from symgrad import SymgradError
from symgrad.entries.spec import TORCHS
from symgrad.language import read_program
from symgrad.ops import COMPOUNDS, TABLE
from symgrad.oracles.typed_text import ask_torch
from symgrad.question import torch_expression
from tests import torch_side
from tests.compare import assert_same
from tests.torch_calls import call_text

FORMS = (
    "{}(x)", "{}(x, y)", "{}(x, y, z)", "{}(x, 1)", "{}(x, 0)", "{}(x, 1, 0)", "{}(x, y, 1)", "{}(x, 0.5)", "{}(x, 2)", "{}(x, 0, y)",
    "{}(x, True)", "{}(x, 0, False)", "{}(x, 1, True)", "{}(x, 1, False, True)", "{}(x, y, True)", "{}(x, y, 'sum')", "{}(x, y, z, 'sum')",
    "{}(x, y, 0.5, 'sum')", "{}(x, y, None, 'sum')", "{}(x, y, z, 1, 'sum')", "{}(x, y, z, 1, 2, 1e-6, False, 'sum')", "{}(x, y, 'none', 2)",
    "{}([x, y])", "{}([x, y], 1)", "{}(x, -1, 1)", "{}(x, (2,))", "{}(x, y, reduction='sum')", "{}(x, min=y)", "{}(x, max=y)",
)  # fmt: skip
RESULTS = ("", "[0]", "[1]")
INPUTS: Mapping[str, dict[str, Any]] = {
    "ordinary": {"x": [[0.3, -1.2, 2.1], [0.7, 1.9, -0.4]], "y": [[0.6, 0.2, -1.5], [1.1, -0.8, 0.9]], "z": [[1.4, 0.5, 2.2], [-0.3, 1.7, 0.1]]},
    "equal": {"x": [[-2.0, 1.0, 3.0], [0.5, 0.5, -1.0]], "y": [[0.0, 1.0, 1.0], [0.5, 2.0, -1.0]], "z": [[0.0, 1.0, 1.0], [0.5, 2.0, -1.0]]},
    "matrices": {"x": [[3.0, 1.0], [1.0, 2.0]], "y": [[1.0, 0.5], [-0.5, 2.0]], "z": [[2.0, 0.0], [0.3, 1.0]]},
    "zeros": {"x": [[0.0, 0.0, 0.0], [0.0, 1.0, -1.0]], "y": [[0.0, 0.0, 1.0], [0.0, 1.0, 1.0]], "z": [[0.0, 1.0, 0.0], [0.0, 1.0, 2.0]]},
}  # fmt: skip
OTHERWISE = {
    "F.hardsigmoid": "torch's sixth is one of float32",
    "torch._weight_norm": "torch hands back memory that nobody wrote for the lengths alone",
    "torch.linalg.lstsq": "torch gives no residuals of a matrix without full rank, and symgrad refuses it",
}
"""What is not compared, and why."""
WORDS = sorted(
    name for name in {*COMPOUNDS, *(s for op in TABLE.values() for s in op.spellings)} - {*OTHERWISE}
    if name.startswith(TORCHS)
)  # fmt: skip


def by_torch(text: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """torch's own gradients of a text, with ones as the seed; None where torch does not take it."""
    leaves = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in given.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of axes, of losses that broadcast, of numbers that are not finite
            out = eval(text, {"torch": torch, "F": F, **leaves})  # noqa: S307 -- the tests' own texts
            if not isinstance(out, torch.Tensor) or out.is_complex() or not out.requires_grad:
                return None
            torch.autograd.backward(out.sum())
    except Exception:
        return None
    return {
        name: None if leaf.grad is None else torch.zeros_like(leaf).add(leaf.grad).numpy()
        for name, leaf in leaves.items()
    }


@pytest.mark.one_in(48, slow=6)
@pytest.mark.parametrize("word", WORDS)
def test_the_oracle_is_torch(word: str) -> None:
    texts = [
        call_text(word, form.removeprefix("{}(").removesuffix(")")) + result for form in FORMS for result in RESULTS
    ]
    for where, text in product(INPUTS, texts):
        given = {
            name: np.array(INPUTS[where][name])
            for name in "xyz"
            if name in text.replace(word.removeprefix("Tensor."), "")
        }
        expected = by_torch(text, given)
        if expected is None:
            continue
        try:
            reading = read_program(text, shapes={name: value.shape for name, value in given.items()})
            program = reading.program
            shape = program.numbers(program.out.shape)
            text_read = torch_expression(text, reading, {})
            found = ask_torch(text_read, program, {**given, **reading.made}, np.ones(shape), tuple(given))
        except SymgradError:
            continue
        assert found is not None
        if found.turned or found.refused or found.refusal:
            continue
        for name, gradient in expected.items():
            ours = found.gradients[name]
            none = np.zeros(given[name].shape)
            assert_same(
                none if gradient is None else gradient,
                none if ours is None else ours,
                what=f"{text}, {where}, by {name}",
            )


def test_a_bound_that_meets_the_other_is_told_as_torch_has_it() -> None:
    """Where lo = hi torch gives neither a gradient; step by step it was the sum of both, and said to be equal to torch."""
    values = {"x": [-2.0, 0.5, 3.0], "lo": [0.0, 0.0, 1.0], "hi": [0.0, 1.0, 1.0]}
    given = {name: np.array(value) for name, value in values.items()}
    told = " ".join(symgrad.explain("torch.clamp(x, lo, hi)", seed=np.ones(3), **given).to_text().split())
    assert "lo[0] = 0 is where torch.clamp(x, lo, hi) switches" in told
    assert f"torch {torch.__version__.partition('+')[0]} takes 0, symgrad 1" in told
    assert "Equal to torch" not in told


MEETING = {"x": [1.0, -2.0, 0.5], "y": [1.0, 0.0, 0.5], "z": [1.0, 0.0, 2.0]}


@pytest.mark.parametrize(
    "text", ["torch.clamp(x, y, z)", "x.clamp(y, z).exp()", "torch.clip(x, y, z) * z", "torch.clamp(x, max=y) - z"]
)
def test_what_torch_takes_where_a_comparison_turns_over_is_its_gradient(text: str) -> None:
    """Of a tensor that stands within the steps of a call torch knows nothing: it was said to take 0 for it."""
    given = {name: np.array(value) for name, value in MEETING.items()}
    found, expected = symgrad.explain(text, seed=np.ones(3), **given), by_torch(text, given)
    assert expected is not None
    told = [tie for tie in found.kinks if tie.whole]
    assert told
    for tie in told:
        assert tie.torch == pytest.approx(np.asarray(expected[tie.name])[tie.at])


def test_vectors_that_torch_turns_are_told() -> None:
    """The second eigenvector has the other sign in torch, and so has its gradient: it was said to be equal in every entry."""
    x = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    found = symgrad.explain("torch.linalg.eigh(x)[1]", x=x.numpy(), seed=np.ones((2, 2)))
    told, own = found.to_text(), torch.linalg.eigh(x)[1]
    other = bool((own - torch.tensor(found.output, dtype=torch.float64)).abs().max() > 1)
    assert found.passed
    assert ("except for the signs of some vectors" in told) is other
    assert ("in every entry" in told) is not other


@pytest.mark.slow
def test_an_entry_that_is_0_turns_with_its_vector() -> None:
    """Its gradient did not, and the page of eigenvectors said that torch differs."""
    x = np.array([[12.0, 0.0, 0.0], [0.0, 28.0, 4.0], [0.0, 4.0, 22.0]])
    assert symgrad.explain("eigh(x).eigenvectors", x=x, seed=np.arange(1.0, 10.0).reshape(3, 3)).passed
    assert symgrad.explain("torch.linalg.svd(x)[2]", x=x, seed=np.arange(1.0, 10.0).reshape(3, 3)).passed


READ_ONLY = (
    ("F.nll_loss(x, y, weight=w)", (3,), True),
    ("F.cross_entropy(x, y, weight=w)", (3,), True),
    ("F.multi_margin_loss(x, y, weight=w)", (3,), True),
    ("F.binary_cross_entropy(x.sigmoid(), p, weight=w)", (2, 3), True),
    ("F.binary_cross_entropy_with_logits(x, p, pos_weight=2 * w)", (3,), True),
    ("F.soft_margin_loss(x, w)", (2, 3), True),
    ("F.batch_norm(x, w, p[0])", (3,), True),
    ("x * w.detach()", (2, 3), False),
    ("F.binary_cross_entropy(x.sigmoid(), w.detach())", (2, 3), False),
)
"""What is only read: whether torch refuses it where it requires a gradient, or leaves it at None."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "shape", "refused"), READ_ONLY, ids=[text for text, *_ in READ_ONLY])
def test_what_torch_refuses_a_gradient_is_not_said_to_be_none(text: str, shape: tuple[int, ...], refused: bool) -> None:
    draw = np.random.default_rng(1)
    given = {
        n: draw.uniform(0.2, 0.8, s)
        for n, s in (("x", (2, 3)), ("p", (2, 3)), ("w", shape))
        if n in torch_side.words(text)
    }
    values = {**given, **({"y": np.array([0, 2])} if "y," in text else {})}
    tensors = {n: torch.tensor(a, requires_grad=n == "w") for n, a in values.items()}
    try:
        torch_side.evaluate(text, tensors)
        assert not refused
    except RuntimeError as error:
        assert refused, error
    told = " ".join(symgrad.explain(text, wrt=["x", "w"], **values).to_text().split())
    assert ("torch refuses an input that requires a gradient" in told) == refused
    assert ("torch leaves" in told) != refused


SIXTHS = (("hardsigmoid(x)", [-3, 0.5]), ("hardsigmoid(x) * 6 + abs(x)", [0]), ("hardsigmoid(x) + x.amax()", [1, 2, 2]))


@pytest.mark.parametrize(("text", "x"), SIXTHS, ids=[text for text, _ in SIXTHS])
def test_a_number_in_single_precision_is_no_choice_between_slopes(text: str, x: list[float]) -> None:
    """Beside a kink the two were said to be a choice: here 0.1667, there 0.1667."""
    (check,) = [c for c in symgrad.explain(text, x=x).gradients["x"].checks if c.oracle.startswith("out.backward")]
    assert "keeps an intermediate value in single precision" in check.note
