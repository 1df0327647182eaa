"""The user's line that is running, and the names that it assigns.

Frames inside torch and symgrad are skipped, so that the line is one that the user wrote.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import CodeType, FrameType
from typing import Any, TypeVar

from symgrad.tracing.record.isolation import MARK
from symgrad.tracing.record.trace import ModuleCall, SourceLine, Span

HERE = str(Path(__file__).resolve().parents[1])
PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
Recording = TypeVar("Recording", bound=Callable[..., Any])
COMPILED_PREFIX = "_orig_mod."
"""The prefix that torch.compile adds to the names of a module's parameters."""


@lru_cache(maxsize=4096)
def is_internal_file(file: str) -> bool:
    """Whether a file belongs to torch, to symgrad's capture or to Python's own machinery."""
    return file.startswith((HERE, "<frozen", _torch_home())) or file.endswith("/runpy.py") or "/contextlib.py" in file


@lru_cache(maxsize=1)
def _torch_home() -> str:
    import torch

    return str(Path(torch.__file__).parent)


def is_internal_frame(frame: FrameType) -> bool:
    """Whether a frame is not the user's: torch's, symgrad's, or one that only imitates another's file and line."""
    return frame.f_code.co_name == MARK or is_internal_file(frame.f_code.co_filename)


def user_frame() -> FrameType | None:
    """Return the innermost frame of the user's code."""
    return next((frame for frame, _ in walk_stack(sys._getframe(1)) if not is_internal_frame(frame)), None)


def current_position() -> SourceLine:
    """Return the file and number of the user's running line, without the rest of `user_line`."""
    frame = user_frame()
    return cached_source_line("?", 0) if frame is None else cached_source_line(frame.f_code.co_filename, frame.f_lineno)


@lru_cache(maxsize=4096)
def cached_source_line(file: str, line: int) -> SourceLine:
    """Return a cached `SourceLine`."""
    return SourceLine(file, line, "")


def user_line(turn: int = 0, before: Sequence[ModuleCall] = ()) -> SourceLine:
    """Return the user's running line; module calls in ``before`` that still run are reused."""
    users, places, calls = places_around(sys._getframe(1))
    users = users or places_around(user_frame())[0]  # around the beginning
    if not users:
        return SourceLine("?", 0, "", turn)
    file, ((line, begin), (last, end)) = users[0]
    text, path = linecache.getline(file, line).strip(), tuple(users)
    within, modules = locate_in_torch(turn, path, places), running_modules(calls, before)
    return SourceLine(file, line, text, turn, begin, end if line == last else -1, path, within, modules)


def locate_in_torch(
    turn: int, path: tuple[tuple[str, Span], ...], places: Sequence[tuple[str, Span]] | None = None
) -> SourceLine | None:
    """Return torch's running line below the user's ``path``; None if the user's line makes the recorded call."""
    around = places_around(sys._getframe(1))[1] if places is None else places
    if not around:
        return None
    file, ((line, begin), (last, end)) = around[0]
    return SourceLine(file, line, "", turn, begin, end if line == last else -1, (*around, *path))


USERS, MODULES, TELLS, STARTS_RECORDING, OTHERS = range(5)
"""Kinds of code: the user's, a module call, torch's with meaningful names, the start of a recording, others."""
PLACED: dict[tuple[int, int], tuple[CodeType, int, tuple[str, Span]]] = {}
"""The kind and source range of an instruction, by the id of its code object, since hashing one reads all of it."""
MOST_PLACES = 4096
TELLING = re.compile(r"/torch/(nn/(?!modules/module.py)|_decomp/|distributions/|functional.py)")
"""Files of torch whose variables have meaningful names."""


def places_around(frame: FrameType | None) -> tuple[list[tuple[str, Span]], list[tuple[str, Span]], list[FrameType]]:
    """Return the user's source ranges, torch's below them, and frames of module calls, up to the recording start."""
    users, places, calls = list[tuple[str, Span]](), list[tuple[str, Span]](), list[FrameType]()
    while frame is not None:
        code, at = frame.f_code, frame.f_lasti
        found = PLACED.get((id(code), at))
        if found is None or found[0] is not code:
            found = place_instruction(code, at)
        whose = found[1]
        if whose == USERS:
            users.append(found[2])
        elif whose == MODULES:
            calls.append(frame)
        elif whose == TELLS and not users:
            places.append(found[2])
        elif whose == STARTS_RECORDING:
            break
        frame = frame.f_back
    return users, places, calls


def place_instruction(code: CodeType, at: int) -> tuple[CodeType, int, tuple[str, Span]]:
    """Return the item of `PLACED` for an instruction."""
    found = PLACED.get((id(code), at))
    if found is None or found[0] is not code:
        if len(PLACED) >= MOST_PLACES:
            PLACED.clear()
        found = PLACED[id(code), at] = code, owner_of(code), (code.co_filename, instruction_range(code, at))
    return found


