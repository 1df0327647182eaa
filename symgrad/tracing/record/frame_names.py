"""Names of the tensors in scope: variables, arguments, parameters of modules, attributes of objects.

Comes in: a frame, or a function and its arguments. Goes out: names by the ids of tensors. None of the user's code
runs: attributes are read from ``__dict__``, so that no property is called.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import FrameType, ModuleType
from typing import Any

import torch
from torch.nn import Module

from symgrad.ops.lookup import find
from symgrad.tracing.record import frames
from symgrad.tracing.record.trace import ModuleCall, Node, holds_same_numbers

MANY, DEEP = 64, 3
"""The largest number of parts of one object that are read, and the largest depth."""
NUMBERED = re.compile(r"\.(\d+)(?=\.|$)")
"""Matches the number of a module in a list, in its path."""
PLACES = [f"[{n}]" for n in range(MANY)]
PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
"""Types without parts, which most attributes have."""


def names_in_sight(start: FrameType | None) -> dict[int, str]:
    """Return the names of the tensors in scope by id: variables, parameters of modules, loop variables last."""
    found: dict[int, str] = {}
    modules: list[tuple[str, Any]] = []
    left: list[tuple[str, Any]] = []
    held: list[tuple[str, Any]] = []
    for frame in frames.frames_of_watched_script(start):
        scopes = [frame.f_locals] if frame.f_locals is frame.f_globals else [frame.f_locals, frame.f_globals]
        over = find_loop_only_names(frame.f_code.co_filename, frame.f_lineno)
        for scope in scopes:
            for name, value in list(scope.items()):
                if name in over and not isinstance(value, Module):
                    left.append((name, value))
                elif name.strip("_") and not name.startswith("__"):  # _ says that nobody wants it
                    collect_variable(name, value, found, modules)
                    held.append((name, value))
    single = len({id(m) for _, m in modules}) == 1
    for name, module in modules:
        for path, part in module_members(module):
            found.setdefault(id(part), name_module_member(name, path, short=single))
    given = len(modules)
    for name, value in left:
        collect_variable(name, value, found, modules)
    for name, value in held:
        reach_tensors(name, value, found)
    for name, module in modules[:given]:
        reach_tensors("" if single else name, module, found)
    return found


def module_tensors(module: Any) -> list[tuple[str, Any]]:
    """Return a module's parameters and buffers with their paths, without calling overrides of the user's class."""
    listed = (Module.named_parameters, Module.named_buffers)
    return [found for each in listed for found in each(module, remove_duplicate=False)]


def module_members(module: Any) -> list[tuple[str, Any]]:
    """Return `module_tensors`, then the module, with an empty path, and its submodules."""
    return [*module_tensors(module), *Module.named_modules(module)]


def name_module_member(name: str, path: str, short: bool = False) -> str:
    """Return the name of a module's part as Python text; ``short`` leaves out the module's name if possible.

    >>> name_module_member("net", "0.weight")
    'net[0].weight'
    >>> name_module_member("net", "layers.1.bias", short=True), name_module_member("net", "0.weight", short=True)
    ('layers[1].bias', 'net[0].weight')
    """
    whole = NUMBERED.sub(r"[\1]", f"{name}.{path.replace(frames.COMPILED_PREFIX, '')}".rstrip("."))
    return whole.removeprefix(f"{name}.") if short else whole


def find_buffers(start: FrameType | None) -> frozenset[int]:
    """Return the ids of the buffers of the modules in scope."""
    values = [
        value
        for frame in frames.frames_of_watched_script(start)
        for scope in (frame.f_locals, frame.f_globals)
        for value in scope.values()
    ]
    modules = {id(value): value for value in values if isinstance(value, Module)}
    return frozenset(id(tensor) for module in modules.values() for tensor in module.buffers())


def find_loop_only_names(file: str, line: int) -> frozenset[str]:
    """Return the names that only loops elsewhere bind, such as ``p`` after ``for p in net.parameters()``.

    Names that a function binds count in its own lines.
    """
    loops, others = index_bound_names(file)
    here = {name for names, first, last in (*loops, *others) if first <= line <= last for name in names}
    return frozenset(name for names, *_ in loops for name in names) - here


Bound = tuple[tuple[frozenset[str], int, int], ...]
"""Names, with the first and the last line in which they are bound."""


@lru_cache(maxsize=64)
def index_bound_names(file: str) -> tuple[Bound, Bound]:
    """Return the names that each loop of a file binds, with its lines, and those that other statements bind."""
    nodes = list(ast.walk(frames.parse_file(file)[0]))
    targets = [
        (node, frozenset(n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)))
        for node in nodes
        if isinstance(node, (ast.For, ast.AsyncFor))
    ]
    inside = [node.target for node in nodes if isinstance(node, ast.comprehension)]  # binds nothing outside of it
    bound = {id(name) for target in (*(node.target for node, _ in targets), *inside) for name in ast.walk(target)}
    scopes = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    local = {id(part) for scope in scopes for part in ast.walk(scope) if part is not scope}
    loops = tuple((names, *line_range(node)) for node, names in targets)
    turns = [line_range(node) for node in nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.While))]
    outside = [
        (frozenset({node.id}), min([node.lineno, *(a for a, b in turns if a <= node.lineno <= b)]), sys.maxsize)
        for node in nodes
        if id(node) not in local and isinstance(node, ast.Name) and names_bound_outside([node], bound)
    ]  # from its line on, or from the loop's that comes back to it
    inner = ((names_bound_outside(ast.walk(scope), bound), *line_range(scope)) for scope in scopes)
    return loops, (*outside, *inner)


def names_bound_outside(nodes: Iterable[ast.AST], bound: Collection[int]) -> frozenset[str]:
    """Return the names that nodes bind, without those ``bound`` by loops."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in bound:
            found.add(node.id)
    return frozenset(found)


