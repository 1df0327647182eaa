"""Entries that are their equations: what follows from a text, and that it follows when it is used and not before."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch

import symgrad
from symgrad import InputError, ShapeError
from symgrad.entries import equations as mechanism
from symgrad.entries.along import EquationAlongAxes, LossReading
from symgrad.entries.derived_facts import equation_text
from symgrad.entries.equations import has_edges, with_indices
from symgrad.entries.indexed import EquationOnAxes, IndexedEquation
from symgrad.entries.readings import AxisView, PointwiseEquation, condition_holds, drop_absent_operands
from symgrad.entries.signatures import call_of, example_of
from symgrad.entries.spec import Data, HeldTensor, Op, View
from symgrad.functions import ALSO
from symgrad.indexing import fresh_axes
from symgrad.indexing.equation import canonical
from symgrad.language import read_program
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.read_write import read_statement
from symgrad.notation.tree import Dots, Name
from symgrad.numeric import forward
from symgrad.numeric.forward_pass import options_of
from symgrad.ops import TABLE, equation_functions, operations
from symgrad.ops.decompositions import Solves, equation_as_difference
from symgrad.ops.losses import EPS
from tests import on_arrays
from tests.cases import Case, cases
from tests.compare import assert_same

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "add-an-operation.md"


def reading(op: Op) -> object:
    """What an entry's equation is read as; None for a function."""
    return getattr(op.index, "__self__", None)


SAID = [
    op
    for op in operations()
    if isinstance(reading(op), (PointwiseEquation, EquationAlongAxes, LossReading, IndexedEquation, EquationOnAxes))
    and equation_text(op)
]


def test_no_entry_becomes_a_function_again() -> None:
    """The number may only grow."""
    assert len(SAID) >= 289


def test_most_entries_are_short_and_none_is_long() -> None:
    """A function with its decorator, or a row: what is more belongs to a helper with a name and a sentence."""
    files = sorted(Path(symgrad.ops.__file__).parent.rglob("*.py"))
    lengths = [found for file in files for found in lengths_of(ast.parse(file.read_text("utf-8")))]
    assert sum(times for _, _, times in lengths) > 280, "the entries are not found"
    assert {name: count for name, count, _ in lengths if count > 20} == {}
    assert sum(times for _, count, times in lengths if count <= 5) >= 238, "the number may only grow"


def lengths_of(module: ast.Module) -> list[tuple[str, int, int]]:
    """The entries of a file: over how many lines each is written, and for how many a row in a loop stands."""
    found = list[tuple[str, int, int]]()
    for node in module.body:
        rows = node.body if isinstance(node, ast.For) else [node]
        times = len(node.iter.elts) if isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple) else 1
        for row in rows:
            call = row.value if isinstance(row, (ast.Expr, ast.Assign)) else None
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Name)
                and call.func.id in ("op", "loss", "complex_entry", "solved_op")
            ):
                found.append((ast.unparse(call)[:40], call.end_lineno - call.lineno + 1, times))  # type: ignore[operator]  # read from text
    return found


