"""A page writes J of a normalisation in its output, and says each gradient in the line that its answer says."""

from __future__ import annotations

import re

import pytest

import symgrad

PAGES = {
    "F.layer_norm(x, (3,))": "out[i,j]·out[i,q]",
    "F.layer_norm(x, (3,), weight, bias)": "",
    "F.batch_norm(x, None, None, training=True)": "out[j,c]·out[p,c]",
    "F.rms_norm(x, (3,))": "out[i,j]·out[i,q]",
    "F.scaled_dot_product_attention(x, K, V)": "",
    "F.relu(F.layer_norm(x, (3,)) @ W)": "",
}
"""What J by x holds."""


@pytest.mark.parametrize("text", PAGES)
def test_j_names_the_output_and_each_gradient_has_the_line_of_the_answer(text: str) -> None:
    page = symgrad.explain(text, shapes={"x": (2, 3)}, check=False).to_text()
    answer, rest = page.split("1  Forward", 1)
    jacobian, pulled = rest.split("2  The Jacobian", 1)[1].split("4  vᵀJ", 1)
    assert PAGES[text] in jacobian
    plain = " ".join(pulled.split())
    for line in re.findall(r"^    (\S+\.grad = .+(?:\n      (?!with ).+)*)", answer, re.M):
        assert " ".join(line.split()) in plain, line
