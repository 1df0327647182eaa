"""Random chains of slices and views of one tensor, and how they are held against torch: here, and at other sizes.

A chain takes slices with steps and bounds from either end, views, windows, sums and copies side by side, one after the
other, as far as torch takes it. Nothing in its text is the size of x, so that the same text can be run at others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import numpy as np
import sympy as sp
import torch

from symgrad import dropped_forms
from symgrad.explanation.formulas import derive_formulas, prove_form
from symgrad.indexing import Equation
from symgrad.language import read_program
from symgrad.numeric import as_float, evaluate, forward
from symgrad.oracles.forms import evaluate_text
from tests.compare import assert_same

BOUNDS = (None, 0, 1, 2, 3, -1, -2, -3, -4, 5, -5)
LARGEST, STEPS, TRIES = 200, 5, 10
"""Entries of the largest tensor, links of the longest chain, and how often one more link is tried."""
OTHER, MOST, FEW = range(1, 7), 60, 8
"""Other sizes, and how many combinations of them are tried; at night few, of more chains."""


@dataclass(frozen=True)
class Chain:
    """A text over x, and the shape that x has."""

    text: str
    shape: tuple[int, ...]


def run(text: str, x: torch.Tensor) -> torch.Tensor:
    """The text in torch."""
    value = eval(text, {"x": x, "cat": torch.cat, "stack": torch.stack, "torch": torch})  # noqa: S307 -- the tests' own texts
    assert isinstance(value, torch.Tensor)
    return value


def a_slice(random: Random) -> str:
    """``start:stop:step``, most of them without a step."""
    start, stop = ("" if n is None else str(n) for n in (random.choice(BOUNDS), random.choice(BOUNDS)))
    step = random.choice(("", "", "", "", ":1", ":2", ":3"))
    return f"{start}:{stop}{step}"


def links(random: Random, text: str, rank: int) -> list[str]:
    """One more link of each kind."""
    axis = random.randrange(rank) if rank else 0
    places = [":"] * axis
    found = [f"({text} ** 2)", f"({text} + {text})", f"{text}.unsqueeze({axis})"]
    if not rank:
        return found
    items = [a_slice(random) if random.random() < 0.7 else ":" for _ in range(random.randint(1, rank))]
    found += [f"{text}[{', '.join(items)}]"] * 8
    found += [
        f"{text}[{', '.join([*places, str(random.choice((0, -1, 1, -2)))])}]",
        f"{text}[..., {random.choice(('-1', a_slice(random)))}]",
        f"{text}[{', '.join([*places, 'None'])}]",
        f"{text}.flip({axis})",
        f"{text}.mean({axis})",
        f"{text}.sum({axis}{random.choice(('', ', keepdim=True'))})",
        f"{text}.unfold({axis}, {random.choice((1, 2, 2, 3))}, {random.choice((1, 1, 2))})",
        f"{text}.roll({random.choice((1, -1, 2))}, {axis})",
        f"{text}.select({axis}, {random.choice((0, -1, 1))})",
        f"{text}.narrow({axis}, {random.choice((0, 1, -1, -2))}, 1)",
        f"{text}.chunk({random.choice((2, 3))}, {axis})[{random.choice((0, 1))}]",
        f"{text}.reshape(-1)",
        f"{text}.flatten()",
        f"{text}.squeeze({random.choice(('', str(axis), str(axis - rank)))})",
        f"{text}.unflatten({axis}, {random.choice(('(-1, 1)', '(1, -1)', '(-1, 2)'))})",
        f"{text}.index_select({axis}, torch.tensor([0, 0]))",
        f"{text}[{', '.join([*places, 'None'])}].expand({', '.join(['-1'] * axis + ['2'] + ['-1'] * (rank - axis))})",
        f"cat([{text}, {text}], {axis})",
        f"cat([{text}, {text}[:1]])",
        f"stack([{text}, {text}], {axis})",
    ]
    if rank > 1:
        order = random.sample(range(rank), rank)
        found += [
            f"{text}.mT",
            f"{text}.permute({', '.join(map(str, order))})",
            f"{text}.transpose({order[0]}, {order[1]})",
            f"{text}.diagonal({random.choice((0, 0, 1, -1))})",
            f"{text}.flatten({random.choice(('0', '1', '0, 1'))})",
        ]
    return found


def chain(number: int) -> Chain:
    """The chain that belongs to a number."""
    random = Random(number)
    shape = tuple(random.choice((1, 2, 2, 3, 3, 4, 5)) for _ in range(random.choice((1, 1, 2, 2, 3))))
    text, value, x = "x", torch.zeros(shape), torch.zeros(shape)
    for _ in range(random.randint(1, STEPS)):
        for _ in range(TRIES):
            longer = random.choice(links(random, text, value.dim()))
            try:
                after = run(longer, x)
            except (RuntimeError, IndexError, TypeError, ValueError):
                continue
            if after.numel() <= LARGEST:
                text, value = longer, after
                break
    return Chain(text, shape)


def torch_gradient(text: str, x: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """A random seed, and what torch's backward makes of it; the output as well."""
    leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    out = run(text, leaf)
    seed = generator.integers(-4, 5, size=tuple(out.shape)).astype(float)
    (gradient,) = torch.autograd.grad(out, leaf, torch.tensor(seed))
    return seed, gradient.numpy(), out.detach().numpy()


