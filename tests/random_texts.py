"""Random texts of several lines, as people write them, with emphasis on names, aliases and writes; Python's own answer.

A text is drawn by a seed from two inputs, ``x`` and ``a``, both 2×3. What it is worth is asked of Python, which runs it
as it stands: these are the tests' own texts, and no others go that way.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from random import Random
from typing import Any

import torch

X, A = [[0.3, -1.2, 2.1], [0.7, 1.9, -0.4]], [[0.6, 0.2, -1.5], [1.1, -0.8, 0.9]]
UNARY = (
    "sin",
    "exp",
    "tanh",
    "sigmoid",
    "relu",
    "square",
    "abs",
    "clone",
    "contiguous",
    "detach",
    "cumsum(1)",
    "softmax(-1)",
    "flip(1)",
    "double",
    "neg",
)
VIEWS = (
    "view(-1).view(2, 3)",
    "reshape(2, 3)",
    "view_as(x)",
    "T.T",
    "[:]",
    "expand(2, 3)",
    "to(torch.float64)",
    "contiguous()",
    "unsqueeze(0)[0]",
    "narrow(0, 0, 2)",
    "data",
    "detach()",
    "clone()",
    "real",
    "type_as(x)",
)
WRITES = (
    "mul_(2)",
    "add_(a)",
    "sub_(1)",
    "sin_()",
    "exp_()",
    "neg_()",
    "zero_()",
    "fill_(0.5)",
    "clamp_(-1, 1)",
    "div_(2)",
    "add_(x)",
    "copy_(a)",
    "relu_()",
    "tanh_()",
)
IMPORTS = (
    ("from torch import {} as {}", 2), ("import torch as {1}", 1), ("from math import pi as {1}", 0), ("import torch.nn.functional as {1}", 3), ("from torch.nn import functional as {1}", 3),
)  # fmt: skip
FUNCTIONS = ("sin", "cos", "tanh", "exp", "sigmoid", "relu")


class Text:
    """A text under way: ``names`` are those that hold a 2×3 tensor."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.names = ["x", "a"]
        self.lines: list[str] = []

    def pick(self, *of: Any) -> Any:
        return self.random.choice(of)

    def name(self) -> str:
        return self.random.choice(self.names[-3:] if self.random.random() < 0.6 else self.names)

    def fresh(self) -> str:
        """A name to be bound: a new one as a rule, or one that is there."""
        return self.pick("y", "z", "p", "q", "r", "s", "t") if self.random.random() < 0.75 else self.name()

    def expression(self, depth: int = 0) -> str:
        """A 2×3 expression."""
        roll = self.random.random()
        one, other = self.name(), self.name()
        if depth > 1 or roll < 0.2:
            return one
        if roll < 0.45:
            return f"{self.expression(depth + 1)} {self.pick('+', '-', '*')} {self.expression(depth + 1)}"
        if roll < 0.6:
            word = self.pick(*UNARY)
            return f"({self.expression(depth + 1)}).{word}" + ("" if word.endswith(")") else "()")
        if roll < 0.7:
            return f"torch.{self.pick(*FUNCTIONS)}({self.expression(depth + 1)})"
        if roll < 0.75:
            return f"{one} / {one}.abs().sum()"
        if roll < 0.8:
            return f"{one} * {self.pick('2', '0.5', '-1', '3')}"
        if roll < 0.85:
            return f"{self.pick('+', '-')}{one}"
        if roll < 0.9:
            return f"({one} > {other}) {self.pick('*', '-', '+')} {other}"
        return f"torch.where({one} > 0, {one}, {other})"

    def bind(self, *names: str) -> None:
        for name in names:
            if name in self.names:
                self.names.remove(name)
            self.names.append(name)

    def statement(self) -> None:
        """One statement, or two."""
        roll, name, other, target = self.random.random(), self.name(), self.name(), self.fresh()
        second = self.pick("u", "w", self.fresh())
        if roll < 0.16:
            self.lines.append(f"{target} = {self.expression()}")
            self.bind(target)
        elif roll < 0.30:
            values = f"{self.expression()}, {self.expression()}"
            values = self.pick(values, f"[{values}]", f"({values})", f"torch.stack([{values}])")
            self.lines.append(f"{target}, {second} = {values}")
            self.bind(target, second)
        elif roll < 0.36 and name != other:
            self.lines.append(f"{name}, {other} = {other}, {name}")
        elif roll < 0.42:
            self.lines.append(f"{target} = {second} = {self.expression()}")
            self.bind(target, second)
        elif roll < 0.54:
            view = self.pick(*VIEWS)
            self.lines.append(
                f"{target} = {name}{'' if view.startswith('[') else '.'}{view}"
                if self.random.random() < 0.8
                else f"{target} = {self.pick('+', '')}{name}"
            )
            self.bind(target)
        elif roll < 0.68:
            self.lines.append(f"{name}.{self.pick(*WRITES)}")
        elif roll < 0.74:
            self.lines.append(f"{name} {self.pick('+=', '-=', '*=')} {self.expression()}")
        elif roll < 0.80:
            place = self.pick("[0]", "[:, 1]", "[:, ::2]", "[1, 2]", "[1:]")
            self.lines.append(
                f"{name}{place} {self.pick('=', '+=', '*=')} {self.pick(f'{other}{place}', '0.5', f'2 * {other}{place}')}"
            )
        elif roll < 0.84:
            self.lines.append(
                f"for k in range({self.pick(2, 3)}):\n    {target} = {name} * {self.pick('2', 'k', other)}"
            )
            self.bind(target)
        elif roll < 0.87:
            self.lines.append(
                f"with torch.no_grad():\n    {self.pick(f'{target} = {self.expression()}', f'{name}.{self.pick(*WRITES)}', f'{target} = {name}')}"
            )
            if f"\n    {target} =" in self.lines[-1]:
                self.bind(target)
        elif roll < 0.93:
            word, called = self.pick(*FUNCTIONS), self.pick(*FUNCTIONS, "t", "f", "e")
            line = self.pick(
                f"from torch import {word} as {called}", f"import torch as {called}", "from math import pi"
            )
            used = (
                f"{called}({name})"
                if " import " in line and "pi" not in line
                else f"pi * {name}"
                if "pi" in line
                else f"{called}.{word}({name})"
            )
            self.lines += [line, f"{target} = {used}"]
            self.bind(target)
        elif roll < 0.96:
            self.lines.append(
                f"{target}, {second} = {name}.{self.pick('unbind(0)', 'chunk(2)', 'unbind(1)', 'split(1)')}"
            )
            self.lines.append(f"{target} = {target} * {other}")
            self.bind(target)
        else:
            word = self.pick(*FUNCTIONS)
            self.lines += [
                f"{word} = {self.expression()}",
                f"{target} = {self.pick(f'{word} + {name}', f'torch.{word}({name})', f'{word}({name})')}",
            ]
            self.bind(target)


