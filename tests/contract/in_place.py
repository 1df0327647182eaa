"""Random programs that write in place through views: to be captured, and run by torch.

A program is a list of steps over the tensors that are there: a view of one of them, a write into one of them (into a
view or into what it is a view of), or something computed from them. The same steps run each time they are called.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch

Tensors = list[torch.Tensor]
Step = Callable[[Tensors], None]

VIEWS, WRITES, MADE = 3, 3, 2
"""How often each kind of step is drawn."""
LEAST, MOST, TRIES = 3, 9, 20


class Drawn:
    """A program of one tensor; ``steps`` says what it does."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.steps: list[tuple[str, Step]] = []
        self.results: tuple[int, ...] = ()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        tensors = [x, x * 2]
        for _, step in self.steps:
            step(tensors)
        return torch.cat([tensors[n].reshape(-1) for n in self.results])

    def __repr__(self) -> str:
        names = "; ".join(text for text, _ in self.steps)
        return f"t0 = x {self.shape}; t1 = x * 2; {names}; {', '.join(f't{n}' for n in self.results)}"


def a_key(random: Random, shape: torch.Size) -> tuple[int | slice, ...]:
    """Slices and places of some of the axes."""
    ends = (None, 0, 1, 2, -1, -2, -3)
    return tuple(
        random.randrange(-n, n)
        if n and random.random() < 0.2
        else slice(random.choice(ends), random.choice(ends), random.choice((None, None, None, 2)))
        for n in shape[: random.randint(1, len(shape))]
    )


def shown(key: tuple[int | slice, ...]) -> str:
    """A key as it is written."""
    return ", ".join(
        str(k) if isinstance(k, int) else ":".join("" if p is None else str(p) for p in (k.start, k.stop, k.step))
        for k in key
    )


def view(random: Random, tensors: Tensors) -> tuple[str, Step]:
    """Another name for some of the entries."""
    n = random.randrange(1, len(tensors))
    t, new = tensors[n], len(tensors)
    rank = t.dim()
    axis = random.randrange(rank) if rank else 0
    order = random.sample(range(rank), rank)
    key = a_key(random, t.shape) if rank else ()
    size = random.choice((1, 2))
    choices: list[tuple[str, Callable[[torch.Tensor], torch.Tensor]]] = [
        ("view(-1)", lambda t: t.view(-1)),
        (f"unsqueeze({axis})", lambda t: t.unsqueeze(axis)),
    ]
    if rank:
        choices += [(f"[{shown(key)}]", lambda t: t[key])] * 4
        choices += [
            (f"permute{tuple(order)}", lambda t: t.permute(order)),
            (f"select({axis}, -1)", lambda t: t.select(axis, -1)),
            (f"narrow({axis}, -1, 1)", lambda t: t.narrow(axis, -1, 1)),
            (f"unfold({axis}, {size}, {size})", lambda t: t.unfold(axis, size, size)),
            (f"chunk(2, {axis})[0]", lambda t: t.chunk(2, axis)[0]),
            ("diagonal()", lambda t: t.diagonal()),
            ("flatten()", lambda t: t.flatten()),
        ]
    text, take = random.choice(choices)
    return f"t{new} = t{n}.{text}".replace(".[", "["), lambda tensors: tensors.append(take(tensors[n]))


def write(random: Random, tensors: Tensors) -> tuple[str, Step]:
    """Something done in place, to a tensor or a part of one."""
    n, m = random.randrange(1, len(tensors)), random.randrange(len(tensors))
    t = tensors[n]
    key = a_key(random, t.shape) if t.dim() and random.random() < 0.5 else None
    part = f"t{n}" if key is None else f"t{n}[{shown(key)}]"

    def of(tensors: Tensors) -> torch.Tensor:
        return tensors[n] if key is None else tensors[n][key]

    def other(tensors: Tensors) -> torch.Tensor:
        """What is read: a copy where it overlaps what is written, since torch leaves open what it reads there then."""
        apart = tensors[m].untyped_storage().data_ptr() != tensors[n].untyped_storage().data_ptr()
        return tensors[m] if apart or (n == m and key is None) else tensors[m].clone()

    def put(tensors: Tensors) -> None:
        tensors[n][... if key is None else key] = other(tensors)

    choices: list[tuple[str, Step]] = [
        (f"{part}.mul_(2)", lambda tensors: [of(tensors).mul_(2), None][1]),
        (f"{part}.add_(1)", lambda tensors: [of(tensors).add_(1), None][1]),
        (f"{part}.zero_()", lambda tensors: [of(tensors).zero_(), None][1]),
        (f"{part}.sin_()", lambda tensors: [of(tensors).sin_(), None][1]),
        (f"{part}.add_(t{m})", lambda tensors: [of(tensors).add_(other(tensors)), None][1]),
        (f"{part}.mul_(t{m})", lambda tensors: [of(tensors).mul_(other(tensors)), None][1]),
        (f"{part}.copy_(t{m})", lambda tensors: [of(tensors).copy_(other(tensors)), None][1]),
        (f"{part} = t{m}", put),
    ]
    return random.choice(choices)


def made(random: Random, tensors: Tensors) -> tuple[str, Step]:
    """A new tensor."""
    n, m, new = random.randrange(len(tensors)), random.randrange(len(tensors)), len(tensors)
    choices: list[tuple[str, Step]] = [
        (f"t{new} = t{n} * t{m}", lambda tensors: tensors.append(tensors[n] * tensors[m])),
        (f"t{new} = t{n} + t{m}", lambda tensors: tensors.append(tensors[n] + tensors[m])),
        (f"t{new} = t{n}.clone()", lambda tensors: tensors.append(tensors[n].clone())),
        (f"t{new} = t{n}.sin()", lambda tensors: tensors.append(tensors[n].sin())),
        (f"t{new} = t{n}.sum()", lambda tensors: tensors.append(tensors[n].sum())),
    ]
    return random.choice(choices)


def drawn(number: int) -> Drawn:
    """The program that belongs to a number: each step is one that torch takes, backward included."""
    random = Random(number)
    found = Drawn(tuple(random.choice((1, 2, 3, 4)) for _ in range(random.choice((1, 2, 2, 3)))))
    x = torch.linspace(0.2, 1.4, int(torch.Size(found.shape).numel()), dtype=torch.float64).reshape(found.shape)
    found.results = (1,)
    for _ in range(random.randint(LEAST, MOST)):
        for _ in range(TRIES):
            kinds = [view] * VIEWS + [write] * WRITES + [made] * MADE
            tensors = [x, x * 2]
            for _, step in found.steps:
                step(tensors)
            found.steps.append(random.choice(kinds)(random, tensors))
            before, found.results = found.results, tuple(range(1, len(tensors) + 1))
            if runs(found, x):
                break
            found.steps.pop()
            found.results = before
    count = len(found.results)
    found.results = tuple(sorted(random.sample(found.results, random.randint(1, min(3, count)))))
    return found


def runs(program: Drawn, x: torch.Tensor) -> bool:
    """Whether torch takes the program, and its backward, and nothing grows; results that are not there are left out."""
    leaf = x.clone().requires_grad_()
    tensors = [leaf, leaf * 2]
    try:
        for _, step in program.steps:
            step(tensors)
        program.results = tuple(range(1, len(tensors)))
        out = torch.cat([tensors[n].reshape(-1) for n in program.results])
        out.backward(torch.ones_like(out))
    except (RuntimeError, IndexError, ValueError):
        return False
    return out.numel() < 300 and bool(torch.isfinite(out).all()) and bool(out.abs().max() < 100 if out.numel() else 1)
