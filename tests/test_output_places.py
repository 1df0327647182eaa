"""Where results go: files whole or not at all, devices and links written through, any standard output without a traceback."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from symgrad.errors import InputError
from symgrad.files import write_whole
from symgrad_cli.main import main

NULL = Path(os.devnull).stat()
SCRIPT = "import torch\nx = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n"


@pytest.fixture(autouse=True)
def _nothing_replaces_the_null_device():
    yield
    now = Path(os.devnull).stat()
    assert (now.st_ino, stat.S_ISCHR(now.st_mode)) == (NULL.st_ino, True)


def verbs(tmp_path: Path) -> dict[str, list[str]]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    return {
        "explain": ["explain", "x @ a", "--no-check"], "json": ["explain", "tanh(x)", "--no-check", "--format", "json"],
        "derive": ["derive", "x @ a"], "ops": ["ops"], "one": ["ops", "tanh"], "kinks": ["ops", "relu", "--kinks"],
        "compound": ["ops", "torch.linalg.qr"], "run": ["run", str(script)],
        "docs": ["docs", str(tmp_path / "pages"), "--ops", "tanh", "--no-check"], "help": ["explain", "--help"],
    }  # fmt: skip


VERBS = ("explain", "json", "derive", "ops", "one", "kinks", "compound", "run", "docs", "help")


def status(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as left:
        main(arguments, prog_name="symgrad")
    return int(left.value.code or 0)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("verb", VERBS)
def test_a_full_standard_output_is_a_message(verb: str, tmp_path: Path, monkeypatch, capsys) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        found = status(verbs(tmp_path)[verb])
    assert found == (0 if verb == "run" else 2)  # a script goes on, whoever hears what is said about it
    assert verb in ("run", "help") or "standard output cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_a_closed_standard_output_is_a_message(verb: str, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    found = status(verbs(tmp_path)[verb])
    assert found == (0 if verb in ("run", "help") else 2)
    assert verb in ("run", "help") or "there is no standard output" in capsys.readouterr().err


@pytest.mark.one_in(2)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("alphabet", ["latin-1", "ascii"])
def test_a_small_alphabet_gives_a_degraded_page(verb: str, alphabet: str, tmp_path: Path, monkeypatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, alphabet)
    monkeypatch.setattr(sys, "stdout", stream)
    assert status(verbs(tmp_path)[verb]) == 0
    stream.flush()
    written = raw.getvalue().decode(alphabet)
    assert written.strip()
    if verb == "explain":
        assert "sum_j x[i,j]" in written
    if verb == "json":
        assert json.loads(written)["kind"] == "explanation"


@pytest.mark.slow
def test_results_are_read_by_head_and_seen_in_twenty_columns() -> None:
    command = f"COLUMNS=20 {sys.executable} -m symgrad_cli explain 'x @ a' | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "x @ a" in done.stdout


def test_a_link_stays_a_link_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    assert status(["derive", "x * 2", "-o", str(link)]) == 0
    assert link.is_symlink()
    assert "out = x * 2" in target.read_text(encoding="utf-8")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.txt", "target.txt"]
    loose = tmp_path / "loose.txt"
    loose.symlink_to(tmp_path / "not yet.txt")
    write_whole(loose, "text")
    assert loose.is_symlink()
    assert (tmp_path / "not yet.txt").read_text() == "text\n"


def test_a_fifo_is_written_through(tmp_path: Path) -> None:
    fifo, heard = tmp_path / "fifo", []
    os.mkfifo(fifo)
    link = tmp_path / "link"
    link.symlink_to(fifo)
    for path in (fifo, link):
        reader = threading.Thread(target=lambda: heard.append(fifo.read_text(encoding="utf-8")), daemon=True)
        reader.start()
        assert status(["derive", "x * 2", "-o", str(path)]) == 0
        reader.join(10)
    assert len(heard) == 2
    assert all("out = x * 2" in text for text in heard)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert link.is_symlink()


def test_devices_are_written_through(tmp_path: Path, capsys) -> None:
    full = Path("/dev/full").stat()
    assert status(["derive", "x * 2", "-o", "/dev/full"]) == 2
    assert "cannot write /dev/full" in capsys.readouterr().err
    assert Path("/dev/full").stat().st_ino == full.st_ino
    link = tmp_path / "nowhere"
    link.symlink_to(os.devnull)
    write_whole(link, "text")  # through the link and the device: neither is replaced
    assert link.is_symlink()


@pytest.mark.parametrize("verb", ["explain", "derive", "run"])
def test_no_folder_is_made_that_nobody_asked_for(verb: str, tmp_path: Path, capsys) -> None:
    assert status([verb, "-o", str(tmp_path / "new" / "page.txt"), verbs(tmp_path)[verb][1]]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
    assert status(["docs", str(tmp_path / "a" / "b"), "--ops", "tanh"]) == 2
    assert not (tmp_path / "a").exists()


def test_a_file_is_written_whole_or_stays(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "page.txt"
    path.write_text("before")

    def fails(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(InputError, match="cannot write"):
        write_whole(path, "after")
    assert path.read_text() == "before"
    assert [p.name for p in tmp_path.iterdir()] == ["page.txt"]
    monkeypatch.undo()
    write_whole(path, "half a character: \udcff")
    assert path.read_text() == "half a character: \\udcff\n"
    with pytest.raises(InputError):
        write_whole(Path("a\0b"), "text")
    with pytest.raises(InputError, match="cannot write"):
        write_whole(tmp_path / ("x" * 300), "text")
    with pytest.raises(InputError, match="cannot write"):
        write_whole(tmp_path, "text")
