"""Capturing one function: run it once on copies of its arguments, and lift what was seen.

Comes in: a function or module and its arguments. Goes out: a `Capture` whose inputs are the floating arguments
and the parameters that were used.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch.jit._builtins import _find_builtin, _register_builtin

from symgrad.errors import InputError, UnsupportedError
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.record import frames, graph_breaks
from symgrad.tracing.record.backward_args import argument_names
from symgrad.tracing.record.frame_names import module_tensors
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.names import name_nodes
from symgrad.tracing.record.spelling import Facts, has_own_override
from symgrad.tracing.record.trace import Node, SourceLine, map_nested, tensors_in, upstream_nodes


def active_modes() -> list[Any]:
    """The modes that are on in this thread."""
    return list(torch.overrides._get_current_function_mode_stack())  # type: ignore[no-untyped-call]  # torch's gap


def has_no_foreign_override(args: Iterable[Any]) -> bool:
    """``has_torch_function`` as attention asks it before it takes its fast path: a mode that only looks on is none."""
    return has_own_override(tuple({type(t) for t in args if isinstance(t, torch.Tensor)}))


_register_builtin(has_no_foreign_override, _find_builtin(torch.overrides.has_torch_function))  # type: ignore[no-untyped-call]  # torch.jit takes it for torch's


@contextmanager
def record_calls(recorder: Recorder) -> Iterator[Recorder]:
    """Record everything; the user's own ``autograd.Function`` classes and scripted functions as one call each."""
    base, scripted = torch.autograd.Function, torch._C.ScriptFunction
    original, compiled = base.__dict__["apply"], scripted.__call__

    def one_call(bare: Any, spelling: str, custom: bool, args: Any, kwargs: Any) -> Any:
        def run() -> Any:
            return bare(*args, **kwargs)

        if recorder not in active_modes() or recorder.paused or (recorder.inside is None and recorder.abroad()):
            return run()
        known = Facts(spelling, False, True, True, False, None, custom=custom)
        return recorder.record(bare, known, args, kwargs, run)

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return one_call(original.__get__(None, cls), f"{cls.__qualname__}.apply", True, args, kwargs)

    def variable(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return one_call(partial(type.__call__, cls), graph_breaks.VARIABLE, False, args, kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return one_call(compiled.__get__(self), self.name, False, args, kwargs)

    aside = recorder.stand_ins
    with (
        aside.put(
            (base, "apply", classmethod(apply)),
            (scripted, "__call__", call),
            (type(torch.autograd.Variable), "__call__", variable),
            (torch.overrides, "has_torch_function", has_no_foreign_override),
        ),
        aside.watching_dynamo(),
        aside.on(),
    ):
        yield recorder


@contextmanager
def check_differentiable_arguments() -> Iterator[None]:
    """Every argument of decimals is differentiated by; where torch has no gradient by one, what would do is said."""
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
def capture_function(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Capture:
    """`symgrad.capture`."""
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
        node = (
            Node("leaf", inner.detach(), int(inner._version), owner=None)
            if leaf.requires_grad
            else (recorder.data(inner, None, None))
        )
        recorder.register(inner, node)
        labels[id(node)] = bound.get(original, "x")
        if leaf.requires_grad:
            declared.append(node)
    with record_calls(recorder), torch.enable_grad(), check_differentiable_arguments():
        result = fn(*given, **spoken)
    found = list(tensors_in(_to_plain_containers(result)))
    if not found:
        raise InputError("the function returns no tensor", found=(type(result).__name__,))
    floating = [t for t in found if t.is_floating_point() or t.is_complex()]
    if not floating:
        raise InputError("the function returns only integers, which have no derivative", found=(str(found[0].dtype),))
    ends = [recorder.node_of(t) for t in floating]
    leaves = {id(t): name for name, t in _collect_known_names(fn, args, kwargs)}
    order = upstream_nodes([*declared, *ends])
    for node in order:
        tensor = node.owner() if node.owner is not None else None
        if node.kind in ("leaf", "data") and tensor is not None and id(tensor) in leaves:
            labels.setdefault(id(node), leaves[id(tensor)])
    names = name_nodes(order, labels, {}, outside=asked)
    for node in order:
        if node.owner is not None and node.owner() is not None:
            node.keep()  # somebody holds the tensor and may write into it later: the program stays what it is
    lifted = Lifter(names).lift(ends, declared)
    wanted = tuple(n for n, node in lifted.nodes.items() if node.kind == "leaf")
    title = getattr(fn, "__name__", None) or type(fn).__name__
    captured = Capture.of(lifted, wanted, title)
    captured.ready()
    return captured


def _to_plain_containers(result: Any) -> Any:
    """A result as nested containers: model outputs and data classes by their fields."""
    if isinstance(result, (torch.Tensor, tuple, list, dict)):
        return result
    if hasattr(result, "__dict__") and not isinstance(result, type):
        return dict(vars(result))
    return ()


def _collect_known_names(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Parameters, buffers and tensors that the function can see, under their names."""
    modules: list[tuple[str, Any]] = []
    if isinstance(fn, torch.nn.Module):
        modules.append(("", fn))
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        modules.append(("", owner))
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.nn.Module):
            modules.append(("", value))
    inner = inspect.unwrap(fn) if not isinstance(fn, torch.nn.Module) else None
    if isinstance(inner, types.FunctionType):
        seen = inspect.getclosurevars(inner)
        for name, value in (*seen.nonlocals.items(), *seen.globals.items()):
            if isinstance(value, torch.nn.Module):
                modules.append((name, value))
            elif isinstance(value, torch.Tensor):
                yield name, value
            elif isinstance(value, (list, tuple)):
                for n, part in enumerate(value):
                    if isinstance(part, torch.Tensor):
                        yield f"{name}[{n}]", part
    single = len(modules) == 1
    for prefix, module in modules:
        for path, tensor in reversed(module_tensors(module)):  # of two names the first is kept
            yield (path if single or not prefix else f"{prefix}.{path}"), tensor


__all__ = ["SourceLine"]
