"""What is built alike is derived once: derivations are counted here, not timed."""

from __future__ import annotations

import ast
import importlib
import random
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import opt_einsum
import pytest
import sympy
import torch
from sympy.concrete.expr_with_limits import ExprWithLimits
from torch import nn

import symgrad
from symgrad.backward import line_templates, standard_groups, template_cache
from symgrad.backward.form_guards import is_always_finite
from symgrad.backward.groups import make_groups
from symgrad.backward.page_names import PageNames
from symgrad.calculus import reverse_sweep
from symgrad.entries import readings as vocabulary
from symgrad.language.input_names import UsedNames
from symgrad.language.trees import fill_slots, read_form
from symgrad.numeric import playing, symbols_and_digits, vector_products
from symgrad.oracles.numerical import check_differences
from symgrad.program import Program
from symgrad.shapes import SlotSymbol
from symgrad.tracing import capture, run_script
from symgrad.tracing.captured import step_text
from symgrad.tracing.lift import values
from symgrad.tracing.record import frame_names
from symgrad.tracing.story.folding import list_folded_program
from tests.compare import assert_same
from tests.lines_of import run_lines

formulas = importlib.import_module("symgrad.explanation.formulas")
forms = importlib.import_module("symgrad.oracles.forms")
local = importlib.import_module("symgrad.calculus.local_derivatives")
expansion_module = importlib.import_module("symgrad.language.expand")
forwards = importlib.import_module("symgrad.numeric.forward_pass")
program_of_run = importlib.import_module("symgrad.tracing.captured.step_text")


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


@pytest.mark.slow
def test_the_lines_of_twice_as_long_a_chain_ask_for_twice_as_many_names(monkeypatch):
    asked: Counter[str] = Counter()
    own = PageNames.page
    monkeypatch.setattr(PageNames, "page", lambda self, name: asked.update(["page"]) or own(self, name))
    counts = []
    for layers_ in (20, 40, 80):
        asked.clear()
        weights = [torch.eye(3, dtype=torch.float64) for _ in range(layers_)]

        def run(x, weights=weights):
            for w in weights:
                x = torch.tanh(x @ w)
            return x.sum()

        capture(run, torch.ones(2, 3, dtype=torch.float64)).backward()
        counts.append(asked["page"])
    assert counts[2] - counts[1] <= 2.2 * (counts[1] - counts[0])


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


def test_a_line_that_holds_at_one_position_alone_is_not_taken_for_another(monkeypatch):
    """A form that forgets its slot is right at the first position, and refused because of the others."""
    template_cache.TEMPLATES.clear()
    own = line_templates.find_closed_form

    def forgetful(program, wanted, sweep_of):
        form = own(program, wanted, sweep_of)
        return form if form is None else replace(form, code=fill_slots(form.code, (("p0", 0),)))

    monkeypatch.setattr(line_templates, "find_closed_form", forgetful)
    line_templates.derive_template.cache_clear()
    found = symgrad.explain("tanh(x[0])", shapes={"x": (4,)}, check=False).backward
    assert found.gradients["x"].code is not None
    opened = [
        found
        for key, found in template_cache.TEMPLATES.items()
        if any(n.has(SlotSymbol) for n in key.origin.program.required)
    ]
    assert opened
    assert not any(found.notation for found in opened)
    line_templates.derive_template.cache_clear()
    template_cache.TEMPLATES.clear()


def test_numbers_in_slots():
    numbers = (("p0", 3), ("p1", 0))
    filled = {
        "pad(v, (p0, 9 - p0, p1, 4 - p1))": "pad(v, (3, 6, 0, 4))",
        "x[-1 * p0 - 1] + x[-p0 - 1, p1:p1 + 2]": "x[-4] + x[-4, 0:2]",
        "pad(v, (p0, x.shape[0] - p0 - 2)) * (a - 1)": "pad(v, (3, x.shape[0] - 5)) * (a - 1)",
        "n - p1 - m": "n - m",
    }
    assert {text: fill_slots(read_form(text), numbers).text for text in filled} == filled


