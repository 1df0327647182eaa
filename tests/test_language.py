"""Text → Program: what is read. It is held against Python itself: every text is also run as Python by torch."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch

import symgrad
from symgrad import ShapeError, SymgradError, operations
from symgrad.entries.spec import Rules, no_alignment
from symgrad.language import LOSSES, ParsedProgram, parse_value, read_program
from symgrad.language.tokens import DEPTH, LENGTH
from symgrad.ops import SPELLINGS, entry_named
from symgrad.program import Constant
from tests.compare import assert_same
from tests.torch_programs import function_of
from tests.torch_side import evaluate


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


def test_the_limits_are_those_of_the_documentation() -> None:
    assert (LENGTH, DEPTH) == (4_000, 100)
    assert math.isclose(parse_value("0.5").array(()), 0.5)
