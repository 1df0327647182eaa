"""Which line of the user's is running, and what its author calls things.

Frames inside torch and symgrad are passed over: the line that matters is the one the user wrote.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from symgrad.tracing.record.standing_in import MARK
from symgrad.tracing.record.trace import Where

HERE = str(Path(__file__).resolve().parents[1])
COMPILED_PREFIX = "_orig_mod."
"""What torch.compile puts before the names of a module's own."""


@lru_cache(maxsize=4096)
def internal(file: str) -> bool:
    """Whether a file belongs to torch, to symgrad's capture or to Python's own machinery."""
    return file.startswith((HERE, "<frozen", _torch_home())) or file.endswith("/runpy.py") or "/contextlib.py" in file


@lru_cache(maxsize=1)
def _torch_home() -> str:
    import torch

    return str(Path(torch.__file__).parent)


def passed_over(frame: FrameType) -> bool:
    """Whether a frame is not the user's: torch's or symgrad's, or one that only bears the name of another."""
    return frame.f_code.co_name == MARK or internal(frame.f_code.co_filename)


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and passed_over(frame):
        frame = frame.f_back
    return frame


def here(turn: int = 0) -> Where:
    """The user's line that is running."""
    frame = user_frame()
    if frame is None:
        return Where("?", 0, "", turn)
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Where(file, line, linecache.getline(file, line).strip(), turn, *columns(frame.f_code, frame.f_lasti))


@lru_cache(maxsize=4096)
def columns(code: CodeType, at: int) -> tuple[int, int]:
    """Where in its line an instruction begins and ends, in bytes as `ast` counts.

    −1 where Python was told not to keep that, and for the end of what goes on in another line.
    """
    first, last, begin, end = next(islice(code.co_positions(), at // 2, None), (None, None, None, None))
    return -1 if begin is None else begin, -1 if end is None or first != last else end


def frames(start: FrameType | None) -> Iterator[FrameType]:
    """``start`` and the user's frames around it."""
    while start is not None:
        if not passed_over(start):
            yield start
        start = start.f_back


INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Parts of a statement that run by themselves, later or several times."""
HOLDING = (ast.List, ast.Tuple, ast.Set, ast.Dict)
"""What holds several values: none of them has its name."""
Span = tuple[tuple[int, int], tuple[int, int]]
"""Line and column where a part of a text begins, and where it ends."""


@dataclass(frozen=True)
class Assigned:
    """A statement that assigns to plain ``names``, one for each result; of a ``loop`` its head, what it runs over.

    ``within`` are the lambdas and comprehensions in it: what runs in them is not what is assigned.
    """

    begin: tuple[int, int]
    end: tuple[int, int]
    names: tuple[str, ...]
    loop: bool
    within: tuple[Span, ...]


def assigned(where: Where) -> Assigned | None:
    """The statement at this place, if it assigns; None also where the line has several and the column is not known."""
    found, here = assignments(where.file).get(where.line, ()), (where.line, where.column)
    if where.column < 0:
        return found[0] if len(found) == 1 and not found[0].within else None
    around = next((s for s in found if s.begin <= here < s.end), None)
    return None if around is None or any(begin <= here < end for begin, end in around.within) else around


@lru_cache(maxsize=64)
def assignments(file: str) -> dict[int, list[Assigned]]:
    """Line → the statements that assign there, for every line of each."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, list[Assigned]] = {}
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
            node, (ast.AugAssign, ast.AnnAssign, ast.For)) else []  # fmt: skip
        parts = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else targets
        names = tuple(part.id for part in parts if isinstance(part, ast.Name))
        value = getattr(node, "value", None)
        if len(names) == 1 and isinstance(value, HOLDING):
            continue  # the name is that of the whole, and no tensor in it has it
        if len(targets) == 1 and names and len(names) == len(parts) and isinstance(node, ast.stmt):
            last = node.iter if isinstance(node, ast.For) else node
            _, end = span(last)
            within = tuple(span(part) for part in ast.walk(last) if isinstance(part, INNER))
            statement = Assigned((node.lineno, node.col_offset), end, names, isinstance(node, ast.For), within)
            for line in range(node.lineno, end[0] + 1):
                found.setdefault(line, []).append(statement)
    return found


def span(node: ast.stmt | ast.expr) -> Span:
    """Where a part of a tree stands in its text."""
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


@lru_cache(maxsize=512)
def loop_around(file: str, first: int, last: int) -> str | None:
    """``for x in xs``: the head of the innermost loop in whose body all the lines lie, in one function; or None."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and node.body[0].lineno <= first
        and last <= (node.body[-1].end_lineno or 0)
    ]
    inner = max(around, key=lambda node: (node.lineno, node.col_offset), default=None)
    if isinstance(inner, ast.For):
        return f"for {ast.unparse(inner.target)} in {ast.unparse(inner.iter)}"
    return f"while {ast.unparse(inner.test)}" if isinstance(inner, ast.While) else None


def argument(text: str) -> str | None:
    """The first argument of the call of ``backward`` in a line, as it is written there."""
    for call, _ in calls_of_backward(text):
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "gradient")]
        return ast.unparse(given[0]) if given else None
    return None


def subject(text: str) -> str | None:
    """What ``backward`` is called on in a line, as it is written there; in brackets unless it is a name or a call."""
    for _, owner in calls_of_backward(text):
        found = ast.unparse(owner)
        return found if isinstance(owner, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({found})"
    return None


def calls_of_backward(text: str) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls of ``backward`` in a line, and what each is called on; none in a part of a statement."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward":
            yield node, node.func.value


def names_in(start: FrameType | None) -> dict[int, str]:
    """What the tensors in sight are called, by identity: variables, parameters of modules, what a loop left behind."""
    found: dict[int, str] = {}
    modules: list[tuple[str, Any]] = []
    left: list[tuple[str, Any]] = []
    for frame in frames(start):
        scopes = [frame.f_locals] if frame.f_locals is frame.f_globals else [frame.f_locals, frame.f_globals]
        over = left_by_loops(frame.f_code.co_filename, frame.f_lineno)
        for scope in scopes:
            for name, value in list(scope.items()):
                if name in over and not _is(value, "Module"):
                    left.append((name, value))
                elif not name.startswith("__"):
                    collect(name, value, found, modules)
    single = len({id(m) for _, m in modules}) == 1
    for name, module in modules:
        inner = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
        for path, tensor in inner:
            path = path.replace(COMPILED_PREFIX, "")
            found.setdefault(id(tensor), path if single else f"{name}.{path}")
    for name, value in left:
        collect(name, value, found, modules)
    return found


def buffers_in(start: FrameType | None) -> frozenset[int]:
    """The buffers of the modules in sight, by identity: tensors that belong to a module and are no parameters."""
    values = [
        value for frame in frames(start) for scope in (frame.f_locals, frame.f_globals) for value in scope.values()
    ]
    modules = {id(value): value for value in values if _is(value, "Module")}
    return frozenset(id(tensor) for module in modules.values() for tensor in module.buffers())


def left_by_loops(file: str, line: int) -> frozenset[str]:
    """The names that only loops elsewhere bind: ``p`` after ``for p in net.parameters()`` says nothing."""
    loops, others = bound_in(file)
    here = {name for names, first, last in loops if first <= line <= last for name in names}
    return frozenset(name for names, *_ in loops for name in names) - here - others


@lru_cache(maxsize=64)
def bound_in(file: str) -> tuple[tuple[tuple[frozenset[str], int, int], ...], frozenset[str]]:
    """The names that each loop of a file binds, with its lines, and those that anything else binds."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return (), frozenset()
    nodes = list(ast.walk(tree))
    targets = [(node, names_bound(node.target)) for node in nodes if isinstance(node, (ast.For, ast.AsyncFor))]
    bound = {id(name) for node, _ in targets for name in ast.walk(node.target)}
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and id(n) not in bound}
    taken = {n.arg for n in nodes if isinstance(n, ast.arg)}
    loops = tuple((names, node.lineno, node.end_lineno or node.lineno) for node, names in targets)
    return loops, frozenset(stored | taken)


