"""The last sections of a page: which independent answers agree and how closely, and the second derivatives.

Section 5 is a table, one row an oracle, one column an input; below it what the table has no room for: the worst entry
of a disagreement, the reason why a check was skipped. Section 6, where asked for, has the Hessian by each pair of
inputs, as formula, as code, in numbers, and its proofs. A page without numbers has H as code where there is some, and
its products line by line. Comes in: an explanation, or a program whose sizes are symbols and the inputs that were asked
for. Goes out: sections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

import numpy as np

from symgrad.backward import Backward, derive_double_backward
from symgrad.explanation import Explanation, Gradient, Hessian, compute_hessian
from symgrad.explanation.formulas import Sample, sample
from symgrad.explanation.given import Seed
from symgrad.explanation.notable import join_with_and
from symgrad.numeric import without_fractions
from symgrad.oracles.comparisons import Check, CheckVerdict
from symgrad.render import numbers
from symgrad.render.content.jacobian_matrix import LONGEST, MOST_COLUMNS, MOST_ROWS
from symgrad.render.content.speaker import Speaker, as_code, join_words, speaker_of
from symgrad.render.content.teller import Teller
from symgrad.render.page import (
    Block,
    Code,
    EquationRow,
    Equations,
    Formula,
    Listing,
    Matrix,
    Paragraph,
    Ready,
    Section,
    Table,
    Words,
    entry_label,
    number_math,
    tensor_label,
)

PLACED = ("out.backward", "central differences", "the index formula", "the closed form")
"""Oracles whose comparison has the shape of the input, so that the worst place is one of its entries."""


def proof_section(explanation: Explanation, only: str | None = None) -> Section:
    """The whole section; ``only`` one input's column."""
    say = speaker_of(explanation.program)
    heading: Words = ("Proof: the same numbers computed in other ways",)
    if not explanation.checked:
        blocks: list[Block] = [Paragraph(("Checks were turned off: nothing here has been verified.",))]
        return Section(heading, (*blocks, _convention(say)))
    wanted = [(name, g) for name, g in explanation.gradients.items() if only in (None, name)]
    columns: list[tuple[Words, str, Gradient]] = [((Code(name),), name, g) for name, g in wanted]
    if explanation.downstream is not None:
        seed = explanation.program.seed
        columns.insert(0, (say("{v}"), seed, explanation.downstream.gradients[explanation.program.output]))
    oracles = dict.fromkeys(check.oracle for *_, g in columns for check in g.checks)
    said = {(check.oracle, name): check for _, name, g in columns for check in reversed(g.checks)}
    found = {(oracle, name): said.get((oracle, name)) for oracle in oracles for _, name, _ in columns}
    rows = tuple(
        ((say.oracle(oracle),), *((verdict_text(found[oracle, name]),) for _, name, _ in columns)) for oracle in oracles
    )
    blocks = [Table((("compared with",), *(title for title, _, _ in columns)), rows)]
    blocks += remarks(say, [(name, check) for (_, name), check in found.items() if check is not None])
    undefined = [name for name, g in wanted if any(c.verdict is CheckVerdict.UNDEFINED for c in g.checks)]
    if undefined and explanation.passed:
        blocks.append(
            say.paragraph(
                "Undefined is not a disagreement: where {names} {are} undefined there is nothing to compare. All "
                "other entries agree.",
                are="is" if len(undefined) == 1 else "are",
                names=join_words([(Code(f"{name}.grad"),) for name in undefined]),
            )
        )
    if explanation.refused:
        blocks.append(Paragraph((f"PyTorch rejects this code: {explanation.refused.rstrip('.')}.",), alarm=True))
    elif not explanation.passed:
        blocks.append(Paragraph(("The oracles disagree: do not use these formulas.",), alarm=True))
    exactly = all(
        check.exact for check in found.values() if check is not None and check.passed and is_about_numbers(check)
    )
    if exactly and explanation.exact and explanation.passed:
        given = (explanation.seed, explanation.output, *(one.value for one in explanation.inputs))
        shown = (*given, *(gradient.value for gradient in explanation.gradients.values()))
        whole = all(np.issubdtype(without_fractions(array).dtype, np.integer) for array in shown)
        kind = "integers" if whole else "fractions"
        blocks.append(Paragraph((f"Exact {kind} throughout: equal means identical.",)))
    elif explanation.passed:
        blocks.append(Paragraph(("Decimal numbers: the table shows the largest difference of any entry.",)))
    blocks.append(_convention(say))
    return Section(heading, tuple(blocks))


def verdict_text(check: Check | None) -> str:
    """equal, the largest difference, undefined here, DIFFERS, skipped."""
    if check is None:
        return ""
    if check.verdict in (CheckVerdict.NOT_MADE, CheckVerdict.UNDEFINED):
        return check.verdict
    if check.verdict is CheckVerdict.DIFFERS:
        return "DIFFERS"
    if check.exact or check.max_error == 0:
        return "equal"
    return f"{check.max_error:.0e}".replace("e-0", "e-")


