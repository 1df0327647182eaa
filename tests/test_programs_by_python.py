"""Random programs of several lines, about names, aliases and writes: what Python and torch make of them, or a refusal.

The text runs as it stands, by Python itself, on torch's tensors; symgrad reads it. Values and gradients are torch's, or
symgrad refuses and says what would do.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad.errors import SymgradError
from symgrad.question import text_inputs
from tests.compare import assert_same
from tests.nights import numbers

NAMES = ("x", "a", "y", "z", "h")
UNARY = ("{} * 2", "{}.sin()", "torch.exp({} / 4)", "+{}", "-{}", "{}", "{}.clone()", "{}.contiguous()", "{}.double()",
         "{}.reshape(-1)", "{}.view(-1)", "{}.to(torch.float64)", "{}.flip(0)", "{}.detach()", "{} - {}.mean()",
         "{}.view(3, 1).T.reshape(3)", "{}.view(1, 3)[0]", "{}[None].squeeze(0)", "{}.expand(3)", "{}.float()")  # fmt: skip
BINARY = ("{} * {}", "{} + {}", "{} - {}", "torch.maximum({}, {})", "torch.where({} > 0.5, {}, 1.5)")
WRITES = ("{0}.mul_(2)", "{0}.add_({1})", "{0} += {1}", "{0} *= 3", "{0}[1:] = {1}[:2]", "{0}[0] = 2", "{0}[::2] *= 2",
          "{0}[-1] = {1}.sum()", "torch.relu_({0})", "{0}.sin_()", "{0}.copy_({1})", "{0}[{0} > 1] = 0.5", "{0}.view(3, 1)[1:].mul_(3)",
          "F.relu({0}, inplace=True)", "{0}[:2].add_({1}[1:])", "{0} -= {0}", "{0}.data.mul_(2)", "{0}.detach().add_(1)")  # fmt: skip
SEVERAL = ("{0}, {1} = {2}, {3}", "{0}, {1} = {1}, {0}", "{0}, {1} = [{2} * 2, {0}]", "({0}, {1}) = ({3}, {2})",
           "{0} = {1} = {2} * 2", "{0}, {1} = torch.stack([{2}, {3}])", "{0}, ({1}, {4}) = {2}, ({3}, {0} * 3)",
           "{0}, *{4} = {2}, {3} * 2, {1}; {4} = {4}[0]", "{0}, {1} = torch.cat([{2}, {3}]).split(3)", "{0}, {1} = ({2} + 1).repeat(2).chunk(2)",
           "for k in range(3): {0} = {0} * 0.5 + k", "for k in range(3): {0}[k] = {1}[2 - k]", "for t in ({2}, {3}): {0} = {0} + t",
           "with torch.no_grad(): {0} = {2} * 3", "with torch.no_grad(): {0} = {2}")  # fmt: skip

BLOCKS = ("def f(t, s=2):\n    u = t * s\n    return u + {0}\n{1} = f({2}) - f({3}, s=3)", "f = lambda t, s=2: t * s\n{0} = f({2}) + f({3}, s=3)",
          "if {2}.sum() > {3}.sum():\n    {0} = {2} * 2\nelse:\n    {0} = {3} - 1", "n = 0\nwhile n < 3:\n    {0} = {2} * 0.5 + n\n    n += 1",
          "{0} = sum([{2} * k for k in range(3)])", "{0} = torch.stack([t * k for k, t in enumerate([{2}, {3}])]).sum(0)",
          "d = {{'p': {2}, 'q': {3} * 2}}\n{0} = d['p'] * d['q']", "d = {{}}\nfor k in range(2): d[f'w{{k}}'] = {2} * k\n{0} = sum(d.values())",
          "{0} = {2} if {2}.mean() > {3}.mean() else {3}", "{0} = {2}\nfor k in range(5):\n    if k == 1: continue\n    if k == 3: break\n    {0} = {0} + {3} * k",
          "{0} = {2}\nfor t, s in zip([{2}, {3}], [2, 3]): {0} = {0} + t * s", "assert {2}.shape == (3,)\n{0} = {2} + {3}",
          "try:\n    {0} = {2} * 2\nfinally:\n    {1} = {3} + 1", "out = []\nfor k in range(3): out.append({2}[k] * {3}[2 - k])\n{0} = torch.stack(out)",
          "def g(t):\n    if t.sum() > 0:\n        return t * {0}\n    def h(s): return s - {3}\n    return h(t)\n{1} = g({2})",
          "{0}, {1} = (lambda t: (t, t * 2))({2})", "k = 3\nf = lambda t: t * k\nk = 4\n{0} = f({2})", "print(f'{{{2}.sum():.2f}}')\n{0} = {2} + 1",
          "with torch.enable_grad():\n    {0} = {2} * {3}", "{0} = {2} if 1 in [0, 1] else {3}", "def f(t):\n    t = t * 2\n    return t\n{0} = f({2}) + {2}",
          "def f(n): return {2} if n == 0 else f(n - 1) * 2\n{0} = f(3)", "{0} = [t for t in [{2}, {3}] if t.sum() > 0 or True][-1]")  # fmt: skip


def program(rng: random.Random, blocks: bool = False) -> str:
    """A text of a few lines that computes a vector of three, of x and a; some are ``blocks``."""
    known, lines = ["x", "a"], []

    def value(form: str) -> str:
        return form.format(*(rng.choice(known) for _ in range(form.count("{}"))))

    for _ in range(rng.randint(2, 6)):
        kind = rng.random()
        if blocks and kind < 0.5:
            names = rng.sample(NAMES, 2)
            form = rng.choice(BLOCKS)
            lines.append(form.format(*(rng.choice(known) if n < 2 and f"{{{n}}} =" not in form else name for n, name in enumerate(names)),
                                     rng.choice(known), rng.choice(known)))  # fmt: skip
            known += [name for n, name in enumerate(names) if f"{{{n}}} =" in form]
        elif kind < 0.45:
            name = rng.choice(NAMES)
            lines.append(f"{name} = {value(rng.choice((*UNARY, *BINARY)))}")
            known.append(name)
        elif kind < 0.75 and len(known) > 2:
            lines.append(rng.choice(WRITES).format(rng.choice(known[2:] * 3 + known[:2]), rng.choice(known)))
        else:
            form, names = rng.choice(SEVERAL), rng.sample(NAMES, 2)
            if form.startswith(("{0}, {1} = {1}", "for")):
                names = rng.sample(sorted({*known}), 2)
            other = rng.choice(("u", "w"))
            lines.append(form.format(*names, rng.choice(known), rng.choice(known), other))
            known += [n for n in names if f"{n}" in form.format(*names, "", "", "").partition("=")[0]]
    sums = [f"{name} * {k + 2}" for k, name in enumerate(dict.fromkeys((*known[2:][-3:], "x", "a")))]
    return "\n".join([*lines, " + ".join(sums)])


def by_python(text: str, numbers: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
    """What the last line is, and the gradients of its sum with weights; raises as Python or torch does."""
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in numbers.items()}
    *lines, last = text.split("\n")
    scope = {"torch": torch, "F": torch.nn.functional, **leaves}
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        exec("\n".join(["def go(x, a):", *(f"    {line}" for line in lines), f"    return {last}"]), scope)
        out = scope["go"](**leaves)
        (out * torch.tensor([1.0, -2.0, 3.0])).sum().backward()
    finally:
        torch.set_default_dtype(before)
    return out, {name: leaf.grad for name, leaf in leaves.items()}


NUMBERS = {"x": np.array([0.5, -1.25, 2.0]), "a": np.array([1.5, 0.25, -0.75])}


def judged(text: str) -> str:
    """How symgrad and Python agree: equal, refused by either or both; anything else fails."""
    try:
        out, gradients = by_python(text, NUMBERS)
    except NameError:
        return "a name without a value"
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        out, gradients, refusal = None, {}, str(error)
    try:
        read = text_inputs(text, {*NUMBERS})
        found = symgrad.explain(text, check=False, seed=[1, -2, 3], **{n: v for n, v in NUMBERS.items() if n in read})
    except SymgradError as error:
        return "both refuse" if out is None else f"symgrad refuses: {error.problem}"
    if out is None:
        return f"torch refuses: {refusal.split(':')[0][:60]}"
    assert_same(out.detach(), found.output, what=text, tolerance=1e-6)
    for name, gradient in found.gradients.items():
        own = torch.zeros(3) if gradients[name] is None else gradients[name]
        assert_same(own, gradient.value, what=f"{name} of {text}", tolerance=1e-6)
    return "equal"


def verdicts(seeds: range, blocks: bool = False) -> Counter[str]:
    """How many programs came out how."""
    return Counter(judged(program(random.Random(seed), blocks)) for seed in seeds)


READ = (
    "import torch as t, math as m\nt.sin(x) * m.pi", "from torch import sin as cos\ncos(x) * a", "from torch import tanh as t\nt(x)",
    "from math import pi, sqrt as s\ns(2) * pi * x", "import torch.nn.functional as f\nf.relu(x)", "from torch.nn import functional as g, ReLU\ng.elu(x)",
    "from torch.nn.functional import (softmax as s)\ns(x, dim=0)", "from math import pi as x\na * x", "from torch import exp\nexp = exp(x)\nexp * a",
    "import torch\nimport os\nx * 2", "x, s = x / x.sum(), x.sum()\nx * s", "x, a = [a, x]\nx - a * a", "(x, a) = (a, x)\nx - a * a",
    "p = q = x * 2\nq.add_(a)\np * q", "p, *q, r = x\nx * p + r * q[0]", "(p, q), r = (x, a), x * a\np * q + r", "p, q = q, p = x, a\np - q * 2",
    "for k in range(2, -1, -1): x = x * k + a\nx", "for i in range(2):\n    h = x * i\n    for j in range(2):\n        h = h + a * j\n    x = h\nx",
    "for y in (x, a):\n    y = y * 2\ny", "with torch.no_grad():\n    y = x * 2\n    z = x\nx * y + z", "n = 3\nn += 1\nx * n",
    "y = x * 2\nz, w = y, [y, a]\nz.mul_(3)\nw[0] * w[1] + y", "y = x * 2\ny[0], y[1] = 5, a[2]\ny", "y = torch.stack([x, a])\ny[:, 1:] = y[:, :2].flip(1)\ny.sum(0)",
)  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_statements_and_imports_are_read_as_python_reads_them(text: str) -> None:
    assert judged(text) == "equal"


@pytest.mark.slow
def test_random_programs_are_read_as_python_reads_them() -> None:
    found = verdicts(range(60))
    assert found["equal"] >= 20, found


@pytest.mark.parametrize(
    "seeds", numbers([range(1000, 1050)], [range(start, start + 250) for start in range(1000, 3000, 250)])
)
def test_more_random_programs(seeds: range) -> None:
    found = verdicts(seeds)
    assert found["equal"] >= 0.32 * len(seeds), found


@pytest.mark.parametrize("seeds", numbers([range(40)], [range(start, start + 100) for start in range(100, 400, 100)]))
def test_functions_branches_and_loops_are_run_as_python_runs_them(seeds: range) -> None:
    found = verdicts(seeds, blocks=True)
    refused = sum(count for what, count in found.items() if what.startswith("symgrad refuses"))
    assert refused <= 0.05 * (found["equal"] + refused), found
    assert found["equal"] >= 0.4 * len(seeds), found
