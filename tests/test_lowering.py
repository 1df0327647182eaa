"""One lowering: a plan in the cheapest order, one in the order of the edges and naive loops agree for every operation.

The loops know neither contractions nor views nor put-adds. Held at the sizes of the examples and at others, for the
equation and for its pullbacks.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
import sympy as sp
import torch
from torch import nn

import symgrad
from symgrad import capture
from symgrad.calculus import back, flowing_places, local_pullback, standard
from symgrad.calculus.local_derivatives import SEED, derive_local, local_jacobian
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.indexing import Equation, access, fresh
from symgrad.indexing.symbols import names_read, number
from symgrad.language import read_program
from symgrad.lowering import lowered, make_plan
from symgrad.lowering.arrays import place_in_zeros
from symgrad.lowering.graph import EDGES
from symgrad.numeric import as_float, forward
from symgrad.numeric.playing import evaluate, evaluate_forward, in_type, plan_for, played
from symgrad.tracing.captured.on_torch import torch_engine
from symgrad.tracing.captured.planned import Unplanned
from symgrad.tracing.lift.call_sweeps import CallwisePull
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.naive import Loops
from tests.sampling import draw_inputs

OTHER = {2: 3, 3: 5, 4: 2, 5: 4, 6: 7}
"""Sizes that plans are held against each other at beside the examples' own."""
Local = tuple[str, Equation, dict, dict]
"""What an equation is called, the equation, the arrays that it reads, the numbers of its sizes."""


def local_equations(program, values, seed: int) -> Iterator[Local]:
    """The equation of each step and its pullbacks by each place, with arrays to put in."""
    names = frozenset(t.name for t in program.tensors())
    draw = np.random.default_rng(seed)
    for step in program.steps:
        form = standard(step, program)
        sizes = {own: number(size, program.sizes) for own, size in form.sizes.items()}
        arrays = {own: in_type(values[name]) for own, name in form.names.items() if name in values.arrays}
        arrays[SEED] = draw.standard_normal(np.shape(values[step.result.name]))
        told = [("forward", derive_local(form.key).equation)]
        told += [(f"pullback by {n}", local_pullback(form.key, n)) for n in flowing_places(step, names)]
        for what, equation in told:
            yield f"{step.op}, {what}", equation, {n: arrays[n] for n in names_read(equation.right)}, sizes


def by_plan(equation: Equation, arrays: dict, sizes: dict) -> np.ndarray:
    """An equation by its plan."""
    shapes = {name: array.shape for name, array in arrays.items()}
    holds = {name: "f" if array.dtype.kind == "f" else "i" for name, array in arrays.items()}
    plan = make_plan(*lowered([equation], sizes, shapes, holds))
    before = [np.array(arrays[name]) for name in plan.inputs]
    with np.errstate(all="ignore"):
        (found,) = plan.play([arrays[name] for name in plan.inputs])
        (again,) = plan.play([arrays[name] for name in plan.inputs])
    for name, kept in zip(plan.inputs, before, strict=True):
        assert np.array_equal(arrays[name], kept, equal_nan=True), f"{name} was written into"
    assert np.array_equal(found, again, equal_nan=True)
    return found


