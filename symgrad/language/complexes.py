"""Complex tensors in a text: pairs (re, im) that the text takes for complex numbers.

Comes in: an operation as it was spelled, with operands of which some are complex, or the result is. Goes out: the
step on pairs (`symgrad.ops.complex.complex_pairs`). A complex tensor comes from ``torch.fft``, ``torch.complex``,
``torch.polar`` and ``view_as_complex``; ``abs``, ``angle``, ``.real``, ``.imag`` and ``view_as_real`` lead back.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from symgrad.errors import NotationError, Span, UnsupportedError
from symgrad.language.builder import Builder, Operand
from symgrad.language.calls import Meaning, Ref, kind_of
from symgrad.ops.complex.complex_pairs import unpaired
from symgrad.ops.entry import named
from symgrad.ops.spec import Op, entries

VIEWS = ("torch.view_as_complex", "view_as_complex", "torch.view_as_real", "view_as_real")
"""The same entries, seen as complex numbers or as pairs: no step."""
ALONE = frozenset({"add", "sub", "neg", "identity"})
"""Operations on each entry that are the same on pairs."""
SCALED = frozenset({"mul", "div"})
"""Operations by a real number, which is one for both parts."""
UNMOVED = frozenset({"complex_conj", "complex_real"})
"""What leaves a real tensor as it is."""
HINT = "abs, angle, .real, .imag and view_as_real give real tensors"


@lru_cache(maxsize=1)
def complex_twins() -> Mapping[str, Op]:
    """Operations that are another one on complex tensors."""
    return {name: op for op in entries() for name in op.twins}


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
) -> Ref:
    """The step on pairs; refuses what has no entry there."""

    def apply(entry: Op, given: Sequence[Operand], chosen: Mapping[str, Hashable], called: str | None = name) -> Ref:
        return builder.apply(entry, given, chosen, span, label, called)

    def promoted(operand: Operand) -> Operand:
        meaning = operand.meaning
        if is_complex(meaning) or meaning is None:
            return operand
        if not isinstance(meaning, Ref):  # one of them for each entry of the complex tensor beside it
            peer = next(o for o in operands if is_complex(o.meaning))
            shaped = apply(named("ones_like"), [Operand(apply(named("complex_real"), [peer], {}, None), "")], {}, None)
            operand = Operand(apply(named("mul"), [Operand(shaped, ""), operand], {}, None), operand.text)
        ref = apply(named("complex_pair"), [operand, Operand(0, "0")], {}, None)
        return Operand(replace(ref, complex=True), operand.text)

    meanings = [o.meaning for o in operands]
    if op.name in SCALED and len(operands) == 2 and is_complex(meanings[0]) and not isinstance(meanings[1], Ref):
        return replace(apply(op, operands, options), complex=True)
    if op.name == "mul" and not isinstance(meanings[0], Ref):
        return replace(apply(op, operands, options), complex=True)
    if op.name == "getitem" and isinstance(options["key"], tuple):
        return replace(apply(op, operands, {"key": (*options["key"], ("all",))}), complex=True)
    if op.name in ("sum", "mean") and isinstance(meanings[0], Ref):
        return replace(apply(op, operands, {**options, "dim": leading(options.get("dim"), meanings[0])}), complex=True)
    if op.name == "pow" and meanings[1] == 2:
        op, operands, options = named("complex_mul"), [operands[0], operands[0]], {}
    if op.name in UNMOVED and not any(map(is_complex, meanings)):
        return apply(named("identity"), operands, {})
    if op.name in ALONE:
        return replace(apply(op, [promoted(o) for o in operands], options), complex=True)
    if not op.pairs:
        if op.name not in complex_twins():
            raise UnsupportedError(f"{label} of complex tensors is not supported yet", span=span, hints=(HINT,))
        operands = [operands[0], operands[0]] if op.name == "square" else operands
        op = complex_twins()[op.name]
    given = [
        promoted(o) if place in op.pairs else real(o, label, span)
        for place, o in zip(op.operands, operands, strict=False)
    ]
    return replace(apply(op, given, options), complex="out" in op.pairs)


def real(operand: Operand, label: str, span: Span) -> Operand:
    """A real operand, or a refusal."""
    if is_complex(operand.meaning):
        raise UnsupportedError(f"{label} takes a real tensor here", span=span, hints=(HINT,))
    return operand


def leading(dim: Any, tensor: Ref) -> tuple[int, ...]:
    """``dim`` among the axes before the pairs; all of them for None."""
    rank = len(tensor.shape) - 1
    if dim is None:
        return tuple(range(rank))
    return tuple(d % rank if -rank <= d < rank else rank + 1 for d in (dim if isinstance(dim, tuple) else (dim,)))
