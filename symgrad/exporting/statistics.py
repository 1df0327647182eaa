"""What torch's forward kernels find anyway and hand out, so that the backward need not compute it again.

`torch.native_layer_norm` gives 1/√(var + ε) beside its output, and a variance costs more than the rest of the backward.
Comes in: `Parts`. Goes out: parts that compute it ahead, and lines that take it from the kernel. Where a backward is
differentiated again it stands in torch's differentiable words: the kernel's second results have no derivative.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.backward.shortening.products import is_number
from symgrad.exporting.layout import assignment
from symgrad.exporting.parts import Parts, Statement

EPSILON = "1e-05"
"""Of a layer norm that is given none."""


def with_statistics(parts: Parts) -> Parts:
    """The parts with each 1/√(var + ε) of the backward computed behind the layer norm that has it."""
    forward: list[Statement] = []
    moved: set[str] = set()
    for statement in parts.forward:
        forward.append(statement)
        norm = norm_of(statement.value)
        for other in parts.backward if norm is not None else ():
            if other.target not in moved and scale_of(other.value) == norm:
                forward.append(other)
                moved.add(other.target)
                break
    rest = tuple(s for s in parts.backward if s.target not in moved)
    return replace(parts, forward=tuple(forward), backward=rest) if moved else parts


def in_lines(statements: Sequence[Statement]) -> Iterator[list[str]]:
    """Statements of a forward pass as lines; a layer norm and its scale are one call of the kernel."""
    waiting = list(statements)
    while waiting:
        first = waiting.pop(0)
        norm = norm_of(first.value)
        if norm is None or not waiting or scale_of(waiting[0].value) != norm:
            yield assignment(first)
            continue
        scale = waiting.pop(0)
        call = f"torch.native_layer_norm({norm.what}, {norm.shape}, None, None, {norm.epsilon})"
        yield [f"{first.target}, _, {scale.target} = {call}"]


@dataclass(frozen=True)
class Norm:
    """Of ``what``, over how many of its last axes, with which ε; a layer norm also says their ``shape``."""

    what: str
    axes: int
    epsilon: str
    shape: str = field(default="", compare=False)


def norm_of(value: ast.expr) -> Norm | None:
    """``layer_norm(x, normalized_shape=(4,))``, without weights."""
    if not isinstance(value, ast.Call) or called(value.func) != "layer_norm" or len(value.args) != 1:
        return None
    options = given(value)
    shape = options.get("normalized_shape")
    if not isinstance(shape, ast.Tuple) or not options.keys() <= {"normalized_shape", "eps"}:
        return None
    epsilon = ast.unparse(options["eps"]) if "eps" in options else EPSILON
    return Norm(ast.unparse(value.args[0]), len(shape.elts), epsilon, ast.unparse(shape))


def scale_of(value: ast.expr) -> Norm | None:
    """``1 / (x.var(-1, correction=0, keepdim=True) + 1e-05).sqrt()``."""
    if not (isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) and ast.unparse(value.left) == "1"):
        return None
    root = value.right
    if not (isinstance(root, ast.Call) and called(root.func) == "sqrt" and isinstance(root.func, ast.Attribute)):
        return None
    added = root.func.value
    if not (isinstance(added, ast.BinOp) and isinstance(added.op, ast.Add) and is_number(added.right)):
        return None
    var = added.left
    if not (isinstance(var, ast.Call) and called(var.func) == "var" and isinstance(var.func, ast.Attribute)):
        return None
    if {n: ast.unparse(o) for n, o in given(var).items()} != {"correction": "0", "keepdim": "True"} or not var.args:
        return None
    axes = var.args[0].elts if isinstance(var.args[0], ast.Tuple) else [var.args[0]]
    return Norm(ast.unparse(var.func.value), len(axes), ast.unparse(added.right))


def called(function: ast.expr) -> str:
    """The last name of a function."""
    return function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)


def given(call: ast.Call) -> Mapping[str, ast.expr]:
    """The options of a call."""
    return {str(keyword.arg): keyword.value for keyword in call.keywords}
