"""The command line: what is printed where, exit statuses, files, and every kind of bad input."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import symgrad
from symgrad.documents import SitePage, operation_page, write_site
from symgrad.ops import Op
from symgrad.sphinx.operations import copied_whole
from symgrad_cli.main import main

FORUM = ("explain", "x@a", "--seed", "[[1,2,3,4],[5,6,7,8]]")


def run(*arguments: str) -> Result:
    """One call in this process; stdout and stderr apart."""
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("spelling", ["x@a", "torch.mm(x, a)", "x.matmul(a)", "np.matmul(x, a)"])
def test_the_forum_example_prints_10_and_26(spelling: str) -> None:
    """The one command that has to work, in every spelling, with no other flag."""
    result = run("explain", spelling, "--seed", "[[1,2,3,4],[5,6,7,8]]")
    assert result.exit_code == 0
    assert result.stderr == ""
    text = " ".join(result.stdout.split())
    assert "v @ a.T" in text
    assert "x.T @ v" in text
    assert "10 10 10" in text
    assert "26 26 26" in text
    assert "6 8 10 12" in text
    assert "grad can be implicitly created only for scalar outputs" in text


@pytest.mark.parametrize("text", ["-x*2", "-h@w", "-(x + 1)"])
def test_an_expression_may_begin_with_a_minus(text: str) -> None:
    given, other = run("explain", text, "--brief", "--no-check"), run("explain", "--brief", "--no-check", "--", text)
    assert given.exit_code == 0
    assert given.stdout == other.stdout


def test_a_number_below_0_is_a_seed() -> None:
    assert "-6" in run("explain", "x*3", "--let", "x=1", "--seed", "-2").stdout


@pytest.mark.parametrize("verb", [(), ("explain",), ("run",)])
def test_help_is_a_verb_too(verb: tuple[str, ...]) -> None:
    assert run("help", *verb).stdout == run(*verb, "--help").stdout


def test_json_holds_the_same_numbers() -> None:
    """A machine reads what a person reads."""
    result = run(*FORUM, "--format", "json")
    assert result.exit_code == 0
    story = json.loads(result.stdout)
    assert story["gradients"]["x"]["value"] == [[10, 10, 10], [26, 26, 26]]
    assert story["gradients"]["x"]["closed_form"] == "v @ a.T"
    assert story["passed"] is True


@pytest.mark.one_in(2)
@pytest.mark.parametrize("style", ["text", "markdown", "latex", "json"])
def test_a_file_holds_what_the_terminal_shows(style: str, tmp_path: Path) -> None:
    """-o writes the same, whole, and leaves nothing else behind."""
    target = tmp_path / "out"
    written = run(*FORUM, "--format", style, "-o", str(target))
    shown = run(*FORUM, "--format", style, "--no-color") if style == "text" else run(*FORUM, "--format", style)
    assert written.exit_code == 0
    assert written.stdout == ""
    assert target.read_text(encoding="utf-8") == shown.stdout
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("p.html", "<!DOCTYPE html>"),
        ("p.HTM", "<!DOCTYPE html>"),
        ("p.svg", "<svg"),
        ("p.json", "{"),
        ("p.txt", "  out"),
    ],
)
def test_a_file_is_what_its_name_says(name: str, begins: str, tmp_path: Path) -> None:
    """``-o page.html`` wrote text into a page; a format that is named comes first."""
    target = tmp_path / name
    assert run("explain", "x@a", "-o", str(target)).exit_code == 0
    assert target.read_text(encoding="utf-8").startswith(begins)
    assert run("explain", "x@a", "-o", str(target), "--format", "text").exit_code == 0
    assert target.read_text(encoding="utf-8").startswith("  out")
    assert run("plan", "x@a", "-o", str(tmp_path / "plan.json")).exit_code == 0
    assert (tmp_path / "plan.json").read_text(encoding="utf-8").startswith("{")


def test_values_shapes_and_wrt() -> None:
    """--let, --shape and --wrt reach the explanation."""
    story = json.loads(
        run(
            "explain", "x@w + b", "--let", "x=[[1,2]]", "--let", "w=eye(2)", "--shape", "b=2", "--wrt", "w,b",
            "--seed", "ones", "--format", "json",
        ).stdout
    )  # fmt: skip
    assert sorted(story["gradients"]) == ["b", "w"]
    assert story["gradients"]["w"]["value"] == [[1, 1], [2, 2]]


def test_then_derives_the_seed() -> None:
    """A training step: v is ∂L/∂out."""
    story = json.loads(
        run("explain", "a@x", "--let", "x=[1,2]", "--let", "a=eye(2)", "--let", "y=[0,0]", "--then",
            "sum((out-y)**2)", "--format", "json").stdout
    )  # fmt: skip
    assert story["seed"]["value"] == [2, 4]
    assert story["gradients"]["x"]["value"] == [2, 4]


def test_names_of_options_can_be_inputs() -> None:
    """An input may be called like a parameter of explain."""
    story = json.loads(run("explain", "seed * check", "--let", "seed=[1,2]", "--let", "check=[3,4]",
                           "--format", "json").stdout)  # fmt: skip
    assert story["gradients"]["seed"]["value"] == [3, 4]


def test_without_a_seed_the_error_is_shown_and_ones_are_named() -> None:
    """What torch would say, and what the story goes on with."""
    text = run("explain", "x@a").stdout
    assert "grad can be implicitly created only for scalar outputs" in text
    assert "gradient of that sum" in " ".join(text.split())


def test_entry_tells_one_story() -> None:
    """--entry shows how one number comes about."""
    text = run(*FORUM, "--entry", "x[1,0]").stdout
    assert "26" in text
    assert "x.grad[1,0]" in text


@pytest.mark.one_in(2)
@pytest.mark.parametrize("style", ["text", "markdown", "latex", "json"])
def test_derive_needs_no_numbers(style: str) -> None:
    """Formulas for every size."""
    result = run("derive", "tanh(x@w + b)", "--format", style)
    assert result.exit_code == 0
    assert "(v * (1 - out ** 2)) @ w.T" in result.stdout or style == "latex"


def test_ops_lists_and_shows() -> None:
    """The table, and one entry with what is derived on the spot."""
    assert "softmax" in run("ops").stdout
    shown = run("ops", "softmax").stdout
    assert "out * (v - (v * out).sum(-1, keepdim=True))" in shown
    assert run("ops", "softmaks").exit_code == 2


def test_docs_writes_pages(tmp_path: Path) -> None:
    """One page an operation, the forum page, an index."""
    result = run("docs", str(tmp_path / "pages"), "--ops", "matmul,tanh")
    assert result.exit_code == 0
    assert (tmp_path / "pages" / "ops" / "tanh.md").read_text(encoding="utf-8").startswith("# tanh")
    assert "26" in (tmp_path / "pages" / "forum.md").read_text(encoding="utf-8")
    assert "ops/matmul.md" in (tmp_path / "pages" / "index.md").read_text(encoding="utf-8")


def test_a_page_that_stands_has_its_pictures(tmp_path: Path) -> None:
    """Whoever interrupts the writing finds no page that shows a picture which is not there."""
    page = next(write_site(tmp_path, ["tanh"], check=False))
    shown = re.findall(r"\]\(([\w-]+\.svg)\)", page.read_text(encoding="utf-8"))
    assert shown
    assert all((page.parent / picture).is_file() for picture in shown)


@pytest.mark.parametrize("pages", [0, 1])
def test_what_is_interrupted_leaves_whole_files_and_no_empty_folder(
    pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def interrupted(op: Op, check: bool) -> SitePage:
        if len(done) == pages:
            raise KeyboardInterrupt
        done.append(op.name)
        return operation_page(op, check)

    monkeypatch.setattr("symgrad.documents.operation_page", interrupted)
    folder = tmp_path / "pages"
    with pytest.raises(KeyboardInterrupt):
        list(write_site(folder, ["tanh", "relu"], check=False))
    left = list(tmp_path.rglob("*"))
    assert bool(left) == bool(pages)
    assert all(any(place.iterdir()) for place in left if place.is_dir())
    assert {f.suffix for f in left if f.is_file()} == ({".md", ".svg"} if pages else set())


def test_a_copy_that_is_interrupted_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(source: str, target: Path) -> None:
        target.write_text(Path(source).read_text(encoding="utf-8")[:2], encoding="utf-8")
        raise KeyboardInterrupt

    (tmp_path / "page.html").write_text("whole", encoding="utf-8")
    (tmp_path / "to").mkdir()
    monkeypatch.setattr("symgrad.sphinx.operations.shutil.copy2", half)
    with pytest.raises(KeyboardInterrupt):
        copied_whole(str(tmp_path / "page.html"), str(tmp_path / "to" / "page.html"))
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize("style", ["md", "html"])
def test_a_folder_that_cannot_be_is_refused_before_any_work(
    style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symgrad.documents.operation_page", lambda *_: pytest.fail("work was done"))
    monkeypatch.setattr("symgrad_cli.catalog.site_builder", lambda: pytest.fail("work was done"))
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    for place in (tmp_path / "file", tmp_path / "file" / "in", tmp_path / "no" / "such"):
        found = run("docs", str(place), "--ops", "tanh", "--format", style)
        assert found.exit_code == 2
        assert "cannot write into" in found.stderr or "is a file" in found.stderr
    assert [f.name for f in tmp_path.iterdir()] == ["file"]


def test_version_and_help() -> None:
    """The version is the package's; help has examples."""
    assert symgrad.__version__ in run("--version").stdout
    assert 'symgrad explain "x@a"' in run("--help").stdout
    assert "--seed" in run("explain", "--help").stdout


