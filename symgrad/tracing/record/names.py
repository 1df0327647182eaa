"""Names for the values of a program, from the user's code.

Comes in: nodes in order, known names by id, names of tensors in scope. Goes out: a name for each node that has one: its
variable, the variable that its line assigns to, or for data the text that reads it.

Unassigned data is named by its source text, ``batch[:, 0]`` or ``labels[ix]``, if that only reads a part of a named
tensor; indices made of numbers are written with their values. A call is no name: ``rand(3)`` in a formula would mean a
new draw.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from symgrad.backward.page_names import Suggested
from symgrad.ops.calls.registry import SHARING
from symgrad.ops.lookup import ATTRIBUTES
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import LONGEST, view_text
from symgrad.tracing.record.frame_names import name_cloned_buffers, name_module_arguments
from symgrad.tracing.record.spelling import is_reflected
from symgrad.tracing.record.trace import ModuleCall, Node, SourceLine, Span, TorchCall


def name_nodes(
    order: Sequence[Node],
    known: Mapping[int, str],
    in_sight: Mapping[int, str],
    outside: SourceLine | None = None,
    given: bool = False,
) -> dict[int, str]:
    """Return names by the ids of nodes; a name may occur twice, as in programs.

    Values of the line ``outside``, which made the request, get no name unless they are gradients. Data gets the name
    that its line assigns only if ``given``.
    """
    names = dict(known)
    for node in order:
        if id(node) not in names and (own := own_name(node, in_sight)) is not None:
            names[id(node)] = own
    names = {**name_assigned(order, outside, given), **names}
    if given:
        names = {**name_cloned_buffers(order, in_sight), **name_unassigned_data(order, names, in_sight), **names}
    words = {key: name for key, name in in_sight.items() if not name.replace(".", "").isdigit()}  # not nn.Sequential's
    users = {*names.values()}  # torch's variable of that name would be taken for the user's
    read, assigned = (
        {key: name for key, name in torchs.items() if name not in users}
        for torchs in (name_as_read(order, torch_place), name_assigned(order, None, True, torch_place))
    )
    inside = {**read, **name_module_arguments(order, words), **assigned}
    known = {**inside, **names}
    views = ((id(n), view_text(n, lambda base: known.get(id(base), own_name(base, in_sight)))) for n in order)
    inside |= {key: text for key, text in views if text is not None}
    results = name_module_results(order, words)
    found = {**inside, **name_as_read(order, user_place), **results}
    said = {id(n): Suggested(found[id(n)]) for n in order if id(n) in found}
    blocks = {key: str(name) for key, name in results.items() if not isinstance(name, Suggested)}
    return {**said, **blocks, **names}


def own_name(node: Node, in_sight: Mapping[int, str]) -> str | None:
    """Return the name of the node's tensor in scope."""
    return in_sight.get(id(node.owner()))


def find_readers(order: Sequence[Node]) -> Mapping[int, list[Node]]:
    """Return the nodes that read each node, by its id."""
    readers: dict[int, list[Node]] = {}
    for node in order:
        for source in node.sources():
            readers.setdefault(id(source), []).append(node)
    return readers


Place = Callable[[Node], SourceLine | None]


def user_place(node: Node) -> SourceLine | None:
    """Return the user's line that created a value."""
    return node.where


def torch_place(node: Node) -> SourceLine | None:
    """Return the line of torch's own code that created a value."""
    return None if node.where is None else node.where.within


def name_assigned(
    order: Sequence[Node], outside: SourceLine | None, given: bool, place: Place = user_place
) -> dict[int, str]:
    """Return names by the assignments at the ``place`` of each node; none for a value that is read later otherwise."""
    names: dict[int, str] = {}
    readers = find_readers(order)
    executions, unfinished = group_executions(order, place)
    for run in executions:
        where = place(run[-1])
        asked_here = (
            outside is not None and where is not None and (where.file, where.line) == (outside.file, outside.line)
        )
        if where is None or (asked_here and all(node.gradient is None for node in run)):
            continue
        statement = frames.find_assignment(where.file, where.line, where.column)
        if statement is None or id(run) in unfinished:
            continue
        targets, several = statement.names, len(statement.names) > 1
        parts = [n for n in run[:-1] if n.carries or not run[-1].carries]
        turn = run[-1].where.turn if run[-1].where is not None else 0
        after = (r.where is not None and r.where.turn > turn for part in parts for r in readers.get(id(part), ()))
        if not several and not statement.loop and any(after):
            continue
        together = [n for n in run if n.gradient is not None and n.gradient is run[-1].gradient] or run[-1:]
        for node in run if several or statement.loop else together:
            # what the line itself asked for: ``hvp`` and its like make other gradients on their way
            own = node.gradient is not None and (node.where is None or called_name_at(node.where) in (None, "grad"))
            fits = (not several or node.siblings == len(targets)) and (not asked_here or own)
            if place is not user_place:
                fits = fits and (statement.loop or node.siblings == len(targets)) and VAGUE.isdisjoint(targets)
            if fits and (given or node.kind != "data"):
                one_of = f"[{node.index}]" if node.gradient is not None and node.siblings > 1 else ""  # grads[1]
                names.setdefault(id(node), targets[node.index] if several else targets[0] + one_of)
    return names


