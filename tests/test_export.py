"""Exported source: read back, run by its library, and held by `check_backward` like anybody's backward.

It imports nothing of symgrad's, is clean under ruff, and is right when it is differentiated twice; what of the table
cannot be exported is refused with a reason.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch.nn import functional as F

import symgrad
from symgrad.errors import InputError, ShapeError, SymgradError, UnsupportedError
from symgrad.language.trees import read_form
from symgrad.testing import check_backward
from symgrad_cli.main import main
from tests import torch_side
from tests.cases import Case, cases, first_by_default
from tests.compare import assert_same
from tests.exports_run import drawn, run_of

MLP = "relu(x@W1.T + b1)@W2.T + b2"
ATTENTION = "softmax(q@k.T/sqrt(4), dim=-1)@u"
PROGRAMS: dict[str, dict[str, tuple[int, ...]]] = {
    MLP: {"x": (5, 4), "W1": (6, 4), "b1": (6,), "W2": (3, 6), "b2": (3,)},
    ATTENTION: {"q": (3, 4), "k": (5, 4), "u": (5, 2)},
    "layer_norm(x, (4,), w, b)": {"x": (3, 4), "w": (4,), "b": (4,)},
    "h = tanh(x@w); h * softmax(h, dim=0)": {"x": (3, 2), "w": (2, 4)},
    "x[:, 1:] * y.T": {"x": (2, 4), "y": (3, 2)},
    "F.gelu(x, approximate='tanh')": {"x": (3, 4)},
    "(x - x.mean(1, keepdim=True)).square().sum()": {"x": (3, 4)},
    "x[:, 1::2] * y": {"x": (2, 5), "y": (2, 2)},
}
REFUSED = ("zeros_like", "ones_like", "pdist", "quantile", "i1", "interpolate", "grid_sample", "np_dot", "lu_factors")
"""Operations of which an example or all have no code, or nothing flows back."""
OTHERWISE = (
    "view_as_complex",
    "kron(x",
    "take_along_dim(x, indices)",
    "eigenvectors",
    "svd(",
)
"""Texts whose forward pass torch does not run as it stands, or not in every layout, or not to the same vectors."""


@pytest.mark.one_in(400)
@pytest.mark.parametrize("case", first_by_default(others="night"))
def test_what_is_exported_of_the_table_passes_the_check_of_a_backward(case: Case) -> None:
    """One example of each operation: what is exported of all gives the pullback in `test_lines_of_the_table`."""
    try:
        source = symgrad.export(case.example.text, shapes=case.shapes)
    except UnsupportedError as error:
        assert case.op.name.startswith(REFUSED) or not torch_side.known_to_torch(case.example.text), error
        return
    assert "symgrad" not in "".join(re.findall(r"^(?:import|from) .*", source, re.MULTILINE))
    assert sum(map(source.count, ("torch.arange(", "torch.eye("))) == source.count(".device)")
    if any(part in case.example.text for part in OTHERWISE):
        return
    inputs = {}
    for name, array in case.inputs.items():
        whole = name in case.fixed and bool(np.all(np.asarray(array) == np.round(np.asarray(array, float))))
        tensor = torch.tensor(np.asarray(array, float))
        inputs[name] = tensor.long() if whole else tensor
    exported = run_of(source)
    given = {name: inputs[name] for name in inspect.signature(exported).parameters}
    assert check_backward(exported, case.example.text, order=2, **given).passed


LENGTHS = [("out[i,j] = sqrt(sum_{r<2,s<2} x[i+r,j+s]^2)", (3, 4)), ("x / x.norm(dim=(0, 2), keepdim=True)", (2, 3, 4))]
"""Along indices that windows share with their places, and of planes."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "shape"), LENGTHS)
def test_lengths_along_two_of_several_axes_have_code(text: str, shape: tuple[int, ...]) -> None:
    assert check_backward(run_of(symgrad.export(text, shapes={"x": shape})), text, **drawn({"x": shape})).passed


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", PROGRAMS)
def test_an_exported_program_passes_twice_differentiated(text: str) -> None:
    shapes = PROGRAMS[text]
    source = symgrad.export(text, shapes=shapes)
    report = check_backward(run_of(source), text, order=2, **drawn(shapes))
    assert report.passed, report.to_text()
    assert [b.verdict for b in report.batteries if b.name == "double_backward"] == ["passed"]
    functions = symgrad.export(text, shapes=shapes, style="functions", name="own")
    inputs = drawn(shapes)
    seed = torch.ones_like(run_of(functions, "own")(*inputs.values()))
    leaves = [t.clone().requires_grad_() for t in inputs.values()]
    expected = torch.autograd.grad(run_of(source)(*leaves), leaves, seed)
    found = run_of(functions)(seed, *inputs.values())
    for one, other in zip(expected, found if isinstance(found, tuple) else (found,), strict=True):
        assert_same(one, other, what=text)


