"""Random index equations beside loops that compute the same: text for symgrad, scalars of torch for the truth.

Comes in: a number. Goes out: `Drawn`, the text of one to three statements, values for what it reads, and its output as
torch's graph of single numbers. Every letter says how far it runs, so nothing is left to be found.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

Places = Mapping[str, int]
Tensors = Mapping[str, torch.Tensor]
Value = Callable[[Places, Tensors], torch.Tensor]
Term = tuple[str, Value]

RELATIONS = {
    "<": operator.lt, "≤": operator.le, ">": operator.gt, "≥": operator.ge, "=": operator.eq, "≠": operator.ne,
}  # fmt: skip
FUNCTIONS = ("exp", "tanh", "sin", "abs", "relu", "sigmoid")
REDUCED = {
    "sum": lambda entries: entries.sum(), "mean": lambda entries: entries.mean(),
    "prod": lambda entries: entries.prod(), "max": torch.amax, "min": torch.amin,
}  # fmt: skip
ZERO = torch.zeros((), dtype=torch.float64)


@dataclass(frozen=True)
class Drawn:
    """A text, what it reads, and what it comes to; ``leaves`` are the tensors that ``out`` was computed from."""

    text: str
    given: Mapping[str, np.ndarray]
    leaves: Tensors
    out: torch.Tensor


@dataclass
class Growth:
    """One drawing: what may be read, and what was."""

    chance: random.Random
    sizes: tuple[int, ...]
    shapes: dict[str, tuple[int, ...]]
    read: set[str] = field(default_factory=set)
    positions: dict[str, np.ndarray] = field(default_factory=dict)

    def place(self, letters: Places, size: int) -> tuple[str, Callable[[Places], int]]:
        """An index of an axis of this size, which stays inside."""
        found: list[tuple[str, Callable[[Places], int]]] = [(str(n := self.chance.randrange(size)), lambda _: n)]
        for i, many in letters.items():
            if many == size:
                found += [(i, lambda at, i=i: at[i])] * 5
            if many <= size:
                found.append((f"{size - 1}-{i}", lambda at, i=i: size - 1 - at[i]))
            if many < size:
                found.append((f"{i}+{size - many}", lambda at, i=i, many=many: at[i] + size - many))
            if many > 1 and 2 * (many - 1) < size:
                found.append((f"2*{i}", lambda at, i=i: 2 * at[i]))
            found.append((f"({i} mod {size})", lambda at, i=i: at[i] % size))
        return self.chance.choice(found)

    def entry(self, letters: Places) -> Term:
        """An entry of a tensor: at places, at positions that are data, or beside a condition that keeps it inside."""
        name = self.chance.choice(list(self.shapes))
        shape = self.shapes[name]
        self.read.add(name)
        if not shape:
            return name, lambda at, known: known[name]
        if letters and len(shape) == 1 and self.chance.random() < 0.15:
            i, step, size = self.chance.choice(list(letters)), self.chance.choice([-2, -1, 1, 2]), shape[0]
            return (
                f"[0 ≤ {i}{step:+} < {size}]*{name}[{i}{step:+}]",
                lambda at, known: known[name][at[i] + step] if 0 <= at[i] + step < size else ZERO,
            )
        places = [self.place(letters, size) for size in shape]
        if letters and self.chance.random() < 0.12:
            i, numbers = self.chance.choice(list(letters)), f"n{len(self.positions) + 1}"
            self.positions[numbers] = data = np.array([self.chance.randrange(shape[0]) for _ in range(letters[i])])
            places[0] = f"{numbers}[{i}]", lambda at: int(data[at[i]])
        texts, values = zip(*places, strict=True)
        return f"{name}[{','.join(texts)}]", lambda at, known: known[name][tuple(value(at) for value in values)]

    def condition(self, letters: Places) -> tuple[str, Callable[[Places], bool]]:
        """A condition on letters."""
        i, sign = self.chance.choice(list(letters)), self.chance.choice(list(RELATIONS))
        others = [j for j in letters if j != i]
        if others and self.chance.random() < 0.6:
            j = self.chance.choice(others)
            return f"[{i} {sign} {j}]", lambda at: RELATIONS[sign](at[i], at[j])
        number = self.chance.randrange(letters[i] + 1)
        return f"[{i} {sign} {number}]", lambda at: RELATIONS[sign](at[i], number)

    def reduced(self, letters: Places, depth: int) -> Term:
        """Σ, Π, mean, max, min over a letter that is not in use."""
        letter = next(name for name in "ijkpqrst" if name not in letters)
        size, sign = self.chance.choice(self.sizes), self.chance.choice(["sum", "sum", *REDUCED])
        text, value = self.term({**letters, letter: size}, depth - 1)
        return f"({sign}_{{{letter}<{size}}} {text})", lambda at, known: REDUCED[sign](
            torch.stack([value({**at, letter: n}, known) for n in range(size)])
        )

    def term(self, letters: Places, depth: int) -> Term:
        """A term over ``letters``, each as long as it says."""
        kind = self.chance.random()
        if depth == 0 or kind < 0.15:
            return self.entry(letters)
        if kind < 0.55:
            (left, first), (right, second) = self.term(letters, depth - 1), self.term(letters, depth - 1)
            return self.chance.choice([
                (f"({left} + {right})", lambda at, known: first(at, known) + second(at, known)),
                (f"({left} - {right})", lambda at, known: first(at, known) - second(at, known)),
                (f"{left}*{right}", lambda at, known: first(at, known) * second(at, known)),
                (f"({left}/(1 + ({right})**2))", lambda at, known: first(at, known) / (1 + second(at, known) ** 2)),
            ])  # fmt: skip
        if kind < 0.7:
            inner, value = self.term(letters, depth - 1)
            name = self.chance.choice(FUNCTIONS)
            return f"{name}({inner})", lambda at, known: getattr(torch, name)(value(at, known))
        if kind < 0.8 and letters:
            (guard, holds), (inner, value) = self.condition(letters), self.term(letters, depth - 1)
            return f"{guard}*{inner}", lambda at, known: value(at, known) if holds(at) else ZERO
        return self.reduced(letters, depth) if len(letters) < 4 else self.entry(letters)


def drawn(number: int) -> Drawn:
    """The equations with this number."""
    chance = random.Random(number)
    first, second, third = sizes = tuple(chance.choice([1, 2, 3, 4]) for _ in range(3))
    shapes: dict[str, tuple[int, ...]] = {"x": (first, second), "w": (second,), "a": (third,), "c": ()}
    growth = Growth(chance, sizes, dict(shapes))
    values = {
        name: np.array([chance.choice([-1, 1, 1]) * round(chance.uniform(0.3, 2), 2) for _ in range(int(np.prod(s)))])
        for name, s in shapes.items()
    }
    leaves = {name: torch.tensor(v.reshape(shapes[name]), requires_grad=True) for name, v in values.items()}
    known, texts = dict(leaves), []
    for name in [*"hg"[: chance.choice([0, 0, 1, 2])], "out"]:
        letters = {letter: chance.choice(sizes) for letter in chance.sample("ijkpqrst", chance.choice([0, 1, 1, 2]))}
        text, value = growth.term(letters, 3 if name == "out" else 2)
        shape = tuple(letters.values())
        entries = [value(dict(zip(letters, at, strict=True)), known) for at in np.ndindex(*shape)]
        known[name], growth.shapes[name] = torch.stack(entries).reshape(shape), shape
        left = f"{name}[{','.join(f'{letter}<{size}' for letter, size in letters.items())}]" if letters else name
        texts.append(f"{left} = {text}")
    read = {name: leaf for name, leaf in leaves.items() if name in growth.read}
    given = {name: leaf.detach().numpy() for name, leaf in read.items()}
    return Drawn("; ".join(texts), {**given, **growth.positions}, read, known["out"])
