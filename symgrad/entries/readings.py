"""Equations of elementwise entries, the functions that equations may use, and torch's call for the same numbers.

Comes in: the text, operands and options. Goes out: the right-hand side in SymPy at the output's indices. A text is
parsed at its first use, once in a process. Equations may use every pointwise entry of the table and the scalar
functions of `symgrad.functions`: ``gelu(x[i])`` has the table's definition, kinks and stable evaluation, so a printed
formula can be read back. torch's function is called by a spelling, with operands and options in torch's order; its
result is an independent reference for the equation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.operands import common_shape, exact_number
from symgrad.entries.signatures import CallPattern
from symgrad.entries.spec import TABLE, At, Definition, HeldTensor, Op, Options, View
from symgrad.errors import InputError, NotationError, ShapeError, bug
from symgrad.functions import ALSO, PRIMITIVES
from symgrad.indexing import unravel
from symgrad.indexing.symbols import Expr
from symgrad.notation.meaning import EquationFunction, EquationMeaning, function_from_sympy, function_with_options
from symgrad.notation.read_write import read_statement
from symgrad.notation.scope import inline_definitions
from symgrad.notation.tree import Access, Binary, IndexEquation, Name, Negative, SyntaxNode, rebuild_node
from symgrad.shapes import Shape


class EquationFunctions(Mapping[str, EquationFunction]):
    """The functions of equations by name, each built at its first use."""

    def __getitem__(self, name: str) -> EquationFunction:
        if (found := equation_function(name)) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in dict.fromkeys((*TABLE, *PRIMITIVES, *ALSO)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=1)
def equation_functions() -> Mapping[str, EquationFunction]:
    """Return the functions that an equation may use, by name."""
    return EquationFunctions()


@lru_cache(maxsize=1024)
def equation_function(name: str) -> EquationFunction | None:
    """Return the function of this name: SymPy's, or a pointwise entry; None if neither exists."""
    name = ALSO.get(name, name)
    if name in PRIMITIVES:
        return function_from_sympy(PRIMITIVES[name][0])
    op = TABLE.get(name)
    if op is None or op.rules.shape is not common_shape or op.saved.names or op.variadic:
        return None
    return function_from_entry(op)


def function_from_entry(op: Op) -> EquationFunction:
    """Return a pointwise entry as a function of numbers: operands, then options with their defaults."""

    def made(parts: Sequence[Expr], given: Options) -> Expr:
        options = op.rules.prepare(((),) * len(parts), **{**op.defaults, **given})
        return op.index((), [View("", (), part) for part in parts], {}, options)

    return function_with_options(op.signature, op.operands, op.optional, made)


Shapes = tuple[Shape | None, ...]
Variants = Mapping[str, str] | Callable[..., str]
"""Equations by condition on the options, or a function that writes the equation for given shapes and options."""


def define_by_function(function: Callable[..., Expr]) -> Definition:
    """Return the definition by a ``function`` of the output's indices, the operands and the options."""
    return lambda at, views, held, options: function(at, *views, **held, **options)


@dataclass(frozen=True)
class AxisView:
    """A tensor with the indices of the text on ``axes`` and the output's indices on the ``others``.

    Without axes, indices of the text are ignored. Axes ``joined`` to a line share one index: a combined letter, or a
    row-major number of the entries.
    """

    view: View
    axes: tuple[int, ...]
    others: tuple[Expr, ...]
    joined: bool = False

    @property
    def shape(self) -> Shape:
        """The sizes of the axes that the text names; for a line, their product."""
        sizes = sizes_on(self.view.shape, self.axes)
        return (sp.Mul(*sizes),) if self.joined else sizes

    def __getitem__(self, indices: Sequence[Any]) -> Expr:
        if not self.view.rank:
            return self.view[()]
        at: Any = indices
        if self.joined:
            (at,) = indices if isinstance(indices[0], tuple) else (indices[: len(self.axes)],)
            at = unravel(at[0], sizes_on(self.view.shape, self.axes)) if len(at) < len(self.axes) else at
        named, others = dict(zip(self.axes, at, strict=bool(self.axes))), iter(self.others)
        if self.view.rank - len(named) > len(self.others):
            raise ShapeError(f"{self.view.name} has more axes than the result, beside those that the equation names")
        return self.view[[named[a] if a in named else next(others) for a in range(self.view.rank)]]