EQUATIONS: dict[str, tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]] = {
    "out[i] = sum_j x[i+j]*w[j]": ({"x": (7,), "w": (3,)}, {"x": (5,), "w": (2,)}),
    "out[i] = sum_j x[2*i+j]*w[j]": ({"x": (8,), "w": (2,)}, {"x": (7,), "w": (3,)}),
    "out[i,k] = sum_j x[i,j]*exp(w[j,k])": ({"x": (2, 3), "w": (3, 4)}, {"x": (3, 2), "w": (2, 2)}),
    "out[i] = exp(x[i]) / sum_k exp(x[k])": ({"x": (4,)}, {"x": (3,)}),
    "out[i,j] = (x[i] - y[j])^2": ({"x": (3,), "y": (2,)}, {"x": (2,), "y": (4,)}),
    "out[i] = i * x[i]": ({"x": (4,)}, {"x": (2,)}),
    "out = sum_i x[i,i]": ({"x": (3, 3)}, {"x": (2, 2)}),
    "out[i,j] = x[j,i] * y[i]": ({"x": (3, 2), "y": (2,)}, {"x": (2, 4), "y": (4,)}),
    "h[i] = sum_j W[i,j]*x[j]; out[i] = tanh(h[i])": ({"W": (2, 3), "x": (3,)}, {"W": (3, 2), "x": (2,)}),
    "out[b,i] = sum_j A[i,j]*x[b,j] + c[i]": (
        {"A": (2, 3), "x": (4, 3), "c": (2,)}, {"A": (3, 2), "x": (2, 2), "c": (3,)},
    ),
}  # fmt: skip


@pytest.mark.one_in(10)
@pytest.mark.parametrize("to", ["torch", "numpy"])
@pytest.mark.parametrize("text", EQUATIONS)
def test_an_equation_of_ones_own_is_exported_and_holds_at_other_sizes(text: str, to: str) -> None:
    first, second = EQUATIONS[text]
    source = symgrad.export(text, to=to, name="own")
    assert symgrad.export(text, to=to, name="own", shapes=first).partition("def ")[0] == source.partition("def ")[0]
    for shapes in (first, second):
        inputs: dict[str, Any] = drawn(shapes)
        if to == "torch":
            report = check_backward(run_of(source), text, order=2, **inputs)
        else:
            pair = run_of(source, "own"), run_of(source, "own_backward")
            report = check_backward(pair, text, **{n: t.numpy() for n, t in inputs.items()})
        assert report.passed, report.to_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("to", ["torch", "numpy"])
@pytest.mark.parametrize("text", ["out[i,k] = [i≠k]/(x[i]-x[k])", "out[i] = sum_k [i≠k]/(x[i]-x[k])"])
def test_where_two_entries_are_equal_the_source_says_what_the_page_says(text: str, to: str) -> None:
    source, x = symgrad.export(text, to=to, name="own"), np.array([1.0, 1.0, 2.0])
    with np.errstate(divide="ignore"):
        out = run_of(source, "own")(torch.from_numpy(x) if to == "torch" else x)
    found = symgrad.explain(text, x=x)
    assert_same(found.output, out, what=text)
    assert np.isinf(found.output).any()
    assert to == "numpy" or "torch.eye(x.shape[0], device=x.device)" in source


