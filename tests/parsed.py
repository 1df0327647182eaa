"""The syntax of the files of this project, for the tests that look at it: a file is parsed once a process.

In comes the text of a file, out go its tree and all of its nodes. Tests marked `PARSED` share one process of pytest-xdist.
"""

from __future__ import annotations

import ast
from functools import cache

import pytest

PARSED = pytest.mark.xdist_group("architecture: parsed files")
"""Tests that share a process, and what it has parsed."""


@cache
def tree_of(text: str) -> ast.Module:
    """A file is parsed once for all checks."""
    return ast.parse(text)


@cache
def nodes_of(text: str) -> tuple[ast.AST, ...]:
    """All of a file, found once for all checks."""
    return tuple(ast.walk(tree_of(text)))
