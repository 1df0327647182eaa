"""Texts with complex tensors mean what they mean in torch, and are written in torch's words."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import symgrad
from symgrad import NotationError, ShapeError, UnsupportedError
from symgrad.closed_form.source_code import SourceWriter
from symgrad.language import read_program
from symgrad.language.python_text import write_python
from symgrad.numeric import forward
from symgrad.oracles.forms import evaluate_text
from tests import torch_side
from tests.compare import assert_same
from tests.complex_draws import draw, parts, real

TEXTS = (
    "abs(torch.fft.fft(x))",
    "torch.fft.rfft(x).abs().sum()",
    "(torch.fft.fft(x) * torch.fft.fft(y)).real",
    "torch.fft.irfft(torch.fft.rfft(x) * 2, n=5)",
    "torch.fft.fft(x)[1:].imag",
    "torch.fft.ifft(torch.fft.fft(x) * y).real",
    "sum(abs(torch.fft.fft(x)) ** 2) / x.shape[0]",
    "h = torch.fft.fft(x); (h * h.conj()).real",
    "h = torch.fft.fft(x); (h + y - h ** 2).sum().abs()",
    "view_as_real(torch.complex(x, y) @ torch.polar(abs(x), y))",
    "h = torch.fft.rfft(x); h.shape[0] * h.ndim * h.mean().abs()",
    "torch.real(x) * x.conj()",
    "view_as_real(-exp(torch.complex(x, y)) / 2)",
    "(1 / (2 - torch.fft.rfft(x)) + 3).angle()",
    "h = torch.complex(x, y); w = h ** 1; k = torch.vdot(w, w ** -2); k.abs() * w.tan().imag",
    "torch.fft.irfft2(torch.fft.rfft2(x.reshape(2, 2)) ** 2)",
)


@pytest.mark.one_in(10)
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_means_what_it_means_in_torch(text):
    arrays = {name: real(4, seed=n).numpy() for n, name in enumerate("xy") if name in torch_side.words(text)}
    page = symgrad.explain(text, **arrays)
    assert page.passed, page.to_text()
    weights = np.arange(1.0, page.output.size + 1).reshape(page.output.shape)
    out, gradients = torch_side.text_gradients(text, arrays, weights)
    assert_same(out, page.output)
    again = symgrad.explain(text, seed=weights, check=False, **arrays)
    for name, true in gradients.items():
        assert_same(true, again.gradients[name].value, what=name)


@pytest.mark.parametrize("text", [text for text in TEXTS if "shape[" not in text])
def test_a_program_is_written_in_torchs_words(text):
    """A closed form may mention a forward value, and is code to paste: torch reads it, and so does symgrad."""
    arrays = {name: real(4, seed=n).numpy() for n, name in enumerate("xy") if name in torch_side.words(text)}
    program = read_program(text, shapes=dict.fromkeys(arrays, (4,))).program
    written = write_python(SourceWriter(program).step(program.steps[-1]))
    assert "complex_" not in written
    expected = forward(program, arrays)[program.output]
    assert_same(expected, torch_side.evaluate(written, torch_side.tensors(arrays)), what=written)
    assert_same(expected, evaluate_text(written, arrays), what=written)


def test_a_complex_output_is_shown_as_pairs():
    page = symgrad.explain("fft(x)", x=[1, 2, 3])
    assert page.passed
    assert page.output.shape == (3, 2)
    program = read_program("torch.fft.rfft(x)", shapes={"x": (6,)}).program
    assert_same(forward(program, {"x": np.arange(6.0)})["out"][:, 0], np.fft.rfft(np.arange(6.0)).real)


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("relu(fft(x))", UnsupportedError, "relu of complex tensors is not supported"),
        ("fft(x).prod()", UnsupportedError, "prod of complex tensors is not supported"),
        ("torch.vstack([fft(x), fft(x)]).amax()", UnsupportedError, "amax of complex tensors is not supported"),
        ("rfft(fft(x))", UnsupportedError, "takes a real tensor"),
        ("view_as_real(x)", NotationError, "takes a complex tensor"),
        ("view_as_complex(fft(x))", NotationError, "takes a real tensor"),
        ("fft(x, norm='half')", symgrad.errors.InputError, "norm is 'backward', 'ortho' or 'forward'"),
        ("fft(x, n=0)", symgrad.errors.InputError, "at least one point"),
    ],
)
def test_what_a_text_cannot_say_is_refused(text, error, words):
    with pytest.raises(error, match=words):
        symgrad.explain(text)


def test_pairs_need_a_last_axis_of_two():
    with pytest.raises(ShapeError, match="last axis has size 2"):
        symgrad.explain("abs(view_as_complex(x))", shapes={"x": (2, 3)})


OF_COMPLEX = (
    "(z * w).abs()", "z * w * x", "(z @ w.conj()).real", "torch.exp(z)", "z.real * x", "torch.fft.ifft(z) * w", "(z / w).imag", "(z.abs()**2).sum()",
    "z.sgn()", "torch.sqrt(z) + x", "torch.stack([z, w])", "z[1:]", "(z * 2j).real", "def f(t): return t * t.conj()\nf(z) + w", "torch.where(x > 0, z, w)",
    "torch.outer(z, w)", "z.angle() * x", "torch.view_as_real(z)", "1 / z", "z.cumsum(0)", "torch.vdot(z, w)", "torch.polar(x.abs(), x) * z",
)  # fmt: skip


@pytest.mark.parametrize("text", OF_COMPLEX)
def test_inputs_of_a_text_may_be_complex(text: str) -> None:
    """Values and gradients are torch's, as pairs; where the text has no formula at every size, its lines are run."""
    given = {"z": draw(3), "w": draw(3, seed=1), "x": real(3, seed=2)}
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in given.items()}
    *lines, last = text.split("\n")
    scope = {"torch": torch, **leaves}
    exec("\n".join(lines), scope)
    out = eval(last, scope)  # noqa: S307 -- the tests' own texts
    seed = draw(*out.shape, dtype=out.dtype, seed=3)
    out.backward(seed)
    read = [
        name for name in given if name in text.replace("torch.exp", "").replace("where", "w").replace("view_as", "")
    ]
    found = symgrad.explain(text, seed=seed, **{name: given[name] for name in read})
    assert found.passed
    assert_same(parts(out), found.output, what=text)
    for name, gradient in found.gradients.items():
        true = leaves[name].grad
        assert_same(
            np.zeros(parts(leaves[name]).shape) if true is None else parts(true),
            gradient.value,
            what=f"{name} of {text}",
        )
