"""A long part of a form that stands there twice has a name: ``t = (x + x ** 3).tanh(); v * (t + x * (1 - t ** 2))``.

Comes in: the text of a form, and how a name is given. Goes out: the text with the name in it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable

LONG = 24
"""Characters of a part that is worth a name."""


def named_twice(text: str, name: Callable[[str], str]) -> str:
    """``text`` with a name in the place of each call that is long and stands there twice, the longest first."""
    for _ in range(3):
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError:  # a text that does not read is no form: its proof withholds it, and counts it
            return text
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        parts = Counter(str(ast.get_source_segment(text, call)) for call in calls)
        long = [part for part, count in parts.items() if count > 1 and len(part) >= LONG]
        if not long:
            return text
        part = max(long, key=len)
        text = re.sub(rf"(?<![\w.]){re.escape(part)}", name(part).replace("\\", r"\\"), text)
    return text


__all__ = ["named_twice"]
