"""A mistake in the reader is seen by the texts that are held against Python, and one in the language by the reader.

Each mutation changes one line of `symgrad.reference`: two targets are swapped, an alias is dropped, an argument is read
late. The texts are those of `test_reference_reader`, each of which has Python's own answer beside it.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import symgrad
from symgrad.errors import UnsupportedError
from tests.test_reference_reader import CONSOLES, PYTHONS, A, X, by_python, leaf
from tests.test_text_is_asked import misread

HOME = Path(symgrad.__file__).parent / "reference"
MUTATIONS = (
    ("__init__.py", "for part, found in zip(parts, self.unpacked(parts, value), strict=True):", "for part, found in zip(reversed(parts), self.unpacked(parts, value), strict=True):"),
    ("__init__.py", "        for target in targets:\n            self.assign(target, value)", "        for target in targets[:1]:\n            self.assign(target, value)"),
    ("__init__.py", "else [*found[:star], found[star:stop], *found[stop:]]", "else [*found[:star], found[star:stop][:1], *found[stop:]]"),
    ("__init__.py", "stop = len(found) - (count - (star or 0))", "stop = len(found)"),
    ("__init__.py", "IN_PLACE[type(sign)], value)", "BINARY[type(sign)], value)"),
    ("__init__.py", "                self.caller.operator(operator.setitem, owner, key, self.last)\n", ""),
    ("__init__.py", "self.caller.operator(operator.setitem, owner, self.index(owner, key), value)", "self.caller.operator(operator.setitem, owner if isinstance(owner, dict) else owner.clone(), self.index(owner, key), value)"),
    ("__init__.py", "self.names[name] = value", "self.names.setdefault(name, value)"),
    ("__init__.py", "self.names[alias.asname or alias.name]", "self.names[alias.name]"),
    ("__init__.py", "self.names[alias.asname or first] = whole", "self.names[first] = whole"),
    ("__init__.py", "for entry in self.entries(self.value(over)):", "for entry in self.entries(self.value(over))[:-1]:"),
    ("__init__.py", 'torch.no_grad() if word == "no_grad"', 'torch.enable_grad() if word == "no_grad"'),
    ("__init__.py", '"\\n".join(line[p.end() :] for p, line in zip(prompts, lines, strict=True) if p)', '"\\n".join(line[p.end() :] for p, line in zip(prompts, lines, strict=True) if p and ("=" in line or line == lines[-1]))'),
    ("__init__.py", "body if self.truth(self.value(test)) else orelse", "orelse if self.truth(self.value(test)) else body"),
    ("evaluation.py", "self.combined(BINARY[type(sign)], self.value(left), self.value(right))", "self.combined(BINARY[type(sign)], *reversed((self.value(left), self.value(right))))"),
    ("evaluation.py", "self.names if word in self.names else ALONE", "self.names if word in self.names and not callable(getattr(torch, word, None)) else ALONE"),
    ("evaluation.py", "return self.caller.operator(UNARY[type(way)], self.value(operand))", "return self.caller.operator(torch.clone if isinstance(way, ast.UAdd) else UNARY[type(way)], self.value(operand))"),
    ("evaluation.py", "        args = self.listed(node.args)\n", "        args = self.listed(node.args)[::-1]\n"),
    ("evaluation.py", "            kwargs[keyword.arg] = self.value(keyword.value)\n", "            kwargs[keyword.arg] = True\n"),
    ("evaluation.py", "if part is not parts[-1] and self.truth(found) is stops:", "if part is not parts[-1] and self.truth(found) is not stops:"),
    ("evaluation.py", "self.names = outside", "self.names = {**outside, **self.names}"),
    ("__init__.py", "return not left.on", "return left.on"),
    ("__init__.py", "while self.truth(self.value(test)) and not self.left(body):", "if self.truth(self.value(test)) and not self.left(body):"),
    ("__init__.py", "self.statements([*body, *orelse])", "self.statements(body)"),
    ("__init__.py", "                    self.statements(finalbody)", "                    pass"),
    ("evaluation.py", "{**around, **function.defaults, **given, **kwargs}", "{**around, **given, **kwargs, **function.defaults}"),
    ("evaluation.py", "TextFunction(name, parameters, defaults, body, self.names, local)", "TextFunction(name, parameters, defaults, body, dict(self.names), local)"),
    ("evaluation.py", "            self.names, self.unbound = before", "            self.unbound = before[1]"),
    ("evaluation.py", "found = self.holds(right, left) is MEMBER[type(relation)]", "found = self.holds(right, left)"),
    ("evaluation.py", "            found[self.key(key)] = value", "            found.setdefault(self.key(key), value)"),
    ("call_dispatch.py", "return args, {**kwargs, \"dtype\": torch.complex128 if pairs else torch.float64}", "return args, kwargs"),
    ("call_dispatch.py", "return self.counted(bound, [owner, *args], kwargs, name)", "return self.counted(bound, [owner.clone(), *args], kwargs, name)"),
    ("call_dispatch.py", "return value if value.dtype is torch.bool and name == \"where\" else value.double()", "return value"),
    ("bounds.py", "ORDER = (F, torch, torch.linalg", "ORDER = (torch.linalg, torch, F"),
)  # fmt: skip


@cache
def pythons() -> dict[str, tuple[torch.Tensor, torch.Tensor | None]]:
    """The value and the gradient of the sum by x of each text, by Python."""
    found = {}
    for text in (*PYTHONS, *MORE):
        given = {"x": leaf(X), "a": leaf(A)}
        found[text] = worth(by_python(text, given), given["x"])
    return found


MORE = (
    "k = 5\ny = torch.stack([x * k for k in range(3)])\ny * k",
    "torch.sub(x, a)",
    "torch.std(x, dim=1, unbiased=False)",
    "f.norm(x)".replace("f.", "torch."),
    "a - x",
)


def worth(out: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
    try:
        slope = torch.autograd.grad(out.sum(), x, allow_unused=True)[0] if out.requires_grad else None
    except RuntimeError:  # torch has no derivative of //
        slope = None
    return out.detach().double(), slope


@pytest.fixture
def mutant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Callable[..., Any]]]:
    """A copy of the reader with one line changed."""
    made: list[str] = []

    def make(number: int) -> Callable[..., Any]:
        name = f"mutant_{number + 1}"
        folder = tmp_path / name
        shutil.copytree(HOME, folder, ignore=shutil.ignore_patterns("__pycache__"))
        for path in folder.glob("*.py"):
            path.write_text(path.read_text(encoding="utf-8").replace("symgrad.reference", name), encoding="utf-8")
        if number >= 0:
            file, before, after = MUTATIONS[number]
            text = (folder / file).read_text(encoding="utf-8")
            assert before in text, before
            (folder / file).write_text(text.replace(before, after, 1), encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        made.append(name)
        run: Callable[..., Any] = importlib.import_module(name).run_reference
        return run

    yield make
    for name in [key for key in sys.modules for name in made if key.partition(".")[0] == name]:
        del sys.modules[name]


def seen(run: Callable[..., Any]) -> str:
    """The first text of which a reader gives another value, or another gradient, than Python."""
    for text, (value, gradient) in pythons().items():
        given = {"x": leaf(X), "a": leaf(A)}
        try:
            out, slope = worth(run(text, given).output, given["x"])
        except Exception:
            return text
        if (
            out.shape != value.shape
            or not torch.allclose(out, value, rtol=1e-9)
            or (slope is None) != (gradient is None)
        ):
            return text
        if slope is not None and gradient is not None and not torch.allclose(slope, gradient, rtol=1e-9):
            return text
    for text, times in CONSOLES.items():
        x = leaf(X)
        try:
            if not torch.allclose(run(text, {"x": x}).output, times * x):
                return text
        except Exception:
            return text
    return ""


def test_the_reader_as_it_is_differs_nowhere(mutant: Callable[[int], Callable[..., Any]]) -> None:
    assert seen(mutant(-1)) == ""


@pytest.mark.parametrize("number", range(len(MUTATIONS)))
def test_a_mistake_in_the_reader_is_seen(number: int, mutant: Callable[[int], Callable[..., Any]]) -> None:
    assert seen(mutant(number)) != "", MUTATIONS[number]


SLIPS = {
    "x, a = a, x; x - 2 * a": "x - 2 * a",  # one after the other
    "p, q = x * 2, a * 3; p - q": "q, p = x * 2, a * 3; p - q",  # swapped targets
    "p = q = x * 2; p - 3 * q": "p = x * 2; q = x; p - 3 * q",  # the second target is lost
    "y = x * 2; z = y; z.mul_(5); y": "y = x * 2; z = y * 5; y",  # a dropped alias
    "y = x * 2; z = +y; z.add_(1); y * a": "y = x * 2; y * a",
    "y = x * 2; z = y.view(6); z.mul_(5); y": "y = x * 2; y",
    "y = x * 2; y.mul_(5); y": "y = x * 2; y",  # a lost write
    "y = x * 2; z = y * a; y = x; z": "y = x * 2; y = x; z = y * a; z",  # an argument that is read late
    "y = x; x = a * 2; y * x": "a * 2 * a * 2 + 0 * x",
    "y = x * 2; y += a; y": "y = x * 2; y + 0 * a",
    "torch.sub(x, a)": "a - x", "torch.where(x > 0, x, a)": "torch.where(x > 0, a, x)", "x.sum(1, keepdim=True) * a": "x.sum(0, keepdim=True) * a",
    "from torch import sin as cos; cos(x) * a": "cos(x) * a", "exp = x * 2; exp + a": "a + 0 * x",
    "y = x.detach(); y * a": "y = x; y * a", "with torch.no_grad():\n    y = x * 2\ny * a": "y = x * 2; y * a",
    "y = x * 1\nfor k in range(3):\n    y = y * a\ny": "y = x * a; y = y * a; y", "y = x * 1; y[0] = a[0]; y": "y = x * 1; y + 0 * a",
    "p, *q = x.unbind(1); p * q[1] * a[:, 0]": "p, q, r = x.unbind(1); p * q * a[:, 0]", ">>> y = x * 2\n>>> y.mul_(5)\n>>> y * a": "y = x * 2; y * a",
    "x.softmax(0) * a": "x.softmax(1) * a", "x @ a.T": "(x @ a.T).T", "torch.tensor([200, 100, 1], dtype=torch.uint8) * 2 * x": "torch.tensor([400, 200, 2]) * x",
}  # fmt: skip
"""What a language might take a text for."""


@pytest.mark.parametrize("typed", SLIPS)
def test_a_mistake_in_the_language_is_seen(typed: str) -> None:
    values = {name: value for name, value in (("x", X), ("a", A)) if name in SLIPS[typed]}
    with pytest.raises(UnsupportedError, match="differently from Python"):
        misread(typed, SLIPS[typed], **values)
