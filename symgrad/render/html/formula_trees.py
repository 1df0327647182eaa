"""The formulas that travel with a page, so that other numbers can be tried in it.

Comes in: an explanation. Goes out: plain data for ``tree.js``: the forward pass and the gradients as expression trees,
Jacobians that are shown entry by entry as trees and as numbers; one whose formula is too long is computed row by row,
each what comes back of a seed that is 1 at one entry. What the page's small interpreter does not know is left out,
with the reason. For each input whose entries say where something is read or written, the number of places there goes
with it: what torch raises an IndexError for is not computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.explanation import Explanation, Given, Gradient, Jacobian
from symgrad.explanation.evidence import Rounding
from symgrad.functions import FLOATS_HOLD, high, low, sigmoid, softplus
from symgrad.functions import sign as signum
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of, number
from symgrad.lowering.exponents import quarter_zeros
from symgrad.numeric import Array, as_float
from symgrad.ops import Op, entry_of
from symgrad.program import Apply, Program
from symgrad.render.content.forward import without_itself
from symgrad.render.jacobian_picture import is_drawn_entrywise
from symgrad.shapes import Size

MOST_WORK = 400_000
"""Additions and multiplications that a page does after every key."""
MOST_ENTRIES = 100
"""Entries of a tensor that can be edited, or follow: the numbers of no larger one travel."""
FUNCTIONS: Mapping[Any, str] = {
    sp.exp: "exp", sp.log: "log", sp.sin: "sin", sp.cos: "cos", sp.tan: "tan", sp.sinh: "sinh", sp.cosh: "cosh",
    sp.tanh: "tanh", sp.asin: "asin", sp.acos: "acos", sp.atan: "atan", sp.asinh: "asinh", sp.acosh: "acosh",
    sp.atanh: "atanh", sp.atan2: "atan2", sp.Abs: "abs", sp.sign: "sign", signum: "sign", sp.floor: "floor",
    sp.Max: "max", sp.Mod: "mod", high: "high", low: "low", sigmoid: "sigmoid", softplus: "softplus", sp.erf: "erf",
}  # fmt: skip
"""What ``tree.js`` computes."""
RELATIONS = {sp.Eq: "=", sp.Ne: "!=", sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">="}


class NotHereError(Exception):
    """A formula that the page cannot evaluate; its text is the reason."""


def page_data(explanation: Explanation) -> dict[str, Any]:
    """All that the page computes with; ``why`` says what it cannot, and then only the seed is edited, or nothing."""
    program, values = explanation.program, explanation.values
    data: dict[str, Any] = {
        "seed": program.seed,
        "output": program.output,
        "inputs": list(map(entries_of, editable_inputs(explanation))),
        "v": {"shape": list(explanation.seed.shape), "values": small_array_values(explanation.seed)},
        "out": {"values": small_array_values(explanation.output)} | rounding_in(explanation.shown),
        "gradients": [entries_of(g) | rounding_in(g.shown) for g in explanation.gradients.values()],
        "jacobians": [jacobian_numbers(g.jacobian) for g in explanation.gradients.values()],
        "steps": [], "stages": [], "loss": None, "why": "", "unit": None in explanation.backward.seeds.values(),
    }  # fmt: skip
    sizes = [*((x["name"], math.prod(x["shape"])) for x in data["inputs"]), (program.output, explanation.output.size)]
    too_many = [name for name, size in sizes if size > MOST_ENTRIES]
    try:
        if too_many:
            raise NotHereError(f"{too_many[0]} has more than {MOST_ENTRIES} entries")
        taken = Trees(program, values.sizes)
        data["steps"] = [taken.step(step, program) for step in program.steps]
        forward = taken.work
        for gradient in explanation.gradients.values():
            data["stages"] += taken.stages(gradient)
        if explanation.downstream is not None:
            data["loss"] = loss_trees(explanation.downstream, taken)
        back, by_rows = taken.work - forward, False
        for found, gradient in zip(data["jacobians"], explanation.gradients.values(), strict=True):
            jacobian = gradient.jacobian
            if is_drawn_entrywise(jacobian) and jacobian.formula is not None:
                axes = (*jacobian.axes, *jacobian.inner)
                found["formula"] = taken.equation(found["by"], Equation(axes, jacobian.formula))
            elif is_drawn_entrywise(jacobian):
                found["rows"] = by_rows = True
        taken.work += back * explanation.output.size if by_rows else 0
        if taken.work > MOST_WORK:
            raise NotHereError("it is too much to recompute at every keystroke")
        steps = [*data["steps"], *(data["loss"]["steps"] if data["loss"] else [])]
        placed = position_limits(steps, {x["name"]: x["shape"] for x in data["inputs"]})
        for x in data["inputs"]:
            x |= {"below": placed[x["name"]]} if x["name"] in placed else {}
    except ComputedError:
        give_up(data, "positions are computed in between")
    except NotHereError as reason:
        give_up(data, str(reason))
    return data


def give_up(data: dict[str, Any], why: str) -> None:
    """Without formulas, and with the reason."""
    data |= {"steps": [], "stages": [], "loss": None, "why": why}
    for found in data["jacobians"]:
        found.pop("formula", None)
        found.pop("rows", None)


def editable_inputs(explanation: Explanation) -> list[Given]:
    """What goes in, and after it what a loss reads beside it."""
    known = {g.name for g in explanation.inputs} | {explanation.program.output}
    later = explanation.downstream.inputs if explanation.downstream is not None else ()
    return [*explanation.inputs, *(g for g in later if g.name not in known)]


def loss_trees(later: Explanation, before: Trees) -> dict[str, Any]:
    """A loss as trees: its steps, and the way back from it to the output that it reads, which is the seed."""
    taken, (gradient,) = Trees(later.program, later.values.sizes), later.gradients.values()
    steps = [taken.step(step, later.program) for step in later.program.steps]
    stages = taken.stages(gradient)
    before.work += taken.work
    return {"output": later.program.output, "seed": later.program.seed, "steps": steps, "stages": stages}


def entries_of(found: Given | Gradient) -> dict[str, Any]:
    """An input or a gradient with its entries, row by row."""
    return {"name": found.name, "shape": list(found.value.shape), "values": small_array_values(found.value)}


def small_array_values(array: Array) -> list[float | str]:
    """All entries, row by row, where they are few."""
    return [] if array.size > MOST_ENTRIES else json_values(array)


def json_values(array: Array) -> list[float | str]:
    """All entries, row by row; what JSON has no number for by name."""
    return [v if math.isfinite(v) else str(v) for v in as_float(array).reshape(-1).tolist()]


def jacobian_numbers(jacobian: Jacobian) -> dict[str, Any]:
    """One Jacobian: its size, and its numbers where the seed can be edited and the gradient follows."""
    rows, columns = jacobian.shape
    found: dict[str, Any] = {"by": jacobian.name, "shape": [rows, columns], "cells": None}
    if max(rows, columns) <= MOST_ENTRIES:
        dense, shown = as_float(jacobian.dense()), np.asarray(jacobian.shown(), dtype=object)
        found["cells"] = [
            [r, c, v, *([1] if isinstance(shown[r, c], Rounding) else [])]
            for (r, c), v in zip(np.argwhere(dense != 0).tolist(), json_values(dense[dense != 0]), strict=True)
        ]
    return found


def rounding_in(shown: Array) -> dict[str, Any]:
    """How large the terms are of entries that are only rounding, where there are any: 1, for all that is asked."""
    if shown.size > MOST_ENTRIES or shown.dtype != object:
        return {}
    return {"terms": [float(isinstance(v, Rounding)) for v in shown.reshape(-1)]}


class Trees:
    """Expressions as nested lists, and how much work they are."""

    def __init__(self, program: Program, sizes: Mapping[Size, int]) -> None:
        self.sizes = sizes
        self.known = {program.seed} | {t.name for t in program.inputs}
        self.ids: dict[Index, int] = {}
        self.work = 0
        self.logs: float | None = None

    def step(self, step: Apply, program: Program) -> dict[str, Any]:
        """What a step computes."""
        name = step.result.name
        return self.equation(name, without_itself(local_jacobian(step, program).equation, name), entry_of(step.op))

    def stages(self, gradient: Gradient) -> list[dict[str, Any]]:
        """The way back to one input."""
        last, own = gradient.sweep.equation, f"{gradient.name}·grad"
        return [self.equation(own if equation is last else name, equation) for name, equation in gradient.sweep.stages]

    def equation(self, name: str, equation: Equation, op: Op | None = None) -> dict[str, Any]:
        """``name[axes] = tree``; the forward of an operation takes logarithms as that says (`Op.logs`)."""
        self.logs = None if op is None else op.limits.least_log
        sizes = [self.size(axis.size) for axis in equation.axes]
        tree = self.tree(equation.right, math.prod(sizes))
        self.known.add(name)
        return {"name": name, "axes": [self.letter(a) for a in equation.axes], "shape": sizes, "tree": tree}

    def letter(self, index: Index) -> int:
        """The number of an index."""
        return self.ids.setdefault(index, len(self.ids))

    def size(self, size: Size) -> int:
        """A size in numbers."""
        return int(number(size, self.sizes))

    def tree(self, node: Expr, often: int) -> Any:
        """One node, evaluated so ``often``."""
        self.work += often
        if is_access(node):
            name = name_of(node)
            if name not in self.known:
                raise NotHereError("a formula uses a position or solution found in the forward pass")
            return ["at", name, *(self.tree(i, often) for i in indices_of(node))]
        if isinstance(node, Index):
            return ["i", self.letter(node)]
        if node.is_Symbol and node in self.sizes:
            return int(self.sizes[node])
        if isinstance(node, (sp.Sum, sp.Product)):
            return self.big(node, often)
        if node.is_number and not node.args:
            return self.number(node)
        if isinstance(node, sp.KroneckerDelta):
            return ["?", "=", *(self.tree(a, often) for a in node.args)]
        if isinstance(node, Bracket):
            return self.condition(node.args[0], often)
        if isinstance(node, Ravel):
            total: Expr = sp.S.Zero
            for index, along in zip(node.indices, node.shape, strict=True):
                total = total * along + index
            return self.tree(total, often)
        if isinstance(node, Unravel):
            behind = math.prod(self.size(s) for s in node.shape[node.axis + 1 :])
            whole = ["f", "floor", ["*", self.tree(node.number, often), ["^", behind, -1]]]
            return ["f", "mod", whole, self.size(node.shape[node.axis])]
        kinds = {"Add": "+", "Mul": "*", "Pow": "^"}
        if node.is_Mul and self.logs is not None:
            return ["*0", *(self.tree(a, often) for a in node.args)]
        if isinstance(node, sp.log) and self.logs is not None and math.isfinite(self.logs):
            return ["f", "max", ["f", "log", self.tree(node.args[0], often)], self.logs]
        if node.func.__name__ in kinds:
            return [kinds[node.func.__name__], *(self.tree(a, often) for a in node.args)]
        if node.func in FUNCTIONS:
            found = ["f", FUNCTIONS[node.func], *(self.tree(a, often) for a in node.args)]
            zeros = [self.tree(held, often) for held in quarter_zeros(node)]
            return ["*", found, *zeros] if zeros else found
        if node.is_number:
            return self.number(node)
        raise NotHereError(f"the page does not know the function {node.func.__name__}")

    def big(self, node: Expr, often: int) -> Any:
        """Σ or Π."""
        tree_kind = "sum" if isinstance(node, sp.Sum) else "prod"
        limits = [limit[0] for limit in node.limits]
        sizes = [self.size(k.size) for k in limits]
        body = self.tree(node.function, often * math.prod(sizes))
        for index, size in zip(limits, sizes, strict=True):
            body = [tree_kind, self.letter(index), size, body]
        return body

    def condition(self, relation: Expr, often: int) -> Any:
        """1 where it holds."""
        if relation.func not in RELATIONS:
            raise NotHereError("a condition in the formula is not one that the page knows")
        return ["?", RELATIONS[relation.func], *(self.tree(a, often) for a in relation.args)]

    @staticmethod
    def number(node: Expr) -> Any:
        """A constant."""
        found = complex(node)
        if found.imag or not math.isfinite(found.real):
            raise NotHereError("a constant in the formula is not a number")
        return int(node) if node.is_Integer and abs(int(node)) < FLOATS_HOLD else found.real


class ComputedError(Exception):
    """A position is no input: what may be edited cannot be said."""


def position_limits(equations: Sequence[Mapping[str, Any]], inputs: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """For each of the inputs, by their shapes, that holds positions, how many places it may name.

    Raises `ComputedError` where a position is computed on the way.

    >>> gather = {"name": "out", "axes": [0], "shape": [2], "tree": ["at", "x", ["at", "n", ["i", 0]]]}
    >>> position_limits([gather], {"x": [4], "n": [2]})
    {'n': 4}
    """
    found: dict[str, int] = {}
    shapes = dict(inputs)
    for equation in equations:
        along = dict(zip(equation["axes"], equation["shape"], strict=True))
        for place, size in data_positions(equation["tree"], along, shapes):
            if place[0] != "at" or place[1] not in inputs:
                raise ComputedError
            found[place[1]] = min(size, found.get(place[1], size))
        shapes[equation["name"]] = equation["shape"]
    return found


def data_positions(tree: Any, along: dict[int, int], shapes: Mapping[str, Sequence[int]]) -> Iterator[tuple[Any, int]]:
    """What stands in the place of an index and is data, with the size of its axis."""
    if not isinstance(tree, list):
        return
    if tree[0] in ("sum", "prod"):
        along[tree[1]] = tree[2]
    if tree[0] == "at":
        yield from ((i, size) for i, size in zip(tree[2:], shapes[tree[1]], strict=True) if is_data(i))
    if tree[0] == "?" and tree[1] == "=":
        for one, other in (tree[2:], tree[:1:-1]):
            if isinstance(one, list) and one[0] == "i" and is_data(other):
                yield other, along[one[1]]
    for part in tree[1:]:
        yield from data_positions(part, along, shapes)


def is_data(tree: Any) -> bool:
    """Whether an entry of a tensor stands in it."""
    return isinstance(tree, list) and (tree[0] == "at" or any(map(is_data, tree[1:])))
