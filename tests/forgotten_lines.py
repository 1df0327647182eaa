"""Lines are derived and proven anew: what is kept of them in this process is forgotten."""

from __future__ import annotations

from symgrad.backward import line_data, line_templates, template_cache
from symgrad.oracles import forms

CACHES = (
    line_templates.derive_template, line_templates.write_array_line, line_data.pull_back_origin, forms._read_back, forms._checked,
)  # fmt: skip
"""What is kept of lines and their proofs, as it is before a test puts anything in its place."""


def forget_lines() -> None:
    """The lines of every group are derived anew."""
    for cache in CACHES:
        cache.cache_clear()
    template_cache.TEMPLATES.clear()
