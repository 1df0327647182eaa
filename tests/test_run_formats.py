"""A run in every format: each says what the text says."""

from __future__ import annotations

import json

import pytest

from symgrad.render import PAGE_WRITERS
from symgrad.tracing.story.session_pages import session_json, session_page
from tests.played import ACCUMULATION, play


def test_json_and_markdown(tmp_path):
    session, _ = play(tmp_path, ACCUMULATION)
    told = json.loads(session_json(session))
    assert told["events"][0]["leaves"][0]["closed_form"] == "v * y"
    assert told["events"][2]["failure"].startswith("RuntimeError")
    page = PAGE_WRITERS["markdown"](session_page(session))
    assert "| `x` | 3×3 diagonal(y) | `v * y` | none  +  \\[0.5 -1 2\\] | = torch |" in page


FORMATS = """
w = torch.linspace(-1, 1, 200, requires_grad=True)
for n in range(2):
    h = torch.where(w > 0, w.sqrt(), w) * w.detach()
    h.sum().backward()
    (h * 2).backward() if n else None
"""


IN_PAIRS = """
z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
(z.abs() ** 2).sum().backward()
"""


@pytest.mark.parametrize("source", [ACCUMULATION, FORMATS, IN_PAIRS], ids=["accumulation", "nan", "complex"])
def test_every_format_says_what_the_text_says(tmp_path, source):
    """Also of an array that is too large to be kept: data has its shape."""
    session, told = play(tmp_path, source)
    data, markdown, latex = (
        json.loads(session_json(session)),
        PAGE_WRITERS["markdown"](session_page(session)),
        PAGE_WRITERS["latex"](session_page(session)),
    )
    assert len(data["events"]) == len(session.events)
    assert latex.isascii()
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")
    for call in session.calls:
        said = [call.failure, *call.reasons, *call.notes, *(leaf.form or "" for leaf in call.leaves)]
        for sentence in said if not call.repeated else call.notes:
            for page in (told.split(), markdown.replace("\\", "").split()):
                assert " ".join(sentence.split()) in " ".join(page)
    for leaf in [leaf for call in session.calls for leaf in call.leaves]:
        assert f"\\texttt{{{leaf.name}}}" in latex
