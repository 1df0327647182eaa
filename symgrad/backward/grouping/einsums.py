"""What goes back through an einsum, in the letters of the einsum that was written.

    einsum('ijkl,ijkm->ilm', p, v)                            →  einsum('bhij,bhid->bjd', p, v)
    (v.permute(2, 0, 1) @ w.permute(2, 1, 0)).permute(1, 2, 0)   →  einsum('box,iox->bix', v, w)

Comes in: a program of one einsum, the tensor asked for, and the line that was derived. Goes out: the same line; where
its letters do not fit those of the tensors that it reads, the line as it came. It is proven afterwards, as every line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache

from symgrad.ops import TABLE, entry_of
from symgrad.program import Program

Written = tuple[str, str]
"""The letters of what an expression computes, and of a product also how its einsum reads: ``ij`` and ``ij``."""


def in_own_letters(program: Program, wanted: str, text: str) -> str:
    """A line in the letters of the one einsum that ``program`` is."""
    own, word = letters_of(program), str(program.steps[-1].op)
    if wanted not in own or ";" in text:
        return text
    tree = ast.parse(text, mode="eval").body
    read = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in own]
    shorter = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    found = renamed(tree, own) if isinstance(tree, ast.Call) and is_sum(tree, word) else summed(tree, own)
    if not shorter or found is None or found.rpartition("->")[2] != own[wanted]:
        return text
    return f"{word}({found!r}, {', '.join(read)})"


def letters_of(program: Program) -> dict[str, str]:
    """The letters of the axes of each tensor, and of v; none where something else is computed."""
    step = program.steps[-1]
    op = entry_of(step.op)
    if len(program.steps) != 1 or op is None or not op.subscripts:
        return {}
    before, arrow, after = str(dict(step.options)[op.subscripts]).replace(" ", "").partition("->")
    terms = before.split(",")
    if not arrow or len(terms) != len(step.tensors) or any(len({*term}) < len(term) for term in (*terms, after)):
        return {}
    found = dict(zip(step.tensors, terms, strict=True))
    plain = len(found) == len(terms) and all(term.isalpha() for term in terms) and (after + "a").isalpha()
    return found | {"v": after} if plain else {}


def is_sum(node: ast.Call, word: str) -> bool:
    """Whether ``einsum('…', …)`` stands there, which is called by a ``word``."""
    return isinstance(node.func, ast.Name) and node.func.id == word and isinstance(node.args[0], ast.Constant)


def renamed(node: ast.Call, own: Mapping[str, str]) -> str | None:
    """``bhij,bhid->bjd``, of an einsum in other letters; None where they do not fit."""
    before, _, after = str(ast.literal_eval(node.args[0])).partition("->")
    change: dict[str, str] = {}
    terms = [operand.id if isinstance(operand, ast.Name) else "" for operand in node.args[1:]]
    for term, name in zip(before.split(","), terms, strict=True):
        if len(own.get(name, "")) != len(term):
            return None
        for letter, other in zip(term, own[name], strict=True):
            if change.setdefault(letter, other) != other:
                return None
    if len({*change.values()}) < len(change) or not {*after} <= change.keys():
        return None
    return f"{','.join(own[name] for name in terms)}->{''.join(change[letter] for letter in after)}"


def summed(node: ast.expr, own: Mapping[str, str]) -> str | None:
    """``box,iox->bix``, of a product of two tensors that are turned; None where it is something else."""
    match node:
        case ast.Call(ast.Attribute(inner, word), order, []) if turns(word):
            found = summed(inner, own)
            if found is None:
                return None
            before, _, after = found.partition("->")
            places = [ast.literal_eval(place) for place in order]
            return f"{before}->{''.join(after[place] for place in places)}" if len(places) == len(after) else None
        case ast.BinOp(left, ast.MatMult(), right):
            first, second = turned(left, own), turned(right, own)
            if first is None or second is None or not len(first[1]) == len(second[1]) > 2:
                return None
            (one, a), (other, b) = first, second
            if a[:-2] != b[:-2] or a[-1] != b[-2] or a[-2] == b[-1]:
                return None
            return f"{one},{other}->{a[:-1]}{b[-1]}"
    return None


def turned(node: ast.expr, own: Mapping[str, str]) -> Written | None:
    """The letters of a tensor, as it is and as it is read: ``iox`` and ``xoi``."""
    match node:
        case ast.Name(name):
            return (own[name], own[name]) if name in own else None
        case ast.Attribute(ast.Name(name), word) if turns(word) and len(own.get(name, "")) > 1:
            return own[name], f"{own[name][:-2]}{own[name][-1]}{own[name][-2]}"
        case ast.Call(ast.Attribute(ast.Name(name), word), order, []) if turns(word) and name in own:
            places = [ast.literal_eval(place) for place in order]
            return (own[name], "".join(own[name][p] for p in places)) if len(places) == len(own[name]) else None
    return None


@cache
def turns(word: str) -> bool:
    """Whether an operation has the axes of its operand in another order, and does nothing else."""
    read = re.fullmatch(r"out\[(.*)\] = x\[(.*)\]", (TABLE[word].definition or "") if word in TABLE else "")
    return read is not None and read[1] != read[2] and sorted(read[1].split(",")) == sorted(read[2].split(","))
