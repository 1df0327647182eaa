"""Complex tensors on pairs (re, im): torch's convention, what is captured, what a text says, and what is refused.

torch's gradients are the truth throughout: `view_as_real` of a complex leaf's ``.grad`` against the derived one.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
import torch

import symgrad
from symgrad import ShapeError, UnsupportedError, capture
from symgrad.ops.calls.complex_rules import ARITHMETIC, REAL
from symgrad.tracing import run_script
from symgrad.tracing.story.session_pages import event_text
from tests import test_ops_options as options
from tests import torch_side
from tests.compare import assert_same
from tests.complex_draws import C, draw, held_against_torch, parts, real

# --- torch's convention -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "gradient"),
    [
        (lambda z: (z.abs() ** 2).sum(), lambda z: 2 * z),
        (lambda z: (z**2).real.sum(), lambda z: 2 * z.conj()),
        (lambda z: (z * z.conj()).real.sum(), lambda z: 2 * z),
        (lambda z: (torch.fft.fft(z).abs() ** 2).sum(), lambda z: 2 * z.numel() * z),
        (lambda z: z.imag.sum(), lambda z: torch.full_like(z, 1j)),
    ],
)
def test_the_gradient_is_torchs_and_what_the_convention_says(loss, gradient):
    z = draw(4)
    program = held_against_torch(loss, z)
    assert not program.black_boxes
    assert_same(parts(gradient(z)), program.pullback()["z"], what="∂L/∂re + i·∂L/∂im")


@pytest.mark.parametrize("loss", [lambda z, c: z * c, lambda z, c: z**2 + c**2, lambda z, c: z**2 * c + z * c**2])
def test_it_is_twice_the_conjugate_of_the_wirtinger_derivative(loss):
    a, b, z, c = sp.symbols("a b z c")
    a, b = sp.Symbol("a", real=True), sp.Symbol("b", real=True)
    at = {z: a + sp.I * b, c: a - sp.I * b}
    value = sp.expand(loss(z, c).xreplace(at))
    assert sp.im(value) == 0, "a real loss"
    wirtinger = sp.expand(sp.diff(loss(z, c), z).xreplace(at))  # ∂L/∂z, with z̄ held still
    assert sp.expand(sp.diff(value, a) + sp.I * sp.diff(value, b) - 2 * sp.conjugate(wirtinger)) == 0

    def torch_loss(x):
        return loss(x, x.conj()).real.sum()

    x = draw(3)
    found = capture(torch_loss, x).pullback()["x"]
    for pair, entry in zip(found, x.tolist(), strict=True):
        numbers = {a: entry.real, b: entry.imag}
        expected = complex(2 * sp.conjugate(wirtinger).subs(numbers))
        assert_same([expected.real, expected.imag], pair, what="2·conj(∂L/∂z)")


def test_the_page_says_the_convention():
    program = capture(lambda z: (z.abs() ** 2).sum(), draw(2))
    page = program.explain()
    assert page.passed
    assert "twice the conjugate of the Wirtinger derivative" in page.to_text(width=300)
    (sentence,) = page.conventions
    assert sentence.startswith("z is complex, shown as pairs (re, im): torch's .grad is ∂L/∂re + i·∂L/∂im, which is 2")
    assert "2×2  float64, pairs (re, im)" in repr(program)
    assert symgrad.explain("abs(fft(x))", x=[1, 2]).conventions == (
        "Complex tensors are shown as pairs (re, im), on one more axis of size 2",
    )
    assert symgrad.explain("abs(x)", x=[1, 2]).conventions == ()


def test_seeds_may_be_complex_or_pairs():
    program = capture(lambda z: z * z, draw(2))
    weights = np.array([1 + 2j, 3j])
    pairs = np.array([[1.0, 2], [0, 3]])
    assert_same(program.pullback(weights)["z"], program.pullback(pairs)["z"])
    with pytest.raises(ShapeError, match="one weight for each"):
        program.pullback([1.0, 2.0])


# --- capture ------------------------------------------------------------------------------------------------

W = torch.hann_window(4, dtype=torch.float64)
DERIVED = {
    "times a real tensor": (lambda z, x: x * z - z * x / 2, draw(2, 3), real(3)),
    "numbers": (lambda z: (2 + 1j) * z / 3 - 1j + 2, draw(3)),
    "a real tensor becomes complex": (lambda x: x * 1j + 1, real(3)),
    "by a real tensor, and the other way": (lambda z, x: z / x + x / z, draw(2, 3), real(3)),
    "quotients": (lambda z, w: 1 / z + z / w + z / (1 + 2j), draw(3), draw(3, seed=1)),
    "powers": (lambda z: z**3 + z**-2 + z**0.5 + z**1.5 + z ** (1 + 2j) + 2**z, draw(3)),
    "a power of tensors": (lambda z, w: z**w, draw(3), draw(3, seed=1)),
    "exp, log, sqrt": (lambda z: z.exp() + z.log() + z.sqrt() + z.log2() + z.log10() + z.log1p() + z.expm1(), draw(3)),
    "sin and the like": (lambda z: z.sin() + z.cos() + z.tan() + z.sinh() + z.cosh() + z.tanh() + z.sigmoid(), draw(3)),
    "reciprocals": (lambda z: z.reciprocal() + z.square() + z.rsqrt() + z.sgn(), draw(3)),
    "parts": (lambda z: z.angle() + z.abs() + z.real - z.imag, draw(3)),
    "pairs": (lambda z: torch.view_as_real(z) * 2, draw(3)),
    "from pairs": (lambda x: torch.view_as_complex(x) ** 2, real(3, 2)),
    "from parts": (lambda x, y: torch.complex(x, y) * torch.polar(x.abs(), y), real(3), real(3, seed=1)),
    "sums": (lambda z: z.sum(-1) + z.mean((0, -1), keepdim=True).sum() + z.cumsum(0)[1, 0], draw(2, 3)),
    "shapes": (lambda z: z.reshape(3, 2) @ z.T.conj().mH[:, :2].T, draw(2, 3)),
    "H": (lambda z: z.mH @ z + z.H @ z, draw(2, 3)),
    "indices": (lambda z: z[0, 1:].sum() + z[:, [0, 2, 0]] + z[None, ..., -1:], draw(2, 3)),
    "joins": (lambda z, x: torch.cat([z, x]) + torch.stack([z, z]).sum() + torch.hstack([z, x]), draw(2), real(2)),
    "round": (lambda z: torch.roll(z, 1).flip(0) + z.roll(2, 0) + torch.fft.fftshift(z), draw(5)),
    "cuts": (lambda z: z.unbind()[1] * z.chunk(2)[0] + z.expand(4, 2, 3)[3], draw(2, 3)),
    "choices": (lambda z, w: torch.where(z.abs() > 1, z, w) + z.masked_fill(w.real > 0, 0), draw(5), draw(5, seed=1)),
    "triangles": (lambda z: torch.tril(z) + torch.diag(z[0]) + torch.trace(z), draw(3, 3)),
    "margins": (lambda z: torch.nn.functional.pad(z, (1, 1)).diff(), draw(3)),
    "products": (lambda z, w: z @ w + torch.mm(z, w) + torch.einsum("ij,jk->ik", z, w), draw(2, 3), draw(3, 2)),
    "batches": (lambda z, w: torch.bmm(z, w) @ w[0, :, 0], draw(4, 2, 3), draw(4, 3, 3)),
    "dots": (lambda z, w: torch.dot(z, w) * torch.vdot(z, w) * torch.linalg.vecdot(z, w), draw(3), draw(3, seed=1)),
    "by parts": (lambda z, w: torch.outer(z, w) + torch.kron(z[:, None], w[None]), draw(3), draw(2)),
    "tensordot": (lambda z, w: torch.tensordot(z, w, 1) + torch.inner(z[0], z[0]), draw(2, 3), draw(3, 2)),
    "convolution": (lambda z, w: torch.nn.functional.conv1d(z, w), draw(1, 2, 5), draw(3, 2, 2)),
    "linear": (lambda z, w, b: torch.nn.functional.linear(z, w, b), draw(2, 3), draw(4, 3), draw(4)),
    "fused": (lambda b, z, w: torch.addmm(b, z, w, beta=2, alpha=1j).addcmul(b, b, value=2), draw(2, 2), draw(2, 3),
              draw(3, 2)),
    "norms": (lambda z: torch.linalg.norm(z) + torch.linalg.vector_norm(z, 3, dim=0) + z.norm(), draw(2, 3)),
    "transforms along all axes": (lambda x: torch.fft.irfftn(torch.fft.rfftn(x).abs(), s=(3, 4)), real(3, 4)),
    "transforms with lengths": (lambda z: torch.fft.ifft2(z, s=(3, 4), norm="ortho"), draw(2, 3)),
    "half a spectrum": (lambda z: torch.fft.hfft2(z) + torch.fft.hfftn(z, norm="forward"), draw(3, 3)),
    "its inverse": (lambda x: torch.fft.ihfft(torch.fft.irfft(x, 5)), real(3)),
    "a convolution by transforms": (lambda x, y: torch.fft.ifft(torch.fft.fft(x) * torch.fft.fft(y)).real, real(4),
                                    real(4, seed=1)),
    "windows": (lambda x: torch.stft(x, 4, 2, window=W, return_complex=True).abs(), real(12)),
    "windows, both sides": (lambda x: torch.stft(x, 8, 2, 4, W, return_complex=True, onesided=False, normalized=True),
                            real(2, 12)),
    "spread": (lambda z: z.var(1, keepdim=True) + z.std() + z.var(correction=0), draw(2, 3)),
    "chains": (lambda z, w: torch.linalg.multi_dot([z, w, z]) + torch.linalg.matrix_power(z @ w, 3) @ z, draw(2, 3),
               draw(3, 2)),
    "more": (lambda b, z, w: torch.addr(b, z, w, alpha=2j) + z.exp2() + torch.nn.functional.softsign(w), draw(3, 3),
             draw(3), draw(3, seed=1)),
    "convolution with a bias": (lambda z, w, b: torch.nn.functional.conv2d(z, w, b), draw(2, 2, 3, 3),
                                draw(3, 2, 2, 2), draw(3)),
    "transposed": (lambda z, w: torch.nn.functional.conv_transpose1d(z, w), draw(2, 2, 3), draw(2, 3, 2)),
    "added at places": (lambda z, w: z.index_add(0, torch.tensor([0, 0, 2]), w), draw(3, 2), draw(3, 2, seed=1)),
    "in place": (lambda z: z.clone().mul_(2).add_(1j).div_(3), draw(3)),
}  # fmt: skip


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", DERIVED)
def test_captured(name):
    fn, *tensors = DERIVED[name]
    assert not held_against_torch(fn, *tensors).black_boxes


def written_by_entry(z):
    w = z.clone()
    w[0] = z[1] * 2
    return w * w


def written_through_real(z):
    w = z.clone()
    w.real[0] = 3.0
    return w * w


def written_through_pairs(z):
    w = z.clone()
    v = torch.view_as_real(w)
    v[0, 1] = v[1, 0] * 2
    return w * w


def written_through_a_slice(z):
    w = z.clone()
    w[1:].mul_(1j)
    return w * w


def read_through_imag(z):
    w = z.clone()
    i = w.imag
    w.mul_(2j)
    return i * i


@pytest.mark.parametrize(
    "fn",
    [written_by_entry, written_through_real, written_through_pairs, written_through_a_slice, read_through_imag],
)
def test_writes_in_place(fn):
    assert not held_against_torch(fn, draw(3)).black_boxes


def test_entries_written_twice_are_left_to_torch():
    """Of two writes to one place torch keeps one, and gives both a gradient."""
    places = torch.tensor([0, 0, 2])
    program = held_against_torch(lambda z, w: z.scatter(0, places, w), draw(3), draw(3, seed=1))
    assert program.black_boxes
    program = held_against_torch(lambda z, w: z.scatter(0, places[1:], w), draw(3), draw(2, seed=1))
    assert not program.black_boxes


def test_a_conjugate_view_that_is_written_behind_its_back_is_refused():
    def fn(z):
        w = z.clone()
        k = w.conj()
        w.mul_(2)
        return k * k

    with pytest.raises(UnsupportedError, match="conjugate"):
        capture(fn, draw(3))


def test_what_has_no_equation_is_a_black_box_with_the_right_numbers():
    """What is written by strides; torch's own gradient of it is another function's."""

    def fn(z):
        return torch.as_strided_scatter(z, z[0, :2], (2,), (1,))

    assert held_against_torch(fn, draw(3, 3)).black_boxes


def test_long_transforms_are_left_to_torch():
    x = real(5000)
    (box,) = capture(lambda x: torch.fft.rfft(x).abs(), x).black_boxes
    assert "table of 5000² cosines" in box.reason


def test_a_black_box_without_a_gradient_is_refused_with_torchs_reason():
    program = capture(lambda z: torch.linalg.svd(z).U.real.sum(), draw(2, 2))
    with pytest.raises(UnsupportedError, match=r"no gradient of torch\.linalg\.svd"):
        program.pullback()


def test_kinks_are_torchs():
    z = torch.tensor([0j, 1 + 1j, 0j], dtype=C)
    assert not held_against_torch(lambda z: z.abs(), z).black_boxes
    assert not held_against_torch(lambda z: z.angle(), z).black_boxes


def test_a_single_precision_spectrum_agrees():
    x = torch.randn(16, generator=torch.Generator().manual_seed(0))
    leaf = x.clone().requires_grad_()
    (torch.fft.rfft(leaf).abs() ** 2).sum().backward()
    found = capture(lambda x: (torch.fft.rfft(x).abs() ** 2).sum(), x).pullback()["x"]
    np.testing.assert_allclose(found, leaf.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_entries_on_pairs_are_never_taken_for_real_calls():
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0]], dtype=torch.float64)  # as pairs these would be their own conjugates
    for fn in (torch.conj_physical, torch.real, lambda x: x.conj(), torch.angle):
        program = capture(lambda x, fn=fn: fn(x) * x, x)
        assert not any("complex" in line for line in program.operations)
        leaf = x.clone().requires_grad_()
        weights = real(2, 2)
        (fn(leaf) * leaf).backward(weights)
        assert_same(leaf.grad.numpy(), program.pullback(weights)["x"])


# --- the entries --------------------------------------------------------------------------------------------


@pytest.mark.one_in(4)
@pytest.mark.parametrize("word", ["fft", "ifft", "irfft", "hfft"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
def test_lengths(word, n, numbers):
    options.test_forward_pullback_and_pushforward_are_torchs(
        f"complex_{word}", [options.draw(3, 4, 2)], {"n": n, "dim": 1, "norm": "ortho"}, numbers
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("word", ["rfft", "ihfft"])
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("numbers", [False, True], ids=["symbols", "numbers"])
def test_lengths_of_real_signals(word, n, numbers):
    options.test_forward_pullback_and_pushforward_are_torchs(
        f"complex_{word}", [options.draw(4, 3)], {"n": n, "dim": 0, "norm": "forward"}, numbers
    )


def test_whole_pairs_have_exact_products():
    program = symgrad.explain(
        "view_as_real(view_as_complex(x) * view_as_complex(y))", x=[[1, 2], [3, -1]], y=[[2, 0], [1, 1]]
    )
    assert program.exact
    assert program.output.tolist() == [[2, 4], [4, 2]]


# --- scripts ------------------------------------------------------------------------------------------------

SCRIPT = """\
import torch
z = torch.tensor([1 + 2j, 3 - 1j, 0.5j], requires_grad=True)
(z.abs() ** 2).sum().backward()
h = z * z
h.backward(torch.tensor([1 + 0j, 0j, 1j]))
g, = torch.autograd.grad((z ** 3).real.sum(), z)
try:
    (z * z).sum().backward()