def line_range(node: ast.stmt | ast.expr) -> tuple[int, int]:
    """Return the first and the last line of a node."""
    return node.lineno, node.end_lineno or node.lineno


def collect_variable(name: str, value: Any, found: dict[int, str], modules: list[tuple[str, Any]]) -> None:
    """Add the names of one variable: a tensor, a module, or a small container of tensors."""
    if isinstance(value, Module):
        if all(module is not value for _, module in modules) and module_tensors(value):
            modules.append((name, value))
    elif isinstance(value, (torch.Tensor, list, tuple, dict)):
        reach_tensors(name, value, found, 1)


def reach_tensors(
    name: str, value: Any, found: dict[int, str], depth: int = DEEP, seen: frozenset[int] = frozenset()
) -> None:
    """Add the names of the tensors inside ``value`` as Python text: ``self.actor.weight``, ``layers[0].w``, ``b.x``."""
    if isinstance(value, torch.Tensor):
        found.setdefault(id(value), name)
        return
    if depth == 0 or id(value) in seen:
        return
    if isinstance(value, Module) and name:
        for path, part in module_members(value):
            found.setdefault(id(part), name_module_member(name, path))
    for step, part in list_members(value):
        if type(part) in PLAIN:
            continue
        reach_tensors(f"{name}{step}" if name else step.lstrip("."), part, found, depth - 1, seen | {id(value)})


