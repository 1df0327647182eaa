"""The search for the wrong line of a candidate's backward: with the right value in its place, all gradients are right.

The lines are watched while they run. A line is named where what it reads fits (each tensor that it mentions is one that
a right backward computes: a tensor of the forward pass, a cotangent, a part of one of our lines), and where another
known quantity, written over what it gives, makes all gradients right, for every seed that is tried. Comes in: the bench
and the wrong trials. Goes out: clauses, none where nothing was confirmed; and a line for each name that a message
uses, ``t4 = rsqrt((x * x).mean(-1) + eps)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.source_code import SourceWriter
from symgrad.errors import SymgradError, file_or_cell_name
from symgrad.language.python_text import is_comparison, write_python
from symgrad.language.syntax_tree import PythonCall
from symgrad.notation.tree import Binary, walk
from symgrad.numeric import Array, as_float
from symgrad.oracles.forms import reader_of
from symgrad.program import Apply, Constant, Program
from symgrad.testing.bench import Bench, Trial
from symgrad.testing.candidates import PullResult
from symgrad.testing.candidates.watching import Key, LineWatch, WatchedStep, watch_lines
from symgrad.testing.references import DerivedReference
from symgrad.testing.slips import intermediate_values

WORD = re.compile(r"(?<![\w.])(?:v_)?([A-Za-z]\w*)")
SPAN = 80
"""A longer definition is one step, and its operands get lines of their own."""
MOST_NAMES = 8

Known = Mapping[str, Array]
MOST_PARTS, SHORT = 80, 80
SEEDS, MOST_RUNS, MOST_ENTRIES, LONGEST = 4, 400, 4096, 88
NUMBER = re.compile(r"\d+\.?\d*(?:e-?\d+)?")
COTANGENT = re.compile(r"v_\w+|.*\.grad")


def backward_quantities(formula: DerivedReference, seeds: Sequence[Array]) -> Known:
    """Seeds, gradients, cotangents on the way, and parts of the lines of our backward, for one seed."""
    pulled = formula.pull(seeds)
    found: dict[str, Array] = {f"{name}.grad": array for name, array in pulled.items()}
    for number, program in enumerate(formula.programs):
        found |= {program.seed if len(seeds) == 1 else f"v{number + 1}": np.asarray(seeds[number], dtype=np.float64)}
    if len(formula.programs) > 1:
        return found
    (program,), (sweep,) = formula.programs, formula.sweeps
    cotangents = sweep.back({program.output: np.asarray(seeds[0])}, every=True)
    between = sorted(cotangents.keys() - {program.output, *formula.wanted})
    found |= {f"v_{name}": as_float(cotangents[name]) for name in between}
    for text, array in line_parts(formula, seeds[0]):
        found.setdefault(text, array)
    return found


def cotangent_lines(formula: DerivedReference, name: str) -> dict[str, str]:
    """``v_t1 = v_h * (1 - h ** 2)``: the line of our backward that gives a cotangent, and those that it reads."""
    if len(formula.programs) > 1:
        return {}
    lines = {line.target: line for line in formula.lines.statements}
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        line = lines.get(waiting.pop(0))
        if line is not None and line.text is not None and line.target not in found:
            found[line.target] = line.text
            waiting += sorted(line.names)
    return found if all(len(text) <= SHORT for text in found.values()) else {}


def line_parts(formula: DerivedReference, seed: Array) -> Iterator[tuple[str, Array]]:
    """What stands inside the lines of our backward: ``v * out`` and its sum, where softmax is pulled back."""
    program, values = formula.programs[0], formula.values[0]
    arrays = {t.name: as_float(values[t.name]) for t in program.tensors()} | {program.seed: np.asarray(seed)}
    count = 0
    for line in (*formula.lines.forward, *formula.lines.statements):
        if line.tree is None or line.code is None:
            return
        for node in (n for n in walk(line.tree) if isinstance(n, (Binary, PythonCall)) and not is_comparison(n)):
            count += 1
            if count > MOST_PARTS:
                return
            part = array_of(write_python(node), arrays)
            if part is not None:
                yield write_python(node), part
        found = array_of(line.code, arrays)
        if found is None:
            return
        arrays[line.target] = found


def array_of(code: str, arrays: Known) -> Array | None:
    """What a line, or a part of one, comes to; None where that cannot be computed."""
    try:
        with np.errstate(all="ignore"):
            return as_float(reader_of(lowered=True)(code, arrays))
    except (SymgradError, ValueError, TypeError, KeyError):
        return None


def where_lines(formula: DerivedReference, lines: Sequence[str]) -> list[str]:
    """``where t3 = mean(x * x) + 1e-06``: intermediates by name, in the order in which they are met."""
    own = set(WORD.findall(formula.text))
    programs = [*formula.programs, *(wider for wider, _ in filter(None, formula.opened))]
    known = {step.result.name: (program, step) for program in reversed(programs) for step in reversed(program.steps)}
    made = {name: own.code for program in programs for name, own in program.made.items()}
    ends = {program.output for program in programs}
    waiting = [name for line in lines for name in WORD.findall(line)]
    found: dict[str, str] = {}
    while waiting and len(found) < MOST_NAMES:
        name = waiting.pop(0)
        if name in made and name not in own:
            found[name] = made[name]
        elif name in known and name not in found and name not in own and name not in ends:
            text, further = step_definition(*known[name])
            found[name] = text
            waiting += further or [word for word in WORD.findall(text) if word in made]
    return [f"where {name} = {text}" for name, text in found.items()]


def step_definition(program: Program, step: Apply) -> tuple[str, list[str]]:
    """What computes a tensor, from the inputs if that is short, else from its operands, which are then asked for."""
    try:
        text = write_python(SourceWriter(program).step(step))
    except (NoForm, SymgradError):
        text = ""
    if 0 < len(text) <= SPAN:
        return text, []
    operands = [str(a.value) if isinstance(a, Constant) else a for a in step.arguments]
    return f"{step.called}({', '.join(operands)})", list(step.tensors)


@dataclass(frozen=True, eq=False)
class Suspect:
    """A statement, and the quantity that belongs in the place of what it gives."""

    key: Key
    text: str
    right: str

    @property
    def said(self) -> str:
        """``line 14 of mlp.py, `dt = dh * h`: what it reads is right; …``"""
        path, line, name, _ = self.key
        text = self.text if len(self.text) <= LONGEST else f"{name or 'return'} …"
        where = f"line {line} of {file_or_cell_name(path)}, `{text}`: "
        if not name or self.right.endswith(".grad"):
            return f"{where}its inputs are right, its result is wrong"
        if len(self.right) > LONGEST:
            return f"{where}what it reads is right; with another value of {name} every gradient is right"
        return f"{where}what it reads is right; with {self.right} for {name} every gradient is right"


def find_suspects(bench: Bench) -> list[Suspect]:
    """The statements of the candidate's backward of which one is wrong, in the order in which they run.

    What gives a known quantity may be right, and another line that mends it wrong: it is named only where one of the
    cotangents belongs there, and left out beside a line that gives nothing known where none does.
    """
    formula = bench.formula
    if bench.candidate.masks and not bench.baseline.functions:
        return []
    trials = {name: bench.trials[name] for name in bench.candidate.names}
    if formula is None or sum(t[0].expected.size for t in trials.values() if t) > MOST_ENTRIES:
        return []
    chosen = [n for n, w in enumerate(bench.weights) if any(s.any() for s in w.seeds)][:SEEDS]
    runs = [watched_pull(bench, n)[0].steps for n in chosen]
    if not runs or not any(step.key[2] for step in runs[0]):
        return []
    try:
        ahead = {name: array for name, _, array in intermediate_values(formula)}
        behind = [backward_quantities(formula, bench.weights[n].seeds) for n in chosen]
    except SymgradError:
        return []
    numbers = {text: np.array(float(text)) for text in NUMBER.findall(formula.text)}
    search = LineSearch(
        bench, chosen, [[trials[name][n] for name in bench.candidate.names] for n in chosen], ahead, behind
    )
    found = []
    for index, step in enumerate(runs[0]):
        same = [steps[index] for steps in runs if len(steps) > index and steps[index].key == step.key]
        if (
            len(same) < len(runs)
            or not step.text
            or not step.reads
            or any(matching_quantity(s.value, ahead) for s in same)
        ):
            continue
        if all(reads_right_values(s, (known, ahead, numbers)) for s, known in zip(same, behind, strict=True)):
            right = search.righted(same)
            instead = matching_quantity(step.value, behind[0])
            if right and (not instead or COTANGENT.fullmatch(right)):
                found.append(Suspect(step.key, step.text, right))
    return found


def watched_pull(
    bench: Bench, number: int, at: Key | None = None, put: Array | None = None
) -> tuple[LineWatch, PullResult]:
    """One backward with its statements, ``put`` written into what the one ``at`` gives."""
    run = bench.candidate.run()
    with watch_lines(at, put) as watch:
        return watch, run.pull(bench.weights[number].seeds)


def matching_quantity(value: Array, known: Known) -> str:
    """Which of these quantities a tensor is, turned or with other axes of length 1; empty if it is none."""
    for name, array in known.items():
        for turned in (array, array.swapaxes(-1, -2)) if array.ndim > 1 else (array,):
            if same_entries(value, turned):
                return name
    return ""


def same_entries(value: Array, other: Array) -> bool:
    """The same entries, but for rounding and axes of length 1."""
    if value.size != other.size or value.squeeze().shape != other.squeeze().shape:
        return False
    scale = float(np.abs(other).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        return bool((np.abs(value.squeeze() - other.squeeze()) <= 1e-6 * max(scale, 1e-30)).all())


def reads_right_values(step: WatchedStep, known: Sequence[Known]) -> bool:
    """Whether everything that a statement reads is what a right backward has."""
    return all(any(matching_quantity(array, one) for one in known) for array in step.reads.values())


@dataclass(eq=False)
class LineSearch:
    """Known quantities in the place of what a statement gave; ``left`` runs are made."""

    bench: Bench
    chosen: Sequence[int]
    rows: Sequence[Sequence[Trial]]
    ahead: Known
    behind: Sequence[Known]
    left: int = MOST_RUNS

    def righted(self, steps: Sequence[WatchedStep]) -> str:
        """The one with which every gradient is right for every seed; empty if there is none."""
        first = steps[0].value
        for name in (*self.behind[0], *self.ahead):
            every = [seen[name] if name in seen else self.ahead[name] for seen in self.behind]
            for turned in (False, True) if every[0].ndim > 1 else (False,):
                arrays = [a.swapaxes(-1, -2) if turned else a for a in every]
                if arrays[0].squeeze().shape != first.squeeze().shape or same_entries(first, arrays[0]):
                    continue
                if all(map(self.tried, self.chosen, self.rows, steps, arrays)):
                    return f"{name}{'.mT' if turned else ''}"
        return ""

    def tried(self, number: int, row: Sequence[Trial], step: WatchedStep, array: Array) -> bool:
        """Whether all gradients are right with ``array`` in the place of what a statement gave."""
        self.left -= 1
        if self.left < 0:
            return False
        watch, pull = watched_pull(self.bench, number, step.key, array.reshape(step.value.shape))
        if not watch.done or pull.failure:
            return False
        came = [pull.gradients.get(name) for name in self.bench.candidate.names]
        told = zip(row, came, strict=True)
        return not any(is_wrong(trial, np.zeros(trial.expected.shape) if got is None else got) for trial, got in told)


def is_wrong(trial: Trial, got: Array) -> bool:
    """Whether a gradient is off."""
    return got.shape != trial.expected.shape or bool(replace(trial, got=got, limit=100 * trial.limit).off.any())
