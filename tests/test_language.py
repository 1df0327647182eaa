"""Text → Program: what parses, what is refused and in which words, what is inferred, and that nothing runs.

The table of bad inputs is exact about the words on purpose: an error message is an interface. The reader is
held against Python itself too: every text that it accepts is also run as Python by torch.
"""

import gc
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import symgrad
from symgrad.entries.spec import Rules, no_alignment
from symgrad.errors import Setting, ShapeError, SourceText, SymgradError, UnsupportedError
from symgrad.language import LOSSES, ParsedProgram, expand_composites, parse_value, read_program
from symgrad.language.constants import combine_constants
from symgrad.language.inference import rank_assignments
from symgrad.language.input_names import candidate_ranks, find_names
from symgrad.language.parser import parse_script
from symgrad.language.syntax_tree import PythonCall
from symgrad.language.tokens import DEPTH, LENGTH
from symgrad.notation.tree import walk
from symgrad.numeric.arranged import read_as_whole
from symgrad.ops import SPELLINGS, entry_named, operations
from symgrad.program import Constant, Program
from symgrad.shapes import Sizes
from tests.compare import assert_same
from tests.torch_programs import function_of
from tests.torch_side import evaluate

# What is refused ------------------------------------------------------------------------------------

BAD = [
    # text, kind, what is underlined, the sentence, and a word of what would do
    ("", "syntax", "", "there is no expression", "x@a"),
    ("  # nothing", "syntax", "  # nothing", "there is no expression", "x@a"),
    ("softmaks(x)", "name", "softmaks", "symgrad knows no function softmaks", "softmax"),
    ("F.relux(x)", "name", "F.relux", "symgrad knows no function F.relux", "F.relu"),
    ("x.softmaxx(0)", "name", "softmaxx", "symgrad knows no method softmaxx", "softmax"),
    ("x.gelu()", "name", "gelu", "symgrad knows no method gelu", "gelu(…)"),
    ("x.foo", "name", "foo", "symgrad knows no attribute foo", ".T, .mT"),
    ("math.sqr(2)*x", "name", "math.sqr", "symgrad knows no function math.sqr", None),
    ("x(y)", "name", "x", "symgrad knows no function x", "symgrad ops"),
    ("linalg.inv(x)", "name", "linalg.inv", "symgrad knows no function linalg.inv", "torch.linalg.inv"),
    ("linalg.svd(x)[0]", "name", "linalg.svd", "symgrad knows no function linalg.svd", "torch.linalg.svd"),
    ("torch + x", "name", "torch", "torch means the module torch, so it cannot be a tensor", "another name"),
    ("F = x; F", "name", "F", "F means torch.nn.functional, so nothing can be assigned to it", None),
    ("softmax(x, dimm=1)", "name", "dimm=1", "softmax has no argument dimm", "softmax(x, dim=-1)"),
    ("softmax(x, 0, 1)", "syntax", "1", "softmax has too many arguments", "softmax(x, dim=-1)"),
    ("softmax()", "syntax", "softmax()", "softmax needs x", "softmax(x, dim=-1)"),
    ("x.view()", "syntax", "x.view()", "view needs shape", "x.view(shape)"),
    ("sum(x, 0, dim=1)", "syntax", "dim=1", "sum is given dim twice", "sum(x, dim=None, keepdim=False)"),
    ("softmax(x, dim='a')", "syntax", "dim='a'", "dim of softmax cannot be the text 'a'", "softmax(x, dim=-1)"),
    ("x.sum(0, 1)", "syntax", "1", "keepdim of sum cannot be 1", "x.sum(dim=None, keepdim=False)"),
    ("softmax('x')", "syntax", "'x'", "x of softmax has to be a tensor, not the text 'x'", "softmax(x"),
    ("exp([1,2])", "syntax", "[1,2]", "x of exp has to be a tensor, not a list", "its value: NAME=…"),
    (
        "F.pad(x, (n, 1))",
        "syntax",
        "(n, 1)",
        "pad of F.pad cannot be a list with a tensor in it",
        "the value of a name",
    ),
    ("x.sum([[0], 1])", "syntax", "[[0], 1]", "dim of sum cannot be a list with a list in it", "x.sum("),
    ("x @ [[1,2]]", "syntax", "[[1,2]]", "a list cannot be an operand of @", "give it a name: NAME=…"),
    ("tril(x, diagonal=x)", "syntax", "diagonal=x", "diagonal of tril cannot be a tensor", "tril(x, diagonal=0)"),
    ("cat(a, b)", "syntax", "b", "cat has too many arguments", "cat(*tensors, dim=0)"),
    ("cat([])", "syntax", "cat([])", "cat needs a list of tensors", "cat(*tensors, dim=0)"),
    ("x.T()", "syntax", "x.T()", "T is an attribute, not a method", ".T without brackets"),
    ("x.sum", "syntax", "x.sum", "sum is a method: call it", "x.sum()"),
    ("torch.exp", "syntax", "torch.exp", "exp has to be called", "torch.exp(x)"),
    ("math.sqrt(x)", "syntax", "math.sqrt(x)", "math.sqrt takes a number", "sqrt(…)"),
    ("x.sum(0)(1)", "syntax", "x.sum(0)", "this cannot be called", None),
    ("max(x, dim=0)", "syntax", "max(x, dim=0)", "torch returns values and indices here, not one tensor", "[0]"),
    ("1 + max(x, 0)", "syntax", "max(x, 0)", "torch returns values and indices here, not one tensor", "[0]"),
    ("max(x, 0)[1]", "unsupported", "max(x, 0)[1]", "indices are integers, they have no derivative", None),
    ("1 + x.chunk(2)", "syntax", "x.chunk(2)", "several tensors cannot be an operand of +", "tensor"),
    ("x.chunk(2)[0:1]", "unsupported", "x.chunk(2)[0:1]", "one result at a time", "[0]"),
    ("1 + 2", "syntax", "1 + 2", "the output is a number, there is no tensor to differentiate", "x@a"),
    ("x.shape", "syntax", "x.shape", "the output is a list, there is no tensor to differentiate", "x@a"),
    ("x; y", "syntax", "x", "only the last expression is the output, this one is not used", "h = …"),
    ("sum(2)*x", "syntax", "sum(2)", "sum contains no tensor, only numbers", None),
    ("x = ", "syntax", "x =", "the assignment has no value", None),
    ("x, y = a", "syntax", "x, y = a", "the last line assigns several names, and only one can be the output", None),
    ("f(x) = a", "syntax", "=", "only names can be assigned to", "out[i]"),
    ("a.grad = x; a", "syntax", "a.grad", "grad cannot be assigned to here", "symgrad run SCRIPT"),
    ("for k in x: y = k", "syntax", "for", "the Python keyword `for` is not allowed", "one after the other"),
    ("with torch.no_grad(): y = x", "syntax", "with", "the Python keyword `with` is not allowed", "h.detach()"),
    ("h = x * 2; h[0] = 1; h", "syntax", "h[0]", "this line overwrites a tensor", "torch.where(mask, a, h)"),
    ("h = x * 2; h.add_(1); h", "syntax", "h.add_(1)", "this call overwrites a tensor", "h = h.add(…)"),
    (
        "F.relu(x, inplace=True)",
        "syntax",
        "F.relu(x, inplace=True)",
        "this call overwrites a tensor",
        "leave inplace out",
    ),
    ("h = x.T; h += 1; h", "syntax", "h += 1", "+= overwrites a tensor", "h = h + 1"),
    ("p, q, r = [x, x]; p", "shape", "[x, x]", "not enough values to unpack (expected 3, got 2)", None),
    ("p, q = x.chunk(3); p*q", "shape", "x.chunk(3)", "too many values to unpack (expected 2)", None),
    ("p, *q, r = [x]; p", "shape", "[x]", "not enough values to unpack (expected at least 2, got 1)", None),
    ("import os; os.sum(x)", "name", "os", "os is not a library that symgrad reads", "symgrad run SCRIPT"),
    ("exp = x*2; exp(x)", "name", "exp", "exp is a tensor, not a function", None),
    ("None = x", "syntax", "None", "None cannot be assigned to", None),
    ("f(x += 1)", "syntax", "+=", "+= inside an expression is not allowed", "h += 1"),
    ("tf.reduce_mean(tf.square(x))", "name", "tf", "tf is not a library that symgrad reads", "tf=…"),
    ("model(x)", "name", "model", "symgrad knows no function model", "symgrad run"),
    ("LSTM(x)", "name", "LSTM", "symgrad knows no function LSTM", "symgrad run"),
    ("step.py", "name", "py", "symgrad knows no attribute py", "symgrad run"),
    ("einops.rearrange(x, 'b c -> c b')", "name", "einops", "einops is not a library that symgrad reads", "of torch"),
    ("jax.nn.tanhh(x)", "name", "jax.nn.tanhh", "symgrad knows no function jax.nn.tanhh", "tanh"),
    (
        "x.mean().item()",
        "unsupported",
        "x.mean().item",
        "item returns no tensor: no gradient flows back through it",
        "leave it out",
    ),
    ("(y := x)", "syntax", ":=", "an assignment inside an expression is not allowed", "names, numbers"),
    ("x <", "syntax", "x", "this is not a valid expression", "names, numbers"),
    ("x + * y", "syntax", "*", "this is not a valid expression", "names, numbers"),
    ("(x", "syntax", "(", "this ( is never closed", None),
    ("x)", "syntax", ")", "this ) closes nothing", None),
    ("exp(x]", "syntax", "]", "this ] does not close (", None),
    ("exp(x; y)", "syntax", ";", "a semicolon inside brackets", "comma"),
    ("x < y < z", "syntax", "x < y < z", "comparisons do not chain over tensors", "(0 < x) * (x < 1)"),
    ("f(**x)", "syntax", "**x", "** is not allowed among arguments", None),
    ("exp(*x)", "syntax", "*x", "* unpacks a list or a shape", "*x.shape"),
    ("lambda: x", "syntax", "lambda", "the Python keyword `lambda` is not allowed", "x**3"),
    ("[y for y in x]", "syntax", "for", "the Python keyword `for` is not allowed", "symgrad run"),
    ("x if y else z", "syntax", "if", "the Python keyword `if` is not allowed", "where("),
    ("x and y", "syntax", "and", "the Python keyword `and` is not allowed", "&"),
    ("await x", "syntax", "await", "the Python keyword `await` is not allowed", "names, numbers"),
    ("x + import os", "syntax", "import", "the Python keyword `import` is not allowed", "names, numbers"),
    ("__import__('os')", "syntax", "__import__", "names that begin with two underscores are not allowed", "names"),
    ("x.__class__", "syntax", "__class__", "names that begin with two underscores are not allowed", "names"),
    ("f'{x}'", "syntax", "f", "strings with a prefix are not allowed", "'mean'"),
    ("sum(x, 'a", "syntax", "'", "this string does not end", "names"),
    ("{1: x}", "syntax", "{", "braces (dictionaries and sets) are not allowed", "names"),
    ("x & y", "syntax", "x & y", "& takes booleans here, not numbers", "with brackets around both"),
    ("x > 0 & (y > 1)", "syntax", "0 & (y > 1)", "& takes booleans here, not numbers", "(x > 0) & (y < 1)"),
    ("~x", "syntax", "~x", "~ takes booleans here, not numbers", "~(x > 0)"),
    ("x^2", "syntax", "x^2", "^ takes booleans here, not numbers", "write **"),
    ("x.double(3)", "syntax", "x.double(3)", "double takes no dtype, it is one", "x.double()"),
    ("x.to(3)", "syntax", "3", "to takes a dtype, not 3", "torch.float64"),
    ("x.to()", "syntax", "x.to()", "to needs a dtype", "torch.float64"),
    ("x²", "syntax", "²", "the character ² is not part of a name", "write **2"),
    ("−x", "syntax", "−", "the character − is not part of an expression", "write -"),
    ("x × y", "syntax", "×", "the character × is not part of an expression", "write *"),
    ("𝐱 + 1", "syntax", "𝐱", "the name 𝐱 is written in look-alike letters", "write x"),
    ("x\0", "syntax", "\0", "the character U+0000 is not part of an expression", "names"),
    ("x\ud800", "syntax", "\ud800", "the character U+D800 is not part of an expression", "names"),
    ("\ufeffx", "syntax", "\ufeff", "the character U+FEFF is not part of an expression", "names"),
    ("2x", "syntax", "2x", "2x is not a number here", "2*x"),
    ("1j*x", "syntax", "1j", "1j is not a number here", "torch.complex(a, b)"),
    ("0x1F*x", "syntax", "0x", "0x is not a number here", "real"),
    ("x*1234567890123456789", "syntax", "1234567890123456789", "an integer of 19 digits is too long", "18"),
    ("9**9**9*x", "value", "9**9**9", "this power is too large to be exact", "2.0**100"),
    ("9**9**9**9*x", "value", "9**9**9", "this power is too large to be exact", "2.0**100"),
    ("x*1e999", "value", "1e999", "this number is not finite", "1.8e308"),
    ("x*(1e308*10)", "value", "1e308*10", "this constant is not finite", None),
    ("x*2.0**99999", "value", "2.0**99999", "this constant is too large", None),
    ("x*(0*math.inf)", "value", "0*math.inf", "this constant is not a number", None),
    (
        "F.layer_norm(x, (3,), eps=torch.inf)",
        "value",
        "F.layer_norm(x, (3,), eps=torch.inf)",
        "eps of F.layer_norm has to be finite",
        None,
    ),
    ("x*float('1e3')", "syntax", "float('1e3')", "float takes a number, or 'inf', '-inf', 'nan'", None),
    ("x*(1/0)", "domain", "1/0", "division by zero", None),
    ("x*(-1)**0.5", "domain", "(-1)**0.5", "this constant is not a real number", None),
    ("x*math.sqrt(-1)", "domain", "math.sqrt(-1)", "sqrt(-1) is not a finite real number", None),
    ("(1 < 2)*x", "unsupported", "1 < 2", "< between two constants is not supported", "tensor"),
    (
        "x[y > 0]",
        "unsupported",
        "x[y > 0]",
        "how many entries a mask keeps depends on its values",
        "torch.where",
    ),
    ("x[[[0, 1]]]", "unsupported", "x[[[0, 1]]]", "a list of lists is ambiguous: write which is meant", "x[[0, 1]]"),
    ("x['a']", "unsupported", "'a'", "indexing with the text 'a' is not supported", "x[0]"),
    ("x[::-1]", "unsupported", "::-1", "slices need a positive step", "x[::2]"),
    ("x[..., ...]", "shape", "...", "... can occur only once in an index", None),
    ("x[99999]", "shape", "x[99999]", "an index this large needs a tensor whose shape is given", None),
    ("x.reshape(99991, -1)", "shape", "x.reshape(99991, -1)", "this needs tensors whose shapes are given", None),
    ("x.shape[9]*x", "shape", "x.shape[9]", "index 9 is out of range, there are 1", None),
    ("...", "syntax", "...", "... can only be used inside brackets", "x[..., 0]"),
    ("'x' + y", "syntax", "'x'", "the text 'x' cannot be an operand of +", "tensor"),
    ("x.reshape('2')", "syntax", "'2'", "shape of reshape cannot be the text '2'", "x.reshape(shape)"),
]