def test_what_an_equation_computes_is_not_written_where_it_was_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another text than the right one, as a slip of the writer's would give: refused, not printed."""
    monkeypatch.setattr("symgrad.backward.forward_lines.write_step", lambda *_: read_form("x[arange(2)] * w.sum()"))
    with pytest.raises(UnsupportedError, match="out has no code"):
        symgrad.export("out[i] = sum_j x[i+j]*w[j]", shapes={"x": (4,), "w": (3,)})


def test_what_was_saved_on_the_way_is_computed_again_for_the_second_derivative() -> None:
    source = symgrad.export(ATTENTION, shapes=PROGRAMS[ATTENTION])
    broken = source.replace("if torch.is_grad_enabled():", "if False:")
    assert broken != source
    inputs = drawn(PROGRAMS[ATTENTION])
    assert check_backward(run_of(broken), ATTENTION, **inputs).passed
    found = check_backward(run_of(broken), ATTENTION, order=2, **inputs).findings
    assert [f.kind for f in found] == ["double_backward"]


@pytest.mark.parametrize(
    ("text", "shapes", "saved"),
    [
        ("softmax(x, dim=-1)", {"x": (3, 4)}, "ctx.save_for_backward(out)"),
        ("x.sum(0)", {"x": (3, 4)}, "ctx.x_shape = x.shape"),
        ("x @ a", {"x": (3, 4), "a": (4, 2)}, "ctx.save_for_backward(x, a)"),
        ("x + y", {"x": (3,), "y": (3,)}, "pass"),
        (ATTENTION, PROGRAMS[ATTENTION], "ctx.save_for_backward(q, k, u, t4)"),
        ("h = x.T; tanh(h @ w)", {"x": (2, 3), "w": (2, 2)}, "ctx.save_for_backward(x, w, out)"),
    ],
)
def test_only_what_the_pullback_mentions_is_saved(text: str, shapes: dict[str, tuple[int, ...]], saved: str) -> None:
    lines = [line.strip() for line in symgrad.export(text, shapes=shapes).splitlines()]
    assert saved in lines
    assert sum("save_for_backward" in line or line.startswith("ctx.x_shape") for line in lines) == (saved != "pass")


def test_a_function_that_was_exported_goes_through_torchs_transforms() -> None:
    softmax = run_of(symgrad.export("softmax(x, dim=-1)", shapes={"x": (3, 4)}))
    x = drawn({"x": (2, 3, 4)})["x"]
    assert_same(torch.softmax(x, -1), torch.func.vmap(softmax)(x))

    def loss(f: Any) -> Any:
        return torch.func.grad(lambda t: (f(t) ** 2).sum())

    assert_same(loss(lambda t: torch.softmax(t, -1))(x[0]), loss(softmax)(x[0]))

    def twice(f: Any) -> Any:
        return torch.func.jacrev(torch.func.jacrev(lambda t: (f(t) ** 3).sum()))

    assert_same(twice(lambda t: torch.softmax(t, -1))(x[0]), twice(softmax)(x[0]))


ENDS = [
    *("h", "+h", "h.clone()", "h.contiguous()", "h.double()", "h.real", "h.type_as(h)", "F.dropout(h, 0.)", "y = h; y"),
    *("h.flatten()", "h.ravel()", "h[:]", "h.reshape(6)", "h.expand(6)", "h.movedim(0, 0)", "h.flip(0)", "h[None]"),
]
"""What a text may end in after its last operation: the same tensor, the same in a new shape, or what torch makes so."""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("begin", ["h = tanh(x)", "h = softmax(x, dim=0)", "h = x * 1"])
def test_what_ends_in_a_name_keeps_its_gradient(begin: str, end: str) -> None:
    """The output and what is saved on the way were one tensor; marking that as without derivative cut the graph."""
    own = run_of(symgrad.export(f"{begin}; {end}", shapes={"x": (6,)}))
    found, expected = [], []
    for leaf, function, got in ((drawn({"x": (6,)})["x"], own, found), (drawn({"x": (6,)})["x"], None, expected)):
        leaf.requires_grad_()
        out = function(leaf) if function else torch_side.evaluate(f"{begin}; {end}", {"x": leaf})
        loss = leaf.sum() + (out**3).sum()  # beside another path nothing raises where the graph is cut
        (first,) = torch.autograd.grad(loss, leaf, create_graph=True)
        got += [out.detach(), first.detach(), *torch.autograd.grad((first**2).sum(), leaf)]
    for one, other in zip(expected, found, strict=True):
        assert_same(one, other, what=f"{begin}; {end}")