BAD = [
    (("explain", "softmaks(x)"), "symgrad knows no function softmaks", "softmax"),
    (("explain", "x@"), "error[syntax]", ""),
    (("explain", "x@a", "--let", "x=[[1,2]]", "--let", "a=[[1,2]]"), "error[shape]", "^"),
    (("explain", "x@a", "--seed", "[1,2,3]", "--shape", "x=2,3", "--shape", "a=3,4"), "error[shape]", "2×4"),
    (("explain", "x", "--let", "x=[1,1e999]"), "error[value]", ""),
    (("explain", "x", "--let", "x=[[1],[2,3]]"), "error[shape]", ""),
    (("explain", "x", "--let", "y=1"), "error[name]", ""),
    (("explain", "x", "--let", "x"), "error[value]", "NAME=VALUE"),
    (("explain", "x", "--shape", "x=-3"), "error[value]", ""),
    (("explain", "+".join(["x"] * 5000)), "error[syntax]", ""),
    (("explain", "(" * 500 + "x" + ")" * 500), "error[syntax]", ""),
    (("explain", "--", "-" * 500 + "x"), "error[syntax]", ""),
    (("explain", "__import__('os').system('true')"), "error[syntax]", ""),
    (("explain", "x.__class__.__mro__"), "error[syntax]", ""),
    (("explain", "class A: pass"), "error[syntax]", ""),
    (("explain", "x", "--wrt", "y"), "error[name]", ""),
    (("explain", "x", "--entry", "x[9]"), "error[shape]", ""),
    (("explain", "x", "--entry", "???"), "error[value]", ""),
    (("explain", "x", "--seed", "ones", "--then", "sum(out)"), "error[value]", ""),
    (("explain", "x", "--then", "out"), "error[shape]", ""),
    (("explain", "x", "--let", "x=@missing.npy"), "error[value]", "missing.npy"),
    (("explain", ""), "error[syntax]", ""),
    (("derive", "nonsense("), "error[syntax]", ""),
    (("explain", "x@a", "-o", "p.png"), "there is no format for .png", ".svg"),
    (("plan", "x@a", "-o", "p.html"), "there is no format for .html", ".json"),
    (("explain", "step.py"), "step.py is a script", "symgrad run step.py"),
    (("derive", "sub/step.py --lr 1"), "sub/step.py is a script", "symgrad run sub/step.py"),
    (("explain", "x", "--brif"), "No such option '--brif'", "--brief"),
    (("help", "nothing"), "No such command 'nothing'", ""),
    (("docs", "/dev/null/x"), "error[value]", ""),
]