@pytest.mark.parametrize(("text", "kind", "underlined", "problem", "hint"), BAD, ids=[ascii(b[0]) for b in BAD])
def test_bad_input(text: str, kind: str, underlined: str, problem: str, hint: str | None) -> None:
    with pytest.raises(SymgradError) as caught:
        read_program(text)
    error = caught.value
    assert (error.kind, error.problem) == (kind, problem)
    assert error.span is not None
    assert text[slice(*error.span)] == underlined
    assert error.excerpt is not None
    if hint is not None:
        assert hint in " ".join(map(str, error.hints))


def test_shapes_that_do_not_fit_are_told_with_all_that_is_known() -> None:
    with pytest.raises(ShapeError) as caught:
        read_program("softmax(A @ B)", shapes={"A": (2, 3), "B": (4, 5)})
    assert str(caught.value) == (
        "error[shape]: the sizes 3 and 4 do not fit together in @\n"
        "    softmax(A @ B)\n"
        "            ^^^^^\n"
        "    found: A is 2×3, B is 4×5\n"
        "    found: 3 is axis 1 of A, 4 is axis 0 of B\n"
        '    try:   shapes={"B": (3, 5)}\n'
        '    try:   shapes={"A": (2, 4)}'
    )


def test_shapes_of_intermediate_results_come_with_those_of_the_inputs() -> None:
    with pytest.raises(ShapeError) as caught:
        read_program("(x@a) * b", shapes={"x": (2, 3), "a": (3, 4), "b": (5,)})
    assert caught.value.found == (
        "x@a is 2×4, b is a vector of 5",
        "4 is axis 1 of x@a, 5 is axis 0 of b",
        "so far x is 2×3, a is 3×4",
    )
    assert caught.value.hints == (Setting("shape", "b", "4"),)


