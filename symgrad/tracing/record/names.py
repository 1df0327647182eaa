"""What to call the values of a program: as their author did, where that can be seen.

Comes in: nodes in order, names that are known by identity, names of tensors in sight. Goes out: a name for each
node that has one: the variable it is bound to, the one that its line assigns to, or of data the text that reads it.

Data that nobody assigned is called as its line writes it, ``batch[:, 0]`` or ``labels[ix]``, if that only reads a part
of something that has a name; indices are said as they were, where they are made of numbers. A call is no name: whoever
reads ``rand(3)`` in a formula would have it drawn again.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import EllipsisType
from typing import Any

from symgrad.language.input_names import ATTRIBUTES
from symgrad.ops.lookup import find
from symgrad.tracing.record import frames
from symgrad.tracing.record.trace import Node, SourceLine, Span, TorchCall, holds_same_numbers

COPY = "out = x"
"""The equation of what only copies."""


def name_nodes(
    order: Sequence[Node],
    known: Mapping[int, str],
    in_sight: Mapping[int, str],
    outside: SourceLine | None = None,
    given: bool = False,
) -> dict[int, str]:
    """Names by the identity of nodes; the same name may stand twice, as in programs.

    What happened in the line ``outside`` has no name, but for a gradient: there the whole was asked for. Data that a
    line made has its name only if it is ``given`` one.
    """
    names = dict(known)
    for node in order:
        tensor = node.owner() if node.owner is not None else None
        if id(node) not in names and tensor is not None and id(tensor) in in_sight:
            names[id(node)] = in_sight[id(tensor)]
    executions, unfinished = group_executions(order)
    for run in executions:
        where = run[-1].where
        asked_here = (
            outside is not None and where is not None and (where.file, where.line) == (outside.file, outside.line)
        )
        if where is None or (asked_here and all(node.gradient is None for node in run)):
            continue
        statement = frames.find_assignment(where.file, where.line, where.column)
        if statement is None or id(run) in unfinished:
            continue
        targets, several = statement.names, len(statement.names) > 1
        together = [n for n in run if n.gradient is not None and n.gradient is run[-1].gradient] or run[-1:]
        for node in run if several or statement.loop else together:
            # what the line itself asked for: ``hvp`` and its like make other gradients on their way
            own = node.gradient is not None and (node.where is None or called_name_at(node.where) in (None, "grad"))
            fits = (not several or node.siblings == len(targets)) and (not asked_here or own)
            if fits and (given or node.kind != "data"):
                one_of = f"[{node.index}]" if node.gradient is not None and node.siblings > 1 else ""  # grads[1]
                names.setdefault(id(node), targets[node.index] if several else targets[0] + one_of)
    return {**name_cloned_buffers(order, in_sight), **name_unassigned_data(order, names), **names} if given else names


def name_cloned_buffers(order: Sequence[Node], in_sight: Mapping[int, str]) -> dict[int, str]:
    """Names of data that is a copy of a tensor in sight and still equal to it: a buffer that a layer cloned."""
    found: dict[int, str] = {}
    for node in order:
        source = node.made_of() if node.made_of is not None and node.kind == "data" else None
        if source is None or id(source) not in in_sight or source.shape != node.held.shape:
            continue
        op = find(node.made_by)
        if op is not None and op.definition == COPY and holds_same_numbers(node.held, source):
            found[id(node)] = in_sight[id(source)]
    return found


def name_unassigned_data(order: Sequence[Node], names: Mapping[int, str]) -> dict[int, str]:
    """Names of data that nobody assigned: the text that reads it, or ``seed`` for the weights of a gradient."""
    found: dict[int, str] = {}
    for node in order:
        if node.kind == "data" and id(node) not in names and node.where is not None:
            text = indexed_name(node.where, node.parts)
            if text is not None:
                found[id(node)] = text
        if node.gradient is not None:
            for weight in node.gradient.weights:
                if weight is not None and weight.kind == "data" and id(weight) not in names:
                    found.setdefault(id(weight), "seed")
    return found


def group_executions(order: Sequence[Node]) -> tuple[list[list[Node]], frozenset[int]]:
    """What was computed, in the order of time, by executions of one statement, or of one line where none assigns.

    What a statement calls of the user's runs between its own steps. The second part are the runs, by identity, after
    whose last step such a call went on: that step was an argument of the call, and not what the statement makes.
    """
    made = [(n, n.where) for n in order if n.where is not None and n.kind != "leaf"]
    found: list[list[Node]] = []
    unfinished: set[int] = set()
    under_way: dict[object, tuple[tuple[tuple[int, int], int, int], list[Node]]] = {}
    for node, where in sorted(made, key=lambda pair: pair[1].turn):
        here = statement_key(where.file, (where.line, where.column))
        path = {statement_key(file, span[0]): evaluation_order(span) for file, span in reversed(where.path)} or {
            here: NEVER
        }
        under_way = {at: known for at, known in under_way.items() if at in path}
        for at, time in path.items():
            before, run = under_way.get(at, (NEVER, []))
            if before > time or not run:
                run = []
            if at == here:
                if not run:
                    found.append(run)
                run.append(node)
                unfinished.discard(id(run))
            elif run:
                unfinished.add(id(run))
            under_way[at] = time, run
    return found, frozenset(unfinished)


NEVER = ((-1, -1), 1, 1)
"""Before every place in time."""


def evaluation_order(span: Span) -> tuple[tuple[int, int], int, int]:
    """Orders the parts of one statement as they are computed: what ends first, and of what ends together the inner."""
    (line, column), end = span
    return end, -line, -column


def statement_key(file: str, begin: tuple[int, int]) -> object:
    """What tells the statement at a place from others: itself where it assigns, else its line."""
    return file, frames.find_assignment(file, *begin) or begin[0]


LONGEST = 24
"""Characters of a text that still serves as a name."""
DEEPEST = 3
"""Indices behind each other that are remembered."""
READING = (ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Constant, ast.UnaryOp, ast.BinOp,
           ast.expr_context, ast.operator, ast.unaryop)  # fmt: skip
"""What an expression may be made of that only reads."""
TURNED = (*ATTRIBUTES, "H", "mH", "real", "imag")
"""Attributes of a tensor that are tensors."""


def indexed_name(where: SourceLine, parts: tuple[str, ...]) -> str | None:
    """The text at ``where``, with ``parts`` for its last indices, but for empty ones; None where it is no name."""
    text = text_at(where)
    return None if text is None else read_name_expression(text, parts)


def text_at(where: SourceLine) -> str | None:
    """The text of the expression at ``where``; None where it is on several lines or its place is not known."""
    if where.stop < 0:
        return None
    line = linecache.getline(where.file, where.line).encode()
    return line[where.column : where.stop].decode(errors="replace").strip()


def called_name_at(where: SourceLine) -> str | None:
    """The last word of what is called at ``where``: ``grad`` of ``torch.autograd.grad(y, x)``; None for no call."""
    tree = parse_one(text_at(where) or "")
    if not isinstance(tree, ast.Call):
        return None
    return tree.func.attr if isinstance(tree.func, ast.Attribute) else getattr(tree.func, "id", "")


def read_backward_call(where: SourceLine) -> tuple[str | None, str | None]:
    """What the ``backward`` at ``where`` is called on and its weights, as they are written there; None for neither."""
    text = text_at(where) or ""
    tree = parse_one(text)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Attribute) or tree.func.attr != "backward":
        return None, None
    owner = tree.func.value
    of_torch = frames.source_segment(owner, text).endswith("autograd")
    parts = [*tree.args] if of_torch else [owner, *tree.args]
    parts += [k.value for k in tree.keywords if k.arg in ("gradient", "grad_tensors")]
    first, second, *_ = [*(frames.source_segment(part, text) for part in parts), None, None]
    plain = not parts or isinstance(parts[0], (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return first if plain else f"({first})", second


def parse_one(text: str) -> ast.expr | None:
    """One expression, read; None for what is none."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=1024)