def test_outputs_that_are_one_tensor_have_each_its_gradient() -> None:
    def several(x: Any) -> Any:
        h = torch.tanh(x)
        return h, h.clone(), h.flatten(), x, x.clone()

    x = drawn({"x": (4,)})["x"]
    own = run_of(symgrad.export(symgrad.capture(several, x), name="own"), "own")
    found, expected = (
        torch.autograd.grad(sum((n * out**2).sum() for n, out in enumerate(function(leaf), 1)), leaf)[0]
        for function, leaf in ((own, x.clone().requires_grad_()), (several, x.clone().requires_grad_()))
    )
    assert_same(expected, found)


def test_shapes_that_do_not_fit_are_refused_by_the_source_itself() -> None:
    linear = run_of(symgrad.export("linear(x, w, b)", shapes={"x": (3, 4), "w": (2, 4), "b": (2,)}))
    linear(torch.ones(7, 5), torch.ones(3, 5), torch.ones(3))
    for x, w, b in (((2, 3, 4), (2, 4), (2,)), ((3, 4), (2, 5), (2,)), ((3, 4), (2, 4), (1,))):
        with pytest.raises(ValueError, match=r"x: m×n, w: h×n, b: h"):
            linear(torch.ones(x), torch.ones(w), torch.ones(b))
    short = run_of(symgrad.export("x[:3]", shapes={"x": (5,)}))
    with pytest.raises(ValueError, match="takes x: m"):
        short(torch.ones(2))


def test_a_captured_program_is_exported_for_its_shapes() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 2).double()
    x = torch.randn(4, 3, dtype=torch.float64)
    program = symgrad.capture(lambda x: torch.tanh(layer(x)).square(), x)
    function = run_of(symgrad.export(program, name="own"), "own")
    given = [x, layer.weight.detach(), layer.bias.detach()]
    mine, theirs = ([t.clone().requires_grad_() for t in given] for _ in range(2))
    seed = torch.randn(4, 2, dtype=torch.float64)
    expected = torch.autograd.grad(torch.tanh(F.linear(*theirs)).square(), theirs, seed)
    for one, other in zip(expected, torch.autograd.grad(function(*mine), mine, seed), strict=True):
        assert_same(one, other)
    with pytest.raises(ValueError, match="4×3"):
        function(torch.ones(5, 3), *given[1:])


def test_several_outputs_have_a_seed_each() -> None:
    x = drawn({"x": (3, 2)})["x"]
    program = symgrad.capture(lambda x: (x.exp(), x.exp() * x), x)
    for style in ("class", "functions"):
        source = symgrad.export(program, style=style, name="own")
        outs = run_of(source, "own")(x)
        assert_same(x.exp(), outs[0])
        assert_same(x.exp() * x, outs[1])
    leaf = x.clone().requires_grad_()
    own = run_of(symgrad.export(program, name="own"), "own")
    (found,) = torch.autograd.grad(own(leaf), leaf, [torch.ones_like(x), 2 * torch.ones_like(x)])
    assert_same(x.exp() + 2 * (x.exp() * x + x.exp()), found)


NUMPY = [c for c in cases() if len(c.example.text) < 30]


