"""Random expressions over the whole table, as hypothesis draws them: text for symgrad, text for torch, inputs.

An expression grows step by step from its inputs; each step takes terms that are there (the newest one often, the
same one twice at times), applies an operation in one of its spellings, and is kept if torch accepts it. What an
operation of a family takes is read off its entry in the table (operands, shape rule, domain, spellings); some
others have a way to be called in `WAYS`, and the rest are drawn by the examples of their entries, on terms of those
shapes or of others with as many axes. Operands that are only read are detached in torch, whole numbers made integers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from symgrad.entries.operands import common_shape, reduced_shape
from symgrad.ops import TABLE, Domain, Op
from tests import sampling, torch_side

LARGEST = 1e3
"""Values beyond this are not built upon: differences there are rounding, not mistakes."""

NAMES = "xyabcdgh"
"""What inputs are called."""

LONGEST = 12
"""Operations of the longest expressions."""

LARGEST_SIZE = 260
"""Entries of the largest tensor that is built upon: 4×4×4×4 fits."""

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip


SPELLED = ("torch", "F", "Tensor", "np", "torch.special", "torch.linalg", "np.linalg")
"""What stands before the names that users write; the table knows spellings of torch's inside too."""

TIES = ("kthvalue", "topk", "median")
"""torch does not say which of several equal entries these take: they are not drawn on integers."""


@dataclass(frozen=True)
class Term:
    """A piece of an expression: how symgrad reads it, how torch does, and what torch makes of it."""

    text: str
    torch_text: str
    value: torch.Tensor

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.value.dim()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return tuple(self.value.shape)


@dataclass(frozen=True)
class Expression:
    """What a test runs: ``text`` over ``inputs``, ``torch_text`` the same for torch."""

    text: str
    torch_text: str
    inputs: dict[str, np.ndarray] = field(compare=False)
    shape: tuple[int, ...] = ()
    number: int = 0
    positions: frozenset[str] = frozenset()
    pieces: tuple[Expression, ...] = field(default=(), compare=False)
    """What it is made of, smallest first: where a mistake is looked for when the whole is wrong."""
    torch_steps: str = field(default="", compare=False)
    """The same for torch, each piece a statement of its own."""

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {array.shape}" for name, array in self.inputs.items())
        return f"{self.text!r} with {shapes}, numbers from seed {self.number}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What hypothesis prints of an example that fails."""
        printer.text(repr(self))


def family(op: Op) -> str | None:
    """unary, binary or reduction, as the table's facts say; None for an operation with a way of its own."""
    options = (p for p in op.signature.parameters.values() if p.name not in op.operands)
    if op.name in WAYS or any(p.default is p.empty for p in options):
        return None
    if op.rules.shape is common_shape and len(op.operands) <= 2:
        return "unary" if len(op.operands) == 1 else "binary"
    return "reduction" if op.rules.shape is reduced_shape or op.spelling.between_two else None


PLUS_TWO = " + 2 * diag_embed(ones_like(diagonal({}, dim1=-2, dim2=-1)))"
MATRICES = {
    "regular": f"({{}} @ {{}}.mT{PLUS_TWO})",
    "dominant": f"({{}} @ {{}}.mT / 9{PLUS_TWO})",
    "definite": f"({{}} @ {{}}.mT{PLUS_TWO})",
    "symmetric": "({} + {}.mT)",
    "lower": "tril({})",
}
"""How a square matrix is made into one of the kinds that a domain names."""


def within_domain(op: Op, operand: str, term: Term) -> tuple[str, str]:
    """The two texts of ``term``, brought into the domain of an operand by functions that are smooth."""
    domain = op.domain_of(operand)
    if domain.matrix in MATRICES and term.rank > 1 and term.shape[-1] == term.shape[-2]:
        bring = MATRICES[domain.matrix]
        return bring.replace("{}", term.text), bring.replace("{}", term.torch_text)
    low, high = domain.low, domain.high
    if np.isfinite(low) and np.isfinite(high):
        bring = f"({(low + high) / 2} + {(high - low) * 0.45:.4} * sin({{}}))"
    elif np.isfinite(low):
        bring = f"(({{}}) ** 2 + {low + 0.5})"
    else:
        bring = "{}" if domain.draw[1] >= 2 else "sin({})"
    if operand in op.data:
        return bring.format(term.text), f"({bring.format(term.torch_text)}).detach()"
    return bring.format(term.text), bring.format(term.torch_text)


