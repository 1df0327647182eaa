"""Lines that fit: no line is too long, no word is lost, and what is left out is counted."""

from __future__ import annotations

import re

import numpy as np
import pytest

from symgrad.render.wrapping import elide_lines, in_columns, wrap_lines


@pytest.mark.parametrize("seed", range(40))
def test_no_line_is_too_long_and_no_word_is_lost(seed):
    draw = np.random.default_rng(seed)
    signs = list("ab,.()[]·×+= \u1d40")
    text = "\n".join(" " * draw.integers(0, 30) + "".join(draw.choice(signs, draw.integers(0, 300))) for _ in range(5))
    width = int(draw.integers(20, 100))
    found = wrap_lines(text, width)
    assert max(map(len, found.split("\n"))) <= width
    assert re.sub(r"\s", "", found) == re.sub(r"\s", "", text)


@pytest.mark.parametrize("count", [1, 12, 14, 15, 40, 500])
@pytest.mark.parametrize("named", [0, 3, 30])
def test_the_middle_cut_counts_what_it_leaves_out(count, named):
    draw = np.random.default_rng(count + named)
    own = set(draw.choice(count, min(named, count), replace=False).tolist())
    lines = [f"{'h' if n in own else 't'}{n} = x * {n}" for n in range(count)]
    shown = elide_lines(lines, 12)
    left_out = sum(int(m[1]) for line in shown if (m := re.fullmatch(r"… (\d+) more …", line)))
    kept = [line for line in shown if "more" not in line]
    assert len(kept) + left_out == count
    assert kept == [line for line in lines if line in set(kept)]
    assert kept[0] == lines[0]
    assert kept[-1] == lines[-1]
    assert len(shown) <= 25
    if 0 < len(own) <= 4:
        assert own <= {int(re.match(r"[ht](\d+)", line)[1]) for line in kept}


def test_a_table_that_is_too_wide_has_two_lines_a_row():
    rows = [("", "J", "v", "change", ""), ("x", "2×2", "v * y" * 7, "none  [1 2]  [1 2]", "= torch")]
    assert max(map(len, in_columns(rows, 50, 3))) <= 50
    assert len(in_columns(rows, 50, 3)) == 3  # the head has one
    assert len(in_columns(rows, 200, 3)) == 2