def test_the_lengths_of_entries_are_seen() -> None:
    text = 'for name in ("a", "b"):\n    op(name,\n       "")\nx = op("c")\nprint("d")'
    assert [found[1:] for found in lengths_of(ast.parse(text))] == [(2, 2), (1, 1)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", SAID, ids=lambda op: op.name)
def test_what_the_page_calls_its_equation_is_what_defines_it(op: Op) -> None:
    found = reading(op)
    text = found.entry.text if isinstance(found, LossReading) else found.text  # type: ignore[attr-defined]  # one of SAID
    assert read_statement(text).name == "out"
    if isinstance(op.saved.residual, Solves):  # what is 0 at the result; the text is a step towards it
        assert all(
            read_statement(equation_as_difference(equation)).name == "F" for equation in op.definition.split("; ")
        )
        return
    assert op.definition.startswith(text)


def unexplained(op: Op) -> set[str]:
    """Tensors that an entry reads or speaks of, and that are neither operands nor the result nor said to be anything."""
    said = {*re.findall(r"(?:where|,) (\w+)(?:\[[^]]*\])? = ", op.definition), *re.findall(r", (\w+): ", op.definition)}
    said |= {"out", *op.operands, *re.findall(r"(\w+)\[\w+\] = ", op.definition)}
    said |= {"x", "y", "x0", "x1"} if op.variadic else set()
    return {*re.findall(r"(?<!\w)(\w+)\[", f"{op.definition} {op.summary}")} - said


def test_an_entry_explains_every_tensor_that_it_reads() -> None:
    assert {op.name: unexplained(op) for op in operations() if unexplained(op)} == {}


TOLD_ONCE = {"dim", "keepdim", "reduction"}
"""Options that the key of the table explains."""


def unmentioned(op: Op) -> set[str]:
    """Options of a row that change something, and that neither an equation nor the sentence names."""
    call: Any = getattr(getattr(reading(op), "entry", reading(op)), "call", None)
    told = " ".join((op.definition, op.summary, *op.variants, *op.variants.values()))
    return {name for name in call.usual if not re.search(rf"(?<![A-Za-z_]){name}(?![A-Za-z_])", told)} - TOLD_ONCE


def test_an_entry_explains_every_option() -> None:
    assert {op.name: unmentioned(op) for op in SAID if unmentioned(op)} == {}


def test_what_cat_says_of_two_tensors_is_an_equation_that_joins_them() -> None:
    """Its entry is a function of any number of them."""
    cat, given = TABLE["cat"], {"x": np.array([1.0, 2.0]), "y": np.array([3.0, 4.0, 5.0])}
    for text in (cat.definition, "cat([x, y])"):
        found = symgrad.explain(text, seed=[1, 2, 3, 4, 5], **given)
        assert found.passed
        assert_same(np.arange(1.0, 6), found.output, what=text)
        assert [found.gradients[name].closed_form for name in given] == ["v[:x.shape[0]]", "v[x.shape[0]:]"]


def test_an_entry_calls_a_number_in_words_what_its_equation_calls_it() -> None:
    """``alpha`` in one and α in the other would be two numbers."""
    greek = {op.name: {*re.findall("[α-ω]", op.summary)} - {*op.definition, *"σπδ"} for op in operations()}
    assert {name: letters for name, letters in greek.items() if letters} == {}


WRITERS = [op for op in SAID if callable(getattr(reading(op), "variants", None))]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", WRITERS, ids=lambda op: op.name)
def test_the_row_of_an_entry_that_writes_its_equation_is_that_of_an_example(op: Op) -> None:
    """The options standing in it by their names."""
    found: Any = reading(op)
    row, alike = dataclasses.replace(found, variants={}), []
    for case in (case for case in cases() if case.op.name == op.name):
        shapes = {t.name: t.shape for t in (*case.program.inputs, *(s.result for s in case.program.steps))}
        views = [
            View(n, shapes[str(a)])
            for n, a in zip(found.call.names(case.last.arguments), case.last.arguments, strict=False)
        ]
        at, options = fresh_axes(case.last.result.shape), dict(case.last.options)
        held = {name: HeldTensor(name, case.last.result.shape) for name in op.saved.names}
        slots = row.tree(views, options).slots
        own = sum(not isinstance(slot, Dots) for slot in slots)
        if len(at) == own or (len(at) > own and (own < len(slots) or not isinstance(found, IndexedEquation))):
            with suppress(KeyError):  # an option of the row's that this example does not have
                left, right = (canonical(way.index(at, views, held, options)) for way in (found, row))
                alike.append(sp.expand(left - right) == 0)
        if any(alike):
            return
    raise AssertionError(f"the equation of the row is not that of an example: {alike}")


POINTWISE = [case for case in cases() if isinstance(reading(case.op), PointwiseEquation) and not case.op.saved.names]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", POINTWISE, ids=lambda case: case.name)
def test_the_forward_pass_is_the_text_read_on_arrays(case: Case) -> None:
    """The lowering computes an entry, or NumPy's function for its digits; a reading of its own is the other witness."""
    step, found = next(s for s in case.program.steps if s.op == case.op.name), reading(case.op)
    assert isinstance(found, PointwiseEquation)
    given = [case.values[a] if isinstance(a, str) else a.value for a in step.arguments]
    arrays = [None if a is None else np.asarray(a, float) for a in given]
    with np.errstate(all="ignore"):
        expected = on_arrays.forward(found, *arrays, **options_of(step, case.program.sizes))
    assert_same(expected, case.values[step.result.name], what=case.name)


@pytest.mark.slow
def test_no_text_is_read_until_an_entry_is_used() -> None:
    code = "import symgrad.ops; len(symgrad.ops.TABLE); from symgrad.entries.readings import parse_entry_equation; print(parse_entry_equation.cache_info().currsize)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "0"


def test_a_call_says_which_parameters_are_tensors() -> None:
    call = call_of("f(x, target: data, bias=None, eps=1e-5, k: int = 2, p: any=None)")
    assert call.operands == ("x", "target", "bias")
    assert (call.optional, call.data) == ({"bias"}, {"target"})
    kinds = {name: p.annotation for name, p in call.signature.parameters.items()}
    assert (kinds["x"], kinds["target"], kinds["eps"], kinds["k"]) == (View, Data, float, int)
    assert example_of("f(x, b) with x:2x3 b:scalar", ("x", "b")).shapes == (("x", (2, 3)), ("b", ()))
    assert example_of("f(x)", ("x", "b")).shapes == (("x", (2, 3)),)


@pytest.mark.parametrize("shape", ["b", "b:", "b:2×3", "b:2x", "b:(2,3)"])
def test_a_shape_of_an_example_that_cannot_be_read_is_told_how_it_is_written(shape: str) -> None:
    with pytest.raises(InputError, match="an example gives operands shapes") as refused:
        example_of(f"f(x, b) with x:2x3 {shape}", ("x", "b"))
    assert "z:scalar" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [("out = x·y", "the equation reads y, and its call has x"), ("out[i] = y[i]", "the equation reads y, and its call has x"),
     ("out[i] = y⟨i⟩", "the equation reads y"), ("out = x·size(y, 0)", "the equation reads y"),
     ("out = sqroot(x)", "no function sqroot in equations: sqrt?"), ("out = Piecewise(x)", "no function Piecewise in equations")],
)  # fmt: skip
def test_a_name_that_an_entry_does_not_have_is_told_with_those_that_it_has(text: str, told: str) -> None:
    """Whoever writes a row of the table meets this first."""
    index = sp.Symbol("i", integer=True)
    meaning = EquationMeaning({"x": AxisView(View("x", ()), (), ())}, {"i": index}, {}, equation_functions())
    with pytest.raises(KeyError, match=re.escape(told)):
        meaning.of(read_statement(text).right)


