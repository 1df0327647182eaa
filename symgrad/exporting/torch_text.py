"""The passes as torch: functions with their full names, and new tensors on the device of those they go with.

Comes in: `Passes`. Goes out: lines of a `torch.autograd.Function` with ``setup_context``, or of two plain functions.

A Function may save what came in and what goes out, and its second derivative is right. What lies between is saved as an
output that has no derivative, and computed again where the backward itself is differentiated (``create_graph=True``):
else the path through it would be lost without a word.

What torch's forward kernels find anyway and hand out, the backward does not compute again: `torch.native_layer_norm`
gives 1/√(var + ε) beside its output, and a variance costs more than the rest of the backward. Where a backward is
differentiated again, it stands in torch's differentiable words: the kernel's second results have no derivative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from symgrad.backward.code import qualify_calls
from symgrad.errors import UnsupportedError
from symgrad.exporting.parts import (
    Assignment,
    Passes,
    indent,
    names_read_by_shape,
    names_read_in,
    replace_shapes,
    write_return,
    write_statement,
    write_targets,
)
from symgrad.language.python_text import method, read_python, to_code, write_python
from symgrad.language.syntax_tree import Attribute, Items, Keyword, Literal, PythonCall, Subscript
from symgrad.language.trees import is_tensor_free, replace_names, rewrite_tree, tensor_names
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.ops.calls.registry import SHARING
from symgrad.ops.lookup import ATTRIBUTES

MISREAD = ("torch.median", "torch.nanmedian")
"""Along an axis, torch 2.13 reads beside the storage of an expanded tensor here: they are given their own storage."""
ANEW = ("torch.arange", "torch.eye")
AGAIN = "  # differentiated again: saved tensors have to depend on the inputs"


@dataclass(frozen=True)
class DeviceSetter:
    """What torch makes of numbers alone, on the device and in the type of a tensor ``beside`` it.

    ``torch.arange(n)`` → ``torch.arange(n, device=x.device)``.
    """

    beside: str

    def made(self, node: SyntaxNode) -> SyntaxNode:
        """One expression; for ``softmax(x) - one_hot(y)``, 1 is taken away in one place of each row."""
        match node:
            case Binary("-", left, PythonCall(_, [classes, *_]) as right) if is_call_of(
                left, "torch.softmax"
            ) and is_call_of(right, "F.one_hot"):  # no array of whole numbers is made
                text = f"_.scatter_add(-1, _n.unsqueeze(-1), {self.beside}.new_full((*_n.shape, 1), -1))"
                return replace_names(read_python(text), {"_": left, "_n": classes})
            case PythonCall(_, _, options) if write_python(node.function) in ANEW:
                if not any(option.name == "device" for option in options):
                    device = Keyword("device", to_code(f"{self.beside}.device"))
                    return replace(node, keywords=(*options, device))
            case PythonCall(_, [owner, *rest], options) if write_python(node.function) in MISREAD:
                if any(option.name == "dim" for option in options):
                    return replace(node, positional=(method(owner, "contiguous"), *rest))
        return node


def is_call_of(value: SyntaxNode, name: str) -> bool:
    """Whether a function is called."""
    return isinstance(value, PythonCall) and write_python(value.function) == name


def to_torch(statement: Assignment, beside: str) -> Assignment:
    """A statement with torch's functions; ``beside`` is a tensor on whose device it is computed."""
    if "np" in tensor_names(statement.value):
        text = write_python(statement.value)
        raise UnsupportedError(f"NumPy's own has no counterpart in torch: {text}", hints=('to="numpy"',))
    return Assignment(statement.target, rewrite_tree(qualify_calls(statement.value), DeviceSetter(beside).made))


def is_view_expression(value: SyntaxNode) -> bool:
    """Whether nothing is computed: ``x.T``, ``x[:, 0]``, ``x.reshape(3, 2)``."""
    if isinstance(value, Name):
        return True
    if isinstance(value, Attribute):
        return value.name in ATTRIBUTES and is_view_expression(value.owner)
    if isinstance(value, Subscript):
        return is_view_expression(value.owner) and not any(map(tensor_names, value.items))
    return (
        isinstance(value, PythonCall) and isinstance(value.function, Attribute) and value.function.name in SHARING
        and is_view_expression(value.function.owner)
    )  # fmt: skip


