"""Sizes in a text, inside brackets and outside: ``x.shape[0]``, ``len(x)``, ``x[0, 1:, None]``, ``n``.

Sizes stay symbols as long as possible. Where a plain integer is needed (``x[: n // 2]``, a slice with a step)
an unknown size gets its number at once, and that is noted, so that the explanation can say what was assumed.

What stands in brackets is the key of the operation ``getitem``, with one item for every axis of the tensor and every
new axis: ``("int", i)``, ``("slice", start, stop, step)`` with a step of at least 1, ``("new",)``, or ``("all",)`` for
a whole axis, which is also what an ellipsis and the axes nobody wrote become. A list or a tensor of positions stands as
``("pick", positions)``, which `symgrad.language.subscript_steps` reads.

Names that stand for numbers, not for tensors (n in ``x.reshape(n, 3)``, in ``F.layer_norm(x, (n,))``, in ``x[:n]``),
are found in the syntax tree, and whether what they are can follow from the sizes of tensors. The table says which
arguments of a call are options; nothing flows back to a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy as sp

from symgrad.entries.operands import falls_with_size
from symgrad.entries.spec import Op
from symgrad.errors import NotationError, ShapeError, Span, UnsupportedError
from symgrad.language.binding import TOLD, Argument, Meaning, Ref, describe_meaning, is_size_like
from symgrad.language.constructors import find_constructor
from symgrad.language.input_names import call_spelling
from symgrad.language.syntax_tree import EquationNode, Items, PythonCall, Script, Slice, Star, Unary
from symgrad.notation.tree import Binary, Dots, Name, SyntaxNode, walk
from symgrad.ops.lookup import find
from symgrad.shapes import Shape, Size, SizeMismatch, Sizes

Item = tuple[Any, ...]
Key = tuple[Item, ...]
Reader = Callable[[SyntaxNode], Meaning]
ALL: Item = ("all",)
FARTHEST = 2**31
"""Beyond the end of every axis: a slice that goes further ends there as well."""
FLIPPED = "x.flip(0) reverses an axis"
EXAMPLES = ("x[0], x[-1], x[:, 1:], x[::2], x[..., None], x[[0, 2]]",)


def least_indexed_sizes(key: Key, shape: Sequence[Size]) -> list[tuple[Size, int]]:
    """How large each indexed axis has to be for ``key`` to fit, and for a slice not to be empty."""
    axes = iter(shape)
    found = []
    for item in key:
        if item == ("new",):
            continue
        size = next(axes)
        if item[0] == "int":
            found.append((size, item[1] + 1 if item[1] >= 0 else -item[1]))
        elif item[0] == "slice":
            found.append((size, max(least_sliced_size(item[1] or 0, item[2]), item[3] + 1)))
    return found


def least_sliced_size(start: int, stop: int | None) -> int:
    """The least size of an axis of which ``[start:stop]`` keeps something."""
    if stop is None or (start < 0 and stop < 0):
        return start + 1 if start >= 0 else -start
    if stop >= 0:
        return max(stop, -start)
    return start - stop + 1


LARGEST_GUESS = 10_000
"""No size is assumed to be larger than this."""
METHODS = ("size", "dim", "ndimension", "numel", "nelement")
"""``x.size(0)`` and the like; ``len(x)`` is the same question."""


class SizeQueries:
    """Answers questions about sizes; ``assumed`` and ``needs`` say what had to be taken for granted.

    ``symbolic`` sizes get no number here: what needs one is refused. ``extra`` is added to what is assumed.
    """

    def __init__(self, sizes: Sizes, symbolic: bool, extra: int) -> None:
        self.sizes = sizes
        self.symbolic = symbolic
        self.extra = extra
        self.assumed: list[Size] = []
        self.needs: list[tuple[Size, int]] = []

    def whole(self, size: Size, span: Span) -> int:
        """``size`` as a plain integer, and from here on no other."""
        if not isinstance(size, sp.Expr):
            return int(size)
        if self.sizes.number(size) is None and not self.symbolic:
            found = self.sizes.find(size)
            self.assume(size, max((least for need, least in self.needs if self.sizes.find(need) == found), default=2))
        number = self.sizes.number(size)
        if number is None:
            raise UnsupportedError("this needs a size that is known", span=span, hints=("give the tensor a shape",))
        self.sizes.fix(size)
        return number

    def whole_if_size(self, value: Any, span: Span) -> Any:
        """A size as its number; other numbers as they are."""
        return self.whole(value, span) if isinstance(value, sp.Expr) else value

    def key(self, nodes: Sequence[SyntaxNode], rank: int, meaning: Reader, span: Span) -> Key:
        """The key for the indices ``nodes`` of a tensor with ``rank`` axes; ``meaning`` says what an index stands for.

        Raises `ShapeError` for too many indices and `UnsupportedError` for one that is no index.
        """
        items: list[Item] = []
        dots: int | None = None
        for node in nodes:
            if isinstance(node, Dots):
                if dots is not None:
                    raise ShapeError("... can occur only once in an index", span=node.span)
                dots = len(items)
            else:
                items.append(self.item(node, meaning))
        reads = sum(item != ("new",) for item in items)
        if reads > rank:
            raise ShapeError(f"{reads} indices for a tensor with {rank} {'axis' if rank == 1 else 'axes'}", span=span)
        at = len(items) if dots is None else dots
        return (*items[:at], *[ALL] * (rank - reads), *items[at:])

    def item(self, node: SyntaxNode, meaning: Reader) -> Item:
        """One item of a key."""
        if isinstance(node, Slice):
            start, stop, step = (
                None if part is None else max(-FARTHEST, min(self.place(meaning(part), part.span), FARTHEST))
                for part in (node.start, node.stop, node.step)
            )
            if step is not None and step < 1:
                found, hints = (f"a step of {step}",), (FLIPPED, *EXAMPLES)
                raise UnsupportedError("slices need a positive step", span=node.span, found=found, hints=hints)
            if (start in (None, 0)) and stop is None and step in (None, 1):
                return ALL
            return ("slice", start, stop, step or 1)
        index = meaning(node)
        if index is None:
            return ("new",)
        return ("pick", index) if isinstance(index, (Ref, tuple)) else ("int", self.place(index, node.span))

    def place(self, index: Meaning, span: Span) -> int:
        """A plain integer, or a refusal."""
        if is_size_like(index):
            return self.whole(index, span)
        raise UnsupportedError(f"indexing with {describe_meaning(index)} is not supported", span=span, hints=EXAMPLES)

    def assume(self, size: Size, least: int = 2) -> None:
        """Give every unknown in ``size`` a number now, because something depends on it."""
        for symbol in sorted(self.sizes.find(size).free_symbols, key=str):
            if self.sizes.number(symbol) is None:
                self.sizes.assume(symbol, least + self.extra)
                self.assumed.append(symbol)

    def prepare(self, key: Key, shape: Sequence[Size], span: Span) -> None:
        """Note how large axes have to be for ``key``; some slices need the number itself."""
        needs_numbers = any(item[0] == "slice" and (item[3] != 1 or falls_with_size(*item[1:3])) for item in key)
        for size, least in least_indexed_sizes(key, shape):
            if self.need(size, least, span) and needs_numbers and not self.symbolic:
                self.assume(size, least)

    def need(self, size: Size, least: int, span: Span) -> bool:
        """Note how large an axis has to be, where its size is not known; returns whether that is so."""
        if self.sizes.number(size) is not None:
            return False
        if least > LARGEST_GUESS:
            raise ShapeError("an index this large needs a tensor whose shape is given", span=span)
        self.needs.append((size, least))
        return True

    def method(self, word: str, owner: Meaning, arguments: Sequence[Argument], span: Span) -> Meaning:
        """x.size(), x.size(0), x.dim(), x.numel(), len(x)."""
        if word == "len" and isinstance(owner, tuple):
            return len(owner)
        if not isinstance(owner, Ref):
            raise NotationError(f"{word} takes a tensor, not {describe_meaning(owner)}", span=span)
        shape = visible_shape(owner)
        if word == "size" and not arguments:
            return shape
        if word in ("dim", "ndimension") and not arguments:
            return len(shape)
        if word in ("numel", "nelement") and not arguments:
            count = sp.Mul(*shape)
            return int(count) if count.is_Integer else count
        axis = 0 if word == "len" else arguments[0].meaning if len(arguments) == 1 else None
        if word not in ("len", "size") or not isinstance(axis, int):
            raise NotationError(f"{word} takes other arguments", span=span, hints=("x.size(0), x.shape[0]",))
        if not -len(shape) <= axis < len(shape):
            raise ShapeError(f"there is no axis {axis} in a tensor with {len(shape)}", span=span)
        return shape[axis]


def visible_shape(tensor: Ref) -> tuple[Size, ...]:
    """The shape as the text sees it: plain integers where they are literal; the axis of (re, im) is not seen."""
    shape = tensor.shape[:-1] if tensor.complex else tensor.shape
    return tuple(int(size) if size.is_Integer else size for size in shape)


def unify_shapes(sizes: Sizes, one: Shape, other: Shape) -> bool:
    """Whether two shapes are the same one, open sizes unified."""
    if len(one) != len(other):
        return False
    try:
        for size, number in zip(one, other, strict=True):
            sizes.unify(size, number)
    except SizeMismatch:
        return False
    return True


def map_sizes(value: Any, change: Callable[[Size], Any]) -> Any:
    """``value`` with ``change`` of every size in it, also inside tuples; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(map_sizes(part, change) for part in value)
    return change(value) if isinstance(value, sp.Expr) else value


