"""The structure of a Jacobian, read off its formula before any number is computed.

Comes in: ∂out[i,k]/∂x[p,q] as terms with deltas. Goes out: a `Structure`: a kind, its notation (I₂ ⊗ aᵀ), and
a sentence. Deltas that pair the first axes make a block diagonal, deltas that pair the last axes a Kronecker
product with an identity on the right, deltas on all axes a diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.closed_form.pieces import NoForm
from symgrad.closed_form.writer import Notation
from symgrad.indexing import Index, Ravel, over_terms
from symgrad.indexing.deltas import is_delta
from symgrad.indexing.symbols import Expr, accesses, free_indices
from symgrad.program import Program


@dataclass(frozen=True)
class Structure:
    """``kind`` in one word, ``notation`` where the matrix has one, ``says`` in a sentence."""

    kind: str
    notation: str
    says: str

    def __str__(self) -> str:
        return self.notation or self.kind


def read_structure(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index], formula: Expr
) -> Structure:
    """The structure of ``formula``."""
    if formula == 0:
        return Structure("zero", "0", f"{name} does not move the output: every entry is 0")
    if not outer:
        return Structure("row", "", f"one row: the gradient of the one output by {name}")
    terms = [_paired(term, outer, inner) for term in over_terms(formula, is_delta)]
    if not inner:
        return Structure("column", "", f"one column: how every output answers to {name}")
    lead = min(_leading(pairs, outer, inner) for pairs, _ in terms)
    if len(terms) == 1:
        return _single(program, name, outer, inner, *terms[0], lead)
    if lead == len(outer) == len(inner):
        return Structure("diagonal", "", f"diagonal: each output answers only to the entry of {name} at its own place")
    if lead:
        return Structure("block-diagonal", "", f"block-diagonal: one block per {_rows(lead)}, nothing across them")
    whole = [pairs for pairs, _ in terms if len(pairs) == len(inner)]
    if whole and len(whole) < len(terms):
        return Structure(
            "diagonal plus dense", "", "a diagonal plus a part in which every output answers to every entry"
        )
    if all(pairs for pairs, _ in terms):
        return Structure("sparse", "", "outputs answer only to the entries that share an index with them")
    return Structure("dense", "", f"every output can answer to every entry of {name}")


def _single(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index],
    pairs: dict[int, int], rest: Expr, lead: int,
) -> Structure:  # fmt: skip
    """One term: identity, permutation, selection, diagonal, Kronecker product."""
    plain = not any(accesses(rest))
    if not plain and any(is_delta(f) for f in sp.Mul.make_args(rest)):
        return Structure(
            "selection", "", f"a selection: each output copies one entry of {name}, found in the forward pass"
        )
    if plain and any(outer[a].size != inner[b].size for a, b in pairs.items()):
        return Structure("part", "", f"a part of out holds entries of {name}; the rest does not answer to it")
    if len(pairs) == len(outer) == len(inner):
        ordered = all(a == b for a, b in pairs.items())
        if rest == 1:
            text = "I" if ordered else ""
            says = "the identity" if ordered else f"a permutation: out holds the entries of {name} in another order"
            return Structure("identity" if ordered else "permutation", text, says)
        if ordered:
            notation = _notation(program, rest.xreplace({inner[b]: outer[a] for a, b in pairs.items()}), outer)
            says = f"diagonal: each output answers only to the entry of {name} at its own place"
            return Structure("diagonal", f"diag({notation})" if notation else "", says)
    if (plain and rest.has(Ravel)) or (plain and any(is_delta(f) for f in sp.Mul.make_args(rest))):
        return Structure(
            "selection", "", f"a selection: each output copies one entry of {name}, each weight goes back to it"
        )
    if plain and len(pairs) == len(inner) and rest.is_number:
        return Structure(
            "expansion", "", f"a repetition: each entry of {name} feeds several outputs, whose weights are added"
        )
    if plain and len(pairs) == len(outer):
        return Structure(
            "sum", "", f"each output adds entries of {name}: its row holds the same number at each of them"
        )
    return _kronecker(program, name, outer, inner, pairs, rest, lead)


def _kronecker(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index],
    pairs: dict[int, int], rest: Expr, lead: int,
) -> Structure:  # fmt: skip
    """I ⊗ M or M ⊗ I, where the paired axes stand first or last and M does not mention them."""
    used = free_indices(rest)
    trail = _trailing(pairs, outer, inner)
    if lead and lead == len(pairs) and not used & {*outer[:lead], *inner[:lead]}:
        block = _block(program, rest, outer[lead:], inner[lead:])
        size = _times([i.size for i in outer[:lead]])
        text = f"I({size}) ⊗ {block}" if block else ""
        one = f"one block {block} per {_rows(lead)} of {name}" if block else f"the same block for every {_rows(lead)}"
        return Structure("kronecker", text, f"{one}, nothing across {_rows(lead, many=True)}")
    if trail and trail == len(pairs) and not used & {*outer[-trail:], *inner[-trail:]}:
        block = _block(program, rest, outer[:-trail], inner[:-trail])
        size = _times([i.size for i in outer[-trail:]])
        text = f"{block} ⊗ I({size})" if block else ""
        return Structure("kronecker", text, "every entry of the block is a multiple of an identity: columns do not mix")
    if lead:
        return Structure("block-diagonal", "", f"block-diagonal: one block per {_rows(lead)}, nothing across them")
    whole = "" if pairs else _block(program, rest, outer, inner)
    if whole:
        return Structure("dense", whole, f"every output can answer to every entry of {name}")
    if pairs:
        return Structure("sparse", "", "outputs answer only to the entries that share an index with them")
    return Structure("dense", "", f"every output can answer to every entry of {name}")


def _paired(term: Expr, outer: Sequence[Index], inner: Sequence[Index]) -> tuple[dict[int, int], Expr]:
    """Which output axis a delta ties to which input axis, and the other factors."""
    pairs: dict[int, int] = {}
    rest = sp.S.One
    for factor in sp.Mul.make_args(term):
        if is_delta(factor):
            a, b = factor.args
            for o, p in ((a, b), (b, a)):
                if o in outer and p in inner:
                    pairs[list(outer).index(o)] = list(inner).index(p)
                    break
            else:
                rest *= factor
        else:
            rest *= factor
    return pairs, rest


def _leading(pairs: dict[int, int], outer: Sequence[Index], inner: Sequence[Index]) -> int:
    """How many first axes are tied one to one."""
    count = 0
    while count < min(len(outer), len(inner)) and pairs.get(count) == count and outer[count].size == inner[count].size:
        count += 1
    return count


def _trailing(pairs: dict[int, int], outer: Sequence[Index], inner: Sequence[Index]) -> int:
    """How many last axes are tied one to one."""
    count = 0
    while count < min(len(outer), len(inner)) and pairs.get(len(outer) - 1 - count) == len(inner) - 1 - count:
        count += 1
    return count


def _block(program: Program, expression: Expr, rows: Sequence[Index], columns: Sequence[Index]) -> str:
    """A matrix with at most one row and one column index in matrix notation; a single row is a vector transposed."""
    if len(rows) > 1 or len(columns) > 1:
        return ""
    text = _notation(program, expression, (*rows, *columns))
    if rows or not columns or not text:
        return text
    return f"{text}ᵀ" if text.isidentifier() else f"({text})ᵀ"


def _notation(program: Program, expression: Expr, axes: Sequence[Index]) -> str:
    """An expression over at most two axes in matrix notation, with ᵀ; empty where there is none."""
    try:
        piece = Notation(program).whole(expression, tuple(axes), program.output)
    except NoForm:
        return ""
    text = piece.text
    if "expand" in text or len(text) > 40:
        return ""
    return text[:-2] + "ᵀ" if text.endswith(".T") and text[:-2].isidentifier() else text


def _times(sizes: Sequence[Expr]) -> str:
    """A product of sizes as text; numbers are put in by the renderer."""
    return str(sp.Mul(*sizes))


def _rows(lead: int, many: bool = False) -> str:
    """What the first axes number, as one of them or all."""
    one, all_of_them = {1: ("row", "rows"), 2: ("matrix", "matrices")}.get(lead, ("leading entry", "leading entries"))
    return all_of_them if many else one
