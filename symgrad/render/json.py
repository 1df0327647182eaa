"""Explanations as JSON, by the schema in ``schema.json``: every number as it is, every formula in both alphabets.

Integers are integers, fractions text ("1/3"), decimals numbers, nan and inf text. What grows with the square
of the sizes (labels, entries of J) is null beyond ``MOST_ENTRIES``.
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from symgrad.calculus import Rewrite, Sweep, local_jacobian
from symgrad.explanation import Explanation, Gradient, Hessian, Jacobian
from symgrad.explanation.formulas import Derived
from symgrad.explanation.kinks import Tie
from symgrad.indexing import Equation as IndexEquation
from symgrad.indexing import Index
from symgrad.indexing.definitions import in_names
from symgrad.indexing.symbols import Expr, accesses, name_of, ordered_indices
from symgrad.language import arguments
from symgrad.oracles.comparisons import Check
from symgrad.program import Constant, Program
from symgrad.render import numbers
from symgrad.render.content.answer import kink_sentence
from symgrad.render.content.jacobian_matrix import countable, left_of
from symgrad.render.content.one_entry import gradient_of, jacobian_column
from symgrad.render.content.teller import Teller, naming_teller, teller_of
from symgrad.render.formula import formula_text
from symgrad.render.latex_alphabet import formula_latex
from symgrad.render.letters import Names

VERSION = 1
MOST_ENTRIES = 10_000
"""Entries or labels of a Jacobian that are listed."""

Data = dict[str, Any]


def to_json(explanation: Explanation, *, entry: tuple[str, tuple[int, ...]] | None = None) -> str:
    """The explanation as JSON; with ``entry``, the story of that one entry beside it."""
    data, entry = explanation_data(explanation), arguments.require_entry(entry)
    if entry is not None:
        data["entry"] = entry_data(explanation, *entry)
    return dumped(data)


def schema() -> Data:
    """The JSON schema that every result obeys."""
    text = importlib.resources.files("symgrad.render").joinpath("schema.json").read_text(encoding="utf-8")
    found: Data = json.loads(text)
    return found


def dumped(data: Data) -> str:
    """JSON text; lists of numbers on one line."""
    return json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def explanation_data(explanation: Explanation) -> Data:
    """Everything an explanation says."""
    program, later = explanation.program, explanation.downstream
    teller = naming_teller(explanation, None)
    names = teller.names
    pushed = explanation.pushforward if explanation.forward else None
    said = [*explanation.conventions, *filter(None, [explanation.out_of_range])]
    return {
        "kind": "explanation",
        "schema": VERSION,
        "expression": explanation.expression,
        "sizes": {str(size): int(value) for size, value in explanation.values.sizes.items()},
        "inputs": [
            {
                "name": given.name, "shape": list(given.value.shape), "value": numbers.data(given.value),
                "value_given": given.value_given, "shape_given": given.shape_given,
                **made_data(program, given.name),
            }
            for given in explanation.inputs
        ],
        "assumptions": list(explanation.assumptions),
        "hints": [str(hint) for hint in explanation.hints],
        "steps": steps_data(program, names),
        "output": {
            "shape": list(explanation.output.shape), "value": numbers.data(explanation.output),
            **unusual_name(program.output, "out"),
        },
        "seed": {
            "origin": explanation.seed_info.origin, "text": explanation.seed_info.text,
            "shape": list(explanation.seed.shape), "value": numbers.data(explanation.seed),
            **unusual_name(program.seed, "v"),
        },
        **definitions_data(teller),
        "gradients": {name: gradient_data(gradient, names) for name, gradient in explanation.gradients.items()},
        "hessians": [hessian_data(hessian, names) for hessian in explanation.hessians.values()],
        "kinks": [kink_data(explanation, tie) for tie in explanation.kinks],
        "downstream": None if later is None else explanation_data(later),
        "checked": explanation.checked,
        "exact": explanation.exact,
        "passed": explanation.passed,
        "torch": explanation.torch_version,
        "agreement": agreement_data(explanation),
        **({"conventions": said} if said else {}),
        **({"pushforward": [] if pushed is None else pushed.texts} if explanation.forward else {}),
    }  # fmt: skip


def agreement_data(explanation: Explanation) -> Data:
    """What torch says of the text, and in its own words where it refuses it; what was run in its place, and why."""
    asked = explanation.asked
    told = {} if asked is None else {"words": asked.refused or asked.refusal, "instead": asked.unread}
    return {"outcome": str(explanation.outcome), **{key: words for key, words in told.items() if words}}


def made_data(program: Program, name: str) -> Data:
    """Where an input comes from that the text makes itself."""
    own = program.made.get(name)
    return {} if own is None else {"made": {"code": own.code, **({} if own.seed is None else {"seed": own.seed})}}


def definitions_data(teller: Teller) -> Data:
    """What stands behind the names in the formulas of derivatives that no step has."""
    read = [in_names(formula, teller.names.definitions) for formula in teller.derivatives if teller.inside]
    found = [{"left": left.text, "text": own.text, "latex": own.latex} for left, own in teller.defined(read)]
    return {"definitions": found} if found else {}


def derived_data(program: Program, derived: Sequence[Derived], teller: Teller) -> Data:
    """The formulas of a program for every size."""
    return {
        "kind": "derivation",
        "schema": VERSION,
        "inputs": [
            {"name": t.name, "shape": [str(s) for s in t.shape], **made_data(program, t.name)} for t in program.inputs
        ],
        "steps": steps_data(program, teller.names),
        "output": {"shape": [str(s) for s in program.out.shape], **unusual_name(program.output, "out")},
        **({"seed": unusual_name(program.seed, "v")} if program.seed != "v" else {}),
        **definitions_data(teller),
        "gradients": {
            d.name: {
                "closed_form": d.form.text if d.form else None,
                **sweep_data(d.sweep, d.name, teller.names),
                "jacobian": {
                    "formula": jacobian_formula_data(program, d.name, d.axes, d.inner, d.jacobian, teller.names),
                    "structure": asdict(d.structure),
                },
            }
            for d in derived
        },
    }


def unusual_name(name: str, usual: str) -> Data:
    """What is not called as usual, because an input is."""
    return {} if name == usual else {"name": name}


def steps_data(program: Program, names: Names) -> list[Data]:
    """The program, one operation a step, each with its index equation."""
    result = []
    for step in program.steps:
        equation = local_jacobian(step, program).equation
        result.append({
            "name": step.result.name,
            "op": step.called,
            "arguments": [str(a.value) if isinstance(a, Constant) else a for a in step.arguments],
            "options": {key: option_data(value) for key, value in step.options},
            "shape": [str(s) for s in step.result.shape],
            "equation": formula_data(step.result.name, equation, names.entry(equation.axes, step.result.name)),
        })  # fmt: skip
    return result


def option_data(value: Any) -> Any:
    """An option as JSON has it; sizes as text."""
    if isinstance(value, tuple):
        return [option_data(v) for v in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def formula_data(left: str, equation: IndexEquation, names: Names) -> Data:
    """``left[axes] = right`` in both alphabets."""
    letters = [names.letter(i) for i in equation.axes]
    return {"left": arguments.format_entry_name(left, letters), **both_alphabets(equation.right, names)}


def both_alphabets(formula: Expr, names: Names) -> Data:
    """A formula in both alphabets."""
    return {"text": formula_text(formula, names), "latex": formula_latex(formula, names)}


def sweep_data(sweep: Sweep, name: str, names: Names) -> Data:
    """The gradient's formula, the named gradients it mentions, and its share from each use."""

    def data(left: str, e: IndexEquation, scope: Names) -> Data:
        return formula_data(left, IndexEquation(e.axes, in_names(e.right, names.definitions)), scope)

    stages = [(s, data(s, e, names.entry(e.axes, s.removeprefix(names.back)))) for s, e in sweep.stages[:-1]]
    uses = [{"where": where, "formula": data(f"{name}.grad", e, names.inner(e.axes))} for where, e in sweep.uses]
    return {
        "formula": data(f"{name}.grad", sweep.equation, names.inner(sweep.equation.axes)),
        "stages": [{"name": stage, "formula": own} for stage, own in stages], "uses": uses,
    }  # fmt: skip


