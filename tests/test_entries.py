"""Entries that are their equations: what follows from a text, and that it follows when it is used and not before."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad import ShapeError
from symgrad.entries import equations as mechanism
from symgrad.ops import TABLE, operations
from symgrad.ops.losses import EPS
from tests.compare import assert_same
from tests.entry_readings import SAID, reading

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "add-an-operation.md"


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


def unexplained(op: Any) -> set[str]:
    """Tensors that an entry reads or speaks of, and that are neither operands nor the result nor said to be anything."""
    said = {*re.findall(r"(?:where|,) (\w+)(?:\[[^]]*\])? = ", op.definition), *re.findall(r", (\w+): ", op.definition)}
    said |= {"out", *op.operands, *re.findall(r"(\w+)\[\w+\] = ", op.definition)}
    said |= {"x", "y", "x0", "x1"} if op.variadic else set()
    return {*re.findall(r"(?<!\w)(\w+)\[", f"{op.definition} {op.summary}")} - said


def test_an_entry_explains_every_tensor_that_it_reads() -> None:
    assert {op.name: unexplained(op) for op in operations() if unexplained(op)} == {}


TOLD_ONCE = {"dim", "keepdim", "reduction"}
"""Options that the key of the table explains."""


def unmentioned(op: Any) -> set[str]:
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


@pytest.mark.slow
def test_no_text_is_read_until_an_entry_is_used() -> None:
    code = "import symgrad.ops; len(symgrad.ops.TABLE); from symgrad.entries.readings import parse_entry_equation; print(parse_entry_equation.cache_info().currsize)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "0"


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