def name_as_read(order: Sequence[Node], place: Place) -> dict[int, str]:
    """Return names by the first line that reads a value: a variable, or for data any text that only reads."""
    found: dict[int, str] = {}
    for node in order:
        where, read = place(node), list[tuple[str, Node]]()
        if node.call is not None and where is not None:
            texts = operand_texts(where, node.call)
            read += [(t, n) for t, n in zip(texts, node.call.arguments, strict=False) if isinstance(n, Node)]
        for source in node.sources() if place is user_place else ():
            read += [(text, source) for call, at in source.passed if (text := argument_text(call, at)) is not None]
        for text, source in read:
            name = text if text.isidentifier() else read_name_expression(text, ()) if source.kind == "data" else None
            if name is not None and name.strip("_") and (place is user_place or name not in VAGUE):
                found.setdefault(id(source), name)
    return found


BLOCK = re.compile(r"(\]|(^|\.)\d+)\.out$")
"""Matches the end of the name of the result of a module in a list."""
VAGUE = frozenset({"input", "output", "x", "out", "result", "ret"})
"""Variables of torch without a meaning for the user."""


def name_module_results(order: Sequence[Node], in_sight: Mapping[int, str]) -> dict[int, str]:
    """Return names ``fc1.out`` for the only value of a module call that is read outside it.

    A value that several nested calls return is named by the innermost module that is called once. The result of a
    module in a list that contains others is a block's and gets its own line.
    """
    readers = find_readers(order)
    results: dict[ModuleCall, list[Node]] = {}
    times: Counter[int] = Counter()
    made = [(node, node.where) for node in order if id(node) in readers and node.where is not None and node.carries]
    for node, where in made:
        for call in where.modules:
            results.setdefault(call, [])
            if any(reader.where is None or call not in reader.where.modules for reader in readers[id(node)]):
                results[call].append(node)
    for call in results:
        times[call.key[1]] += 1
    found: dict[int, str] = {}
    for node, where in made:
        calls = [call for call in where.modules if results[call] == [node] and id(call.module()) in in_sight]
        for call in sorted(calls, key=lambda call: times[call.key[1]] > 1)[:1]:
            module: Any = call.module()
            name = f"{in_sight[id(module)]}.out"
            found[id(node)] = name if BLOCK.search(name) and module._modules else Suggested(name)
    return found


def name_unassigned_data(order: Sequence[Node], names: Mapping[int, str], sight: Mapping[int, str]) -> dict[int, str]:
    """Return names of unassigned data: the text that reads it, or ``seed`` for the weights of a gradient."""
    found: dict[int, str] = {}
    for node in order:
        if node.kind == "data" and id(node) not in names and node.where is not None and not node.where.in_library:
            name = read_name_expression(text_at(node.where) or "", node.parts)
            if name is not None and not names_another(name, node, sight):
                found[id(node)] = name
        if node.gradient is not None:
            for weight in node.gradient.weights:
                if weight is not None and weight.kind == "data" and id(weight) not in names:
                    found.setdefault(id(weight), "seed")
    return found


def group_executions(order: Sequence[Node], place: Place) -> tuple[list[list[Node]], frozenset[int]]:
    """Group nodes, in the order of time, by executions of one statement, or of one line without an assignment.

    A statement's calls of user functions run between its own steps. The second result has the ids of the groups whose
    last step was followed by such a call: that step was an argument of the call, and not the statement's value.
    """
    made = [(n, where) for n in order if n.kind != "leaf" and (where := place(n)) is not None]
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
"""Earlier than every evaluation."""


def evaluation_order(span: Span) -> tuple[tuple[int, int], int, int]:
    """Return a key that orders the parts of a statement by evaluation: by their end, and inner parts first."""
    (line, column), end = span
    return end, -line, -column


def statement_key(file: str, begin: tuple[int, int]) -> object:
    """Return an id of the statement at a position: its assignment if there is one, else its line."""
    return file, frames.find_assignment(file, *begin) or begin[0]


READING = (ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Constant, ast.UnaryOp, ast.BinOp,
           ast.expr_context, ast.operator, ast.unaryop)  # fmt: skip
"""The nodes of an expression that only reads."""
TURNED = (*ATTRIBUTES, "H", "mH", "real", "imag")
"""Attributes of a tensor that are tensors."""


def text_at(where: SourceLine) -> str | None:
    """Return the source text of the expression at ``where``; None if it spans lines or its range is unknown."""
    if where.stop < 0:
        return None
    line = linecache.getline(where.file, where.line).encode()
    return line[where.column : where.stop].decode(errors="replace").strip()


