"""Complex tensors in a text, as pairs (re, im) on an axis of their own.

Comes in: an operation as the text spells it, where an operand or the result is complex. Goes out: the step on pairs
(`symgrad.ops.complex_pairs`). A complex tensor comes from ``torch.fft``, ``torch.complex``, ``torch.polar`` and
``view_as_complex``; ``abs``, ``angle``, ``.real``, ``.imag`` and ``view_as_real`` lead back to real ones.

`symgrad.ops.calls.complex_rules` has a rule for each operation; the rules see the text's operands as `ComplexPairs`.
Where there is no rule, a linear equation is applied to real and imaginary parts: joins, views, sums and indexing are
linear in all tensors together, products are linear in each of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from symgrad.entries.derived_facts import Terms, multilinear
from symgrad.entries.operands import complex_shape
from symgrad.entries.spec import Op
from symgrad.errors import NotationError, UnsupportedError
from symgrad.language.binding import Meaning, Ref, describe_meaning
from symgrad.language.builder import EntryCaller, StepBuilder, StepOperand
from symgrad.ops.calls.complex_rules import ARITHMETIC, REAL, UNMOVED
from symgrad.ops.lookup import basics, entry_named, has_role, role_entry
from symgrad.program import Constant, Role
from symgrad.shapes import Shape

Halves = tuple[Any, ...]
"""The real part and the imaginary one; one part of what is no complex tensor."""


def apply_to_halves(
    call: Callable[..., Ref], builder: StepBuilder, op: Op, parts: list[Halves], of: Callable[[Sequence[Any]], Ref]
) -> tuple[Ref, Ref] | None:
    """The results of both halves, or of the products of halves; ``of`` one of each operand's parts is one step.

    ``call`` applies other entries, and ``builder`` has the steps.
    """
    places = {str(n) for n, part in enumerate(parts) if len(part) > 1}
    first = of([part[0] for part in parts])
    terms = linear_terms(builder, op, first)
    if not terms:
        return None
    if all(len(term) == 1 for term in terms):
        moving = {int(name) for (name,) in terms}
        parts = [add_zero_half(call, part) if n in moving else part for n, part in enumerate(parts)]
        return first, of([part[-1] for part in parts])
    if (factors := find_only_product(terms)) is not None and places <= set().union(*terms):
        moving = {int(name) for term in terms for name in term}
        return multiply_halves(call, first, parts, factors, frozenset(moving - factors), of)
    return None


def add_zero_half(call: Callable[..., Ref], part: Halves) -> Halves:
    """Both halves, also of a real tensor among complex ones."""
    return part if len(part) > 1 or not isinstance(part[0], Ref) else (part[0], call(basics.zeros_like, part[0]))


def find_only_product(terms: Terms) -> frozenset[int] | None:
    """The factors of the only term that is a product, beside which others may be added as they are (a bias)."""
    (longest, *others) = sorted(terms, key=len, reverse=True)
    alone = all(len(term) == 1 and term[0] not in longest for term in others)
    return frozenset(map(int, longest)) if alone else None


def multiply_halves(
    call: Callable[..., Ref],
    first: Ref,
    parts: Sequence[Halves],
    factors: frozenset[int],
    added: frozenset[int],
    of: Callable[[Sequence[Any]], Ref],
) -> tuple[Ref, Ref]:
    """Of two factors (f(x₀, y₀) − f(x₁, y₁)) + i·(f(x₀, y₁) + f(x₁, y₀)), and so on; what is added counts once."""
    if not any(len(parts[n]) > 1 for n in factors):
        parts = [add_zero_half(call, part) if n == min(factors) else part for n, part in enumerate(parts)]
    riders = {n: add_zero_half(call, parts[n]) for n in added}
    kept = [part[:1] if n in riders else part for n, part in enumerate(parts)]
    sums: dict[int, Ref] = {0: first}
    for choice in list(itertools.product(*(range(len(part)) for part in kept)))[1:]:
        turns = sum(choice)
        half = turns % 2
        chosen = [part[n] for part, n in zip(kept, choice, strict=True)]
        for n, part in riders.items():
            chosen[n] = call(basics.zeros_like, part[0]) if half in sums else part[1]
        term = of(chosen)
        sums[half] = call(basics.sub if turns % 4 > 1 else basics.add, sums[half], term) if half in sums else term
    return sums[0], sums[1]


def linear_terms(builder: StepBuilder, op: Op, result: Ref) -> Terms | None:
    """In which operands the step that gave ``result`` is linear."""
    step = builder.step_of(result.name)
    if step is None:
        return None
    shapes = [builder.shape_of(a) if isinstance(a, str) else None if a.value is None else () for a in step.arguments]
    values = [a.value if isinstance(a, Constant) else None for a in step.arguments]
    return multilinear(op, shapes, values, step.result.shape, dict(step.options))


HINT = "abs, angle, .real, .imag and view_as_real give real tensors"


def is_complex_ref(meaning: Any) -> bool:
    """Whether a tensor is complex."""
    return isinstance(meaning, Ref) and meaning.complex


@dataclass(frozen=True)
class TorchShaped:
    """A tensor of the text as torch sees it: a complex one without the axis of its pairs."""

    ref: Ref

    @property
    def shape(self) -> Shape:
        """Its axes."""
        return self.ref.shape[:-1] if self.ref.complex else self.ref.shape


def to_torch_shape(meaning: Meaning) -> Any:
    """A tensor in torch's shape, also in a list; anything else as it is."""
    if isinstance(meaning, tuple):
        return tuple(map(to_torch_shape, meaning))
    return TorchShaped(meaning) if isinstance(meaning, Ref) else meaning