@dataclass(frozen=True)
class SavedTensors:
    """What a backward needs: ``whole`` tensors that go in or out, ``between`` from the way, ``again`` of views.

    ``shapes`` are the tensors of which only the shape is read; ``redone`` computes ``between`` anew.
    """

    whole: tuple[str, ...]
    between: tuple[str, ...]
    again: tuple[Assignment, ...]
    shapes: tuple[str, ...]
    redone: tuple[Assignment, ...]

    @property
    def tensors(self) -> tuple[str, ...]:
        """What is handed to ``save_for_backward``."""
        return (*self.whole, *self.between)


def find_saved_tensors(parts: Passes) -> SavedTensors:
    """What has to be saved for a backward; what is only moved is moved again."""
    ends = {*parts.inputs, *parts.outputs}
    views = {s.target: s for s in parts.forward if is_view_expression(s.value) and s.target not in parts.outputs}
    needed, again = set(parts.mentioned), []
    for statement in reversed(parts.forward):
        if statement.target in needed and statement.target in views:
            again.append(statement)
            needed = needed - {statement.target} | statement.reads
    between = tuple(s.target for s in parts.forward if s.target in needed and s.target not in ends)
    redone = parts.ahead(between, ends)
    shaped = names_read_by_shape([*again, *parts.backward, *redone])
    needed |= names_read_in(redone) & ends
    in_order = [name for name in dict.fromkeys((*parts.inputs, *parts.outputs)) if name in needed]
    return SavedTensors(
        tuple(name for name in in_order if name not in shaped),
        between,
        tuple(reversed(again)),
        tuple(name for name in in_order if name in shaped),
        redone,
    )


def write_function_class(parts: Passes) -> Iterator[str]:
    """The body of a `torch.autograd.Function`, after its docstring."""
    parts = move_norm_scales(parts)
    saved = find_saved_tensors(parts)
    first = parts.inputs[0]
    results = (*parts.outputs, *saved.between)
    yield from ["generate_vmap_rule = True", "", "@staticmethod", f"def forward({', '.join(parts.inputs)}):"]
    for lines in write_forward_lines([to_torch(statement, first) for statement in parts.ahead(results, parts.inputs)]):
        yield from indent(lines)
    # torch may hand back what it was given
    flat = [s.target for s in parts.forward if is_view_expression(s.value) and ".flatten(" in write_python(s.value)]
    given = [f"{e}.view_as({e})" if e in (*flat, *parts.inputs, *results[:n]) else e for n, e in enumerate(results)]
    yield from indent([f"return {', '.join(given)}"])
    yield from ["", "@staticmethod", "def setup_context(ctx, inputs, output):"]
    yield from indent(write_setup_context(parts, saved, results))
    unused = {0: [], 1: ["_"]}.get(len(saved.between), ["*_"])  # torch hands over a seed for each result
    yield from ["", "@staticmethod", f"def backward(ctx, {', '.join([*parts.seeds, *unused])}):"]
    yield from indent(write_backward_body(parts, saved))


def write_setup_context(parts: Passes, saved: SavedTensors, results: Sequence[str]) -> Iterator[str]:
    """What ``setup_context`` does."""
    kept = {*saved.tensors, *saved.shapes}
    for whole, before, names in (("inputs", (), parts.inputs), ("output", parts.inputs, results)):
        read = [n if n in kept and n not in (*before, *names[:place]) else "_" for place, n in enumerate(names)]
        if set(read) != {"_"}:
            yield f"{write_targets(read) if whole == 'inputs' or len(read) > 1 else read[0]} = {whole}"
    if saved.tensors:
        yield f"ctx.save_for_backward({', '.join(saved.tensors)})"
    if saved.between:
        yield f"ctx.mark_non_differentiable({', '.join(saved.between)})"
    for name in saved.shapes:
        yield f"ctx.{name}_shape = {name}.shape"
    if not kept:
        yield "pass"