LOST = ("svd", "eigh", "eigvalsh", "eig", "matrix_norm", "norm", "pinv", "lstsq")
"""Of operations that begin so, a plan may meet 1/0 behind a condition: then it is not used."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", first_by_default(4))
def test_a_plan_is_what_loops_and_the_order_of_the_edges_compute(case: Case) -> None:
    for what, equation, arrays, sizes in local_equations(case.program, case.values, case.seed):
        found = by_plan(equation, arrays, sizes)
        expected = played(equation, arrays, sizes, EDGES)
        if not np.isfinite(found).all():
            assert what.startswith(LOST) or not np.isfinite(expected).all(), what
            continue
        assert_same(expected, found, seed=case.seed, what=f"{what} in another order")
        if found.size <= 64:
            loops = Loops(arrays, sizes).array(equation)
            assert_same(loops, found, seed=case.seed, tolerance=1e-8, what=f"{what} by loops")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", first_by_default(4))
def test_a_plan_at_other_sizes(case: Case) -> None:
    shapes = case.resized(OTHER)
    if shapes is None:
        return
    program = read_program(case.example.text, shapes=shapes).program
    values = forward(program, draw_inputs(case.op, shapes, case.seed))
    for what, equation, arrays, sizes in local_equations(program, values, case.seed):
        if all(array.size for array in arrays.values()):
            found, expected = by_plan(equation, arrays, sizes), played(equation, arrays, sizes, EDGES)
            if np.isfinite(found).all():
                assert_same(expected, found, seed=case.seed, what=f"{what} at {dict(shapes)}")


def laid_out(array: np.ndarray) -> np.ndarray:
    """The same entries, backwards and with gaps in memory."""
    held = np.zeros((*array.shape[::-1], 3), dtype=array.dtype)
    there = held[(*[slice(None, None, -1)] * array.ndim, slice(1, 2))][..., 0].T if array.ndim else array.copy()
    there[...] = array
    return there


@pytest.mark.parametrize("case", first_by_default(12))
def test_whichever_way_an_equation_is_evaluated(case: Case) -> None:
    """A cached plan knows no call before it: not its layout, nor what became of its result."""
    for what, equation, arrays, sizes in local_equations(case.program, case.values, case.seed):
        expected = played(equation, arrays, sizes, EDGES)
        strange = {name: laid_out(array) for name, array in arrays.items()}
        for way, given in product((evaluate, evaluate_forward), (arrays, strange, arrays)):
            found = way(equation, given, sizes)
            if way is not evaluate_forward or np.isfinite(as_float(found)).all():
                assert_same(expected, found, seed=case.seed, what=f"{what}, {way}")
            if way is not evaluate_forward:  # which may hand on the memory of what it was given
                found[...] = 7


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


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("torch.fft.fft(torch.complex(x, y))", 8), ("torch.fft.rfft(x)", 8), ("torch.fft.fft(torch.complex(x, y))", 6),
        ("torch.fft.irfft(torch.complex(x, y), n=4)", 3), ("out[k<5] = x[k]·sin(π·k/2)", 5),
        ("out[k<8] = Σ_j x[j]·cos(2·π·j·k/size(x, 0))", 8),
    ],
)  # fmt: skip
def test_a_cosine_of_quarter_turns_is_zero(text: str, size: int) -> None:
    """Where a cosine or a sine of a Fourier matrix is 0, J is, and not 6e-17."""
    found = np.abs(symgrad.jacobian(text, "x", check=False, shapes={"x": (size,)}).dense().astype(float))
    small = found < 1e-12
    assert small.any()
    assert_same(found[small], np.zeros(small.sum()), tolerance=0.0)


def test_a_cosine_of_quarter_turns_is_zero_at_the_edges_too() -> None:
    made = symgrad.explain("out[j<7, k<8] = x[j]·cos(π·(2·j + 1)·k/14)", shapes={"x": (7,)}, check=False).program
    found = played(local_jacobian(made.steps[-1], made).equation, {"x": np.ones(7)}, {}, EDGES)
    assert_same(found[:, 7], np.zeros(7), tolerance=0.0)
    assert np.abs(found[:, 6]).min() > 0.1


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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", first_by_default(6))
def test_the_table_on_tensors(case: Case) -> None:
    """Each pullback that has a plan on tensors gives what it gives on NumPy."""
    on = torch_engine(torch.float64, torch.device("cpu"))
    for what, equation, arrays, sizes in local_equations(case.program, case.values, case.seed):
        shapes = {name: array.shape for name, array in arrays.items()}
        holds = {name: "f" if array.dtype.kind == "f" else "i" for name, array in arrays.items()}
        graph, wanted = lowered([equation], sizes, shapes, holds)
        try:
            plan = make_plan(graph, wanted, on)
        except Unplanned as refusal:
            assert str(refusal) in ("besseli", "gamma"), refusal
            continue
        (found,) = plan.play([torch.from_numpy(np.array(arrays[name])) for name in plan.inputs])
        expected = by_plan(equation, arrays, sizes)
        if np.isfinite(expected).all():
            assert_same(expected, found, tolerance=1e-8, seed=case.seed, what=what)


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


def test_a_bare_number_is_placed_as_an_array_is() -> None:
    """Which factors of a constant come first is not said: what is left may be a number of Python's."""
    assert_same([0, 1], place_in_zeros(1, 2, 1), what="a number")
    assert_same([[0, 0], [3, 4]], place_in_zeros(1, 2, np.array([3, 4])), what="a row")


def test_a_place_that_there_is_not_is_nowhere() -> None:
    """δ(2, p)·x[q] of an axis of two entries was written past its end."""
    p, q = fresh("p", sp.Integer(2)), fresh("q", sp.Integer(3))
    equation = Equation((p, q), sp.KroneckerDelta(2, p) * access("x", (q,)))
    assert_same(np.zeros((2, 3)), evaluate(equation, {"x": np.ones(3)}, {}))