@dataclass(frozen=True)
class ComplexPairs(EntryCaller):
    """What a text's operands are to the rules of complex tensors; a `Ref` is what an entry gave back."""

    op: Op
    operands: Sequence[StepOperand]
    label: str

    def entry(self, op: Op, operands: Sequence[StepOperand], options: Mapping[str, Hashable], name: str | None) -> Ref:
        """One step."""
        return self.builder.apply(op, operands, {**op.defaults, **options}, self.span, self.label, name)

    def __call__(self, name: str | Op, *operands: Any, **options: Any) -> Ref:
        """The result of one entry."""
        return self.entry(entry_named(name), [StepOperand(a, self.label) for a in operands], options, None)

    def paired(self, value: Any) -> bool:
        """Whether it is a tensor of pairs."""
        return isinstance(value, Ref) or (isinstance(value, TorchShaped) and value.ref.complex)

    def pair(self, value: Any) -> Any:
        """Anything as pairs."""
        if isinstance(value, Ref):
            return value
        if isinstance(value, TorchShaped):
            return value.ref if value.ref.complex else self(basics.complex_pair, value.ref, 0)
        return self.constant(value)

    def constant(self, value: Any) -> Ref:
        """A number as pairs, one for each entry of the complex tensor beside it."""
        peer = next(o.meaning for o in self.operands if is_complex_ref(o.meaning))
        ones = self(basics.ones_like, self(basics.complex_real, peer))
        return self(basics.complex_pair, self(basics.mul, ones, value), 0)

    def real(self, value: Any) -> Any:
        """A real tensor, or a number."""
        if self.paired(value):
            raise UnsupportedError(f"{self.label} takes a real tensor here", span=self.span, hints=(HINT,))
        return value.ref if isinstance(value, TorchShaped) else value

    def column(self, value: Any) -> Any:
        """A real factor of pairs."""
        value = value.ref if isinstance(value, TorchShaped) else value
        return self(basics.unsqueeze, value, dim=-1) if isinstance(value, Ref) else value

    def part(self, pairs: Ref, number: int) -> Ref:
        """The real (0) or imaginary (1) part."""
        made = self.builder.step_of(pairs.name)
        half = made.arguments[number] if made is not None and has_role(made.op, Role.PAIRS) else None
        if isinstance(half, str) and self.builder.shape_of(half) == pairs.shape[:-1]:
            return Ref(half, pairs.shape[:-1])  # it was put together of halves
        return self(basics.complex_imag if number else basics.complex_real, pairs)

    def again(self, first: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
        """The call's own entry, of another first tensor."""
        rest = [StepOperand(a, self.label) for a in arguments]
        return self.entry(self.op, [StepOperand(first, self.label), *rest], keywords, None)

    def number(self, size: Any) -> int:
        """A size as a number."""
        found = super().number(size)
        return self.whole(size) if found is None else found

    def step(self, options: Mapping[str, Hashable], name: str | None) -> Ref:
        """The operation on pairs; refuses what has no entry there."""
        op, meanings = self.op, [o.meaning for o in self.operands]
        if op.traits.role is Role.INDEXES and isinstance(options["key"], tuple):
            return replace(self.entry(op, self.operands, {"key": (*options["key"], ("all",))}, name), complex=True)
        if op.name in UNMOVED and not any(map(is_complex_ref, meanings)):
            return self.entry(role_entry(Role.HANDS_ON), self.operands, {}, name)
        if not op.traits.complex_pairs:
            chosen = {key: value for key, value in options.items() if op.defaults.get(key, ...) != value}
            word = find_complex_rule(*() if self.label.startswith("np.") else (self.label.rpartition(".")[2],), op.name)
            return self.by_rule(word, meanings, chosen, name) or self.by_halves(options, name) or self.refuse()
        given = [
            StepOperand(
                (self.pair if place in op.traits.complex_pairs and o.meaning is not None else self.real)(
                    to_torch_shape(o.meaning)
                ),
                o.text,
            )
            for place, o in zip(op.operands, self.operands, strict=False)
        ]
        return replace(self.entry(op, given, options, name), complex="out" in op.traits.complex_pairs)

    def by_halves(self, options: Mapping[str, Hashable], name: str | None) -> Ref | None:
        """The step on halves, put together again; None where it is not linear in them."""
        parts = [
            tuple(self.part(o.meaning, n) for n in (0, 1))
            if isinstance(o.meaning, Ref) and o.meaning.complex
            else (o.meaning,)
            for o in self.operands
        ]

        def of(chosen: Sequence[Any]) -> Ref:
            meant = [StepOperand(part, operand.text) for part, operand in zip(chosen, self.operands, strict=True)]
            return self.entry(self.op, meant, options, None)

        both = apply_to_halves(self, self.builder, self.op, parts, of)
        if both is None:
            return None
        made = self.entry(basics.complex_pair, [StepOperand(half, self.label) for half in both], {}, name)
        return replace(made, complex=True)

    def by_rule(
        self, word: str | None, given: Sequence[Any], chosen: Mapping[str, Hashable], name: str | None
    ) -> Ref | None:
        """What the registry says that the operation is of complex tensors; None where it does not know."""
        try:
            seen = to_torch_shape((tuple(given),) if self.op.variadic else tuple(given))
            found = None if word is None else ARITHMETIC[word](self, *seen, **chosen)
        except TypeError:  # the rule knows fewer arguments than the operation
            found = None
        if found is None:
            return None
        ref: Ref = replace(found, complex=word not in REAL)
        if name is None:
            return ref
        renamed = self.builder.renamed(ref, name)
        if renamed:
            return renamed
        handed = self.entry(role_entry(Role.HANDS_ON), [StepOperand(ref, name)], {}, name)
        return replace(handed, complex=ref.complex)

    def refuse(self) -> NoReturn:
        """Complain of what no rule knows."""
        raise UnsupportedError(f"{self.label} of complex tensors is not supported yet", span=self.span, hints=(HINT,))


def find_complex_rule(*words: str) -> str | None:
    """Under which word the registry knows a call of complex tensors."""
    return next((word for word in words if word in ARITHMETIC), None)


VIEWS = ("torch.view_as_complex", "view_as_complex", "torch.view_as_real", "view_as_real")
"""The same entries, seen as complex numbers or as pairs: no step."""


def involves_complex(op: Op, operands: Sequence[StepOperand], label: str) -> bool:
    """Whether torch would see a complex tensor here; the table's own word for an operation is about pairs."""
    return any(is_complex_ref(o.meaning) for o in operands) or (bool(op.traits.complex_pairs) and label != op.name)


def view_as_pairs(builder: StepBuilder, value: Meaning, word: str) -> Ref:
    """A tensor of pairs as a complex one, or the other way round."""
    if not isinstance(value, Ref) or value.pair:
        raise NotationError(f"{word} takes a tensor, not {describe_meaning(value)}")
    if word.endswith("real"):
        if not value.complex:
            raise NotationError(f"{word} takes a complex tensor", hints=("view_as_real(torch.fft.fft(x))",))
        return replace(value, complex=False)
    if value.complex:
        raise NotationError(f"{word} takes a real tensor")
    return replace(value, shape=(*complex_shape(builder.sizes, value.shape), value.shape[-1]), complex=True)


@dataclass(frozen=True)
class ComplexEntryCaller(EntryCaller):
    """Applies entries to tensors as torch sees them, of which some are complex."""

    def __call__(self, name: str | Op, *operands: Any, **options: Any) -> Any:
        """The result of one entry."""
        return TorchShaped(self.last(name, operands, options, None))

    def last(self, name: str | Op, operands: Sequence[Any], options: Mapping[str, Any], wish: str | None) -> Ref:
        """The same, under the name ``wish``."""
        op, given = entry_named(name), [o.ref if isinstance(o, TorchShaped) else o for o in operands]
        if self.settled is None or not (op.traits.complex_pairs or any(map(is_complex_ref, given))):
            return super().last(name, given, options, wish)
        described = [StepOperand(meaning, op.name) for meaning in given]
        spoken = {**op.defaults, **options}
        pairs = ComplexPairs(self.builder, self.span or (0, 0), self.settled, op, described, op.name)
        return pairs.step(spoken, wish)
