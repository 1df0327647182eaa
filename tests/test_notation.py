"""The notation: text and tree undo each other, every refusal has its place, and sizes follow from the text."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import symgrad
from symgrad.errors import SourceText, SymgradError
from symgrad.language import read_program
from symgrad.language.parser import parse_script
from symgrad.notation import tree as t
from symgrad.notation.read_write import ATOM, POWER, NodeFormatter, Text, format_node, read_statement

LETTERS = st.sampled_from(["i", "j", "k", "k2"])
NAMES = st.sampled_from(["x", "w", "eps", "v_h", "μ", "out2"])
RELATIONS = st.sampled_from(["<", "≤", ">", "≥", "=", "≠"])


ROWS = st.builds(
    lambda names: t.RowIndex(tuple(map(t.Name, names))), st.lists(LETTERS, min_size=2, max_size=3, unique=True)
)


def extended(inner: st.SearchStrategy[t.SyntaxNode]) -> st.SearchStrategy[t.SyntaxNode]:
    """Nodes around other nodes."""
    chains = st.builds(lambda a, r, b: t.RelationChain((a, b), (r,)), inner, RELATIONS, inner)
    long = st.builds(lambda a, b, c: t.RelationChain((a, b, c), ("≤", "<")), inner, inner, inner)
    letters = st.lists(
        st.builds(t.Letter, LETTERS, st.none() | inner), min_size=1, max_size=2, unique_by=lambda letter: letter.name
    )
    return st.one_of(
        st.builds(t.Binary, st.sampled_from(["+", "−", "·", "/", "mod"]), inner, inner),
        st.builds(t.Negative, inner),
        st.builds(t.Power, inner, inner),
        st.builds(t.Power, inner, st.builds(t.Negative, st.builds(t.Number, st.sampled_from(["1", "2"])))),
        st.builds(t.Root, inner),
        st.builds(t.Absolute, inner),
        st.builds(t.Floor, inner),
        st.builds(lambda c: t.Condition(tuple(c)), st.lists(chains | long, min_size=1, max_size=2)),
        st.builds(t.Delta, inner, inner),
        st.builds(lambda n, s: t.Access(n, tuple(s)), NAMES, st.lists(inner, min_size=1, max_size=3)),
        st.builds(t.FlatEntry, NAMES, inner),
        st.builds(
            lambda f, a: t.ScalarCall(f, tuple(a)),
            st.sampled_from(["tanh", "max"]),
            st.lists(inner, min_size=1, max_size=2),
        ),
        st.builds(
            lambda s, ls, b: t.BigOperator(s, tuple(ls), b), st.sampled_from(["Σ", "Π", "mean", "max"]), letters, inner
        ),
    )


LEAVES = st.one_of(
    st.builds(t.Number, st.sampled_from(["0", "2", "13", "0.5", "1e-5"])),
    st.builds(t.Name, NAMES | LETTERS),
    st.builds(t.AxisSize, NAMES, st.integers(-2, 2) | st.none()),
    ROWS,
    st.builds(lambda n: t.PaddedEntry(t.Access(n, (t.Negative(t.Number("2")), t.Name("i")))), NAMES),
)
TREES = st.recursive(LEAVES, extended, max_leaves=8)


SIGNS = {"·": "*", "−": "-", "≤": "<=", "≥": ">=", "≠": "!=", "Σ": "sum", "Π": "prod", "…": "..."}


class PlainFormatter(NodeFormatter):
    """Writes an equation with the keys of a keyboard: ``sum_j x[i,j]*w[j]``, ``x^2``, ``sqrt(x)``."""

    def write(self, statement: t.IndexEquation) -> str:
        return "".join(SIGNS.get(character, character) for character in self.text(statement)[0])

    def text(self, node: t.SyntaxNode) -> Text:
        match node:
            case t.FlatEntry():
                places = node.number.places if isinstance(node.number, t.RowIndex) else (node.number,)
                return f"flat({node.name}, {self.listed(places, ', ')})", ATOM
            case t.PaddedEntry():
                return f"padded({self.text(node.entry)[0]})", ATOM
            case t.Root() | t.Floor():
                return f"{'sqrt' if isinstance(node, t.Root) else 'floor'}({self.text(node.operand)[0]})", ATOM
            case t.Delta():
                return f"delta({self.listed((node.left, node.right), ', ')})", ATOM
        return super().text(node)

    def power(self, node: t.Power) -> Text:
        minus = "−" if isinstance(node.exponent, t.Negative) else ""
        size = node.exponent.operand if isinstance(node.exponent, t.Negative) else node.exponent
        return f"{self.inside(node.base, ATOM)}^{minus}{self.inside(size, POWER)}", POWER


@given(right=TREES)
def test_what_is_written_reads_back_as_the_same_tree_in_both_alphabets(right: t.SyntaxNode) -> None:
    row = t.RowIndex((t.Letter("j"), t.Letter("r", right)))
    statement = t.IndexEquation("out", (t.Dots(), t.Letter("i"), row), right)
    for write in (format_node, PlainFormatter().write):
        text = write(statement)
        assert read_statement(text) == statement, text
        assert write(read_statement(text)) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("out[i] = Σ_j x[i,j]·a[j]", "out[i] = sum_j x[i,j]*a[j]"),
        ("out[i] = [j ≤ i]·√(x[i]² + 1)", "out[i]=[j<=i]*sqrt(x[i]^2+1)"),
        ("out[i] = δ_ij·x[i]", "out[i] = delta(i,j)*x[i]"),
        ("out = Π_j (x[j] − 1)", "out = prod_j (x[j]-1)"),
        ("out[…,i] = x[…,i]⁻²", "out[...,i] = x[...,i]**-2"),
        ("out[i] = ⌊x[i]⌋ + |x[i]|", "out[i] = floor(x[i]) + abs(x[i])"),
        ("out[(i, r<2)] = x⟨i⟩ + y⟨i,r⟩", "out[(i,r<2)] = flat(x, i) + flat(y, i, r)"),
        ("out[i] = x̂[i − 1]·size(x)", "out[i] = padded(x[i-1])*size(x)"),
        ("out[i<n−1, r<3] = x[i+r]", "out[i < n - 1, r < 3] = x[i + r]"),
        ("out = Σ_{j,k} x[j,k] where d = 1, e = 2", "out=∑_{j,k} x[j,k] where d=1,e=2"),
    ],
)
def test_spellings_are_folded(one: str, other: str) -> None:
    assert read_statement(one) == read_statement(other)


def test_a_sum_reaches_to_the_end_of_its_product() -> None:
    assert read_statement("out = Σ_j a[j]/b[j] + c").right == read_statement("out = (Σ_j (a[j]/b[j])) + c").right
    assert read_statement("out = (Σ_j a[j])/b").right != read_statement("out = Σ_j a[j]/b").right


def test_several_statements_keep_their_places() -> None:
    first, second = parse_script(SourceText("h[i] = x[i]; out = sum_i h[i]")).statements
    assert (first.target, second.target) == ("h", "out")
    assert "h[i] = x[i]; out = sum_i h[i]"[slice(*second.span)] == "out = sum_i h[i]"


REFUSED = [
    ("out[i] = 2x[i]", "2x is not a number", "2x"),
    ("out[i] = x[i", "this [ is not closed by ]", "["),
    ("out[i] = (x[i]", "this ( is not closed by )", "("),
    ("out[i] = √x²", "√x² is ambiguous", "²"),
    ("out[i] = [x[i]]", "brackets without a name in front contain a condition", "x[i]"),
    ("out[i] = x[i] @ y[i]", "the character @ is not part of an index equation", "@"),
    ("out[i] = x[i] y[i]", "this is not part of the equation", "y"),
    ("out[i] = x[i]]", "this is not part of the equation", "]"),
    ("out[i] = Σ_j", "the equation ends too early", " "),
    ("out[i,i] = x[i]", "i occurs twice on the left", "i"),
    ("out[i] = x[j]", "j is neither an index of out nor summed over", "j"),
    ("out = Σ_j x[j] − y[j]", "j is outside its sum", "j"),
    ("out = Σ_j 3 − x[j + 2]", "j is outside its sum", "j"),
    ("out = (Σ_j x[j])·[j > 0]", "j is outside its sum", "j"),
    ("out = Σ_{i<j} x[i]·(Σ_j y[j])", "j is outside its sum", "j"),
    ("out[i] = Σ_i x[i]", "i is already an index outside this sum", "i"),
    ("out[i] = foo(x[i])", "no function foo in index equations", "foo"),
    ("out[i] = Σ_j x[j]·out[j]", "out is defined by its own entries", "out[j]"),
    ("out[i] = x[i] + x[i,i]", "x has 1 indices in one place and 2 here", "x[i,i]"),
    ("out[i] = x[i] + x", "x is a tensor: give indices", "x"),
    ("out[i] = i[i]", "i is an index here, not a tensor", "i[i]"),
    ("out[i] = d[i] where d = x[i]", "where defines d", "d[i]"),
    ("out[i] = d where d = d + x[i]", "d is defined by itself", "d"),
    ("out[i] = x[i]·size(x, 3)", "x has no axis 3 here", "size(x, 3)"),
    ("out[i] = x[i]·size(y, 0)", "the equation reads no tensor y", "size(y, 0)"),
    ("out[i] = x[…,i]·y[…,…]", "… occurs once among the indices", "y[…,…]"),
    ("out[i] = δ_{i,jj}·x[i]", "δ has two indices", "δ_{i,jj}"),
    ("out[i] = x[i]·" + "7" * 41, "an integer of 41 digits is too long", "7"),
    ("out[i,j] = x[i+j]", "x[i + j] depends on two indices of out", "i"),
    ("out[i] = x[i-1]", "x[i − 1] reads before the beginning at i = 0", "i-1"),
    ("out[i] = Σ_j 1", "no tensor determines the range of j", "j"),
    ("out[i] = Σ_j x[j]", "no tensor determines the range of i", "i"),
    ("out[i<x[0]] = x[i]", "the range of i is not a size", "x[0]"),
    ("out[i] = x[s*i]", "s is used in an index, so it has to be an integer", "s"),
    ("out[i] = x⟨i", "this ⟨ is not closed by ⟩", "⟨"),
    ("out[(i,j)] = x[i,j", "this [ is not closed by ]", "["),
    ("out[(i,i)] = x[i,i]", "i occurs twice on the left", "i"),
    ("out[c] = x[(c,a)]", "a is neither an index of out nor summed over", "a"),
    ("out[c] = x[(c+1,c)]", "only letters can stand between these commas", "c+1"),
    ("out[c] = s[c+1] where s[b] = Σ_{a<2} x[(b,a)]", "only letters can stand between these commas", "b"),
    ("out[i] = x⟨i,2⟩", "only letters can stand between these commas", "2"),
    ("out[i] = flat(x)", "flat takes a tensor and the number of an entry", "flat(x)"),
    ("out[i] = padded(x)", "padded takes an entry of a tensor", "padded(x)"),
    ("out[i] = d̂[i] where d[i] = 2·x[i]", "a hat is for entries of a tensor", "2"),
    ("out[i<2] = x̂⟨i⟩", "a hat is followed by the indices of an entry", "⟨"),
    ("out[i<9] = x⟨i,i⟩", "i occurs twice between these commas", "i"),
    ("out[i] = (x[i] > 0)*x[i]", ") is expected here", ">"),
    ("out[i] = [x[i] > 0 or y[i] > 0]*x[i]", "] is expected here", "or"),
    ("out[i] = x[i] > 0", "this is not part of the equation", ">"),
    ("out[i] = sum_{j=0}^{n} x[j]", "the range of j is written with <", "="),
    ("out[i] = sum_{j in range(3)} x[j]", "the range of j is written with <", "in"),
    ("out[i] = sum_{j != i} x[j]", "the range of j is written with <", "!="),
    ("out[i<=3] = x[i]", "the range of i is written with <", "<="),
    ("out[i+1] = x[i]", "only letters can stand on the left", "+"),
    ("out[ij] = x[i,j]", "ij is not an index", "ij"),
    ("out[row,col] = a[row,col]", "row is not an index", "row"),
    ("out[θ] = x[θ]²", "θ is not an index: an index is one Latin letter", "θ"),
    ("out[α] = Σ_β A[α,β]·x[β]", "α is not an index: an index is one Latin letter", "α"),
    ("out = Σ_{j,j} x[j,j]", "j is twice under the sum", "j"),
    ("out[n[i]] = x[i]", "only letters can stand on the left", "["),
    ("out[i,] = x[i]", "an index is expected here", "]"),
    ("out = sum_i,j x[i,j]", "several letters need braces", ","),
    ("out = sum x[i]", "this is not part of the equation", "x"),
    ("out = sum_ij x[i,j]", "this is not part of the equation", "x"),
    ("out[i] = x_i*y[i]", "x_i is read as one name", "x_i"),
    ("out[i,j] = y[i]*a_ij + y[j]", "a_ij is read as one name", "a_ij"),
    ("out[i] = δ_ij·x[i]", "j is neither an index of out nor summed over", "δ_ij"),
    ("out[i] = delta(i, k)*x[i]", "k is neither an index of out nor summed over", "k"),
    ("out[i] = softmax(x[i])", "softmax is not a function of single numbers", "softmax"),
    ("out[i] = sum(x[i])", "no function sum in index equations", "sum"),
    ("out[i] = x₁·y[i]", "the character ₁ is not part of a name", "₁"),
    ("out[i<4] = x[i/2]", "an index has to be a sum of integers", "i/2"),
    ("out[i] = x[n[i]*1.5]", "an index has to be a sum of integers", "1.5"),
    ("out[i<4] = x[max(i-1, 0)]", "an index has to be a sum of integers", "max(i-1, 0)"),
    ("out[i<4] = x[sqrt(i)]", "an index has to be a sum of integers", "sqrt(i)"),
    ("out[i<4] = x[1 + exp(i)]", "an index has to be a sum of integers", "exp(i)"),
    ("out[i<4] = flat(x, 2^(-i))", "an index has to be a sum of integers", "2^(-i)"),
    ("out[i] = True*x[i]", "True is neither a number nor a tensor", "True"),
    ("out[i] = lambda*x[i]", "the Python keyword `lambda` is not allowed", "lambda"),
    ("out[i] = with", "the Python keyword `with` is not allowed", "with"),
    ("out[i] = for[i]·x[i]", "the Python keyword `for` is not allowed", "for"),
    ("out[i] = Σ_j x[i + in]", "the Python keyword `in` is not allowed", "in"),
    ("as[i] = x[i]", "the Python keyword `as` is not allowed", "as"),
    ("e = x.sum(); out[i] = y[i]/e", "e is a constant in index equations", "e = "),
    ("out[i] = Σ_r x̂[i+r-1]·w[r]", "no tensor determines the range of i", "i"),
    ("out[i] = Σ_r x̂[i-r]·w[r]", "no tensor determines the range of i", "i"),
    ("out[i] = Σ_r [0 ≤ i − r]·w[r]·c", "no tensor determines the range of i", "i"),
    ("out[i] = " + "(" * 80 + "x[i]" + ")" * 80, "this is nested more than 60 levels deep", "("),
    ("out[i] = " + "-" * 80 + "x[i]", "this is nested more than 60 levels deep", "-"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "problem", "where"), REFUSED, ids=lambda case: str(case)[:40])
def test_what_means_nothing_is_refused_with_its_place(text: str, problem: str, where: str) -> None:
    with pytest.raises(SymgradError) as caught:
        read_program(text)
    error = caught.value
    assert error.problem.startswith(problem), error.problem
    assert error.span is not None
    assert text[slice(*error.span)].startswith(where) or not where.strip(), text[slice(*error.span)]
    assert error.excerpt is not None


HINTED = [
    ("out[i] = Σ_α x[i,α]", "an index is one Latin letter: Σ_j x[i,j]"),
    ("out[i] = Σj x[i,j]", "Σ_{j} x[…]"),
    ("out[i] = sin²(x[i])", "the power behind the brackets: sin(x[i])²"),
    ("out[i] = x[i]² y[i]", "write the product sign"),
    ("out[i,j] = δ_ij x[i]", "write the product sign"),
    ("out[i] = Σ_j^n x[i,j]", "how far: Σ_{j<n}, from 0 on"),
    ("out[i] = Σ_j>i x[j]", "a condition behind it: Σ_j [j ≤ i]·…"),
    ("out[i] = x[i] + 1)", "no bracket is open"),
    ("out[i] = x[i]]", "no bracket is open"),
    ("out[i] = x[i]·d, where d = 2", "put definitions after where"),
    ("out[i] = leaky_relu(x[i], slope=0.1)", "an option by its place, without its name"),
    ("out[i] = (x[i] = 0)·x[i]", "a condition in brackets is 1 or 0"),
    ("out[i] = max(x[i])", "over an index: max_j x[j]"),
    ("out[i] = x(i)", "an entry has square brackets: x[i]"),
    ("out[i] = x[n]·x[i]", "x[1], or a number whose name is longer than a letter, x[at]"),
    ("out[1] = x[1]", "letters on the left: out[i] = …"),
    ("out(i) = x(i)", "letters on the left: out[i] = …"),
    ("out[i] = x[-1]·x[i]", "x[size(x, 0) − 1]"),
    ("out[i] = Π x[i]", "Π_{i} x[…], or prod_{…}"),
    ("out[i] = max x[i,j]", "max_{i} x[…]: in braces"),
    ("out[i] = max_r x[2*i+r]", "give its range: max_{r<…}"),
    ("out[i] = prod_{r,s} x[2*i+r]", "give its range: Π_{r<…}"),
    ("out[i,r] = x[i+r]", "give its range: out["),
    ("lap[i] = u[i-1] − 2·u[i] + u[i+1]", "[i ≥ 1]·u[i − 1]"),
    ("lap[i] = u[i-1] − 2·u[i] + u[i+1]", "padded(u[i − 1])"),
    ("lap[n,k] = u[n,k-2] + u[n,k]", "[k ≥ 2]·u[n,k − 2]"),
    ("out[i] = ReLU(x[i])", "did you mean relu?"),
    ("out[i] = Tanh(x[i])", "did you mean tanh?"),
    ("out[i] = if x[i] > 0 then x[i] else 0", "a condition in brackets is 1 or 0"),
    ("out[i] = x[i] if x[i] > 0 else 0", "a condition in brackets is 1 or 0"),
    ("out[i] = {x[i] + 1}^2", "round brackets"),
    ("out[i] = sum_{0<=j<3} x[i+j]", "from 0 on: Σ_{j<3}"),
    ("out[i] = sum_{j=0..2} x[i+j]", "Σ_{j<3}, from 0 on"),
    ("out[i] = 1.2.3*x[i]", "a number has one point"),
    ("L = Σ_i (y[i] − ŷ[i])²", "y_hat[i]"),
    ("out[i] = x[i]/‖x‖", "√(Σ_j x[j]²)"),
    ("out[i] = xᵀ[i,j]", "x[j,i]"),
    ("out[i] = x'[i]", "letters and digits"),
    ("out[i] = x[i]⊙y[i]", "x[i]·y[i]"),
    ("E = ½*m", "1/2*"),
]


@pytest.mark.parametrize(("text", "told"), HINTED, ids=lambda case: str(case)[:40])
def test_a_refusal_says_what_would_do(text: str, told: str) -> None:
    with pytest.raises(SymgradError) as caught:
        read_program(text)
    assert any(told in str(hint) for hint in caught.value.hints), caught.value.hints


def test_a_place_that_is_given_has_a_name_longer_than_a_letter() -> None:
    found = symgrad.explain("out[i] = x[at]·x[i]", x=[2, 3, 5], at=1)
    assert found.passed
    assert found.output.tolist() == [6, 9, 15]


def test_an_entry_outside_its_tensor_is_told_what_keeps_it_inside() -> None:
    for text, sizes, kept in (
        ("out[i] = Σ_j x[i−j]·w[j]", {"x": (2,), "w": (3,)}, "out[i] = Σ_j [j ≤ i]·x[i−j]·w[j]"),
        ("out[i<3] = x[i + 1]", {"x": (3,)}, "out[i<3] = [i + 1 < size(x, 0)]·x[i + 1]"),
    ):
        with pytest.raises(SymgradError) as caught:
            read_program(text, shapes=sizes)
        (hint,) = map(str, caught.value.hints)
        assert hint.partition(": ")[2].replace(" ", "") in kept.replace(" ", "")
        assert read_program(kept, shapes=sizes)


@given(text=st.text(alphabet="outxij[](){}=+-*/^|<>≤Σ_√⌊⌋δ²… ,;.0123where\n", max_size=40))
def test_any_text_reads_or_is_refused(text: str) -> None:
    for whole in (text, f"out[i] = {text}"):
        with contextlib.suppress(SymgradError):
            read_program(whole)


SIZES = [
    ("out[i] = Σ_j x[i+j]·w[j]", {"x": 9, "w": 3}, (7,)),
    ("out[i] = Σ_j x[2·i+3·j]·w[j]", {"x": 9, "w": 3}, (2,)),
    ("out[i] = x[i + 1] − x[i]", {"x": 9}, (8,)),
    ("out[i] = x[i+2] − 2·x[i+1] + x[i]", {"x": 9}, (7,)),
    ("out[i] = Σ_j [j ≤ i]·x[j]", {"x": 9}, (9,)),
    ("out[i] = Σ_{r<3} x[2·i+r]", {"x": 9}, (4,)),
    ("out[i] = x[2·i] + x[2·i+1]", {"x": 9}, (4,)),
    ("out[i] = x[size(x, 0) − 1 − i]", {"x": 9}, (9,)),
    ("out[k] = [k < size(x, 0)]·x[k] + [k ≥ size(x, 0)]·y[k − size(x, 0)]", {"x": 4, "y": 3}, (7,)),
    ("out[i,j] = [j ≤ i]·x[i,j]", {"x": (3, 4)}, (3, 4)),
    ("out[i,j] = δ(i,j)·x[i]", {"x": 4}, (4, 4)),
    ("out[t] = Σ_s [s ≤ t]·x[s]·w[t−s]", {"x": 3, "w": 9}, (9,)),
    ("out[t] = Σ_s [s ≤ t]·x[t−s]·w[s]", {"x": 9, "w": 3}, (9,)),
    ("out = Σ_i (y[i] + y[i + 1])/2", {"y": 9}, ()),
    ("out[i<5,r<2] = x[i+r]", {"x": 9}, (5, 2)),
    ("out[i<size(x, 0) − 1,r<2] = x[i+r]", {"x": 9}, (8, 2)),
    ("out[i<2·size(x, 0)] = x[⌊i/2⌋]", {"x": 4}, (8,)),
    ("out[…,k] = Σ_j x[…,j]·w[k,j] + b[k]", {"x": (2, 5, 3), "w": (4, 3), "b": 4}, (2, 5, 4)),
    ("out[(i,j)] = x[i,j]", {"x": (3, 4)}, (12,)),
    ("out[c,(h,a<2),(w,b<2)] = x[(c,a,b),h,w]", {"x": (8, 3, 5)}, (2, 6, 10)),
    ("out[(i,k),(j,l)] = x[i,j]·y[k,l]", {"x": (2, 3), "y": (4, 5)}, (8, 15)),
    ("out[i,j<2] = x⟨i,j⟩", {"x": (3, 4)}, (6, 2)),
    ("out[i] = x⟨2·i + 1⟩", {"x": (3, 3)}, (4,)),
    ("out[i<size(x)] = x⟨i⟩", {"x": (3, 4)}, (12,)),
    ("out[i<⌊size(x, 0)/2⌋] = x̂[i − 1]", {"x": 9}, (4,)),
    ("out[i<size(x, 0) − 3] = x[i]", {"x": 3}, (0,)),
    ("out[i] = x[i mod 3]", {"x": 9}, None),
]


@pytest.mark.parametrize(("text", "shapes", "expected"), SIZES, ids=[case[0] for case in SIZES])
def test_sizes_follow_from_the_text(text: str, shapes: dict[str, object], expected: tuple[int, ...] | None) -> None:
    known = {name: shape if isinstance(shape, tuple) else (shape,) for name, shape in shapes.items()}
    if expected is None:
        with pytest.raises(SymgradError, match="range of i"):
            read_program(text, shapes=known)
        return
    program = read_program(text, shapes=known).program
    assert program.numbers(program.out.shape) == expected


def test_axes_in_which_one_letter_stands_have_one_size() -> None:
    with pytest.raises(SymgradError, match=r"fit|differ|size"):
        read_program("out[i] = x[i]·y[i]", shapes={"x": [3], "y": [4]})


def test_a_bound_beyond_the_axis_is_refused() -> None:
    with pytest.raises(SymgradError, match="after the end"):
        read_program("out[i<9] = x[i]", shapes={"x": [3]})


def test_rows_that_do_not_come_out_even_are_refused() -> None:
    with pytest.raises(SymgradError, match="do not fill rows"):
        read_program("out[i,j<4] = x[(i,j)]", shapes={"x": [6]})
    with pytest.raises(SymgradError, match=r"fit|differ|size|shape"):
        read_program("out[i<2,j<2] = x⟨i,j⟩", shapes={"x": [2, 3]})
    with pytest.raises(SymgradError, match="after the end"):
        read_program("out[i<7] = x⟨i⟩", shapes={"x": [2, 3]})
