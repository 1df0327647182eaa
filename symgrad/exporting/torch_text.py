"""The parts as torch: every function where torch has it, and what is made anew on the device of what it goes with.

Comes in: `Parts`. Goes out: lines of a `torch.autograd.Function` with ``setup_context``, or of two plain functions.

A Function may save what came in and what goes out, and its second derivative is right. What lies between is saved as an
output that has no derivative, and computed again where the backward itself is differentiated (``create_graph=True``):
else the path through it would be lost without a word.

What torch's forward kernels find anyway and hand out, the backward does not compute again: `torch.native_layer_norm`
gives 1/√(var + ε) beside its output, and a variance costs more than the rest of the backward. Where a backward is
differentiated again, it stands in torch's differentiable words: the kernel's second results have no derivative.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.backward.code import at_home
from symgrad.backward.simplify.broadcasting import is_number
from symgrad.backward.trees import names_in, put, rewritten
from symgrad.errors import UnsupportedError
from symgrad.exporting.parts import (
    Parts,
    Statement,
    assignment,
    indented,
    listed,
    only_shapes,
    read_of,
    returned,
    without_shapes,
)
from symgrad.language.input_names import ATTRIBUTES
from symgrad.ops.calls.registry import SHARING

MISREAD = ("torch.median", "torch.nanmedian")
"""Along an axis, torch 2.13 reads beside the storage of an expanded tensor here: they are given their own storage."""
ANEW = ("torch.arange", "torch.eye")
AGAIN = "  # differentiated again: saved tensors have to depend on the inputs"


@dataclass(frozen=True)
class Beside:
    """What torch makes of numbers alone, on the device and in the type of a tensor ``beside`` it.

    ``torch.arange(n)`` → ``torch.arange(n, device=x.device)``. Of two numbers ``torch.where`` would make float32, and
    so would a number divided by a count.
    """

    beside: str

    def made(self, node: ast.expr) -> ast.expr:
        """One expression; for ``softmax(x) - one_hot(y)``, 1 is taken away in one place of each row."""
        match node:
            case ast.BinOp(left, ast.Div(), right) if is_number(left) and is_count(right):
                node.left = self.typed(left)
            case ast.BinOp(left, ast.Sub(), ast.Call(args=[classes, *_]) as right) if is_call(
                left, "torch.softmax"
            ) and is_call(right, "F.one_hot"):  # no array of whole numbers is made
                ones = f"{self.beside}.new_full((*_n.shape, 1), -1)"
                text = f"_.scatter_add(-1, {ast.unparse(classes)}.unsqueeze(-1), {ones})"
                return put(ast.parse(text, mode="eval").body, {"_": left, "_n": classes})
            case ast.Call(keywords=options) if ast.unparse(node.func) in ANEW:
                if not any(option.arg == "device" for option in options):
                    options.append(ast.keyword("device", ast.Attribute(ast.Name(self.beside), "device")))
            case ast.Call(args=[_, first, second]) if is_call(node, "torch.where"):
                node.args[1] = self.typed(first) if is_number(first) and is_number(second) else first
            case ast.Call(args=[owner, *_], keywords=options) if ast.unparse(node.func) in MISREAD:
                if any(option.arg == "dim" for option in options):
                    node.args[0] = ast.Call(ast.Attribute(owner, "contiguous"), [], [])
        return node

    def typed(self, value: ast.expr) -> ast.Call:
        """A number as a tensor of its own."""
        return ast.Call(ast.Attribute(ast.Name(self.beside), "new_full"), [ast.Tuple([]), value], [])


def is_call(value: ast.expr, name: str) -> bool:
    """Whether a function is called."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) == name


def is_count(value: ast.expr) -> bool:
    """Whether whole numbers are added up: ``(x == y).sum(0) + 1``."""
    if isinstance(value, ast.Compare):
        return True
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub, ast.Mult, ast.BitAnd)):
        sides = [side for side in (value.left, value.right) if not is_number(side)]
        return bool(sides) and all(map(is_count, sides))
    return isinstance(value, ast.Call) and (
        ast.unparse(value.func) in ("F.one_hot", "torch.arange")
        or (
            isinstance(value.func, ast.Attribute) and value.func.attr in ("sum", "clamp") and is_count(value.func.value)
        )
    )


def in_torch(statement: Statement, beside: str) -> Statement:
    """A statement with torch's functions; ``beside`` is a tensor on whose device it is computed."""
    tree = ast.parse(ast.unparse(statement.value), mode="eval")
    if "np" in names_in(tree):
        raise UnsupportedError(f"NumPy's own has no counterpart in torch: {ast.unparse(tree)}", hints=('to="numpy"',))
    return Statement(statement.target, rewritten(rewritten(tree, at_home), Beside(beside).made).body)


def is_view(value: ast.expr) -> bool:
    """Whether nothing is computed: ``x.T``, ``x[:, 0]``, ``x.reshape(3, 2)``."""
    if isinstance(value, ast.Name):
        return True
    if isinstance(value, ast.Attribute):
        return value.attr in ATTRIBUTES and is_view(value.value)
    if isinstance(value, ast.Subscript):
        return is_view(value.value) and not names_in(value.slice)
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in SHARING
        and is_view(value.func.value)
    )  # fmt: skip


