"""Names that stand for numbers, not for tensors: n in ``x.reshape(n, 3)``, in ``F.layer_norm(x, (n,))``, in ``x[:n]``.

Comes in: the syntax tree. Goes out: such names, and whether what they are can follow from the sizes of tensors. The
table says which arguments of a call are options; nothing flows back to a number.
"""

from __future__ import annotations

from collections.abc import Iterator

from symgrad.entries.spec import Op
from symgrad.language.grammar.nodes import (
    Binary,
    Call,
    Equation,
    Items,
    Name,
    Node,
    Script,
    Slice,
    Star,
    Unary,
    walk,
)
from symgrad.language.steps.calls import TOLD
from symgrad.language.steps.makers import maker_of
from symgrad.language.steps.names import spelling_of
from symgrad.ops.lookup import find

SIZES = ("shape", "size", "sizes", "normalized_shape", "output_size")
"""Options that are sizes: what stands there can follow from a tensor."""


def number_names(script: Script) -> dict[str, bool]:
    """The names that stand where only a number can, with whether it is a size."""
    found: dict[str, bool] = {}
    for statement in script.statements:
        for node in (inner for part in statement.read for inner in walk(part)):
            for place, size in places_of_numbers(node):
                for name in bare(place):
                    found[name] = found.get(name, False) or size
    return found


def bare(node: Node) -> Iterator[str]:
    """The names in ``node`` that are themselves a part of the number: not y in ``y.shape[0]``."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, (Items, Unary, Binary, Star)):
        for part in node.parts:
            yield from bare(part)


def places_of_numbers(node: Node) -> Iterator[tuple[Node, bool]]:
    """What stands directly in ``node`` where only a number can, and whether that is a size."""
    if isinstance(node, Slice):
        yield from ((part, True) for part in node.parts)
    if isinstance(node, Equation):
        yield from ((name, False) for name in node.counts)
    if not isinstance(node, Call):
        return
    spelling = spelling_of(node)
    if spelling is None:
        return
    spelled, owner = spelling
    op = find(spelled)
    if spelled.startswith("math."):
        yield from ((part, False) for part in node.positional)
    if maker_of(spelled) is not None:
        yield from sizes_made(node, spelled)
    elif op is not None and not op.variadic:
        yield from options_of(op, node, owner is not None)


def sizes_made(node: Call, spelled: str) -> Iterator[tuple[Node, bool]]:
    """The arguments of what makes a tensor that say how large it is."""
    word = spelled.rpartition(".")[2]
    if word.endswith("_like") or "tensor" in word or "array" in word:
        return
    count = 1 if word in ("full", "new_full") else len(node.positional)
    yield from ((part, True) for part in node.positional[:count])
    yield from ((k.value, True) for k in node.keywords if k.name not in (*TOLD, "fill_value"))


def options_of(op: Op, node: Call, method: bool) -> Iterator[tuple[Node, bool]]:
    """The arguments that are options of the table's entry."""
    names = [p.name for p in op.signature.parameters.values()][int(method) :]
    for place, part in enumerate(node.positional):
        name = names[min(place, len(names) - 1)] if names else None  # x.reshape(2, n): the last option takes the rest
        if op.of_two and isinstance(part, (Binary, Call)):
            continue  # torch.max(a, b) takes the larger one, and b is no axis
        if name is not None and name not in op.operands:
            yield part, name in SIZES
    for keyword in node.keywords:
        if keyword.name in op.signature.parameters and keyword.name not in op.operands:
            yield keyword.value, keyword.name in SIZES
