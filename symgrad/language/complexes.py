"""Complex tensors in a text: pairs (re, im) that the text takes for complex numbers.

Comes in: an operation as it was spelled, with operands of which some are complex, or the result is. Goes out: the
step on pairs (`symgrad.ops.complex.complex_pairs`). A complex tensor comes from ``torch.fft``, ``torch.complex``,
``torch.polar`` and ``view_as_complex``; ``abs``, ``angle``, ``.real``, ``.imag`` and ``view_as_real`` lead back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symgrad.errors import NotationError, Span, UnsupportedError
from symgrad.language.builder import Builder, Operand
from symgrad.language.calls import Meaning, Ref, kind_of
from symgrad.ops.calls.complex_rules import ARITHMETIC, REAL
from symgrad.ops.complex.complex_pairs import unpaired
from symgrad.ops.entry import named
from symgrad.ops.spec import Op
from symgrad.shapes import Shape, Size

VIEWS = ("torch.view_as_complex", "view_as_complex", "torch.view_as_real", "view_as_real")
"""The same entries, seen as complex numbers or as pairs: no step."""
UNMOVED = frozenset({"complex_conj", "complex_real"})
"""What leaves a real tensor as it is."""
IDENTITY = named("identity")
HINT = "abs, angle, .real, .imag and view_as_real give real tensors"


def speaks_of_complex(op: Op, operands: Sequence[Operand], label: str) -> bool:
    """Whether torch would see a complex tensor here; the table's own word for an operation is about pairs."""
    return any(is_complex(o.meaning) for o in operands) or (bool(op.pairs) and label != op.name)


def is_complex(meaning: Any) -> bool:
    """Whether a tensor is complex."""
    return isinstance(meaning, Ref) and meaning.complex


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
    if op.name == "getitem" and isinstance(options["key"], tuple):
        return replace(pairs.entry(op, operands, {"key": (*options["key"], ("all",))}, name), complex=True)
    if op.name in ("sum", "mean") and isinstance(meanings[0], Ref):
        chosen = {**options, "dim": leading(options.get("dim"), meanings[0])}
        return replace(pairs.entry(op, operands, chosen, name), complex=True)
    if op.name in UNMOVED and not any(map(is_complex, meanings)):
        return pairs.entry(IDENTITY, operands, {}, name)
    if not op.pairs:
        chosen = {key: value for key, value in options.items() if op.defaults.get(key, ...) != value}
        word = known_rule(label.rpartition(".")[2], op.name)
        return by_rule(pairs, word, [seen(meaning) for meaning in meanings], chosen, name)
    given = [
        Operand((pairs.pair if place in op.pairs and o.meaning is not None else pairs.real)(seen(o.meaning)), o.text)
        for place, o in zip(op.operands, operands, strict=False)
    ]
    return replace(pairs.entry(op, given, options, name), complex="out" in op.pairs)


def known_rule(*words: str) -> str | None:
    """Under which word the registry knows a call of complex tensors."""
    return next((word for word in words if word in ARITHMETIC), None)


def by_compound(
    builder: Builder, word: str, positional: Sequence[Any], keywords: Mapping[str, Any], span: Span, name: str | None,
    whole: Callable[[Size, Span], int],
) -> Ref:  # fmt: skip
    """What the registry says that a call without an entry of its own is of complex tensors."""
    flat = [part for given in positional for part in (given if isinstance(given, tuple) else (given,))]
    pairs = TextPairs(builder, named("norm"), flat, span, word, whole)
    return by_rule(pairs, word, [seen(meaning) for meaning in positional], keywords, name)


def by_rule(
    pairs: TextPairs, word: str | None, given: Sequence[Any], chosen: Mapping[str, Hashable], name: str | None
) -> Ref:
    """What the registry says that the operation is of complex tensors; refuses what it does not know."""
    try:
        found = None if word is None else ARITHMETIC[word](pairs, *given, **chosen)
    except TypeError:  # the rule knows fewer arguments than the operation
        found = None
    if found is None:
        message = f"{pairs.label} of complex tensors is not supported yet"
        raise UnsupportedError(message, span=pairs.span, hints=(HINT,))
    ref: Ref = replace(found, complex=word not in REAL)
    if name is None:
        return ref
    renamed = pairs.builder.renamed(ref, name)
    return renamed or replace(pairs.entry(IDENTITY, [Operand(ref, name)], {}, name), complex=ref.complex)


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

    def __call__(self, name: str, *arguments: Any, **keywords: Any) -> Ref:
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
            return value.ref if value.ref.complex else self("complex_pair", value.ref, 0)
        peer = next(meaning for meaning in self.meanings if is_complex(meaning))
        return self("complex_pair", self("mul", self("ones_like", self("complex_real", peer)), value), 0)

    def real(self, value: Any) -> Any:
        """A real tensor, or a number."""
        if self.paired(value):
            raise UnsupportedError(f"{self.label} takes a real tensor here", span=self.span, hints=(HINT,))
        return value.ref if isinstance(value, Seen) else value

    def column(self, value: Any) -> Any:
        """A real factor of pairs."""
        value = value.ref if isinstance(value, Seen) else value
        return self("unsqueeze", value, dim=-1) if isinstance(value, Ref) else value

    def part(self, pairs: Ref, number: int) -> Ref:
        """The real (0) or imaginary (1) part."""
        return self(("complex_real", "complex_imag")[number], pairs)

    def again(self, first: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
        """The call's own entry, of another first tensor."""
        rest = [Operand(a, self.label) for a in arguments]
        return self.entry(self.op, [Operand(first, self.label), *rest], keywords, None)

    def number(self, size: Any) -> int:
        """A size as a number."""
        found = self.builder.sizes.number(size)
        return self.whole(size, self.span) if found is None else found


def leading(dim: Any, tensor: Ref) -> tuple[int, ...]:
    """``dim`` among the axes before the pairs; all of them for None."""
    rank = len(tensor.shape) - 1
    if dim is None:
        return tuple(range(rank))
    return tuple(d % rank if -rank <= d < rank else rank + 1 for d in (dim if isinstance(dim, tuple) else (dim,)))
