"""The line templates that were claimed or proven, in memory and in a file that later runs read.

Comes in: a `TemplateKey`: a group in standard names, and the kind of line. Goes out: the `LineTemplate` that was found
for it, if one was. What was proven for some data alone is no proof in a later run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy as sp

from symgrad.backward.line_data import LineOrigin
from symgrad.errors import SourceText, SymgradError
from symgrad.files import is_cache_in_use, keep, recall
from symgrad.language.parser import parse_script
from symgrad.language.syntax_tree import PythonCall
from symgrad.language.trees import FormCode, called_word, read_form
from symgrad.ops import find
from symgrad.program import Apply, Constant, Program, Pullback, Pushforward, Stated, Tensor


@dataclass(frozen=True)
class LineTemplate:
    """``code`` in standard names, None where there is no notation; it is derived from ``origin``.

    ``rules`` led to the code; with ``careful`` it holds, or is missing, only for some data (no class left out), and is
    asked anew in every run. ``lowered`` is code that says the equation as array operations, where no notation is
    shorter; ``reason`` is why there is none.
    """

    code: FormCode | None
    origin: LineOrigin
    rules: tuple[str, ...] = ()
    careful: bool = False
    lowered: bool = False
    reason: str = ""

    @property
    def notation(self) -> FormCode | None:
        """The code where it is short notation, and not laid out as array operations."""
        return None if self.lowered else self.code


@dataclass(frozen=True)
class Audience:
    """Who lines are written for.

    ``run``: for a program: a line has the condition beside what it divides by, and divides by no square. ``unsaid`` are
    calls that no line says: it is for a library that has none of them.
    """

    run: bool = False
    unsaid: frozenset[str] = frozenset()


AUDIENCE: ContextVar[Audience] = ContextVar("who lines are written for at present", default=Audience())  # noqa: B039 it is frozen


@contextmanager
def written_for(**changed: Any) -> Iterator[None]:
    """Inside, lines are written for another audience."""
    before = AUDIENCE.set(replace(AUDIENCE.get(), **changed))
    try:
        yield
    finally:
        AUDIENCE.reset(before)


@dataclass(frozen=True)
class TemplateKey:
    """What a line is asked for: of which group, said which way, for whom."""

    origin: LineOrigin
    way: str
    audience: Audience = Audience()


REMEMBERED = 4096
"""Proven templates that are remembered."""
BESIDE = frozenset({
    "arange", "diagonal_scatter", "eye", "isfinite", "new_ones", "numel", "ones", "to", "view_as_complex",
    "view_as_real", "zeros",
})  # fmt: skip
"""What lines call beside operations of the table."""
TEMPLATES: OrderedDict[TemplateKey, LineTemplate] = OrderedDict()
"""What this run has claimed or proven; cleared, every line is proven anew."""


def find_known_template(question: TemplateKey) -> LineTemplate | None:
    """What was proven, by this run or an earlier one."""
    found = TEMPLATES.get(question)
    if found is None:
        found = load_template(question)
        if found is not None:
            keep_for_this_run(question, found)
    return found


def remember_template(question: TemplateKey, found: LineTemplate) -> None:
    """Have it known; what holds for all data is known to later runs, too."""
    keep_for_this_run(question, found)
    if not found.careful:
        save_template(question, found)


def keep_for_this_run(question: TemplateKey, found: LineTemplate) -> None:
    """Have it known in this run."""
    TEMPLATES[question] = found
    if len(TEMPLATES) > REMEMBERED:
        TEMPLATES.popitem(last=False)


def load_template(question: TemplateKey) -> LineTemplate | None:
    """What an earlier run left."""
    spelled = spell_key(question) if is_cache_in_use() else None
    return None if spelled is None else decode_template(recall(spelled), question.origin)


def save_template(question: TemplateKey, found: LineTemplate) -> None:
    """Leave it for later runs, if they could read it."""
    spelled = spell_key(question) if is_cache_in_use() else None
    value = [
        None if found.code is None else found.code.text,
        [*found.rules],
        found.careful,
        found.lowered,
        found.reason,
    ]
    if spelled is not None and decode_template(value, found.origin) == found:
        keep(spelled, value)


def decode_template(value: Any, origin: LineOrigin) -> LineTemplate | None:
    """A template out of what a file holds; None where that is none."""
    match value:
        case [str() | None as text, [*rules], bool(), bool(), str()] if all(isinstance(rule, str) for rule in rules):
            code = None if text is None else read_own_language(text)
            if text is None or code is not None:
                return LineTemplate(code, origin, tuple(rules), *value[2:])
    return None


def read_own_language(text: str) -> FormCode | None:
    """A text of definitions and an expression in symgrad's language, of calls in the table; None of another."""
    try:
        parse_script(SourceText(text))
        form = read_form(text)
    except SymgradError:
        return None
    names = {called_word(node.function) for node in form.nodes() if isinstance(node, PythonCall)}
    named = all(name.isidentifier() for name, _ in form.definitions)
    return form if named and all(name in BESIDE or find(name) is not None for name in names) else None


def spell_key(value: Any) -> str | None:
    """A question as text that no other question has; None where it holds what has no such text."""
    try:
        return _spell_value(value)
    except TypeError:
        return None


PLAIN = (TemplateKey, Audience, LineOrigin, Program, Tensor, Apply, Constant, Pullback, Pushforward, Stated)
"""What is spelled by its fields."""


def _spell_value(value: Any) -> str:
    match value:
        case None | bool() | int() | float() | str() | Fraction() | Enum():
            return repr(value)
        case sp.Basic():
            return str(in_full(value))
        case type():
            return value.__qualname__
        case tuple():
            return f"({','.join(map(_spell_value, value))})"
        case frozenset():
            return f"{{{','.join(sorted(map(_spell_value, value)))}}}"
        case _ if isinstance(value, PLAIN):
            own = [_spell_value(getattr(value, field.name)) for field in fields(value) if field.compare]
            return f"{type(value).__name__}({','.join(own)})"
    raise TypeError(type(value))


in_full = lru_cache(maxsize=2048)(sp.srepr)