SIZES = ("shape", "size", "sizes", "normalized_shape", "output_size")
"""Options that are sizes: what stands there can follow from a tensor."""


def find_number_names(script: Script) -> dict[str, bool]:
    """The names that stand where only a number can, with whether it is a size."""
    found: dict[str, bool] = {}
    for statement in script.statements:
        for node in (inner for part in statement.read for inner in walk(part)):
            for place, size in find_number_places(node):
                for name in direct_names(place):
                    found[name] = found.get(name, False) or size
    return found


def direct_names(node: SyntaxNode) -> Iterator[str]:
    """The names in ``node`` that are themselves a part of the number: not y in ``y.shape[0]``."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, (Items, Unary, Binary, Star)):
        for part in node.parts:
            yield from direct_names(part)


def find_number_places(node: SyntaxNode) -> Iterator[tuple[SyntaxNode, bool]]:
    """What stands directly in ``node`` where only a number can, and whether that is a size."""
    if isinstance(node, Slice):
        yield from ((part, True) for part in node.parts)
    if isinstance(node, EquationNode):
        yield from ((name, False) for name in node.counts)
    if not isinstance(node, PythonCall):
        return
    spelling = call_spelling(node)
    if spelling is None:
        return
    spelled, owner = spelling
    op = find(spelled)
    if spelled.startswith("math."):
        yield from ((part, False) for part in node.positional)
    if find_constructor(spelled) is not None:
        yield from constructor_sizes(node, spelled)
    elif op is not None and not op.variadic:
        yield from option_arguments(op, node, owner is not None)


def constructor_sizes(node: PythonCall, spelled: str) -> Iterator[tuple[SyntaxNode, bool]]:
    """The arguments of what makes a tensor that say how large it is."""
    word = spelled.rpartition(".")[2]
    if word.endswith("_like") or "tensor" in word or "array" in word:
        return
    count = 1 if word in ("full", "new_full") else len(node.positional)
    yield from ((part, True) for part in node.positional[:count])
    yield from ((k.value, True) for k in node.keywords if k.name not in (*TOLD, "fill_value"))


def option_arguments(op: Op, node: PythonCall, method: bool) -> Iterator[tuple[SyntaxNode, bool]]:
    """The arguments that are options of the table's entry."""
    names = [p.name for p in op.signature.parameters.values()][int(method) :]
    for place, part in enumerate(node.positional):
        name = names[min(place, len(names) - 1)] if names else None  # x.reshape(2, n): the last option takes the rest
        if op.spelling.between_two and isinstance(part, (Binary, PythonCall)):
            continue  # torch.max(a, b) takes the larger one, and b is no axis
        if name is not None and name not in op.operands:
            yield part, name in SIZES
    for keyword in node.keywords:
        if keyword.name in op.signature.parameters and keyword.name not in op.operands:
            yield keyword.value, keyword.name in SIZES
