"""The usual mistakes that concern a gradient as a whole: turned sign, a factor, a transpose, v left out, a swap.

Comes in: the formula, an input and its trials. Goes out: `Slip` s, each with what it would make of a seed; whoever asks
confirms them (`symgrad.testing.slips.diagnosis`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import chain, combinations

import numpy as np
import sympy as sp

from symgrad.calculus.local import derive, standard
from symgrad.closed_form import closed_form
from symgrad.closed_form.writing.sums import SUMS
from symgrad.errors import SymgradError
from symgrad.indexing.brackets import Bracket
from symgrad.indexing.symbols import is_access
from symgrad.language import expand_composites
from symgrad.numeric import Array, as_float, evaluate, forward, numeric_pushforward, unit_at
from symgrad.oracles.forms import evaluate_text
from symgrad.program import Apply, Program
from symgrad.testing.right.bench import Trial, shown
from symgrad.testing.right.truth import Formula

Made = Callable[[Trial], Array]
AXIS, MOST_AXES = (ast.Constant, ast.UnaryOp, ast.USub, ast.Load), 5
LARGEST = 1000
"""The largest denominator of a factor that is told as a fraction."""
LINEAR = "vᵀJ is linear in v, whatever the function is"


@dataclass(frozen=True, eq=False)
class Slip:
    """A mistake: its kind, a clause that names it, and the gradient that it would give."""

    kind: str
    said: str
    made: Made


def whole_slips(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """In the order in which they are believed."""
    yield Slip("sign", "the sign is turned", lambda t: -t.expected)
    yield from other_forms(formula, name)
    if square(trials[0].expected):
        if trials[0].weights.seeds[0].ndim < trials[0].expected.ndim and only_spread(formula, name):
            said = "v is spread along the wrong axis"
            yield Slip("wrong_axis", said, lambda t: t.expected.swapaxes(-1, -2))
        yield Slip("transposed", "it is the transpose of what it should be", lambda t: t.expected.swapaxes(-1, -2))
    yield from scaled(formula, name, trials)


def later_slips(formula: Formula, name: str, others: Mapping[str, bool]) -> Iterator[Slip]:
    """Those that are believed after what concerns v."""
    yield from swapped(formula, name, others)
    yield from itself(formula, name)
    yield from elementwise(formula, name)
    yield from one_use(formula, name)


def square(array: Array) -> bool:
    """Whether the last two axes are those of a square matrix of more than one row."""
    return array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1


def only_spread(formula: Formula, name: str) -> bool:
    """Whether the gradient is made of v alone: no tensor is read on the way."""
    if name not in formula.inputs:
        return False
    ones = [np.ones(out.shape) for out in formula.outputs]
    inputs = {n: 2 * as_float(formula.inputs[n]) + 1 for n in formula.wanted if n in formula.inputs}
    return np.array_equal(formula.pull(ones)[name], formula.at(inputs).pull(ones)[name])


def other_forms(formula: Formula, name: str, axes: bool = False) -> Iterator[Slip]:
    """The closed form with one operand turned: ``v @ a`` for ``v @ a.T``; or with ``axes`` added up along others."""
    if len(formula.programs) > 1:
        return
    program, values = formula.programs[0], formula.values[0]
    if not any(t.name == name for t in program.inputs):
        return
    try:
        sweep = formula.sweep(0, name)
        form = closed_form(program, sweep, name)
    except SymgradError:
        return
    if form is None:
        return
    known = {program.output: as_float(values[program.output])}
    known |= {t.name: as_float(values[t.name]) for t in program.inputs}
    names = (program.seed, *known)
    if axes:
        others: Iterator[tuple[str, str, str]] = summed(form.text)
    else:
        others = chain((("", *found) for found in turned(form.text, names)), exchanged(form.text, names))
    for kind, text, said in others:

        def made(trial: Trial, text: str = text) -> Array:
            return as_float(evaluate_text(text, {**known, program.seed: trial.weights.seeds[0]}))

        alone = not any(re.search(rf"(?<![\w.]){re.escape(n)}(?!\w|\.shape)", form.text) for n in known)
        axis = alone and np.ndim(values[name]) != np.ndim(values[program.output])
        yield Slip(kind or ("wrong_axis" if axis else "transposed"), f"equals {text}: {said}", made)


def turned(text: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """``text`` with one operand transposed that is not, or the other way round."""
    for found in re.finditer(r"\)\.m?T\b", text):
        yield f"{text[: found.start()]}){text[found.end() :]}", "a transpose is missing"
    for name in names:
        for found in re.finditer(rf"(?<![\w.]){re.escape(name)}(\.m?T)?(?![\w(\[])(?!\.shape|\.\w+\()", text):
            before, after = text[: found.start()], text[found.end() :]
            if found[1]:
                yield f"{before}{name}{after}", f"the transpose of {name} is missing"
            else:
                yield f"{before}{name}.T{after}", f"{name} is transposed, and should not be"
                yield f"{before}{name}.mT{after}", f"{name} is transposed, and should not be"


def exchanged(text: str, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """``text`` with the sides of one @ the other way round, then with an operand turned as well."""
    said = "the sides of @ stand the other way round"
    tree = ast.parse(text.replace("; ", "\n"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            node.left, node.right = node.right, node.left
            found.append("; ".join(map(ast.unparse, tree.body)))
            node.left, node.right = node.right, node.left
    yield from (("swapped", other, said) for other in found)
    for other in found:
        yield from (("swapped", both, f"{said}, and {more}") for both, more in turned(other, names))


def summed(text: str) -> Iterator[tuple[str, str, str]]:
    """``text`` with the axes of one sum or mean replaced: by as many others, by all, by none that stays as 1."""
    tree = ast.parse(text.replace("; ", "\n"))
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        axes = node.args[0]
        if node.func.attr not in SUMS or not all(isinstance(n, (ast.Tuple, *AXIS)) for n in ast.walk(axes)):
            continue
        count = len(axes.elts) if isinstance(axes, ast.Tuple) else 1
        for others in combinations(range(MOST_AXES), count):
            node.args[0] = ast.parse(str(others if isinstance(axes, ast.Tuple) else others[0]), mode="eval").body
            other = "; ".join(map(ast.unparse, tree.body))
            if other != "; ".join(map(ast.unparse, ast.parse(text.replace("; ", "\n")).body)):
                yield "wrong_axis", other, f"it is added up along other axes than {ast.unparse(axes)}"
        node.args[0] = axes
        keywords = node.keywords
        if keywords:
            node.keywords = []
            yield "wrong_axis", "; ".join(map(ast.unparse, tree.body)), f"{ast.unparse(keywords[0])} is missing"
        node.args, node.keywords = [], []
        said = f"it is added up over everything, and not along {ast.unparse(axes)} alone"
        yield "wrong_axis", "; ".join(map(ast.unparse, tree.body)), said
        node.args, node.keywords = [axes], keywords


def scaled(formula: Formula, name: str, trials: Sequence[Trial]) -> Iterator[Slip]:
    """A number times what it should be, with what that number counts."""
    whole = [t for t in trials if all((s == np.round(s)).all() for s in t.weights.seeds)]  # where less is rounded
    trial = max(whole or trials, key=lambda t: float(np.abs(t.expected).max(initial=0.0)))
    if not trial.expected.any():
        return
    at = np.unravel_index(int(np.argmax(np.abs(trial.expected))), trial.expected.shape)
    factor = float(trial.got[at] / trial.expected[at])
    if factor == 0 or abs(factor - 1) < 1e-3:
        return
    known = {round(factor), 1 / round(1 / factor) if abs(1 / factor) > 0.5 else factor}
    factor = (
        min(known, key=lambda k: abs(k - factor))
        if min(abs(k - factor) for k in known) < 1e-3 * abs(factor)
        else factor
    )  # one choice
    text, missing = told_factor(factor, formula, name, trial)
    said = f"the factor {missing} is missing: every entry is {text}" if missing else f"every entry is {text}"
    yield Slip("missing_factor" if missing else "scaled", said, lambda t: factor * t.expected)


def told_factor(factor: float, formula: Formula, name: str, trial: Trial) -> tuple[str, str]:
    """``3 times what it should be: as if multiplied by 3, the number of rows of x``; and the factor that is missing."""
    ratio = Fraction(abs(factor)).limit_denominator(LARGEST)
    exact = abs(float(ratio) - abs(factor)) < 1e-9 * abs(factor)
    times = "of" if exact and ratio < 1 else "times"
    text = f"{'-' if factor < 0 else ''}{ratio if exact else f'{abs(factor):.6g}'} {times} what it should be"
    if said := miscounted(factor, formula, name, trial):
        return f"{text}: {said}", ""
    return text, missing_number(factor, formula)


def miscounted(factor: float, formula: Formula, name: str, trial: Trial) -> str:
    """``as if divided by 4 in place of 5 (the length of axis 1 of x is 5)``: what a factor counts, or empty."""
    counts = counted(formula, name, trial)
    for number in (abs(factor), 1 / abs(factor)):
        if round(number) > 2 and abs(number - round(number)) < 1e-9 and round(number) in counts:
            by, instead = ("multiplied", "sum for a mean") if number == abs(factor) else ("divided", "mean for a sum")
            return f"as if {by} by {counts[round(number)]}, {round(number)} (a {instead})"
        n = next((n for n in sorted(counts) if n > 2 and abs(number - n / (n - 1)) < 1e-9), None)
        if n is not None and divides_by_a_size(formula):
            less, more = (n - 1, n) if number == abs(factor) else (n, n - 1)
            return f"as if divided by {less} in place of {more} ({counts[n]} is {n})"
    return ""


def divides_by_a_size(formula: Formula) -> bool:
    """Whether a step of the forward pass averages: it divides by a number of entries, or by one less."""
    equations = (
        derive(standard(step, program).key).equation.right for program in formula.programs for step in program.steps
    )
    bases = (power.base for right in equations for power in right.atoms(sp.Pow) if power.exp.is_negative)
    return any(is_number_of_entries(base) for base in bases)


def is_number_of_entries(base: sp.Expr) -> bool:
    """Whether an expression reads sizes, or counts what holds, and reads no numbers of a tensor."""
    bare = base.xreplace(dict.fromkeys(base.atoms(Bracket), sp.S.One))
    counts = bool(base.free_symbols) or base.has(sp.Sum)
    return counts and not any(is_access(node) for node in sp.preorder_traversal(bare))


def missing_number(factor: float, formula: Formula) -> str:
    """The number of the forward pass that a factor is one by, or a power of it; empty where there is none."""
    for tensor, called, array in tensors_of(formula.programs[0], formula):
        number = abs(float(array.reshape(()))) if array.size == 1 else 0.0
        if number in (0.0, 1.0) or not np.isfinite(number):
            continue
        for power, missing in ((1, f"1/{tensor}"), (-1, tensor), (2, f"1/{tensor}²"), (-2, f"{tensor}²")):
            if abs(number**power - abs(factor)) < 1e-9 * abs(factor):
                return f"{missing} ({called[2:] or tensor} = {shown(float(array.reshape(())))})"
    return ""


def counted(formula: Formula, name: str, trial: Trial) -> dict[int, str]:
    """What may have been counted."""
    found: dict[int, str] = {}
    shapes = {"out": trial.weights.seeds[0].shape, **{n: np.shape(a) for n, a in formula.inputs.items()}}
    for what, shape in sorted(shapes.items(), key=lambda pair: pair[0] != name):
        found.setdefault(int(np.prod(shape, dtype=object)), f"the number of entries of {what}")
        for axis, size in enumerate(shape):
            found.setdefault(int(size), f"the length of axis {axis} of {what}")
    return found


def swapped(formula: Formula, name: str, others: Mapping[str, bool]) -> Iterator[Slip]:
    """The gradient of another input."""
    shapes = formula.inputs
    for other in formula.wanted:
        if other != name and other in shapes and name in shapes and np.shape(shapes[other]) == np.shape(shapes[name]):
            said = f"this is {other}.grad: the gradients are returned in another order"
            yield Slip("swapped", said, lambda t, other=other: formula.pull(t.weights.seeds)[other])  # type: ignore[misc]  # a default binds


def itself(formula: Formula, name: str) -> Iterator[Slip]:
    """J where Jᵀ belongs: forward instead of backward."""
    program, values = formula.programs[0], formula.values[0]
    if len(formula.programs) > 1 or name not in formula.inputs:
        return
    if np.shape(values[name]) == np.shape(values[program.output]) and np.ndim(values[name]):
        said = "this is J·v and not vᵀJ: the Jacobian itself stands where its transpose belongs"
        yield Slip(
            "transposed", said, lambda t: as_float(numeric_pushforward(program, values, name, t.weights.seeds[0]))
        )  # fmt: skip


def elementwise(formula: Formula, name: str) -> Iterator[Slip]:
    """The diagonal of J alone."""
    program, values = formula.programs[0], formula.values[0]
    if len(formula.programs) > 1 or name not in formula.inputs:
        return
    shape = np.shape(values[program.output])
    if np.shape(values[name]) != shape or not 1 < int(np.prod(shape, dtype=object)) <= 64:
        return
    diagonal = np.zeros(shape)
    for at in np.ndindex(*shape):
        diagonal[at] = formula.part(0, unit_at(at, shape))[name][at]
    said = "only the diagonal of J is there: each output depends on other entries too"
    yield Slip("elementwise", said, lambda t: diagonal * t.weights.seeds[0])


def one_use(formula: Formula, name: str) -> Iterator[Slip]:
    """What comes back through some uses of an input that is used several times."""
    program, values = formula.programs[0], formula.values[0]
    if len(formula.programs) > 1 or not any(t.name == name for t in program.inputs):
        return
    try:
        uses = formula.sweep(0, name).uses
    except SymgradError:
        return
    for number, (_, equation) in enumerate(uses if len(uses) > 1 else (), 1):

        def share(trial: Trial, equation: object = equation) -> Array:
            known = values.with_arrays({program.seed: trial.weights.seeds[0]})
            return as_float(evaluate(equation, known.arrays, known.sizes))  # type: ignore[arg-type]  # an index equation

        said = f"{name} is used {len(uses)} times, and "

        def without(trial: Trial, times: int = 1, share: Made = share) -> Array:
            return np.asarray(trial.expected - times * share(trial))

        yield Slip("missing_term", f"{said}this is the share of use {number} alone", share)
        if len(uses) > 2:
            yield Slip("missing_term", f"{said}the share of use {number} is missing", without)
        yield Slip("missing_term", f"{said}the share of use {number} is subtracted", partial(without, times=2))


def tensors_of(program: Program, formula: Formula) -> Iterator[tuple[str, str, Array]]:
    """Inputs and results, of composite steps also those of their parts: name, what it is, numbers."""
    known = formula.inputs
    programs = [(program, formula.values[0])]
    try:
        wider = expand_composites(program)
        programs.append((wider, forward(wider, {t.name: known[t.name] for t in wider.inputs})))
    except SymgradError:
        pass
    seen: set[str] = set()
    for one, values in programs:
        for tensor in one.inputs:
            if tensor.name not in seen:
                yield tensor.name, "", as_float(values[tensor.name])
        for step in one.steps:
            if step.result.name not in seen and step.result.name in values.arrays:
                yield step.result.name, f", {step.result.name} = {written(step)}", as_float(values[step.result.name])
        seen |= {t.name for t in one.tensors()}


def written(step: Apply) -> str:
    """``relu(t1)``."""
    operands = ", ".join(a if isinstance(a, str) else shown_constant(a.value) for a in step.arguments)
    return f"{step.called}({operands})"


def shown_constant(value: object) -> str:
    """A constant among arguments."""
    return shown(value) if isinstance(value, float) else str(value)