def test_only_what_may_be_undefined_is_evaluated_again():
    assert is_always_finite(read_form("v @ a0.T * (a1 > 0) + (v * (1 - out ** 2)).sum(0)"))
    assert is_always_finite(read_form("2 * v * (out - a1) / 12"))
    for text in ("v / a0", "v * a0 ** -1", "v * a0 ** a1", "v * a0.log()", "v * sqrt(a0)", "solve(a0, v)", "v % a0"):
        assert not is_always_finite(read_form(text)), text


def test_a_group_is_the_same_at_other_sizes_and_positions():
    """`put_in` leaves no slot and no size behind."""
    program = symgrad.explain("tanh(x[1])", shapes={"x": (4, 3)}, check=False).program
    tensors = {t.name: t for t in program.tensors()}
    (group,) = make_groups(program, {program.output})
    form = standard_groups.standardise_group(group, tensors, None)
    assert list(form.slots.found.values()) == [1]
    fixed = form.at(dict.fromkeys(form.slots.found, 2))
    assert "2" in str(fixed.program.steps[0].options)
    assert "p0" not in str(fixed.program)


# --- once, and only what is reached -------------------------------------------------------------------------


def test_the_steps_that_are_told_are_chosen_once(monkeypatch) -> None:
    chosen = []
    told = step_text.listed_steps
    monkeypatch.setattr(program_of_run, "listed_steps", lambda *asked: chosen.append(asked) or told(*asked))

    program = capture(lambda x: x.sin().cos().exp().tanh().sum(), torch.ones(2, 2))
    assert len(list_folded_program(program)) == 5
    assert len(chosen) == 1


@pytest.mark.slow
def test_differences_compute_what_an_input_reaches(monkeypatch) -> None:
    """Each entry up and down, what it does not reach once; in a long program so many directions are enough."""
    computed: list[str] = []
    compute = forwards.compute
    monkeypatch.setattr(forwards, "compute", lambda step, *more: computed.append(step.op) or compute(step, *more))

    def checked(found, name, gradient):
        inputs = {given.name: given.value for given in found.inputs}
        del computed[:]
        return check_differences(found.program, inputs, found.seed, name, gradient)

    text = "a = tanh(x); b = tanh(a); c = tanh(b); sum(c * y)"
    found = symgrad.explain(text, x=[1.0, 2.0], y=[3.0, 4.0], check=False)
    assert checked(found, "y", found.gradients["y"].value).passed
    assert len(computed) == len(found.program.steps) + 2 * 2 * 2  # c * y and its sum

    long = "; ".join([*(f"h{n + 1} = tanh({f'h{n}' if n else 'x'} * w)" for n in range(20)), "sum(h20)"])
    deep = symgrad.explain(long, x=np.linspace(-1, 1, 220).tolist(), w=2.0, check=False)
    right, steps = deep.gradients["x"].value, len(deep.program.steps)
    check = checked(deep, "x", right)
    assert check.passed
    assert "16 random directions" in check.note
    assert len(computed) == steps + 2 * 16 * len(deep.program.reached(("x",)) - {"x"})
    wrong = np.array(right)
    wrong[7] += 1e-4
    check = checked(deep, "x", wrong)
    assert check.passed is False  # every entry is asked, so that the wrong one can be named
    assert check.worst == (7,)


@pytest.mark.slow
def test_entries_of_a_deep_text_are_not_written_out_to_see_how_long_they_are() -> None:
    """Ten layers, three wide: an entry in symbols would have 3¹⁰ terms."""
    layers = [f"h{n + 1} = tanh({f'h{n}' if n else 'x'} @ w)" for n in range(9)]
    numbers = {"x": np.eye(3)[:2], "w": np.eye(3) + 0.1}
    found = symgrad.explain("; ".join([*layers, "tanh(h9 @ w)"]), wrt=["x"], check=False, **numbers)
    matrix = found.gradients["x"].jacobian
    assert matrix.formula is not None
    text = found.to_text()
    assert f"{matrix.dense()[0, 0]:.3f}"[:5] in text


