"""Complex tensors in a text: pairs (re, im) that the text takes for complex numbers.

Comes in: an operation as it was spelled, with operands of which some are complex, or the result is. Goes out: the
step on pairs (`symgrad.ops.complex.complex_pairs`). A complex tensor comes from ``torch.fft``, ``torch.complex``,
``torch.polar`` and ``view_as_complex``; ``abs``, ``angle``, ``.real``, ``.imag`` and ``view_as_real`` lead back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from symgrad.entries.spec import Op
from symgrad.errors import NotationError, Span, UnsupportedError
from symgrad.language.steps.builder import Builder, Caller, Operand
from symgrad.language.steps.calls import Meaning, Ref, kind_of
from symgrad.language.steps.complex_halves import HINT, IDENTITY, Seen, TextPairs, by_halves, is_complex, seen
from symgrad.ops import ground
from symgrad.ops.calls.complex_rules import ARITHMETIC, REAL, UNMOVED
from symgrad.ops.complex.complex_pairs import unpaired
from symgrad.ops.entry import named
from symgrad.program import Role
from symgrad.shapes import Size

VIEWS = ("torch.view_as_complex", "view_as_complex", "torch.view_as_real", "view_as_real")
"""The same entries, seen as complex numbers or as pairs: no step."""


def speaks_of_complex(op: Op, operands: Sequence[Operand], label: str) -> bool:
    """Whether torch would see a complex tensor here; the table's own word for an operation is about pairs."""
    return any(is_complex(o.meaning) for o in operands) or (bool(op.pairs) and label != op.name)


def seen_as(builder: Builder, value: Meaning, word: str) -> Ref:
    """A tensor of pairs as a complex one, or the other way round."""
    if not isinstance(value, Ref) or value.pair:
        raise NotationError(f"{word} takes a tensor, not {kind_of(value)}")
    if word.endswith("real"):
        if not value.complex:
            raise NotationError(f"{word} takes a complex tensor", hints=("view_as_real(torch.fft.fft(x))",))
        return replace(value, complex=False)
    if value.complex:
        raise NotationError(f"{word} takes a real tensor")
    return replace(value, shape=(*unpaired(builder.sizes, value.shape), value.shape[-1]), complex=True)


def complex_step(
    builder: Builder,
    op: Op,
    operands: Sequence[Operand],
    options: Mapping[str, Hashable],
    span: Span,
    label: str,
    name: str | None,
    whole: Callable[[Size, Span], int],
) -> Ref:
    """The step on pairs; refuses what has no entry there."""
    meanings = [o.meaning for o in operands]
    pairs = TextPairs(builder, op, meanings, span, label, whole)
    if op.role is Role.INDEXES and isinstance(options["key"], tuple):
        return replace(pairs.entry(op, operands, {"key": (*options["key"], ("all",))}, name), complex=True)
    if op.name in UNMOVED and not any(map(is_complex, meanings)):
        return pairs.entry(IDENTITY, operands, {}, name)
    if not op.pairs:
        chosen = {key: value for key, value in options.items() if op.defaults.get(key, ...) != value}
        word = known_rule(*() if label.startswith("np.") else (label.rpartition(".")[2],), op.name)
        found = by_rule(pairs, word, [seen(meaning) for meaning in meanings], chosen, name)
        return found or of_halves(pairs, op, operands, options, name) or refused(pairs)
    given = [
        Operand((pairs.pair if place in op.pairs and o.meaning is not None else pairs.real)(seen(o.meaning)), o.text)
        for place, o in zip(op.operands, operands, strict=False)
    ]
    return replace(pairs.entry(op, given, options, name), complex="out" in op.pairs)


def of_halves(
    pairs: TextPairs, op: Op, operands: Sequence[Operand], options: Mapping[str, Hashable], name: str | None
) -> Ref | None:
    """The step on halves, put together again; None where it is not linear in them."""
    parts = [
        tuple(pairs.part(o.meaning, n) for n in (0, 1))
        if isinstance(o.meaning, Ref) and o.meaning.complex
        else (o.meaning,)
        for o in operands
    ]

    def of(chosen: Sequence[Any]) -> Ref:
        meant = [Operand(meaning, operand.text) for meaning, operand in zip(chosen, operands, strict=True)]
        return pairs.entry(op, meant, options, None)

    both = by_halves(pairs, pairs.builder, op, parts, of)
    if both is None:
        return None
    made = pairs.entry(ground.complex_pair, [Operand(half, pairs.label) for half in both], {}, name)
    return replace(made, complex=True)


@dataclass(frozen=True)
class PairCaller(Caller):
    """Applies entries to tensors as torch sees them, of which some are complex."""

    def __call__(self, name: str | Op, *operands: Any, **options: Any) -> Any:
        """The result of one entry."""
        return Seen(self.last(name, operands, options, None))

    def last(self, name: str | Op, operands: Sequence[Any], options: Mapping[str, Any], wish: str | None) -> Ref:
        """The same, under the name ``wish``."""
        op, given = named(name), [o.ref if isinstance(o, Seen) else o for o in operands]
        if self.settled is None or not (op.pairs or any(map(is_complex, given))):
            return super().last(name, given, options, wish)
        described = [Operand(meaning, op.name) for meaning in given]
        spoken = {**op.defaults, **options}
        return complex_step(self.builder, op, described, spoken, self.span or (0, 0), op.name, wish, self.settled)


def known_rule(*words: str) -> str | None:
    """Under which word the registry knows a call of complex tensors."""
    return next((word for word in words if word in ARITHMETIC), None)


def by_compound(
    builder: Builder, word: str, positional: Sequence[Any], keywords: Mapping[str, Any], span: Span, name: str | None,
    whole: Callable[[Size, Span], int],
) -> Ref:  # fmt: skip
    """What the registry says that a call without an entry of its own is of complex tensors."""
    flat = [part for given in positional for part in (given if isinstance(given, tuple) else (given,))]
    pairs = TextPairs(builder, ground.norm, flat, span, word, whole)
    return by_rule(pairs, word, [seen(meaning) for meaning in positional], keywords, name) or refused(pairs)


def refused(pairs: TextPairs) -> NoReturn:
    """Complain of what no rule knows."""
    raise UnsupportedError(f"{pairs.label} of complex tensors is not supported yet", span=pairs.span, hints=(HINT,))


def by_rule(
    pairs: TextPairs, word: str | None, given: Sequence[Any], chosen: Mapping[str, Hashable], name: str | None
) -> Ref | None:
    """What the registry says that the operation is of complex tensors; None where it does not know."""
    try:
        found = None if word is None else ARITHMETIC[word](pairs, *given, **chosen)
    except TypeError:  # the rule knows fewer arguments than the operation
        found = None
    if found is None:
        return None
    ref: Ref = replace(found, complex=word not in REAL)
    if name is None:
        return ref
    renamed = pairs.builder.renamed(ref, name)
    return renamed or replace(pairs.entry(IDENTITY, [Operand(ref, name)], {}, name), complex=ref.complex)