def operand_texts(where: SourceLine, call: TorchCall) -> list[str]:
    """Return the source texts of the operands of the call at ``where``, in order."""
    text = text_at(where) or ""
    tree, word = parse_one(text), call.spelling.rpartition(".")[2]
    parts: list[ast.expr] = []
    if isinstance(tree, (ast.BinOp, ast.Compare)):
        parts = [tree.left, tree.right] if isinstance(tree, ast.BinOp) else [tree.left, *tree.comparators]
        if not all(isinstance(part, Node) for part in call.arguments) or len(parts) != len(call.arguments):
            return []  # which one a number stands beside, the signs do not say
        parts = parts[::-1] if is_reflected(call.spelling) else parts
    elif isinstance(tree, ast.Subscript) and word == "__getitem__":
        parts = [tree.value]
    elif isinstance(tree, ast.Call) and called_name_at(where) == word:
        method = call.spelling.startswith("Tensor.") and isinstance(tree.func, ast.Attribute)
        parts = [*([tree.func.value] if method else []), *tree.args]  # type: ignore[attr-defined]  # it is an attribute
    first = next((n for n, part in enumerate(parts) if isinstance(part, ast.Starred)), len(parts))
    return [frames.source_segment(part, text) for part in parts[:first]]


def argument_text(call: ModuleCall, place: int | str) -> str | None:
    """Return the source text of an argument of the user's module call, or None."""
    if call.site is None:
        return None
    file, ((line, begin), (last, end)) = call.site
    text = text_at(SourceLine(file, line, "", 0, begin, end if line == last else -1)) or ""
    tree = parse_one(text)
    if not isinstance(tree, ast.Call) or any(isinstance(part, ast.Starred) for part in tree.args):
        return None
    given: dict[int | str, ast.expr] = {**dict(enumerate(tree.args))}
    given |= {word.arg: word.value for word in tree.keywords if word.arg}
    return frames.source_segment(given[place], text) if place in given else None


def called_name_at(where: SourceLine) -> str | None:
    """Return the last word of the function called at ``where``, ``grad`` of ``torch.autograd.grad(y, x)``, or None."""
    tree = parse_one(text_at(where) or "")
    if not isinstance(tree, ast.Call):
        return None
    return tree.func.attr if isinstance(tree.func, ast.Attribute) else getattr(tree.func, "id", "")


def names_another(name: str | None, node: Node, in_sight: Mapping[int, str]) -> bool:
    """Whether the x of ``x.reshape(shape)`` is a library function's variable, and the script's x is another tensor."""
    owner, base = re.split(r"[.\[]", name or "")[0], node.held._base
    entries = base is None and "[" in (name or "")  # a copy of entries has no base
    return owner in in_sight.values() and not entries and in_sight.get(id(base)) != owner


def parse_one(text: str) -> ast.expr | None:
    """Parse one expression; return None if the text is none."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=1024)
def read_name_expression(text: str, parts: tuple[str, ...]) -> str | None:
    """Return an expression's text as a name, with indices as numbers; None if it does more than read.

    >>> read_name_expression("x[ t ]", ("3",)), read_name_expression("x[t][:n]", ("3", ":2"))
    ('x[3]', 'x[3][:2]')
    >>> read_name_expression("labels[ix]", ("",)), read_name_expression("x.T", ())
    ('labels[ix]', 'x.T')
    >>> read_name_expression("x[:, [1, 0]]", ("",))
    'x[:, [1, 0]]'
    >>> read_name_expression("y.view(-1)", ())
    'y.view(-1)'
    >>> read_name_expression("f(x)[t]", ("0",))
    """
    tree = parse_one(text.strip())
    reads = isinstance(tree, ast.Subscript) or (isinstance(tree, ast.Attribute) and tree.attr in TURNED)
    if tree is None or not (reads or is_view_call(tree)):
        return None
    if not all(isinstance(inner, READING) or is_view_call(inner) for inner in ast.walk(tree)):
        return None
    found = write_indices(tree, parts)
    return found if len(found) <= LONGEST else None


def is_view_call(tree: ast.AST) -> bool:
    """Whether a node is a call of a view method, as ``x.view(-1)``."""
    called = isinstance(tree, ast.Call) and isinstance(tree.func, ast.Attribute) and not tree.keywords
    word = tree.func.attr if called else "dropout"  # type: ignore[attr-defined]  # that one is a module's
    return word != "dropout" and SHARING.get(word, "several") != "several"


def write_indices(tree: ast.expr, parts: tuple[str, ...]) -> str:
    """Write nested indices, the last ones with their values ``parts``."""
    if not parts or not isinstance(tree, ast.Subscript):
        return ast.unparse(tree)
    index = parts[-1] or ast.unparse(ast.Subscript(ast.Name("x"), tree.slice))[2:-1]  # by itself it has brackets
    return f"{write_indices(tree.value, parts[:-1])}[{index}]"
