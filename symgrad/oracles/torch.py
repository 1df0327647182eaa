"""torch's own answer: the program run on leaf tensors in float64, and ``out.backward(v)``.

The only place outside `symgrad.tracing` and `symgrad.testing` that imports torch, and only when called.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from symgrad.calculus.local import derive, operand, standard
from symgrad.errors import InputError
from symgrad.indexing import instantiate
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward import numbers, options_of
from symgrad.ops import Op, beside_letters, named
from symgrad.ops.entry import plays
from symgrad.oracles.report import NO_GRADIENT, NO_PATH
from symgrad.oracles.torch_equation import run_equation
from symgrad.oracles.torch_words import REFUSALS, in_its_own_words, turned
from symgrad.program import Apply, Operation, Program, Pullback, Role, Stated
from symgrad.shapes import with_numbers


@dataclass(frozen=True, eq=False)
class TorchRun:
    """What torch computed: the output and the gradient of every input asked for (None: no path).

    ``refusal`` is what torch said where it takes no tensors without entries, or none that are written over. ``turned``
    says that torch itself has vectors with other signs than symgrad's, which stand here.
    """

    output: Array
    gradients: Mapping[str, Array | None]
    version: str
    refusal: str = ""
    turned: bool = False


def first_line(error: Exception) -> str:
    """What an exception says, or is called where it says nothing."""
    return next(iter(str(error).splitlines()), type(error).__name__)


@cache
def torch_version() -> str | None:
    """The installed torch's version, or None; torch is not imported to find out."""
    if importlib.util.find_spec("torch") is None:
        return None
    from importlib import metadata  # loads the e-mail parser, among others

    return metadata.version("torch").split("+")[0]


def run_torch(
    program: Program, inputs: Mapping[str, Array], seed: Array, wanted: Sequence[str], kind: str = "float64"
) -> TorchRun | None:
    """``out.backward(v)`` by torch, of tensors of a ``kind``; None when torch is not installed."""
    if torch_version() is None:
        return None
    import torch

    version = torch.__version__.split("+")[0]
    leaves = leaves_of(inputs, wanted, kind)
    try:
        with warnings.catch_warnings(), torch.enable_grad():
            warnings.simplefilter("ignore")  # torch warns of what is said here anyway: 0/0, a target that broadcasts
            out, other_signs = signed_forward(program, leaves)
            if out.requires_grad:
                out.backward(torch.tensor(as_float(seed), dtype=out.dtype).reshape(out.shape))
    except REFUSALS as error:
        if str(error).startswith("symgrad bug"):
            raise
        if program.overwritten:
            run_torch(replace(program, overwritten=()), inputs, seed, wanted, kind)  # raises what else there is
            return TorchRun(np.zeros(0), {}, version, refusal=first_line(error).partition(":")[0])
        if program.written:  # torch.floor_divide has no backward of its own, its steps have
            return run_torch(replace(program, written={}), inputs, seed, wanted, kind)
        if all(np.size(array) for array in inputs.values()):
            raise InputError("torch refuses this at these numbers", found=(first_line(error),)) from error
        return TorchRun(np.zeros(0), {}, version, refusal=first_line(error))
    gradients = {name: None if leaves[name].grad is None else leaves[name].grad.numpy() for name in wanted}
    return TorchRun(np.asarray(out.detach().numpy()), gradients, version, turned=other_signs)


def torch_second(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str
) -> tuple[Array, str] | None:
    """∂²(Σ v·out) / ∂first ∂second by differentiating torch's backward (``create_graph=True``), and the version.

    A row for each entry of ``first``, a column for each of ``second``; None when torch is not installed.
    """
    if torch_version() is None:
        return None
    import torch

    program = replace(program, written={})  # a double backward is not implemented of every call, but of its steps
    leaves = leaves_of(inputs, (first, second))
    result = torch.zeros(leaves[first].numel(), leaves[second].numel(), dtype=torch.float64)
    out = torch_forward(program, leaves)
    total = (torch.tensor(as_float(seed), dtype=torch.float64).reshape(out.shape) * out).sum()
    gradient = None
    if total.requires_grad:
        (gradient,) = torch.autograd.grad(total, leaves[first], create_graph=True, allow_unused=True)
    if gradient is not None and gradient.requires_grad:
        for row, entry in enumerate(gradient.reshape(-1)):
            (found,) = torch.autograd.grad(entry, leaves[second], retain_graph=True, allow_unused=True)
            if found is not None:
                result[row] = found.reshape(-1)
    return np.asarray(result.numpy()), torch.__version__.split("+")[0]


