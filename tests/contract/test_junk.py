"""Junk on the command line: an answer or a message, never a traceback, never another status than what is promised.

Commands, texts and values that are right are spoilt at random: letters lost, doubled, put in, swapped, words mixed, and
options joined that do not belong together. The same lines in every run; the slow run has more. `test_arguments` does the
same to the functions.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from symgrad_cli.main import main
from tests.nights import numbers

TEXTS = (
    "x@a", "softmax(x)", "torch.tanh(x @ w + b)", "x[1:-2].mean(0)", "h = relu(x@w); h.sum()", "einsum('ij,jk->ik', x, a)",
    "out[i] = sum_j x[i+j]*w[j]", "F.layer_norm(x, (3,))", "torch.where(x > 0, x.sqrt(), x)", "x ** -0.5", "-x.T",
    "norm(x)", "cross_entropy(x, n)", "cat([x, y], -1)", "x if x else y", "lambda x: x", "x.repeat(10**9)", "x[...]",
    "F.conv1d(x, w, stride=2)", "sort(x).values", "1/0", "inf", "'x'", "__import__('os')", "x.__class__", "", " ", "x" * 400,
    "(" * 300, "x\n+y", "x = y", "λ*ß", "x;x;", "exp(exp(exp(x)))", "sum_i x[i]", "out = Σ_j x[j]", "i->", "ij,jk->ik",
)  # fmt: skip
VALUES = (
    "[[1,2],[3,4]]", "[1,2,3]", "1/2", "ones(2,3)", "eye(3)", "arange(6,shape=(2,3))", "randn(2,3,seed=0)", "@none.npy",
    "@.", "@/dev/null", "[1,[2]]", "nan", "inf", "1e400", "10**9", "ones(10**9)", "[]", "[[]]", "", "0", "-0", "1j",
    "'a'", "True", "zeros(0)", "onehot(1)", "random", "randn(-1)", "eye(1,2,3)", "[" * 300, "1" * 400, "x", "1/0",
)  # fmt: skip
NAMES = ("x", "a", "w", "b", "n", "y", "v", "out", "L", "λ", "", "x,y", "1", "x x", "lambda", "--", "é")
SIZES = ("2,3", "3", "", "n,m", "0", "-1", "2,", ",", "100000,100000", "1.5", "x", "²", "2x3")
FREE = {
    "explain": {
        "--let": (NAMES, VALUES), "--shape": (NAMES, SIZES), "--wrt": (NAMES,), "--seed": (VALUES,), "--then": (TEXTS,),
        "--entry": (("x[0]", "x[0,1]", "x", "[0]", "x[-1]", "x[9]", "x[a]", "", "x[0"),), "--brief": (), "--expand": (),
        "--order": (("1", "2", "3", "x", ""),), "--no-check": (), "--format": (("text", "markdown", "latex", "json", "svg", "x"),),
        "--call": (("os:path", "math:sin", "torch:tanh", "x", ":", "a:b:c", "nowhere:f", "torch:nn", "a.b", ""),),
        "-o": (("", "none/none/x", ".", "/dev/null"),), "--color": (), "--junk": (), "-": (),
    },
    "derive": {
        "--shape": (NAMES, SIZES), "--wrt": (NAMES,), "--format": (("text", "markdown", "latex", "json", "svg"),),
        "-o": (("", ".", "/dev/null"),), "--junk": (),
    },
    "ops": {"--kinks": (), "--at": (("0", "x", "nan", "1e400", "", "-1", "1/2"),), "--junk": ()},
    "run": {
        "--only": (NAMES,), "--call": (("1", "0", "x", ""),), "--code": (("1", "-1"),), "--every": (("1", "0", "-3", "x"),),
        "--format": (("text", "svg"),),
        "-o": (("", ".", "/dev/null"),),
    },
    "check": {
        "--let": (NAMES, VALUES), "--wrt": (NAMES,), "--order": (("1", "2", "3"),), "--dtype": (("float64", "float16", "int"),),
        "--only": (("values", "x", "", ",", "seeds,x"),), "--skip": (("values", "x", ""),), "--seed": (("0", "-1", "x"),),
        "--format": (("text", "json", "x"),), "-o": (("", "."),),
    },
    "docs": {"--ops": (("x", "", ",", "softmaks,x"),), "--no-check": ()},
}  # fmt: skip
FIRST = {
    "explain": TEXTS, "derive": TEXTS, "check": ("torch:tanh", "math:sin", "x", ":", "os:path", "nowhere:f,g", "torch:nn"),
    "ops": ("softmax", "relu", "x", "", "softmaks", "F.softmax", "torch.nn.functional.relu", "matmul"),
    "run": ("none.py", ".", "", "junk.py", "/dev/null", "binary.py", "exit.py"), "docs": ("", "file"),
}  # fmt: skip
LETTERS = "()[]{}.,;:=+-*/@<>'\"\\ \t\n0123456789xyaiΣδ𝟙²é_!#%&|^~`$"
SPOILT = {"ops": 0.4, "docs": 0.0}
"""How many of the words are spoilt: 0.6 of them, and none of what would make a folder of that name."""


def spoilt(word: str, lots: random.Random) -> str:
    """One to three letters lost, doubled, put in or swapped, or another text in the middle."""
    for _ in range(lots.randint(1, 3)):
        at = lots.randint(0, len(word))
        kind = lots.randint(0, 4)
        if kind == 0:
            word = word[:at] + word[at + 1 :]
        elif kind == 1:
            word = word[:at] + lots.choice(LETTERS) + word[at:]
        elif kind == 2:
            word = word[:at] + word[max(0, at - 3) : at] + word[at:]
        elif kind == 3:
            word = word[at:] + word[:at]
        else:
            word = word[:at] + lots.choice(TEXTS)[:20] + word[at:]
    return word


def line(number: int) -> list[str]:
    """The command line of a number."""
    lots = random.Random(number)
    command = lots.choices(list(FREE), [12, 4, 2, 2, 3, 1])[0]

    def word(among: tuple[str, ...]) -> str:
        chosen = lots.choice(among)
        return spoilt(chosen, lots) if lots.random() < SPOILT.get(command, 0.6) else chosen

    words = [command, *([word(FIRST[command])] if lots.random() < 0.95 else [])]
    words += [word(TEXTS)] if command == "check" or lots.random() < 0.05 else []
    for name in lots.choices(list(FREE[command]), k=lots.randint(0, 4)):
        given = "=".join(word(part) for part in FREE[command][name])
        words += [name, given] if FREE[command][name] else [name]
    return [w if "\0" not in w else "" for w in words]


def told(number: int) -> str:
    """What became of a line, in a word; fails where that is not one of three."""
    words = line(number)
    done = CliRunner().invoke(main, words)
    said = f"{number}: {words}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert done.exception is None or isinstance(done.exception, SystemExit), f"{done.exception!r} {said}"
    assert "Traceback" not in done.stderr, said
    assert "symgrad bug" not in done.output, said
    if done.exit_code == 2:
        assert done.stderr.strip(), said
        assert not done.stdout, said
        return "refused"
    wrong = words[0] in ("check", "run")  # a function may be wrong, and a script ends as it likes
    assert done.exit_code == 0 or (done.exit_code == 1 and wrong), f"{done.exit_code} {said}"
    return "wrong" if done.exit_code else "answered"


@pytest.mark.parametrize("part", [0, *numbers(range(1, 5), range(5, 12))])
def test_junk_is_answered_or_refused(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("junk.py").write_text("def (", encoding="utf-8")
    Path("exit.py").write_text("raise SystemExit(1)", encoding="utf-8")
    Path("binary.py").write_bytes(bytes(range(256)))
    Path("file").write_text("", encoding="utf-8")
    before = set(os.listdir())
    count = 150
    found, failed = [], []
    for number in range(part * count, (part + 1) * count):
        try:
            found.append(told(number))
        except AssertionError as error:
            failed.append(str(error))
    assert not failed, f"{len(failed)} of {count}:\n" + "\n\n".join(failed)
    assert found.count("refused") > count // 3
    assert found.count("answered") > count // 50
    asked = {after for n in range(part * count, (part + 1) * count) for after in line(n)[1:]}
    assert set(os.listdir()) - before <= asked, "files nobody asked for"
