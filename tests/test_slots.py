"""What a line that is kept leaves open: positions have slots, and what may be undefined is evaluated again."""

from __future__ import annotations

from dataclasses import replace

import symgrad
from symgrad.backward import line_templates, template_cache
from symgrad.backward.form_guards import is_always_finite
from symgrad.language.trees import fill_slots, read_form
from symgrad.shapes import SlotSymbol


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