def test_ones_of_a_sparse_jacobian_are_not_laid_out_as_fractions() -> None:
    """13 million of them took 21 s."""
    for text in ("cumsum(x, 0)", "cumsum(x, 0).reshape(-1)"):
        matrix = symgrad.jacobian(text, "x", shapes={"x": (5, 4)})
        assert matrix.evidence.triplets.values.dtype == np.int64
        assert (matrix.sparse().toarray() == matrix.dense()).all()
    halves = symgrad.jacobian("cumsum(x, 0) / 2", "x", shapes={"x": (3,)}).dense()
    assert halves.tolist() == (np.tril(np.ones((3, 3))) / 2).tolist()


def test_what_an_equation_may_use_is_not_differentiated_to_be_listed(monkeypatch) -> None:
    """Whoever reads any equation lists the functions, and which of their arguments are numbers hardly anyone asks."""
    monkeypatch.setattr(sympy.Expr, "diff", lambda *_: pytest.fail("asked for a derivative"))
    vocabulary.equation_function.cache_clear()
    found = dict(vocabulary.equation_functions())
    monkeypatch.undo()
    assert found["polygamma"].numbers == {0}
    assert found["max"].numbers == found["tanh"].numbers == set()


def test_a_capture_makes_no_program_of_each_of_its_steps(monkeypatch) -> None:
    made: Counter[str] = Counter()
    own = Program.__post_init__
    monkeypatch.setattr(Program, "__post_init__", lambda self: made.update(["program"]) or own(self))

    def counts(depth):
        def run(x):
            for _ in range(depth):
                x = torch.tanh(x @ x)
            return x

        capture(run, torch.eye(3) / 2)
        made.clear()
        capture(run, torch.eye(3) / 2)
        return made["program"]

    assert counts(4) == counts(20)


def test_the_steps_of_an_equal_call_are_not_put_in_standard_terms_again(monkeypatch) -> None:
    """Nor is what its equation reads listed again: only the plan is played."""

    def run(x):
        for _ in range(5):
            x = torch.tanh(x @ x) + 1
        return x

    capture(run, torch.eye(3) / 2)
    monkeypatch.setattr(values, "standard_at", lambda *_: pytest.fail("asked again"))
    program = capture(run, torch.ones(3, 3) / 3)
    assert_same(run(torch.ones(3, 3) / 3), program.arrays[program.recording.output], tolerance=1e-6)


def test_a_capture_does_not_look_at_what_called_it(monkeypatch) -> None:
    """Forty frames of pytest or of a notebook around it cost nothing, and say nothing that differs."""

    def run(x):
        return torch.tanh(x @ x)

    def around(depth):
        return around(depth - 1) if depth else capture(run, torch.eye(3) / 2)

    def passed(depth):
        paths = [where.path for where in around(depth).lines.values()]
        assert paths
        return [[place for _, place in path] for path in paths]

    assert passed(0) == passed(30)


def test_a_text_that_was_read_is_not_parsed_again(monkeypatch) -> None:
    def ask():
        return symgrad.jacobian("x@b + 0", "x", shapes={"x": (2, 3), "b": (3, 4)}, check=False).formula

    found = ask()
    monkeypatch.setattr(
        importlib.import_module("symgrad.language.inference"), "parse_pasted_script", lambda *_: pytest.fail("again")
    )
    assert ask() == found


def test_what_is_explained_again_is_neither_derived_nor_proven_again(monkeypatch) -> None:
    def ask(numbers):
        return symgrad.explain("softmax(x * b, 0)", x=numbers, b=[2.0, 3.0, 5.0], seed=[1, 0, 0])

    first = ask([1.0, 2.0, 4.0])
    proofs: list[str] = []
    own = forms.FormQuestion.at
    monkeypatch.setattr(line_templates, "find_closed_form", lambda *_: pytest.fail("derived again"))
    monkeypatch.setattr(
        forms.FormQuestion, "at", lambda asked, *point: (proofs.append(asked.text), own(asked, *point))[1]
    )
    assert ask([1.0, 2.0, 4.0]).gradients["x"].closed_form == first.gradients["x"].closed_form
    assert proofs == []
    assert ask([1.0, 2.0, 3.0]).passed  # other numbers: the same form, proven at them
    assert proofs


