"""Calls that are several entries of the table: what is said of them at one size holds at all that it is said for."""

from __future__ import annotations

import pytest

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