def test_a_mismatch_is_between_two_operands_even_if_one_of_them_has_both_sizes() -> None:
    with pytest.raises(ShapeError) as caught:
        read_program("x @ relu(x)", shapes={"x": (2, 3)})
    assert caught.value.found[1] == "3 is axis 1 of x, 2 is axis 0 of relu(x)"


@pytest.mark.parametrize(
    ("text", "shapes", "problem"),
    [
        ("softmax(x, dim=2)", {"x": (2, 3)}, "there is no axis 2 in a tensor with 2 axes"),
        ("x.permute(0, 0)", {"x": (2, 3)}, "an axis is named twice in dims"),
        ("x[0, 0, 0]", {"x": (2, 3)}, "3 indices for a tensor with 2 axes"),
        ("x[5]", {"x": (2, 3)}, "index 5 is out of range for an axis of size 2"),
        ("x.reshape(4, -1)", {"x": (2, 3)}, "reshape would give an axis of size 3/2"),
        ("x.size(2)*x", {"x": (2, 3)}, "there is no axis 2 in a tensor with 2"),
        ("x.t()", {"x": (2, 3, 4)}, "this takes a tensor with 2 axes here, not 3"),
        ("mm(x, a)", {"x": (2,), "a": (2, 3)}, "this takes a tensor with 2 axes here, not 1"),
    ],
)
def test_a_shape_error_of_the_table_gets_its_place_and_the_shapes(text: str, shapes: dict, problem: str) -> None:
    with pytest.raises(ShapeError) as caught:
        read_program(text, shapes=shapes)
    assert caught.value.problem == problem
    assert caught.value.excerpt is not None


def test_a_slip_of_the_table_is_told_by_the_ranks_it_expects_or_called_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def slip(*_: object, **__: object) -> object:
        raise IndexError

    monkeypatch.setitem(SPELLINGS, "slip", replace(entry_named("mv"), rules=Rules(shape=slip, align=no_alignment)))
    with pytest.raises(ShapeError, match="slip takes a tensor with 2 axes here, not 1"):
        read_program("slip(x, a)", shapes={"x": (3,)})
    with pytest.raises(
        AssertionError, match="symgrad bug: mv cannot take these operands: x is 2×3, a is a vector of 3"
    ):
        read_program("slip(x, a)", shapes={"x": (2, 3), "a": (3,)})


def test_a_shape_for_an_unknown_tensor_is_refused_with_the_close_match() -> None:
    with pytest.raises(SymgradError) as caught:
        read_program("weight @ x", shapes={"wieght": (2, 3)})
    assert (caught.value.kind, caught.value.problem) == ("name", "the expression has no input wieght")
    assert caught.value.found == ("its inputs: weight, x",)
    assert caught.value.hints == ("did you mean weight?",)


