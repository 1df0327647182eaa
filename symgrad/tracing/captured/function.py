"""Capture of one function: it runs once on copies of its arguments, and the record is lifted.

Comes in: a function or module and its arguments, or their text on a command line: ``package.module:function``, with
values by name. Goes out: a `Capture` whose inputs are the floating-point arguments and the used parameters, or an
error. A function named by text is imported and run in float64, so that a module's parameters have that dtype, and its
output goes to stderr, since stdout is for the explanation.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any

import numpy as np
import torch

from symgrad.errors import InputError, Setting, SymgradError, UnknownNameError, UnsupportedError, close_names
from symgrad.language import Value
from symgrad.numeric.exact import as_float
from symgrad.tracing.captured import Capture
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import detached_node, version
from symgrad.tracing.record.frame_names import argument_names, names_in_closure
from symgrad.tracing.record.isolation import exception_line
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.names import name_nodes
from symgrad.tracing.record.patching import record_calls
from symgrad.tracing.record.trace import Node, map_nested, tensors_in, upstream_nodes


@contextmanager
def check_differentiable_arguments() -> Iterator[None]:
    """Add a hint to torch's error if it has no gradient with respect to a floating-point argument."""
    try:
        yield
    except RuntimeError as error:
        told = re.search(r"not differentiable with respect to argument '(\w+)'", str(error))
        if told is None:
            raise
        raise InputError(
            f"torch has no gradient with respect to {told[1]}, but every floating-point argument is differentiated",
            found=(str(error),),
            hints=("tensors from outside its arguments are constants",),
        ) from error