def is_about_numbers(check: Check) -> bool:
    """Whether a check is about the numbers shown, not about the text of a closed form at a random point."""
    return not check.oracle.startswith("the closed form")


def remarks(say: Speaker, found: list[tuple[str, Check]]) -> Iterator[Block]:
    """Disagreements first, then what was skipped and why, then other notes."""
    for name, check in found:
        if check.passed is False:
            worst = _worst(name, check)
            yield say.paragraph(
                "DIFFERS: {oracle}, for `{name}`: {worst}",
                oracle=say.oracle(check.oracle),
                name=name,
                worst=worst,
                alarm=True,
            )
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, check in found:
        if check.passed is None:
            reasons.setdefault((check.oracle, check.note), []).append(name)
    for (oracle, note), names in reasons.items():
        yield Paragraph((f"Skipped for {', '.join(names)}: {say.oracle(oracle)} ({note}).",))
    for name, check in found:
        if check.passed and check.note and is_about_numbers(check):
            yield say.paragraph(
                "For `{name}`, {oracle}: {note}.", name=name, oracle=say.oracle(check.oracle), note=check.note
            )


def _worst(name: str, check: Check) -> str:
    """At x[0,1]: expected 3, got 4."""
    if check.worst is None or check.expected is None or check.got is None:
        return check.note or "no details"
    place = ",".join(map(str, check.worst))
    where = f"{name}[{place}]" if check.oracle.startswith(PLACED) and place else f"place [{place}]"
    return f"at {where} expected {numbers.text(check.expected)}, got {numbers.text(check.got)}"


def _convention(say: Speaker) -> Paragraph:
    """How J is laid out."""
    return say.paragraph(
        "Convention, as in torch: the rows of {J} are outputs and its columns are inputs, both numbered row by row. "
        "`torch.autograd.functional.jacobian` has the same numbers, in the shape of `out` followed by that of the "
        "input.",
        aside=True,
    )


MOST_PAIRS = 4
"""Second derivatives that a page opens with."""


def second_order_section(teller: Teller, explanation: Explanation) -> Section:
    """The whole section."""
    say = teller.say
    blocks: list[Block] = [
        say.paragraph(
            "Differentiate once more: how does each entry of a gradient change when one entry of an input changes? "
            "These are the second derivatives of {what}. torch finds them by a backward through the backward "
            "(`create_graph=True`), one row for each entry.",
            what=say("{L} = `out`" if explanation.seed_info.origin == "scalar" else "{L} = {sum} {weighed}"),
        )
    ]
    for hessian in explanation.hessians.values():
        blocks += hessian_blocks(teller, hessian)
    return Section(("Second order: the Hessian",), tuple(blocks))


def hessian_blocks(teller: Teller, hessian: Hessian) -> Iterator[Block]:
    """Formula, closed form, numbers, proofs of one pair of inputs."""
    say = teller.say
    first, second, matrix = hessian.first, hessian.second, hessian.jacobian
    rows, columns = matrix.shape
    pair: Words = (Code(first),) if first == second else (Code(first), " and ", Code(second))
    yield say.paragraph("For {pair}:", pair=pair)
    names = teller.names.inner((*matrix.axes, *matrix.inner))
    written = list(_formula(teller, hessian))
    yield from written
    if not written:
        yield Paragraph((f"{rows}×{columns}; the formula is too long to show.",))
    if hessian.closed_form is not None:
        yield Paragraph(("As code: ", *as_code("", hessian.closed_form)))
    if hessian.constant:
        yield Paragraph(
            say("It does not depend on {pair}: {L} has the same curvature everywhere.", pair=pair)
            if hessian.formula != 0
            else say("All of it is 0: {L} has no curvature here.")
        )
    if 0 < rows <= MOST_ROWS and 0 < columns <= MOST_COLUMNS and hessian.formula != 0:
        dense = np.asarray(hessian.value).reshape(rows, columns)
        cells = tuple(tuple(number_math(v) if v != 0 else None for v in row) for row in dense)
        above = tuple(entry_label(second, at, names) for at in np.ndindex(*matrix.in_shape))
        beside = tuple(entry_label(first, at, names) for at in np.ndindex(*matrix.out_shape))
        yield Matrix(beside, above, cells)
    if hessian.digits:
        yield say.paragraph(
            "The digits of these numbers are lost in float64: terms near the end of its range cancel. They are the "
            "formula's with {digits} digits; code that computes with floats has others.",
            digits=str(hessian.digits),
        )
    if hessian.checks:
        rows_of = tuple(((say.oracle(check.oracle),), (verdict_text(check),)) for check in hessian.checks)
        yield Table((("compared with",), pair), rows_of)
        yield from remarks(say, [(first, check) for check in hessian.checks])


