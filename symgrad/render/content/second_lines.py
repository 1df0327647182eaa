"""The second derivatives of a page without numbers: H as code where there is some, and its products line by line.

Comes in: a program whose sizes are symbols, and the inputs that were asked for. Goes out: a section.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from symgrad.backward import Backward, twice
from symgrad.explanation.formulas import Sample, sample
from symgrad.explanation.given import Seed
from symgrad.explanation.second import second_of
from symgrad.render.content.second_order import MOST_PAIRS, second_partial
from symgrad.render.content.teller import Teller
from symgrad.render.content.words import as_code
from symgrad.render.page import Block, Listing, Paragraph, Section, named

MOST_INPUTS = 2
"""Inputs of which every pair has its own H."""


def second_lines(teller: Teller, wanted: Sequence[str]) -> Section:
    """The whole section."""
    point = sample(teller.program, {})
    lines = None if point is None else twice(point[0], wanted, point[1], point[2])
    blocks: list[Block] = []
    if point is None:
        blocks.append(Paragraph(("No sizes were found at which a line could be proven.",)))
    elif lines is None:
        blocks.append(Paragraph(teller.say("All of it is 0: {L} has no curvature there.")))
    else:
        blocks += [*_as_code(teller, point, wanted), *_products(teller, lines)]
    return Section(("Second order: the backward of the backward",), tuple(blocks))


def _as_code(teller: Teller, point: Sample, wanted: Sequence[str]) -> Iterator[Block]:
    """∂²L/∂x∂y = A + A.T"""
    program, values, weights = point
    seed = Seed(weights, "scalar" if not program.out.shape else "given", "v")
    pairs = [*combinations_with_replacement(wanted[:MOST_INPUTS], 2)][:MOST_PAIRS]
    for first, second in pairs:
        form = second_of(program, values, seed, first, second, None).closed_form
        if form is not None:
            left = second_partial(teller.say.L, named(first, ()), named(second, ()))
            yield Paragraph((left, " = ", *as_code("", form)))


def _products(teller: Teller, lines: Backward) -> Iterator[Block]:
    """The lines of the product of weights with H."""
    letter = lines.letter
    seeds = [f"`{seed}`" for seed in lines.seeds.values() if seed is not None]
    several = len(seeds) > 1
    ends = "gradients" if several else "gradient"
    weigh = f"{', '.join(seeds[:-1])} and {seeds[-1]} weigh the gradients" if several else f"{seeds[0]} weighs it"
    yield Paragraph(teller.say(f"The {ends} of {{L}}, and the backward of that; {weigh}, H is {{L}}'s Hessian:"))
    forward = [str(line) for line in lines.forward if line.text is not None]
    back = [str(line) for line in lines.lines if line.text is not None]
    products = [f"{letter}ᵀH by {name} = {lines.gradients[name].text or '…'}" for name in lines.gradients]
    yield Listing("\n".join([*forward, "", *back, *products]))
