"""Lines of a backward that are built alike are derived once: derivations are counted here, not timed."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import symgrad
from symgrad import Capture, UnsupportedError, capture
from symgrad.backward import line_templates, template_cache
from symgrad.calculus import local_derivatives as local
from symgrad.calculus import reverse_sweep
from symgrad.language.trees import read_form
from tests.compare import assert_same
from tests.lines_of import run_lines
from tests.networks import chain


@pytest.fixture
def counted():
    """What has to be derived for a call, from nothing."""

    def of(call):
        line_templates.derive_template.cache_clear()
        template_cache.TEMPLATES.clear()
        for made in (local.derive_local, local.local_pullback, local.standard_key):
            made.cache_clear()
        call()
        return {
            "lines": line_templates.derive_template.cache_info().misses,
            "derivatives": local.derive_local.cache_info().misses,
            "pullbacks": local.local_pullback.cache_info().misses,
        }

    return of


# --- loops and blocks ---------------------------------------------------------------------------------------

READ = {
    "x[:, t]": lambda x, steps: [x[:, t] for t in range(steps)],
    "x[:, -1 - t]": lambda x, steps: [x[:, -1 - t] for t in range(steps)],
    "x[:, t:t + 1]": lambda x, steps: [x[:, t : t + 1] for t in range(steps)],
    "split": lambda x, steps: x.split(1, dim=1),
    "chunk": lambda x, steps: x.chunk(steps, dim=1),
    "unbind": lambda x, steps: x.unbind(1),
    "narrow": lambda x, steps: [x.narrow(1, t, 1) for t in range(steps)],
    "select": lambda x, steps: [x.select(1, t) for t in range(steps)],
}


def recurrent(read, steps):
    torch.manual_seed(0)
    cell = nn.LSTMCell(3, 4).double()
    x = torch.randn(2, steps, 3, dtype=torch.float64, requires_grad=True)

    def run(x):
        h = c = torch.zeros(2, 4, dtype=torch.float64)
        for part in read(x, steps):
            h, c = cell(part.reshape(2, 3), (h, c))
        return (h * c).sum()

    return run, x, cell


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", READ)
def test_the_steps_of_a_recurrent_network_cost_as_many_derivations_as_one(name, counted):
    def lines(steps):
        def made():
            run, x, cell = recurrent(READ[name], steps)
            (true,) = torch.autograd.grad(run(x), x)
            found = capture(run, x).backward()
            assert found.whole
            known = {"x": x.detach(), **{name: p.detach() for name, p in cell.named_parameters()}}
            (zeros,) = set(found.inputs) - set(known)
            derived = run_lines(found, {**known, zeros: torch.zeros(2, 4, dtype=torch.float64)})
            assert_same(true, next(g for name, g in derived.items() if g.shape == x.shape))

        return made

    few, more = counted(lines(5)), counted(lines(11))
    assert few == more
    assert 0 < few["lines"] <= 40


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


@pytest.mark.slow
def test_equal_blocks_cost_as_many_derivations_as_one(counted):
    def lines(count):
        model = nn.Sequential(*(Block() for _ in range(count))).double()
        x = torch.randn(3, 6, dtype=torch.float64)
        return lambda: capture(lambda x: model(x).sum(), x).backward()

    assert counted(lines(2)) == counted(lines(5))


def layers(count, equal):
    names = ["w" if equal else f"w{k}" for k in range(1, count + 1)]
    tensors = ["x", *(f"h{k}" for k in range(1, count + 1))]
    lines = [f"{h} = relu({x} @ {w})" for x, h, w in zip(tensors, tensors[1:], names, strict=False)]
    return "; ".join([*lines, tensors[-1]])


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("equal", [True, False], ids=["one matrix", "a matrix each"])
def test_the_text_of_twice_as_many_layers_is_twice_the_work(equal, counted, monkeypatch):
    """Pulls through a step are counted, in one piece or by name; a sweep for each input would be their square."""
    pulls: Counter[str] = Counter()
    for name in ("formula_pull", "named_pull"):
        own = getattr(reverse_sweep, name)
        monkeypatch.setattr(reverse_sweep, name, lambda *args, name=name, own=own: pulls.update([name]) or own(*args))
    found = {}
    for count in (30, 60):
        pulls.clear()
        derived = counted(lambda count=count: symgrad.explain(layers(count, equal), check=False))
        found[count] = pulls["formula_pull"], pulls["named_pull"], derived["derivatives"]
    (put, named, derived), (more_put, more_named, more_derived) = found[30], found[60]
    assert (put, derived) == (more_put, more_derived)
    assert 1.5 * named < more_named <= 2.2 * named
    assert put < 64


# --- positions ----------------------------------------------------------------------------------------------

READS = [
    "x[{}] * 2",
    "tanh(x[{}:{} + 2])",
    "x[:, {}] ** 2",
    "select(x, 0, {})",
    "narrow(x, 0, {}, 2) ** 3",
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("text", READS)
@pytest.mark.parametrize("end", ["front", "back"])
def test_a_line_that_was_made_at_one_position_is_right_at_others(text, end, counted):
    if end == "back" and ("narrow" in text or ":{}" in text):
        pytest.skip("counted from the front alone")
    places = [1, 0, 2] if end == "front" else [-2, -1, -3]

    def first():
        written(text, places[0])

    counted(first)
    known = line_templates.derive_template.cache_info().misses
    for place in places[1:]:
        written(text, place)
    assert line_templates.derive_template.cache_info().misses == known


def written(text, place):
    own = text.format(place, place) if "{} +" not in text else text.replace("{}:{} + 2", f"{place}:{place + 2}")
    found = symgrad.explain(own, shapes={"x": (4, 4)}, check=True)
    assert found.passed
    (line,) = found.backward.gradients.values()
    assert line.code is not None
    assert not {node.id for node in ast.walk(ast.parse(line.code)) if isinstance(node, ast.Name)} & {"p0", "p1"}
    program = capture(lambda x: torch.tanh(x[place]) * x[place], torch.rand(5, 2, dtype=torch.float64))
    assert program.backward(torch.ones(2).numpy()).whole


def test_only_the_derivatives_that_are_read_are_put_in_the_words_of_a_program(monkeypatch) -> None:
    symgrad.jacobian("x1 @ a", "x1", shapes={"x1": (5, 7), "a": (7, 6)}, check=False)  # what is derived once is there
    made: list[object] = []
    own = local.MadeWhenRead.__init__

    def counting(self, make, general):
        own(self, lambda d: (made.append(d), make(d))[1], general)

    monkeypatch.setattr(local.MadeWhenRead, "__init__", counting)
    assert symgrad.jacobian("x2 @ a", "x2", shapes={"x2": (5, 7), "a": (7, 6)}, check=False).formula
    assert len(made) == 1


def derivations(counted, program: Capture) -> int:
    """How many lines are derived for a program when nothing is known."""
    return counted(lambda: program.backward(np.ones(np.shape(program.results[0]))))["lines"]


def test_equal_layers_are_derived_once(counted) -> None:
    few, many = derivations(counted, chain(3)), derivations(counted, chain(12))
    assert few == many > 0


@pytest.mark.slow
def test_equal_blocks_are_derived_once(counted) -> None:
    block = nn.TransformerEncoderLayer(4, 1, 6, dropout=0.0, batch_first=True).double().eval()
    x = torch.randn(1, 2, 4, dtype=torch.float64)
    with torch.no_grad():
        two, four = (symgrad.capture(nn.Sequential(*[block] * n), x) for n in (2, 4))
    assert derivations(counted, two) == derivations(
        counted, four
    )  # the first block differs from the others: it begins with the input


def unrolled(count: int, join: Callable[..., torch.Tensor], dim: int) -> Capture:
    """So many equal steps, and their results joined."""
    x = torch.tensor([[0.5, 1.0, -2.0], [1.5, -1.0, 0.25]], dtype=torch.float64)
    parts = torch.linspace(0, 1, count, dtype=torch.float64).unbind()
    return symgrad.capture(lambda x: join([(x * part).tanh() for part in parts], dim).square(), x)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("join", "dim", "part"),
    [
        (torch.cat, 1, "v_t25[:, 30:33]"), (torch.cat, 0, "v_t25[20:22]"),
        (torch.stack, 0, "v_t25[10]"), (torch.stack, 2, "v_t25[:, :, 10]"),
    ],
)  # fmt: skip
def test_what_is_joined_is_derived_once_whatever_the_number(join, dim, part, counted) -> None:
    assert derivations(counted, unrolled(12, join, dim)) == derivations(counted, unrolled(16, join, dim))
    program = unrolled(12, join, dim)
    seed = np.random.default_rng(1).integers(-3, 4, size=np.shape(program.results[0]))
    lines = program.backward(seed)
    assert part in repr(lines), repr(lines)
    inputs = {line: program.arrays[t.name] for line, t in zip(lines.inputs, program.recording.inputs, strict=True)}
    assert_same(program.pullback(seed)["x"], run_lines(lines, inputs, seed)["x"], what="x")


def test_a_wrong_line_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    line_templates.derive_template.cache_clear()
    template_cache.TEMPLATES.clear()
    honest = line_templates.find_closed_form

    def lies(*args: Any) -> Any:
        form = honest(*args)
        return None if form is None else replace(form, code=read_form(f"2 * ({form.code.text})"))

    monkeypatch.setattr(line_templates, "find_closed_form", lies)
    monkeypatch.setattr(line_templates, "write_array_line", lambda *_: None)
    lines = symgrad.explain("tanh(x @ w)", shapes={"x": (2, 3), "w": (3, 4)}, check=False).backward
    assert [line.code for line in lines.statements] == [None] * len(lines.statements)
    with pytest.raises(UnsupportedError, match="cannot be written as code"):
        lines.code()
    line_templates.derive_template.cache_clear()
    template_cache.TEMPLATES.clear()


def test_a_line_that_is_known_is_asked_again_where_it_may_not_be_defined() -> None:
    """Eigenvectors of equal eigenvalues have no derivative: what was proven at others says nothing there."""
    alone = [str(line) for line in symgrad.explain("eigvalsh(x)", x=[[2, 0], [0, 2]]).backward.statements]
    assert "eigh" in str(symgrad.explain("eigvalsh(x)", x=[[2.0, 1], [1, 3]]).backward)
    after = [str(line) for line in symgrad.explain("eigvalsh(x)", x=[[2, 0], [0, 2]]).backward.statements]
    assert after == alone
