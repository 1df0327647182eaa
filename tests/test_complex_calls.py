"""Calls on complex tensors that are said by a definition, or by the operations that torch runs inside them.

Each row is held against torch, value, gradient and pushforward, and must leave no black box.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from symgrad import capture
from symgrad.tracing.lift import inside
from symgrad.tracing.lift.inside import DEFINITIONS
from tests.complex_draws import draw, held_against_torch, real

WINDOW = torch.tensor([0.5, 1.0, 2.0, 1.0], dtype=torch.float64)
DEFINED = {
    "asin and acos": (lambda z: z.asin() + 2 * torch.arccos(z), draw(5)),
    "atan": (lambda z: z.atan(), draw(5)),
    "asinh, acosh, atanh": (lambda z: z.asinh() + 2 * z.acosh() + 3j * z.atanh(), draw(5)),
    "products so far": (lambda z: z.cumprod(0) + z.cumprod(-1), draw(3, 2)),
    "products": (lambda z: z.prod(0, keepdim=True) * z.prod(), draw(3, 2)),
    "logarithms of sums": (lambda z: torch.logcumsumexp(3000 * z, 0) + z.logsumexp(0, keepdim=True), draw(4, 2)),
    "logaddexp": (torch.logaddexp, draw(3), draw(3, seed=1)),
    "batches summed": (lambda b, x, y: torch.addbmm(b, x, y, beta=2j, alpha=1j), draw(2, 2), draw(3, 2, 2), draw(3, 2, 2, seed=1)),
    "a distance": (lambda x, y: torch.dist(x, y, 3) + F.pairwise_distance(x, y), draw(2, 3), draw(2, 3, seed=1)),
    "powers of two": (lambda z: torch.ldexp(z, torch.tensor([1, 3, 0])), draw(3)),
    "padding with a number": (lambda z: F.pad(z, (1, -1), value=2.0), draw(2, 3)),
    "filled": (lambda z, w: torch.index_fill(z, 0, torch.tensor([1]), 2j) + torch.fill(z, w), draw(3), draw(1)[0]),
    "added at places": (lambda z, w: z.index_put((torch.tensor([0, 0]),), w, accumulate=True), draw(3), draw(2)),
    "put": (lambda z, w: z.put(torch.tensor([3, 0]), w, accumulate=True), draw(2, 2), draw(2)),
    "written where a mask holds": (lambda z, w: z.masked_scatter(z.real > 0, w), draw(2, 2), draw(2, 2, seed=1)),
    "a number written": (lambda z: z.scatter(0, torch.tensor([1]), 2.5), draw(3)),
    "moments": (lambda z: torch.std_mean(z, 0)[0] + torch.var_mean(z)[1] + z.var(unbiased=False), draw(3, 2)),
}  # fmt: skip
"""By a definition in simpler functions."""
INSIDE = {
    "covariance with coarse weights": (lambda z: torch.cov(z, aweights=torch.tensor([0.2, 0.7, 0.1])), draw(2, 3)),
    "covariance": (lambda z: torch.cov(z) + torch.corrcoef(z), draw(2, 4)),
    "differences with ends": (lambda z: torch.diff(z, n=2, prepend=z[:1]), draw(4)),
    "einsum with dots": (lambda x, y: torch.einsum("...ik,...kj->...ji", x, y), draw(2, 2, 3), draw(2, 3, 2)),
    "slopes and areas": (lambda z: torch.gradient(z, spacing=0.5)[0][1:] + torch.cumulative_trapezoid(z), draw(5)),
    "inner products": (lambda x, y: torch.inner(x, y) + torch.tensordot(x, y, 2), draw(2, 3), draw(2, 3, seed=1)),
    "normalised": (lambda z: F.normalize(z) + F.rms_norm(z, (3,)), draw(2, 3)),
    "shortened": (lambda z: torch.renorm(z, 2, 0, 1.0), 3 * draw(2, 3)),
    "losses": (lambda x, y: F.l1_loss(x, y) + F.triplet_margin_loss(x, y, x * y), draw(2, 3), draw(2, 3, seed=1)),
    "spectra of frames": (lambda z: torch.stft(z, 4, window=WINDOW, return_complex=True, center=False), draw(12)),
    "and back": (lambda z: torch.istft(z, 4, window=WINDOW), draw(3, 5)),
    "sinc": (torch.sinc, draw(4)),
    "powers of a vector": (lambda z: torch.linalg.vander(z, N=4), draw(3)),
    "from a real tensor": (lambda x: torch.cumprod(x + 1j, 0) + torch.asin(x * 2j), real(3)),
}  # fmt: skip
"""By the operations that torch runs inside."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", [*DEFINED, *INSIDE])
def test_derived(name: str) -> None:
    fn, *tensors = {**DEFINED, **INSIDE}[name]
    assert not held_against_torch(fn, *tensors).black_boxes