def gradient_data(gradient: Gradient, names: Names) -> Data:
    """One gradient with its Jacobian and its proofs."""
    return {
        "closed_form": gradient.closed_form,
        **sweep_data(gradient.sweep, gradient.name, names),
        "shape": list(gradient.value.shape),
        "value": numbers.data(gradient.value),
        **({} if gradient.single_variable is None else {"single_variable": numbers.data(gradient.single_variable)}),
        "jacobian": jacobian_data(gradient.jacobian, names),
        "derivation": [step_data(step, names) for step in gradient.steps],
        "checks": [check_data(check) for check in gradient.checks],
        "passed": gradient.passed,
    }


def hessian_data(hessian: Hessian, names: Names) -> Data:
    """One second derivative with its proofs."""
    matrix = hessian.jacobian
    scope = names.inner((*matrix.axes, *matrix.inner))
    return {
        "first": hessian.first,
        "second": hessian.second,
        "closed_form": hessian.closed_form,
        **({"text": None, "latex": None} if hessian.formula is None else both_alphabets(hessian.formula, scope)),
        "shape": list(hessian.value.shape),
        "value": numbers.data(hessian.value),
        "constant": hessian.constant,
        "checks": [check_data(check) for check in hessian.checks],
        "passed": hessian.passed,
    }