@pytest.mark.parametrize(("arguments", "says", "also"), BAD, ids=[" ".join(b[0])[:40] for b in BAD])
def test_bad_input_is_told_on_stderr(arguments: tuple[str, ...], says: str, also: str) -> None:
    """Exit 2, a message of the agreed form, nothing on stdout, no traceback."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert says in result.stderr
    assert also in result.stderr
    assert "Traceback" not in result.stderr


def test_a_huge_explicit_matrix_is_refused_before_it_is_made() -> None:
    """10⁵×10⁵ entries: told with its size and what to ask for instead."""
    jacobian = symgrad.jacobian("x + 0", "x", shapes={"x": (100_000,)}, check=False)
    with pytest.raises(symgrad.InputError, match="100000×100000"):
        jacobian.dense()
    assert jacobian.nonzeros == 100_000


def test_a_file_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    """Half a file is worse than none."""
    target = tmp_path / "folder"
    target.mkdir()
    assert run(*FORUM, "-o", str(target)).exit_code == 2
    assert os.listdir(tmp_path) == ["folder"]


def test_a_failed_check_is_a_report_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """When an oracle disagrees, that is the result: shown, and status 1."""
    module = importlib.import_module("symgrad.explanation")
    honest = module.numeric_pullback
    monkeypatch.setattr(module, "numeric_pullback", lambda *a: {n: 2 * g for n, g in honest(*a).items()})
    result = run(*FORUM)
    assert result.exit_code == 1
    assert "DIFFERS" in result.stdout


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shapes", [(), ("--shape", "x=2,3,7", "--shape", "w=4,3,3")])
def test_formulas_are_proven_at_sizes_that_go_together(shapes: tuple[str, ...]) -> None:
    """A window of three, spread to five, slides over no axis of four."""
    result = run("derive", "F.conv1d(x, w, dilation=2)", *shapes)
    assert result.exit_code == 0
    assert "v[" in result.stdout


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ("ops", 0), pytest.param("ops --kinks", 0, marks=pytest.mark.slow), ("ops softmax", 0), ("plan x@a", 0), ("code x@a", 0),
        ("explain x@a --no-check", 0), ("--help", 0), ("explain --help", 0), ("--version", 0), ("nosuch 2>&1", 2),
    ],
)  # fmt: skip
def test_a_reader_that_stops_early_changes_no_verdict(arguments: str, status: int) -> None:
    """1 would say that an oracle disagreed. The reader is gone before the first line."""
    shell = f'"{sys.executable}" -m symgrad_cli {arguments} | true; exit ${{PIPESTATUS[0]}}'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "Broken pipe" not in done.stderr


@pytest.mark.slow
def test_without_torch_the_check_says_so() -> None:
    """Everything else is still checked."""
    calls = (["explain", "--call", "a:b"], ["run", "script.py"], ["explain", "x@a", "--no-color"])
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else real(name, *a)\n"
        "from symgrad_cli.main import main\n"
        f"for arguments in {calls[:2]}:\n"
        "    try: main(arguments)\n"
        "    except SystemExit as end: assert end.code == 2\n"
        "    else: raise AssertionError(arguments)\n"
        f"main({calls[2]})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "torch is not installed" in " ".join(done.stdout.split())
    assert done.stderr.count("PyTorch is not installed, and this runs PyTorch code") == 2


# --- explain --call -----------------------------------------------------------------------------------------

LAYERS = """
import torch
from torch import nn