@pytest.mark.parametrize("word", ["asin", "acos", "atan", "asinh", "acosh", "atanh"])
def test_the_branches_are_torchs_on_and_beside_the_cuts(word: str) -> None:
    """Where a formula took another branch it would be refused, which this would see."""
    steps = (-2.5, -1.0 - 1e-6, -0.5, 0.0, 0.3, 1.0 + 1e-6, 4.0)
    z = torch.tensor([complex(a, b) for a in steps for b in steps if (a, b) != (0.0, 0.0)], dtype=torch.complex128)
    z = z[(z.real != 0) & (z.imag != 0) | (z.abs() < 0.9)]
    assert not held_against_torch(getattr(torch, word), z).black_boxes


def products(z: torch.Tensor) -> torch.Tensor:
    """What a complex tensor has a definition for."""
    return torch.cumprod(z, 0)


def test_a_definition_that_is_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {**DEFINITIONS, "cumprod": lambda p, z, dim: torch.cumsum(z, dim)}
    monkeypatch.setattr("symgrad.tracing.lift.inside.DEFINITIONS", wrong)
    (box,) = held_against_torch(products, draw(3)).black_boxes
    assert "the table's entry gives another value" in box.reason


def test_where_a_definition_is_refused_what_runs_inside_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symgrad.tracing.lift.inside.DEFINITIONS", {"logaddexp": lambda p, x, y: x + y})
    assert not held_against_torch(torch.logaddexp, draw(3), draw(3, seed=1)).black_boxes


def test_a_definition_in_itself_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symgrad.tracing.lift.inside.DEFINITIONS", {"cumprod": lambda p, z, dim: torch.cumprod(z, dim)})
    (box,) = capture(products, draw(3)).black_boxes
    assert "contains itself" in box.reason


def told(definition: inside.Definition) -> tuple[str, ...]:
    """Why a product is left to torch where its definition is this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("symgrad.tracing.lift.inside.DEFINITIONS", {"cumprod": definition})
        return tuple(box.reason for box in capture(products, draw(3)).black_boxes)


def test_a_value_that_is_overwritten_inside_is_never_read_under_its_other_name() -> None:
    """A definition that writes in place: the tensor itself is followed, what shares its memory is refused."""

    def own(p: inside.Expansion, z: torch.Tensor, dim: int) -> torch.Tensor:
        copy = z * 1
        copy.mul_(2)
        return copy

    def others(p: inside.Expansion, z: torch.Tensor, dim: int) -> torch.Tensor:
        copy = z * 1
        row = copy[:1]
        copy.mul_(2)
        return row * copy

    (value,) = told(own)
    assert "another value" in value, "2z was followed, and is no product of entries"
    (reason,) = told(others)
    assert "in place through another name" in reason


def test_what_no_grad_writes_over_inside_is_refused_by_what_is_written() -> None:
    """Whatever the write is called; data that takes the numbers of what has a gradient is data."""

    def drawn(p: inside.Expansion, z: torch.Tensor, dim: int) -> torch.Tensor:
        lengths = z.abs()
        with torch.no_grad():
            lengths.bernoulli_(1.0)
        return lengths * z

    def aside(p: inside.Expansion, z: torch.Tensor, dim: int) -> torch.Tensor:
        held = torch.zeros_like(z)
        with torch.no_grad():
            held.copy_(z)
        return held * z

    (reason,) = told(drawn)
    assert "torch.no_grad() overwrites a tensor that has a gradient" in reason
    (value,) = told(aside)
    assert "another value" in value
    assert "no_grad" not in value


def test_what_is_written_by_strides_is_left_to_torch() -> None:
    (box,) = capture(lambda z, w: torch.as_strided_scatter(z, w, (2,), (1,)), draw(3), draw(2)).black_boxes
    assert "torch's backward passes on the gradient of the overwritten entries" in box.reason