class Growth:
    """An expression while it grows. Choices are even, which hypothesis's own are not: it favours what is small."""

    def __init__(self, number: int, exact: bool) -> None:
        self.number, self.exact = number, exact
        self.apart = False  # whether an operation's operands have to be different terms
        self.random, self.generator = Random(number), np.random.default_rng(number)
        self.inputs: dict[str, np.ndarray] = {}
        self.terms: list[Term] = []
        self.positions: list[tuple[Domain, Term]] = []

    def choose(self, choices: Sequence[Any]) -> Any:
        """One of ``choices``."""
        return self.random.choice(choices)

    def flip(self) -> bool:
        """True or False."""
        return self.random.random() < 0.5

    def between(self, low: int, high: int) -> int:
        """An integer, both ends included."""
        return self.random.randint(low, high)

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        """The items in another order."""
        return self.random.sample(list(items), len(items))

    # Inputs -------------------------------------------------------------------------------------------------

    def numbers(self, shape: Sequence[int]) -> np.ndarray:
        """Values away from 0 on both sides, now and then beyond every kink; or small integers, zeros and ties."""
        size = tuple(shape)
        if self.exact:
            return self.generator.integers(-2, 3, size=size)
        far = self.choose((1, 1, 1, 4))  # relu6 and its kin have kinks at 3 and 6
        return far * self.generator.uniform(0.2, 1.8, size=size) * self.generator.choice([-1, 1], size=size)

    def add_input(self, shape: Sequence[int]) -> Term:
        """A new input."""
        name = NAMES[len(self.inputs)]
        self.inputs[name] = self.numbers(shape)
        term = Term(name, name, torch_side.tensor(self.inputs[name]))
        self.terms.append(term)
        return term

    def add_positions(self, domain: Domain, shape: tuple[int, ...]) -> Term | None:
        """An input of whole numbers in a domain; one that is there, at times. It is integers for torch where used."""
        fits = [t for d, t in self.positions if d == domain and t.shape == shape]
        if fits and self.flip():
            return self.choose(fits)
        if len(self.inputs) == len(NAMES):
            return None
        name = NAMES[len(self.inputs)]
        self.inputs[name] = sampling.draw(domain, shape, self.generator)
        term = Term(name, f"{name}.long()", torch_side.tensor(self.inputs[name]))
        self.positions.append((domain, term))
        return term

    def forget(self, last: Term) -> None:
        """The newest term; ``last`` is the newest again."""
        self.terms.pop()
        self.terms = [*(t for t in self.terms if t is not last), last]

    def expression(self, term: Term, pieces: tuple[Expression, ...] = ()) -> Expression:
        """A term with what it needs, as a test runs it."""
        used = {n: a for n, a in self.inputs.items() if mentions(term.text, n)}
        positions = frozenset(t.text for _, t in self.positions)
        return Expression(term.text, term.torch_text, used, term.shape, self.number, positions, pieces)

    def whole(self) -> Expression:
        """The newest term, made of the others: in one line, or in statements that name what is used again."""
        results = [t for t in self.terms if t.text not in self.inputs]
        pieces = tuple(self.expression(t) for t in results[:-1])
        text, steps = (in_statements([(t.text, t.torch_text)[side] for t in results]) for side in (0, 1))
        whole = replace(self.expression(self.terms[-1], pieces), torch_steps=steps)
        return whole if self.flip() else replace(whole, text=text, torch_text=steps)

    def start(self) -> None:
        """One to three inputs whose shapes have something to do with each other."""
        sizes = self.choose(((2, 3), (2, 3, 4), (2, 3, 4, 1), (4, 3, 1, 0)))
        first = self.shape(sizes)
        self.add_input(first)
        for _ in range(self.between(0, 2)):
            self.add_input(self.related(first, sizes))

    def shape(self, sizes: Sequence[int]) -> list[int]:
        """Up to four axes of these sizes."""
        return [self.choose(sizes) for _ in range(self.choose((0, 1, 1, 2, 2, 2, 3, 4)))]

    def related(self, first: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """A shape that may meet ``first``: equal, broadcast, or on the other side of a matrix product."""
        kind = self.choose(("same", "tail", "ones", "matrix", "any"))
        if kind == "same":
            return list(first)
        if kind == "tail":
            return list(first[self.between(0, len(first)) :])
        if kind == "ones":
            return [1 if self.flip() else size for size in first]
        if kind == "matrix" and first:
            return [first[-1], self.choose(sizes)]
        return self.shape(sizes)

    # Steps --------------------------------------------------------------------------------------------------

    def pick(self, newest: bool = False) -> Term:
        """A term that is there."""
        if newest or self.flip():
            return self.terms[-1]
        return self.choose(self.terms)

    def partner(self, term: Term) -> Term | None:
        """A term that broadcasts with ``term``."""
        fits = [other for other in self.terms if broadcasts(term.shape, other.shape)]
        return self.choose(fits) if fits else None

    def keep(self, text: str, torch_text: str) -> bool:
        """Adds the step as a term if torch takes it and its values are moderate."""
        tensors = {name: torch_side.tensor(array) for name, array in self.inputs.items()}
        try:
            value = torch_side.evaluate(torch_text, tensors)
        except (RuntimeError, IndexError, TypeError, ValueError, AttributeError):
            return False
        moderate = bool(torch.isfinite(value).all()) and (value.numel() == 0 or value.abs().max() < LARGEST)
        if not moderate or value.numel() > LARGEST_SIZE:
            return False
        self.terms.append(Term(f"({text})" if " " in text else text, f"({torch_text})", value))
        return True

    def step(self, op: Op) -> bool:
        """One application of ``op``."""
        if self.exact and op.name in TIES:
            return False
        kind = family(op)
        if kind is None:
            made = WAYS.get(op.name, by_example)(self, op)
            return made is not None and self.keep(*((made, made) if isinstance(made, str) else made))
        if kind == "reduction":
            return self.keep(*self.reduced(op))
        first = self.pick()
        if kind == "unary":
            return self.keep(*self.called(op, [within_domain(op, op.operands[0], first)]))
        second = self.partner(first)
        if second is None:
            return False
        pair = [within_domain(op, o, t) for o, t in zip(op.operands, (first, second), strict=True)]
        number = self.choose((None, None, None, "2", "0.5", "3"))
        if number is not None:
            pair[self.between(0, 1)] = (number, number)
        if op.name in INFIX and (number is not None or self.flip()):
            return self.keep(*(f"{a} {INFIX[op.name]} {b}" for a, b in zip(*pair, strict=True)))
        return self.keep(*self.called(op, pair)) if number is None else False

    def called(self, op: Op, operands: Sequence[tuple[str, str]], options: str = "") -> tuple[str, str]:
        """A call in one of the operation's spellings; torch's text is in torch's own."""
        texts, torch_texts = ([pair[side] for pair in operands] for side in (0, 1))
        plain = f"{op.name}({', '.join([*torch_texts, *([options] if options else [])])})"
        spelling = self.choose((op.name, *(s for s in op.spellings if s.rpartition(".")[0] in SPELLED)))
        module, _, word = spelling.rpartition(".")
        if module == "Tensor":
            rest = ", ".join([*texts[1:], *([options] if options else [])])
            return f"{texts[0]}.{word}({rest})", plain
        if module.startswith("np"):
            options = options.replace("keepdim", "keepdims").replace("dim=", "axis=")
        return f"{spelling}({', '.join([*texts, *([options] if options else [])])})", plain

    def reduced(self, op: Op) -> tuple[str, str]:
        """A reduction over one axis, several, or all."""
        term = self.pick()
        several = op.rules.shape is reduced_shape and op.name != "prod"
        dims: list[str] = [str(d) for d in range(-term.rank, term.rank)]
        if several and term.rank > 1:
            dims.append(f"({', '.join(map(str, range(term.rank - 1)))},)" if term.rank < 3 else "(0, -1)")
        dim = self.choose((None, *dims))
        options = "" if dim is None else f"dim={dim}"
        if dim is not None and self.flip():
            options += ", keepdim=True"
        text, torch_text = self.called(op, [(term.text, term.torch_text)], options)
        if op.spelling.between_two and dim is not None:
            text, torch_text = f"{text}.values", f"{torch_text}.values"
        return text, torch_text


def broadcasts(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two shapes meet elementwise."""
    return all(a == b or 1 in (a, b) for a, b in zip(first[::-1], second[::-1], strict=False))


def in_statements(texts: Sequence[str]) -> str:
    """The last of ``texts`` with each of the others that stands in it by name: ``s1 = exp(x); s1 * s1``."""
    names = {text: f"s{n}" for n, text in enumerate(texts, start=1)}

    def named(text: str) -> str:
        inner = sorted((t for t in names if len(t) < len(text) and t in text), key=len, reverse=True)
        parts = "|".join(rf"(?<![\w.]){re.escape(t)}(?![\w(])" for t in inner)
        return re.sub(parts, lambda found: names[found[0]], text) if inner else text

    lines = [named(texts[-1])]
    for text in sorted(names, key=len, reverse=True):  # what a text holds is shorter than it
        if text != texts[-1] and any(mentions(line, names[text]) for line in lines):
            lines.append(f"{names[text]} = {named(text)}")
    return "; ".join([*reversed(lines[1:]), lines[0]])


# Ways to call what belongs to no family ---------------------------------------------------------------------
# Each answers with one text for both, or a pair, or None where nothing fits.

Made = str | tuple[str, str] | None


def both(form: str, *terms: Term) -> tuple[str, str]:
    """``form`` filled with the terms, for symgrad and for torch."""
    return form.format(*(t.text for t in terms)), form.format(*(t.torch_text for t in terms))


def of_rank(growth: Growth, *ranks: int) -> Term | None:
    """A term with one of these numbers of axes."""
    fits = [t for t in growth.terms if t.rank in ranks]
    return growth.choose(fits) if fits else None


def paired(form: str, first: int, second: int) -> Callable[[Growth, Op], Made]:
    """Two operands of the given ranks, or a new input that fits the first."""

    def made(growth: Growth, op: Op) -> Made:
        x = of_rank(growth, first)
        if x is None:
            return None
        fits = [t for t in growth.terms if t.rank == second and t.shape[max(second - 2, 0)] == x.shape[-1]]
        if not fits and len(growth.inputs) < len(NAMES):
            newest = growth.terms[-1]
            fits = [growth.add_input([*x.shape[: max(second - 2, 0)], x.shape[-1], 2][:second])]
            growth.terms.append(newest)  # the newest result stays what the expression ends in
        return both(form, x, growth.choose(fits)) if fits else None

    return made


def options_of(form: str, *choices: tuple[Any, ...]) -> Callable[[Growth, Op], Made]:
    """One term, and options drawn from ``choices``."""

    def made(growth: Growth, op: Op) -> Made:
        term = growth.pick()
        chosen = [growth.choose(c) for c in choices]
        return tuple(form.format(t, *chosen) for t in (term.text, term.torch_text))  # type: ignore[return-value]  # always two texts

    return made


def of_ranks(form: str, *ranks: int) -> Callable[[Growth, Op], Made]:
    """One term that has as many axes."""

    def made(growth: Growth, op: Op) -> Made:
        term = of_rank(growth, *ranks)
        return None if term is None else both(form, term)

    return made


def any_matmul(growth: Growth, op: Op) -> Made:
    """``@`` between any two that torch multiplies."""
    x = of_rank(growth, 1, 2, 3)
    if x is None:
        return None
    fits = [t for t in growth.terms if t.rank and t.shape[max(t.rank - 2, 0)] == x.shape[-1]]
    if not fits:
        return paired("{} @ {}", x.rank, 2)(growth, op) if x.rank == 2 else None
    form = growth.choose(("{} @ {}", "torch.matmul({}, {})", "{}.matmul({})"))
    return both(form, x, growth.choose(fits))


LETTERS = "ijklmnopqrstuvw"
"""For the axes of an einsum."""


def any_einsum(growth: Growth, op: Op) -> Made:
    """Letters for the axes of one or two terms, some of which are kept."""
    terms = [growth.pick()]
    if growth.flip():
        terms.append(growth.pick())
    letters: dict[int, str] = {}
    words = []
    for term in terms:
        word = ""
        for size in term.shape:
            same = [c for n, c in enumerate(LETTERS) if letters.get(n) == str(size)]
            if same and growth.flip():
                word += growth.choose(same)
            else:
                word += LETTERS[len(letters)]
                letters[len(letters)] = str(size)
        words.append(word)
    used = sorted(set("".join(words)))
    output = [c for c in used if growth.flip()]
    text = f"{','.join(words)}->{''.join(growth.shuffled(output))}"
    return both(f'einsum("{text}", ' + ", ".join("{}" for _ in terms) + ")", *terms)


def any_reshape(growth: Growth, op: Op) -> Made:
    """A shape with as many entries."""
    term = growth.pick()
    count = term.value.numel()
    shapes = ["-1"] + [f"{a}, {count // a}" for a in (1, 2, 3, 4) if count and count % a == 0]
    form = growth.choose(("{}.reshape({})", "torch.reshape({}, ({},))", "{}.view({})"))
    chosen = growth.choose(shapes)
    pair = tuple(form.format(t, chosen) for t in (term.text, term.torch_text))
    return pair[0], pair[1].replace(".view(", ".reshape(")


SLICES = (
    "0",
    "-1",
    ":",
    "1:",
    ":-1",
    "::2",
    "1::2",
    "None",
    ":2",
    "-2:",
    "-3:-1",
    "1:-1",
    "-5:2",
    "-3::2",
    ":-1:2",
    "-2:9",
    "-1::3",
)
"""Places and slices, with steps and bounds from the end, inside the axis and outside."""


def any_getitem(growth: Growth, op: Op) -> Made:
    """Integers, slices with steps, new axes and an ellipsis."""
    term = growth.pick()
    items = [growth.choose(SLICES) for _ in term.shape]
    if growth.flip():
        items = ["...", *items[-1:]]
    return both("{}[" + ", ".join(items or ["None"]) + "]", term)


def any_expand(growth: Growth, op: Op) -> Made:
    """A new leading axis, and another size where it was 1."""
    term = growth.pick()
    sizes = [growth.choose((2, 3)) if size == 1 else size for size in term.shape]
    lead = [2] if growth.flip() else []
    return both("{}.expand(" + ", ".join(map(str, [*lead, *sizes])) + ")", term) if [*lead, *sizes] else None


def any_permute(growth: Growth, op: Op) -> Made:
    """Every axis in another place."""
    term = growth.pick()
    order = growth.shuffled(range(term.rank))
    return both("{}.permute(" + ", ".join(map(str, order)) + ")", term) if term.rank else None


def joined(name: str) -> Callable[[Growth, Op], Made]:
    """Two or three terms of one shape side by side."""

    def made(growth: Growth, op: Op) -> Made:
        term = growth.pick()
        same = [t for t in growth.terms if t.shape == term.shape]
        terms = [term, *(growth.choose(same) for _ in range(growth.between(0, 2)))]
        dim = growth.choose((0, -1))
        return both(f"{name}([{', '.join('{}' for _ in terms)}], dim={dim})", *terms)

    return made


def any_where(growth: Growth, op: Op) -> Made:
    """A comparison that chooses between two terms."""
    x = growth.pick()
    y, z = growth.partner(x), growth.partner(x)
    return both("where({} > {}, {}, {})", x, y, x, z) if y is not None and z is not None else None


def any_loss(form: str) -> Callable[[Growth, Op], Made]:
    """Two terms of one shape."""

    def made(growth: Growth, op: Op) -> Made:
        x = growth.pick()
        same = [t for t in growth.terms if t.shape == x.shape]
        return both(form, x, growth.choose(same)) if x.value.numel() else None

    return made


DIMS = (0, -1, 1)
WAYS: dict[str, Callable[[Growth, Op], Made]] = {
    "clamp": options_of("{}.clamp({}, {})", ("-0.7", "None", "0"), ("0.9", "1.1")),
    "where": any_where,
    "prod": options_of("prod({}{})", ("", ", dim=0", ", dim=-1")),
    "norm": options_of("norm({}{})", ("", ", dim=0", ", 1", ", 3, dim=-1", ", 2, dim=-1, keepdim=True")),
    "matmul": any_matmul,
    "mm": paired("mm({}, {})", 2, 2),
    "mv": paired("torch.mv({}, {})", 2, 1),
    "bmm": paired("torch.bmm({}, {})", 3, 3),
    "dot": paired("dot({}, {})", 1, 1),
    "outer": paired("torch.outer({}, {})", 1, 1),
    "trace": of_ranks("torch.trace({})", 2),
    "einsum": any_einsum,
    "expand": any_expand,
    "permute": any_permute,
    "transpose": options_of("{}.transpose({}, {})", DIMS, DIMS),
    "T": of_ranks("{}.T", 2),
    "mT": of_ranks("{}.mT", 2, 3),
    "reshape": any_reshape,
    "flatten": options_of("flatten({}{})", ("", ", 1", ", 0, 1")),
    "unsqueeze": options_of("{}.unsqueeze({})", DIMS),
    "squeeze": options_of("{}.squeeze({})", ("", "0", "-1")),
    "getitem": any_getitem,
    "cat": joined("cat"),
    "stack": joined("torch.stack"),
    "diag": of_ranks("torch.diag({})", 1, 2),
    "softmax": options_of("{}.softmax({})", DIMS),
    "log_softmax": options_of("F.log_softmax({}, dim={})", DIMS),
    "mse_loss": any_loss("F.mse_loss({}, {})"),
    "cross_entropy": any_loss("F.cross_entropy({}, {})"),
    "layer_norm": options_of("layer_norm({})"),
}


def by_example(growth: Growth, op: Op) -> Made:
    """For an operation of no family and with no way of its own: an example of its entry, with terms in its places.

    Where a term has as many axes as the example's operand, it takes its place, and the other operands change
    their sizes with it; what does not fit, torch refuses.
    """
    example = growth.choose(op.examples)
    change: dict[int, int] = {}
    operands: dict[str, tuple[str, str]] = {}
    for name, shape in example.shapes:
        if op.domain_of(name).whole:
            term = growth.add_positions(op.domain_of(name), tuple(change.get(size, size) for size in shape))
        else:
            term = operand_like(growth, shape, change, [text for text, _ in operands.values()] if growth.apart else [])
        if term is None:
            return None
        operands[name] = (
            (term.text, term.torch_text)
            if term.text in growth.inputs and op.domain_of(name).whole
            else (within_domain(op, name, term))
        )
    form = re.sub(r"^(\w+)_part\((.*), part=(\d+)\)$", r"torch.\1(\2)[\3]", example.text)
    pattern = rf"(?<![.\w])({'|'.join(operands)})\b(?!=)"
    return tuple(re.sub(pattern, lambda found, n=n: operands[found[1]][n], form) for n in (0, 1))  # type: ignore[return-value]  # always two texts


def operand_like(growth: Growth, shape: tuple[int, ...], change: dict[int, int], but: Sequence[str]) -> Term | None:
    """A term of this shape after ``change``, or of another that ``change`` is made to meet, or a new input; none of ``but``."""
    wanted = tuple(change.get(size, size) for size in shape)
    fits = [t for t in growth.terms if t.shape == wanted]
    if not change and growth.flip():
        fits += [
            t
            for t in growth.terms
            if t.rank == len(shape) and len({*zip(shape, t.shape, strict=True)}) == len(set(shape))
        ]
    fits = [t for t in fits if t.text not in but]
    if fits:
        term = growth.choose(fits)
        change.update(zip(shape, term.shape, strict=True))
        return term
    if len(growth.inputs) == len(NAMES):
        return None
    newest = growth.terms[-1]
    term = growth.add_input(wanted)
    growth.terms.append(newest)  # the newest result stays what the expression ends in
    return term


def weight(op: Op) -> int:
    """How often an operation is drawn: what joins terms more often than what takes one, comparisons seldom."""
    if op.name in ("lt", "le", "gt", "ge", "eq", "ne", "sign", "identity"):
        return 1
    return 4 if len(op.operands) > 1 or op.variadic else 2


@st.composite
def expressions(draw: Any, most: int = LONGEST, exact: bool = False) -> Expression:
    """An expression of up to ``most`` operations; with ``exact``, its inputs are small integers."""
    # Bit by bit: among integers Hypothesis mixes the constants of all modules that happen to be loaded, so that the
    # expressions of one seed would be others in another process.
    return grown(sum(draw(st.booleans()) << bit for bit in range(32)), most, exact).whole()


def grown(number: int, most: int = LONGEST, exact: bool = False) -> Growth:
    """Up to ``most`` operations, all choices made by ``number``; most of them use the result before."""
    growth = Growth(number, exact)
    growth.start()
    names = [op.name for op in TABLE.values() for _ in range(weight(op))]
    wanted, done = growth.between(1, most), 0
    for _ in range(10 * most):
        if done == wanted:
            break
        last = growth.terms[-1]
        if growth.step(TABLE[growth.choose(names)]):
            if done and last.text not in growth.terms[-1].text and growth.between(0, 9):
                growth.forget(last)
            else:
                done += 1
    return growth


def ending_in(op: Op, number: int, tries: int = 60) -> Expression | None:
    """A random expression whose last operation is ``op``; None if it takes nothing that was there."""
    growth = grown(number, most=2)
    growth.apart = True
    return growth.whole() if any(growth.step(op) for _ in range(tries)) else None


def mentions(text: str, name: str) -> bool:
    """Whether ``name`` stands in ``text`` as a word."""
    inside = "".join(c if c.isalnum() or c == "_" else " " for c in text)
    return name in inside.split()