def sizes_on(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return the sizes of some axes; a scalar counts as a line of one entry."""
    return tuple(shape[a] for a in axes) if shape else (sp.S.One,) * len(axes)


@lru_cache(maxsize=1024)
def parse_entry_equation(text: str) -> IndexEquation:
    """Parse the equation ``text`` of an entry and substitute its definitions."""
    try:
        return inline_definitions(read_statement(text))
    except NotationError as error:  # of an entry, not of what a user wrote
        raise bug(f"the equation {text!r} does not read, at {error.span}: {error.problem}") from error


@lru_cache(maxsize=1024)
def drop_absent_operands(text: str, absent: frozenset[str]) -> IndexEquation:
    """Return the equation without absent operands: a term that is one is dropped, a factor that is one becomes 1."""
    whole = parse_entry_equation(text)

    def left(node: SyntaxNode) -> SyntaxNode | None:
        if isinstance(node, (Name, Access)) and node.name in absent:
            return None
        if isinstance(node, Negative):
            inner = left(node.operand)
            return None if inner is None else Negative(inner)
        if isinstance(node, Binary) and node.sign in "+−·":
            one, other = left(node.left), left(node.right)
            if one is None or other is None:
                return one if other is None else Negative(other) if node.sign == "−" else other
            return Binary(node.sign, one, other)
        return rebuild_node(node, lambda part: left(part) or part)

    found = left(whole)
    assert isinstance(found, IndexEquation)
    return found


def condition_holds(condition: str, options: Options) -> bool:
    """Whether options meet a condition: ``"rank(x)=rank(y)"``, ``"offset<0"`` or ``"full and not p=1"``.

    >>> conditions = ("high<low", "not low<high", "low<0", "low=2 and not high=2")
    >>> [condition_holds(condition, {"low": 2, "high": 1}) for condition in conditions]
    [True, True, False, True]
    """
    for part in condition.split(" and "):
        sign = next((sign for sign in "<=" if sign in part), "")
        name, _, wanted = part.removeprefix("not ").partition(sign or " ")
        value: Any = options.get(name)
        if sign == "<":
            found = value < options.get(wanted, 0)
        else:
            found = str(value) == str(options.get(wanted, wanted)) if sign else bool(value)
        if found == part.startswith("not "):
            return False
    return True


def condition_values(call: CallPattern, values: Sequence[Any], options: Options) -> dict[str, Any]:
    """Return the names a condition may use: options, operands (None if left out), and ranks of operands."""
    there = call.given(values)
    operands = {name: name if name in there else None for name in call.names(values)}
    return {**options, **operands, **{f"rank({name})": len(shape_of(value)) for name, value in there.items()}}


@dataclass(frozen=True)
class EquationText:
    """An equation as text, with variants for some operands and options."""

    call: CallPattern
    text: str
    variants: Variants

    def tree(self, values: Sequence[Any], options: Options) -> IndexEquation:
        """Return the parsed equation for these operands and options, without absent operands."""
        return drop_absent_operands(*self.written(values, options))

    def written(self, values: Sequence[Any], options: Options) -> tuple[str, frozenset[str]]:
        """Return the text for these operands and options, and the names of absent operands."""
        names, there = self.call.names(values), self.call.given(values)
        absent = frozenset(names) - frozenset(there)
        if not self.variants:
            return self.text, absent
        known = condition_values(self.call, values, options)
        if callable(self.variants):
            text = self.variants(tuple(None if v is None else shape_of(v) for v in values), **options)
        else:
            text = next(
                (other for condition, other in self.variants.items() if condition_holds(condition, known)), self.text
            )
        return text, absent

    def beside(self, at: At, held: Mapping[str, HeldTensor], options: Options) -> dict[str, Any]:
        """Return the constant tensors at the output's indices, and the numeric options, by name."""
        found: dict[str, Any] = {name: AxisView(view, (), at) for name, view in held.items()}
        return found | {name: View(name, (), value) for name, value in exact_options(options).items()}


@dataclass(frozen=True)
class PointwiseEquation(EquationText):
    """An elementwise equation, written without indices; its operands are broadcast."""

    decimals: bool = False

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """Return the right-hand side with every operand at the output's indices."""
        tensors: dict[str, Any] = {name: AxisView(view, (), at) for name, view in self.call.given(views).items()}
        tensors |= {
            name: View(name, (), sp.sympify(value, strict=True) if self.decimals else exact_number(value))
            for name, value in numeric_options(options)
        }
        return EquationMeaning(tensors, {}, {}, equation_functions()).of(self.tree(views, options).right)


def shape_of(value: Any) -> Shape:
    """Return the shape of an operand given as a shape, as a view or as an array."""
    return value if isinstance(value, tuple) else value.shape if isinstance(value, View) else np.shape(value)


def exact_options(options: Options) -> dict[str, Expr]:
    """Return the options that an equation may name, as exact numbers."""
    return {name: exact_number(value) for name, value in numeric_options(options)}


def numeric_options(options: Options) -> list[tuple[str, Any]]:
    """Return the options that an equation may name. Items of a tuple are numbered: stride0, stride1."""
    parts = [(f"{n}{k}", v) for n, vs in options.items() if isinstance(vs, tuple) for k, v in enumerate(vs)]
    parts += [(n, vs[0]) for n, vs in options.items() if isinstance(vs, tuple) and len(vs) == 1]
    given = [(n, int(v) if isinstance(v, bool) else v) for n, v in (*options.items(), *parts)]
    return [(name, value) for name, value in given if not isinstance(value, (str, tuple, type(None)))]


def prepare_for_torch(tensor: Any, is_data: bool, whole: bool) -> Any:
    """Return an operand for torch: data as a copy, cast to integers if it is ``whole`` and its values are integers."""
    if tensor is None or not is_data:
        return tensor
    return tensor.long() if whole and (tensor == tensor.round()).all() else tensor.clone()


def attribute_path(spelling: str) -> list[str]:
    """Return the attributes that lead to a function of torch.

    >>> attribute_path("torch.linalg.inv"), attribute_path("F.relu"), attribute_path("Tensor.clamp")
    (['linalg', 'inv'], ['nn', 'functional', 'relu'], ['Tensor', 'clamp'])
    """
    return spelling.removeprefix("torch.").replace("F.", "nn.functional.", 1).split(".")


def find_torch_function(
    path: str, call: CallPattern | None = None, whole: Sequence[str] = (), returns: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return a function that calls torch's function at ``path``, with numbers among the tensors made tensors.

    If ``call`` has options among its tensors, the arguments are in its order. Data in ``whole`` is cast to integers if
    its values are. Of several results the first that ``returns`` names is returned, or the one numbered by the option
    ``part``.
    """
    steps = attribute_path(path)

    def by_torch(torch: Any, *tensors: Any, **options: Any) -> Any:
        function: Any = tensors[0] if steps[0] == "Tensor" else torch
        for step in steps[1:] if steps[0] == "Tensor" else steps:
            function = getattr(function, step)
        if not callable(function):
            return function
        kind = next((t.dtype for t in tensors if isinstance(t, torch.Tensor)), torch.float64)
        given = [
            t if t is None or isinstance(t, torch.Tensor) else torch.as_tensor(float(t), dtype=kind) for t in tensors
        ]
        if call and not call.variadic:  # torch writes into running statistics, and asks for them where there are none
            given = [prepare_for_torch(t, n in call.data, n in whole) for n, t in zip_longest(call.operands, given)]
        if steps[0] == "Tensor":
            del given[0]
        part = options.pop("part", None)
        named = {name: to_plain_option(value) for name, value in options.items() if value is not None}
        several = call.signature.parameters.values() if call else ()
        order = [p.name for p in several if p.kind is not p.KEYWORD_ONLY]
        if call and call.operands != tuple(order)[: len(call.operands)]:
            there = {**dict(zip(call.operands, given, strict=False)), **named}
            before = order[: max(order.index(name) for name in call.operands if name in order) + 1]
            given = [there[name] for name in before if name in there]
            named = {name: value for name, value in there.items() if name not in before and value is not None}
        found = function(*given, **named)
        if part is not None:
            return found[part]
        return getattr(found, returns[0]) if returns and not isinstance(found, torch.Tensor) else found

    return by_torch


def find_torch_call(
    home: Sequence[str], call: CallPattern, whole: Sequence[str] = (), returns: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return torch's function by the first spelling in ``home``; raise `InputError` if there is none."""
    if not home:
        raise InputError(
            f"{call.name} has no spelling in torch, so its row has to say how torch computes it",
            found=("home=()",),
            hints=(f"torch=lambda torch, {', '.join(call.signature.parameters)}: …",),
        )
    return find_torch_function(home[0].format(call.name), call, whole, returns)


def to_plain_option(value: Any) -> Any:
    """Return an option in plain Python types, as torch takes it."""
    if isinstance(value, tuple):
        return tuple(map(to_plain_option, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return int(value) if getattr(value, "is_Integer", False) else float(value)
