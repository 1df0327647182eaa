"""What is linear, of complex tensors in a text: of their real and their imaginary parts.

Comes in: an operation on complex tensors that no rule of its own knows. Goes out: its steps on halves, put together
again; or None where its equation is not linear in each of its tensors (`symgrad.language.steps.multilinear`), or says
another thing of each of them. Joins, views, sums and picked entries are linear in all tensors together, products in
each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from symgrad.entries.spec import Op
from symgrad.language.steps.builder import Builder, Operand
from symgrad.language.steps.calls import Ref
from symgrad.language.steps.multilinear import Terms, multilinear
from symgrad.language.steps.text_pairs import TextPairs, is_complex
from symgrad.ops import ground
from symgrad.program import Constant

Halves = tuple[Any, ...]
"""The real part and the imaginary one; one part of what is no complex tensor."""


def by_halves(
    p: TextPairs, op: Op, operands: Sequence[Operand], options: Mapping[str, Hashable], name: str | None
) -> Ref | None:
    """The pair of the results of both halves, or of the products of halves."""
    parts = [halves(p, operand.meaning) for operand in operands]
    places = {str(n) for n, part in enumerate(parts) if len(part) > 1}

    def of(chosen: Sequence[Any]) -> Ref:
        meant = [Operand(meaning, operand.text) for meaning, operand in zip(chosen, operands, strict=True)]
        return p.entry(op, meant, options, None)

    first = of([part[0] for part in parts])
    terms = terms_of_step(p.builder, op, first)
    if not terms:
        return None
    if all(len(term) == 1 for term in terms):
        moving = {int(name) for (name,) in terms}
        parts = [with_nothing(p, part) if n in moving else part for n, part in enumerate(parts)]
        both = first, of([part[-1] for part in parts])
    elif (factors := one_product(terms)) is not None and places <= set().union(*terms):
        moving = {int(name) for term in terms for name in term}
        both = product(p, first, parts, factors, frozenset(moving - factors), of)
    else:
        return None
    made = p.entry(ground.complex_pair, [Operand(half, p.label) for half in both], {}, name)
    return replace(made, complex=True)


def halves(p: TextPairs, meaning: Any) -> Halves:
    """Both halves of a complex tensor; anything else as it is."""
    return tuple(p.part(meaning, n) for n in (0, 1)) if is_complex(meaning) else (meaning,)


def with_nothing(p: TextPairs, part: Halves) -> Halves:
    """Both halves, also of a real tensor among complex ones."""
    return part if len(part) > 1 or not isinstance(part[0], Ref) else (part[0], p(ground.zeros_like, part[0]))


def one_product(terms: Terms) -> frozenset[int] | None:
    """The factors of the only term that is a product, beside which others may be added as they are (a bias)."""
    (longest, *others) = sorted(terms, key=len, reverse=True)
    alone = all(len(term) == 1 and term[0] not in longest for term in others)
    return frozenset(map(int, longest)) if alone else None


def product(
    p: TextPairs,
    first: Ref,
    parts: Sequence[Halves],
    factors: frozenset[int],
    added: frozenset[int],
    of: Callable[[Sequence[Any]], Ref],
) -> tuple[Ref, Ref]:
    """Of two factors (f(x₀, y₀) − f(x₁, y₁)) + i·(f(x₀, y₁) + f(x₁, y₀)), and so on; what is added counts once."""
    if not any(len(parts[n]) > 1 for n in factors):
        parts = [with_nothing(p, part) if n == min(factors) else part for n, part in enumerate(parts)]
    riders = {n: with_nothing(p, parts[n]) for n in added}
    kept = [part[:1] if n in riders else part for n, part in enumerate(parts)]
    sums: dict[int, Ref] = {0: first}
    for choice in list(itertools.product(*(range(len(part)) for part in kept)))[1:]:
        turns = sum(choice)
        half = turns % 2
        chosen = [part[n] for part, n in zip(kept, choice, strict=True)]
        for n, part in riders.items():
            chosen[n] = p(ground.zeros_like, part[0]) if half in sums else part[1]
        term = of(chosen)
        sums[half] = p(ground.sub if turns % 4 > 1 else ground.add, sums[half], term) if half in sums else term
    return sums[0], sums[1]


def terms_of_step(builder: Builder, op: Op, result: Ref) -> Terms | None:
    """In which operands the step that gave ``result`` is linear."""
    step = builder.step_of(result.name)
    if step is None:
        return None
    shapes = [builder.shape_of(a) if isinstance(a, str) else None if a.value is None else () for a in step.arguments]
    values = [a.value if isinstance(a, Constant) else None for a in step.arguments]
    return multilinear(op, shapes, values, step.result.shape, dict(step.options))
