"""What was derived, read or proven once is not done again: such work is counted here, not timed."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import sympy
from sympy.concrete.expr_with_limits import ExprWithLimits

import symgrad
from symgrad.backward import line_templates
from symgrad.entries import readings as vocabulary
from symgrad.language import expand as expansion_module
from symgrad.language import inference
from symgrad.oracles import forms


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


def test_a_text_that_was_read_is_not_parsed_again(monkeypatch) -> None:
    def ask():
        return symgrad.jacobian("x@b + 0", "x", shapes={"x": (2, 3), "b": (3, 4)}, check=False).formula

    found = ask()
    monkeypatch.setattr(inference, "parse_pasted_script", lambda *_: pytest.fail("again"))
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


@pytest.mark.parametrize("text", ["cumprod(x, 0)", "prod(x)", "cumsum(x, 0)", "softmax(x, 0)"])
def test_formulas_cost_the_same_at_every_size_that_is_given(text: str) -> None:
    """Small sizes are tried first: at the given ones a closed form would be held against a grid that does not fit."""
    (small,), (large,) = (symgrad.derive(text, shapes={"x": (n,)})[1] for n in (3, 10**5))
    assert small.form is not None
    assert large.form is not None
    assert large.form.text == small.form.text
    assert str(large.structure) == str(small.structure)


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


def test_sums_are_seldom_asked_for_their_free_symbols(monkeypatch):
    """SymPy renames all of a sum to answer, and does so whenever it is asked whether a term is a number."""
    asked: list[object] = []
    own = ExprWithLimits.free_symbols.fget
    monkeypatch.setattr(ExprWithLimits, "free_symbols", property(lambda node: asked.append(node) or own(node)))
    symgrad.explain("softmax(x @ w, dim=-1)").to_text()
    assert len(asked) <= 40


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