def write_backward_body(parts: Passes, saved: SavedTensors) -> Iterator[str]:
    """What ``backward`` does; what nobody asked for is not computed."""
    seed = parts.seeds[0]
    if saved.tensors:
        yield f"{write_targets(saved.tensors)} = ctx.saved_tensors"
    again = [replace_shapes(to_torch(s, seed), saved.shapes, "ctx.{}_shape") for s in saved.again]
    redone = [replace_shapes(to_torch(s, seed), saved.shapes, "ctx.{}_shape") for s in saved.redone]
    if redone:
        yield f"if torch.is_grad_enabled():{AGAIN}"
        for statement in redone:
            yield from indent(write_statement(statement))
    for statement in again:
        yield from write_statement(statement)
    read = names_read_in(parts.backward)
    places = {target: parts.inputs.index(name) for name, target in parts.gradients.items()}
    guarded = {t: place for t, place in places.items() if t not in read and len(places) > 1}
    for statement in parts.backward:
        placed = replace_shapes(to_torch(statement, seed), saved.shapes, "ctx.{}_shape")
        place = guarded.get(statement.target)
        yield from write_statement(placed, "" if place is None else f" if ctx.needs_input_grad[{place}] else None")
    yield from write_return([parts.gradients.get(name, "None") for name in parts.inputs])


EPSILON = Literal(1e-5)
"""Of a layer norm that is given none."""


def move_norm_scales(parts: Passes) -> Passes:
    """The parts with each 1/√(var + ε) of the backward computed behind the layer norm that has it."""
    forward: list[Assignment] = []
    moved: set[str] = set()
    for statement in parts.forward:
        forward.append(statement)
        norm = find_layer_norm(statement.value)
        for other in parts.backward if norm is not None else ():
            if other.target not in moved and find_norm_scale(other.value) == norm:
                forward.append(other)
                moved.add(other.target)
                break
    rest = tuple(s for s in parts.backward if s.target not in moved)
    return replace(parts, forward=tuple(forward), backward=rest) if moved else parts


def write_forward_lines(statements: Sequence[Assignment]) -> Iterator[list[str]]:
    """Statements of a forward pass as lines; a layer norm and its scale are one call of the kernel."""
    waiting = list(statements)
    while waiting:
        first = waiting.pop(0)
        norm = find_layer_norm(first.value)
        if norm is None or not waiting or find_norm_scale(waiting[0].value) != norm:
            yield write_statement(first)
            continue
        scale = waiting.pop(0)
        call = f"torch.native_layer_norm({norm.what}, {norm.shape}, None, None, {norm.epsilon})"
        yield [f"{first.target}, _, {scale.target} = {call}"]


@dataclass(frozen=True)
class NormCall:
    """Of ``what``, over how many of its last axes, with which ε; a layer norm also says their ``shape``."""

    what: str
    axes: int
    epsilon: str
    shape: str = field(default="", compare=False)


def find_layer_norm(value: SyntaxNode) -> NormCall | None:
    """``layer_norm(x, normalized_shape=(4,))``, without weights."""
    match value:
        case PythonCall(Name(word) | Attribute(_, word), [what]) if word == "layer_norm":
            options = {"eps": EPSILON, **options_in(value)}
            shape = options.get("normalized_shape")
            if isinstance(shape, Items) and options.keys() <= {"normalized_shape", "eps"}:
                return NormCall(write_python(what), len(shape.items), write_python(options["eps"]), write_python(shape))
    return None


def find_norm_scale(value: SyntaxNode) -> NormCall | None:
    """``1 / (x.var(-1, correction=0, keepdim=True) + 1e-05).sqrt()``."""
    match value:
        case Binary("/", Literal(1), PythonCall(Attribute(Binary("+", var, epsilon), "sqrt"))):
            match var:
                case PythonCall(Attribute(what, "var"), [axis, *_]) if is_tensor_free(epsilon):
                    axes = axis.items if isinstance(axis, Items) else [axis]
                    options = {name: write_python(option) for name, option in options_in(var).items()}
                    if options == {"correction": "0", "keepdim": "True"}:
                        return NormCall(write_python(what), len(axes), write_python(epsilon))
    return None


def options_in(call: PythonCall) -> Mapping[str, SyntaxNode]:
    """The options of a call."""
    return {keyword.name: keyword.value for keyword in call.keywords}