def kink_data(explanation: Explanation, tie: Tie) -> Data:
    """A kink or jump that the numbers stand on; ``says`` is the sentence of the page."""
    teller = teller_of(explanation.program, None if explanation.expanded else explanation.expression)
    kind = "turn" if tie.whole else "jump" if tie.jump else "kink"
    return {
        "kind": kind,
        "step": tie.step.result.name,
        "op": tie.step.called,
        "name": tie.name,
        "at": list(tie.at),
        "value": numbers.data(tie.value),
        "to": list(tie.to),
        **{slope: numbers.data(getattr(tie, slope)) for slope in ("left", "here", "right", "torch", "together")},
        "count": tie.count,
        "legal": tie.legal,
        "says": kink_sentence(explanation, tie, teller),
    }


def step_data(step: Rewrite, names: Names) -> Data:
    """One move of the derivation; a formula in the operation's own letters is left out."""
    foreign = any(name_of(entry).startswith("#") for entry in accesses(step.formula))
    free = ordered_indices(s for s in step.formula.free_symbols if isinstance(s, Index))
    return {
        "rule": step.rule,
        "why": step.why,
        "text": None if foreign else formula_text(step.formula, names.inner(free)),
    }


def jacobian_formula_data(
    program: Program, name: str, axes: Sequence[Index], inner: Sequence[Index], formula: Expr | None, names: Names
) -> Data | None:
    """∂out/∂x in both alphabets."""
    if formula is None:
        return None
    scope = names.entry(axes, program.output).inner(inner)
    left = left_of(scope, program.output, name, axes, inner)
    return {"left": left.text, "left_latex": left.latex, **both_alphabets(in_names(formula, names.definitions), scope)}


def jacobian_data(jacobian: Jacobian, names: Names) -> Data:
    """Size, structure and, where they are few enough, the entries that are not 0."""
    rows, columns = jacobian.shape
    labelled = rows + columns <= MOST_ENTRIES
    nonzeros = jacobian.nonzeros if countable(jacobian) else None
    axes, inner = jacobian.axes, jacobian.inner
    return {
        "shape": [rows, columns],
        "formula": jacobian_formula_data(jacobian.program, jacobian.name, axes, inner, jacobian.formula, names),
        "structure": asdict(jacobian.structure),
        "nonzeros": nonzeros,
        "row_labels": list(jacobian.row_labels) if labelled else None,
        "column_labels": list(jacobian.column_labels) if labelled else None,
        "entries": nonzero_entries(jacobian) if nonzeros is not None and nonzeros <= MOST_ENTRIES else None,
    }


def nonzero_entries(jacobian: Jacobian) -> list[list[Any]]:
    """[row, column, value] of every entry that is not 0."""
    rows, columns = jacobian.shape
    if rows * columns <= MOST_ENTRIES:  # exact where they are
        dense = jacobian.dense()
        return [[int(r), int(c), numbers.data(dense[r, c])] for r, c in np.argwhere(dense != 0)]
    found = jacobian.entries
    places = zip(found.rows.tolist(), found.columns.tolist(), found.values.tolist(), strict=True)
    return [[r, c, numbers.data(value)] for r, c, value in places if value != 0]


def check_data(check: Check) -> Data:
    """The result of one oracle."""
    return {
        "oracle": check.oracle,
        "passed": check.passed,
        "verdict": str(check.verdict),
        "exact": check.exact,
        "max_error": numbers.data(check.max_error),
        "note": check.note,
        "worst": None if check.worst is None else list(check.worst),
        "expected": numbers.data(check.expected),
        "got": numbers.data(check.got),
    }


def entry_data(explanation: Explanation, name: str, at: tuple[int, ...]) -> Data:
    """One entry of a gradient: every output that moves with it, and the sum."""
    gradient = gradient_of(explanation, name)
    story = gradient.entry(at)
    moving: list[Mapping[str, Any]] = []
    if name in explanation.program.relevant:
        column, seed = jacobian_column(explanation, gradient, at), explanation.seed
        moving = [
            {
                "output": [int(i) for i in place],
                "derivative": numbers.data(column[tuple(place)]),
                "weight": numbers.data(seed[tuple(place)]),
                "product": numbers.data(column[tuple(place)] * seed[tuple(place)]),
            }
            for place in np.argwhere(column != 0)
        ]
    return {"name": name, "at": list(at), "outputs": moving, "total": numbers.data(story.total)}
