"""Sentences about shapes that do not fit and names that nobody knows: what was found, and what would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.errors import (
    RUN,
    NotationError,
    Setting,
    ShapeError,
    Span,
    SymgradError,
    UnknownNameError,
    UnsupportedError,
)
from symgrad.language.pasted_script import DRAWN, HELD, find_module_functions
from symgrad.language.syntax_tree import PythonCall, PythonStatement, dotted_name
from symgrad.notation.read_write import parse_subscripts
from symgrad.notation.tree import SyntaxNode
from symgrad.ops import COMPOUNDS, SPELLINGS
from symgrad.ops.calls.registry import OF_RUNS, find_compound
from symgrad.ops.lookup import close_spellings, find
from symgrad.shapes import Shape, Size, SizeMismatch, Sizes

WIDTH = 40


def format_size(size: Size, sizes: Sizes) -> str:
    """A size as its number, or as its letter while nothing is known."""
    number = sizes.number(size)
    return str(sizes.find(size)) if number is None else str(number)


def format_sizes(shape: Shape, sizes: Sizes) -> str:
    """``2×3``, ``a vector of 3``, ``a scalar``."""
    return join_sizes([format_size(size, sizes) for size in shape])


def join_sizes(words: Sequence[str]) -> str:
    """The sizes of a shape, in words, as one."""
    if not words:
        return "a scalar"
    return f"a vector of {words[0]}" if len(words) == 1 else "×".join(words)


def quote_span(text: str, span: Span) -> str:
    """What the user wrote, on one line and not too long."""
    words = " ".join(text[span[0] : span[1]].split())
    return words if len(words) <= WIDTH else words[: WIDTH - 1] + "…"


def list_shapes(operands: Sequence[tuple[str, Shape]], sizes: Sizes) -> str:
    """``A is 2×3, b is a vector of 4``."""
    return ", ".join(dict.fromkeys(f"{text} is {format_sizes(shape, sizes)}" for text, shape in operands))


def mismatch_error(
    error: SizeMismatch,
    label: str,
    operands: Sequence[tuple[str, Shape]],
    inputs: Mapping[str, Shape],
    sizes: Sizes,
    span: Span,
) -> ShapeError:
    """The error for two sizes that would have to be equal, told in the operands' own words."""
    first, second = error.first, error.second
    places = [find_axis_of_size(first, operands, sizes, skip=None)]
    places.append(find_axis_of_size(second, operands, sizes, skip=places[0]))
    found = [list_shapes(operands, sizes)]
    located = [
        f"{format_size(size, sizes)} is axis {where[1]} of {operands[where[0]][0]}"
        for size, where in zip((first, second), places, strict=True)
        if where is not None
    ]
    if len(located) == 2:
        found.append(", ".join(located))
    others = [(name, shape) for name, shape in inputs.items() if (name, shape) not in list(operands)]
    if others:
        found.append(f"so far {list_shapes(others, sizes)}")
    hints: list[Setting] = []
    for where, wanted in zip(places, (second, first), strict=True):
        if where is not None and operands[where[0]][0] in inputs:
            name, shape = operands[where[0]]
            fitting = tuple(wanted if axis == where[1] else size for axis, size in enumerate(shape))
            numbers = ",".join(format_size(size, sizes) for size in fitting)
            hints.append(Setting("shape", name, numbers))
    return ShapeError(
        f"the sizes {format_size(first, sizes)} and {format_size(second, sizes)} do not fit together in {label}",
        span=span,
        found=tuple(found),
        hints=tuple(dict.fromkeys(reversed(hints))),
    )


def find_axis_of_size(
    size: Size, operands: Sequence[tuple[str, Shape]], sizes: Sizes, skip: tuple[int, int] | None
) -> tuple[int, int] | None:
    """(operand, axis) where ``size`` stands, in another operand than ``skip`` if there is one."""
    found = [
        (operand, axis)
        for operand, (_, shape) in enumerate(operands)
        for axis, other in enumerate(shape)
        if sizes.find(other) == sizes.find(size)
    ]
    elsewhere = [where for where in found if skip is None or where[0] != skip[0]]
    return next(iter(elsewhere or found), None)


def explain_transpose(text: str, rank: int) -> str:
    """What ``.T`` does where there is no matrix, and what torch says to that."""
    same = {0: "is that number itself", 1: "is that vector itself"}
    does = same.get(rank, f"turns the order of all {rank} axes")
    return f"{text} {does}; torch warns that .T is deprecated but for matrices"