def read_name_expression(text: str, parts: tuple[str, ...]) -> str | None:
    """One expression's text as a name.

    >>> read_name_expression("x[ t ]", ("3",)), read_name_expression("x[t][:n]", ("3", ":2"))
    ('x[3]', 'x[3][:2]')
    >>> read_name_expression("labels[ix]", ("",)), read_name_expression("x.T", ())
    ('labels[ix]', 'x.T')
    >>> read_name_expression("x[:, [1, 0]]", ("",))
    'x[:, [1, 0]]'
    >>> read_name_expression("f(x)[t]", ("0",))
    """
    tree = parse_one(text.strip())
    reads = isinstance(tree, ast.Subscript) or (isinstance(tree, ast.Attribute) and tree.attr in TURNED)
    if tree is None or not reads or not all(isinstance(inner, READING) for inner in ast.walk(tree)):
        return None
    found = write_indices(tree, parts)
    return found if len(found) <= LONGEST else None


def write_indices(tree: ast.expr, parts: tuple[str, ...]) -> str:
    """The text of nested indices, the last ones as the numbers that they were."""
    if not parts or not isinstance(tree, ast.Subscript):
        return ast.unparse(tree)
    index = parts[-1] or ast.unparse(ast.Subscript(ast.Name("x"), tree.slice))[2:-1]  # by itself it has brackets
    return f"{write_indices(tree.value, parts[:-1])}[{index}]"


def index_chain(call: TorchCall) -> tuple[str, ...]:
    """The indices by which what a call made is read of a tensor: those of what it reads, and its own.

    Each is as it is written where it is made of numbers, and empty where it is not.
    """
    if not call.spelling.endswith("__getitem__") or len(call.arguments) != 2:
        return ()
    read, index = call.arguments
    texts = [write_index_entry(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    own = "" if None in texts else ", ".join(str(text) for text in texts)
    return (*(read.parts if isinstance(read, Node) else ()), own)[-DEEPEST:]


def write_index_entry(entry: Any) -> str | None:
    """One entry of an index as it is written; None for a tensor and the like."""
    if isinstance(entry, slice):
        parts = [entry.start, entry.stop, *([] if entry.step is None else [entry.step])]
        fits = all(part is None or type(part) is int for part in parts)
        return ":".join("" if part is None else str(part) for part in parts) if fits else None
    if isinstance(entry, EllipsisType):
        return "..."
    return str(entry) if entry is None or type(entry) is int else None
