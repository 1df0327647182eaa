"""Calls that write their result over what they were given: ``F.relu(h, inplace=True)``, ``zeros(3).scatter_add_(…)``.

Comes in: the statements of a text. Goes out: the same ones with the call that hands back the result, where nothing that
may have been written over is read elsewhere. Any other text is refused: here a name has one value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from symgrad.errors import UnsupportedError
from symgrad.language.grammar.nodes import (
    Attribute,
    Binary,
    Call,
    Name,
    Node,
    Statement,
    Unary,
    Word,
    dotted,
    rebuilt,
    walk,
)
from symgrad.language.steps.names import MODULES
from symgrad.ops import COMPOUND_SPELLINGS, SPELLINGS
from symgrad.ops.calls.picks import NEW_COPIES
from symgrad.ops.lookup import find

INPLACE = "inplace"
"""An option that says where the result is written, and not what it is."""
Version = tuple[str, int]
"""A name, and the statement that gave it its value: -1 for an input."""


def without_writing(statements: Sequence[Statement]) -> list[Statement]:
    """``statements`` with functions alone; raises `UnsupportedError` where one would have another result."""
    found: list[Statement] = []
    statements = [*map(under_its_name, statements[:-1]), *statements[-1:]]
    for place, statement in enumerate(statements):
        for call in walk(statement.value):
            if isinstance(call, Call) and (owner := written_over(call)) is not None:
                check(statements, place, call, owner)
        changed = rebuilt(statement.value, handed_back)
        found.append(statement if changed is statement.value else replace(statement, value=changed))
    return found


def under_its_name(statement: Statement) -> Statement:
    """``h.add_(1).mul_(2)`` for itself, as ``h = h.add_(1).mul_(2)``."""
    node: Node | None = statement.value if statement.target is None else None
    first = node
    while isinstance(node, Call):
        node = written_over(node)
    return replace(statement, target=node.name) if isinstance(node, Name) and node is not first else statement


def written_over(call: Call) -> Node | None:
    """What ``call`` writes its result over, if anything."""
    if any(k.name == INPLACE and k.value != Word(k.value.span, False) for k in call.keywords):
        return next(iter(call.positional), None)
    return call.function.owner if isinstance(call.function, Attribute) and method_of(call.function) else None


def method_of(function: Attribute) -> str:
    """``scatter_add`` for ``scatter_add_``, where there is such a method; nothing for any other."""
    word = function.name.removesuffix("_")
    known = f"Tensor.{word}" in SPELLINGS or f"Tensor.{word}" in COMPOUND_SPELLINGS
    return word if known and word != function.name and not function.name.endswith("__") else ""


def handed_back(node: Node) -> Node:
    """A call that writes, as the one that hands back the result, marked as one that wrote."""
    if not isinstance(node, Call):
        return node
    over = written_over(node) is not None
    kept = tuple(k for k in node.keywords if k.name != INPLACE)
    function = node.function
    if isinstance(function, Attribute) and (word := method_of(function)):
        function = replace(function, name=word)
    same = kept == node.keywords and function is node.function
    return node if same else replace(node, function=function, keywords=kept, over=over)


def check(statements: Sequence[Statement], place: int, call: Call, owner: Node) -> None:
    """Refuse a call that may write over what another reads."""
    touched = set(may_share(statements, place, owner))
    own = Counter(names_in(owner))
    makers = {made for _, made in touched}
    for other, statement in enumerate(statements):
        reads = Counter(names_in(statement.value)) - (own if other == place else Counter())
        for name in reads:
            version = version_of(statements, other, name)
            if version not in touched or (other in makers and other != place):
                continue
            if other >= place or (statement.target is not None and is_read_from(statements, statement.target, place)):
                raise refusal(call, name)


def refusal(call: Call, name: str) -> UnsupportedError:
    """The error for a call that may write over what has ``name``."""
    word = call.function.name if isinstance(call.function, (Attribute, Name)) else INPLACE
    plain = method_of(call.function) if isinstance(call.function, Attribute) else ""
    return UnsupportedError(
        f"{word} writes over {name}, or over what shares its entries, and that is read elsewhere",
        span=call.span,
        hints=(f"{plain} in its place" if plain else f"{INPLACE}=False",),
    )


def may_share(statements: Sequence[Statement], place: int, node: Node) -> Iterator[Version]:
    """Names whose entries ``node`` may be a view of: arithmetic, a call of two tensors and a copy are new."""
    if isinstance(node, Call) and (owner := written_over(node)) is not None:
        yield from may_share(statements, place, owner)
        return
    if isinstance(node, (Binary, Unary)) or (isinstance(node, Call) and is_new(node)):
        return
    for name in names_in(node):
        version = version_of(statements, place, name)
        yield version
        if version[1] >= 0:
            yield from may_share(statements, version[1], statements[version[1]].value)


def is_new(call: Call) -> bool:
    """Whether a call computes its result from two tensors or more, or copies one."""
    spelled = dotted(call.function) or ""
    word = call.function.name if isinstance(call.function, Attribute) else spelled
    entry = find(spelled)
    return word in NEW_COPIES or (entry is not None and len(entry.operands) - len(entry.optional) > 1)


def names_in(node: Node) -> Iterator[str]:
    """Every name, once for each time that it stands there."""
    return (part.name for part in walk(node) if isinstance(part, Name) and part.name not in MODULES)


def version_of(statements: Sequence[Statement], place: int, name: str) -> Version:
    """Which value a name has where a statement reads it."""
    return name, max((n for n, s in enumerate(statements[:place]) if s.target == name), default=-1)


def is_read_from(statements: Sequence[Statement], name: str, place: int) -> bool:
    """Whether a name is read in a statement from ``place`` on."""
    return any(name in names_in(s.value) for s in statements[place:])