def list_members(value: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over the parts of a container or a user's object, each with the text that reads it."""
    if isinstance(value, (list, tuple)):
        fields = getattr(type(value), "_fields", ())
        steps = [f".{field}" for field in fields] if fields else PLACES
        yield from zip(steps, value, strict=False)
    elif isinstance(value, dict):
        keyed = (pair for pair in islice(value.items(), MANY) if isinstance(pair[0], (str, int)))
        yield from ((f"[{key!r}]", part) for key, part in keyed)
    elif has_user_attributes(value):
        held = (pair for pair in islice(list(vars(value).items()), MANY) if not pair[0].startswith("_"))
        yield from ((f".{attribute}", part) for attribute, part in held)


def has_user_attributes(value: Any) -> bool:
    """Whether a value has attributes of the user's: it is no class, no Python module and no library's object."""
    home = str(type(value).__module__)
    ours = home.partition(".")[0] not in LIBRARIES or home.startswith(TELLING) or isinstance(value, Module)
    return ours and not isinstance(value, (type, ModuleType)) and isinstance(getattr(value, "__dict__", None), dict)


LIBRARIES, TELLING = frozenset({"torch", "symgrad", "symgrad_cli", "numpy", "builtins"}), "torch.distributions"
"""Libraries whose objects are not read, and the part of torch whose objects are."""


def names_in_closure(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Iterate over the modules, parameters, buffers and tensors that the function can read, with their names."""
    around = (fn, getattr(fn, "__self__", None), *args, *kwargs.values())
    modules = [("", value) for value in around if isinstance(value, Module)]
    inner = inspect.unwrap(fn) if not isinstance(fn, Module) else None
    if isinstance(inner, types.FunctionType):
        seen = inspect.getclosurevars(inner)
        for name, value in (*seen.nonlocals.items(), *seen.globals.items()):
            if isinstance(value, Module):
                modules.append((name, value))
            elif isinstance(value, torch.Tensor):
                yield name, value
            elif isinstance(value, (list, tuple)):
                for n, part in enumerate(value):
                    if isinstance(part, torch.Tensor):
                        yield f"{name}[{n}]", part
    single = len(modules) == 1
    for prefix, module in modules:
        for path, part in reversed(module_members(module)):  # of two names the first is kept
            if path:
                yield (path if single or not prefix else f"{prefix}.{path}"), part


def argument_names(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[int, str]:
    """Return the name of each tensor argument by id; the first name if a tensor is passed twice."""
    found: dict[int, str] = {}
    for name, value in name_arguments(function, args, keywords):
        for part, tensor in name_argument_tensors(name, value):
            found.setdefault(id(tensor), part)
    return found


def name_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Iterate over the arguments with their parameters' names (a module's: those of forward), or numbered names."""
    target = function.forward if isinstance(function, Module) else function
    try:
        bound = inspect.signature(target).bind(*args, **keywords)
    except (TypeError, ValueError):
        yield from ((f"x{n + 1}" if n else "x", value) for n, value in enumerate(args))
        yield from keywords.items()
        return
    for name, value in bound.arguments.items():
        if bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def name_argument_tensors(name: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Iterate over the tensors inside one argument, with their names."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (tuple, list)):
        for n, part in enumerate(value):
            yield from name_argument_tensors(f"{name}[{n}]", part)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from name_argument_tensors(f"{name}.{key}", part)


def parameter_at(function: Any, place: int) -> str | None:
    """Return the name of a function's parameter at a position, or None."""
    try:
        names = [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return None
    return names[place] if place < len(names) else None


def note_module_arguments(tensors: Sequence[Any], nodes: Mapping[int, Node], calls: Sequence[ModuleCall]) -> None:
    """Store in each tensor's node the module calls of which it is an argument."""
    for tensor in tensors if calls else ():
        node = nodes[id(tensor)]
        if not node.passed:
            node.passed = tuple([(call, call.passed[id(tensor)]) for call in calls if id(tensor) in call.passed])


def name_module_arguments(order: Sequence[Node], in_sight: Mapping[int, str]) -> dict[int, str]:
    """Return names ``fc2.input`` of module arguments; data gets the parameter's name alone, also of a function."""
    found: dict[int, str] = {}
    for node in order:
        function = None if node.call is None else node.call.function
        for at, part in (
            enumerate(node.call.arguments) if node.call and isinstance(function, types.FunctionType) else ()
        ):
            if isinstance(part, Node) and part.kind == "data":
                found.setdefault(id(part), parameter_at(function, at) or "data")
        for call, place in node.passed[::-1]:
            module = call.module()
            own = place if isinstance(place, str) else parameter_at(getattr(module, "forward", None), place)
            if own is None or id(module) not in in_sight:
                continue
            found[id(node)] = own if node.kind == "data" else f"{in_sight[id(module)]}.{own}"
    return found


COPY = "out = x"
"""The equation of a copy."""


def name_cloned_buffers(order: Sequence[Node], in_sight: Mapping[int, str]) -> dict[int, str]:
    """Return names of data that is an equal copy of a tensor in scope, such as a buffer that a layer cloned."""
    found: dict[int, str] = {}
    for node in order:
        source = node.made_of() if node.kind == "data" else None
        if source is None or id(source) not in in_sight or source.shape != node.held.shape:
            continue
        op = find(node.made_by)
        if op is not None and op.definition == COPY and holds_same_numbers(node.held, source):
            found[id(node)] = in_sight[id(source)]
    return found
