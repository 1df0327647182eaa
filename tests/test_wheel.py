"""The released artefact: what the wheel holds, and that it works where nothing else is.

Hatchling's default would leave ``symgrad_cli`` out of the wheel without a word, and an editable install would
hide the loss. Only a wheel in a clean environment shows that a user gets what a developer has.
"""

import os
import re
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]  # built once, in one process

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
VERSION = re.findall(r'__version__ = "(.+)"', (ROOT / "symgrad" / "__init__.py").read_text(encoding="utf-8"))[0]

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
"""The environment of a user's shell: nothing in it points at the work tree."""


def run(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """What ``command`` prints; a failure shows everything it said."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=CLEAN | variables,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    said = f"{' '.join(map(str, command))}\nexit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a release builds it, with the tested version of the build tool."""
    target = tmp_path_factory.mktemp("wheel")
    run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", target, ROOT],
        cwd=target,
        PIP_CONSTRAINT=str(CONSTRAINTS),
        PIP_BUILD_CONSTRAINT=str(CONSTRAINTS),  # what newer versions of pip read instead
    )
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that holds the wheel and what it depends on, nothing else."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home)
    folder = home / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", folder / "python"]
    run([*pip, "install", "--quiet", "--no-compile", "-c", CONSTRAINTS, wheel], cwd=home)
    return folder


def test_a_message_leads_to_its_page_where_only_the_wheel_is(scripts: Path, tmp_path: Path) -> None:
    said = run(
        [scripts / "python", "-c", "from symgrad.errors import ShapeError; print(ShapeError('sizes').page)"], tmp_path
    )
    told = run([scripts / "symgrad", *said.split()[1:]], tmp_path)
    assert told.startswith("error[shape]\n\nSizes that do not fit together.\n")
    assert told.count("error[shape]: ") == 2


def test_the_wheel_holds_exactly_the_two_packages(wheel: Path) -> None:
    names = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert names == {"symgrad", "symgrad_cli", f"symgrad-{VERSION}.dist-info"}


def test_the_wheel_holds_every_source_file(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "symgrad").rglob("*.py")}
    sources |= {path.relative_to(ROOT / "cli").as_posix() for path in (ROOT / "cli").rglob("*.py")}
    assert sources - packed == set()


@pytest.mark.parametrize("package", ["symgrad", "symgrad_cli"])
def test_the_wheel_tells_type_checkers_that_it_is_typed(wheel: Path, package: str) -> None:
    assert f"{package}/py.typed" in zipfile.ZipFile(wheel).namelist()


def test_the_wheel_carries_the_licence(wheel: Path) -> None:
    assert f"symgrad-{VERSION}.dist-info/licenses/LICENSE" in zipfile.ZipFile(wheel).namelist()


def test_the_environment_has_no_torch(scripts: Path, tmp_path: Path) -> None:
    question = "import importlib.util; print(importlib.util.find_spec('torch'))"
    assert run([scripts / "python", "-c", question], cwd=tmp_path).strip() == "None"


def test_the_command_tells_its_version(scripts: Path, tmp_path: Path) -> None:
    assert VERSION in run([scripts / "symgrad", "--version"], cwd=tmp_path)


def test_the_command_explains_without_torch_and_says_so(scripts: Path, tmp_path: Path) -> None:
    page = run([scripts / "symgrad", "explain", "x@a", "--seed", "[[1,2,3,4],[5,6,7,8]]"], cwd=tmp_path)
    assert re.search(r"\b10\D+10\D+10\b", page), page
    assert re.search(r"\b26\D+26\D+26\b", page), page
    assert re.search(r"torch\b.*\bnot installed|without torch", page), page


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("check", "torch:tanh", "tanh(x)", "--let", "x=randn(3)"), "symgrad[torch]"),
        (("run", "script.py"), "symgrad[torch]"),
        (("explain", "--call", "torch:tanh", "--let", "x=[1]"), "symgrad[torch]"),
        (("explain", "x@a", "--format", "html"), "symgrad[pages]"),
        (("derive", "x@a", "--format", "html"), "symgrad[pages]"),
        (("serve",), "symgrad[serve]"),
        (("docs", "folder", "--ops", "relu", "--format", "html"), "symgrad[docs]"),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else part,
)
def test_what_a_bare_environment_lacks_is_named(
    scripts: Path, tmp_path: Path, arguments: tuple[str, ...], named: str
) -> None:
    """`symgrad check` and a page that was printed ended in a traceback: No module named 'torch', 'markupsafe'."""
    (tmp_path / "script.py").write_text("print(1)\n", encoding="utf-8")
    done = subprocess.run(
        [str(scripts / "symgrad"), *arguments], cwd=tmp_path, env=CLEAN, capture_output=True, encoding="utf-8",
        check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert f'pip install "{named}"' in done.stderr
    assert "Traceback" not in done.stderr