def owner_of(code: CodeType) -> int:
    """Return the kind of a code object."""
    import torch

    if code is torch.nn.Module.__call__.__code__:  # its variables are the module and what it is given
        return MODULES
    if id(code) in STARTS:
        return STARTS_RECORDING
    if code.co_name == MARK or not is_internal_file(code.co_filename):
        return OTHERS if code.co_name == MARK else USERS
    return TELLS if code.co_filename.startswith(_torch_home()) and TELLING.search(code.co_filename) else OTHERS


def running_modules(frames: Sequence[FrameType], before: Sequence[ModuleCall]) -> tuple[ModuleCall, ...]:
    """Return the module calls in these frames, inner ones first; those in ``before`` that still run are reused."""
    known, found = {call.key: call for call in before}, []
    for frame in frames:
        given, around = frame.f_locals, frame.f_back
        args, keywords, at = given["args"], given["kwargs"], -1 if around is None else around.f_lasti
        key = id(frame), id(given["self"]), at, *map(id, args[:1])
        call = known.get(key)
        if call is None:
            passed = {id(value): place for place, value in (*enumerate(args), *keywords.items())}
            _, whose, site = (None, OTHERS, None) if around is None else place_instruction(around.f_code, at)
            call = ModuleCall(weakref.ref(given["self"]), key, passed, site if whose == USERS else None)
        found.append(call)
    return tuple(found)


def instruction_range(code: CodeType, at: int) -> Span:
    """Return the source range of an instruction, in bytes as in `ast`; unknown columns are −1."""
    first, last, begin, end = next(islice(code.co_positions(), at // 2, None), (None, None, None, None))
    return (first or -1, -1 if begin is None else begin), (last or first or -1, -1 if end is None else end)


def locate_error(error: BaseException) -> tuple[SourceLine, str] | None:
    """Return the user's line in which an error was raised, and its function; a library's if no line is the user's."""
    users = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__) if not is_internal_frame(frame)]
    if not users:
        return None
    code, line = [*users[-1:], *(user for user in users if "site-packages" not in user[0].co_filename)][-1]
    return SourceLine(code.co_filename, line, linecache.getline(code.co_filename, line).strip()), code.co_qualname


STARTS: set[int] = set()
"""The ids of the code of functions that start a recording and run the user's program."""


def mark_recording_start(function: Recording) -> Recording:
    """Mark a function that starts a recording: frames above it are not the program's."""
    STARTS.add(id(function.__code__))
    return function


def frames_of_watched_script(start: FrameType | None) -> Iterator[FrameType]:
    """Iterate over the user's frames up to the start of the outermost recording."""
    around: list[FrameType] = []
    last: int | None = None
    for frame, _ in () if start is None else walk_stack(start):
        if not is_internal_frame(frame):
            around.append(frame)
        elif id(frame.f_code) in STARTS:
            last = len(around)
    yield from around[:last]


INNER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Parts of a statement with code of their own, which runs later or several times."""
HOLDING = (ast.List, ast.Tuple, ast.Set, ast.Dict)
"""Containers of several values, of which none has the container's name."""
PARTS, BODIES = (ast.stmt, ast.excepthandler, ast.match_case), (
    ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)  # fmt: skip
"""Nodes that contain statements, and loops and definitions."""
CLASS, OF_TENSORS = re.compile(r"[A-Z][a-z][^\W_]*"), re.compile(r"\w*(Tensor|Variable|Parameter|Buffer)")
"""Match names of classes, and those whose instances are tensors."""


@dataclass(frozen=True)
class AssignedNames:
    """A statement that assigns to plain ``names``, one for each result; of a ``loop`` the range of its head.

    ``within`` are the lambdas and comprehensions in it, whose values are not assigned.
    """

    begin: tuple[int, int]
    end: tuple[int, int]
    names: tuple[str, ...]
    loop: bool
    within: tuple[Span, ...]


def find_assignment(file: str, line: int, column: int) -> AssignedNames | None:
    """Return the assignment at this position; None if there is none, or several and the column is unknown."""
    found, here = assignments_on_line(file, line), (line, column)
    if column < 0:
        return found[0] if len(found) == 1 and not found[0].within else None
    around = next((s for s in found if s.begin <= here < s.end), None)
    return None if around is None or any(begin <= here < end for begin, end in around.within) else around


@lru_cache(maxsize=8)
def parse_file(file: str) -> tuple[ast.Module, str]:
    """Return the tree and text of a file; the tree is empty if the file is not Python."""
    text = "".join(linecache.getlines(file))
    try:
        return ast.parse(text), text
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], []), text


