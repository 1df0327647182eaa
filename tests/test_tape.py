"""Equations that are evaluated again: played from the tape they give the same numbers, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.calculus import local_pullback, positions, standard
from symgrad.calculus.local import SEED
from symgrad.lowering.reading import number
from symgrad.numeric.evaluator import in_floats
from symgrad.numeric.exact import as_float
from symgrad.numeric.tape import Tape, Tapes, Traced, called, taped
from tests.cases import cases

FIRST = {case.op.name: case for case in reversed(cases())}


def local_evaluations(case):
    """The pullbacks of a case's steps: the evaluation, and arrays for two different points."""
    program, values = case.program, case.values
    draw = np.random.default_rng(case.seed)
    for step in program.steps:
        form = standard(step, program)
        sizes = {own: number(size, program.sizes) for own, size in form.sizes.items()}
        names = frozenset(t.name for t in program.tensors())
        for place in positions(step, names):
            seed = draw.standard_normal(np.shape(values[step.result.name]))
            arrays = {own: values[n] for own, n in form.names.items() if n in values.arrays} | {SEED: seed}
            arrays = {
                n: a if np.issubdtype(np.asarray(a).dtype, np.integer) else as_float(a) for n, a in arrays.items()
            }
            others = {n: a if np.issubdtype(a.dtype, np.integer) else a * (1 + 1e-3) for n, a in arrays.items()}
            equation = local_pullback(form.key, place)
            yield (lambda given, e=equation, s=sizes: in_floats(e, s, given)), arrays, others


@pytest.mark.one_in(15)
@pytest.mark.parametrize("case", FIRST.values(), ids=FIRST)
def test_every_pullback_played_from_its_tape_is_the_same_to_the_last_bit(case):
    with np.errstate(all="ignore"):
        for evaluation, arrays, others in local_evaluations(case):
            first, tape = taped(evaluation, arrays)
            np.testing.assert_array_equal(first, evaluation(arrays))
            assert tape is not None or not first.any(), "only a constant has no tape"
            for given in (arrays, others) if tape is not None else ():
                played = tape.play(given)
                if played is not None:  # another answer to a question, which is right, too
                    np.testing.assert_array_equal(played, evaluation(given))
                    assert played.dtype == np.float64


def test_a_question_that_is_answered_differently_is_evaluated():
    def evaluation(arrays):
        x = arrays["x"]
        return x * 2 if np.isfinite(x).all() else called(np.negative, x)

    first, tape = taped(evaluation, {"x": np.ones(2)})
    np.testing.assert_array_equal(first, [2, 2])
    assert tape is not None
    assert tape.play({"x": np.array([1, np.inf])}) is None
    tapes = Tapes()
    for x in (1.0, 1.0, 3.0, np.inf, 4.0):
        expected = evaluation({"x": np.array([x])})
        np.testing.assert_array_equal(tapes.result("key", evaluation, {"x": np.array([x])}), expected)


def test_what_a_tape_cannot_follow_leaves_none():
    array = {"x": np.arange(3.0)}
    assert taped(lambda given: np.asarray(given["x"]) * 2, array)[1] is None
    assert taped(lambda given: float(given["x"][0]) * given["x"], array)[1] is None
    assert taped(lambda given: sum(given["x"]), array)[1] is None
    assert taped(lambda given: given["x"].cumsum(), array)[1] is None
    np.testing.assert_array_equal(taped(lambda given: np.asarray(given["x"]) * 2, array)[0], [0, 2, 4])


def test_only_the_latest_tapes_are_kept():
    tapes = Tapes(most=2)
    for key in "abcab":
        tapes.result(key, lambda arrays: arrays["x"] + 1, {"x": np.ones(1)})
    assert list(tapes.known) == ["a", "b"]
    assert isinstance(Traced(Tape(()), 0, np.ones(2)).shape, tuple)
