"""Which line of the user's is running, and what its author calls things.

Frames inside torch and symgrad are passed over: the line that matters is the one the user wrote.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeVar

from symgrad.tracing.record.standing_in import MARK
from symgrad.tracing.record.trace import Span, Where

HERE = str(Path(__file__).resolve().parents[1])
PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
Recording = TypeVar("Recording", bound=Callable[..., Any])
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


def at() -> Where:
    """The file and the number of the user's line that is running, without the rest of `here`."""
    frame = user_frame()
    return line_of("?", 0) if frame is None else line_of(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=4096)
def line_of(file: str, line: int) -> Where:
    """A line, the same one each time."""
    return Where(file, line, "")


def here(turn: int = 0) -> Where:
    """The user's line that is running."""
    frame = user_frame()
    if frame is None:
        return Where("?", 0, "", turn)
    file, line = frame.f_code.co_filename, frame.f_lineno
    path = tuple([placed(around.f_code, around.f_lasti) for around in recorded(frame)])
    (first, begin), (last, end) = path[0][1]
    return Where(file, line, linecache.getline(file, line).strip(), turn, begin, end if first == last else -1, path)


PLACED: dict[tuple[int, int], tuple[CodeType, tuple[str, Span]]] = {}
"""By the identity of a code: to hash one reads all of it."""
MOST_PLACES = 4096


def placed(code: CodeType, at: int) -> tuple[str, Span]:
    """The file of an instruction, and where in it it stands."""
    found = PLACED.get((id(code), at))
    if found is None or found[0] is not code:
        if len(PLACED) >= MOST_PLACES:
            PLACED.clear()
        found = PLACED[id(code), at] = code, (code.co_filename, place(code, at))
    return found[1]


def place(code: CodeType, at: int) -> Span:
    """Where an instruction begins and ends, in bytes as `ast` counts; columns are −1 where Python keeps none."""
    first, last, begin, end = next(islice(code.co_positions(), at // 2, None), (None, None, None, None))
    return (first or -1, -1 if begin is None else begin), (last or first or -1, -1 if end is None else end)


def raised_in(error: BaseException) -> tuple[Where, str] | None:
    """The user's line in which an error was raised inside a call of torch's, and in which function; None in torch."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if not passed_over(trace.tb_frame):
            found = trace
        trace = trace.tb_next
    if found is None:
        return None
    code, line = found.tb_frame.f_code, found.tb_lineno
    return Where(code.co_filename, line, linecache.getline(code.co_filename, line).strip()), code.co_qualname


BEGINNINGS: list[CodeType] = []
"""What begins to record and then runs the user's program."""


def begins(function: Recording) -> Recording:
    """Mark what begins to record: who called it is the same for everything that is recorded in it."""
    BEGINNINGS.append(function.__code__)
    return function


def recorded(start: FrameType | None) -> Iterator[FrameType]:
    """`frames` up to where recording began: a notebook or a test has dozens around that."""
    while start is not None:
        if not passed_over(start):
            yield start
        elif any(start.f_code is code for code in BEGINNINGS):
            return
        start = start.f_back


def watched(start: FrameType | None) -> Iterator[FrameType]:
    """`frames` up to where the outermost recording began: what calls a capture in a watched script is the script's."""
    around: list[FrameType] = []
    last: int | None = None
    while start is not None:
        if not passed_over(start):
            around.append(start)
        elif any(start.f_code is code for code in BEGINNINGS):
            last = len(around)
        start = start.f_back
    yield from around[:last]


INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Parts of a statement that run by themselves, later or several times."""
HOLDING = (ast.List, ast.Tuple, ast.Set, ast.Dict)
"""What holds several values: none of them has its name."""
CLASS, OF_TENSORS = re.compile(r"[A-Z][a-z][^\W_]*"), re.compile(r"\w*(Tensor|Variable|Parameter|Buffer)")
"""What classes are called, and those of which an instance is a tensor."""


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


def assigned(file: str, line: int, column: int) -> Assigned | None:
    """The statement at this place, if it assigns; None also where the line has several and the column is not known."""
    found, here = assignments(file).get(line, ()), (line, column)
    if column < 0:
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
        if all(isinstance(target, ast.Name) for target in targets):
            targets = targets[:1]  # of h = c = zeros(3) the first
        parts = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else targets
        names = tuple(part.id for part in parts if isinstance(part, ast.Name))
        value = getattr(node, "value", None)
        if len(names) == 1 and (isinstance(value, HOLDING) or makes_an_object(value)):
            continue  # the name is that of the whole, and no tensor in it has it
        if len(targets) == 1 and names and len(names) == len(parts) and isinstance(node, ast.stmt):
            last = node.iter if isinstance(node, ast.For) else node
            _, end = span(last)
            within = tuple(span(part) for part in ast.walk(last) if isinstance(part, INNER))
            statement = Assigned((node.lineno, node.col_offset), end, names, isinstance(node, ast.For), within)
            for line in range(node.lineno, end[0] + 1):
                found.setdefault(line, []).append(statement)
    return found


def makes_an_object(value: ast.expr | None) -> bool:
    """Whether an instance of a class is made that is no tensor: ``Normal(mean, std)``."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, (ast.Name, ast.Attribute)):
        return False
    name = value.func.id if isinstance(value.func, ast.Name) else value.func.attr
    return CLASS.fullmatch(name) is not None and OF_TENSORS.fullmatch(name) is None


def span(node: ast.stmt | ast.expr) -> Span:
    """Where a part of a tree stands in its text."""
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


@lru_cache(maxsize=512)
def loop_around(file: str, first: int, last: int) -> str | None:
    """``for x in xs``: the head of the innermost loop in whose body all the lines lie, in one function; or None."""
    text = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(text)
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
        return f"for {as_written(inner.target, text)} in {as_written(inner.iter, text)}"
    return f"while {as_written(inner.test, text)}" if isinstance(inner, ast.While) else None


def as_written(node: ast.expr, text: str) -> str:
    r"""A part of a text on one line: 1e-9 as its author has it, where Python would put 1e-09.

    >>> as_written(ast.parse("f(1e-9 *\n  x)", mode="eval").body, "f(1e-9 *\n  x)")
    'f(1e-9 * x)'
    """
    return " ".join((ast.get_source_segment(text, node) or ast.unparse(node)).split())


def asked_by_symgrad() -> bool:
    """Whether symgrad computes this for the script, which called ``explain`` or ``check_backward``."""
    frame: FrameType | None = sys._getframe(1)
    met = False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE) and not file.startswith(HERE):
            met = True
        elif met and any(frame.f_code is code for code in BEGINNINGS):
            return True  # what stands around the beginning runs the script
        frame = frame.f_back
    return False


def variables_of_torch(*names: str) -> tuple[Any, ...] | None:
    """What these variables hold in the nearest function of torch's that runs and has them all."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if internal(frame.f_code.co_filename) and set(names) <= frame.f_locals.keys():
            return tuple(frame.f_locals[name] for name in names)
        frame = frame.f_back
    return None


def asked_by_torch() -> bool:
    """Whether torch itself, and not the user's line, is what runs: an optimiser that reads ``.grad``."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (frame.f_code.co_filename.startswith(HERE) or frame.f_code.co_name == MARK):
        frame = frame.f_back
    return frame is None or internal(frame.f_code.co_filename)
