"""Blocks of lines that repeat: equal turns are told once, every line is counted, and a turn that differs is told."""

from __future__ import annotations

import re

import pytest

from symgrad.backward import Line
from symgrad.language.python_text import read_python
from symgrad.tracing.story.folding import fold_lines

BACK = [
    line
    for n in range(9, 0, -1)
    for line in (f"v_t{n} = v_t{n + 1} @ w{n} * (t{n} > 0)", f"w{n}.grad = v_t{n}.T @ t{n - 1}")
]
NAMES = {
    f"{a}{n}": f"{b}{n}{c}"
    for a, b, c in (*((a, a, "") for a in ("v_t", "t", "p", "g", "h")), ("w", "w.", ".k"))
    for n in range(11)
}
GIVEN = {f"w{n}" for n in range(11)}


def once(lines, last=False):
    """Lines of code as they are told: those that are, and what is said of the others."""
    parts = [line.partition(" = ") for line in lines]
    made = [Line(name, code, name.replace(".", "_"), read_python(code), name, None) for name, _, code in parts]
    told = fold_lines([(str(line), line) for line in made], {**NAMES, **{name: name for name in "abx"}}, GIVEN, last)
    return [text for text, line in told if line is not None], [text for text, line in told if line is None]


@pytest.mark.parametrize("last", [False, True])
def test_equal_turns_are_told_once_and_every_line_is_counted(last):
    shown, (head,) = once(["a = x", *BACK, "b = x"], last)
    steps, others = (int(number) for number in re.findall(r"\d+", head)[:2])
    assert (steps, others) == (2, 8)
    assert len(shown) + steps * others == len(BACK) + 2
    assert shown == ["a = x", *(BACK[-2:] if last else BACK[:2]), "b = x"]
    assert head.endswith(
        "with w.9, w.8, w.7, …, w.2 in place of w.1; then:" if last else "with w.8, w.7, w.6, …, w.1 in place of w.9"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v_t5 = v_t6 @", "v_t5 = v_t9 @"),  # reads another turn than the others do
        ("v_t5 = v_t6 @", "v_t5 = x @"),
        ("(t5 > 0)", "(t5 < 0)"),
        ("w5.grad = v_t5.T @ t4", "w5.grad = v_t5.T @ v_t5"),
    ],
)
def test_a_turn_that_differs_is_told(old, new):
    lines = [line.replace(old, new) for line in BACK]
    assert lines != BACK
    shown, _ = once(lines)
    assert next(line for line in lines if line not in BACK) in shown


SLICES = [f"v_t{n} = v_t{n + 1} * x[{4 * n}:{4 * n + 4}, :2] + 0.5" for n in range(9, 0, -1)]


@pytest.mark.parametrize("last", [False, True])
def test_numbers_that_go_on_by_the_same_step_are_told(last):
    shown, head = once(SLICES, last)
    assert shown == [SLICES[-1 if last else 0]]
    others = "x[36:40, :2], x[32:36, :2], x[28:32, :2], …, x[8:12, :2] in place of x[4:8, :2]; then:"
    assert head[0].endswith(
        others if last else "with x[32:36, :2], x[28:32, :2], x[24:28, :2], …, x[4:8, :2] in place of x[36:40, :2]"
    )


@pytest.mark.parametrize(("old", "new"), [("20:24", "20:25"), ("20:24", "20:23"), ("0.5", "1.5"), (":2", ":3")])
def test_numbers_that_jump_are_told(old, new):
    lines = [line.replace(old, new) if line.startswith("v_t5 ") else line for line in SLICES]
    shown, _ = once(lines)
    assert next(line for line in lines if line not in SLICES) in shown


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("12345", "4 times first, with p1, p2, p3, p4 in place of p5; then:"),
        ("54321", "4 times first, with p5, p4, p3, p2 in place of p1; then:"),
        ("13524", "2 times first, with p1, p3 in place of p5; then:"),
        ("11111", "4 times first; then:"),
        ("14253", ""),  # neither as far apart, nor the same
    ],
)
def test_what_is_read_in_turn_is_said_and_nothing_else(order, said):
    parts = [f"p{n} = x[{n}]" for n in range(1, 6)]
    turns = [line for n, of in enumerate(order, 1) for line in (f"g{n} = relu(h{n - 1}) + p{of}", f"h{n} = tanh(g{n})")]
    _, heads = once([*parts, *turns], last=True)
    assert [head for head in heads if "these 2 lines" in head] == ([f"… these 2 lines {said}"] if said else [])