def leaves_of(inputs: Mapping[str, Array], wanted: Sequence[str], kind: str = "float64") -> dict[str, Any]:
    """The inputs as tensors of a ``kind``; those that are wanted collect gradients."""
    import torch

    return {
        name: torch.tensor(as_float(array), dtype=getattr(torch, kind), requires_grad=name in wanted)
        for name, array in inputs.items()
    }


def why_none(program: Program, inputs: Mapping[str, Array], name: str) -> str:
    """Why an input has no gradient: torch sees no path to it, or takes it as data alone, as the weights of a loss."""
    try:
        signed_forward(program, leaves_of(inputs, (name,)), by=_as_given)
    except RuntimeError as error:
        return NO_GRADIENT if NO_ARGUMENT in str(error) else NO_PATH
    return NO_PATH


def torch_forward(program: Program, leaves: Mapping[str, Any]) -> Any:
    """The output of ``program``."""
    return signed_forward(replace(program, overwritten=()), leaves)[0]


NO_ARGUMENT = "is not differentiable with respect to argument"
"""What torch says of an operand that is only read and that requires a gradient."""
By = Callable[[Op, list[Any], Mapping[str, Any]], Any]


def signed_forward(program: Program, leaves: Mapping[str, Any], by: By | None = None) -> tuple[Any, bool]:
    """The output by the table's torch column, one step ``by`` a function, or by the text's own call for several steps.

    Vectors of which no sign is anybody's choice have that of the table; whether torch has one otherwise is said beside.
    """
    import torch

    tensors, signless, any_turned = dict(leaves), set[str](), False
    waiting = list(program.overwritten)
    for step in program.forward_steps:
        for name, span in [over for over in waiting if over[0] in step.tensors and over[1] == step.span]:
            waiting.remove((name, span))
            if tensors[name].grad_fn is not None:  # of a leaf the text's remark speaks
                tensors[name].add_(0)
        if plays(step.op, Role.TURNS) or (step.tensors and signless.issuperset(step.arguments)):
            signless.add(step.result.name)
        arguments = [
            tensors[a] if isinstance(a, str) else None if a.value is None
            else torch.tensor(float(numbers(a.value, program.sizes)), dtype=torch.float64)
            for a in step.arguments
        ]  # fmt: skip
        if isinstance(step.op, Stated):
            tensors[step.result.name] = _stated(step, program, arguments)
        else:
            tensors[step.result.name] = _computed(step.op, arguments, options_of(step, program.sizes), by or _step)
        call, by_steps = program.written.get(step.result.name), tensors[step.result.name]
        if call is not None:
            own = in_its_own_words(call, tensors, by_steps, program.sizes)
            other_signs = step.result.name in signless and turned(own, by_steps)
            tensors[step.result.name] = by_steps if other_signs else own
            any_turned |= other_signs
    return tensors[program.output], any_turned


def _stated(step: Apply, program: Program, arguments: list[Any]) -> Any:
    """What a step computes that is an equation: torch runs the equation itself."""
    import torch

    form = standard(step, program)
    equation = derive(form.key).equation
    whole = instantiate(equation, {}, {own: with_numbers(size, program.sizes) for own, size in form.sizes.items()})
    tensors = {operand(place): argument for place, argument in enumerate(arguments)}
    return run_equation(whole, tensors, torch.float64)


def _computed(op: Operation, arguments: list[Any], options: Mapping[str, Any], by: By) -> Any:
    """What a step computes; a pullback by torch's own backward of what it is the pullback of, to any order."""
    import torch

    if not isinstance(op, Pullback):
        return by(named(op), arguments, options)
    weight, own = arguments[0], arguments[2 + len(beside_letters(op.of)) :]
    operand = own[op.position]
    moved = operand.clone() if operand.requires_grad else operand.detach().requires_grad_()
    given = [moved if place == op.position else a for place, a in enumerate(own)]
    found = _computed(op.of, given, options, by)
    return torch.autograd.grad(found, moved, weight, create_graph=True, materialize_grads=True)[0]


def _as_given(op: Op, arguments: list[Any], options: Mapping[str, Any]) -> Any:
    """One call, as it is."""
    import torch

    return op.torch(torch, *arguments, **options)


def _step(op: Op, arguments: list[Any], options: Mapping[str, Any]) -> Any:
    """One call; operands that are only read leave the graph where torch refuses them in it."""
    try:
        return _as_given(op, arguments, options)
    except RuntimeError as error:
        if NO_ARGUMENT not in str(error):
            raise
    read = {place for place, name in enumerate(op.operands) if name in op.data}
    return _as_given(op, [a.detach() if a is not None and n in read else a for n, a in enumerate(arguments)], options)
