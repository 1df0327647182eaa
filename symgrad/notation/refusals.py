"""What an equation is refused for that reads well and means nothing: each with its place and what would do."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from symgrad.errors import NotationError, UnknownNameError, UnsupportedError
from symgrad.notation.meaning import Word
from symgrad.notation.tokens import BIG
from symgrad.notation.tree import (
    Access,
    Big,
    Binary,
    Call,
    Condition,
    Flat,
    Floor,
    Letter,
    Name,
    Negative,
    Node,
    Number,
    Power,
    Root,
    Statement,
    walk,
)

GIVEN = "for one place that is given: x[1], or a number whose name is longer than a letter, x[at]"


def letters_of(node: Node) -> tuple[Letter, ...]:
    """The letters that ``node`` introduces."""
    return node.letters if isinstance(node, (Big, Statement)) else ()


def check_access(node: Access | Flat, letters: set[str], functions: Mapping[str, Word], statement: Statement) -> None:
    """Refuse entries of what is being defined, of letters, and those that name an index nobody introduces."""
    if node.name == statement.name:
        raise UnsupportedError(
            f"{node.name} is defined by its own entries: that is an equation to be solved", span=node.span,
            hints=("a sum over what came before: Σ_j [j ≤ i]·a^(i − j)·x[j]", "several statements",
                   "an operation of torch that solves it"),
        )  # fmt: skip
    if node.name in letters:
        raise no_entries(node)
    for slot in node.slots if isinstance(node, Access) else (node.number,):
        check_whole(slot, functions)
        if isinstance(slot, Name) and len(slot.name) == 1:
            check_letter(slot, letters, statement)


def no_entries(node: Access | Flat) -> NotationError:
    """The refusal of an index with brackets behind it."""
    hints = (f"another letter for the index {node.name}, or another name for the tensor",)
    return NotationError(f"{node.name} is an index here, and has no entries", span=node.span, hints=hints)


def check_whole(node: Node, functions: Mapping[str, Word]) -> None:
    """Refuse an index that need not be a whole number: no entry stands between two others."""
    broken = isinstance(node, Root) or (isinstance(node, Binary) and node.sign == "/")
    if isinstance(node, Number):
        broken = node.value.denominator != 1
    elif isinstance(node, Power):
        broken = not isinstance(node.exponent, Number)
    elif isinstance(node, Big):
        broken = node.sign == "mean"
    elif isinstance(node, Call):
        broken = node.function in functions
    if broken:
        hints = ("⌊i/2⌋, which is floor(i/2)", "[i ≥ 1]·x[i − 1] + [i = 0]·x[0] for max(i − 1, 0)")
        raise NotationError("an index has to be a sum of whole numbers", span=node.span, hints=hints)
    for part in () if isinstance(node, (Access, Flat, Floor, Condition)) else node.parts:
        check_whole(part, functions)


def check_scope(node: Node, letters: set[str], inside: frozenset[str]) -> None:
    """Refuse the letter of a sum where that sum has ended."""
    if isinstance(node, Name) and node.name in letters and node.name not in inside:
        told = f"{node.name} stands behind the end of its sum, which goes as far as the product behind it"
        raise NotationError(told, span=node.span, hints=(f"Σ_{node.name} (… + …), or another letter here",))
    inner = inside | {letter.name for letter in letters_of(node)}
    for part in node.parts:
        check_scope(part, letters, inner if not isinstance(part, Letter) or isinstance(node, Statement) else inside)


def check_letter(node: Node, letters: set[str], statement: Statement) -> None:
    """Refuse an index that nobody introduces."""
    if isinstance(node, Name) and node.name not in letters:
        ranges = (w for w in walk(statement) if isinstance(w, Letter) and w.bound is not None)
        pair = next((w.name for w in ranges if isinstance(w.bound, Name) and w.bound.name == node.name), None)
        both = (f"Σ_{{{pair},{node.name}}} [{pair} < {node.name}]·…, for the pairs of both",) if pair else ()
        raise NotationError(
            f"{node.name} is neither an index of {statement.name} nor summed over",
            span=node.span,
            hints=both or (f"Σ_{node.name} in front, or {statement.name}[…,{node.name}]", GIVEN),
        )


def check_number(node: Name, letters: set[str], statement: Statement) -> None:
    """Refuse what is being defined as a part of itself, and x_i where i is an index."""
    if node.name == statement.name:
        raise UnsupportedError(f"{node.name} is defined by itself: that is an equation to be solved", span=node.span)
    base, _, below = node.name.rpartition("_")
    if base and below and set(below) <= letters:
        raise NotationError(
            f"{node.name} would be a number of that name, and no entry of {base}", span=node.span,
            hints=(f"{base}[{','.join(below)}]", "a number's name with another ending"),
        )  # fmt: skip


def check_function(node: Call, functions: Mapping[str, Word]) -> None:
    """Refuse functions that the notation does not have, and arguments that a function does not take."""
    word = functions.get(node.function)
    if word is not None:
        check_arguments(node, word)
        return
    near = get_close_matches(node.function.lower(), list(functions), n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else "exp, log, tanh, sigmoid, … by their names in torch"
    if len(node.function) == 1:
        hint = f"an entry has square brackets: {node.function}[i]"
    if node.function in BIG:
        hint = f"over an index: {node.function}_j x[j]"
    raise UnknownNameError(
        f"no function {node.function} in index equations",
        span=(node.span[0], node.span[0] + len(node.function)),
        hints=(hint,),
    )


def check_arguments(node: Call, word: Word) -> None:
    """Refuse too few or too many, and an option that is no number: nothing that is written is left unread."""
    given = len(node.arguments)
    if not word.least <= given <= word.most:
        takes = f"{word.least}" if word.least == word.most else f"{word.least} to {word.most}"
        hints = (f"over an index: {node.function}_j x[j]",) if node.function in BIG else ()
        raise NotationError(f"{node.function} takes {takes} here, and gets {given}", span=node.span, hints=hints)
    for place in sorted(word.numbers & frozenset(range(given))):
        if not all(isinstance(part, (Number, Negative, Binary)) for part in walk(node.arguments[place])):
            raise NotationError(
                f"{node.function} takes a number here, that stands in the text", span=node.arguments[place].span
            )
