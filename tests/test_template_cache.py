"""By what the lines of a group are kept: a text for each question, or none."""

from __future__ import annotations

import pytest

from symgrad.backward import template_cache
from symgrad.program import Constant


@pytest.mark.parametrize(("one", "other"), [(2, 2.0), (1, True), (0.0, -0.0), ((1, 2), (12,)), ("1", 1)])
def test_what_python_calls_equal_or_writes_alike_are_two_questions(one, other):
    def spelled(value):
        constant = value if isinstance(value, (tuple, str)) else Constant(value)
        return template_cache.spell_key(template_cache.TemplateKey(constant, "as_notation"))

    assert None not in (spelled(one), spelled(other))
    assert spelled(one) != spelled(other)


def test_what_has_no_text_of_its_own_is_no_key():
    assert template_cache.spell_key(template_cache.TemplateKey(object(), "as_notation")) is None
