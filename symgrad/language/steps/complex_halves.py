"""What is linear, of complex tensors in a text: of their real and their imaginary parts.

Comes in: an operation on complex tensors that no rule of its own knows. Goes out: its steps on halves, put together
again; or None where its equation is not linear in each of its tensors, or says
another thing of each of them. Joins, views, sums and picked entries are linear in all tensors together, products in
each.

In which operands an entry is linear: read off its equation.

Comes in: an entry, what stands for its operands, and its options. Goes out: for each term of the equation the operands
that it is a product of. `cat` is linear in all of its tensors together, `outer` in each of two, `exp` in none: what is
linear says of complex tensors what it says of their real and imaginary parts.

What a text's operands are to the rules of complex tensors (`symgrad.ops.calls.complex_rules`).

Comes in: the meanings of a call's arguments. Goes out: the same as torch sees them, as pairs, or as a half of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from symgrad.entries.spec import Held, Op, View
from symgrad.errors import Span, UnsupportedError
from symgrad.indexing.symbols import Expr, accesses, fresh_axes, indices_of, is_access, name_of
from symgrad.language.steps.builder import Builder, Operand
from symgrad.language.steps.calls import Meaning, Ref
from symgrad.ops import ground
from symgrad.ops.entry import named, playing, plays
from symgrad.program import Constant, Role
from symgrad.shapes import Shape, Size

Halves = tuple[Any, ...]
"""The real part and the imaginary one; one part of what is no complex tensor."""


def by_halves(
    call: Callable[..., Ref], builder: Builder, op: Op, parts: list[Halves], of: Callable[[Sequence[Any]], Ref]
) -> tuple[Ref, Ref] | None:
    """The results of both halves, or of the products of halves; ``of`` one of each operand's parts is one step.

    ``call`` applies other entries, and ``builder`` has the steps.
    """
    places = {str(n) for n, part in enumerate(parts) if len(part) > 1}
    first = of([part[0] for part in parts])
    terms = terms_of_step(builder, op, first)
    if not terms:
        return None
    if all(len(term) == 1 for term in terms):
        moving = {int(name) for (name,) in terms}
        parts = [with_nothing(call, part) if n in moving else part for n, part in enumerate(parts)]
        return first, of([part[-1] for part in parts])
    if (factors := one_product(terms)) is not None and places <= set().union(*terms):
        moving = {int(name) for term in terms for name in term}
        return product(call, first, parts, factors, frozenset(moving - factors), of)
    return None


def with_nothing(call: Callable[..., Ref], part: Halves) -> Halves:
    """Both halves, also of a real tensor among complex ones."""
    return part if len(part) > 1 or not isinstance(part[0], Ref) else (part[0], call(ground.zeros_like, part[0]))


def one_product(terms: Terms) -> frozenset[int] | None:
    """The factors of the only term that is a product, beside which others may be added as they are (a bias)."""
    (longest, *others) = sorted(terms, key=len, reverse=True)
    alone = all(len(term) == 1 and term[0] not in longest for term in others)
    return frozenset(map(int, longest)) if alone else None


def product(
    call: Callable[..., Ref],
    first: Ref,
    parts: Sequence[Halves],
    factors: frozenset[int],
    added: frozenset[int],
    of: Callable[[Sequence[Any]], Ref],
) -> tuple[Ref, Ref]:
    """Of two factors (f(x₀, y₀) − f(x₁, y₁)) + i·(f(x₀, y₁) + f(x₁, y₀)), and so on; what is added counts once."""
    if not any(len(parts[n]) > 1 for n in factors):
        parts = [with_nothing(call, part) if n == min(factors) else part for n, part in enumerate(parts)]
    riders = {n: with_nothing(call, parts[n]) for n in added}
    kept = [part[:1] if n in riders else part for n, part in enumerate(parts)]
    sums: dict[int, Ref] = {0: first}
    for choice in list(itertools.product(*(range(len(part)) for part in kept)))[1:]:
        turns = sum(choice)
        half = turns % 2
        chosen = [part[n] for part, n in zip(kept, choice, strict=True)]
        for n, part in riders.items():
            chosen[n] = call(ground.zeros_like, part[0]) if half in sums else part[1]
        term = of(chosen)
        sums[half] = call(ground.sub if turns % 4 > 1 else ground.add, sums[half], term) if half in sums else term
    return sums[0], sums[1]


def terms_of_step(builder: Builder, op: Op, result: Ref) -> Terms | None:
    """In which operands the step that gave ``result`` is linear."""
    step = builder.step_of(result.name)
    if step is None:
        return None
    shapes = [builder.shape_of(a) if isinstance(a, str) else None if a.value is None else () for a in step.arguments]
    values = [a.value if isinstance(a, Constant) else None for a in step.arguments]
    return multilinear(op, shapes, values, step.result.shape, dict(step.options))


Terms = frozenset[tuple[str, ...]]
"""The operands of every term, in alphabetical order: {("x", "y")} of x·y, {("x",), ("y",)} of x + y."""


def terms_of(expression: Expr, read: Collection[str] = ()) -> Terms | None:
    """The terms of a polynomial in entries whose coefficients are numbers or ``read``; None of anything else."""

    def moves(node: Expr) -> bool:
        return any(name_of(entry) not in read for entry in accesses(node))

    if not moves(expression):
        return frozenset() if expression == 0 else frozenset({()})
    if is_access(expression):
        return None if any(map(moves, indices_of(expression))) else frozenset({(name_of(expression),)})
    parts = [terms_of(part, read) for part in expression.args[: None if expression.is_Add or expression.is_Mul else 1]]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if expression.is_Add:
        return frozenset().union(*known)
    if expression.is_Mul:
        return frozenset(tuple(sorted(sum(term, ()))) for term in itertools.product(*known))
    return known[0] if isinstance(expression, sp.Sum) and not any(map(moves, expression.args[1:])) else None


def multilinear(
    op: Op, shapes: Sequence[Shape | None], constants: Sequence[Any], result: Shape, options: Mapping[str, Any]
) -> Terms | None:
    """The terms of an entry of such operands, called by their positions; None where it is not linear in each of them.

    Numbers may be among the operands, with a value in ``constants`` and the shape (). What is only read (positions, a
    mask) is as it was; what follows from the entries' order is nothing that complex numbers have.
    """
    views = [
        None if shape is None else View(str(n), shape, None if constant is None else sp.sympify(constant, strict=True))
        for n, (shape, constant) in enumerate(zip(shapes, constants, strict=True))
    ]
    read = {str(n) for n, name in enumerate(op.operands) if name in op.data}
    held = {name: Held(name, result) for name in op.held}
    terms = terms_of(op.index(fresh_axes(result, op.letters_for(options)), views, held, options), read)
    if terms is None or any(len(set(term)) < len(term) or not term or {*term} & {*held} for term in terms):
        return None
    return terms


IDENTITY = playing(Role.HANDS_ON)
HINT = "abs, angle, .real, .imag and view_as_real give real tensors"


def is_complex(meaning: Any) -> bool:
    """Whether a tensor is complex."""
    return isinstance(meaning, Ref) and meaning.complex


@dataclass(frozen=True)
class Seen:
    """A tensor of the text as torch sees it: a complex one without the axis of its pairs."""

    ref: Ref

    @property
    def shape(self) -> Shape:
        """Its axes."""
        return self.ref.shape[:-1] if self.ref.complex else self.ref.shape


def seen(meaning: Meaning) -> Any:
    """A tensor in torch's shape, also in a list; anything else as it is."""
    if isinstance(meaning, tuple):
        return tuple(map(seen, meaning))
    return Seen(meaning) if isinstance(meaning, Ref) else meaning


