"""A few characters may ask for anything: an answer or a refusal, soon, and never the machine's memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad.errors import InputError, SymgradError
from symgrad.language import arguments
from symgrad.lowering.graph import check_grid, memory_of
from symgrad.numeric.exact import EXACT_LIMIT, as_fractions
from symgrad.numeric.forward_pass import MOST_ENTRIES
from tests.compare import assert_same

HUGE: tuple[tuple[str, dict[str, tuple[int, ...]]], ...] = (
    ("x.repeat(10**9)", {}), ("x.repeat(1000000, 1000000)", {}), ("x.tile((10**9,))", {}), ("x.expand(10**9, 2)", {}),
    ("x * 2", {"x": (100_000, 100_000)}), ("x @ x", {"x": (30_000, 30_000)}), ("outer(x, x)", {"x": (100_000,)}),
    ("adaptive_avg_pool1d(x, 10**8)", {}), ("F.adaptive_avg_pool2d(x, (10**5, 10**5))", {}),
    ("F.pad(x, (10**9, 10**9))", {}), ("F.interpolate(x, 10**9)", {}), ("F.interpolate(x, scale_factor=10**8)", {}),
    ("F.one_hot(x, 10**9)", {}), ("diag_embed(x)", {"x": (100_000,)}), ("kron(x, x)", {"x": (3000, 3000)}),
    ("einsum('i,j,k,l->ijkl', x, x, x, x)", {"x": (300,)}), ("F.conv1d(x, w, padding=10**8)", {}),
    ("x.repeat_interleave(10**9)", {}), ("torch.fft.fft(x, 10**8).abs()", {}), ("cumsum(x, 0)", {"x": (10_000_000,)}),
    ("cumprod(x, 0)", {"x": (20_000,)}), ("x.unfold(0, 10**8, 1)", {}), ("tensordot(x, x, 0)", {"x": (4000, 4000)}),
    ("F.fold(x, (10**5, 10**5), (2, 2))", {}), ("x.reshape(-1, 10**9)", {}), ("x.roll(10**20)", {}),
    ("conv1d(x, w)", {"x": (1, 1, 1_000_000), "w": (1, 1, 100_000)}), ("torch.combinations(x, 10)", {"x": (60,)}),
    ("x.tensor_split(10**7)[0]", {}), ("x.slice_scatter(y, 0, 0, 100000, 2)", {"x": (100_000,), "y": (50_000,)}),
)  # fmt: skip
LONG = (
    "(" * 3990, "+".join(["x"] * 1900), "-" * 3900 + "x", "x" + ".T" * 900, "x" + "[0]" * 900, "[" * 3000,
    "cat([" + ",".join(["x"] * 1900) + "])[", "=".join("1" * 1999), ";" * 3999, "x;" * 1999, "1" * 3999, "x**" * 1300 + "2",
)  # fmt: skip


@pytest.fixture
def soon() -> Any:
    begin = time.process_time()
    yield
    assert time.process_time() - begin < 10


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("text", "shapes"), HUGE, ids=[text for text, _ in HUGE])
def test_sizes_are_foreseen(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(SymgradError):
        symgrad.explain(text, shapes=shapes, check=False)


@pytest.mark.usefixtures("soon")
def test_no_grid_is_laid_out_where_there_is_a_line() -> None:
    """The proof of a line computes as the line does, and not in fractions over all pairs of places."""
    found = symgrad.explain("cumsum(x, 0)", shapes={"x": (100_000,)}, check=False).gradients["x"]
    assert found.closed_form == "v.flip(-1).cumsum(-1).flip(-1)"
    assert_same(np.arange(100_000, 0, -1), found.value)


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_four_thousand_characters_of_anything_are_refused_soon(text: str) -> None:
    with pytest.raises(SymgradError):
        symgrad.explain(text)


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
def test_integers_that_grow_go_on_as_decimals() -> None:
    matrix = [[2, 3], [4, 5]]
    squared = symgrad.explain("h = x @ x; " + "h = h @ h; " * 50 + "h", x=matrix, check=False)
    assert not np.isfinite(np.asarray(squared.gradients["x"].value, dtype=float)).all()
    few = symgrad.explain("h = x @ x; " + "h = h @ h; " * 5 + "h", x=matrix)  # as long as they are short they are exact
    assert few.passed
    assert few.exact
    for text, value in (("x**10**9", [3]), ("x**(-1000000)", [3]), ("((x**100)**100)**100", [3]), ("2**x", [10**9])):
        assert "x" in symgrad.explain(text, x=value).gradients, text


@pytest.mark.usefixtures("soon")
def test_a_jacobian_is_refused_with_its_size() -> None:
    jacobian = symgrad.jacobian("x @ x", "x", shapes={"x": (300, 300)}, check=False)
    for ask in (jacobian.matrix, jacobian.sparse, jacobian.dense, jacobian.as_torch):
        with pytest.raises(InputError, match="too large"):
            ask()
    small = symgrad.jacobian("x @ x", "x", shapes={"x": (20, 20)}, check=False)
    assert_same(small.dense(), small.sparse().toarray())


@pytest.mark.usefixtures("soon")
def test_formulas_for_every_size_need_no_memory() -> None:
    _, (derived,) = symgrad.derive("x * 2", shapes={"x": (1_000_000, 1_000_000)})
    assert derived.form is not None
    assert derived.form.text == "2 * v"


@pytest.mark.usefixtures("soon")
def test_the_refusal_says_how_large_and_where() -> None:
    with pytest.raises(InputError, match="too large to be computed") as caught:
        symgrad.explain("tanh(x.repeat(10**9))")
    assert caught.value.excerpt is not None
    assert "x.repeat(10**9)" in caught.value.excerpt
    with pytest.raises(InputError, match=r"too large(?s:.*)1000000×1000000 here"):
        symgrad.explain("tanh(x)", shapes={"x": (10**6, 10**6)})
    with pytest.raises(InputError, match="too large"):
        check_grid((10**5, 10**5))


@pytest.mark.slow
def test_a_file_of_two_million_numbers_within_three_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_text(json.dumps([1] * 2_000_000))
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30,) * 2); from symgrad_cli.main import main; main()"
    arguments = [sys.executable, "-c", limit, "explain", "x*2", "--let", f"x=@{path}", "--no-check"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "too large" in done.stderr
    assert f"{MOST_ENTRIES:,}" in done.stderr
    assert "Traceback" not in done.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 3 * 2**20


def test_a_list_that_repeats_one_row_is_refused_before_its_entries_are_counted_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a list takes no memory, all of its entries would."""
    monkeypatch.setattr(arguments, "MOST", 100)
    assert arguments.nested_shape([[0] * 10] * 10, "x") == (10, 10)
    with pytest.raises(SymgradError, match="too large"):
        arguments.nested_shape([[0] * 20] * 20, "x")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "size"),
    [("x * 2", 20_000), ("x[1:] - x[:-1]", 20_000), ("x.flip(0) * x", 20_000), ("cumsum(x / 7, 0)", 1000)],
)
def test_no_fraction_is_made_for_each_of_many_numbers(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 whole numbers the seed, the random directions and what comes of them are floats.

    A sum so far has size² conditions: whether they hold is a whole number, and no fraction.
    """
    made: list[int] = []

    def counted(array: np.ndarray) -> np.ndarray:
        made.append(array.size)
        return as_fractions(array)

    monkeypatch.setattr("symgrad.numeric.playing.as_fractions", counted)
    assert symgrad.explain(text, x=np.arange(size)).passed
    assert max(made, default=0) <= 4 * EXACT_LIMIT


@pytest.mark.slow
def test_what_is_nested_too_deep_for_one_formula_is_explained_without_it() -> None:
    """SymPy's own recursion is not the depth of what can be explained."""
    text = "; ".join(["h0 = x", *(f"h{n + 1} = tanh(h{n} * w + {n})" for n in range(60)), "h60.sum()"])
    found = symgrad.explain(text, x=[0.5], w=[0.25])
    assert found.passed
    assert "the explicit formulas grow too long" in " ".join(found.to_text().split())


def test_a_batch_goes_back_through_windows_a_few_images_at_a_time() -> None:
    """A convolution of four images of 160×160 was too large to be explained."""
    x, w = torch.randn(6, 2, 5, 5, dtype=torch.float64), torch.randn(3, 2, 3, 3, dtype=torch.float64)
    v = torch.randn(6, 3, 5, 5, dtype=torch.float64)

    def pulled() -> dict[str, Any]:
        return symgrad.capture(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), x, w).pullback(v)

    whole = pulled()
    for size in (60_000, 30_000):  # two images at a time, and one
        with memory_of(size):
            shares = pulled()
        for name in whole:
            np.testing.assert_allclose(shares[name], whole[name], rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_what_is_only_broadcast_takes_no_room() -> None:
    """With large images a normalisation was not opened, and its line had 174 characters."""
    x, w = torch.randn(8, 4, 6, 6, dtype=torch.float64), torch.randn(4, dtype=torch.float64)

    def normal(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, None, None, w, b, training=True).exp().mean()

    with memory_of(60_000):
        lines = [*map(str, symgrad.capture(normal, x, w, w.clone()).backward().statements)]
    assert any(line.startswith("v_xhat = ") for line in lines)