def test_only_the_derivatives_that_are_read_are_put_in_the_words_of_a_program(monkeypatch) -> None:
    made: list[object] = []
    own = local.MadeWhenRead.__init__

    def counting(self, make, general):
        own(self, lambda d: (made.append(d), make(d))[1], general)

    monkeypatch.setattr(local.MadeWhenRead, "__init__", counting)
    assert symgrad.jacobian("x2 @ a", "x2", shapes={"x2": (5, 7), "a": (7, 6)}, check=False).formula
    assert len(made) == 1


def test_where_an_equation_reads_positions_is_looked_for_once(monkeypatch) -> None:
    positions_ = importlib.import_module("symgrad.numeric.playing")

    def ask(places):
        return symgrad.explain("F.embedding(i, w)", i=places, w=np.ones((5, 2)), check=False)

    ask([0, 4])
    monkeypatch.setattr(positions_, "indices_and_axes", lambda *_: pytest.fail("again"))
    ask([3, 1])
    with pytest.raises(symgrad.SymgradError, match="does not exist"):
        ask([3, 5])


@pytest.mark.parametrize("text", ["cumprod(x, 0)", "prod(x)", "cumsum(x, 0)", "softmax(x, 0)"])
def test_formulas_cost_the_same_at_every_size_that_is_given(text: str) -> None:
    """Small sizes are tried first: at the given ones a closed form would be held against a grid that does not fit."""
    (small,), (large,) = (symgrad.derive(text, shapes={"x": (n,)})[1] for n in (3, 10**5))
    assert small.form is not None
    assert large.form is not None
    assert large.form.text == small.form.text
    assert str(large.structure) == str(small.structure)


def test_a_name_of_a_loop_is_not_counted_from_the_beginning_at_every_turn() -> None:
    asked = Counter()

    class Watched(UsedNames):
        def __contains__(self, name):
            asked["in"] += 1
            return super().__contains__(name)

    names = Watched(["h"])
    for _ in range(300):
        names.add(names.first_free("h"))
    assert len(names) == 301
    assert asked["in"] <= 600


@pytest.mark.parametrize("seed", range(20))
def test_the_first_free_name_is_the_one_that_counting_finds(seed) -> None:
    draw = random.Random(seed)
    names, kept = UsedNames(), {"a_3", "b_2", "a_2_2"}
    stems = ["a", "b", "a_2", "b_1", "c_02", "_"]
    for _ in range(200):
        if draw.random() < 0.4 and names:
            names.free([draw.choice(sorted(names))])
            continue
        stem = draw.choice(stems)
        wishes = (stem, *(f"{stem}_{n}" for n in range(2, 300)))
        naive = next(w for n, w in enumerate(wishes) if w not in set(names) and not (n and w in kept))
        found = names.first_free(stem, kept)
        assert found == naive
        names.add(found)


def test_programs_without_axes_of_one_entry_are_not_compared(monkeypatch) -> None:
    """A hundred inputs each compared all the steps of an equal program from before."""
    program = symgrad.explain("x @ w", shapes={"x": (2, 3)}, check=False).program
    monkeypatch.setattr(expansion_module, "open_unit_axes_cached", lambda *_: pytest.fail("looked up"))
    assert expansion_module.open_unit_axes(program) is None


@pytest.mark.parametrize("text", ["x @ a", "tanh(x) * a"])
def test_entries_that_differ_in_their_symbols_alone_are_differentiated_once(text, monkeypatch):
    derived: Counter[str] = Counter()
    own = sympy.diff
    monkeypatch.setattr(sympy, "diff", lambda *asked: derived.update(["all"]) or own(*asked))
    for size in (2, 4):
        derived.clear()
        found = symgrad.explain(text, shapes={"x": (size, size), "a": (size, size)})
        assert all(check.passed for check in found.gradients["x"].checks if "SymPy" in check.oracle)
        assert 0 < derived["all"] <= 2 * size


def test_the_entries_of_a_matrix_are_written_out_together(monkeypatch):
    """A plan for each was most of the time that a page of a small J took."""
    asked: list[int] = []
    own = symbols_and_digits.of_objects
    monkeypatch.setattr(
        symbols_and_digits, "of_objects", lambda equations, *more: asked.append(len(equations)) or own(equations, *more)
    )
    calls = []
    for rows in (2, 3):
        del asked[:]
        symgrad.explain("tanh(x) * a", shapes={"x": (rows, 2), "a": (rows, 2)}, check=False).to_text()
        calls.append(len(asked))
    assert max(asked) == (3 * 2) ** 2
    assert calls[0] == calls[1]


