"""Calls that are several entries of the table: what is said of them at one size holds at all that it is said for."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad
from symgrad.errors import ShapeError, SymgradError
from tests.cases import Case, cases
from tests.chains import Chain, check

READS_A_SIZE = (
    ("torch.tensor_split(x, 2, 1)[0]", (2, 2)), ("x.tensor_split((1, -1))[1]", (4,)), ("x.hsplit(2)[1]", (2, 4)),
    ("x.vsplit(2)[0] * 2", (4, 1)), ("x.dsplit(1)[0]", (1, 2, 3)), ("torch.fft.fftshift(x) * 2", (3,)),
    ("torch.fft.ifftshift(x, 1)", (2, 3)), ("torch.channel_shuffle(x, 2)", (1, 4, 2)),
    ("torch.nn.functional.pad(x, (-1, 1), mode='replicate')", (2, 3)), ("torch.diff(x, n=3)", (2,)),
    ("torch.slice_scatter(x, x[:1] * 2, 0, 1, 2)", (3, 2)), ("torch.select_scatter(x, x[0] * 3, 0, -1)", (3, 2)),
    ("torch.diagonal_scatter(x, x.diagonal() * 2)", (2, 3)), ("torch.block_diag(x, x * 2)", (2, 3)),
    ("torch.combinations(x, 2)", (3,)), ("torch.cartesian_prod(x, x)", (2,)), ("torch.linalg.qr(x + torch.eye(2, 3) * 9).R", (2, 3)),
)  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "shape"), READS_A_SIZE, ids=[text for text, _ in READS_A_SIZE])
def test_what_reads_a_size_holds_for_no_other(text: str, shape: tuple[int, ...]) -> None:
    """``tensor_split`` of two columns was said to give one column of any number."""
    check(Chain(text, shape), 1)


PYTHONS_WORDS = ("object", "sequence", "identity", "NoneType", "argument", "index out of range", "unpack")
EXAMPLES = [pytest.param(case, id=case.name) for case in cases()]


@pytest.mark.one_in(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(), (0,)], ids=["numbers", "empty"])
@pytest.mark.parametrize("case", EXAMPLES)
def test_a_call_of_numbers_or_of_nothing_has_a_gradient_or_a_sentence(case: Case, shape: tuple[int, ...]) -> None:
    """``kl_div`` of numbers said "len() of unsized object", ``cross`` of numbers that symgrad has a bug."""
    given = {name: np.full(shape, 0.5) for name in case.shapes}
    try:
        symgrad.vjp(case.example.text, next(iter(given)), check=False, **given)
    except SymgradError as error:
        said = "\n".join(line for line in str(error).splitlines() if not line.startswith("    try:"))
        assert not [word for word in PYTHONS_WORDS if word in said], said


@pytest.mark.parametrize("text", ["F.kl_div(x, y, reduction='batchmean')", "torch.linalg.cross(x, y)"])
def test_what_needs_an_axis_refuses_numbers(text: str) -> None:
    with pytest.raises(ShapeError, match="x is a scalar, y is a scalar"):
        symgrad.explain(text, x=0.3, y=0.2)
