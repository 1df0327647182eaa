"""The closed form of every operation is its raw contraction, at any size, and its text reads back."""

from __future__ import annotations

import numpy as np

from symgrad.closed_form.source_code import SourceWriter
from symgrad.language.python_text import write_python
from symgrad.numeric import evaluate, forward
from symgrad.oracles.forms import evaluate_text
from tests import torch_side
from tests.cases import Case
from tests.compare import assert_same
from tests.sampling import draw_inputs
from tests.test_every_op import each, each_derived

SIZES = ({}, {2: 3, 3: 2}, {2: 4, 3: 5, 4: 3}, {2: 3, 3: 4, 4: 2}, {2: 2, 3: 3, 4: 5})
"""Other sizes for the examples: 2 becomes 3, and so on."""


@each_derived
def test_the_closed_form_is_the_raw_contraction_at_any_size(case: Case) -> None:
    """Where only the sizes change, what was derived for all of them is put in; else everything is derived anew."""
    forms = {d.name: d.form for d in case.derived if d.form is not None}
    tried = not forms  # the index formula is shown; tests/contract/golden/closed_forms.txt says of which
    for number, change in enumerate(SIZES):
        shapes = case.resized(change) if forms else None
        if shapes is None:
            continue
        tried = True
        other = case.at(shapes)
        program = other.program
        moved = case.derived if program == case.program else other.derived
        inputs = draw_inputs(case.op, shapes, case.seed + number)
        values = forward(program, inputs)
        out = np.asarray(values[program.output], dtype=float)
        generator = np.random.default_rng(case.seed + number)
        weights = generator.integers(-3, 4, size=out.shape)
        for derived in moved:
            if derived.name not in forms:
                continue
            form = forms[derived.name]
            raw = evaluate(derived.whole.equation, {**values.arrays, "v": weights}, program.sizes)
            known = {**inputs, "v": weights, "out": out}
            about = f"{form.text} by {derived.name} at {dict(shapes)}"
            assert_same(raw, evaluate_text(form.text, known), seed=case.seed, what=f"symgrad's reading of {about}")
            by_torch = torch_side.evaluate(form.text, torch_side.tensors(known, case.fixed))
            assert_same(raw, by_torch, seed=case.seed, what=f"torch's reading of {about}")
    assert tried


@each
def test_the_text_of_a_program_reads_back(case: Case) -> None:
    writer = SourceWriter(case.program)
    text = write_python(writer.step(case.last))
    again = evaluate_text(text, case.inputs)
    assert_same(case.output, again, seed=case.seed, what=f"{case.example.text} written as {text}")
