"""What a text gives to backward: the numbers of v, made as every tensor that the text makes.

Comes in: the node in the brackets of ``out.backward(…)``, and what names mean. Goes out: the code and what it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from symgrad.entries.holding import same_everywhere
from symgrad.errors import NotationError
from symgrad.language.grammar.nodes import Call, Name, Node
from symgrad.language.steps.builder import Builder
from symgrad.language.steps.calls import Meaning, Ref
from symgrad.language.steps.complaints import excerpt
from symgrad.language.steps.made import Made
from symgrad.language.steps.makers import filled_with
from symgrad.language.steps.names import tensor_names
from symgrad.ops.entry import entry_of
from symgrad.program import Own


def weights(
    node: Node,
    text: str,
    environment: Mapping[str, Meaning],
    builder: Builder,
    maker: Callable[[Call], Made | None],
    meaning: Callable[[Node], Meaning],
) -> tuple[Own, Made] | None:
    """Numbers that the text makes, alone or under a name; a name that it does not know says nothing."""
    if any(name.name not in environment for name in tensor_names(node)):
        return None if isinstance(node, Name) else refused(node)
    made = maker(node) if isinstance(node, Call) else None
    if made is not None:
        return Own(excerpt(text, node.span), len(builder.made) if made.drawn else None), made
    found = meaning(node)
    if not isinstance(found, Ref):
        return refused(node)
    if found.name in builder.made:
        return builder.made[found.name]
    step = next((step for step in builder.steps if step.result.name == found.name), None)
    entry = None if step is None else entry_of(step.op)
    number = None if entry is None else same_everywhere(entry)
    if step is None or number is None:
        return refused(node)
    if not any(found.name in other.tensors for other in builder.steps):
        builder.steps.remove(step)
    return Own(excerpt(text, node.span)), Made(found.shape, filled_with(number))


def refused(node: Node) -> NoReturn:
    """Refuse what is no tensor of numbers."""
    hints = ("its numbers: torch.ones(2, 3), torch.tensor([1, 2])", "leave it out, and say what v is by the seed")
    raise NotationError("v is a tensor of numbers here", span=node.span, hints=hints)