@pytest.mark.one_in(180)
@pytest.mark.parametrize("case", NUMPY, ids=lambda case: case.name)
def test_what_is_exported_for_numpy_is_the_same_function_and_the_same_pullback(case: Case) -> None:
    try:
        source = symgrad.export(case.example.text, shapes=case.shapes, to="numpy", name="own")
    except SymgradError:
        return
    assert "torch" not in source.partition('"""\n')[2].replace(case.example.text, "").replace("torch's", "")
    inputs = [np.asarray(case.inputs[n], float if n not in case.fixed else None) for n in case.names]
    forward, backward = run_of(source, "own"), run_of(source, "own_backward")
    with np.errstate(all="ignore"):
        assert_same(case.output, forward(*inputs), what=case.name)
        (seed,) = case.weights(1)
        found = backward(np.asarray(seed, float), *inputs)
    names = [n for n in case.names if f"{n}_grad" in source.rpartition("return")[2]]
    expected = symgrad.numeric.numeric_pullback(case.program, case.values, seed, names)
    for name, got in zip(names, found if isinstance(found, tuple) else (found,), strict=True):
        assert_same(np.asarray(expected[name], float), got, what=f"{case.name}: {name}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", [t for t in PROGRAMS if "F." not in t])
def test_a_program_exported_for_numpy_passes_as_a_pair(text: str) -> None:
    shapes = PROGRAMS[text]
    source = symgrad.export(text, shapes=shapes, to="numpy", name="own")
    inputs = {name: tensor.numpy() for name, tensor in drawn(shapes).items()}
    report = check_backward((run_of(source, "own"), run_of(source, "own_backward")), text, **inputs)
    assert report.passed, report.to_text()


@pytest.fixture
def jax() -> Iterator[Any]:
    """jax in doubles, for one test: others of the process have its own default."""
    found = pytest.importorskip("jax")
    with found.enable_x64(True):
        yield found


@pytest.mark.slow  # jax takes two seconds to load and to compile
@pytest.mark.parametrize("text", ["gelu(x)", ATTENTION, "layer_norm(x, (4,), w, b)", "x[:, 1:] * y.T"])
def test_what_is_exported_for_jax_is_differentiated_once_and_twice_by_its_own_rule(text: str, jax: Any) -> None:
    shapes = PROGRAMS.get(text, {"x": (3, 4)})
    own = run_of(symgrad.export(text, shapes=shapes, to="jax", name="own"), "own_forward").__globals__["own"]
    theirs = run_of(symgrad.export(text, shapes=shapes), "")
    inputs = drawn(shapes)
    arrays = [jax.numpy.asarray(t.numpy()) for t in inputs.values()]
    places = tuple(range(len(arrays)))

    def first(f: Any, *given: Any) -> Any:
        return jax.grad(lambda *a: (f(*a) ** 2).sum(), argnums=places)(*given)

    leaves = [t.clone().requires_grad_() for t in inputs.values()]
    expected = torch.autograd.grad((theirs(*leaves) ** 2).sum(), leaves, create_graph=True)
    for one, other in zip(expected, first(own, *arrays), strict=True):
        assert_same(one, np.asarray(other), what=text)
    total = sum((g**2).sum() for g in expected)
    twice = jax.grad(lambda *a: sum((g**2).sum() for g in first(own, *a)), argnums=places)(*arrays)
    for one, other in zip(torch.autograd.grad(total, leaves), twice, strict=True):
        assert_same(one, np.asarray(other), what=f"{text}, twice")


