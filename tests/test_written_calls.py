"""Calls that are written in entries: what a text means, and that a text that means nothing is no step."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest

import symgrad
from symgrad import SymgradError
from symgrad.ops import COMPOUNDS, TABLE
from symgrad.ops.calls.call_texts import define_call, last_step_of_text
from symgrad.ops.calls.registry import CALLED
from symgrad.ops.lookup import has_role
from symgrad.program import Role


class Shaped:
    """An operand of which only the shape is known."""

    shape = (2, 3)

    def __repr__(self) -> str:
        return "y"


def steps_of(text: str, **names: Any) -> tuple[list[str], Any]:
    """The steps that are applied, as text, and the last one."""
    applied = list[str]()

    def apply(entry: str, *operands: Any, **options: Any) -> str:
        applied.append(f"{entry}{operands}{options or ''}")
        return f"t{len(applied)}"

    return applied, last_step_of_text(text, apply, names)


def test_signs_calls_options_and_shapes() -> None:
    assert steps_of("-(x + 2) * y", x="x", y="y") == (["add('x', 2)", "neg('t1',)"], ("mul", ("t2", "y"), {}))
    assert steps_of("reshape(x, shape=y.shape)", x="x", y=Shaped()) == ([], ("reshape", ("x",), {"shape": (2, 3)}))
    assert steps_of("x @ y <= -3", x="x", y="y") == (["matmul('x', 'y')"], ("le", ("t1", -3), {}))
    assert steps_of("x", x="x") == ([], ("identity", ("x",), {}))


def test_what_is_left_out_falls_away() -> None:
    assert steps_of("x * w + b", x="x", w=None, b=None) == ([], ("identity", ("x",), {}))
    assert steps_of("exp(x) * w + b", x="x", w="w", b=None) == (
        ["exp('x',)", "mul('t1', 'w')"],
        ("identity", ("t2",), {}),
    )
    assert steps_of("linear(x, w, b)", x="x", w="w", b=None) == ([], ("linear", ("x", "w"), {}))
    assert steps_of("f(x, w, b, dims=(1, -1, n))", x="x", w=None, b="b", n=3)[1] == (
        "f",
        ("x", None, "b"),
        {"dims": (1, -1, 3)},
    )


def test_a_text_may_be_in_the_words_of_another() -> None:
    applied: Any = lambda entry, *operands, **options: f"{entry}({', '.join(map(str, operands))})"  # noqa: E731 a name for what is handed over
    steps = COMPOUNDS["torch.linalg.solve_triangular"].steps
    assert steps(applied, 0, "a", "b", upper=True) == ("solve", ("triu(a)", "b"), {"left": True})
    assert steps(applied, 0, "a", "b", upper=False) == ("solve", ("tril(a)", "b"), {"left": True})


def test_what_is_named_is_applied_once() -> None:
    assert steps_of("s = exp(x); s / (s + 1)", x="x") == (["exp('x',)", "add('t1', 1)"], ("div", ("t1", "t2"), {}))


@pytest.mark.parametrize(
    "text", ["x if y else x", "[x, y]", "x.T", "x[0]", "lambda: x", "x < y < x", "x and y", "+x", "f(x)(y)"]
)
def test_anything_else_is_no_step(text: str) -> None:
    with pytest.raises((SymgradError, AssertionError), match="symgrad bug"):
        steps_of(text, x="x", y="y")


def test_a_call_that_is_written_is_one_like_the_others() -> None:
    define_call(
        "twice_less(x, y, *, by=1)",
        ("x + x - by", "y"),
        "2·x less a number; and y.",
        "torch.twice_less",
        fields=("a", "b"),
    )
    compound = COMPOUNDS.pop("torch.twice_less")
    del CALLED["twice_less"]
    assert compound.usage == "twice_less(x, y, *, by=1) → a, b"
    assert compound.says == "2·x less a number; and y."
    applied: Any = lambda entry, *operands: (entry, *operands)  # noqa: E731 a name for what is handed over
    assert compound.steps(applied, 0, "x", "y", by=3) == ("sub", (("add", "x", "x"), 3), {})
    assert compound.steps(applied, 1, "x", "y") == ("identity", ("y",), {})
    with pytest.raises(TypeError, match="missing a required argument"):
        compound.steps(applied, 0, "x")


OPTIONS = {
    "alpha": 2, "beta": 2, "training": False, "rounding_mode": "floor", "min": Shaped(), "max": Shaped(), "n": 3, "groups": 1, "nan": 1.0,
    "p": float("inf"), "ord": float("inf"), "upper": True, "pad": (-1, 1), "mode": "reflect", "unitriangular": True, "sections": 1,
    "indices_or_sections": 1, "index": 0, "diagonal": 1,
}  # fmt: skip
"""Options under which a call is not the table's own entry, and those that it has to be given."""
BY_SHAPES = ("gaussian_nll_loss", "solve", "corrcoef", "dsplit", "select_scatter", "diagonal_scatter", "cross_entropy")
"""Calls that are the table's own, or refused, but for some shapes."""


def test_the_entries_that_a_text_applies_are_in_the_table() -> None:
    """Each written call is run over operands that are only names."""
    seen = set[str]()
    written = [c for c in CALLED.values() if c.steps.__module__.endswith(".call_texts")]
    assert len(written) >= 50

    class Apply:
        number = whole = staticmethod(int)

        def __call__(self, entry: str, *operands: Any, **options: Any) -> Shaped:
            seen.add(entry)
            return Shaped()

    for compound in written:
        given = compound.signature.parameters.values()
        arguments = {p.name: OPTIONS.get(p.name, Shaped()) for p in given if p.default is p.empty}
        arguments |= {"dim": 1} if "dim" in arguments else {}
        others = [{p.name: OPTIONS[p.name]} for p in given if p.name in OPTIONS and p.default is not p.empty]
        lasts = []
        for other, part in itertools.product([{}, *others], range(max(len(compound.fields), 1))):
            with contextlib.suppress(SymgradError):  # a part that has no derivative, an option that it cannot be
                lasts.append(compound.steps(Apply(), part, **{**arguments, **other}))
        assert any(lasts) or compound.name in BY_SHAPES, compound.usage
        seen |= {last[0] for last in lasts if last is not None}
    assert seen <= {*TABLE}


@pytest.mark.parametrize(
    "text", ["clamp(x, a, b)", "y = x.clamp_min(a); y * y", "nan_to_num(x, 1)", "softmin(x, 0) * x"]
)
def test_a_call_of_several_steps_has_no_step_that_hands_on(text: str) -> None:
    """The last of them has the name of the whole: a page does not say ``out[i] = out[i]``."""
    program, _ = symgrad.derive(text)
    assert not [step for step in program.steps if has_role(step.op, Role.HANDS_ON)]