@dataclass(frozen=True)
class TextPairs:
    """What a text's operands are to the rules of complex tensors; a `Ref` is what an entry gave back."""

    builder: Builder
    op: Op
    meanings: Sequence[Meaning]
    span: Span
    label: str
    whole: Callable[[Size, Span], int]

    def entry(self, op: Op, operands: Sequence[Operand], options: Mapping[str, Hashable], name: str | None) -> Ref:
        """One step."""
        return self.builder.apply(op, operands, {**op.defaults, **options}, self.span, self.label, name)

    def __call__(self, name: str | Op, *arguments: Any, **keywords: Any) -> Ref:
        """The result of one entry."""
        return self.entry(named(name), [Operand(a, self.label) for a in arguments], keywords, None)

    def paired(self, value: Any) -> bool:
        """Whether it is a tensor of pairs."""
        return isinstance(value, Ref) or (isinstance(value, Seen) and value.ref.complex)

    def pair(self, value: Any) -> Any:
        """Anything as pairs; a number is one of them for each entry of the complex tensor beside it."""
        if isinstance(value, Ref):
            return value
        if isinstance(value, Seen):
            return value.ref if value.ref.complex else self(ground.complex_pair, value.ref, 0)
        peer = next(meaning for meaning in self.meanings if is_complex(meaning))
        return self(
            ground.complex_pair, self(ground.mul, self(ground.ones_like, self(ground.complex_real, peer)), value), 0
        )

    def real(self, value: Any) -> Any:
        """A real tensor, or a number."""
        if self.paired(value):
            raise UnsupportedError(f"{self.label} takes a real tensor here", span=self.span, hints=(HINT,))
        return value.ref if isinstance(value, Seen) else value

    def column(self, value: Any) -> Any:
        """A real factor of pairs."""
        value = value.ref if isinstance(value, Seen) else value
        return self(ground.unsqueeze, value, dim=-1) if isinstance(value, Ref) else value

    def part(self, pairs: Ref, number: int) -> Ref:
        """The real (0) or imaginary (1) part."""
        made = self.builder.step_of(pairs.name)
        half = made.arguments[number] if made is not None and plays(made.op, Role.PAIRS) else None
        if isinstance(half, str) and self.builder.shape_of(half) == pairs.shape[:-1]:
            return Ref(half, pairs.shape[:-1])  # it was put together of halves
        return self(ground.complex_imag if number else ground.complex_real, pairs)

    def again(self, first: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
        """The call's own entry, of another first tensor."""
        rest = [Operand(a, self.label) for a in arguments]
        return self.entry(self.op, [Operand(first, self.label), *rest], keywords, None)

    def number(self, size: Any) -> int:
        """A size as a number."""
        found = self.builder.sizes.number(size)
        return self.whole(size, self.span) if found is None else found