def no_tensor_error(what: str, several: bool, text: str, span: Span) -> NotationError:
    """The error for an output that is none; subscripts without an arrow are names with commas between them."""
    example = "one of them, such as x.chunk(2)[0]" if several else "an expression over tensors, such as x@a"
    terms = text.replace(" ", "").split(",")
    short = all(term.isascii() and term.isalpha() and len(set(term)) == len(term) < 5 for term in terms)
    shared = short and len(set("".join(terms))) < len("".join(terms))
    meant = (f"einsum's subscripts have an arrow: {text}->{parse_subscripts(text)[1]}",) if shared else ()
    told = f"the output is {what}, there is no tensor to differentiate"
    return NotationError(told, span=span, hints=(example, *meant))


def no_inputs_error(span: Span, counts: Sequence[str]) -> NotationError:
    """The error for a text of numbers alone; ``counts`` are the names that are read as some."""
    why = "the text creates every number itself"
    if counts:
        stand = (
            "stand for numbers here, not for tensors" if counts[1:] else "stands for a number here, not for a tensor"
        )
        why = f"{' and '.join(counts)} {stand}"
    return NotationError(
        f"there is no input to differentiate with respect to: {why}",
        span=span,
        hints=(
            "a name is an input, such as x in x@a",
            "for a gradient with respect to these numbers: requires_grad=True",
        ),
    )


def computed_leaf_error(statement: PythonStatement) -> UnsupportedError:
    """The error for a leaf that is computed: ``x = (y*2).requires_grad_()``."""
    name = statement.target
    return UnsupportedError(
        f"{name} should have a gradient, but is computed here",
        span=statement.span,
        hints=(f"its numbers: {name} = torch.tensor([…], requires_grad=True)", f"leave it out: {name} is an input"),
    )


OWN = Setting("command", value="explain --call module:function", sentence="a function of your own: {}")


NO_TENSOR = ("item", "tolist", "numpy")
"""Methods that leave torch."""


def unknown_function_error(spelled: str, callee: Span, is_tensor: bool) -> SymgradError:
    """The error for a function or method that the table does not have, with close matches."""
    method = spelled.startswith("Tensor.")
    word = spelled.removeprefix("Tensor.")
    reason = OF_RUNS.get(spelled.rpartition(".")[2].rstrip("_"))
    if reason is not None and not is_tensor:
        told = Setting("command", value="explain --call module:function", sentence="{}, or symgrad run script.py")
        return UnsupportedError(f"{word} cannot be read from a text: {reason}", span=callee, hints=(told,))
    if method and word in NO_TENSOR:
        return UnsupportedError(
            f"{word} returns no tensor: no gradient flows back through it", span=callee, hints=("leave it out",)
        )
    near = [s.removeprefix("Tensor.") if method else s for s in close_spellings(spelled)]
    if f"torch.{spelled}" in (*SPELLINGS, *COMPOUNDS):
        near = [f"torch.{spelled}"]
    if method and find(word) is not None:
        near = [f"{word}(…)", *near]
    problem = f"symgrad knows no {f'method {word}' if method else f'function {spelled}'}"
    if is_tensor:
        problem = f"{spelled} is a tensor, not a function"
    script = (RUN,) if spelled.isidentifier() else ()  # model(x): what a script defines
    return UnknownNameError(
        problem,
        span=(callee[1] - len(word), callee[1]) if method else callee,
        hints=(
            " or ".join(near) if near else "symgrad ops lists what there is",
            *(() if is_tensor else (OWN, *script)),
        ),
    )


def not_callable_error(callee: SyntaxNode) -> NotationError:
    """The error for a call of what is no function: of a module, ``nn.ReLU()(x)``, with the function that it is."""
    module = dotted_name(callee.function) if isinstance(callee, PythonCall) else None
    path, _, name = (module or "").rpartition(".")
    if path not in ("nn", "torch.nn"):
        return NotationError("this cannot be called", span=callee.span)
    draws = any(word in name for word in DRAWN)
    has = "draws random numbers" if draws else "has weights of its own"
    rest = ["training=False"] * draws
    calls = [f"{word}({', '.join(required_parameters(word) + rest)})" for word in find_module_functions(name)]
    return NotationError(f"{module} {has}", span=callee.span, hints=(*calls, RUN))


def required_parameters(function: str) -> list[str]:
    """The parameters of torch's function without a default, and its weights: x, weight and bias of ``F.linear``."""
    entry = find(function) or find_compound(function)
    parameters = () if entry is None else entry.signature.parameters.values()
    return [p.name for p in parameters if p.default is p.empty or p.name in HELD]