def second_derivative_blocks(teller: Teller, explanation: Explanation) -> Iterator[Block]:
    """What a page opens with beside its gradients: each second derivative as code, else as a formula of one line."""
    pairs = sorted(explanation.hessians.values(), key=lambda pair: (pair.formula == 0, pair.first != pair.second))
    for hessian in pairs[:MOST_PAIRS]:
        if hessian.closed_form is not None:
            yield _as_code(teller, hessian.first, hessian.second, hessian.closed_form)
        else:
            yield from _formula(teller, hessian)
    if len(pairs) > MOST_PAIRS:
        yield Paragraph((f"({len(pairs) - MOST_PAIRS} more pairs of inputs: in the last section of the whole page)",))


def forward_mode_blocks(teller: Teller, explanation: Explanation) -> Iterator[Block]:
    """The lines of Ju where they are asked for, after what the changes of the inputs are called."""
    if not explanation.forward:
        return
    found = explanation.pushforward
    if found is None or not found.texts:
        yield teller.say.paragraph("Forward mode: Ju is 0 for every u.")
        return
    changes = [(Code(own), " is a change of ", Code(name)) for name, own in found.push.directions.items()]
    words: Words = ("Forward mode, as torch.func.jvp computes it: ", *join_words(changes), ", and ")
    yield Paragraph((*words, *teller.say("Ju is the change of `out` to first order:")))
    yield Listing("\n".join(found.texts))


def _formula(teller: Teller, hessian: Hessian) -> Iterator[Block]:
    """The entries of one second derivative, where the formula is short enough to be read."""
    matrix = hessian.jacobian
    axes = (*matrix.axes, *matrix.inner)
    if hessian.formula is None:
        return
    names = teller.names.inner(axes)
    formula = Formula(teller.named(hessian.formula), names)
    if not formula.fits(LONGEST):
        return
    letters, rank = [names.letter(i) for i in axes], len(matrix.axes)
    rows, columns = matrix.shape
    first, second = tensor_label(hessian.first, letters[:rank]), tensor_label(hessian.second, letters[rank:])
    left = second_partial(teller, first, second)
    yield Equations((EquationRow((left, formula), (f"{rows}×{columns}",)),))
    yield from teller.aside(formula)


def _as_code(teller: Teller, first: str, second: str, form: str) -> Paragraph:
    """∂²L/∂x∂y = A + A.T"""
    left = second_partial(teller, tensor_label(first), tensor_label(second))
    return Paragraph((left, " = ", *as_code("", form)))


def second_partial(teller: Teller, first: Ready, second: Ready) -> Ready:
    """∂²L/∂x[p]∂x[q]."""
    loss = teller.say.L
    return Ready(
        f"∂²{loss.text}/∂{first.text}∂{second.text}",
        f"\\frac{{\\partial^2 {loss.latex}}}{{\\partial {first.latex}\\,\\partial {second.latex}}}",
    )


MOST_INPUTS = 2
"""Inputs of which every pair has its own H."""


def second_lines(teller: Teller, wanted: Sequence[str]) -> Section:
    """The whole section."""
    point = sample(teller.program, {})
    lines = None if point is None else derive_double_backward(point[0], wanted, point[1], point[2])
    blocks: list[Block] = []
    if point is None:
        blocks.append(Paragraph(("No sizes were found at which a line could be proven.",)))
    elif lines is None:
        blocks.append(teller.say.paragraph("All of it is 0: {L} has no curvature here."))
    else:
        blocks += [*_forms(teller, point, wanted), *_products(teller, lines)]
    return Section(("Second order: the backward of the backward",), tuple(blocks))


def _forms(teller: Teller, point: Sample, wanted: Sequence[str]) -> Iterator[Block]:
    """H by each pair of inputs as code, where there is some."""
    program, values, weights = point
    seed = Seed(weights, "scalar" if not program.out.shape else "given", "v")
    pairs = [*combinations_with_replacement(wanted[:MOST_INPUTS], 2)][:MOST_PAIRS]
    for first, second in pairs:
        form = compute_hessian(program, values, seed, first, second, None).closed_form
        if form is not None:
            yield _as_code(teller, first, second, form)


def _products(teller: Teller, lines: Backward) -> Iterator[Block]:
    """The lines of the product of weights with H."""
    letter = lines.letter
    seeds = [f"`{seed}`" for seed in lines.seeds.values() if seed is not None]
    ends, weigh = ("gradients", "weight the gradients") if len(seeds) > 1 else ("gradient", "weighs it")
    told = f"The {ends} of {{L}}, and the backward of that; {join_with_and(seeds)} {weigh}, H is {{L}}'s Hessian:"
    yield teller.say.paragraph(told)
    forward, back = ([str(line) for line in part if line.text is not None] for part in (lines.forward, lines.lines))
    products = [f"{letter}ᵀH for {name} = {lines.gradients[name].text or '…'}" for name in lines.gradients]
    yield Listing("\n".join([*forward, "", *back, *products]))
