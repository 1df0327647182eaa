"""The plans on jax's arrays: the same numbers as on NumPy, under `jax.jit`, `jax.vmap` and differentiated again."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from symgrad import capture
from symgrad.errors import InputError, ShapeError, UnsupportedError
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.plans_of_the_table import compare_with_numpy
from tests.test_captured_plans import PROGRAMS

os.environ.setdefault("JAX_PLATFORMS", "cpu")
jax = pytest.importorskip("jax")
pytestmark = pytest.mark.filterwarnings("ignore:.*os.fork.*:RuntimeWarning")


SMALL = {"small": (lambda x, w: torch.tanh(x @ w), ((2, 3), (3, 2)))}
KINDS = ("float64", "float32")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("small", "float64"),
        *(pytest.param(name, KINDS[n % 2], marks=pytest.mark.slow) for n, name in enumerate(PROGRAMS)),
        *(pytest.param(name, KINDS[n % 2 - 1], marks=pytest.mark.night) for n, name in enumerate(PROGRAMS)),
    ],
)
def test_the_same_plans_on_jax(name: str, kind: str) -> None:
    """Compiled whole, mapped over seeds, and differentiated by the seed: the derivative of ⟨u, vᵀJ⟩ by v is Ju."""
    function, shapes = {**PROGRAMS, **SMALL}[name]
    torch.manual_seed(0)
    program = capture(function, *(torch.randn(shape, dtype=torch.float64) for shape in shapes))
    with jax.enable_x64(True):
        generator = np.random.default_rng(0)
        seeds = generator.standard_normal((2, *program.results[0].shape)).astype(kind)
        pulled = jax.jit(lambda v: program.pullback(v, backend="jax"))
        every = jax.jit(jax.vmap(pulled))(jax.numpy.asarray(seeds))
        tolerance = 1e-9 if kind == "float64" else 1e-3
        for n, seed in enumerate(seeds):
            found = pulled(jax.numpy.asarray(seed))
            for label, expected in program.pullback(seed.astype(np.float64)).items():
                assert found[label].dtype == kind
                assert_same(expected, np.asarray(found[label]), tolerance=tolerance, what=f"{name} by {label}")
                assert_same(expected, np.asarray(every[label][n]), tolerance=tolerance, what=f"{name} by {label}")
        changes = {label: generator.standard_normal(g.shape) for label, g in found.items()}
        back = jax.grad(lambda v: sum((changes[label] * g).sum() for label, g in pulled(v).items()))
        moved = program.pushforward(changes)
        assert_same(moved, np.asarray(back(jax.numpy.asarray(seeds[0]))), tolerance=tolerance, what=name)


@pytest.mark.slow
@pytest.mark.parametrize("case", first_by_default(6)[::9])
def test_the_table_on_jax(case: Case) -> None:
    """Each pullback that has a plan on jax gives what it gives on NumPy; some: jax compiles each for each shape."""
    from symgrad.tracing.captured.on_jax import jax_engine

    with jax.enable_x64(True):
        on = jax_engine(np.dtype("float64"))
        compare_with_numpy(case, on, jax.numpy.asarray, ("polygamma", "besseli"))


def test_what_has_no_plan_on_jax_is_refused() -> None:
    x = torch.tensor([0.0, 1.0], dtype=torch.float64)
    program = capture(lambda x: x.sqrt() / x, x)
    with pytest.raises(UnsupportedError, match="no plan on jax's arrays"):
        program.pullback(jax.numpy.ones(2), backend="jax")
    fine = capture(lambda x: x.sin(), x)
    with pytest.raises(InputError, match="a seed is an array of jax"):
        fine.pullback(np.ones(2), backend="jax")
    with pytest.raises(ShapeError, match="shape of the output"):
        fine.pullback(jax.numpy.ones(3), backend="jax")
    assert_same(fine.pullback(np.ones(2))["x"], np.asarray(fine.pullback(jax.numpy.ones(2), backend="jax")["x"]), tolerance=1e-5, what="sin")  # fmt: skip
