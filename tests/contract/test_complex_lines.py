"""Gradients of complex tensors as people write them: the conjugate of a slope times v, in complex words."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

import symgrad
from tests.compare import assert_same
from tests.exports_run import run_of

SHAPES = {"z": (3, 2), "w": (3, 2), "A": (3, 4, 2), "B": (4, 5, 2)}
LINES = [
    ("z ** 2", "z", "2 * v * z.conj()"),
    ("z ** 3", "z", "3 * v * z.conj() ** 2"),
    ("z * w", "z", "v * w.conj()"),
    ("z / w", "z", "v / w.conj()"),
    ("z / w", "w", "-v * z.conj() / w.conj() ** 2"),
    ("1 / z", "z", "-v * out.conj() ** 2"),
    ("z * z.conj()", "z", "z * (v + v.conj())"),
    ("z.conj()", "z", "v.conj().resolve_conj()"),
    ("exp(z)", "z", "v * out.conj()"),
    ("log(z)", "z", "v / z.conj()"),
    ("sqrt(z)", "z", "v / out.conj() / 2"),
    ("sin(z)", "z", "v * z.conj().cos()"),
    ("cosh(z)", "z", "v * z.conj().sinh()"),
    ("sqrt(z) * w", "w", "v * torch.sqrt(z).conj()"),
    ("A @ B", "A", "v @ B.conj().T"),
    ("A @ B", "B", "A.conj().T @ v"),
]


@pytest.mark.one_in(4, alone=4)
@pytest.mark.parametrize(("text", "by", "line"), LINES, ids=lambda part: part)
def test_a_complex_gradient_is_written_as_that_of_complex_numbers(text: str, by: str, line: str) -> None:
    names = sorted({*re.findall(r"\b[zwAB]\b", text)})
    pairs = re.sub(r"\b([zwAB])\b", r"view_as_complex(\1)", text)
    found = symgrad.explain(f"view_as_real({pairs})", shapes={name: SHAPES[name] for name in names}, check=False)
    *named, last = str(found.gradients[by].closed_form).split("; ")
    for own, value in (definition.split(" = ") for definition in named):
        last = re.sub(rf"\b{own}\b", value, last)
    assert last == f"view_as_real({in_pairs(line)})"


def test_torch_has_no_product_of_a_real_matrix_and_a_complex_one() -> None:
    text = "s = view_as_real(view_as_complex(z) / view_as_complex(w)); torch.rnn_tanh_cell(s, s, d, d)"
    found = symgrad.explain(text, shapes={"z": (3, 2), "w": (3, 2), "d": (2, 2)}, check=False)
    assert str(found.gradients["d"].closed_form).endswith("@ view_as_real(view_as_complex(z) / view_as_complex(w)))")


def test_the_slope_of_a_length_is_a_direction_and_0_at_0() -> None:
    found = symgrad.explain("abs(view_as_complex(z))", z=[[3, 4], [0, 0]])
    assert found.gradients["z"].closed_form == "view_as_real(v * view_as_complex(z).sgn())"


@pytest.mark.parametrize(
    ("call", "line"),
    [("cat([z, w])", "v[:z.shape[0]]"), ("cat([z, w], -1)", "v[:z.shape[0]]"), ("stack([z, w], -1)", "v[:, 0]")],
)
def test_joined_complex_tensors_are_cut_apart_again(call: str, line: str) -> None:
    pairs = re.sub("[zw]", r"view_as_complex(\g<0>)", call)
    found = symgrad.explain(f"view_as_real(torch.{pairs})", shapes={"z": (3, 2), "w": (3, 2)})
    assert found.gradients["z"].closed_form == line
    assert found.outcome == "equal"


def test_complex_numbers_without_axes_are_not_joined_along_their_pairs() -> None:
    with pytest.raises(symgrad.ShapeError):
        symgrad.explain("view_as_real(torch.cat([view_as_complex(z), view_as_complex(w)]))", z=[1, 2], w=[3, 4])


def test_sgn_of_0_is_0() -> None:
    found = symgrad.explain("view_as_real(sgn(view_as_complex(z)))", z=[[3, 4], [0, 0]])
    assert_same([[0.6, 0.8], [0, 0]], found.values["out"])


SPECTRA = [
    (
        "view_as_real(fft(view_as_complex(z)))",
        "z",
        "view_as_real(ifft(view_as_complex(v.contiguous().clone()), norm='forward'))",
    ),
    (
        "view_as_real(ifft(view_as_complex(z)))",
        "z",
        "view_as_real(fft(view_as_complex(v.contiguous().clone())) / z.shape[0])",
    ),
    (
        "view_as_real(fft2(view_as_complex(A)))",
        "A",
        "view_as_real(ifftn(view_as_complex(v.contiguous().clone()), norm='forward'))",
    ),
    (
        "view_as_real(fft(view_as_complex(A), dim=0))",
        "A",
        "view_as_real(ifft(view_as_complex(v.contiguous().clone()), dim=0, norm='forward'))",
    ),
    ("view_as_real(rfft(x))", "x", "ifft(view_as_complex(v.contiguous().clone()), n=x.shape[0], norm='forward').real"),
    (
        "view_as_real(ihfft(x).resolve_conj())",
        "x",
        "fft(view_as_complex(v.contiguous().clone()), n=x.shape[0]).real / x.shape[0]",
    ),
    (
        "view_as_real(rfft2(y))",
        "y",
        "ifftn(view_as_complex(v.contiguous().clone()), s=(y.shape[0], y.shape[1]), norm='forward').real",
    ),
]


@pytest.mark.one_in(4, alone=4)
@pytest.mark.parametrize(("text", "by", "line"), SPECTRA, ids=lambda part: part)
def test_the_pullback_of_a_fourier_transform_is_one(text: str, by: str, line: str) -> None:
    text, line = (re.sub(r"\b(i?h?r?fft[2n]?)\(", r"torch.fft.\1(", part) for part in (text, line))
    found = symgrad.explain(text, shapes={by: {**SHAPES, "x": (5,), "y": (3, 4)}[by]})
    assert found.passed
    assert str(found.gradients[by].closed_form).replace('"', "'") == line


def in_pairs(line: str) -> str:
    """A line of complex tensors as one of tensors of pairs."""
    line = re.sub(r"(?<!\.)\b(z|w|A|B|out)\b", r"view_as_complex(\1)", line)
    return re.sub(r"(?<!\.)\bv\b", "view_as_complex(v.contiguous().clone())", line)


def test_exported_lines_take_a_seed_however_it_lies_in_memory() -> None:
    """``out.sum().backward()`` gives an expanded one, a transpose beside it another."""
    for text in ("view_as_real(view_as_complex(z) ** 2)", "view_as_real(torch.fft.fft(view_as_complex(z)))"):
        own_rule = run_of(symgrad.export(text, shapes={"z": (2, 2)}))
        for then in (lambda out: out.sum(), lambda out: out.T.exp().sum()):
            z, known = (torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64, requires_grad=True) for _ in "ab")
            then(own_rule(z)).backward()
            own = torch.view_as_complex(known)
            then(torch.view_as_real(own**2 if "**" in text else torch.fft.fft(own))).backward()
            assert_same(known.grad, z.grad)


def lines_of(run: Callable[..., torch.Tensor], **given: torch.Tensor) -> list[str]:
    found = symgrad.capture(run, **given)
    return [str(line) for line in found.backward(np.ones(np.shape(found.arrays[found.ends[0]]))).statements]


def test_casts_and_what_gets_nothing_are_no_reason_to_speak_of_pairs() -> None:
    z, w = (
        torch.tensor(rows, dtype=torch.complex128, requires_grad=True) for rows in ([1 + 1j, 2j, 3], [3 - 1j, 1j, 2])
    )
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    assert lines_of(lambda z, w, x: torch.fft.fft(z) * 2, z=z, w=w, x=x) == [
        'z.grad = 2 * torch.fft.ifft(v, norm="forward")', "w.grad = zeros_like(w)", "x.grad = zeros_like(x)",
    ]  # fmt: skip
    assert lines_of(lambda z, w: (z * w.conj()).real, z=z, w=w) == ["z.grad = v * w", "w.grad = v * z"]


def test_a_captured_program_is_told_in_complex_numbers() -> None:
    z, w = (torch.tensor(rows, dtype=torch.complex128, requires_grad=True) for rows in ([1 + 1j, 2j], [3 - 1j, 1j]))
    assert lines_of(lambda z: z**2, z=z) == ["z.grad = 2 * v * z.conj()"]
    assert lines_of(lambda z, w: (z * w).abs(), z=z, w=w)[1:] == [
        "z.grad = v_t1 * w.conj()",
        "w.grad = v_t1 * z.conj()",
    ]
    assert lines_of(lambda z: z.conj().imag, z=z) == ["v_t1 = 1j * v", "z.grad = v_t1.conj()"]
    assert lines_of(lambda z: torch.exp(z).real, z=z) == ["z.grad = v * z.conj().exp()"]


def test_a_line_that_means_pairs_says_so() -> None:
    z = torch.tensor([1 + 1j, 2j], dtype=torch.complex128, requires_grad=True)
    _, line = lines_of(lambda z: torch.view_as_real(z * z).sum(-1) + z.abs(), z=z)
    assert line == "z.grad = v * z.sgn() + 2 * view_as_complex(v_t1.contiguous().clone()) * z.conj()"
