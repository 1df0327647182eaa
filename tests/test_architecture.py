"""What the design says about the code as a whole, held by tests.

Rules that nobody checks rot: a layer grows a circle, an import creeps in that costs every user a second, a
comparison is computed and never asserted. Each check that could be blind has a twin, which feeds it the slip
that it is there for and demands that it be seen.
"""

import ast
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path

import pytest

import symgrad
import symgrad.testing
from tests.benchmarks.guard import SCRIPT
from tests.parsed import PARSED, nodes_of, tree_of

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "symgrad").rglob("*.py"))
COMMANDS = sorted((ROOT / "cli").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

Slip = tuple[int, str]
"""A line number, and what is wrong there."""


def slips(paths: list[Path], check: Callable[[str], Iterator[Slip]]) -> list[str]:
    """What ``check`` finds in the files, as ``file:line: what``; no files at all would prove nothing."""
    assert paths
    return [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {what}"
        for path in paths
        for line, what in check(path.read_text(encoding="utf-8"))
    ]


def python(*arguments: str, root: Path = ROOT, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter that finds the two packages under ``root``."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(root), str(root / "cli")]),
        "PYTHONIOENCODING": "utf-8",
        "COLUMNS": "200",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
    )


# --- layers -------------------------------------------------------------------------------------------------


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """import-linter with the contracts of pyproject.toml, on the packages under ``root``."""
    run = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return python("-c", run, "--no-cache", "--no-logo", root=root, cwd=root)


def test_imports_point_towards_the_ground() -> None:
    report = lint_imports(ROOT)
    assert report.returncode == 0, report.stdout + report.stderr


BREACHES = {
    "upwards": ("symgrad/errors.py", "import symgrad.api", r"symgrad\.errors -> symgrad\.api"),
    "by the root": ("symgrad/errors.py", "from symgrad import explain", r"symgrad\.errors -> symgrad \("),
    "late": ("symgrad/shapes.py", "def late():\n    import symgrad.api", r"symgrad\.shapes -> symgrad\.api"),
    "commands": ("symgrad/api.py", "import symgrad_cli.main", r"symgrad\.api -> symgrad_cli\.main"),
    "torch": ("symgrad/shapes.py", "import torch", r"symgrad\.shapes -> torch"),
    "click": ("symgrad/api.py", "import click", r"symgrad\.api -> click"),
    "rich": ("symgrad/api.py", "import rich.table", r"symgrad\.api -> rich"),
    "writers": ("symgrad/render/markup.py", "import symgrad.render.text", r"markup -> \S+render\.text"),
    "no row": ("symgrad/utils.py", "'A module that was not placed.'", r"- symgrad\.utils"),
}
"""By name: a file, the line that is added to it, and the complaint that has to follow."""


@pytest.mark.one_in(9)
@pytest.mark.parametrize("breach", BREACHES)
def test_the_contracts_can_fail(tmp_path: Path, breach: str) -> None:
    file, line, complaint = BREACHES[breach]
    for package in ("symgrad", "cli"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a", encoding="utf-8") as broken:
        broken.write(f"\n{line}\n")
    report = lint_imports(tmp_path)
    assert report.returncode == 1, report.stdout + report.stderr
    assert re.search(complaint, report.stdout), report.stdout


def test_the_picture_of_the_layers_is_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [c for c in settings["contracts"] if c["id"] == "layers"]
    agreed = [re.findall(r"\w+", row) for row in contract["layers"]]
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    picture = re.search(r"^symgrad_cli .*\n─+\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert picture
    assert [re.findall(r"\w+", re.split(r" {2,}", row)[0]) for row in picture[1].splitlines()] == agreed


# --- circles ------------------------------------------------------------------------------------------------


def imported(name: str, path: Path, modules: Mapping[str, Path]) -> set[str]:
    """The modules of ``modules`` that a file imports: inside functions and for types alone, too."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = set()
    for node in nodes_of(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            # a name that is no file is in the package's own
            found |= {f"{source}.{a.name}" if f"{source}.{a.name}" in modules else source for a in node.names}
    return (found & set(modules)) - {name}


def modules_under(root: Path) -> dict[str, Path]:
    """The files of both packages, by their names."""
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
        for package in ("symgrad", "cli/symgrad_cli")
        for path in sorted((root / package).rglob("*.py"))
    }


def circles(root: Path) -> list[list[str]]:
    """Files that reach each other by their imports, each such circle as the sorted names of its files."""
    modules = modules_under(root)
    reads = {name: imported(name, path, modules) for name, path in modules.items()}

    def reached(name: str) -> set[str]:
        found, left = set(), [*reads[name]]
        while left:
            other = left.pop()
            if other not in found:
                found.add(other)
                left += reads[other]
        return found

    whole = {name: reached(name) for name in reads}
    around = {name: sorted(o for o in whole[name] if name in whole[o]) for name in whole if name in whole[name]}
    return sorted(list(found) for found in {tuple(circle) for circle in around.values()})


@PARSED
def test_no_files_stand_in_a_circle() -> None:
    assert circles(ROOT) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("symgrad/b.py", "import symgrad.a"),
        ("symgrad/b.py", "from symgrad import a"),
        ("symgrad/b.py", "from . import a"),
        ("symgrad/b.py", "from .a import A"),
        ("symgrad/b.py", "if TYPE_CHECKING:\n    from symgrad.a import A"),
        ("symgrad/b.py", "def late():\n    from symgrad.a import A"),
        ("symgrad/c/__init__.py", "from ..a import A"),
    ],
)
def test_the_check_for_circles_can_fail(tmp_path: Path, file: str, line: str) -> None:
    (tmp_path / "symgrad" / "c").mkdir(parents=True)
    for name, text in {"a.py": "from symgrad.b import B", "b.py": "import symgrad.c", "c/__init__.py": ""}.items():
        (tmp_path / "symgrad" / name).write_text(text)
    assert circles(tmp_path) == []
    with (tmp_path / file).open("a", encoding="utf-8") as broken:
        broken.write(f"\n{line}\n")
    assert ["symgrad.a", "symgrad.b"] in circles(tmp_path) or ["symgrad.a", "symgrad.b", "symgrad.c"] in circles(
        tmp_path
    )


# --- what `import symgrad` costs ----------------------------------------------------------------------------

HEAVY = ("click", "rich", "scipy", "torch")


def loaded(statements: str, cwd: Path, among: tuple[str, ...] = HEAVY) -> set[str]:
    """The packages of ``among`` that are loaded after ``statements``."""
    (found,) = loaded_after([statements], cwd, among)
    return found


def loaded_after(steps: Sequence[str], cwd: Path, among: tuple[str, ...] = HEAVY) -> list[set[str]]:
    """The packages of ``among`` that are loaded after each step, one process doing one after the other."""
    told = "; ".join(f"{step}; import sys; print('\\nloaded:', *sys.modules)" for step in steps)
    report = python("-c", told, cwd=cwd)
    assert report.returncode == 0, report.stderr
    lists = [line.split()[1:] for line in report.stdout.splitlines() if line.startswith("loaded:")]
    assert len(lists) == len(steps)
    assert "symgrad" in lists[0]
    return [set(among) & set(modules) for modules in lists]


def test_import_symgrad_loads_nothing_heavy(tmp_path: Path) -> None:
    assert loaded("import symgrad; [getattr(symgrad, name) for name in symgrad.__all__]", tmp_path) == set()


def test_the_help_loads_no_mathematics(tmp_path: Path) -> None:
    helps = "import symgrad_cli.main as m; m.main(['--help'], standalone_mode=False)"
    steps = [helps, "import symgrad; symgrad.derive"]
    told, used = loaded_after(steps, tmp_path, among=("numpy", "sympy", *HEAVY))
    assert told == {"click"}
    assert "sympy" in used


NEEDS = (
    (("derive", "x@a"), {"click", "numpy", "sympy"}),
    (("plan", "x@a"), {"click", "numpy", "sympy"}),
    (("explain", "x@a", "--no-check"), {"click", "numpy", "sympy"}),
)
"""Commands, each with what it may load; one needs no less than those before it."""


def test_a_command_loads_what_it_needs(tmp_path: Path) -> None:
    steps = [f"import symgrad_cli.main as m; m.main({list(words)!r}, standalone_mode=False)" for words, _ in NEEDS]
    steps[0] += "; import gc; assert gc.isenabled() and gc.get_freeze_count() > 50_000"  # loaded once, looked at never
    found = loaded_after(steps, tmp_path, among=("numpy", "opt_einsum", "sympy", *HEAVY))
    for (words, needed), seen in zip(NEEDS, found, strict=True):
        assert seen <= needed, words


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("explain x@a --no-check", 176),
        pytest.param("explain x@a", 186, marks=pytest.mark.slow),
        pytest.param("run script.py", 255, marks=pytest.mark.slow),
    ],
)
def test_a_command_loads_few_modules_of_its_own(tmp_path: Path, words: str, most: int) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    step = (
        f"import symgrad_cli.main as m, sys; m.main({words.split()!r}, standalone_mode=False); "
        "print('loaded:', sum(name.partition('.')[0] in ('symgrad', 'symgrad_cli') for name in sys.modules))"
    )
    report = python("-c", step, cwd=tmp_path)
    (count,) = [int(line.split()[1]) for line in report.stdout.splitlines() if line.startswith("loaded:")]
    assert most - 5 <= count <= most


def test_rows_of_the_table_are_read_when_they_are_used(tmp_path: Path) -> None:
    step = (
        "import symgrad_cli.main as m; m.main(['explain', 'x@a', '--no-check'], standalone_mode=False); "
        "from symgrad.ops import TABLE, Op; print('read:', *(n for n, op in TABLE.items() if type(op) is Op))"
    )
    report = python("-c", step, cwd=tmp_path)
    (read,) = [line.split()[1:] for line in report.stdout.splitlines() if line.startswith("read:")]
    assert "matmul" in read
    assert len(read) <= 3


def test_what_a_watched_script_needs_is_loaded_once_and_looked_at_never(tmp_path: Path) -> None:
    """Of torch and SymPy the collector sees nothing: it walked over a million objects, twenty times and more."""
    script = tmp_path / "script.py"
    script.write_text("import gc\nprint(gc.isenabled(), gc.get_freeze_count() > 200_000, gc.get_stats()[2])\n")
    ran = python("-m", "symgrad_cli", "run", str(script), cwd=tmp_path)
    assert ran.stdout.startswith("True True {'collections': 0,"), ran.stdout + ran.stderr


@pytest.mark.slow
def test_a_story_loads_no_compiler(tmp_path: Path) -> None:
    """Nor SciPy's special functions: of what a GPT takes, a few lines of NumPy say those that it needs."""
    script = tmp_path / "script.py"
    script.write_text(f"{SCRIPT}\nimport sys\nprint('loaded:', {{'torch._dynamo', 'scipy'}} & set(sys.modules))\n")
    ran = python("-m", "symgrad_cli", "run", str(script), cwd=tmp_path)
    assert "loaded: set()\n" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.slow
def test_a_capture_loads_no_compiler(tmp_path: Path) -> None:
    """Dynamo is a second of every script that asks for one."""
    step = "import torch, symgrad; symgrad.capture(torch.tanh, torch.ones(2)).pullback(torch.ones(2), backend='torch')"
    assert loaded(step, tmp_path, among=("torch", "torch._dynamo")) == {"torch"}


def test_each_public_name_comes_from_where_type_checkers_see_it() -> None:
    tree = ast.parse((ROOT / "symgrad" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module != "typing"]
    seen = {str(node.module): tuple(name.name for name in node.names) for node in imports if node.module != "importlib"}
    assert seen == symgrad.WHERE
    assert sorted([*sum(seen.values(), ()), "__version__"]) == symgrad.__all__
    assert all(name in dir(symgrad) for name in symgrad.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        symgrad.nothing  # noqa: B018 - asking is what is tested


@pytest.mark.parametrize("package", ["click", *(pytest.param(p, marks=pytest.mark.slow) for p in HEAVY[1:])])
def test_the_import_check_can_fail(tmp_path: Path, package: str) -> None:
    assert package in loaded(f"import symgrad; import {package}", tmp_path)


# --- comparisons that nobody asserts ------------------------------------------------------------------------

COMPARISONS = {"allclose", "array_equal", "array_equiv", "equal", "equals", "is_close", "isclose"}
QUESTIONS = {"all", "any", "endswith", "isdisjoint", "isinstance", "issubset", "issuperset", "startswith"}
"""Functions and methods whose only use is their answer, under any module."""


def unasserted(text: str) -> Iterator[Slip]:
    """Statements that ask a question and drop the answer: ``np.allclose(a, b)`` without ``assert``."""
    for node in nodes_of(text):
        if not isinstance(node, ast.Expr):
            continue
        asked = node.value
        while isinstance(asked, ast.UnaryOp | ast.Await):
            asked = asked.operand if isinstance(asked, ast.UnaryOp) else asked.value
        if isinstance(asked, ast.Compare | ast.BoolOp):
            yield node.lineno, f"comparison without assert: {ast.unparse(asked)}"
        if isinstance(asked, ast.Call):
            function = asked.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
            if name in COMPARISONS | QUESTIONS:
                yield node.lineno, f"comparison without assert: {ast.unparse(asked)}"


@PARSED
def test_every_comparison_is_asserted() -> None:
    assert slips(TESTS, unasserted) == []


@pytest.mark.parametrize(
    "slip",
    [
        "np.allclose(a, b)",
        "torch.allclose(a, b, atol=1e-6)",
        "numpy.array_equal(a, b)",
        "first.equals(second)",
        "not np.allclose(a, b)",
        "allclose(a, b)",
        "(a == b).all()",
        "a == b",
        "def test() -> None:\n    if a:\n        torch.equal(a, b)",
    ],
)
def test_the_assert_check_can_fail(slip: str) -> None:
    assert len(list(unasserted(slip))) == 1


@pytest.mark.parametrize(
    "fine",
    ["assert np.allclose(a, b)", "np.testing.assert_allclose(a, b)", "same = a.equals(b)", "print(a.all())"],
)
def test_the_assert_check_passes_what_is_fine(fine: str) -> None:
    assert list(unasserted(fine)) == []


# --- text is never run --------------------------------------------------------------------------------------

RUNS_TEXT = {"__import__", "compile", "eval", "exec"}
"""Python's own ways to run text; methods that happen to be called so (``model.eval()``) are not meant."""

PARSES_TEXT = {"parse_expr", "parse_latex", "parse_mathematica", "sympify"}
"""SymPy's ways to run text: sympify hands a string to eval, and so does a call of S."""

RUNS_FILES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
"""Modules that run what a file says."""


def runs_text(text: str) -> Iterator[Slip]:
    """Uses of anything that could turn a user's text or file into running code."""
    nodes = nodes_of(text)
    strict = {id(node.func) for node in nodes if isinstance(node, ast.Call) and says(node, "strict")}
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in RUNS_TEXT:
                yield node.lineno, f"runs text: {name}"
            case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in RUNS_TEXT:
                yield node.lineno, f"runs text: builtins.{name}"
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in PARSES_TEXT:
                if name != "sympify" or id(node) not in strict:
                    yield node.lineno, f"may parse text with eval (sympify(…, strict=True) does not): {name}"
            case ast.Call(func=ast.Name(id="S") | ast.Attribute(attr="S")):
                yield node.lineno, "may parse text with eval: S"
            case ast.Call() if says(node, "allow_pickle"):
                yield node.lineno, "runs files: allow_pickle=True"
            case ast.ImportFrom(module=str(module)) if module.partition(".")[0] in RUNS_FILES:
                yield node.lineno, f"runs files: {module}"
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.partition(".")[0] in RUNS_FILES:
                        yield node.lineno, f"runs files: {alias.name}"


def says(call: ast.Call, keyword: str) -> bool:
    """Whether ``call`` is given ``keyword=`` with anything but a literal False."""
    given = [k.value for k in call.keywords if k.arg == keyword]
    return any(not (isinstance(value, ast.Constant) and value.value is False) for value in given)


RUNS_SCRIPTS = {
    "symgrad/tracing/session/script.py": {
        "compile": 1,  # `symgrad run script.py` runs the user's own script, as `python script.py` would,
        "exec": 1,  # which is what that file is for; the text comes from nowhere else
    },
    "symgrad/sphinx/directives.py": {
        "compile": 1,  # the directive `symgrad-python` runs a snippet of the documentation's own author
        "exec": 1,  # while he builds his pages; .github/SECURITY.md says so
    },
}
"""By file: what it may use, and how often. Anything else there, and anything anywhere else, is a slip."""


def runs_unexpected(file: str, text: str) -> list[Slip]:
    """What `runs_text` finds in a file beyond what `RUNS_SCRIPTS` grants it; a grant that is not used, too."""
    left = dict(RUNS_SCRIPTS.get(file, {}))
    found = []
    for line, what in runs_text(text):
        name = what.removeprefix("runs text: ")
        if left.get(name, 0):
            left[name] -= 1
        else:
            found.append((line, what))
    return found + [(1, f"exemption that is not used: {name}") for name, count in left.items() if count]


@PARSED
def test_no_text_and_no_file_is_ever_run() -> None:
    paths = LIBRARY + COMMANDS
    assert set(RUNS_SCRIPTS) <= {path.relative_to(ROOT).as_posix() for path in paths}
    found = [
        f"{file}:{line}: {what}"
        for path in paths
        for file in [path.relative_to(ROOT).as_posix()]
        for line, what in runs_unexpected(file, path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("symgrad/tracing/scripts.py", "compile(text)"),
        ("symgrad/tracing/session/watch.py", "exec(text)"),
        ("tracing/session/script.py", "exec(text)"),
        ("symgrad/tracing/session/script.py", "compile(text)\nexec(code)\nexec(more)"),
        ("symgrad/tracing/session/script.py", "compile(text)\nexec(code)\neval(more)"),
        ("symgrad/tracing/session/script.py", "compile(text)\nexec(code)\nimport pickle"),
        ("symgrad/tracing/session/script.py", "compile(text)\nbuiltins.exec(code)\nexec(code)"),
        ("symgrad/tracing/session/script.py", "compile(text)"),
    ],
)
def test_the_exemption_for_scripts_can_fail(file: str, text: str) -> None:
    assert len(runs_unexpected(file, text)) == 1


def test_the_exemption_for_scripts_passes_what_it_is_for() -> None:
    assert runs_unexpected("symgrad/tracing/session/script.py", "code = compile(text)\nexec(code)") == []


@pytest.mark.parametrize(
    "slip",
    [
        "eval(text)",
        "exec(text, {})",
        "run = eval",
        "builtins.eval(text)",
        "compile(text, '', 'eval')",
        "__import__(name)",
        "sympy.sympify(text)",
        "sympify(text, strict=False)",
        "map(sp.sympify, values)",
        "sp.S(text)",
        "parse_expr(text)",
        "import pickle",
        "from pickle import loads",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=trusted)",
    ],
)
def test_the_text_check_can_fail(slip: str) -> None:
    assert len(list(runs_text(slip))) == 1


@pytest.mark.parametrize(
    "fine",
    [
        "sp.sympify(3, strict=True)",
        "sp.S.One",
        "model.eval()",
        "re.compile('x')",
        "np.load(path, allow_pickle=False)",
    ],
)
def test_the_text_check_passes_what_is_fine(fine: str) -> None:
    assert list(runs_text(fine)) == []


# --- one door to SymPy's sums -----------------------------------------------------------------------------


def raw_sums(text: str) -> Iterator[Slip]:
    """Sums and products that SymPy is asked for by hand: which limits they have is `symgrad.indexing`'s to say."""
    for node in nodes_of(text):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and ast.unparse(called) in ("sp.Sum", "sp.Product", "sp.Indexed"):
            yield node.lineno, f"{ast.unparse(called)}(…)"


@PARSED
def test_sums_are_built_in_one_place() -> None:
    outside = [path for path in LIBRARY if ROOT / "symgrad" / "indexing" not in path.parents]
    assert slips(outside, raw_sums) == []


def test_the_check_for_sums_can_fail() -> None:
    assert list(raw_sums("inner = sp.Sum(body, (k, 0, k.size - 1))\nisinstance(inner, sp.Sum)")) == [(1, "sp.Sum(…)")]


# --- what every file carries --------------------------------------------------------------------------------

LONGEST = 350
"""Lines in a file. They aim at 300."""
LINES_OF_AN_ENTRY = 3.3
"""Lines that an operation takes in the table, on average; only the rows count, so two lines more never break this."""


def exemptions(text: str) -> Iterator[Slip]:
    """Comments that switch a check off and give no reason beside it."""
    directive = re.compile(
        r"(ruff:\s*|flake8:\s*)?noqa(:\s*[A-Z]+\d+([,\s]+[A-Z]+\d+)*)?"
        r"|(type|pyright|mypy):\s*ignore(\[[^\]]*\])?"
        r"|pragma:\s*no\s+\w+"
    )
    if not directive.search(text):
        return
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type == tokenize.COMMENT and directive.search(token.string):
            reason = directive.sub("", token.string)
            if len(re.findall(r"\w{2,}", reason)) < 2:
                yield token.start[0], f"exemption without a reason: {token.string}"


def test_every_exemption_gives_its_reason() -> None:
    assert slips(LIBRARY + COMMANDS + TESTS, exemptions) == []


@pytest.mark.parametrize(
    "slip",
    [
        "x = 1  # noqa",
        "x = 1  # noqa: B018, E501",
        "x = 1  # type: ignore[misc]",
        "x = 1  # type: ignore[misc]  # sorry",
        "x = 1  # pragma: no cover",
    ],
)
def test_the_exemption_check_can_fail(slip: str) -> None:
    assert len(list(exemptions(slip))) == 1


@pytest.mark.parametrize(
    "fine",
    [
        "x.y  # noqa: B018 the access is what is tested",
        "x = 1  # type: ignore[misc]  # SymPy has no types",
        "text = '# noqa'",
    ],
)
def test_the_exemption_check_passes_what_is_fine(fine: str) -> None:
    assert list(exemptions(fine)) == []


def bound_twice(text: str) -> Iterator[Slip]:
    """Names at the top of a file that stand for one thing first and for another then: who reads one gets the last."""

    def named(statement: ast.stmt) -> Iterator[str]:
        match statement:
            case ast.Assign(targets):
                for target in targets:
                    names = (node for node in ast.walk(target) if isinstance(node, ast.Name))
                    yield from (node.id for node in names if isinstance(node.ctx, ast.Store))
            case ast.AnnAssign(ast.Name(name)) | ast.FunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.Import(names) | ast.ImportFrom(_, names):
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
            case ast.If(_, body, []):
                for inner in body:
                    yield from named(inner)

    known: set[str] = set()
    for statement in tree_of(text).body:
        for name in named(statement):
            if name in known:
                yield statement.lineno, f"{name} has another meaning above"
            known.add(name)


@PARSED
def test_no_name_has_two_meanings_in_a_file() -> None:
    assert slips(LIBRARY + COMMANDS, bound_twice) == []


@pytest.mark.parametrize(
    "slip",
    [
        "MOST = 50\nMOST, KEPT = 1024, 8192",
        "from a import done\n\n\ndef done() -> None: ...",
        "import a\nif b:\n    import a",
    ],
)
def test_the_check_for_two_meanings_can_fail(slip: str) -> None:
    assert len(list(bound_twice(slip))) == 1


def too_long(text: str) -> Iterator[Slip]:
    """The first line that is too many."""
    count = len(text.splitlines())
    if count > LONGEST:
        yield LONGEST + 1, f"{count} lines, {LONGEST} are allowed"


def test_files_stay_readable() -> None:
    assert slips(LIBRARY + COMMANDS, too_long) == []


def test_the_length_check_can_fail() -> None:
    assert list(too_long("\n" * LONGEST)) == []
    assert len(list(too_long("\n" * (LONGEST + 1)))) == 1


def lines_of_rows(text: str) -> int:
    """The lines of the statements of a family's file that make entries."""
    rows = (node for node in ast.parse(text).body if isinstance(node, (ast.Expr, ast.For)))
    calls = [row for row in rows if not (isinstance(row, ast.Expr) and isinstance(row.value, ast.Constant))]
    return sum((row.end_lineno or row.lineno) - row.lineno + 1 for row in calls)


def test_an_entry_of_the_table_stays_short() -> None:
    files = sorted((ROOT / "symgrad" / "ops").glob("*.py"))
    assert sum(lines_of_rows(path.read_text(encoding="utf-8")) for path in files) <= LINES_OF_AN_ENTRY * len(
        list(symgrad.operations())
    )
    assert (
        lines_of_rows('"""A family."""\n\nhalf = 1 / 2\nop("a(x)",\n   "out = x")\nfor name in "bc":\n    op(name)\n')
        == 4
    )


def names_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What is named: read, imported, or spelled out for `getattr`."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            yield node.value


FOR_OTHERS = ("__getattr__", "setup", "pytest_addoption", "pytest_configure")
"""What Python, Sphinx and pytest call by name."""


def unused(texts: Mapping[str, str]) -> list[str]:
    """Functions and classes of these files that none of them names, as ``file: name``; a decorator may hand one on."""
    named = Counter(name for text in texts.values() for name in names_in(nodes_of(text)))
    return [
        f"{file}: {node.name}"
        for file, text in texts.items()
        for node in tree_of(text).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list
        if named[node.name] <= Counter(names_in(ast.walk(node)))[node.name] and node.name not in FOR_OTHERS
    ]


@PARSED
def test_nothing_is_left_unused() -> None:
    files = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in LIBRARY + COMMANDS}
    assert unused(files) == []


def test_the_check_for_what_is_unused_can_fail() -> None:
    """A function that only calls itself is used by nobody."""
    found = unused({"a.py": "def f(): return f()\ndef g(): return 1", "b.py": "from a import g\nclass C: pass"})
    assert found == ["a.py: f", "b.py: C"]


def silent(text: str) -> Iterator[Slip]:
    """A module without a docstring."""
    if not ast.get_docstring(tree_of(text)):
        yield 1, "no module docstring"


@PARSED
def test_every_module_says_why_it_exists() -> None:
    assert slips(LIBRARY + COMMANDS, silent) == []


def test_the_module_docstring_check_can_fail() -> None:
    assert len(list(silent("import os\n'Not first, so not a docstring.'"))) == 1
    assert list(silent("'Says why.'\nimport os")) == []


def undocumented(module: object) -> list[str]:
    """Public names without a docstring of their own; the signature that dataclass fills in is none."""
    bare = []
    for name in getattr(module, "__all__", ()):
        thing = getattr(module, name)
        if not (inspect.isroutine(thing) or inspect.isclass(thing) or inspect.ismodule(thing)):
            continue  # a constant: its docstring would be its type's
        text = thing.__doc__ or ""
        if not text.strip() or text.startswith(f"{name}("):
            bare.append(name)
    return bare


def test_every_public_name_has_a_docstring() -> None:
    symgrad = importlib.import_module("symgrad")
    assert symgrad.__all__
    assert undocumented(symgrad) == []


def test_the_docstring_check_can_fail() -> None:
    class Module:
        __all__ = ("documented", "bare", "Generated", "number")
        number = 1

        @staticmethod
        def documented() -> None:
            """Says what it does."""

        @staticmethod
        def bare() -> None: ...

        class Generated:
            __doc__ = "Generated(x: int)"

    assert undocumented(Module) == ["bare", "Generated"]


# --- the contract -------------------------------------------------------------------------------------------

PUBLIC = {
    "symgrad": {*symgrad.__all__, "testing", "sphinx"},
    "symgrad.testing": set(symgrad.testing.__all__),
    "symgrad.sphinx": set(),
    "symgrad_cli.main": {"main"},
}
"""What users import, with what stands in it; the last is the command line, run in the same process."""
CONTRACT_LINES = 6_000
INNER = re.compile(r"symgrad(?:_cli)?(?:\.\w+)*")
IN_A_SCRIPT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+([^\n;]+)|import\s+([\w.]+))", re.MULTILINE)


def is_public(name: str) -> bool:
    """Whether a dotted name is a public module, or the name of something in one, or of something of that."""
    parts = name.split(".")
    whole = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
    if name in PUBLIC or parts[0] not in ("symgrad", "symgrad_cli"):
        return True
    home = max((module for module in whole if module in PUBLIC), key=len, default="")
    return parts[home.count(".") + 1] in PUBLIC.get(home, ())


def inner_names(text: str) -> Iterator[Slip]:
    """Names of symgrad that are not public: imported, reached through an attribute, or in a string."""
    nodes = nodes_of(text)
    within = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute) and id(node) not in within:
            names = [ast.unparse(node)] if INNER.fullmatch(ast.unparse(node)) else []
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if INNER.fullmatch(node.value) and "." in node.value else []
            for module, given, alone in IN_A_SCRIPT.findall(node.value):
                names += (
                    [alone] if alone else [f"{module}.{part.split()[0]}" for part in given.split(",") if part.strip()]
                )
        yield from ((node.lineno, f"not public: {name}") for name in names if not is_public(name))


def used_by_the_contract(root: Path) -> list[Path]:
    """The files of ``tests/contract``, what they use of ``tests``, and what that uses."""
    found, left = set(), sorted((root / "tests" / "contract").rglob("*.py"))
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        for node in nodes_of(path.read_text(encoding="utf-8")):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            files = [root / f"{module.replace('.', '/')}.py" for module in modules if module.split(".")[0] == "tests"]
            left += [file for file in files if file.is_file()]
    return sorted(found)


@PARSED
def test_the_contract_knows_public_names_only() -> None:
    files = used_by_the_contract(ROOT)
    assert len(files) > 15
    assert slips(files, inner_names) == []


@pytest.mark.parametrize(
    "slip",
    [
        "import symgrad.api",
        "from symgrad.errors import InputError",
        "from symgrad import tracing",
        "import symgrad\nsymgrad.oracles.Check",
        "import_module('symgrad.api')",
        "monkeypatch.setattr('symgrad.api.explain', None)",
        "SCRIPT = 'import torch\\nfrom symgrad.tracing import run_script\\n'",
        "from symgrad.testing import check",
        "from symgrad_cli import output",
    ],
)
def test_the_check_of_the_contract_can_fail(tmp_path: Path, slip: str) -> None:
    """In a file of the contract, and in a helper of a helper."""
    assert len(list(inner_names(slip))) == 1
    (tmp_path / "tests" / "contract").mkdir(parents=True)
    for file, line in {"contract/test_a.py": "from tests import b", "b.py": "import tests.c", "c.py": slip}.items():
        (tmp_path / "tests" / file).write_text(line)
    assert tmp_path / "tests" / "c.py" in used_by_the_contract(tmp_path)


@pytest.mark.parametrize(
    "fine",
    [
        "import symgrad\nsymgrad.explain(text).gradients['x'].jacobian",
        "from symgrad.testing import check_backward",
        "from symgrad_cli.main import main",
        "extensions = ['symgrad.sphinx']",
        "SCRIPT = 'import symgrad, torch'",
    ],
)
def test_the_check_of_the_contract_passes_what_is_public(fine: str) -> None:
    assert list(inner_names(fine)) == []


def test_the_contract_stays_short() -> None:
    files = [path for path in TESTS if ROOT / "tests" / "contract" in path.parents]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= CONTRACT_LINES


# --- one subject per file of tests --------------------------------------------------------------------------

MOST_MODULES = 5
"""So many inner modules a file of tests may import: one that needs more has several subjects, or tells of behaviour."""


def inner_modules(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """The modules behind the public ones that a file of tests imports: inside functions, too."""
    return imported(f"tests.{path.stem}", path, modules) - PUBLIC.keys()


def of_many_subjects(files: Iterable[Path], modules: Mapping[str, Path]) -> dict[str, list[str]]:
    """The files of tests that import too many inner modules, with these."""
    found = {str(path): sorted(inner_modules(path, modules)) for path in files}
    return {name: inner for name, inner in found.items() if len(inner) > MOST_MODULES}


@PARSED
def test_a_file_of_tests_has_one_subject() -> None:
    assert of_many_subjects(TESTS, modules_under(ROOT)) == {}


@pytest.mark.parametrize(
    "line", ["import symgrad.f", "from symgrad import f", "def late():\n    from symgrad.f import F"]
)
def test_the_count_of_subjects_can_fail(tmp_path: Path, line: str) -> None:
    modules = {f"symgrad.{name}": tmp_path / f"{name}.py" for name in ("testing", *"abcdef")}
    file = tmp_path / "test_a.py"
    file.write_text("import symgrad.testing\n" + "".join(f"from symgrad.{name} import A\n" for name in "abcde"))
    assert of_many_subjects([file], modules) == {}
    with file.open("a") as more:
        more.write(line)
    assert of_many_subjects([file], modules) == {str(file): [f"symgrad.{name}" for name in "abcdef"]}


def handed_on(root: Path) -> list[str]:
    """What a file of tests takes from another that has it from symgrad itself: so no count of modules would see it."""
    files = {f"tests.{'.'.join(p.relative_to(root).with_suffix('').parts)}": p for p in sorted(root.rglob("*.py"))}
    imports = {
        name: [node for node in nodes_of(path.read_text(encoding="utf-8")) if isinstance(node, ast.ImportFrom)]
        for name, path in files.items()
    }
    own = {
        name: {a.asname or a.name for node in nodes if str(node.module).startswith("symgrad") for a in node.names}
        for name, nodes in imports.items()
    }
    return [
        f"{name}: {alias.name} from {node.module}"
        for name, nodes in imports.items()
        for node in nodes
        for alias in node.names
        if alias.name in own.get(str(node.module), ())
    ]


@PARSED
def test_what_is_symgrads_is_taken_from_symgrad() -> None:
    assert handed_on(ROOT / "tests") == []


def test_the_check_for_what_is_handed_on_can_fail(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("from symgrad.a import A\nB = 1\n")
    (tmp_path / "b.py").write_text("def late():\n    from tests.a import A, B\n")
    assert handed_on(tmp_path) == ["tests.b: A from tests.a"]


# --- what every reader gets ---------------------------------------------------------------------------------

MACHINE = re.compile("(?<![\\w.:/-])/(work|root|home/\\w+|Users/\\w+|tmp/(venv|mock|bash_jobs))(/|\\b)")
"""Absolute paths that exist on one person's machine only."""


def machine_paths(text: str) -> Iterator[Slip]:
    """Mentions of somebody's own folders."""
    for number, line in enumerate(text.splitlines(), start=1):
        for found in MACHINE.finditer(line):
            yield number, f"a path of one machine: {found.group()}"


def test_no_file_names_a_path_of_one_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout: there is no list of the project's files")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    texts = [path for path in files if path.is_file() and b"\0" not in path.read_bytes()]
    assert slips(texts, machine_paths) == []


@pytest.mark.parametrize("folder", ["work/", "work", "home/ada", "Users/ada", "root/.cache", "tmp/venv/dev"])
def test_the_path_check_can_fail(folder: str) -> None:
    assert len(list(machine_paths(f"see '/{folder}' for more"))) == 1


@pytest.mark.parametrize("fine", ["net/work/", "https://example.org/home/page", "/workers", "a/tmp/venv"])
def test_the_path_check_passes_what_is_fine(fine: str) -> None:
    assert list(machine_paths(fine)) == []


def second_sweeps(text: str) -> Iterator[Slip]:
    """Loops from the last step to the first that add to what there is for a tensor: `carry_back` does that for all."""
    for loop in (node for node in nodes_of(text) if isinstance(node, ast.For)):
        if not (isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "reversed"):
            continue
        for node in ast.walk(loop):
            targets = [node.target] if isinstance(node, ast.AugAssign) else getattr(node, "targets", [])
            for target in (t for t in targets if isinstance(t, ast.Subscript)):
                added = isinstance(node, ast.AugAssign) or ast.unparse(target) in ast.unparse(node.value)
                if added and "steps" in ast.unparse(loop.iter):
                    yield node.lineno, ast.unparse(node)


@PARSED
def test_one_function_carries_back() -> None:
    found = slips(LIBRARY, second_sweeps)
    assert [slip.partition(":")[0] for slip in found] == ["symgrad/calculus/propagation.py"], found


@pytest.mark.parametrize("added", ["c[n] = c[n] + p if n in c else p", "c[n] += p", "c[n] = plus(c[n], p)"])
def test_a_second_sweep_is_seen(added: str) -> None:
    assert [*second_sweeps(f"for s in reversed(program.steps):\n    for n in s.tensors:\n        {added}")]
