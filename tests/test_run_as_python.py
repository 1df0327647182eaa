"""Scripts run as Python runs them: arguments, endings, threads, output, and nothing stays in torch's place."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from symgrad_cli.main import main
from tests.played import ACCUMULATION, play


def command(path, *arguments, cwd=None):
    """The command itself, in a process of its own."""
    code = "from symgrad_cli.run import run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def test_accumulation_py(tmp_path, capsys):
    session, told = play(tmp_path, ACCUMULATION)
    first, second = session.calls
    assert first.program == ("z = x * y",)
    assert [(leaf.name, leaf.form, leaf.jacobian) for leaf in first.leaves] == [("x", "v * y", "3×3 diagonal(y)")]
    np.testing.assert_allclose(first.leaves[0].added, [0.5, -1, 2])
    assert first.agrees
    assert "y has requires_grad=False, so y.grad stays None" in told
    assert "x.grad is [0 0 0] from here on" in told
    assert "z2 has 3 elements, so J has 3 rows and backward() has no weights for them." in second.reasons
    assert "The call in line 7 passed torch.ones(3); this one passes nothing." in second.reasons
    assert "  the sum would give x.grad += y2, y2.grad += x" in second.reasons
    assert "(x.grad is [0 0 0] since line 10)" in told
    assert session.status == 1
    output = capsys.readouterr()
    assert output.out.startswith("tensor([ 0.5000, -1.0000,  2.0000])")
    assert "RuntimeError: grad can be implicitly created only for scalar outputs" in output.err
    installed = str(Path(torch.__file__).parent)  # below a checkout that is called symgrad, say
    assert "symgrad" not in output.err.replace(installed, "torch")


def test_arguments_main_and_path(tmp_path, capsys):
    (tmp_path / "beside.py").write_text("word = 'found'\n")
    session, _ = play(
        tmp_path, "import sys, beside\nprint(__name__, sys.argv[1:], beside.word)\nsys.exit(3)\n", "--epochs", "2"
    )
    assert session.status == 3
    assert capsys.readouterr().out == "__main__ ['--epochs', '2'] found\n"


@pytest.mark.parametrize(
    ("source", "status", "word"),
    [
        ("def f(:\n", 1, "SyntaxError"),
        ("import nothing_of_the_kind\n", 1, "ModuleNotFoundError"),
        ("raise SystemExit('over')\n", 1, "over"),
        ("import sys\nsys.exit()\n", 0, ""),
        ("1/0\n", 1, "ZeroDivisionError"),
    ],
)
def test_how_scripts_end(tmp_path, capsys, source, status, word):
    session, _ = play(tmp_path, source)
    assert session.status == status
    assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no/such/script.py", "cannot open the script"),
        ("tests", "is a folder without a __main__"),
        ("", "a script without a name"),
    ],
)
def test_a_script_that_does_not_exist(path, said):
    refused = CliRunner().invoke(main, ["run", path])
    assert (refused.exit_code, said in refused.stderr) == (2, True)


def test_an_option_before_the_script_is_ours_and_one_behind_it_the_scripts(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\n")
    wrong = CliRunner().invoke(main, ["run", "--depth", "2", str(tmp_path / "script.py")])
    assert (wrong.exit_code, "No such option '--depth'" in wrong.output) == (2, True)
    right = CliRunner().invoke(main, ["run", str(tmp_path / "script.py"), "--order", "2", "-o", "x", "--help"])
    assert (right.exit_code, right.output.splitlines()[0]) == (0, "['--order', '2', '-o', 'x', '--help']")


def test_nothing_stays_patched(tmp_path):
    import torch

    before = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
    play(tmp_path, "\n1/0\n")
    assert (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad) == before
    assert not torch.overrides._get_current_function_mode_stack()


def test_threads_are_let_alone(tmp_path):
    session, _ = play(
        tmp_path,
        """
import threading
x = torch.ones(2, requires_grad=True)
thread = threading.Thread(target=lambda: (x * 2).sum().backward())
thread.start(); thread.join()
assert x.grad.tolist() == [2., 2.]
(x * 3).sum().backward()
""",
    )
    assert session.status == 0
    assert len(session.calls) == 1
    np.testing.assert_array_equal(session.calls[0].leaves[0].before, [2, 2])


@pytest.mark.slow
def test_the_command_is_transparent(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("import torch\n" + ACCUMULATION)
    plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    watched = command("-o", str(tmp_path / "story.txt"), str(path))
    assert watched.returncode == plain.returncode == 1
    assert watched.stderr == plain.stderr
    assert watched.stdout == plain.stdout
    assert "z = x * y" in (tmp_path / "story.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_command_with_a_closed_stdout(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import sys, torch\nsys.stdout.close()\nx = torch.ones(2, requires_grad=True)\n(x*2).sum().backward()\n"
    )
    assert command(path).returncode == 0


def test_an_interrupted_script_has_the_status_of_one(tmp_path, capsys):
    session, told = play(
        tmp_path, "x = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\nraise KeyboardInterrupt"
    )
    assert session.status == 130
    assert "= torch" in told
    assert capsys.readouterr().err.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.slow
def test_an_interrupted_script_ends_as_python_ends_it_and_the_story_is_told(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import atexit, os, signal, torch\natexit.register(lambda: print('bye'))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in what a shell started with &
        "x = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n"
        "os.kill(os.getpid(), signal.SIGINT)\nwhile True:\n    pass\n"
    )
    plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    run = command(path)
    assert plain.returncode == -signal.SIGINT
    assert run.returncode == 128 + signal.SIGINT  # what a shell says of the other
    assert run.stderr.strip() == plain.stderr.strip()
    assert "KeyboardInterrupt" in run.stderr
    assert run.stdout.endswith("bye\n")
    assert "= torch" in run.stdout
