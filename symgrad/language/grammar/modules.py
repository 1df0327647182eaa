"""Modules without parameters as the functions that they are: ``nn.ReLU()(x)``, ``loss = nn.MSELoss(); loss(p, y)``.

Comes in: the statements of a text. Goes out: the same ones with ``F.relu(x)``, ``F.mse_loss(p, y)``. What a module is
told when it is made stands behind the tensors of the call, as in torch's functions. One with parameters stays as it is:
they would have a gradient that nobody sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from symgrad.language.grammar.nodes import Attribute, Call, Statement, dotted
from symgrad.notation.tree import Name, Node, rebuilt
from symgrad.ops import COMPOUND_SPELLINGS, SPELLINGS
from symgrad.ops.calls.registry import find_compound
from symgrad.ops.entry import playing, plays
from symgrad.ops.lookup import find
from symgrad.program import Role

SHORT = {"BCE": "BinaryCrossEntropy"}
"""What the name of a module is short for."""
DRAWN = ("RReLU", "Dropout")
"""What modules are called that draw random numbers as they are made: their function is told otherwise."""
PARAMETERS = frozenset(("weight", "bias", "linear_weight", "linear_bias"))
"""Operands that a module holds itself, unless it is a loss: there they are given."""


def as_functions(statements: Iterable[Statement]) -> list[Statement]:
    """``statements`` without those that only make a module, which is called later."""
    made: dict[str, Call] = {}
    found: list[Statement] = []
    for statement in statements:
        value = statement.value
        if statement.target is not None and isinstance(value, Call) and function_of(value) is not None:
            made[statement.target] = value
            continue
        for name in statement.names:
            made.pop(name, None)
        changed = called(value, made)
        found.append(statement if changed is value else replace(statement, value=changed))
    return found


def plain(name: str) -> str:
    """``MSELoss`` and ``mse_loss`` as one word."""
    return name.replace("_", "").lower()


def functions_like(module: str) -> list[str]:
    """torch's functions that a module called so may be: ``F.mse_loss`` for ``MSELoss``, and ``F.cross_entropy``."""
    if module == "Identity":
        return [playing(Role.HANDS_ON).name]  # torch has no function for it
    long = next((module.replace(short, whole) for short, whole in SHORT.items() if module.startswith(short)), module)
    meant = (plain(long), plain(long.removesuffix("Loss")))
    known = sorted(word for word in (*SPELLINGS, *COMPOUND_SPELLINGS) if word.startswith("F."))
    return [word for word in known if plain(word.removeprefix("F.")) in meant]


def function_of_module(module: str) -> str | None:
    """The function that a module without parameters is; None for any other."""
    spelled = next(iter(functions_like(module)), None)
    entry = None if spelled is None else find(spelled) or find_compound(spelled)
    named = [] if entry is None else [p for p in entry.signature.parameters.values() if p.name in PARAMETERS]
    held = any(p.default is p.empty or not module.endswith("Loss") for p in named)
    return None if held or any(word in module for word in DRAWN) else spelled


def function_of(call: Call) -> str | None:
    """``F.mse_loss`` for ``nn.MSELoss()``."""
    path, _, name = (dotted(call.function) or "").rpartition(".")
    return function_of_module(name) if path in ("nn", "torch.nn") else None


def called(node: Node, made: Mapping[str, Call]) -> Node:
    """``node`` with the functions of modules in the place of their calls."""
    return rebuilt(node, lambda found: as_function(found, made), deep=True)


def as_function(found: Node, made: Mapping[str, Call]) -> Node:
    """A call of a module as one of its function; anything else as it is."""
    if not isinstance(found, Call):
        return found
    module = made.get(found.function.name) if isinstance(found.function, Name) else found.function
    spelled = function_of(module) if isinstance(module, Call) else None
    if spelled is None or not isinstance(module, Call):
        return found
    if plays(spelled, Role.HANDS_ON):  # which gives back the very tensor
        return found.positional[0] if len(found.positional) == 1 and not found.keywords else found
    module_, _, word = spelled.rpartition(".")
    function = Attribute(Name(module_, span=found.function.span), word, span=found.function.span)
    positional = (*found.positional, *(called(p, made) for p in module.positional))
    return replace(found, function=function, positional=positional, keywords=(*found.keywords, *module.keywords))
