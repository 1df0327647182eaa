"""What no text may say, and in which words it is refused: an error message is an interface, so the table is exact."""

import time

import pytest
import sympy as sp

from symgrad import ShapeError, SymgradError, UnsupportedError, explain
from symgrad.errors import Setting
from symgrad.language import read_program
from symgrad.language.constants import combine_constants

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
    ("cat(a, b)", "syntax", "b", "cat has too many arguments", "cat([x, y], dim=0)"),
    ("cat([])", "syntax", "cat([])", "cat needs a list of tensors", "cat([x, y], dim=0)"),
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
    ("with torch.no_grad(): y = x", "syntax", "with", "the Python keyword `with` is not allowed", "h.detach()"),
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
    ("x <", "syntax", "<", "this is not a valid expression", "an operand behind it: x < y"),
    ("x + * y", "syntax", "*", "this is not a valid expression", "an operand between + and *"),
    ("torch.cat(x, y)", "syntax", "y", "torch.cat has too many arguments", "torch.cat([x, y], dim=0)"),
    ("relu x", "syntax", "x", "this is not a valid expression", "relu(x) for a call, relu * x for a product"),
    ("sin(x)cos(x)", "syntax", "cos", "this is not a valid expression", "a sign in front of it: … * cos"),
    ("xᵀ @ a", "syntax", "xᵀ", "the name xᵀ is written in look-alike letters", "write x.T instead"),
    ("“x @ a”", "syntax", "“", "the character “ is not part of an expression", "leave it out"),
    ("‖x‖", "syntax", "‖", "the character ‖ is not part of an expression", "write norm(…) instead"),
    ("(x", "syntax", "(", "this ( is never closed", None),
    ("x)", "syntax", ")", "this ) closes nothing", None),
    ("exp(x]", "syntax", "]", "this ] does not close (", None),
    ("exp(x; y)", "syntax", ";", "a semicolon inside brackets", "comma"),
    ("x < y < z", "syntax", "x < y < z", "comparisons do not chain over tensors", "(0 < x) * (x < 1)"),
    ("f(**x)", "syntax", "**x", "** is not allowed among arguments", None),
    ("exp(*x)", "syntax", "*x", "* unpacks a list or a shape", "*x.shape"),
    ("lambda: x", "syntax", "lambda", "the Python keyword `lambda` is not allowed", "without `lambda x:`"),
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


RUN = [
    ("for k in x: y = k", "syntax", "for", "the Python keyword `for` is not allowed", "one after the other"),
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
    ("1j*x", "syntax", "1j", "1j is not a number here", "torch.complex(a, b)"),
]
"""No expressions: where a whole page is asked for, such lines are run as a script."""


def assert_refused(caught: SymgradError, text: str, kind: str, underlined: str, problem: str, hint: str | None) -> None:
    """The error has these words, and its place in the text."""
    assert (caught.kind, caught.problem) == (kind, problem)
    assert caught.span is not None
    assert text[slice(*caught.span)] == underlined
    assert caught.excerpt is not None
    if hint is not None:
        assert hint in " ".join(map(str, caught.hints))


@pytest.mark.parametrize(("text", "kind", "underlined", "problem", "hint"), BAD, ids=[ascii(b[0]) for b in BAD])
def test_bad_input(text: str, kind: str, underlined: str, problem: str, hint: str | None) -> None:
    with pytest.raises(SymgradError) as caught:
        explain(text)
    assert_refused(caught.value, text, kind, underlined, problem, hint)


@pytest.mark.parametrize(("text", "kind", "underlined", "problem", "hint"), RUN, ids=[ascii(b[0]) for b in RUN])
def test_bad_expressions(text: str, kind: str, underlined: str, problem: str, hint: str | None) -> None:
    with pytest.raises(SymgradError) as caught:
        read_program(text)
    assert_refused(caught.value, text, kind, underlined, problem, hint)


def test_shapes_that_do_not_fit_are_told_with_all_that_is_known() -> None:
    with pytest.raises(ShapeError) as caught:
        explain("softmax(A @ B)", shapes={"A": (2, 3), "B": (4, 5)})
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
        explain("(x@a) * b", shapes={"x": (2, 3), "a": (3, 4), "b": (5,)})
    assert caught.value.found == (
        "x@a is 2×4, b is a vector of 5",
        "4 is axis 1 of x@a, 5 is axis 0 of b",
        "so far x is 2×3, a is 3×4",
    )
    assert caught.value.hints == (Setting("shape", "b", "4"),)


def test_a_mismatch_is_between_two_operands_even_if_one_of_them_has_both_sizes() -> None:
    with pytest.raises(ShapeError) as caught:
        explain("x @ relu(x)", shapes={"x": (2, 3)})
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
        explain(text, shapes=shapes)
    assert caught.value.problem == problem
    assert caught.value.excerpt is not None


def test_a_shape_for_an_unknown_tensor_is_refused_with_the_close_match() -> None:
    with pytest.raises(SymgradError) as caught:
        explain("weight @ x", shapes={"wieght": (2, 3)})
    assert (caught.value.kind, caught.value.problem) == ("name", "the expression has no input wieght")
    assert caught.value.found == ("its inputs: weight, x",)
    assert caught.value.hints == ("did you mean weight?",)


@pytest.mark.parametrize("size", [-1, 1.5, True, None, "2", "a b", [2]])
def test_given_shapes_are_made_of_sizes(size: object) -> None:
    with pytest.raises(SymgradError) as caught:
        explain("x", shapes={"x": (size, 2)})  # type: ignore[dict-item]  # wrong on purpose
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


def test_text_beside_a_size_is_not_run() -> None:
    with pytest.raises(sp.SympifyError):
        combine_constants("+", sp.Symbol("n"), "__import__('os').getcwd()")
    with pytest.raises(SymgradError):
        explain("x * (x.shape[0] + '1')", shapes={"x": ("n",)})


def test_the_place_of_an_error_is_found_behind_other_letters_and_lines() -> None:
    with pytest.raises(SymgradError) as caught:
        explain("ß = x * 'ö'\n")
    assert caught.value.excerpt == "ß = x * 'ö'\n        ^^^"
    with pytest.raises(SymgradError) as caught:
        explain("h = x@é\nÄ + softmaks(h)")
    assert caught.value.excerpt == "Ä + softmaks(h)\n    ^^^^^^^^"


@pytest.mark.parametrize(("axes", "refused"), [(16, False), (17, True), (20, True)])
def test_a_result_has_at_most_sixteen_axes(axes: int, refused: bool) -> None:
    text = f"x.reshape({', '.join('1' for _ in range(axes))})"
    if refused:
        with pytest.raises(UnsupportedError, match=f"{axes} axes, more than 16"):
            explain(text, shapes={"x": (1,)})
    else:
        assert len(explain(text, shapes={"x": (1,)}).program.out.shape) == axes


def test_python_s_word_for_nothing_more_than_invalid_is_not_repeated() -> None:
    with pytest.raises(SymgradError) as caught:
        explain("x @@ a")
    assert caught.value.found == ()
