"""What the equation of an entry means for each entry by itself, and how an entry calls torch for the same numbers.

Comes in: the text, the operands at hand and the options. Goes out: the right-hand side in SymPy, at the output's
indices. A text is read when it is asked for first, once in a process. Its functions are every pointwise entry of the
table, and those that its formulas are in: ``gelu(x[i])`` is what the table says of gelu, kinks and stable evaluation
included, so that what a page prints reads back. torch's function is called by a spelling, with operands and options in
the order that torch expects: its result is the independent answer to the equation.
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
    """The functions by their names, each of them made when it is asked for first."""

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
    """The functions by their names."""
    return EquationFunctions()


@lru_cache(maxsize=1024)
def equation_function(name: str) -> EquationFunction | None:
    """A function by its name: SymPy's, or a pointwise entry; None where there is none."""
    name = ALSO.get(name, name)
    if name in PRIMITIVES:
        return function_from_sympy(PRIMITIVES[name][0])
    op = TABLE.get(name)
    if op is None or op.rules.shape is not common_shape or op.saved.names or op.variadic:
        return None
    return function_from_entry(op)


def function_from_entry(op: Op) -> EquationFunction:
    """A pointwise entry of numbers: its operands, then options; those nobody gives are what they are by themselves."""

    def made(parts: Sequence[Expr], given: Options) -> Expr:
        options = op.rules.prepare(((),) * len(parts), **{**op.defaults, **given})
        return op.index((), [View("", (), part) for part in parts], {}, options)

    return function_with_options(op.signature, op.operands, op.optional, made)


Shapes = tuple[Shape | None, ...]
Variants = Mapping[str, str] | Callable[..., str]
"""The equation under other options, or a function that writes it for the shapes and options at hand."""


def index_by_function(function: Callable[..., Expr]) -> Definition:
    """What no text says: a ``function`` of the output's indices, the operands and the options."""
    return lambda at, views, held, options: function(at, *views, **held, **options)


@dataclass(frozen=True)
class AxisView:
    """A tensor with the indices of the text on ``axes`` and the output's own on the ``others``.

    On no axes it is read at the others alone, whatever indices the text gives it. Where the axes are ``joined`` to a
    line, they have one index; if no letter is that, it counts through them row by row.
    """

    view: View
    axes: tuple[int, ...]
    others: tuple[Expr, ...]
    joined: bool = False

    @property
    def shape(self) -> Shape:
        """The axes that the text names; of a line one, as long as those that it stands for are together."""
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
    """The sizes of some axes; a number is a line of one entry."""
    return tuple(shape[a] for a in axes) if shape else (sp.S.One,) * len(axes)


@lru_cache(maxsize=1024)
def parse_entry_equation(text: str) -> IndexEquation:
    """The equation that ``text`` is, its definitions put in."""
    try:
        return inline_definitions(read_statement(text))
    except NotationError as error:  # of an entry, not of what a user wrote
        raise bug(f"the equation {text!r} does not read, at {error.span}: {error.problem}") from error


@lru_cache(maxsize=1024)
def drop_absent_operands(text: str, absent: frozenset[str]) -> IndexEquation:
    """The equation without the operands that are left out: a term that is one falls away, a factor that is one is 1."""
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
    """Whether options are as ``"log_target"``, ``"rank(x)=rank(y)"``, ``"offset<0"`` or ``"full and not p=1"`` says.

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


def facts_at_hand(call: CallPattern, values: Sequence[Any], options: Options) -> dict[str, Any]:
    """What a condition asks about: the options, each operand, None where it is left out, and its rank."""
    there = call.given(values)
    operands = {name: name if name in there else None for name in call.names(values)}
    return {**options, **operands, **{f"rank({name})": len(shape_of(value)) for name, value in there.items()}}


@dataclass(frozen=True)
class EquationText:
    """The text of an equation, and which one it is for operands and options."""

    call: CallPattern
    text: str
    variants: Variants

    def tree(self, values: Sequence[Any], options: Options) -> IndexEquation:
        """The equation under these options, without what is left out."""
        return drop_absent_operands(*self.written(values, options))

    def written(self, values: Sequence[Any], options: Options) -> tuple[str, frozenset[str]]:
        """The equation under these options, and what is left out."""
        names, there = self.call.names(values), self.call.given(values)
        absent = frozenset(names) - frozenset(there)
        if not self.variants:
            return self.text, absent
        known = facts_at_hand(self.call, values, options)
        if callable(self.variants):
            text = self.variants(tuple(None if v is None else shape_of(v) for v in values), **options)
        else:
            text = next(
                (other for condition, other in self.variants.items() if condition_holds(condition, known)), self.text
            )
        return text, absent

    def beside(self, at: At, held: Mapping[str, HeldTensor], options: Options) -> dict[str, Any]:
        """What is held still, at the output's indices, and the numbers that an equation may name."""
        found: dict[str, Any] = {name: AxisView(view, (), at) for name, view in held.items()}
        return found | {name: View(name, (), value) for name, value in exact_options(options).items()}