@pytest.mark.parametrize("size", [-1, 1.5, True, None, "2", "a b", [2]])
def test_given_shapes_are_made_of_sizes(size: object) -> None:
    with pytest.raises(SymgradError) as caught:
        read_program("x", shapes={"x": (size, 2)})  # type: ignore[dict-item]  # wrong on purpose
    assert caught.value.problem == "the shape of x has to consist of sizes"


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10_000, "x+" * 5_000 + "x", "-" * 500 + "x", "(" * 500 + "x" + ")" * 500, "[" * 500 + "]" * 500,
        "**".join(["x"] * 500), "x" + ".T" * 500, "exp(" * 500 + "x" + ")" * 500, "x" + "[0]" * 500,
        "x" + "(0)" * 500, "+".join(["x"] * 500), "not " * 500 + "x", "x" + "[x" * 500 + "]" * 500, "9" * 3_999,
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_what_is_too_long_or_too_deep_is_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(SymgradError) as caught:
        read_program(text)
    assert caught.value.kind == "syntax"
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("depth", [20, DEPTH // 2, DEPTH - 10])
def test_what_is_not_too_deep_is_read(depth: int) -> None:
    for text in ("exp(" * depth + "x" + ")" * depth, "-" * depth + "x", "+".join(["x"] * depth)):
        assert isinstance(read_program(text), ParsedProgram)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("between", ["\n", "; ", "\r\n"])
def test_depth_is_counted_for_each_statement_and_argument(between: str) -> None:
    assert isinstance(read_program(between.join(["h = x + x * 2 - exp(x.T)"] * 60)), ParsedProgram)
    assert isinstance(read_program(f"cat([{', '.join(['x + 2 * x'] * 90)}])"), ParsedProgram)
    with pytest.raises(SymgradError, match="only the last expression is the output"):
        read_program(between.join(["x + x"] * 200))


# What is read ---------------------------------------------------------------------------------------

SHAPES = {"x": (2, 3), "y": (2, 3), "a": (3, 4), "b": (4,), "z": (2, 3, 4), "w": (2, 4, 3), "s": (3, 3), "u": (3,)}

# symgrad's text and what it means in torch; one text where the two are the same
READ = [
    ("x@a", None),
    ("torch.mm(x, a)", None),
    ("torch.matmul(x, a) + b", None),
    ("h = torch.relu(x@a + b); h @ a.T", None),
    ("h = x\nh = h * h\nh + 1", "x*x + 1"),
    ("h = x@a  # product\n\n; h.T;", "(x@a).T"),
    ("  (x +\n   y)", "x + y"),
    ("F.softmax(x @ a, dim=-1)", None),
    ("torch.nn.functional.softmax(x, 1)", None),
    ("nn.functional.log_softmax(x, dim=0)", "F.log_softmax(x, dim=0)"),
    ("x.sum(0)", None),
    ("x.sum(axis=0, keepdims=True)", "x.sum(0, keepdim=True)"),
    ("np.sum(x, axis=(0, 1))", "x.sum((0, 1))"),
    ("torch.sum(input=x, dim=[0])", "x.sum(0)"),
    ("np.exp(x) * numpy.tanh(x)", "torch.exp(x) * torch.tanh(x)"),
    ("x.T @ y", None),
    ("z.mT", None),
    ("x.t()", None),
    ("z.permute(0, 2, 1)", None),
    ("z.permute((2, 0, 1))", None),
    ("torch.permute(z, [2, 0, 1])", None),
    ("x.transpose(0, 1)", None),
    ("x.reshape(3, 2)", None),
    ("x.reshape((3, -1))", None),
    ("x.view(-1)", None),
    ("z.reshape(z.shape[0], -1)", None),
    ("z.reshape(*z.shape[:1], z.shape[1] * z.size(2))", "z.reshape(2, 12)"),
    ("z.view(len(z), 2, z.numel() // 4)", "z.view(2, 2, 6)"),
    ("u.expand(2, 3)", None),
    ("u.expand(x.shape)", None),
    ("x.unsqueeze(0).squeeze(0)", None),
    ("x[0]", None),
    ("x[-1, 1]", None),
    ("x[:, 1:]", None),
    ("x[:, ::2]", None),
    ("z[..., -1]", None),
    ("z[1, ..., 0]", None),
    ("x[:, None] * y[:, :, None]", None),
    ("x[:x.shape[0] - 1]", "x[:1]"),
    ("x[-1:, :-1]", None),
    ("x[0:2, :]", None),
    ('torch.einsum("ij,jk->ik", x, a)', None),
    ('np.einsum("ij,jk", x, a)', 'torch.einsum("ij,jk", x, a)'),
    ('einsum("...ij,jk->...ik", w, a)', 'torch.einsum("...ij,jk->...ik", w, a)'),
    ('einsum("...j,j", z, b)', 'torch.einsum("...j,j", z, b)'),
    ('einsum("b...,b...->b", w, w)', 'torch.einsum("b...,b...->b", w, w)'),
    ('einsum("i...->...i", x)', 'torch.einsum("i...->...i", x)'),
    ('einsum("bij,bjk->bik", [z, w])', 'torch.einsum("bij,bjk->bik", z, w)'),
    ("torch.cat([x, y], 1)", None),
    ("torch.cat((x, y, x), dim=0)", None),
    ("np.concatenate([x, y], axis=1)", "torch.cat([x, y], dim=1)"),
    ("torch.stack([x, y], dim=1)", None),
    ("torch.cat(tensors=[x, y])", None),
    ("-x + +y", "-x + y"),
    ("x - 2*y/3", None),
    ("x ** 2", None),
    ("2 ** x", None),
    ("x * 1/2", None),
    ("x * (1/2)", "x * 0.5"),
    ("x / 2**0.5", "x / math.sqrt(2)"),
    ("x * math.pi - torch.pi + np.e", "x * math.pi - math.pi + math.e"),
    ("x / math.sqrt(x.shape[-1])", "x / math.sqrt(3)"),
    ("x.sum() / x.numel()", "x.sum() / 6"),
    ("x * (7 // 2) + 7 % 4", "x * 3 + 3"),
    ("x * x.ndim * x.dim()", "x * 4"),
    ("(x > y) * x", None),
    ("(x <= 0) * x + (x != y) + (y >= x) + (x < 1) + (x == x)", None),
    ("torch.where(x > 0, x, y)", None),
    ("torch.maximum(x, y)", None),
    ("torch.max(x, y)", None),
    ("torch.max(x)", None),
    ("torch.max(x, dim=1).values", None),
    ("x.max(1)[0]", None),
    ("x.min(dim=0).values + 1", None),
    ("torch.sort(x, 1).values + x.median(0)[0]", None),
    ("torch.median(x)", None),
    ("x.chunk(2, dim=1)[1]", None),
    ("parts = torch.split(x, 2, dim=1); parts[0] * parts[1] + x.unbind(1)[2][:, None]", None),
    ("torch.clamp(x, min=-0.5)", None),
    ("x.clamp(-0.5, 0.5)", None),
    ('F.gelu(x, approximate="tanh")', None),
    ("F.mse_loss(x, y, reduction='sum')", None),
    ("x.var(dim=0, correction=0)", None),
    ("torch.var(x, 0)", None),
    ("F.layer_norm(x, (3,))", None),
    ("(x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)", None),
    ("F.softmax(x @ y.T / math.sqrt(x.shape[-1]), dim=-1) @ y", "F.softmax(x @ y.T / math.sqrt(3), dim=-1) @ y"),
    ("σ = torch.sigmoid(x); σ * (1 - σ)", "torch.sigmoid(x) * (1 - torch.sigmoid(x))"),
    ("n = x.shape[0]; x.sum(0) / n", "x.sum(0) / 2"),
    ("d = (1, 0); x.permute(d)", "x.T"),
    ("t1 = x; t2 = t1 * t1; t1 + t2", "x + x*x"),
    ("x = x * 2; x + 1", "x*2 + 1"),
    ("h = x@a", "x@a"),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "means"), READ, ids=[ascii(r[0]) for r in READ])
def test_what_is_read_is_what_torch_computes(text: str, means: str | None) -> None:
    program = read_program(text, shapes=shapes_for(text)).program
    generator = np.random.default_rng(0)
    tensors = {t.name: torch.tensor(generator.normal(size=program.numbers(t.shape))) for t in program.inputs}
    out = function_of(program)(*tensors.values())
    assert program.output == "out"
    assert program.numbers(program.out.shape) == tuple(out.shape)
    assert_same(evaluate(means or text, tensors), out, seed=0, what=text)


def shapes_for(text: str) -> dict[str, tuple[int, ...]]:
    """The shapes of those names of `SHAPES` that are inputs of ``text``."""
    known = {}
    for name, shape in SHAPES.items():
        try:
            read_program(text, shapes={**known, name: shape}, symbolic=True)
        except SymgradError as error:
            if error.kind == "name":
                continue
        known[name] = shape
    return known


def test_programs_are_in_single_assignment_form_with_readable_names() -> None:
    program = read_program("h = relu(x@w + b); h = h * 2; t1 = h.sum(0); t1 + h").program
    assert [step.result.name for step in program.steps] == ["t2", "t3", "t4", "h", "h_2", "t1", "t5", "out"]
    assert [t.name for t in program.inputs] == ["x", "w", "b"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("y = x**2; y.backward(w)", "y"),
        ("h = x@a; loss = h.sum(); loss.backward()", "loss"),
        ("h = x@a; loss = h.sum(); h.backward(w)", "h"),
        ("y.backward()", "out"),  # an input keeps its name
        ("x = 2*x; x.backward()", "out"),
        ("(x@a).sum().backward()", "out"),
        ("y = x**2", "out"),
    ],
)
def test_whose_backward_is_asked_for_keeps_its_name(text: str, name: str) -> None:
    """The page says y.backward() where its reader does."""
    assert read_program(text).program.output == name
    said = symgrad.explain(text, check=False).to_text()
    assert f"{name}.backward" in said
    assert "since out is taken" not in said


