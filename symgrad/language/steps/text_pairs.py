"""What a text's operands are to the rules of complex tensors (`symgrad.ops.calls.complex_rules`).

Comes in: the meanings of a call's arguments. Goes out: the same as torch sees them, as pairs, or as a half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.entries.spec import Op
from symgrad.errors import Span, UnsupportedError
from symgrad.language.steps.builder import Builder, Operand
from symgrad.language.steps.calls import Meaning, Ref
from symgrad.ops import ground
from symgrad.ops.entry import named, playing, plays
from symgrad.program import Role
from symgrad.shapes import Shape, Size

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