def names_bound(target: ast.expr) -> frozenset[str]:
    """The names in the target of a loop."""
    return frozenset(n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def collect(name: str, value: Any, found: dict[int, str], modules: list[tuple[str, Any]]) -> None:
    """One variable: a tensor, a module, or a small container of them."""
    if _is(value, "Tensor"):
        found.setdefault(id(value), name)
    elif _is(value, "Module"):
        known = any(module is value for _, module in modules)
        if not known and next((True for _ in (*value.parameters(), *value.buffers())), False):
            modules.append((name, value))
    elif isinstance(value, (list, tuple)) and len(value) <= 64:
        for n, part in enumerate(value):
            if _is(part, "Tensor"):
                found.setdefault(id(part), f"{name}[{n}]")
    elif isinstance(value, dict) and len(value) <= 64:
        for key, part in value.items():
            if _is(part, "Tensor") and isinstance(key, (str, int)):
                found.setdefault(id(part), f"{name}[{key!r}]")


def _is(value: Any, kind: str) -> bool:
    """Whether ``value`` is a torch tensor or module."""
    import torch

    return isinstance(value, torch.Tensor if kind == "Tensor" else torch.nn.Module)


def asked_by_torch() -> bool:
    """Whether torch itself, and not the user's line, is what runs: an optimiser that reads ``.grad``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(HERE) or frame.f_code.co_name == MARK):
        frame = frame.f_back
    return frame is None or internal(frame.f_code.co_filename)