@pytest.mark.parametrize(("text", "op"), [("x", "identity"), ("h = x.T; h", "identity"), ("h = x.T", "T")])
def test_the_output_is_always_called_out(text: str, op: str) -> None:
    program = read_program(text).program
    assert (program.output, program.steps[-1].op) == ("out", op)


def test_what_is_assigned_keeps_its_name_and_the_output_gets_another() -> None:
    program = read_program("out = x * 2; out * out").program
    assert [step.result.name for step in program.steps] == ["out", "y"]
    assert [step.result.name for step in read_program("h = x * 2; out = h * h").program.steps] == ["h", "out"]


def test_downstream_of_an_output_out_is_an_input() -> None:
    reading = read_program("sum((out - y)**2)", shapes={"out": (2, 3)}, output=LOSSES)
    assert [t.name for t in reading.program.inputs] == ["out", "y"]
    assert reading.program.output == "L"
    assert read_program("L = out*L; L", output=LOSSES).program.output == "loss"


def test_constants_stay_exact() -> None:
    constants = [
        argument.value
        for step in read_program("x*(1/2) + 3 - 0.25 + 4/2 + 2**-1 + -3").program.steps
        for argument in step.arguments
        if isinstance(argument, Constant)
    ]
    assert constants == [Fraction(1, 2), 3, 0.25, 2, Fraction(1, 2), -3]
    assert [type(c) for c in constants] == [Fraction, int, float, int, Fraction, int]


def test_text_beside_a_size_is_not_run() -> None:
    with pytest.raises(sp.SympifyError):
        combine_constants("+", sp.Symbol("n"), "__import__('os').getcwd()")
    with pytest.raises(SymgradError):
        read_program("x * (x.shape[0] + '1')", shapes={"x": ("n",)})


def test_sizes_in_expressions_stay_symbols() -> None:
    program = read_program("x / x.shape[1] ** 0.5", shapes={"x": (2, 3)}).program
    (constant,) = [a.value for a in program.steps[0].arguments if isinstance(a, Constant)]
    assert constant == sp.sqrt(program.inputs[0].shape[1])


def test_broadcasting_is_a_step_of_its_own_and_constants_have_none() -> None:
    program = read_program("x@w + b + 1").program
    assert [step.op for step in program.steps] == ["matmul", "expand", "add", "add"]
    assert program.steps[1].options == (("shape", program.steps[0].result.shape),)


def test_spans_are_characters_of_the_whole_text() -> None:
    text = "σ = relu(é@ü)  # ∂\n;\r\n  σ.sum(\n 0) + Ω"
    program = read_program(text).program
    spans = {step.op: text[slice(*step.span)] for step in program.steps if step.span is not None}
    assert spans == {"matmul": "é@ü", "relu": "relu(é@ü)", "sum": "σ.sum(\n 0)", "add": "σ.sum(\n 0) + Ω"}


def test_the_place_of_an_error_is_found_behind_other_letters_and_lines() -> None:
    with pytest.raises(SymgradError) as caught:
        read_program("ß = x * 'ö'\n")
    assert caught.value.excerpt == "ß = x * 'ö'\n        ^^^"
    with pytest.raises(SymgradError) as caught:
        read_program("h = x@é\nÄ + softmaks(h)")
    assert caught.value.excerpt == "Ä + softmaks(h)\n    ^^^^^^^^"


@pytest.mark.parametrize("text", ["x  @  a", "(x@a)", "x@a # comment", "\n\nx@a\n", "((x)@(a));", "\tx@a"])
def test_blanks_comments_and_brackets_mean_nothing(text: str) -> None:
    assert read_program(text).program == read_program("x@a").program


def test_reading_twice_gives_the_same() -> None:
    text = "h = softmax(x@w + b, dim=1); cat([h, h]).reshape(-1).norm()"
    assert read_program(text) == read_program(text)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", list(operations()), ids=lambda op: op.name)
