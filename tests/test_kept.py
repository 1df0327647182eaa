"""What one run proved of lines, the next one knows: counted, and whatever the folder for it holds or is."""

import json
import os
import subprocess
import sys

import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad import files as kept
from symgrad.backward import line_templates
from symgrad_cli.main import main
from tests.forgotten_lines import forget_lines

PLAIN = """
import torch
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
layer(torch.randn(2, 3, 8)).square().mean().backward()
"""
CLASSES = """
import torch
torch.manual_seed(0)
w = torch.randn(4, 3, requires_grad=True)
torch.nn.functional.cross_entropy(torch.randn(5, 4) @ w, torch.tensor(TARGETS)).backward()
"""
NONE_OUT, ONE_OUT = "[0, 1, 2, 1, 0]", "[0, 1, -100, 1, 0]"
PRODUCT = """
import torch
torch.manual_seed(0)
x, w = (torch.rand(n, 3, requires_grad=True) for n in (2, 3))
torch.tanh(x @ w).sum().backward()
"""
NORM = "import torch\nx = torch.tensor(POINT, requires_grad=True)\n(x / x.norm()).sum().backward()\n"


class Runs:
    """Scripts, each watched as by a process of its own: nothing is remembered but what is in the folder."""

    def __init__(self, folder, monkeypatch, file):
        self.folder, self.file, self.counts = folder, file, {"derived": 0, "proven": 0}
        monkeypatch.setenv(kept.PLACE, str(folder))
        for name, module, function in (
            ("derived", line_templates, "find_closed_form"), ("derived", line_templates, "derive_masked_form"),
            ("derived", line_templates, "write_array_operations"), ("proven", line_templates, "check_form"),
        ):  # fmt: skip
            monkeypatch.setattr(module, function, self.counting(name, getattr(module, function)))

    def counting(self, name, function):
        def counted(*args, **kwargs):
            self.counts[name] += 1
            return function(*args, **kwargs)

        return counted

    def story(self, script, wanted=True):
        self.file.write_text(script)
        self.counts.update(derived=0, proven=0)
        forget_lines()
        options = [] if wanted else ["--no-cache"]
        ran = CliRunner().invoke(main, ["run", *options, str(self.file)], catch_exceptions=False)
        forget_lines()
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    @property
    def files(self):
        return sorted(self.folder.glob(f"*{kept.ENDING}")) if self.folder.is_dir() else []


@pytest.fixture
def runs(tmp_path, monkeypatch):
    return Runs(tmp_path / "deep" / "folder", monkeypatch, tmp_path / "script.py")


# --- what is known ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_run_derives_and_proves_no_line_that_the_first_one_knows(runs):
    first = runs.story(PLAIN)
    assert runs.counts["derived"] > 10
    assert runs.counts["proven"] > 10
    again = runs.story(PLAIN)
    assert again == first == runs.story(PLAIN, wanted=False)
    runs.story(PLAIN)
    assert runs.counts == {"derived": 0, "proven": 0}


def test_what_was_explained_is_known_too_at_other_sizes(runs):
    for sizes in ((2, 3, 4), (5, 6, 7)):
        runs.counts.update(derived=0, proven=0)
        forget_lines()
        m, k, n = sizes
        with kept.keeping():
            found = symgrad.explain("softmax(x @ w, dim=1)", shapes={"x": (m, k), "w": (k, n)}, check=False).backward
        assert found.whole
    assert runs.counts == {"derived": 0, "proven": 0}


def test_a_line_that_holds_for_some_data_is_proven_at_the_data_at_hand(runs):
    """The form that leaves no class out is derived once; whether it holds is seen in each run."""
    fresh = {targets: runs.story(CLASSES.replace("TARGETS", targets), wanted=False) for targets in (NONE_OUT, ONE_OUT)}
    assert fresh[NONE_OUT] != fresh[ONE_OUT]
    for targets in (NONE_OUT, ONE_OUT, NONE_OUT, ONE_OUT):
        assert runs.story(CLASSES.replace("TARGETS", targets)) == fresh[targets]
        assert runs.counts["proven"] > 0
    runs.story(CLASSES.replace("TARGETS", NONE_OUT))
    assert runs.counts["derived"] == 0