def sizes_to_try(program: Any, shape: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Other shapes of x that the program says it is for."""
    own = program.inputs[0].shape
    found = []
    for other in product(OTHER, repeat=len(shape)):
        sizes = {size: sp.Integer(number) for size, number in zip(own, other, strict=True) if size.is_Symbol}
        same = all(size.xreplace(sizes) == number for size, number in zip(own, other, strict=True))
        if same and all(size.xreplace(sizes) >= 0 for size in program.required):
            found.append(other)
    return Random(len(found)).sample(found, min(most, len(found)))


def check(drawn: Chain, number: int, most: int = MOST) -> int:
    """Value, formula, J and closed form against torch, the closed form at up to ``most`` other sizes; at how many."""
    text, generator = drawn.text, np.random.default_rng(number)
    x = generator.integers(-5, 6, size=drawn.shape).astype(float)
    seed, expected, out = torch_gradient(text, x, generator)
    reading = read_program(text, shapes={"x": drawn.shape})
    program = reading.program
    values = forward(program, {"x": x, **reading.made})
    assert_same(out, as_float(values["out"]), what=text, seed=number)
    derived = derive_formulas(program, ("x",))["x"]
    if derived.whole.whole:
        raw = evaluate(derived.whole.equation, {**values.arrays, "v": seed}, values.sizes)
        assert_same(expected, as_float(raw), what=f"the formula of {text}", seed=number)
    if derived.jacobian is not None:
        whole = evaluate(Equation((*derived.axes, *derived.inner), derived.jacobian), values.arrays, values.sizes)
        rows = as_float(whole).reshape(seed.size, x.size)
        assert_same(expected.reshape(-1), seed.reshape(-1) @ rows, what=f"J of {text}", seed=number)
    with dropped_forms() as dropped:
        form, _ = prove_form(derived, program, values, seed)
    assert not dropped, f"{text}, seed {number}: {dropped} is withheld"
    if form is None:
        return 0
    return 1 + sum(
        holds_at(text, form.bare, other, number, reading.made) for other in sizes_to_try(program, drawn.shape, most)
    )


def holds_at(text: str, form: str, shape: tuple[int, ...], number: int, made: Mapping[str, np.ndarray]) -> bool:
    """The closed form where x has another shape; False where torch refuses the text there."""
    generator = np.random.default_rng(number)
    x = generator.integers(-5, 6, size=shape).astype(float)
    try:
        seed, expected, out = torch_gradient(text, x, generator)
    except (RuntimeError, IndexError):
        return False
    got = evaluate_text(form, {"x": x, "v": seed, "out": out, **made})
    assert_same(expected, as_float(got), what=f"{form} for {text} at {shape}", seed=number)
    return True