def test_every_example_of_the_table_is_read(op: object) -> None:
    for example in op.examples:  # type: ignore[attr-defined]  # an Op, which fixtures hide
        program = read_program(example.text, shapes=dict(example.shapes)).program
        assert {t.name: program.numbers(t.shape) for t in program.inputs} == dict(example.shapes)


# What is inferred -----------------------------------------------------------------------------------

INFERRED = [
    # text, the output's shape if it is known, the shapes of the inputs in order of appearance
    ("x@a", (2, 4), [(2, 3), (3, 4)]),
    ("x@a", None, [(2, 3), (3, 4)]),
    ("x@a", (4,), [(4, 3), (3,)]),
    ("x@a", (), [(2,), (2,)]),
    ("x@a", (5, 6, 7), [(5, 6, 4), (4, 7)]),
    ("torch.mm(x, a)", (2, 4), [(2, 3), (3, 4)]),
    ("softmax(x)", None, [(2,)]),
    ("softmax(x)", (3, 2), [(3, 2)]),
    ("softmax(x, dim=1)", None, [(2, 3)]),
    ("x@w + b", None, [(2, 3), (3, 4), (4,)]),
    ("x@w + b", (2, 5), [(2, 3), (3, 5), (5,)]),
    ("x@w + b", (5,), [(5, 3), (3,), (5,)]),
    ("h = relu(x@w + b); h @ w2 + b2", (1, 7), [(1, 2), (2, 3), (3,), (3, 7), (7,)]),
    ("x * y", None, [(2,), (2,)]),
    ("x + b", (2, 3), [(2, 3), (3,)]),
    ("x + y", (), [(), ()]),
    ("x.T @ x", None, [(2, 3)]),
    ("x @ x.T", (3, 3), [(3, 3)]),
    ("x @ w @ x", (), [(2,), (2, 2)]),
    ("outer(x, y)", (2, 5), [(2,), (5,)]),
    ("x.permute(0, 2, 1)", None, [(2, 3, 4)]),
    ('einsum("bij,bjk->bik", x, a)', (2, 3, 5), [(2, 3, 4), (2, 4, 5)]),
    ("cat([x, y])", (5,), [(2,), (3,)]),
    ("cat([x, y])", (2,), [(1,), (1,)]),
    ("x[3]", None, [(4,)]),
    ("x[:, 5]", None, [(2, 6)]),
    ("x[1:4]", None, [(4,)]),
    ("x[::2]", None, [(3,)]),
    ("x[::2]", (3,), [(5,)]),
    ("x[:-2]", None, [(3,)]),
    ("x.reshape(2, -1)", None, [(2,)]),
    ("x.reshape(-1, 3)", None, [(3,)]),
    ("x.reshape(3, 5)", None, [(15,)]),
    ("(x@a).reshape(3, 5)", None, [(3, 3), (3, 5)]),
    ("x.expand(2, 3)", None, [(3,)]),
    ("x.flatten(1)", (2, 6), [(2, 6)]),
    ("mse_loss(x, y)", (), [(2,), (2,)]),
    ("cross_entropy(x, y)", None, [(2, 3), (2,)]),
    ("mse_loss(x @ w, y)", None, [(2, 3), (3,), (2,)]),
    ("F.l1_loss(x[:, 0], y)", None, [(2, 3), (2,)]),
    ("F.huber_loss(x.exp().mm(w), y)", None, [(2, 3), (3, 4), (2, 4)]),
    ("layer_norm(x, (3,))", None, [(3,)]),
    ("x.mT @ y", None, [(2, 3), (2, 4)]),
    ("where(x > 0, x, y)", (2, 2), [(2, 2), (2,)]),
    ("sum(x)", None, [(2,)]),
    ("x.sum(1)", None, [(2, 3)]),
    ("x[:, :, 0]", None, [(2, 3, 4)]),
    ("x.shape[1] * x", None, [(2, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "out_shape", "expected"), INFERRED, ids=[f"{i[0]} {i[1]}" for i in INFERRED])
def test_inference(text: str, out_shape: tuple[int, ...] | None, expected: list[tuple[int, ...]]) -> None:
    program = read_program(text, out_shape=out_shape).program
    assert [program.numbers(t.shape) for t in program.inputs] == expected
    if out_shape is not None:
        assert program.numbers(program.out.shape) == out_shape


def test_what_was_assumed_is_said() -> None:
    reading = read_program("x@a", out_shape=(2, 4))
    assert reading.assumed_sizes == (("x", 1, 3), ("a", 0, 3))
    assert reading.assumed_ranks == ()
    reading = read_program("x@a", shapes={"x": (2, 3)})
    assert (reading.assumed_sizes, reading.assumed_ranks) == ((("a", 1, 4),), (("a", 2),))
    assert read_program("x@a", shapes={"x": (2, 3), "a": (3, 4)}).assumed_sizes == ()
    assert read_program("softmax(x)").assumed_ranks == (("x", 1),)
    assert read_program("x.T").assumed_ranks == ()


def test_a_size_that_turns_out_small_counts_for_what_was_read_before() -> None:
    program = read_program("x[:5] + 0 * (y@x)", shapes={"y": (3,)}).program
    assert program.numbers(program.out.shape) == (3,)


def test_constants_made_of_sizes_are_numbers_in_the_end() -> None:
    assert read_program("x * (x.shape[0] - 1)**0.5", shapes={"x": (5,)}).program.numbers(()) == ()
    with pytest.raises(SymgradError, match="this constant is not a finite real number"):
        read_program("x * (1 - x.shape[0])**0.5", shapes={"x": (5,)})


def test_a_rank_has_to_suit_every_use() -> None:
    script = parse_script(SourceText("diag(x) + x.T + mm(a, b)"))
    assert candidate_ranks(script, find_names(script)) == {"x": ((2, 2),), "a": ((2, 0),), "b": ((2, 0),)}


def test_letters_are_sizes_that_are_equal_where_the_letter_is() -> None:
    program = read_program("x@a + y", shapes={"x": ("n", 3), "a": (3, "n"), "y": ("k", "n")}, out_shape=(5, 5)).program
    assert [program.numbers(t.shape) for t in program.inputs] == [(5, 3), (3, 5), (5, 5)]
    program = read_program("x@a", shapes={"x": ("n", "n"), "a": (3, 4)}, out_shape=(2, 4)).program
    assert program.numbers(program.out.shape) == (3, 4)
    reading = read_program("x@a", shapes={"x": ("n", "k")})
    assert reading.assumed_sizes == (("x", 0, 2), ("x", 1, 3), ("a", 0, 3), ("a", 1, 4))


def test_an_output_shape_that_cannot_be_is_left_to_the_caller() -> None:
    program = read_program("x@a", shapes={"x": (2, 3), "a": (3, 4)}, out_shape=(4, 2)).program
    assert program.numbers(program.out.shape) == (2, 4)
    program = read_program("sum(x)", out_shape=(2, 3)).program
    assert program.numbers(program.out.shape) == ()


def test_no_size_is_inferred_to_be_0() -> None:
    program = read_program("cat([a, b])", shapes={"a": (2,)}, out_shape=(2,)).program
    assert all(n > 0 for t in program.tensors() for n in program.numbers(t.shape))


@pytest.mark.slow
def test_equations_in_many_sizes_take_no_long_time() -> None:
    started = time.process_time()
    read_program(f"cat([{', '.join(f'x{n}' for n in range(400))}])", out_shape=(3,))
    assert time.process_time() - started < 5


def test_sizes_of_a_program_are_not_taken_for_new_ones() -> None:
    known = [sp.Symbol(letter, integer=True, positive=True) for letter in "mc"]
    sizes = Sizes.of(known, {})
    assert not {sizes.fresh() for _ in range(9)} & set(known)


def test_symbolic_programs_have_letters_in_order_and_no_numbers() -> None:
    program = read_program("y = relu(x@w + b); y @ u", symbolic=True).program
    assert dict(program.sizes) == {}
    assert [tuple(map(str, t.shape)) for t in program.inputs] == [("m", "n"), ("n", "h"), ("h",), ("h", "c")]


def test_a_size_is_not_called_like_a_tensor() -> None:
    program = read_program("n = m@x; n@h", symbolic=True).program
    assert [tuple(map(str, t.shape)) for t in program.inputs] == [("c", "d"), ("d", "e"), ("e", "f")]


def test_the_sizes_0_and_1_stay_literal() -> None:
    program = read_program("x * y", shapes={"x": (1, 3), "y": (0, 1)}).program
    assert program.inputs[0].shape[0] == 1
    assert program.numbers(program.out.shape) == (0, 3)


def test_ranks_are_tried_in_order_of_likeliness_and_each_once() -> None:
    choices = [tuple(a.values()) for a in rank_assignments(dict.fromkeys("xyz", ((1, 0), (2, 2), (0, 4))))]
    costs = [sum({1: 0, 2: 2, 0: 4}[r] for r in choice) for choice in choices]
    assert len(set(choices)) == len(choices) == 27
    assert costs == sorted(costs)
    assert choices[1] == (2, 1, 1)


# What is made of simpler operations -----------------------------------------------------------------

COMPOSITE = [op for op in operations() if op.expands]


@pytest.mark.parametrize("op", COMPOSITE, ids=lambda op: op.name)
def test_a_composite_operation_is_what_its_expansion_computes(op: object) -> None:
    for example in op.examples:  # type: ignore[attr-defined]  # an Op, which fixtures hide
        program = read_program(example.text, shapes=dict(example.shapes)).program
        simple = expand_composites(program)
        generator = np.random.default_rng(0)
        tensors = [torch.tensor(generator.uniform(0.2, 2, program.numbers(t.shape))) for t in program.inputs]
        classes = read_as_whole(program)
        tensors = [t.round() if x.name in classes else t for x, t in zip(program.inputs, tensors, strict=True)]
        assert_same(function_of(program)(*tensors), function_of(simple)(*tensors), seed=0, what=example.text)
        assert simple.out == program.out


def test_expansion_goes_on_until_nothing_composite_is_left() -> None:
    program = expand_composites(read_program("y * silu(x)").program)
    assert [step.op for step in program.steps] == ["neg", "exp", "add", "div", "mul", "mul"]
    assert {step.span for step in program.steps[:-1]} == {(4, 11)}
    simple = read_program("x@a").program
    assert expand_composites(simple) is simple


def test_expansion_needs_no_numbers() -> None:
    program = expand_composites(read_program("log_softmax(x@w, dim=1)", symbolic=True).program)
    assert [step.op for step in program.steps] == ["matmul", "exp", "sum", "log", "expand", "sub"]
    assert {str(s) for t in program.tensors() for size in t.shape for s in size.free_symbols} == {"m", "n", "h"}


def test_an_expansion_that_ignores_an_option_holds_for_its_default_only() -> None:
    names = {step.op for step in expand_composites(read_program("mse_loss(x, y, reduction='sum')").program).steps}
    assert "mean" not in names


# Any text at all ------------------------------------------------------------------------------------

WORDS = st.sampled_from(
    [
        *"xabwhv", "out", "softmax", "relu", "torch.", "F.", "np.", "math.", "sum", "mean", "exp", "cat", "stack",
        "einsum", "max", "norm", "var", "x.", ".T", ".shape", ".reshape", ".view", ".permute", ".expand", ".values",
        *"()[]()[],:=<+-*/%@.; \n", "==", "//", "**", "...", "0", "1", "2", "-1", "0.5", "1e9", "999999", "True",
        "None", "'ij,jk->ik'", "'mean'", "dim=", "keepdim=", "lambda ", "__import__('os')", "eval(",
        "\0", "\ud800", "\ufeff",
        *"é²−#\\'\"{`$",
    ]
)  # fmt: skip

NAMES = st.sampled_from(["x", "y", "a", "b"])
CONSTANTS = st.sampled_from(["2", "-1", "0.5", "1/3", "x.shape[0]", "len(y)", "math.sqrt(2)", "a.numel()"])
INDICES = st.sampled_from(
    ["0", "-1", ":", "1:", ":-1", "::2", "...", "None", "1:3", "5", ":x.shape[0]//2", "3:1", "0:0"]
)
FUNCTIONS = st.sampled_from(
    sorted({s.replace("Tensor.", "torch.Tensor.") for op in operations() for s in (op.name, *op.spellings)})
)
COMMON = st.sampled_from(
    [
        "exp", "torch.tanh", "F.relu", "np.abs", "torch.maximum", "where", "sum", "mean", "amax", "torch.prod", "diag",
        "logsumexp", "softmax", "torch.mm", "torch.Tensor.mv", "dot", "outer", "trace", "matmul", "stack",
        "permute", "transpose", "torch.Tensor.T", "reshape", "torch.flatten", "unsqueeze", "squeeze",
    ]
)  # fmt: skip
OPTIONS = st.sampled_from(
    [
        "0", "1", "-1", "-9", "10**17", "0.5", "True", "None", "(0, 1)", "(1, 0)", "(2, -1)", "(1.5,)", "()", "'mean'",
        "'none'", "x", "x.shape", "dim=0", "dim=1", "dim=-1", "keepdim=True", "axis=0", "correction=0", "p=1",
        "reduction='sum'", "min=0", "shape=(3, -1)", "dims=(1, 0)",
    ]
)  # fmt: skip


def larger(inner: st.SearchStrategy[str], functions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of smaller ones, plausible more often than right."""
    signs = st.sampled_from(["+", "-", "*", "/", "@", "**", "<", "=="])
    calls = st.builds(
        lambda f, operands, options: f"{f}({', '.join([*operands, *options])})",
        functions,
        st.lists(inner, min_size=1, max_size=2),
        st.one_of(st.just([]), st.lists(OPTIONS, max_size=2)),
    )
    return st.one_of(
        calls,
        calls,
        st.builds("({} {} {})".format, inner, signs, inner),
        st.builds("({} {} {})".format, inner, signs, CONSTANTS),
        st.builds("(-{})".format, inner),
        st.builds("{}[{}]".format, inner, st.lists(INDICES, min_size=1, max_size=3).map(", ".join)),
        st.builds("{}.{}".format, inner, st.sampled_from(["T", "mT", "mT", "shape[0]", "values"])),
        st.builds("cat([{}, {}], {})".format, inner, inner, st.sampled_from(["0", "1", "-1", "x", "(0,)"])),
        st.builds("einsum({}, {}, {})".format, st.sampled_from(["'ij,jk->ik'", "'i,i->'", "'ij,j'"]), inner, inner),
    )


EXPRESSIONS = st.recursive(NAMES, lambda inner: larger(inner, COMMON), max_leaves=6)
ANYTHING = st.recursive(NAMES, lambda inner: larger(inner, FUNCTIONS), max_leaves=6)
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=30).map("".join), ANYTHING)
WAYS = st.sampled_from(
    [{}, {"out_shape": (2, 3)}, {"out_shape": ()}, {"symbolic": True}, {"shapes": {"x": (2, 3)}}, {"output": LOSSES}]
)

watching: list[str] = []
active = False


def audit(event: str, arguments: tuple[object, ...]) -> None:
    """Notes code that comes from a text; modules that SymPy loads late come from files, and trees do not run."""
    if not active:
        return
    runs = event == "exec" and getattr(arguments[0], "co_filename", "").startswith("<string>")
    compiles = event == "compile" and arguments[1] == "<string>"
    if runs or compiles or event in ("os.system", "os.exec", "subprocess.Popen", "pickle.find_class"):
        watching.append(event)


listening = cache(lambda: sys.addaudithook(audit))
AUDITED = pytest.mark.xdist_group("language: audit")
"""A hook stays for as long as the process: the tests that need it share one, which has it from the first of them on."""


def watched(text: str, way: dict) -> ParsedProgram | str:
    """The reading of ``text``, or the kind of its error, under the eyes of the audit hook."""
    global active
    listening()
    watching.clear()
    active = True
    gc.disable()  # a large process spends seconds on a collection, and they are not the text's
    try:
        return read_program(text, **way)
    except SymgradError as error:
        active = False
        places = error.span is None or 0 <= error.span[0] <= error.span[1] <= len(text)
        return error.kind if places and str(error) else "an error without a message, or beside the text"
    finally:
        active = False
        gc.enable()


@AUDITED
@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(4))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXTS, way=WAYS)
def test_any_text_gives_a_reading_or_a_symgrad_error_soon_and_runs_nothing(part: int, text: str, way: dict) -> None:
    """Each part draws its own."""
    started = time.process_time()
    result = watched(text, way)
    assert time.process_time() - started < 2
    assert not watching
    if isinstance(result, ParsedProgram):
        check(result)
    else:
        assert result in ("syntax", "name", "shape", "value", "domain", "unsupported")


@AUDITED
@pytest.mark.parametrize("slip", [lambda: exec("1 + 1"), lambda: sp.sympify("x + 1")])
def test_the_audit_sees_what_runs(slip: Callable[[], object]) -> None:
    global active
    listening()
    watching.clear()
    active = True
    try:
        slip()
    finally:
        active = False
    assert watching


def check(reading: ParsedProgram) -> None:
    """What holds of every reading: steps have places, and sizes are whole numbers if they are numbers at all."""
    program: Program = reading.program
    for tensor in program.tensors():
        if program.sizes:
            assert all(n >= 0 for n in program.numbers(tensor.shape))
    for step in program.steps:
        assert step.span is not None
        assert hash(step.options) is not None
    expand_composites(program)


@settings(max_examples=150)
@given(EXPRESSIONS)
def test_what_is_read_has_the_shape_that_torch_gives_it(text: str) -> None:
    try:
        program = read_program(text).program
    except SymgradError:
        return
    assume(all(0 not in program.numbers(t.shape) for t in program.tensors()))  # torch has no max of nothing
    generator = np.random.default_rng(0)
    inputs = [torch.tensor(generator.uniform(0.5, 2, program.numbers(t.shape))) for t in program.inputs]
    out = function_of(program)(*inputs)
    assert tuple(out.shape) == program.numbers(program.out.shape)


@given(ANYTHING)
def test_a_reading_is_the_reading_of_its_own_shapes(text: str) -> None:
    try:
        program = read_program(text).program
    except SymgradError:
        return
    shapes = {t.name: program.numbers(t.shape) for t in program.inputs}
    again = read_program(text, shapes=shapes).program
    assert [t.name for t in again.tensors()] == [t.name for t in program.tensors()]
    assert [again.numbers(t.shape) for t in again.tensors()] == [program.numbers(t.shape) for t in program.tensors()]


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


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (LENGTH, DEPTH) == (4_000, 100)
    assert math.isclose(parse_value("0.5").array(()), 0.5)


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("x[5:]", 6), ("x[-4:]", 4), ("x[3:-2]", 6), ("x[:7]", 7), ("x[-9:-8]", 9), ("narrow(x, 0, 1, 2)", 3),
        ("select(x, 0, 4)", 5), ("x.unfold(0, 3, 1)", 3), ("narrow(x, 0, 5000, 2)", 5002),
    ],
)  # fmt: skip
def test_an_input_of_no_given_size_is_long_enough_for_what_is_kept_of_it(text: str, least: int) -> None:
    found = symgrad.explain(text, check=False)
    assert found.output.size
    assert found.gradients["x"].value.shape[0] >= least


@pytest.mark.parametrize(("axes", "refused"), [(16, False), (17, True), (20, True)])
def test_a_result_has_at_most_sixteen_axes(axes: int, refused: bool) -> None:
    text = f"x.reshape({', '.join('1' for _ in range(axes))})"
    if refused:
        with pytest.raises(UnsupportedError, match=f"{axes} axes, more than 16"):
            read_program(text, shapes={"x": (1,)})
    else:
        assert len(read_program(text, shapes={"x": (1,)}).program.out.shape) == axes


def test_python_s_word_for_nothing_more_than_invalid_is_not_repeated() -> None:
    with pytest.raises(SymgradError) as caught:
        read_program("x @@ a")
    assert caught.value.found == ()