def test_what_has_no_line_at_one_point_has_one_at_the_next(runs):
    fresh = {point: runs.story(NORM.replace("POINT", point), wanted=False) for point in ("[0.0, 0.0]", "[3.0, 4.0]")}
    for point in ("[0.0, 0.0]", "[3.0, 4.0]", "[0.0, 0.0]"):
        assert runs.story(NORM.replace("POINT", point)) == fresh[point]


def test_a_proof_that_failed_is_tried_again_in_the_next_run(runs, monkeypatch):
    """Numbers may be so large that nothing is confirmed at them: that says nothing of others."""
    fresh = runs.story(PRODUCT, wanted=False)
    with monkeypatch.context() as large:
        large.setattr(line_templates, "is_proven", lambda *args: False)
        assert runs.story(PRODUCT) != fresh
    assert runs.story(PRODUCT) == fresh


# --- what is no file of this version's ------------------------------------------------------------------------


def with_body(body):
    return f"{kept.digest(body)}\n{body}\n".encode()


def every_value(value):
    return lambda raw: with_body(json.dumps(dict.fromkeys(json.loads(raw.split(b"\n")[1]), value)))


DAMAGED = {
    "empty": lambda raw: b"",
    "cut": lambda raw: raw[: len(raw) // 2],
    "a letter changed": lambda raw: raw.replace(b"v", b"w"),
    "zeros": lambda raw: bytes(len(raw)),
    "no text": lambda raw: bytes(range(256)),
    "deep": lambda raw: with_body("[" * 100_000),
    "a list": lambda raw: with_body("[1, 2]"),
    "numbers": every_value(7),
    "no rules": every_value(["v", None, False, False, ""]),
    "no such call": every_value(["open('x', 'w')", [], False, False, ""]),
    "an import": every_value(["v; import os", [], False, False, ""]),
    "no expression": every_value(["v = ", [], False, False, ""]),
    "underscores": every_value(["v.__class__", [], False, False, ""]),
    "a lambda": every_value(["(lambda: v)()", [], False, False, ""]),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_what_is_damaged_is_as_good_as_nothing(runs, damage):
    fresh = runs.story(CLASSES.replace("TARGETS", NONE_OUT))
    (file,) = runs.files
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert runs.story(CLASSES.replace("TARGETS", NONE_OUT)) == fresh
    assert runs.counts["derived"] > 0
    assert file.read_bytes() == whole  # it is written anew


def test_another_version_knows_nothing_of_it(runs, monkeypatch):
    fresh = runs.story(CLASSES.replace("TARGETS", NONE_OUT))
    for version in range(kept.FILES + 2):
        monkeypatch.setattr(kept, "made_by", lambda version=version: f"symgrad {version}")
        assert runs.story(CLASSES.replace("TARGETS", NONE_OUT)) == fresh
        assert runs.counts["derived"] > 0
    assert len(runs.files) == kept.FILES


def test_a_version_is_the_files_of_symgrad_and_what_derives(monkeypatch, tmp_path):
    here = kept.made_by()
    assert here == kept.made_by()
    assert torch.__version__ in here
    monkeypatch.setattr(torch, "__version__", "0.0")
    assert kept.made_by() != here
    monkeypatch.undo()
    (tmp_path / "new.py").write_text("")
    monkeypatch.setattr(kept, "__file__", str(tmp_path / "kept.py"))
    assert kept.made_by() != here


# --- where nothing can be kept, or is to be -------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_changes_nothing(runs, monkeypatch, tmp_path):
    fresh = runs.story(CLASSES.replace("TARGETS", NONE_OUT), wanted=False)
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "inside"):
        monkeypatch.setenv(kept.PLACE, str(place))
        assert runs.story(CLASSES.replace("TARGETS", NONE_OUT)) == fresh
    assert (tmp_path / "file").read_text() == ""

    def refused(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setenv(kept.PLACE, str(runs.folder))
    monkeypatch.setattr(kept, "replace_whole", refused)
    assert runs.story(CLASSES.replace("TARGETS", NONE_OUT)) == fresh
    assert runs.files == []


def test_nothing_is_kept_unasked(runs, monkeypatch):
    runs.story(CLASSES.replace("TARGETS", NONE_OUT), wanted=False)
    monkeypatch.setenv(kept.PLACE, "")
    runs.story(CLASSES.replace("TARGETS", NONE_OUT))
    assert symgrad.explain("tanh(x)", shapes={"x": (2,)}, check=False).backward.whole  # the library keeps nothing
    assert not runs.folder.exists()


def test_a_fork_writes_nothing(runs, monkeypatch):
    own = os.getpid()
    began = []
    monkeypatch.setattr(os, "getpid", lambda: own if not began else own + 1)
    with kept.keeping():
        kept.keep("a", 1)
        began.append(True)
    assert not runs.folder.exists()


def test_two_runs_at_the_same_time_keep_what_both_proved(runs):
    with kept.keeping():
        kept.keep("a", [1])
        with kept.keeping():
            assert kept.recall("a") is None
            kept.keep("b", [2])
    (file,) = runs.files
    assert [*runs.folder.iterdir()] == [file]
    with kept.keeping():
        assert (kept.recall("a"), kept.recall("b"), kept.recall("c")) == ([1], [2], None)


def test_what_is_loaded_meanwhile_loses_nothing(runs, monkeypatch):
    """torch may be imported between the first question and the end of a run: its file is the one that it read."""
    with kept.keeping():
        kept.keep("a", [1])
    with kept.keeping():
        assert kept.recall("a") == [1]
        kept.keep("b", [2])
        monkeypatch.setattr(kept, "made_by", lambda: "another version")
    (file,) = runs.files
    assert len(json.loads(file.read_text().partition("\n")[2])) == 2


def test_a_file_holds_what_is_newest(runs, monkeypatch):
    monkeypatch.setattr(kept, "MOST", 3)
    for number in range(5):
        with kept.keeping():
            kept.keep(str(number), number)
    with kept.keeping():
        assert [kept.recall(str(number)) for number in range(5)] == [None, None, 2, 3, 4]


PLACES = {
    "linux": ({"XDG_CACHE_HOME": "/else"}, "/else/symgrad"),
    "linux, as usual": ({}, "/own/.cache/symgrad"),
    "linux, no whole path": ({"XDG_CACHE_HOME": "else"}, "/own/.cache/symgrad"),
    "darwin": ({"XDG_CACHE_HOME": "/else"}, "/own/Library/Caches/symgrad"),
    "win32": ({"LOCALAPPDATA": "/local"}, "/local/symgrad"),
}


@pytest.mark.parametrize("system", PLACES)
def test_the_folder_is_the_one_for_caches(system, monkeypatch):
    given, place = PLACES[system]
    for name in (kept.PLACE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/own", **given}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", system.partition(",")[0])
    assert kept.cache_folder().as_posix() == place


# --- the command ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_keeps_unless_it_is_told_not_to(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "kept"
    script.write_text(CLASSES.replace("TARGETS", NONE_OUT))

    def told(*options):
        command = [sys.executable, "-m", "symgrad_cli", "run", *options, str(script)]
        ran = subprocess.run(
            command, env=os.environ | {kept.PLACE: str(folder)}, capture_output=True, text=True, cwd=tmp_path
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    fresh = told("--no-cache")
    assert not folder.exists()
    assert told() == fresh
    (file,) = folder.iterdir()
    before = file.read_bytes(), file.stat().st_mtime_ns
    assert told() == told("--no-cache") == fresh
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before  # nothing was new
