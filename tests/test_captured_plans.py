"""Captured programs as plans: on arrays and on torch's tensors, as one plan and step by step."""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from symgrad import InputError, ShapeError, UnsupportedError, capture
from symgrad.calculus import back, local_pullback
from symgrad.calculus.local_derivatives import derive_local
from symgrad.numeric import forward
from symgrad.numeric.playing import plan_for
from symgrad.tracing.lift.call_sweeps import CallwisePull
from tests.compare import assert_same

# --- captured programs --------------------------------------------------------------------------------------


def reference(program, seed: np.ndarray, names) -> dict[str, np.ndarray]:
    """vᵀJ step by step."""
    recording = program.recording
    own = {label: name for name, label in program.labels.items()}
    sweep = CallwisePull(
        recording, program.values, [own[n] for n in names], program.boxes, ends=[recording.output],
        origins=program.origins, noted={},
    )  # fmt: skip
    found = sweep.back({recording.output: seed})
    return {name: found[own[name]] for name in names}


def attention(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v).sin()


def windows(x, w):
    pooled = nn.functional.max_pool2d(nn.functional.conv2d(x, w, stride=2, padding=1), 2)
    return pooled.flatten(1).log_softmax(-1)


def many(x, w):
    h = (x @ w).tanh() * x.cumsum(0)
    return (h[1:] + h[:-1]).pow(2) / (1 + x[1:].abs()) + h.sort(0).values[1:] + x.gather(0, x[1:].argsort(0))


PROGRAMS = {
    "attention": (attention, ((2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 5))),
    "windows": (windows, ((2, 3, 9, 9), (4, 3, 3, 3))),
    "many": (many, ((4, 4), (4, 4))),
}


@pytest.mark.parametrize(("name", "kind"), [*product(PROGRAMS, ("float64", "float32"))])
def test_a_captured_program_as_one_plan_and_step_by_step(name: str, kind: str) -> None:
    function, shapes = PROGRAMS[name]
    torch.manual_seed(0)
    program = capture(function, *(torch.randn(shape).to(getattr(torch, kind)) for shape in shapes))
    draw = np.random.default_rng(0)
    for _ in range(3):
        seed = draw.standard_normal(program.results[0].shape)
        found = program.pullback(seed)
        assert any(way is not None for way in program._ways_back.known.values())
        for label, expected in reference(program, seed, found).items():
            assert_same(expected, found[label], what=f"{name} by {label}")


@pytest.mark.parametrize("size", [1.0, 300.0])
@pytest.mark.parametrize("shift", [0.0, -745.0, 1e4])
def test_exponentials_of_any_size(size: float, shift: float) -> None:
    """All exponentials of a family are shifted by the same number: none of them overflows, none is lost."""
    torch.manual_seed(1)
    q, k, v, w = (torch.randn(1, 4, 4, dtype=torch.float64) for _ in range(4))
    q[..., 0], k[..., 0] = shift, 1.0
    tensors = [t.requires_grad_() for t in (q * size if shift == 0 else q, k, v)]
    target = torch.tensor([[0, 3, 1, 2]])

    def loss(q, k, v):
        out = nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)
        return out * w + nn.functional.cross_entropy(out * size + shift, target)

    program = capture(loss, *tensors)
    seed = torch.randn(1, 4, 4, dtype=torch.float64)
    expected = torch.autograd.grad(loss(*tensors), tensors, seed)
    found = program.pullback(seed)
    for name, gradient in zip("qkv", expected, strict=True):
        assert_same(gradient, found[name], what=f"{name} at {size} and {shift}")


SINGULAR = [0.0, np.inf, -np.inf, np.nan, 1e-200, 1e200]


@pytest.mark.parametrize("where", ["value", "seed"])
@pytest.mark.parametrize("special", SINGULAR)
def test_what_is_not_finite_takes_the_other_way(special: float, where: str) -> None:
    """0·∞ behind a mask, NaN beside a comparison: such sweeps are not the plans' to do."""
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(3, 4)
    seed = np.arange(12.0).reshape(3, 4)
    if where == "value":
        x[1, 2] = special
    else:
        seed[1, 2] = special
    program = capture(lambda x: torch.where(x > 0, x.relu() * x.exp(), 1 / x).clamp(max=2), x)
    found = program.pullback(seed)
    expected = reference(program, seed, found)["x"]
    assert_same(expected, found["x"], what=f"{special} in the {where}")