def test_what_is_left_out_falls_away() -> None:
    text = "out = weight·x + bias − x"
    assert drop_absent_operands(text, frozenset({"bias"})) == read_statement("out = weight·x − x")
    assert drop_absent_operands(text, frozenset({"weight"})) == read_statement("out = x + bias − x")
    assert drop_absent_operands("out = −bias + x", frozenset({"bias"})).right == Name("x")


def test_conditions_on_options() -> None:
    assert condition_holds("not eps=None", {"eps": 0.1})
    assert not condition_holds("not eps=None", {"eps": None})
    assert condition_holds("full and not log_input", {"full": True, "log_input": False})
    assert not condition_holds("approximate=tanh", {"approximate": "none"})
    assert condition_holds("rank(y)=rank(x)", {"rank(x)": 2, "rank(y)": 2})
    assert not condition_holds("rank(y)=rank(x)", {"rank(x)": 2, "rank(y)": 1})


@pytest.mark.parametrize(
    ("text", "edge"),
    [("out = x·[x > 0]", True), ("out = |x|", True), ("out = tanh(x)", False), ("out = floor(x)", True),
     ("out[i] = Σ_j [j ≤ i]·x[j]", False), ("out[i] = Σ_j [x[j] ≤ x[i]]·x[j]", True), ("out = relu(x)", True),
     ("out[c] = Σ_j [c − ⌊k/2⌋ ≤ j]·x[j]", False), ("out = Σ_j x[j]·[j < size(x, -1) − 1]", False)],
)  # fmt: skip
def test_corners_are_seen_in_the_letters_of_a_text(text: str, edge: bool) -> None:
    assert has_edges(text, call_of("f(x, k=1)")) is edge


def test_what_says_nothing_else_is_told_by_its_right_hand_side() -> None:
    assert with_indices("out = x / (1 + |x|)", ("x",)) == "x[i] / (1 + |x[i]|)"
    assert with_indices("out = exp(x)² + x²", ("x",)) == "exp(x[i])² + x[i]²"


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "elu", "hardtanh", "softshrink", "threshold"])
def test_a_condition_is_a_choice(name: str) -> None:
    """Where it fails, what is infinite there counts for nothing; what cannot be compared is no number, as in torch."""
    op, points = TABLE[name], np.array([-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan])
    options = {**op.defaults, **({"threshold": 0.5, "value": 1.0} if name == "threshold" else {})}
    program = read_program(
        f"F.{name}({', '.join(['x', *map(str, options.values())])})", shapes={"x": points.shape}
    ).program
    with np.errstate(all="ignore"):
        found = forward(program, {"x": points})[program.output]
    expected = op.torch(torch, torch.tensor(points), **options).numpy()
    assert_same(expected, np.asarray(found, dtype=float), what=name)