def statements_around(node: ast.AST, first: int, last: int) -> Iterator[ast.stmt]:
    """Iterate over the statements in ``node`` that contain the lines, outermost first."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.stmt):
            if not (part.lineno <= first and last <= (part.end_lineno or 0)):
                continue
            yield part
        if isinstance(part, PARTS):
            yield from statements_around(part, first, last)


@lru_cache(maxsize=2048)
def assignments_on_line(file: str, line: int) -> tuple[AssignedNames, ...]:
    """Return the assignments that contain a line."""
    found = (part for node in statements_around(parse_file(file)[0], line, line) for part in names_assigned_by(node))
    return tuple(part for part in found if part.begin[0] <= line <= part.end[0])


def names_assigned_by(node: ast.stmt) -> Iterator[AssignedNames]:
    """Iterate over a statement's assignments to plain names; ``i, f = sigmoid(i), sigmoid(f)`` gives two."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(
        node, (ast.AugAssign, ast.AnnAssign, ast.For)) else []  # fmt: skip
    if all(isinstance(target, ast.Name) for target in targets):
        targets = targets[:1]  # of h = c = zeros(3) the first
    parts = targets[0].elts if len(targets) == 1 and isinstance(targets[0], ast.Tuple) else targets
    names = tuple(part.id for part in parts if isinstance(part, ast.Name))
    value = getattr(node, "value", None)
    if len(names) == 1 and (isinstance(value, HOLDING) or is_object_construction(value)):
        return  # the name is that of the whole, and no tensor in it has it
    if len(targets) != 1 or not names or len(names) != len(parts):
        return
    each = [((node.lineno, node.col_offset), names, node.iter if isinstance(node, ast.For) else node)]
    if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
        each = [(source_range(own)[0], (name,), own) for name, own in zip(names, value.elts, strict=True)]
    for begin, some, last in each:
        _, end = source_range(last)
        within = tuple(source_range(part) for part in ast.walk(last) if isinstance(part, INNER))
        yield AssignedNames(begin, end, some, isinstance(node, ast.For), within)


def is_object_construction(value: ast.expr | None) -> bool:
    """Whether an expression creates an instance of a class that is no tensor: ``Normal(mean, std)``."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, (ast.Name, ast.Attribute)):
        return False
    name = value.func.id if isinstance(value.func, ast.Name) else value.func.attr
    return CLASS.fullmatch(name) is not None and OF_TENSORS.fullmatch(name) is None


def source_range(node: ast.stmt | ast.expr) -> Span:
    """Return the source range of a node."""
    return (node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0)


@lru_cache(maxsize=512)
def find_enclosing_loop(file: str, first: int, last: int) -> str | None:
    """Return the head ``for x in xs`` of the innermost loop around the lines in one function, or None."""
    tree, text = parse_file(file)
    inner: ast.stmt | None = None
    for node in statements_around(tree, first, last):
        if isinstance(node, BODIES) and node.body[0].lineno <= first and last <= (node.body[-1].end_lineno or 0):
            inner = node
    if isinstance(inner, ast.For):
        return f"for {source_segment(inner.target, text)} in {source_segment(inner.iter, text)}"
    return f"while {source_segment(inner.test, text)}" if isinstance(inner, ast.While) else None


def source_segment(node: ast.expr, text: str) -> str:
    r"""Return the source text of an expression on one line, with 1e-9 as written, where Python would write 1e-09.

    >>> source_segment(ast.parse("f(1e-9 *\n  x)", mode="eval").body, "f(1e-9 *\n  x)")
    'f(1e-9 * x)'
    """
    return " ".join((ast.get_source_segment(text, node) or ast.unparse(node)).split())


def called_by_symgrad() -> bool:
    """Whether this runs inside symgrad's ``explain`` or ``check_backward``, called by the script."""
    frame: FrameType | None = sys._getframe(1)
    met = False
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE) and not file.startswith(HERE):
            met = True
        elif met and id(frame.f_code) in STARTS:
            return True  # what stands around the beginning runs the script
        frame = frame.f_back
    return False


def find_torch_variables(*names: str) -> tuple[Any, ...] | None:
    """Return the values of these variables in the nearest running function of torch that has them all."""
    for frame, _ in walk_stack(sys._getframe(1)):
        if is_internal_file(frame.f_code.co_filename) and set(names) <= frame.f_locals.keys():
            return tuple(frame.f_locals[name] for name in names)
    return None


def called_by_torch() -> bool:
    """Whether torch's code and not the user's is the caller, such as an optimizer that reads ``.grad``."""
    codes = (frame.f_code for frame, _ in walk_stack(sys._getframe(1)))
    outside = next((code for code in codes if not (code.co_filename.startswith(HERE) or code.co_name == MARK)), None)
    return outside is None or is_internal_file(outside.co_filename)