def test_gradients_are_the_callers_own() -> None:
    """Written into, they change neither the seed, nor the values, nor the next call."""
    x = torch.randn(3, 4, dtype=torch.float64)
    program = capture(lambda x: x.T, x)
    seed = np.random.default_rng(0).standard_normal((4, 3))
    kept = seed.copy()
    first = program.pullback(seed)["x"]
    expected = first.copy()
    first[:] = 7
    assert_same(kept, seed)
    assert_same(expected, program.pullback(seed)["x"])
    assert_same(x, program.values.arrays["x"])


def test_from_the_second_call_on_there_is_no_sympy() -> None:
    function, shapes = PROGRAMS["attention"]
    program = capture(function, *(torch.randn(shape, dtype=torch.float64) for shape in shapes))
    seed = np.ones(program.results[0].shape)
    program.pullback(seed)
    files: set[str] = set()
    sys.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
    try:
        program.pullback(seed)
    finally:
        sys.setprofile(None)
    assert any(name.endswith("lowering/__init__.py") for name in files)
    assert not [name for name in files if "sympy" in name]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_what_the_forward_decides_is_decided_once(backend: str) -> None:
    """Played for each seed: no comparison, no question whether a place lies inside; windows are added row upon row."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 10, 10, dtype=torch.float64), torch.randn(4, 3, 3, 3, dtype=torch.float64)
    program = capture(lambda x, w: torch.max_pool2d(torch.relu(torch.conv2d(x, w)), 2), x, w)
    seed = torch.randn(2, 4, 4, 4, dtype=torch.float64)
    program.pullback(seed.numpy() if backend == "numpy" else seed, backend=backend)
    (way,) = (program._ways_back if backend == "numpy" else program._on_torch).known.values()
    assert way is not None
    held, shapes, asked = list(way.chain.start), [], []
    held[way.seeds[program.ends[0]]] = seed.numpy() if backend == "numpy" else seed
    for function, given, place in way.chain.calls:
        held[place] = function(*(held[n] for n in given))
        assert str(getattr(held[place], "dtype", "")) not in ("bool", "torch.bool")
        shapes.append(tuple(np.shape(held[place])))
        if getattr(function, "func", function).__qualname__.endswith(".put"):
            asked.append(len(given))
    assert asked == [1]
    assert {(3, 3, 2, 10, 8), (3, 2, 10, 10)} <= set(shapes)


def test_a_black_box_stands_between_plans() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, v):
            return 2 * v

    x = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    program = capture(lambda x: Doubled.apply(x @ x).tanh() + x, x)
    assert program.black_boxes
    seed = np.random.default_rng(2).standard_normal((3, 3))
    (expected,) = torch.autograd.grad(Doubled.apply(x @ x).tanh() + x, x, torch.from_numpy(seed))
    for _ in range(2):
        assert_same(expected, program.pullback(seed)["x"])
    assert all(way is not None for way in program._ways_back.known.values())


# --- on torch's tensors -------------------------------------------------------------------------------------


ALLOWED = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.02}


@pytest.mark.parametrize(("name", "kind"), [*product(PROGRAMS, ALLOWED)])
def test_the_same_plans_on_tensors(name: str, kind: torch.dtype) -> None:
    function, shapes = PROGRAMS[name]
    torch.manual_seed(0)
    program = capture(function, *(torch.randn(shape, dtype=torch.float64) for shape in shapes))
    seeds = torch.randn(2, *program.results[0].shape, dtype=torch.float64)
    every = torch.vmap(lambda seed: program.pullback(seed, backend="torch"))(seeds.to(kind))
    for n, seed in enumerate(seeds):
        found = program.pullback(seed.to(kind), backend="torch")
        for label, expected in program.pullback(seed.numpy()).items():
            assert found[label].dtype == every[label].dtype == kind
            for how, got in (("", found[label]), (", mapped", every[label][n])):
                assert_same(expected, got.double(), tolerance=ALLOWED[kind], what=f"{name} by {label}{how}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_tensors_it_is_differentiated_again(name: str) -> None:
    """The derivative of ⟨u, vᵀJ⟩ by v is Ju."""
    function, shapes = PROGRAMS[name]
    torch.manual_seed(0)
    program = capture(function, *(torch.randn(shape, dtype=torch.float64) for shape in shapes))
    seed = torch.randn(program.results[0].shape, dtype=torch.float64, requires_grad=True)
    found = program.pullback(seed, backend="torch")
    changes = {label: torch.randn_like(gradient) for label, gradient in found.items()}
    (back,) = torch.autograd.grad(sum((changes[label] * g).sum() for label, g in found.items()), seed)
    assert_same(program.pushforward({n: u.numpy() for n, u in changes.items()}), back, what=name)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_on_tensors_it_compiles(backend: str) -> None:
    """One graph, without a break, and the same numbers; inductor needs a compiler of C++."""
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("no compiler of C++")
    function, shapes = PROGRAMS["attention"]
    torch.manual_seed(0)
    program = capture(function, *(torch.randn(shape, dtype=torch.float64) for shape in shapes))
    seed = torch.randn(program.results[0].shape, dtype=torch.float64)
    expected = program.pullback(seed.numpy())
    compiled = torch.compile(lambda v: program.pullback(v, backend="torch"), backend=backend, fullgraph=True)
    with torch._inductor.config.patch({"cpp_cache_precompile_headers": False, "cpp.vec_isa_ok": True}):  # for speed
        for name, gradient in compiled(seed).items():
            assert_same(expected[name], gradient, what=f"{name} by {backend}")


@pytest.mark.slow
def test_on_tensors_it_compiles_before_it_was_asked_otherwise() -> None:
    """What is written down at the first call is no part of the graph."""
    program = capture(lambda x: torch.tanh(x @ x).softmax(0), torch.eye(3, dtype=torch.float64))
    compiled = torch.compile(lambda v: program.pullback(v, backend="torch"), backend="eager", fullgraph=True)
    for kind in (torch.float64, torch.float32):
        seed = torch.arange(9, dtype=kind).reshape(3, 3)
        assert_same(program.pullback(seed.double().numpy())["x"], compiled(seed)["x"], tolerance=ALLOWED[kind])


def test_what_has_no_plan_on_tensors_is_refused() -> None:
    x = torch.tensor([0.0, 1.0], dtype=torch.float64)
    program = capture(lambda x: x.sqrt() / x, x)
    with pytest.raises(UnsupportedError, match="no plan on torch's tensors"):
        program.pullback(torch.ones(2, dtype=torch.float64), backend="torch")
    fine = capture(lambda x: x.sin(), x)
    with pytest.raises(InputError, match="no backend 'tf'"):
        fine.pullback(np.ones(2), backend="tf")
    with pytest.raises(InputError, match="a seed is a tensor"):
        fine.pullback(np.ones(2), backend="torch")
    with pytest.raises(ShapeError, match="shape of the output"):
        fine.pullback(torch.ones(3), backend="torch")


# --- the backward as a program, and many at once --------------------------------------------------------------


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_pullback_is_what_the_backward_as_a_program_computes(name: str) -> None:
    """The plans of `pullback` are the steps of that program, those of one call together."""
    function, shapes = PROGRAMS[name]
    torch.manual_seed(0)
    program = capture(function, *(torch.randn(shape, dtype=torch.float64) for shape in shapes))
    seed = np.random.default_rng(0).standard_normal(program.results[0].shape)
    found = back(program.recording, program.wanted)
    (weight,) = found.weights.values()
    whole = forward(found.program, {**program.arrays, str(weight): seed})
    for label, gradient in program.pullback(seed).items():
        (own,) = (n for n in program.wanted if program.labels[n] == label)
        assert_same(whole[str(found.cotangents[own])], gradient, tolerance=1e-9, what=f"{name}, {label}")


def test_many_threads_ask_at_once() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3), nn.Softmax(-1)).double()
    seeds = [np.random.default_rng(n).standard_normal((5, 3)) for n in range(6)]
    x = torch.randn(5, 8, dtype=torch.float64)
    alone = [capture(model, x).pullback(seed) for seed in seeds]
    program = capture(model, x)

    def asked(number: int) -> dict[str, np.ndarray]:
        seed = seeds[number % len(seeds)]
        if number % 2:
            return program.pullback(seed)
        return {k: g.numpy() for k, g in program.pullback(torch.as_tensor(seed), backend="torch").items()}

    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(asked, range(96))):
            for label, gradient in alone[number % len(seeds)].items():
                assert_same(gradient, found[label], what=f"{label}, call {number}")


def test_another_size_derives_nothing_anew() -> None:
    """Ten sizes of one program: derived for the first, for the others only lowered; each a second time neither."""

    def made() -> tuple[int, int]:
        return local_pullback.cache_info().misses + derive_local.cache_info().misses, plan_for.cache_info().misses

    counts = []
    for n in (*range(11, 21), 15):
        x, w = torch.randn(n, n + 20), torch.randn(n + 20, n + 40)
        program = capture(lambda x, w: torch.softmax(torch.tanh(x @ w), 1), x, w)
        before = made()
        found = program.pullback(np.ones((n, n + 40)))
        after = made()
        assert set(found) == {"x", "w"}
        counts.append(tuple(b - a for a, b in zip(before, after, strict=True)))
    assert [derived for derived, _ in counts[1:]] == [0] * 10
    assert {lowerings for _, lowerings in counts[:10]} == {3}
    assert counts[-1] == (0, 0)
