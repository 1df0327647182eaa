"""``x[0, 1:, None]`` → the key of the operation ``getitem``.

The key has one item for every axis of the tensor and every new axis: ``("int", i)``, ``("slice", start, stop,
step)`` with a step of at least 1, ``("new",)``, or ``("all",)`` for a whole axis, which is also what an
ellipsis and the axes nobody wrote become. A list or a tensor of positions stands as ``("pick", positions)``, which
`symgrad.language.steps.picks` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.errors import ShapeError, Span, UnsupportedError
from symgrad.language.grammar.nodes import Dots, Node, Slice
from symgrad.language.steps.calls import Meaning, Ref, is_size, kind_of
from symgrad.shapes import Size

Item = tuple[Any, ...]
Key = tuple[Item, ...]
ALL: Item = ("all",)
FARTHEST = 2**31
"""Beyond the end of every axis: a slice that goes further ends there as well."""
FLIPPED = "x.flip(0) turns an axis round"
EXAMPLES = ("x[0], x[-1], x[:, 1:], x[::2], x[..., None], x[[0, 2]]",)


def key_of(
    nodes: Sequence[Node],
    rank: int,
    meaning: Callable[[Node], Meaning],
    whole: Callable[[Size, Span], int],
    span: Span,
) -> Key:
    """The key for the indices ``nodes`` of a tensor with ``rank`` axes.

    ``meaning`` says what an index stands for, ``whole`` makes a plain integer of a size. Raises `ShapeError`
    for too many indices and `UnsupportedError` for one that is no index.
    """
    items: list[Item] = []
    dots: int | None = None
    for node in nodes:
        if isinstance(node, Dots):
            if dots is not None:
                raise ShapeError("... stands only once in an index", span=node.span)
            dots = len(items)
        else:
            items.append(item_of(node, meaning, whole))
    reads = sum(item != ("new",) for item in items)
    if reads > rank:
        raise ShapeError(f"{reads} indices for a tensor with {rank} {'axis' if rank == 1 else 'axes'}", span=span)
    fill = [ALL] * (rank - reads)
    at = len(items) if dots is None else dots
    return (*items[:at], *fill, *items[at:])


def item_of(node: Node, meaning: Callable[[Node], Meaning], whole: Callable[[Size, Span], int]) -> Item:
    """One item of a key."""
    if isinstance(node, Slice):
        start, stop, step = (
            None if part is None else max(-FARTHEST, min(integer(meaning(part), part.span, whole), FARTHEST))
            for part in (node.start, node.stop, node.step)
        )
        if step is not None and step < 1:
            raise UnsupportedError(
                "slices step forwards", span=node.span, found=(f"a step of {step}",), hints=(FLIPPED, *EXAMPLES)
            )
        if (start in (None, 0)) and stop is None and step in (None, 1):
            return ALL
        return ("slice", start, stop, step or 1)
    index = meaning(node)
    if index is None:
        return ("new",)
    if isinstance(index, (Ref, tuple)):
        return ("pick", index)
    return ("int", integer(index, node.span, whole))


def integer(index: Meaning, span: Span, whole: Callable[[Size, Span], int]) -> int:
    """A plain integer, or a refusal."""
    if is_size(index):
        return whole(index, span)
    raise UnsupportedError(f"indexing with {kind_of(index)} is not supported", span=span, hints=EXAMPLES)


def least_sizes(key: Key, shape: Sequence[Size]) -> list[tuple[Size, int]]:
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
            found.append((size, max(fitting(item[1] or 0, item[2]), item[3] + 1)))
    return found


def fitting(start: int, stop: int | None) -> int:
    """The least size of an axis of which ``[start:stop]`` keeps something."""
    if stop is None or (start < 0 and stop < 0):
        return start + 1 if start >= 0 else -start
    if stop >= 0:
        return max(stop, -start)
    return start - stop + 1
