"""What is computed for the numbers of a page, counted: steps, plans, orders of contraction."""

from __future__ import annotations

import numpy as np
import opt_einsum
import pytest

import symgrad
from symgrad.numeric import forward_pass as forwards
from symgrad.numeric import playing, symbols_and_digits
from symgrad.oracles.numerical import check_differences


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


def test_where_an_equation_reads_positions_is_looked_for_once(monkeypatch) -> None:
    def ask(places):
        return symgrad.explain("F.embedding(i, w)", i=places, w=np.ones((5, 2)), check=False)

    ask([0, 4])
    monkeypatch.setattr(playing, "indices_and_axes", lambda *_: pytest.fail("again"))
    ask([3, 1])
    with pytest.raises(symgrad.SymgradError, match="does not exist"):
        ask([3, 5])


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


def test_no_order_is_searched_for_a_product_of_two(monkeypatch):
    searched: list[object] = []
    own = opt_einsum.contract_path
    monkeypatch.setattr(opt_einsum, "contract_path", lambda *a, **how: searched.append(a) or own(*a, **how))
    for text, asked in (("x @ a", False), ("einsum('ij,jk,kl->il', x, a, b)", True)):
        del searched[:]
        playing.plan_for.cache_clear()
        assert symgrad.explain(text, check=False).gradients["x"].closed_form
        assert bool(searched) == asked, text
