"""torch's own answer: the program run on leaf tensors in float64, and ``out.backward(v)``.

A step that is an equation, and no operation of torch's, is computed entry by entry on the grid of all its indices: each
index is a range along an axis of its own, an entry is an access at ranges, Σ a sum over an axis, with torch's own graph
behind it. Nothing is shared with `symgrad.numeric`: no contraction, no window, no order of operations but the text's.
An entry outside its tensor counts as 0, as in the equation: a condition beside it is 0 there. Where a condition does
not hold, what stands beside it is not computed at all: torch's way back through 1/0 would be NaN.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from operator import add, and_, attrgetter, eq, ge, gt, le, lt, mul, ne
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus.local_derivatives import derive_local, operand_name, standard
from symgrad.errors import InputError, UnsupportedError, bug
from symgrad.functions import Stable, side
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel, instantiate, is_constant
from symgrad.indexing.sums import is_condition
from symgrad.indexing.symbols import Expr, bound_indices, indices_of, is_access, name_of, ordered_indices
from symgrad.lowering.graph import check_grid
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward_pass import numbers, options_of
from symgrad.ops import auxiliary_letters, entry_named
from symgrad.ops.lookup import has_role
from symgrad.program import Operation, Program, Pullback, Role, Stated
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


def has_free_signs(program: Program) -> bool:
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
        leaves = torch_leaves(inputs, rest, kind)
        try:
            with warnings.catch_warnings(), torch.enable_grad():
                warnings.simplefilter("ignore")  # torch warns of what is said here anyway: 0/0, broadcast targets
                out = torch_forward(program, leaves)
                if out.requires_grad:
                    out.backward(torch.tensor(as_float(seed), dtype=out.dtype).reshape(out.shape))
        except REFUSALS as error:
            if str(error).startswith("symgrad bug"):
                raise
            if NO_ARGUMENT in str(error) and not data and (data := data_inputs(program) & {*wanted}):
                continue
            if all(np.size(array) for array in inputs.values()):
                raise InputError("torch refuses this at these numbers", found=(first_line(error),)) from error
            return TorchRun(np.zeros(0), {}, version, refusal=first_line(error))
        gradients = {n: g.numpy() if (g := leaves[n].grad) is not None else None for n in wanted}
        return TorchRun(np.asarray(out.detach().numpy()), gradients, version, data=data)


def torch_leaves(inputs: Mapping[str, Array], wanted: Collection[str], kind: str = "float64") -> dict[str, Any]:
    """The inputs as tensors of a ``kind``; those that are wanted collect gradients."""
    import torch

    return {
        name: torch.tensor(as_float(array), dtype=getattr(torch, kind), requires_grad=name in wanted)
        for name, array in inputs.items()
    }


NO_ARGUMENT = "is not differentiable with respect to argument"
"""What torch says of an operand that is only read and that requires a gradient."""


def data_inputs(program: Program) -> frozenset[str]:
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
        if not isinstance(step.op, Stated):
            tensors[step.result.name] = _computed(step.op, arguments, options_of(step, program.sizes))
            continue
        form = standard(step, program)
        sizes = {own: fill_sizes(size, program.sizes) for own, size in form.sizes.items()}
        operands = {operand_name(place): argument for place, argument in enumerate(arguments)}
        equation = instantiate(derive_local(form.key).equation, {}, sizes)
        tensors[step.result.name] = run_equation(equation, operands)
    return tensors[program.output]


def _computed(op: Operation, arguments: list[Any], options: Mapping[str, Any]) -> Any:
    """What a step computes; a pullback by torch's own backward of what it is the pullback of, to any order."""
    import torch

    if not isinstance(op, Pullback):
        return entry_named(op).torch(torch, *arguments, **options)
    weight, own = arguments[0], arguments[2 + len(auxiliary_letters(op.of)) :]
    read = own[op.position]
    moved = read.clone() if read.requires_grad else read.detach().requires_grad_()
    given = [moved if place == op.position else a for place, a in enumerate(own)]
    found = _computed(op.of, given, options)
    return torch.autograd.grad(found, moved, weight, create_graph=True, materialize_grads=True)[0]


