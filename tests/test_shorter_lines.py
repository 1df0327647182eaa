"""Lines of a backward that were longer than a person writes them: each is said shortly, and gives what torch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import symgrad
from symgrad.backward.form_guards import find_einsum_letters
from symgrad.language import read_program

Run = Callable[..., torch.Tensor]


def drawn(*shape: int) -> torch.Tensor:
    """A leaf of doubles."""
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def patches(x: torch.Tensor) -> torch.Tensor:
    """The four pixels of each square side by side, as Swin's PatchMerging and YOLO's Focus have them."""
    x = x * 2
    return torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1).sin().sum()


def off_diagonal(m: torch.Tensor) -> torch.Tensor:
    """The entries beside the diagonal, squared and added: Barlow Twins and VICReg."""
    n = m.shape[0]
    return m.flatten()[:-1].view(n - 1, n + 1)[:, 1:].flatten().pow(2).sum() / 8


def styled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """One image for each sample as channels of one, as StyleGAN's modulated convolution has them."""
    return F.conv2d(x.view(1, 4, 3, 3), w, padding=1, groups=2).view(2, 2, 3, 3).sin().sum()


LINES: list[tuple[str, Run, tuple[torch.Tensor, ...], tuple[str, ...]]] = [
    ("einsum, shared head", lambda p, v: torch.einsum("bhij,bjd->bhid", p, v).sin().sum(),
     (drawn(2, 3, 4, 4), drawn(2, 4, 5)), ('einsum("bjd,bhid->bhij", v, ', 'einsum("bhij,bhid->bjd", p, ')),
    ("einsum, spectral", lambda x, w: torch.einsum("bix,iox->box", x, w).sin().sum(),
     (drawn(2, 3, 4), drawn(3, 5, 4)), ('einsum("box,iox->bix", ', 'einsum("bix,box->iox", x, ')),
    ("einsum, channels", lambda x, w: torch.einsum("nchw,oc->nohw", x, w).sin().sum(),
     (drawn(2, 3, 4, 2), drawn(5, 3)), ('einsum("nohw,oc->nchw", ', 'einsum("nchw,nohw->oc", x, ')),
    ("einsum, matrices", lambda x, w: torch.einsum("bij,bjk->bik", x, w).sin().sum(),
     (drawn(2, 3, 4), drawn(2, 4, 3)), (" @ w.mT", "x.mT @ ")),
    ("patches", patches, (drawn(2, 4, 4, 3),),
     ("stack([stack([v_t1, v_t3], 3).flatten(2, 3), stack([v_t2, v_t4], 3).flatten(2, 3)], 2).flatten(1, 2)",)),
    ("off the diagonal", off_diagonal, (drawn(4, 4),), ("/ 4",)),
    ("a column of one", lambda x: (x[:, 0].sin() * 2).sum(), (drawn(5, 1),), ("(2 * x[:, 0].cos())[:, None]",)),
    ("a ratio of exponentials", lambda x, s: (((x - 1) / s.exp()) ** 2).sum(), (drawn(3), drawn(3)), ("-v_t3 * (x - 1) / t2",)),
    ("logsumexp", lambda x: -torch.logsumexp(x, 1).sum() / 5, (drawn(4, 3),),
     ("-(x - logsumexp(x, dim=1)[:, None]).exp() / 5",)),
    ("a row of weights", lambda x, w: F.linear(F.softplus(x), w).sum(), (drawn(4, 3), drawn(1, 3)), ("w * x.sigmoid()",)),
    ("nuclear norm", lambda x: torch.linalg.matrix_norm(x, "nuc"), (drawn(4, 3),), (".U @ ",)),
    ("eigenvalues", lambda x: -2 * torch.linalg.eigvalsh(x @ x.mT).sum(), (drawn(3, 3),), ("(-2 * V_2) @ V_2.T",)),
    ("a product of spectra", lambda x, h: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(h), n=8).sin().sum(),
     (drawn(8), drawn(8)), ("(2 * torch.fft.rfft(v_t4) - pad(torch.fft.rfft(v_t4)[4:], (4, 0)) - ", " * t1.conj()")),
    ("modulated", styled, (drawn(2, 2, 3, 3), drawn(4, 2, 3, 3)), ()),
]  # fmt: skip


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("run", "given", "said"), [row[1:] for row in LINES], ids=[row[0] for row in LINES])
def test_a_line_is_as_a_person_writes_it(run: Run, given: tuple[torch.Tensor, ...], said: tuple[str, ...]) -> None:
    found = symgrad.capture(run, *given).backward()
    text = str(found)
    for part in said:
        assert part in text, text
    for nobody in ("ones_like", ".expand(", "(0, 0)", "permute", "index_add"):
        assert nobody not in text, text
    space: dict[str, Any] = {}
    exec(found.code(), space)
    got = space["backward"](*given)
    expected = torch.autograd.grad(run(*given), given)
    for own, other in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
        assert torch.allclose(own, other)


@pytest.mark.parametrize("text", ['einsum("ii,ij->j", x, y)', "x @ y"])
def test_letters_that_stand_twice_are_left_as_they_are(text: str) -> None:
    assert find_einsum_letters(read_program(text).program) == {}


def test_slices_that_leave_entries_out_are_what_torch_says() -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return (x[::2, ::2].sin() + x[1::2, 1::2].cos() * x[1::2, ::2]).sum()

    x = drawn(4, 4)
    found = symgrad.capture(run, x).backward()
    space: dict[str, Any] = {}
    exec(found.code(), space)
    assert torch.allclose(space["backward"](x), torch.autograd.grad(run(x), x)[0])