print("importing")
net = nn.Linear(2, 1)
shift = 3


class Net(nn.Module):
    pass


class Scaled:
    @staticmethod
    def double(x):
        return 2 * x


def product(x, a):
    h = torch.mm(x, a)
    return torch.relu(h)


def pick(x, n, dim=0):
    return x.index_select(dim, n) * 2


def forgetful(x, *, scale):
    return [x.tolist()]


def two(x):
    return x, x * 2


def strided(x):
    return torch.as_strided_scatter(x, x[0], (2,), (1,))


def broken(x):
    raise ValueError("not today")
"""


@pytest.fixture
def layers(tmp_path, monkeypatch):
    """A package with a module in the current folder."""
    (tmp_path / "mypackage").mkdir()
    (tmp_path / "mypackage" / "__init__.py").write_text("")
    (tmp_path / "mypackage" / "layers.py").write_text(LAYERS)
    (tmp_path / "mypackage" / "needy.py").write_text("import nothing_of_the_kind\n")
    (tmp_path / "mypackage" / "leaving.py").write_text("raise SystemExit(4)\n")
    monkeypatch.chdir(tmp_path)
    yield "mypackage.layers"
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypackage"]:
        del sys.modules[name]
    assert str(tmp_path) not in sys.path


def test_a_call_is_explained(layers):
    result = run("explain", "--call", f"{layers}:product", "--let", "x=[[1,2,3],[-4,-5,-6]]", "--shape", "a=3,4")
    assert result.exit_code == 0, result.stderr
    text = " ".join(result.stdout.split())
    assert "h = x @ a; out = relu(h)" in text
    assert "x.grad = (v * (x @ a > 0)) @ a.T" in text
    assert "out.backward(v), torch" in text
    assert "DIFFERS" not in text
    assert result.stdout.count("importing") == 0  # what the code prints is not the explanation
    assert "importing" in result.stderr


def test_a_call_has_second_derivatives(layers):
    result = run("explain", "--call", f"{layers}:product", "--let", "x=[[1,2]]", "--let", "a=[[1],[3]]", "--seed", "[[2]]",
                 "--wrt", "x,a", "--order", "2", "--format", "json")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    (mixed,) = [h for h in json.loads(result.stdout)["hessians"] if (h["first"], h["second"]) == ("x", "a")]
    assert mixed["value"] == [[[[2], [0]], [[0], [2]]]]
    result = run("explain", "--call", f"{layers}:product", "--shape", "x=2,3", "--shape", "a=3,4", "--order", "2")
    assert result.exit_code == 2
    assert "a Hessian is that of one number" in result.stderr


def test_a_call_of_a_module_in_float64_as_json(layers):
    result = run("explain", "--call", f"{layers}:net", "--let", "input=randn(3,2)", "--seed", "onehot(1,0)",
                 "--format", "json")  # fmt: skip
    story = json.loads(result.stdout)
    assert set(story["gradients"]) == {"input", "weight", "bias"}
    assert story["gradients"]["bias"]["value"] == [1.0]
    assert story["passed"] is True
    assert all(check["passed"] is not False for check in story["gradients"]["weight"]["checks"])


def test_whole_numbers_stay_whole_beside_wrt(layers):
    result = run("explain", "--call", f"{layers}:pick", "--let", "x=arange(6,shape=(2,3))", "--let", "n=[2,0,2]",
                 "--let", "dim=1", "--wrt", "x", "--seed", "ones")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "x.grad = 2 0 4 2 0 4" in " ".join(result.stdout.split())


def test_a_call_of_torchs_own_and_of_a_method(layers):
    assert "x.grad = 2 2" in run("explain", "--call", f"{layers}:Scaled.double", "--let", "x=[1,2]").stdout
    result = run("explain", "--call", "torch:tanh", "--let", "input=[1,2]")
    assert result.exit_code == 0, result.stderr
    assert "input.grad" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--call", "mypackage.layers"), ("error[value]: --call needs a module and a function", "--call mypackage.layers:function")),
        (("--call", "mypackage/layers.py:two"), ("error[value]", "--call mypackage.layers:two")),
        (("--call", "nowhere.at_all:f"), ("error[value]: there is no module nowhere", "looked in")),
        (("--call", "mypackage.lairs:f"), ("there is no module mypackage.lairs",)),
        (("--call", "mypackage.needy:f"), ("mypackage.needy cannot be imported", "No module named 'nothing_of_the_kind'", "needy.py:1")),
        (("--call", "mypackage.leaving:f"), ("mypackage.leaving cannot be imported", "SystemExit: 4")),
        (("--call", "{}:prodct"), ("error[name]: mypackage.layers has no prodct", "--call mypackage.layers:product")),
        (("--call", "{}:Scaled.triple"), ("error[name]: mypackage.layers:Scaled has no triple",)),
        (("--call", "{}:shift"), ("shift is not a function", "of type int")),
        (("--call", "{}:Net"), ("Net is a class",)),
        (("--call", "{}:product", "--let", "x=[[1]]"), ("needs a value for a", "given: x", "--let a=randn(2,3)")),
        (("--call", "{}:product", "--let", "y=1"), ("takes no y", "it takes x, a")),
        (("--call", "{}:product", "--let", "x=ones", "--let", "a=1"), ("ones has no shape of its own", "--shape x=2,3")),
        (("--call", "{}:product", "--shape", "x=n,3"), ("needs numbers",)),
        (("--call", "{}:product", "--let", "x=[[1]]", "--shape", "x=2,1"), ("does not have the shape",)),
        (("--call", "{}:product", "--shape", "x=2,3", "--shape", "a=2,3"), ("raised RuntimeError", "cannot be multiplied", "layers.py:21: h = torch.mm(x, a)")),
        (("--call", "{}:forgetful", "--let", "x=1", "--let", "scale=1"), ("the function returns no tensor", "list")),
        (("--call", "{}:two", "--let", "x=1"), ("returns 2 tensors", "a function that returns one of them")),
        (("--call", "{}:broken", "--let", "x=1"), ("raised ValueError", "not today")),
        (("--call", "{}:pick", "--let", "x=[1]", "--let", "n=[0]"), ("raised ", "--wrt NAME")),
        (("--call", "{}:strided", "--let", "x=eye(2)"), ("error[unsupported]", "has no derivation")),
        (("--call", "{}:product", "--let", "x=[[1]]", "--let", "a=[[1]]", "--wrt", "b"), ("error[name]", "b")),
        (("--call", "{}:product", "--let", "x=[[1]]", "--let", "a=[[1]]", "--seed", "[1,2]"), ("error[shape]",)),
        (("x@a", "--call", "{}:product"), ("--call goes without",)),
        ((), ("nothing to explain",)),
    ],
)  # fmt: skip
def test_calls_that_cannot_be_explained(layers, arguments, said):
    result = run("explain", *(a.format(layers) for a in arguments))
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    for words in said:
        assert words in result.stderr


def test_a_function_of_ones_own_is_checked_by_the_name_of_its_class(tmp_path, monkeypatch):
    """As in Python, where the class stands for its ``apply``; it was a class that is no function."""
    lines = (
        "import torch\nclass Double(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n"
        "        return 2 * x\n    @staticmethod\n    def backward(ctx, v):\n        return {} * v\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name, factor, status in (("kernel_right", 2, 0), ("kernel_wrong", 3, 1)):
        (tmp_path / f"{name}.py").write_text(lines.format(factor), encoding="utf-8")
        assert run("check", f"{name}:Double", "2 * x", "--let", "x=[1,2]").exit_code == status


class Watched(io.StringIO):
    """A standard error that somebody looks at, or nobody."""

    def __init__(self, looked_at: bool) -> None:
        super().__init__()
        self.looked_at = looked_at

    def isatty(self) -> bool:
        return self.looked_at


@pytest.mark.slow
@pytest.mark.parametrize("looked_at", [True, False])
def test_what_takes_long_says_so_to_a_terminal(looked_at: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found, api = Watched(looked_at), importlib.import_module("symgrad.api")
    real = api.explain_values

    def slow(*arguments: object, **named: object) -> object:
        time.sleep(1.3)
        return real(*arguments, **named)

    monkeypatch.setattr(api, "explain_values", slow)
    monkeypatch.setattr(sys, "__stderr__", found)
    result = CliRunner().invoke(main, ["explain", "x*a", "--no-check", "--brief"])
    assert result.exit_code == 0
    assert "symgrad: explaining … 1 s" in found.getvalue() if looked_at else found.getvalue() == ""
    assert "explaining" not in result.stdout


NARROW = [
    ("explain", "x@a", "--seed", "[[1,2,3,4],[5,6,7,8]]"), ("derive", "tanh(x@w + b)"),
    ("derive", "F.cross_entropy(x, y)", "--shape", "x=5,3"), ("ops", "adaptive_avg_pool2d"),
    ("plan", "x@a", "--shape", "x=720,720", "--shape", "a=720,720"),
    ("explain", "tanh(x)", "--shape", "x=64,64", "--no-check"), ("code", "softmax(x, dim=-1)", "--shape", "x=3,4"),
    ("exercise", "x@a", "--answer", "v @ a.T"),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("arguments", NARROW, ids=lambda arguments: " ".join(arguments[:2]))
def test_what_is_printed_fits_a_terminal_of_eighty_columns(arguments: tuple[str, ...]) -> None:
    found = CliRunner().invoke(main, arguments, env={"COLUMNS": "80"}, catch_exceptions=False)
    assert found.exit_code == 0, found.stderr
    assert max(map(len, found.stdout.splitlines())) <= 80


@pytest.mark.slow
def test_the_table_is_cut_at_the_edge_of_a_terminal_and_whole_in_a_pipe() -> None:
    pty = pytest.importorskip("pty", reason="this system has no terminals of its own")
    whole = CliRunner().invoke(main, ["ops"], env={"COLUMNS": "80"}).stdout.splitlines()
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "symgrad_cli", "ops"]
    env = os.environ | {"COLUMNS": "80"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # what Linux says when the other side is closed
            while part := os.read(ours, 65536):
                shown += part
        process.wait()
    os.close(ours)
    lines = shown.decode().splitlines()
    assert len(lines) == len(whole)
    assert max(map(len, lines)) == 80 < max(map(len, whole))
    assert all(
        line == own or (line.endswith("…") and own.startswith(line[:-1]))
        for line, own in zip(lines, whole, strict=True)
    )


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ("x=2,,3", "nothing between two commas"),
        ("x=,2", "nothing between two commas"),
        ("x=9999999999", "this size is too large"),
    ],
)
def test_a_shape_that_is_none_is_refused(shape, told):
    result = CliRunner().invoke(main, ["derive", "x * 2", "--shape", shape])
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize("shape", ["x=2,", "x=(2,)", "x=()", "x=[2,3]"])
def test_a_shape_as_python_writes_it_is_read(shape):
    assert CliRunner().invoke(main, ["derive", "x * 2", "--shape", shape]).exit_code == 0
