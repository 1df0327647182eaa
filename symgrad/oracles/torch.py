"""torch's own answer: the program run on leaf tensors in float64, and ``out.backward(v)``.

The only place outside `symgrad.tracing` and `symgrad.testing` that imports torch, and only when called.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from symgrad.calculus.local_derivatives import derive_local, operand_name, standard
from symgrad.errors import InputError
from symgrad.indexing import instantiate
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward_pass import numbers, options_of
from symgrad.ops import auxiliary_letters, entry_named
from symgrad.ops.lookup import has_role
from symgrad.oracles.torch_equation import run_equation
from symgrad.program import Apply, Operation, Program, Pullback, Role, Stated
from symgrad.shapes import fill_sizes

REFUSALS = (RuntimeError, LookupError, ValueError, TypeError, AssertionError, ArithmeticError)
"""What torch's own calls raise: an assertion of F.embedding's, a division by 0 of F.lp_pool2d's."""


@dataclass(frozen=True, eq=False)
class TorchRun:
    """What torch computed: the output and the gradient of every input asked for (None: no path).

    ``text`` says that the user's own text was run; ``unread`` why it was not, and the steps were that were read of it;
    ``numpys`` that the output is NumPy's. ``refused`` are torch's words where it refuses the text, ``dialect`` that
    it takes other arguments; ``refusal`` are its words where it takes no empty tensors, or has no derivative.
    ``turned`` says that torch itself has vectors with other signs than symgrad's, which stand here; ``data`` are inputs
    that torch takes as data alone, ``kept`` casts that kept all digits.
    """

    output: Any
    gradients: Mapping[str, Array | None]
    version: str
    refusal: str = ""
    turned: bool = False
    text: bool = False
    unread: str = ""
    numpys: bool = False
    refused: str = ""
    dialect: bool = False
    data: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()


TURNED = "signs of vectors as symgrad chooses them"
"""Why torch is asked for the steps where it has another sign of an eigenvector, which nobody chose."""


def turns(program: Program) -> bool:
    """Whether vectors are computed whose sign is nobody's choice."""
    return any(has_role(step.op, Role.TURNS) for step in program.steps)


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

    version, data = torch.__version__.split("+")[0], frozenset[str]()
    while True:
        rest = [name for name in wanted if name not in data]
        leaves = leaves_of(inputs, rest, kind)
        try:
            with warnings.catch_warnings(), torch.enable_grad():
                warnings.simplefilter("ignore")  # torch warns of what is said here anyway: 0/0, broadcast targets
                out = torch_forward(program, leaves)
                if out.requires_grad:
                    out.backward(torch.tensor(as_float(seed), dtype=out.dtype).reshape(out.shape))
        except REFUSALS as error:
            if str(error).startswith("symgrad bug"):
                raise
            if NO_ARGUMENT in str(error) and not data and (data := only_data(program) & {*wanted}):
                continue
            if all(np.size(array) for array in inputs.values()):
                raise InputError("torch refuses this at these numbers", found=(first_line(error),)) from error
            return TorchRun(np.zeros(0), {}, version, refusal=first_line(error))
        gradients = {n: g.numpy() if (g := leaves[n].grad) is not None else None for n in wanted}
        return TorchRun(np.asarray(out.detach().numpy()), gradients, version, data=data)


def leaves_of(inputs: Mapping[str, Array], wanted: Collection[str], kind: str = "float64") -> dict[str, Any]:
    """The inputs as tensors of a ``kind``; those that are wanted collect gradients."""
    import torch

    return {
        name: torch.tensor(as_float(array), dtype=getattr(torch, kind), requires_grad=name in wanted)
        for name, array in inputs.items()
    }


NO_ARGUMENT = "is not differentiable with respect to argument"
"""What torch says of an operand that is only read and that requires a gradient."""


def only_data(program: Program) -> frozenset[str]:
    """Inputs that are only read, as classes, weights of a loss or statistics: nothing flows back to them."""
    live = {program.output}
    for step in reversed(program.steps):
        if step.result.name in live:
            op = entry_named(step.op)
            read = [name in op.data for name in op.operands]
            live |= {a for n, a in enumerate(step.arguments) if isinstance(a, str) and (op.variadic or not read[n])}
    return frozenset(t.name for t in program.inputs) - live


def torch_forward(program: Program, leaves: Mapping[str, Any]) -> Any:
    """The output by the table's torch column, one step a function; vectors have the signs of the table."""
    import torch

    tensors = dict(leaves)
    for step in program.forward_steps:
        arguments = [
            tensors[a] if isinstance(a, str) else None if a.value is None
            else torch.tensor(float(numbers(a.value, program.sizes)), dtype=torch.float64)
            for a in step.arguments
        ]  # fmt: skip
        if isinstance(step.op, Stated):
            tensors[step.result.name] = _stated(step, program, arguments)
        else:
            tensors[step.result.name] = _computed(step.op, arguments, options_of(step, program.sizes))
    return tensors[program.output]


def torch_hessian(program: Program, inputs: Mapping[str, Array], seed: Array, name: str) -> Array | None:
    """``torch.func.hessian`` of Σ v·out by one input; None where torch has no forward rule for it."""
    import torch

    leaves, weights = leaves_of(inputs, {name}), torch.tensor(as_float(seed))

    def total(moved: Any) -> Any:
        out = torch_forward(program, {**leaves, name: moved})
        return (weights.reshape(out.shape) * out).sum()

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(torch.func.hessian(total)(leaves[name].detach()).detach().numpy())
    except REFUSALS:  # or a step looks at its numbers
        return None


def _stated(step: Apply, program: Program, arguments: list[Any]) -> Any:
    """What a step computes that is an equation: torch runs the equation itself."""
    import torch

    form = standard(step, program)
    equation = derive_local(form.key).equation
    whole = instantiate(equation, {}, {own: fill_sizes(size, program.sizes) for own, size in form.sizes.items()})
    tensors = {operand_name(place): argument for place, argument in enumerate(arguments)}
    return run_equation(whole, tensors, torch.float64)


def _computed(op: Operation, arguments: list[Any], options: Mapping[str, Any]) -> Any:
    """What a step computes; a pullback by torch's own backward of what it is the pullback of, to any order."""
    import torch

    if not isinstance(op, Pullback):
        return entry_named(op).torch(torch, *arguments, **options)
    weight, own = arguments[0], arguments[2 + len(auxiliary_letters(op.of)) :]
    operand = own[op.position]
    moved = operand.clone() if operand.requires_grad else operand.detach().requires_grad_()
    given = [moved if place == op.position else a for place, a in enumerate(own)]
    found = _computed(op.of, given, options)
    return torch.autograd.grad(found, moved, weight, create_graph=True, materialize_grads=True)[0]