@dataclass(frozen=True)
class PointwiseEquation(EquationText):
    """An equation without indices: every entry by itself, the operands broadcast."""

    decimals: bool = False

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Options) -> Expr:
        """The right-hand side, each operand at the output's own indices."""
        tensors: dict[str, Any] = {name: AxisView(view, (), at) for name, view in self.call.given(views).items()}
        tensors |= {
            name: View(name, (), sp.sympify(value, strict=True) if self.decimals else exact_number(value))
            for name, value in numeric_options(options)
        }
        return EquationMeaning(tensors, {}, {}, equation_functions()).of(self.tree(views, options).right)


def shape_of(value: Any) -> Shape:
    """The shape of an operand, be it at hand as a shape, as a view or as an array."""
    return value if isinstance(value, tuple) else value.shape if isinstance(value, View) else np.shape(value)


def exact_options(options: Options) -> dict[str, Expr]:
    """The options that an equation may name, exact."""
    return {name: exact_number(value) for name, value in numeric_options(options)}


def numeric_options(options: Options) -> list[tuple[str, Any]]:
    """The options that an equation may name; parts of a tuple with their numbers: stride0, stride1; one is itself."""
    parts = [(f"{n}{k}", v) for n, vs in options.items() if isinstance(vs, tuple) for k, v in enumerate(vs)]
    parts += [(n, vs[0]) for n, vs in options.items() if isinstance(vs, tuple) and len(vs) == 1]
    given = [(n, int(v) if isinstance(v, bool) else v) for n, v in (*options.items(), *parts)]
    return [(name, value) for name, value in given if not isinstance(value, (str, tuple, type(None)))]


def as_torch_reads(tensor: Any, is_data: bool, whole: bool) -> Any:
    """An operand for torch: data as a copy, integers where they are ``whole`` and their values are integers."""
    if tensor is None or not is_data:
        return tensor
    return tensor.long() if whole and (tensor == tensor.round()).all() else tensor.clone()


def path_of(spelling: str) -> list[str]:
    """Where torch has a function, attribute by attribute.

    >>> path_of("torch.linalg.inv"), path_of("F.relu"), path_of("Tensor.clamp")
    (['linalg', 'inv'], ['nn', 'functional', 'relu'], ['Tensor', 'clamp'])
    """
    return spelling.removeprefix("torch.").replace("F.", "nn.functional.", 1).split(".")


def by_spelling(
    path: str, call: CallPattern | None = None, whole: Sequence[str] = (), returns: Sequence[str] = ()
) -> Callable[..., Any]:
    """torch's function of this name, options as plain numbers; a number among tensors becomes one.

    With a ``call`` whose options stand among its tensors the arguments are in its order; those ``whole`` are integers
    if their values are.
    Of several results it is the first that ``returns`` names, or the one whose number the option ``part`` is.
    """
    steps = path_of(path)

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
            given = [as_torch_reads(t, n in call.data, n in whole) for n, t in zip_longest(call.operands, given)]
        if steps[0] == "Tensor":
            del given[0]
        part = options.pop("part", None)
        named = {name: plain_option(value) for name, value in options.items() if value is not None}
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


def call_of_torch(
    home: Sequence[str], call: CallPattern, whole: Sequence[str] = (), returns: Sequence[str] = ()
) -> Callable[..., Any]:
    """torch's function by the first spelling in ``home``; refuses an entry that says nowhere how torch computes it."""
    if not home:
        raise InputError(
            f"{call.name} has no spelling in torch, so its row has to say how torch computes it",
            found=("home=()",),
            hints=(f"torch=lambda torch, {', '.join(call.signature.parameters)}: …",),
        )
    return by_spelling(home[0].format(call.name), call, whole, returns)


def plain_option(value: Any) -> Any:
    """An option as torch takes it."""
    if isinstance(value, tuple):
        return tuple(map(plain_option, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return int(value) if getattr(value, "is_Integer", False) else float(value)