@frames.mark_recording_start
def capture_function(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    named: Callable[[], Iterable[tuple[str, torch.Tensor]]] = tuple,
) -> Capture:
    """Run and capture ``fn``, as `symgrad.capture`; ``named`` returns names of inner tensors after the run."""
    if not callable(fn):
        raise InputError("capture takes a function or a module", found=(type(fn).__name__,))
    recorder, asked = Recorder(), frames.user_line()
    labels: dict[int, str] = {}
    declared: list[Node] = []
    copies: dict[int, Any] = {}

    def fresh(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if isinstance(value, torch.nn.Parameter) and value.requires_grad:
            return value
        if id(value) not in copies:
            copy = value.detach().clone()
            leaf = copy.requires_grad_(True) if copy.is_floating_point() or copy.is_complex() else copy
            copies[id(value)] = (leaf, leaf.clone() if leaf.requires_grad else leaf, value)
        return copies[id(value)][1]

    bound = argument_names(fn, args, kwargs)
    given, spoken = map_nested((args, kwargs), fresh)
    if args and isinstance(args[0], tuple) and hasattr(args[0], "_fields"):
        raise UnsupportedError("named tuples as arguments are not supported yet")
    for original, (leaf, inner, _) in copies.items():
        moves = leaf.requires_grad
        node = Node("leaf", inner.detach(), version(inner)) if moves else detached_node("data", inner, None)
        recorder.register(inner, node)
        labels[id(node)] = bound.get(original, "x")
        if moves:
            declared.append(node)
    with record_calls(recorder), torch.enable_grad(), check_differentiable_arguments():
        result = fn(*given, **spoken)
    for called, own in named():
        if recorder.knows(own):
            labels.setdefault(id(recorder.node_of(own)), called)
    found = list(tensors_in(_to_plain_containers(result)))
    if not found:
        raise InputError("the function returns no tensor", found=(type(result).__name__,))
    floating = [t for t in found if t.is_floating_point() or t.is_complex()]
    if not floating:
        raise InputError("the function returns only integers, which have no derivative", found=(str(found[0].dtype),))
    ends = [recorder.node_of(t) for t in floating]
    leaves = {id(t): name for name, t in names_in_closure(fn, args, kwargs)}
    order = upstream_nodes([*declared, *ends])
    for node in order:
        tensor = node.owner()
        if node.kind in ("leaf", "data") and tensor is not None and id(tensor) in leaves:
            labels.setdefault(id(node), leaves[id(tensor)])
    names = name_nodes(order, labels, leaves, outside=asked)
    for node in order:
        if node.owner() is not None:
            node.keep()  # somebody holds the tensor and may write into it later: the program stays what it is
    lifted = Lifter(names).lift(ends, declared)
    wanted = tuple(n for n, node in lifted.nodes.items() if node.kind == "leaf")
    title = getattr(fn, "__name__", None) or type(fn).__name__
    captured = Capture.of(lifted, wanted, title)
    captured.ready()
    return captured


def _to_plain_containers(result: Any) -> Any:
    """Return a result as nested containers; model outputs and data classes become dictionaries of their fields."""
    if isinstance(result, (torch.Tensor, tuple, list, dict)):
        return result
    if hasattr(result, "__dict__") and not isinstance(result, type):
        return dict(vars(result))
    return ()


Kind = inspect.Parameter


def capture_named(
    target: str,
    values: Mapping[str, Value],
    shapes: Mapping[str, Sequence[int | str]],
    wrt: Sequence[str] | None = None,
) -> Capture:
    """Import ``target`` and capture it.

    An input with a shape and no value is ones. ``wrt`` names the inputs to differentiate with respect to; integers
    among the others stay integers, so that an index or an axis can be passed.
    """
    with capture_environment():
        fn = find_target(target)
        given = {
            name: read_call_argument(name, values.get(name), shapes.get(name), wrt) for name in {**values, **shapes}
        }
        positional, spoken = arrange_arguments(target, fn, given)
        for name in wrt or ():
            if name not in given:
                raise UnknownNameError(f"there is no value for {name}", found=(f"given: {', '.join(given)}",))
        try:
            program = capture_function(fn, tuple(positional), spoken)
        except SymgradError:
            raise
        except (Exception, SystemExit) as error:
            only = "{} differentiates with respect to NAME only; integers among the others then stay integers"
            hints = (Setting("wrt", sentence=only),)
            whole = wrt is None and any(word in str(error).lower() for word in ("int", "long", "index"))
            raise InputError(
                f"{target} raised {type(error).__name__}", found=format_user_error(error), hints=hints if whole else ()
            ) from error
    if len(program.ends) > 1:
        raise InputError(
            f"{target} returns {len(program.ends)} tensors, but one output is explained at a time",
            found=(", ".join(program.outputs),),
            hints=("a function that returns one of them",),
        )
    return program


@contextmanager
def capture_environment() -> Iterator[None]:
    """Make the current folder importable and float64 the default dtype, and send printed output to stderr."""
    path, precision = sys.path[:], torch.get_default_dtype()
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 -- as `python -m` does, text
    torch.set_default_dtype(torch.float64)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path[:] = path
        torch.set_default_dtype(precision)


# The function ---------------------------------------------------------------------------------------------


def find_target(target: str, option: str = "--call ") -> Callable[..., Any]:
    """Import the function ``package.module:function``; ``option`` precedes it in messages, as on the command line."""
    form = f"{option}package.module:function"
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path or "/" in module_name or module_name.endswith(".py"):
        example = module_name.removesuffix(".py").replace("/", ".").strip(".") or "package.module"
        raise InputError(
            f"{option or 'this '}needs a module and a function in it",
            found=(target,),
            hints=(f"{option}{example}:{path or 'function'}",),
        )
    found: Any = import_user_module(module_name, form)
    seen = module_name
    for word in path.split("."):
        if not hasattr(found, word):
            names = [n for n in dir(found) if not n.startswith("_") and callable(getattr(found, n, None))]
            close = close_names(word, names, 3) or names[:3]
            raise UnknownNameError(
                f"{seen} has no {word}", found=(target,), hints=tuple(f"{option}{seen}:{n}" for n in close)
            )
        found, seen = getattr(found, word), f"{seen}:{word}" if ":" not in seen else f"{seen}.{word}"
    if isinstance(found, type) and (option or not issubclass(found, torch.autograd.Function)):  # a check takes those
        raise InputError(
            f"{path} is a class: {option or 'this '}needs a function or an instance",
            hints=(f"a function, or an instance of a module: net = Net(), then {option}…:net",),
        )
    if not callable(found):
        raise InputError(f"{path} is not a function", found=(f"it is of type {type(found).__name__}",), hints=(form,))
    return found  # type: ignore[no-any-return]  # whatever the module holds


def import_user_module(name: str, form: str) -> Any:
    """Import a module; raise `InputError` with the import's error."""
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        lacks = error.name if isinstance(error, ModuleNotFoundError) else None
        if lacks is None or not f"{name}.".startswith(f"{lacks}."):
            raise InputError(f"{name} cannot be imported", found=format_user_error(error)) from error
        raise InputError(
            f"there is no module {lacks}",
            found=(f"looked in {os.getcwd()} and where Python looks",),  # noqa: PTH109 -- shown as text
            hints=(form,),
        ) from error


def format_user_error(error: BaseException) -> tuple[str, ...]:
    """Return an exception in one line, and the user's line that raised it."""
    inner = frames.locate_error(error)
    return (
        exception_line(error),
        *([] if inner is None or not inner[0].text else [f"{inner[0].short}: {inner[0].text}"]),
    )


# The arguments --------------------------------------------------------------------------------------------


def read_call_argument(
    name: str, value: Value | None, shape: Sequence[int | str] | None, wrt: Sequence[str] | None
) -> torch.Tensor | int | float:
    """Return one argument; without a value it is ones."""
    sizes = None if shape is None else tuple(s for s in shape if isinstance(s, int))
    if sizes is not None and shape is not None and len(sizes) != len(shape):
        raise InputError(f"the shape of {name} needs numbers here: letters are not inferred", found=(f"{shape}",))
    if value is None:
        return torch.ones(sizes or ())
    size = value.shape if value.shape is not None else sizes
    if size is None:
        raise InputError(
            f"{value.text} has no shape of its own",
            hints=(Setting("shape", name, "2,3"), Setting("let", name, f"{value.text.partition('(')[0]}(2,3)")),
        )
    if sizes is not None and tuple(size) != sizes:
        raise InputError(f"the value of {name} does not have the shape that was given for it", found=(f"{size}",))
    array = value.array(tuple(size), name)
    if wrt is not None and name not in wrt and np.issubdtype(np.asarray(array).dtype, np.integer):
        return int(array) if not array.ndim else torch.as_tensor(array.copy())
    return torch.as_tensor(as_float(array).copy(), dtype=torch.float64)


def arrange_arguments(
    target: str, fn: Callable[..., Any], given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return positional and named arguments for ``fn``; raise if one is missing or unknown."""
    try:
        parameters = inspect.signature(fn.forward if isinstance(fn, torch.nn.Module) else fn).parameters
    except (TypeError, ValueError):
        return [], dict(given)  # a builtin: torch's take their arguments by name
    fixed = {n: p for n, p in parameters.items() if p.kind not in (Kind.VAR_POSITIONAL, Kind.VAR_KEYWORD)}
    free = any(p.kind is Kind.VAR_KEYWORD for p in parameters.values())
    unknown = [n for n in given if n not in fixed and not free]
    if unknown:
        raise UnknownNameError(
            f"{target} takes no {unknown[0]}", found=(f"it takes {', '.join(fixed) or 'nothing by name'}",)
        )
    missing = [n for n, p in fixed.items() if p.default is Kind.empty and n not in given]
    if missing:
        raise InputError(
            f"{target} needs a value for {' and '.join(missing)}",
            found=(f"given: {', '.join(given) or 'nothing'}",),
            hints=tuple(Setting("let", n, "randn(2,3)") for n in missing),
        )
    positional = [given[n] for n, p in fixed.items() if p.kind is Kind.POSITIONAL_ONLY and n in given]
    return positional, {n: v for n, v in given.items() if n not in fixed or fixed[n].kind is not Kind.POSITIONAL_ONLY}