@dataclass(frozen=True)
class Saved:
    """What a backward needs: ``whole`` tensors that go in or out, ``between`` from the way, ``again`` of views.

    ``shapes`` are the tensors of which only the shape is read; ``redone`` computes ``between`` anew.
    """

    whole: tuple[str, ...]
    between: tuple[str, ...]
    again: tuple[Statement, ...]
    shapes: tuple[str, ...]
    redone: tuple[Statement, ...]

    @property
    def tensors(self) -> tuple[str, ...]:
        """What is handed to ``save_for_backward``."""
        return (*self.whole, *self.between)


def saved_by(parts: Parts) -> Saved:
    """What has to be saved for a backward; what is only moved is moved again."""
    ends = {*parts.inputs, *parts.outputs}
    views = {s.target: s for s in parts.forward if is_view(s.value) and s.target not in parts.outputs}
    needed, again = set(parts.mentioned), []
    for statement in reversed(parts.forward):
        if statement.target in needed and statement.target in views:
            again.append(statement)
            needed = needed - {statement.target} | statement.reads
    between = tuple(s.target for s in parts.forward if s.target in needed and s.target not in ends)
    redone = parts.ahead(between, ends)
    shaped = only_shapes([*again, *parts.backward, *redone])
    needed |= read_of(redone) & ends
    in_order = [name for name in dict.fromkeys((*parts.inputs, *parts.outputs)) if name in needed]
    return Saved(
        tuple(name for name in in_order if name not in shaped),
        between,
        tuple(reversed(again)),
        tuple(name for name in in_order if name in shaped),
        redone,
    )


def function_class(parts: Parts, name: str) -> Iterator[str]:
    """The body of a `torch.autograd.Function`, after its docstring."""
    parts = with_statistics(parts)
    saved = saved_by(parts)
    first = parts.inputs[0]
    results = (*parts.outputs, *saved.between)
    yield from ["generate_vmap_rule = True", "", "@staticmethod", f"def forward({', '.join(parts.inputs)}):"]
    for lines in in_lines([in_torch(statement, first) for statement in parts.ahead(results, parts.inputs)]):
        yield from indented(lines)
    # torch may hand back what it was given
    flat = [s.target for s in parts.forward if is_view(s.value) and ".flatten(" in ast.unparse(s.value)]
    given = [f"{e}.view_as({e})" if e in (*flat, *parts.inputs, *results[:n]) else e for n, e in enumerate(results)]
    yield from indented([f"return {', '.join(given)}"])
    yield from ["", "@staticmethod", "def setup_context(ctx, inputs, output):"]
    yield from indented(context(parts, saved, results))
    yield from ["", "@staticmethod", f"def backward(ctx, {', '.join(received(parts, saved))}):"]
    yield from indented(backward(parts, saved))


def received(parts: Parts, saved: Saved) -> Sequence[str]:
    """What torch hands to a backward: a seed for each result, and nothing for those that have no derivative."""
    rest = len(saved.between)
    return [*parts.seeds, *(["_"] if rest == 1 else ["*_"] if rest else [])]


def context(parts: Parts, saved: Saved, results: Sequence[str]) -> Iterator[str]:
    """What ``setup_context`` does."""
    kept = {*saved.tensors, *saved.shapes}
    for whole, before, names in (("inputs", (), parts.inputs), ("output", parts.inputs, results)):
        read = [n if n in kept and n not in (*before, *names[:place]) else "_" for place, n in enumerate(names)]
        if set(read) != {"_"}:
            yield f"{listed(read) if whole == 'inputs' or len(read) > 1 else read[0]} = {whole}"
    if saved.tensors:
        yield f"ctx.save_for_backward({', '.join(saved.tensors)})"
    if saved.between:
        yield f"ctx.mark_non_differentiable({', '.join(saved.between)})"
    for name in saved.shapes:
        yield f"ctx.{name}_shape = {name}.shape"
    if not kept:
        yield "pass"


def backward(parts: Parts, saved: Saved) -> Iterator[str]:
    """What ``backward`` does; what nobody asked for is not computed."""
    seed = parts.seeds[0]
    if saved.tensors:
        yield f"{listed(saved.tensors)} = ctx.saved_tensors"
    again = [without_shapes(in_torch(s, seed), saved.shapes, "ctx.{}_shape") for s in saved.again]
    redone = [without_shapes(in_torch(s, seed), saved.shapes, "ctx.{}_shape") for s in saved.redone]
    if redone:
        yield f"if torch.is_grad_enabled():{AGAIN}"
        for statement in redone:
            yield from indented(assignment(statement))
    for statement in again:
        yield from assignment(statement)
    read = read_of(parts.backward)
    places = {target: parts.inputs.index(name) for name, target in parts.gradients.items()}
    guarded = {t: place for t, place in places.items() if t not in read and len(places) > 1}
    for statement in parts.backward:
        placed = without_shapes(in_torch(statement, seed), saved.shapes, "ctx.{}_shape")
        place = guarded.get(statement.target)
        yield from assignment(placed, "" if place is None else f" if ctx.needs_input_grad[{place}] else None")
    yield from returned([parts.gradients.get(name, "None") for name in parts.inputs])


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
