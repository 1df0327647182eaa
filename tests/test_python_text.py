"""What a tree of code is printed as is read back as the same tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symgrad.language.python_text import COLON, call, index, method, negate, read_python, to_code, write_python
from symgrad.language.syntax_tree import Attribute, Items, Keyword, Literal, PythonCall, Slice, Subscript, Unary
from symgrad.language.tokens import BINDS
from symgrad.notation.tree import Binary, Name, SyntaxNode

NAMES = st.sampled_from(["x", "a", "w"]).map(Name)
LITERALS = st.one_of(
    st.integers(0, 10**20), st.floats(0, 1e300), st.sampled_from([None, True, "ij,jk->ik", 'say "x"', "it's"])
).map(Literal)


def larger(inner: st.SearchStrategy[SyntaxNode]) -> st.SearchStrategy[SyntaxNode]:
    """Trees with others in them."""
    ends = st.one_of(st.none(), inner)
    places = st.one_of(st.builds(Slice, ends, ends, ends), inner.filter(lambda node: not isinstance(node, Items)))
    several = st.lists(inner, max_size=3).map(tuple)
    options = st.lists(st.builds(Keyword, st.just("dim"), inner), max_size=1).map(tuple)
    return st.one_of(
        st.builds(Binary, st.sampled_from(sorted(BINDS)), inner, inner),
        st.builds(Unary, st.sampled_from(["-", "~"]), inner),
        st.builds(PythonCall, st.one_of(NAMES, st.builds(Attribute, inner, st.just("sum"))), several, options),
        st.builds(Attribute, inner, st.just("T")),
        st.builds(Subscript, inner, st.lists(places, min_size=1, max_size=3).map(tuple)),
        st.builds(Items, several, st.booleans()),
    )


@given(st.recursive(st.one_of(NAMES, LITERALS), larger, max_leaves=12))
def test_what_is_printed_reads_back_as_the_same_tree(tree: SyntaxNode) -> None:
    assert read_python(write_python(tree)) == tree


@pytest.mark.parametrize(
    "text",
    [
        "(v @ w.T) * (t > 0)", "(x @ a) / 2", "2 * (x @ a)", "x @ a @ b", "x / 2 * y", "(n // 2) * m", "-x ** 2", "(-x) ** 2",
        "8 ** -0.5", "a - b @ c", "a - (b - c)", "(x > 0) & (y < 1)", "-(a @ b) * c", "x[:, None, ::2]", "f(x, dim=(0,))",
        'einsum("ij,jk->ik", x, a)', "~(m == 0)", "(x < y) == z",
    ],
)  # fmt: skip
def test_brackets_stand_where_a_reader_needs_them_and_nowhere_else(text: str) -> None:
    assert write_python(read_python(text)) == text


def test_trees_are_built_of_names_numbers_and_other_trees() -> None:
    assert write_python(call("F.pad", "x", (1, -1), mode=Literal("reflect"))) == 'F.pad(x, (1, -1), mode="reflect")'
    assert write_python(method(index("x", [COLON, None, COLON]), "sum", [0, 1])) == "x[:, None].sum([0, 1])"
    assert write_python(negate(read_python("a / b @ c"))) == "-(a / b) @ c"
    assert to_code(-1e30) == read_python("-1e30")


def test_a_number_that_has_a_method_stands_in_brackets() -> None:
    """``1.expand(3)`` is no Python."""
    assert write_python(method(method(1, "expand", 3), "diag")) == "(1).expand(3).diag()"