except RuntimeError:
    pass
"""


def test_a_script_with_complex_leaves(tmp_path):
    path, told = tmp_path / "script.py", []
    path.write_text(SCRIPT)
    session = run_script(str(path), [], tell=lambda event: told.append(event_text(event)))
    text = "\n".join(told)
    assert session.agrees
    assert [len(call.leaves) for call in session.calls] == [1, 1, 1, 0]
    assert all(leaf.agrees for call in session.calls for leaf in call.leaves)
    assert "[[2 4] [6 -2] [0 1]]  = torch" in text
    assert text.count("z is complex, shown as pairs (re, im)") == 3
    assert "a loss is a real number" in text.lower()


# --- one registry -------------------------------------------------------------------------------------------

A, B = "view_as_complex(x)", "view_as_complex(y)"
ROWS = (f"{A}[0]", f"{B}[1]")
SPELLED = {"linear": "F", "softsign": "F", "tanhshrink": "F", "vecdot": "torch.linalg", "vector_norm": "torch.linalg",
           "multi_dot": "torch.linalg", "fftshift": "torch.fft", "ifftshift": "torch.fft"}  # fmt: skip
ARGUMENTS = {
    **dict.fromkeys(("add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "rsub"), (A, B)),
    **dict.fromkeys(("matmul", "mm", "pow", "float_power", "vecdot", "linear"), (A, B)),
    **dict.fromkeys(("addmm", "addcmul", "addcdiv"), (A, B, A)), "lerp": (A, B, "0.25"), "mv": (A, ROWS[1]),
    **dict.fromkeys(("dot", "vdot"), ROWS), "bmm": (f"{A}[None]", f"{B}[None]"),
    "baddbmm": (f"{A}[None]", f"{B}[None]", f"{A}[None]"), "addmv": (ROWS[0], B, ROWS[1]), "addr": (A, *ROWS),
    "where": ("x[0] > 0", A, B), "masked_fill": (A, "x[0] > 0", "2.0"), "roll": (A, "1", "0"), "flip": (A, "(0, -1)"),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack"), (f"[{A}, {B}]",)),
    "multi_dot": (f"[{A}, {B}, {A}]",), "matrix_power": (A, "3"), "complex": ("x", "y"), "polar": ("x ** 2", "y"),
}  # fmt: skip
INNER = {
    "identity": "the table's word for clone and resolve_conj",
    "_conj": "aten's word for conj",
    "imag": "torch gives a view: it is .imag of a text",
}


@pytest.mark.one_in(30, slow=3)
@pytest.mark.parametrize("word", sorted(set(ARITHMETIC) - set(INNER)))
def test_what_is_known_of_complex_tensors_means_the_same_in_a_text_and_in_a_run(word):
    call = f"{SPELLED.get(word, 'torch')}.{word}({', '.join(ARGUMENTS.get(word, (A,)))})"
    text = call if word in REAL else f"view_as_real({call})"
    arrays = {name: real(2, 2, 2, seed=n).numpy() for n, name in enumerate("xy") if name in torch_side.words(text)}
    tensors = torch_side.tensors(arrays)
    shape = tuple(torch_side.evaluate(text, tensors).shape)
    weights = np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)
    page = symgrad.explain(text, check=False, seed=weights, **arrays)
    ran = capture(lambda *given: torch_side.evaluate(text, dict(zip(arrays, given, strict=True))), *tensors.values())
    assert not ran.black_boxes
    out, gradients = torch_side.text_gradients(text, arrays, weights)
    assert_same(out, page.output)
    assert_same(out, ran.results[0])
    for (name, true), found in zip(gradients.items(), ran.pullback(weights).values(), strict=True):
        assert_same(true, page.gradients[name].value, what=name)
        assert_same(true, found, what=f"{name} in a run")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("torch.einsum('ij,jk->ik', {0}, {1})", [(2, 3), (3, 2)]),
        ("torch.einsum('i,i,i->i', {0}, {1}, {2})", [(2,), (2,), (2,)]),
        ("torch.conv1d({0}, {1}, {2})", [(1, 2, 3), (2, 2, 2), (2,)]),
    ],
)
def test_a_product_of_complex_tensors_in_a_text_is_torchs(text: str, shapes: list[tuple[int, ...]]) -> None:
    """Which half a term belongs to, and its sign, is counted by the factors of i in it."""
    generator = np.random.default_rng(0)
    given = {name: generator.normal(size=(*shape, 2)) for name, shape in zip("xyz", shapes, strict=False)}
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in given.items()}
    whole = f"torch.view_as_real({text.format(*(f'torch.view_as_complex({name})' for name in given))})"
    out = eval(whole, {"torch": torch, **leaves})  # noqa: S307 -- a text of this test's own
    weights = generator.integers(1, 4, tuple(out.shape)).astype(float)
    out.backward(torch.tensor(weights))
    found = symgrad.explain(whole, seed=weights, check=False, **given)
    assert_same(out, found.output)
    for name, leaf in leaves.items():
        assert_same(leaf.grad, found.gradients[name].value, what=f"{text} by {name}")


def test_a_complex_value_is_written_as_python_writes_it() -> None:
    found = symgrad.explain("(z * z.conj()).real", z="[1+2j, 0.5j]")
    assert found.gradients["z"].value.tolist() == [[2, 4], [0, 1]]
    assert "z is complex, shown as pairs (re, im)" in " ".join(found.to_text().split())
    assert_same(2 * np.eye(2).reshape(1, 2, 1, 2), symgrad.hessian("(z.abs()**2).sum()", "z", z=[1 + 2j]).value)
    assert symgrad.jacobian("z * z", "z", z=np.array([1 + 2j])).dense().tolist() == [[2, -4], [4, 2]]