@pytest.mark.slow
def test_what_is_exported_is_clean_under_ruff(tmp_path: Path) -> None:
    texts = {**PROGRAMS, "max(x)": {"x": (4,)}, "cumsum(x, 0)": {"x": (4,)}, "x.unfold(0, 2, 1)": {"x": (4,)}}
    for number, (text, shapes) in enumerate(texts.items()):
        for to in ("torch", "numpy", "jax"):
            try:
                (tmp_path / f"{to}_{number}.py").write_text(symgrad.export(text, shapes=shapes, to=to))
            except UnsupportedError:
                assert to != "torch"
    rules = "E,F,W,I,B,UP,C4,PIE,SIM,PGH,TID,S"
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--line-length=120", f"--select={rules}", "."]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ("x @ a", {"to": "tensorflow"}, InputError, "there is no library"),
        ("x @ a", {"style": "lambda"}, InputError, "there is no style"),
        ("x @ a", {"to": "numpy", "style": "class"}, InputError, "NumPy has no autograd"),
        ("x @ a", {"name": "class"}, InputError, "not a valid function name"),
        ("x @ a", {"wrt": "z"}, SymgradError, "no input 'z'"),
        ("ones_like(x)", {}, UnsupportedError, "no gradient flows back"),
        ("x @ a", {"shapes": {"x": (2, 3), "a": (2, 3)}}, ShapeError, "do not fit"),
        ("sort(x).values", {"to": "numpy"}, UnsupportedError, "counterpart in NumPy"),
        (3, {}, InputError, "expression"),
        ("x.float() * w", {}, UnsupportedError, r"x.float\(\) rounds"),
        ("(x.half() * w).sum()", {"to": "numpy"}, UnsupportedError, r"x.half\(\) rounds"),
        ("tanh(x @ w).to(torch.bfloat16)", {}, UnsupportedError, "rounds"),
        ("x.type(torch.float32) @ w", {"shapes": {"x": (2, 3), "w": (3, 4)}}, UnsupportedError, "rounds"),
    ],
)
def test_what_cannot_be_exported_is_refused_with_a_reason(
    arguments: Any, options: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        symgrad.export(arguments, **options)


def test_names_that_the_source_needs_itself_are_no_tensors() -> None:
    shapes = {"ctx": (3,), "output": (3,), "special": (3,)}
    own = run_of(symgrad.export("ctx * output * special", shapes=shapes, name="own"), "own")
    assert check_backward(own, "a * b * c", a=torch.rand(3), b=torch.rand(3), c=torch.rand(3)).passed


def test_the_command_writes_a_file_that_runs(tmp_path: Path) -> None:
    place = tmp_path / "softmax.py"
    arguments = ["code", "softmax(x, dim=-1)", "--shape", "x=3,4", "-o", str(place)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert check_backward(run_of(place.read_text()), "softmax(x, dim=-1)", x=torch.randn(3, 4)).passed
    printed = CliRunner().invoke(main, ["code", "x @ a", "--to", "numpy", "--forward"])
    assert "def matmul(x, a):" in printed.stdout
    assert "backward" not in printed.stdout
    wrong = CliRunner().invoke(main, ["code", "sort(x).values", "--to", "numpy"])
    assert wrong.exit_code == 2
    assert "counterpart" in wrong.stderr


def test_positions_in_array_operations_are_whole_numbers() -> None:
    """⌊i / 2⌋ of an index is ``arange(n) // 2``: torch looks nothing up at ``(arange(n) / 2).floor()``."""
    source = symgrad.export("F.conv3d(x, weight, stride=2)", shapes={"x": (1, 1, 4, 4, 3), "weight": (1, 1, 2, 2, 1)})
    assert "torch.arange(x.shape[4], device=v.device) // 2" in source
    assert ".floor()" not in source


def test_a_long_line_that_is_broken_reads_back_as_the_same_expression() -> None:
    from symgrad.exporting.parts import WIDTH, Assignment, write_statement
    from symgrad.language.python_text import read_python

    part = "(i[:, None] - n.shape[0] // 2 * j >= 0) & (some_rather_long_name < another_long_name)"
    texts = [
        f"where({part}, x[(2 * arange(n.shape[0]) + j)[:, None], {part}], -x ** 2)",
        f"({part} + v * w).sum((0, 1))[:, None].clamp(0, n.shape[0] // 2) @ x.T",
        f"a - (b - {part}) - c / (d / {part}) ** 2",
        f"(2 * {part})[:, None] + x.reshape(n, {part}, keepdim=True)",
    ]
    for text in texts:
        lines = write_statement(Assignment("y", read_python(text)))
        assert len(lines) > 2
        assert max(map(len, lines)) <= WIDTH + 16
        (statement,) = ast.parse("\n".join(lines)).body
        assert isinstance(statement, ast.Assign)
        assert ast.dump(statement.value) == ast.dump(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize("text", ["torch.special.ndtr(x).sum(0)", "mvlgamma(x + 9, 2)", "torch.exp(x).mean(1)"])
def test_methods_of_what_a_library_found_are_read(text: str) -> None:
    """`torch.polygamma(0, x).sum(0)` was exported as np.sum(0): its owner was taken for a module."""
    x = np.random.default_rng(3).normal(size=(2, 3))
    source = symgrad.export(text, shapes={"x": (2, 3)}, to="numpy", name="own")
    found = symgrad.explain(text, x=x, check=False)
    assert_same(found.output, run_of(source, "own")(x), what=source)
    assert_same(found.gradients["x"].value, run_of(source, "own_backward")(found.seed, x), what=source)


def test_what_is_0_over_0_at_every_number_counts_as_nothing() -> None:
    told = symgrad.export("x.std()", shapes={"x": (1,)})
    assert "out = nan" in told
    assert "counts as 0" not in told
    assert "x_grad = -1e30 * v" in symgrad.export("x * -1e30", shapes={"x": (2,)})


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x.squeeze(1)", {"x": (1, 2, 1)}),
        ("x.exp()", {"x": (0, 3)}),
        ("x.squeeze((0, 2)).exp()", {"x": (1, 2, 1)}),
        ("torch.linalg.solve(a, b)", {"a": (3, 3), "b": (2, 3, 2)}),
        ("torch.linalg.solve(a, b, left=False)", {"a": (3, 3), "b": (2, 2, 3)}),
        ("torch.cholesky_solve(b, a.tril())", {"a": (3, 3), "b": (2, 3, 2)}),
        ("F.one_hot(n, 4).double() @ w", {"n": (2,), "w": (4, 3)}),
        ("(w * F.one_hot(n, 4)).sum(-1)", {"n": (2,), "w": (4,)}),
        ("(w * F.one_hot(n, 4)).sum(-1) @ F.one_hot(n, 4).double()", {"n": (2,), "w": (4,)}),
    ],
)
def test_what_stays_broadcasts_or_is_counted_is_written_as_torch_takes_it(
    text: str, shapes: dict[str, tuple[int, ...]]
) -> None:
    """An axis that squeeze keeps, a matrix solved for a batch, classes in a product of matrices."""
    draw = np.random.default_rng(0)
    arrays = {name: draw.normal(size=shape) + (4 * np.eye(3) if name == "a" else 0) for name, shape in shapes.items()}
    arrays |= {name: np.array([1, 3]) for name in shapes if name == "n"}
    told = symgrad.explain(text, **arrays)
    assert told.passed
    assert ".grad" in told.to_text(width=200)
    scope: dict[str, Any] = {}
    exec(symgrad.export(text, shapes=shapes, name="own", style="functions"), scope)
    given = [torch.as_tensor(arrays[name]) for name in inspect.signature(scope["own"]).parameters]
    leaves = {n: torch.tensor(a, requires_grad=n != "n") for n, a in arrays.items()}
    out = torch_side.evaluate(text, leaves)
    assert_same(out.detach(), scope["own"](*given))
    weights = torch.as_tensor(draw.normal(size=tuple(out.shape)))
    expected = torch.autograd.grad(out, [leaf for leaf in leaves.values() if leaf.requires_grad], weights)
    found = scope["own_backward"](weights, *given)
    named = [n for n in inspect.signature(scope["own"]).parameters if n != "n"]
    got = dict(zip(named, found if isinstance(found, tuple) else (found,), strict=True))
    for name, gradient in zip([n for n in leaves if n != "n"], expected, strict=True):
        assert_same(gradient, got[name], what=name)


def test_the_docstring_of_a_text_of_several_lines_has_them_below_one_another() -> None:
    text = "h = x @ w\nfor n in range(2):\n    h = h * (n + 2)\nh.relu()"
    tree = ast.parse(symgrad.export(text, shapes={"x": (2, 3), "w": (3, 2)}))
    (kind,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert text in str(ast.get_docstring(kind)).replace("\n    ", "\n")