def text_of(seed: int) -> str:
    """The text of a seed; one in six is a console session."""
    text = Text(seed)
    for _ in range(text.random.randint(1, 5)):
        text.statement()
    text.lines.append(
        text.pick(
            text.names[-1], text.expression(), f"{text.names[-1]} * {text.names[-2]}", f"({text.names[-1]} * x).sum()"
        )
    )
    if text.random.random() < 1 / 6 and not any("\n" in line for line in text.lines):
        return "\n".join(f">>> {line}" for line in text.lines)
    joined = "; " if text.random.random() < 0.5 and not any("\n" in line for line in text.lines) else "\n"
    return joined.join(text.lines)


def by_python(text: str, leaves: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """What Python makes of a text: the value of its last line; raises what Python and torch raise."""
    lines = text.removeprefix(">>> ").replace("\n>>> ", "\n")
    before, _, last = (lines.replace("; ", "\n")).rpartition("\n")
    scope: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "out": None, **leaves}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(f"{before}\nout = ({last})", scope)
    found = scope["out"]
    assert isinstance(found, torch.Tensor)
    return found


def gradients(out: torch.Tensor, leaves: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The gradients of the sum of an output, 0 where there is no path."""
    if not out.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(out.sum(), [*leaves.values()], allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if g is None else g for (name, leaf), g in zip(leaves.items(), found, strict=True)
    }


def leaves() -> dict[str, torch.Tensor]:
    """The two inputs."""
    return {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in (("x", X), ("a", A))}