RELATIONS: Mapping[Any, Any] = {sp.Eq: eq, sp.Ne: ne, sp.Lt: lt, sp.Le: le, sp.Gt: gt, sp.Ge: ge}
PLAIN = {
    **{name: name for name in ("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: name for name in ("asinh", "acosh", "atanh", "erf", "erfc", "sigmoid", "sign", "floor", "ceil", "trunc")},
    "loggamma": "lgamma", "ceiling": "ceil", "nearest": "round", "atan2": "atan2", "erfinv": "erfinv",
    **{name: f"special.{name}" for name in ("i0e", "i1e", "erfcx", "log_ndtr", "ndtri")},
}  # fmt: skip
"""What torch has under a name of its own; the rest is written in elementary terms."""
BESSEL = {0: "special.i0", 1: "special.i1"}
"""The orders of besseli that torch has."""


def run_equation(equation: Equation, tensors: Mapping[str, Any]) -> Any:
    """The value of ``equation``, whose sizes are numbers; raises `InputError` where the grid is too large."""
    indices = [*equation.axes, *ordered_indices(bound_indices(equation.right))]
    check_grid([int(index.size) for index in indices])
    grid = IndexGrid(indices, tensors, {})
    shape = [int(axis.size) for axis in equation.axes]
    whole = grid.of(equation.right).expand((*shape, *([1] * (grid.rank - len(shape)))))
    return whole.reshape(shape).to(grid.dtype, copy=True)


class IndexGrid:
    """The ranges of all indices, each along its own axis; those of ``chosen`` together along a last one, as points."""

    def __init__(self, indices: Sequence[Index], tensors: Mapping[str, Any], chosen: Mapping[Index, Any]) -> None:
        import torch

        self.torch, self.tensors, self.dtype, self.chosen = torch, tensors, torch.float64, chosen
        self.axis = {index: place for place, index in enumerate(indices)}
        self.rank = len(indices) + 1

    def of(self, node: Expr) -> Any:
        """A node as a tensor that broadcasts over the grid."""
        if node in self.chosen:
            return self.chosen[node].reshape([1] * (self.rank - 1) + [-1])
        if isinstance(node, Index):
            place = self.axis[node]
            shape = [1] * self.rank
            shape[place] = int(node.size)
            return self.torch.arange(int(node.size)).reshape(shape)
        if is_access(node):
            return self.entry(self.tensors[name_of(node)], [self.of(i) for i in indices_of(node)])
        if is_constant(node):
            return self.number(node)
        if isinstance(node, (sp.Sum, sp.Product)):
            return self.added(node)
        if node.is_Mul and any(map(is_condition, node.args)):
            return self.guarded([*filter(is_condition, node.args)], [f for f in node.args if not is_condition(f)])
        if node.is_Add or node.is_Mul:
            return reduce(add if node.is_Add else mul, map(self.of, node.args))
        if node.is_Pow:
            return self.power(node)
        if is_condition(node):
            return self.holds(node).to(self.dtype)
        return self.function(node)

    def holds(self, guard: Expr) -> Any:
        """Where a condition holds."""
        relation = guard.args[0] if isinstance(guard, Bracket) else sp.Eq(*guard.args, evaluate=False)
        return RELATIONS[relation.func](self.of(relation.lhs), self.of(relation.rhs))

    def guarded(self, guards: Sequence[Expr], factors: Sequence[Expr]) -> Any:
        """A product at the points where all ``guards`` hold, 0 at the others."""
        held = reduce(and_, map(self.holds, guards))
        if bool(held.all()):
            return self.of(sp.Mul(*factors)) * held.to(self.dtype)
        last = self.rank - 1
        for points in self.chosen.values():
            held = held.expand(*held.shape[:last], len(points))
        at = held.nonzero(as_tuple=True)
        spread = [n for n in range(self.rank) if held.shape[n] > 1]
        points = {index: points[at[last]] for index, points in self.chosen.items()}
        points |= {index: at[n] for index, n in self.axis.items() if n in spread}
        body = IndexGrid(list(self.axis), self.tensors, points).of(sp.Mul(*factors)).to(self.dtype)
        rest = [n for n in range(self.rank) if n not in spread]
        shape = [1 if n == last else body.shape[n] for n in rest]
        values = body.expand(*body.shape[:last], len(at[0])).movedim(-1, 0).reshape(-1, *shape)
        whole = self.torch.zeros([*(held.shape[n] for n in spread), *shape], dtype=self.dtype)
        if not spread:
            return whole + 0 * values.sum()
        whole = whole.index_put(tuple(at[n] for n in spread), values)
        return whole.permute([(spread + rest).index(n) for n in range(self.rank)])

    def number(self, node: Expr) -> Any:
        """A constant: whole numbers stay whole, because they may stand in an index."""
        value = int(node) if node.is_Integer else float(node) if node.is_extended_real else float("nan")
        return self.torch.tensor(value, dtype=None if node.is_Integer else self.dtype).reshape([1] * self.rank)

    def entry(self, tensor: Any, at: list[Any]) -> Any:
        """``tensor[at]``; 0 where that is outside."""
        if not at:
            return tensor.reshape([1] * self.rank)
        torch = self.torch
        places = [place.long() for place in at]
        inside = reduce(and_, ((p >= 0) & (p < size) for p, size in zip(places, tensor.shape, strict=True)))
        places = [p.clamp(0, max(size - 1, 0)) for p, size in zip(places, tensor.shape, strict=True)]
        found = tensor[tuple(torch.broadcast_tensors(*places))]
        return found if bool(inside.all()) else torch.where(inside, found, torch.zeros_like(found))

    def added(self, node: Expr) -> Any:
        """Σ and Π over the axes of their indices."""
        bound = {index for index, *_ in node.limits}
        free = {index: points for index, points in self.chosen.items() if index not in bound}
        body = IndexGrid(list(self.axis), self.tensors, free).of(node.function)
        for index, *_ in node.limits:
            place, size = self.axis[index], int(index.size)
            if isinstance(node, sp.Sum):
                grown = body if body.shape[place] == size else body * size
                body = grown.sum(place, keepdim=True)
            else:
                shape = [*body.shape]
                shape[place] = size
                body = body.expand(shape).prod(place, keepdim=True)
        return body

    def power(self, node: Expr) -> Any:
        """Roots, whole powers and the rest."""
        base, exponent = node.args
        if base == sp.E:
            return self.torch.exp(self.of(exponent).to(self.dtype))
        found = self.of(base).to(self.dtype)
        if exponent == sp.Rational(1, 2):
            return found.sqrt()
        if exponent == -sp.Rational(1, 2):
            return 1 / found.sqrt()
        if exponent.is_Integer and exponent < 0:
            return 1 / found ** int(-exponent)
        return found ** (float(exponent) if exponent.is_number else self.of(exponent))

    def function(self, node: Expr) -> Any:
        """A function by torch's name for it, or in elementary terms."""
        name = type(node).__name__
        if isinstance(node, sp.Mod):
            return self.of(node.args[0]) % self.of(node.args[1])
        if isinstance(node, Ravel):
            found: Any = 0
            for index, size in zip(node.indices, node.shape, strict=True):
                found = found * int(size) + self.of(index)
            return found
        if isinstance(node, Unravel):
            behind = sp.Mul(*node.shape[node.axis + 1 :])
            return self.of(node.number) // int(behind) % int(node.shape[node.axis])
        if isinstance(node, sp.floor) and node.args[0].is_rational:
            above, below = sp.fraction(sp.together(node.args[0]))
            return self.of(above) // self.of(below)
        arguments = [self.of(argument) for argument in node.args]
        if name in PLAIN:
            return self.called(PLAIN[name], *arguments)
        if isinstance(node, sp.polygamma):
            return self.torch.polygamma(int(node.args[0]), arguments[1].to(self.dtype))
        if isinstance(node, sp.besseli) and node.args[0] in BESSEL:
            return self.called(BESSEL[node.args[0]], arguments[1])
        if isinstance(node, sp.gamma):
            x = arguments[0].to(self.dtype)
            return x.lgamma().exp() * self.torch.where((x < 0) & (x.floor() % 2 != 0), -1, 1)
        if isinstance(node, side):
            return self.torch.copysign(self.torch.ones_like(arguments[0], dtype=self.dtype), arguments[0])
        if isinstance(node, Stable):
            return self.of(node.definition(node.args[0]))
        if isinstance(node, sp.Max | sp.Min):
            raise bug(f"{name} has no rule for ties")
        raise UnsupportedError(f"torch has no {node.func} of this order to compare with")

    def called(self, name: str, *arguments: Any) -> Any:
        """torch's function of numbers."""
        return attrgetter(name)(self.torch)(*(a.to(self.dtype) for a in arguments))
