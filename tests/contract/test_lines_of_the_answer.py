"""A page says each gradient in the line that its answer says."""

from __future__ import annotations

import re

import pytest

import symgrad

PAGES = (
    "F.layer_norm(x, (3,))",
    "F.layer_norm(x, (3,), weight, bias)",
    "F.batch_norm(x, None, None, training=True)",
    "F.rms_norm(x, (3,))",
    "F.scaled_dot_product_attention(x, K, V)",
    "F.relu(F.layer_norm(x, (3,)) @ W)",
)


@pytest.mark.one_in(3, alone=3)
@pytest.mark.parametrize("text", PAGES)
def test_each_gradient_has_the_line_of_the_answer(text: str) -> None:
    page = symgrad.explain(text, shapes={"x": (2, 3)}, check=False).to_text()
    answer, rest = page.split("1  Forward", 1)
    plain = " ".join(rest.split("4  vᵀJ", 1)[1].split())
    for line in re.findall(r"^    (\S+\.grad = .+(?:\n      (?!with ).+)*)", answer, re.M):
        assert " ".join(line.split()) in plain, line
