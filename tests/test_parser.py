"""A text as a tree: where its nodes lie, and how many axes each use of a name asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symgrad import SymgradError
from symgrad.errors import SourceText
from symgrad.language.input_names import candidate_ranks, find_names
from symgrad.language.parser import parse_script
from symgrad.language.syntax_tree import PythonCall
from symgrad.notation.tree import walk


def test_a_rank_has_to_suit_every_use() -> None:
    script = parse_script(SourceText("diag(x) + x.T + mm(a, b)"))
    assert candidate_ranks(script, find_names(script)) == {"x": ((2, 2),), "a": ((2, 0),), "b": ((2, 0),)}


@pytest.mark.slow
@given(st.text(max_size=40))
def test_every_node_of_the_tree_lies_where_it_says(text: str) -> None:
    wrapped = f"é = exp(x1 + {text!r})" if "'" not in text and "\\" not in repr(text) else "exp(x1)"
    try:
        script = parse_script(SourceText(wrapped))
    except SymgradError:
        return
    (call,) = [node for node in walk(script.statements[0]) if isinstance(node, PythonCall)]
    assert wrapped[slice(*call.span)] == wrapped.removeprefix("é = ")
