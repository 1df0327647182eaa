"""What a right backward may compute on its way, by name, and what the names in a message stand for.

Comes in: the formula and a seed, or the lines of a message. Goes out: tensors of the forward pass, their cotangents and
parts of our lines, each with its numbers: a line of a candidate that gives one of them fits; and a line for each
intermediate that a message names, ``t4 = rsqrt((x * x).mean(-1) + eps)``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from symgrad.backward import backward
from symgrad.calculus import flowing
from symgrad.closed_form.texts.pieces import NoForm
from symgrad.closed_form.texts.source_text import Writer
from symgrad.errors import SymgradError
from symgrad.language import expand_composites
from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.oracles.forms import evaluate_lowered
from symgrad.program import Apply, Constant, Program
from symgrad.testing.right.truth import Formula

WORD = re.compile(r"(?<![\w.])(?:v_)?([A-Za-z]\w*)")
SPAN = 80
"""A longer definition is one step, and its operands get lines of their own."""
MOST_NAMES = 8

Known = Mapping[str, Array]
MOST, LONGEST = 80, 80


def known_ahead(formula: Formula) -> Known:
    """Tensors of the forward pass, also those that composite steps are made of."""
    found: dict[str, Array] = {}
    for program, values in zip(formula.programs, formula.values, strict=True):
        found |= {t.name: as_float(values[t.name]) for t in program.tensors()}
        try:
            wider = expand_composites(program)
            inside = forward(wider, {t.name: values[t.name] for t in wider.inputs})
        except SymgradError:
            continue
        found = {t.name: as_float(inside[t.name]) for t in wider.tensors()} | found
    return found


def known_behind(formula: Formula, seeds: Sequence[Array]) -> Known:
    """Seeds, gradients, cotangents on the way, and parts of the lines of our backward, for one seed."""
    pulled = formula.pull(seeds)
    found: dict[str, Array] = {f"{name}.grad": array for name, array in pulled.items()}
    for number, program in enumerate(formula.programs):
        found |= {program.seed if len(seeds) == 1 else f"v{number + 1}": np.asarray(seeds[number], dtype=np.float64)}
    if len(formula.programs) > 1:
        return found
    program, values = formula.programs[0], formula.values[0]
    names = [t.name for t in program.inputs if t.name in formula.wanted]
    between = sorted(flowing(program, names) & program.relevant() - {program.output, *names})
    cotangents = numeric_pullback(program, values, seeds[0], between)
    found |= {f"v_{name}": as_float(array) for name, array in cotangents.items()}
    for text, array in parts(formula, seeds[0], names):
        found.setdefault(text, array)
    return found


def cotangent_lines(formula: Formula, name: str) -> dict[str, str]:
    """``v_t1 = v_h * (1 - h ** 2)``: the line of our backward that gives a cotangent, and those that it reads."""
    if len(formula.programs) > 1:
        return {}
    program, values = formula.programs[0], formula.values[0]
    names = [t.name for t in program.inputs if t.name in formula.wanted]
    lines = {line.target: line for line in backward(program, names, values=values).statements}
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        line = lines.get(waiting.pop(0))
        if line is not None and line.text is not None and line.target not in found:
            found[line.target] = line.text
            waiting += sorted(line.names)
    return found if all(len(text) <= LONGEST for text in found.values()) else {}


def parts(formula: Formula, seed: Array, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
    """What stands inside the lines of our backward: ``v * out`` and its sum, where softmax is pulled back."""
    program, values = formula.programs[0], formula.values[0]
    arrays = {t.name: as_float(values[t.name]) for t in program.tensors()} | {program.seed: np.asarray(seed)}
    count = 0
    lines = backward(program, names, values=values)
    for line in (*lines.forward, *lines.statements):
        if line.code is None:
            return
        for node in (n for n in ast.walk(ast.parse(line.code, mode="eval")) if isinstance(n, (ast.BinOp, ast.Call))):
            count += 1
            if count > MOST:
                return
            try:
                with np.errstate(all="ignore"):
                    yield ast.unparse(node), as_float(evaluate_lowered(ast.unparse(node), arrays))
            except (SymgradError, ValueError, TypeError, KeyError):
                continue
        try:
            with np.errstate(all="ignore"):
                arrays[line.target] = as_float(evaluate_lowered(line.code, arrays))
        except (SymgradError, ValueError, TypeError, KeyError):
            return


def legend(formula: Formula, lines: Sequence[str]) -> list[str]:
    """``where t3 = mean(x * x) + 1e-06``: intermediates by name, in the order in which they are met."""
    own = set(WORD.findall(formula.text))
    programs = [p for one in formula.programs for p in both(one)]
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
            text, further = defined(*known[name])
            found[name] = text
            waiting += further or [word for word in WORD.findall(text) if word in made]
    return [f"where {name} = {text}" for name, text in found.items()]


def both(program: Program) -> Iterator[Program]:
    """A program as it was written, and with its composite steps opened."""
    yield program
    try:
        yield expand_composites(program)
    except SymgradError:
        return


def defined(program: Program, step: Apply) -> tuple[str, list[str]]:
    """What computes a tensor, from the inputs if that is short, else from its operands, which are then asked for."""
    try:
        text, _ = Writer(program).step(step)
    except (NoForm, SymgradError):
        text = ""
    if 0 < len(text) <= SPAN:
        return text, []
    operands = [str(a.value) if isinstance(a, Constant) else a for a in step.arguments]
    return f"{step.called}({', '.join(operands)})", list(step.tensors)