def test_sums_are_seldom_asked_for_their_free_symbols(monkeypatch):
    """SymPy renames all of a sum to answer, and does so whenever it is asked whether a term is a number."""
    asked: list[object] = []
    own = ExprWithLimits.free_symbols.fget
    monkeypatch.setattr(ExprWithLimits, "free_symbols", property(lambda node: asked.append(node) or own(node)))
    symgrad.explain("softmax(x @ w, dim=-1)").to_text()
    assert len(asked) <= 40


def test_no_order_is_searched_for_a_product_of_two(monkeypatch):
    searched: list[object] = []
    own = opt_einsum.contract_path
    monkeypatch.setattr(opt_einsum, "contract_path", lambda *a, **how: searched.append(a) or own(*a, **how))
    for text, asked in (("x @ a", False), ("einsum('ij,jk,kl->il', x, a, b)", True)):
        del searched[:]
        playing.plan_for.cache_clear()
        assert symgrad.explain(text, check=False).gradients["x"].closed_form
        assert bool(searched) == asked, text


KEPT_LONGER = {
    "symgrad/calculus": 4096, "symgrad/backward/line_templates.py": 4096, "symgrad/tracing": 8192, "symgrad/render": 8192,
}  # fmt: skip
"""What is derived once for an operation, lines that are alike, what torch's functions are called, how letters look."""


def test_every_cache_lets_go() -> None:
    """Indices are fresh in every derivation, so that what is kept by them serves one call and would stay for ever."""
    package, sizes = Path(symgrad.__file__).parent, {}
    for path in package.rglob("*.py"):
        text, where = path.read_text(encoding="utf-8"), path.relative_to(package.parent).as_posix()
        for found in re.finditer(r"lru_cache\(maxsize=(\w+)\)", text):
            sizes[where, found.start()] = int(found[1]) if found[1].isdigit() else line_templates.REMEMBERED
    assert len(sizes) > 40
    for (where, at), size in sizes.items():
        assert size <= next((n for part, n in KEPT_LONGER.items() if where.startswith(part)), 2048), (where, at)


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", ["tanh(x)", "softmax(x, -1)", "sigmoid(x * x)"])
def test_many_axes_of_equal_sizes_are_not_tried_for_each_other(text: str) -> None:
    begin = time.process_time()
    found = symgrad.derive(text, shapes={"x": (2,) * 10})[1]
    assert time.process_time() - begin < 5
    assert found


def test_what_runs_a_script_is_not_in_its_sight(monkeypatch, tmp_path) -> None:
    """What click holds around a script was looked through, three deep, at every backward."""
    looked = set()
    collect = frame_names.collect_variable
    monkeypatch.setattr(frame_names, "collect_variable", lambda name, *rest: (looked.add(name), collect(name, *rest)))
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.ones(3, requires_grad=True)\n(x * x).sum().backward()")
    run_script(str(script), [])
    assert "x" in looked
    assert "tmp_path" not in looked


NET = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), {norm}torch.nn.Tanh(), torch.nn.Linear(4, 2))
net(torch.randn(5, 3)).pow(2).mean().backward()
"""


@pytest.mark.parametrize("norm", ["", "torch.nn.LayerNorm(4), "])
def test_a_call_that_is_told_is_swept_back_once(norm, monkeypatch, tmp_path) -> None:
    """The gradients that are compared with torch's and the cotangents of the lines are of one sweep to the leaves."""
    swept, own = [], vector_products.Pull.back
    monkeypatch.setattr(
        vector_products.Pull, "back", lambda self, *args, **told: swept.append(self) or own(self, *args, **told)
    )
    (tmp_path / "net.py").write_text(NET.format(norm=norm), encoding="utf-8")
    (event,) = run_script(str(tmp_path / "net.py"), []).calls
    assert all(leaf.agrees for leaf in event.leaves)
    assert all(line.value is not None for line in event.told.source.lines if line.shape is not None)
    assert sum(len(sweep.wanted) >= len(event.leaves) for sweep in swept) == 1