def test_exact_numbers_stay_exact() -> None:
    found = symgrad.explain("F.leaky_relu(x, 0.25) * y", x=[1, -3], y=[2, 5], seed=[1, 1])
    assert found.gradients["y"].value.tolist() == [1, -0.75]


@pytest.mark.parametrize(
    ("text", "shapes", "said"),
    [("torch.mm(x, a)", {"x": (2, 3), "a": (3,)}, "2 axes here, not 1"), ("torch.mv(x, a)", {"x": (2, 3), "a": (4,)}, "3"),
     ("torch.tril(x)", {"x": (3,)}, "at least 2 axes here, not 1"), ("torch.trapezoid(y)", {"y": ()}, "at least 1 axis"),
     ("F.local_response_norm(x, 2)", {"x": (2, 3)}, "at least 3 axes, not 2")],
)  # fmt: skip
def test_the_letters_say_which_shapes_fit(text: str, shapes: dict[str, tuple[int, ...]], said: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(said)):
        symgrad.explain(text, shapes=shapes, check=False)


def test_the_entries_of_the_page_are_those_of_the_table() -> None:
    """The two that were added from it stand there as they stand in the table, the mechanism's own first three too."""
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    for name in ("cumulative_trapezoid", "vander"):
        said = TABLE[name].definition
        assert f'"{said}"'.replace('"', "") in page.replace('" "', "").replace('"', ""), name
    facts = ["reuse", "expands", "arrays", "result_dtype", "edges", "definition"]
    keywords = [p.name for p in inspect.signature(mechanism.op).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert [name for name in (*keywords, *facts) if not re.search(rf"`{name}[`=(]", page)] == []


def test_what_goes_along_an_axis_is_no_function_of_one_number() -> None:
    """``cumsum(x[i])`` in an equation means nothing; only entries by themselves are words."""
    words = set(equation_functions()) - set(ALSO)  # max is the larger of two there
    assert not [
        op.name
        for op in SAID
        if isinstance(reading(op), (EquationAlongAxes, LossReading, IndexedEquation)) and op.name in words
    ]
    assert {"gelu", "leaky_relu", "hypot"} <= set(equation_functions())


def test_what_keeps_the_angle_of_an_embedding_loss_from_0_by_0_is_torchs_number() -> None:
    """Single precision: 4e-9 less than 10⁻¹², which a gradient at 0 shows."""
    above, below = EPS.split("/2^")
    assert int(above) / 2 ** int(below) == np.float32(1e-12)


WRITTEN = """
import ast, sys
made = {}
def seen(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "register" and frame.f_code.co_filename.endswith("spec.py"):
        top = frame.f_back
        while top.f_code.co_name != "<module>":
            top = top.f_back
        made[frame.f_locals["op"].name] = (top.f_code.co_filename, top.f_lineno)
sys.setprofile(seen)
import symgrad.ops
list(symgrad.ops.TABLE)
sys.setprofile(None)
spans = {}
for file in {file for file, _ in made.values()}:
    with open(file, encoding="utf-8") as text:
        spans[file] = [(min([d.lineno for d in getattr(n, "decorator_list", ())] + [n.lineno]), n.end_lineno)
                       for n in ast.parse(text.read()).body]
lengths = {name: next(b - a + 1 for a, b in spans[file] if a <= line <= b) for name, (file, line) in made.items()}
print(len(lengths), sum(length <= 5 for length in lengths.values()))
"""
"""Which statement of a file of the table makes each entry, and over how many lines it goes."""


@pytest.mark.slow
def test_most_entries_are_written_in_five_lines() -> None:
    """The statement that makes an entry, be it alone or in a loop; the number may only grow."""
    told = subprocess.run(
        [sys.executable, "-c", WRITTEN], capture_output=True, text=True, check=True, cwd=PAGE.parents[2]
    )
    entries_there, short = map(int, told.stdout.split())
    assert entries_there == len(list(operations()))
    assert short >= 220
