"""Claims about the structure of a Jacobian that its formula suggests, before any number is computed.

Comes in: ∂out[i,k]/∂x[p,q] as terms with deltas. Goes out: claims, strongest first, each with the test that it must
pass on the numbers before it is printed (`symgrad.explanation.claims`). If J is 0 for all numbers, the sentence gives
the reason, from the program alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

import sympy as sp

from symgrad.calculus.propagation import cutting_reads
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.writing import FormWriter
from symgrad.entries.derived_facts import is_non_differentiable
from symgrad.explanation import claims as tests
from symgrad.explanation.claims import Claim, certain_claim, tested_claim
from symgrad.indexing import Bracket, Index, over_terms
from symgrad.indexing.sums import is_delta
from symgrad.indexing.symbols import Expr, accesses, free_indices, name_of
from symgrad.language.python_text import tidy_exponents
from symgrad.ops import entry_of, is_data_argument
from symgrad.ops.calls.call_texts import sign_of
from symgrad.program import Apply, Program, VectorProduct

COMPOSED = certain_claim("product", "", "a product of the steps' Jacobians; its formula is too long to write out")
LONGEST = 40
"""The most characters of the notation of a block."""


@dataclass(frozen=True)
class DeltaTerm:
    """A product: the axes that its deltas pair, the deltas, the other conditions, and the remaining factors."""

    pairs: dict[int, int]
    deltas: dict[int, Expr]
    conditions: tuple[Expr, ...]
    value: Expr
    whole: Expr

    def without(self, axes: Collection[int]) -> Expr:
        """Return the product without the deltas of some output axes."""
        return sp.Mul(self.value, *self.conditions, *(d for axis, d in self.deltas.items() if axis not in axes))


@lru_cache(maxsize=256)
def suggest_claims(
    program: Program, name: str, outer: tuple[Index, ...], inner: tuple[Index, ...], formula: Expr
) -> tuple[Claim, ...]:
    """Return the claims that ``formula`` suggests, strongest first."""
    if formula == 0:
        return (certain_claim("zero", "0", f"{why_nothing_flows(program, name)}: every entry is 0"),)
    if not outer:
        return (certain_claim("row", "", f"one row: the gradient of the one output with respect to {name}"),)
    if not inner:
        return (certain_claim("column", "", f"one column: the derivative of every output with respect to {name}"),)
    terms = [_term(term, outer, inner) for term in over_terms(formula, is_delta)]
    return (
        *_copies(name, terms),
        *_diagonals(program, name, outer, inner, terms),
        *_blocks(program, name, outer, inner, terms),
        *_rest(name, terms),
    )


def _copies(name: str, terms: Sequence[DeltaTerm]) -> Iterator[Claim]:
    """Iterate over claims for terms that are numbers under conditions: entries are copied, repeated or added."""
    if any(any(accesses(term.value)) for term in terms):
        return
    read = any(any(accesses(c)) for term in terms for c in term.conditions)
    if not read:
        yield tested_claim(
            "identity", "I", "the identity", tests.passes_all(tests.is_multiple_of_identity(1.0), tests.is_diagonal)
        )
        same = f"the identity: the output holds the entries of {name} in the same order"
        yield tested_claim("identity", "I", same, tests.is_multiple_of_identity(1.0))
        if len(terms) == 1 and terms[0].value.is_number and not terms[0].conditions:
            yield from _multiple(name, terms[0].value)
    found = _found_ahead(terms)
    where = found or ", which receives its weight"
    if read:
        stay = f"a permutation that leaves the entries of {name} in their order at these numbers{found}"
        yield tested_claim("permutation", "", stay, tests.is_multiple_of_identity(1.0))
    moved = f"a permutation: the output holds the entries of {name} in another order{found}"
    yield tested_claim("permutation", "", moved, tests.is_permutation)
    repeated = f"each entry of {name} is used in several outputs, whose weights are added"
    yield tested_claim(
        "expansion", "", f"an expansion: {repeated}", tests.passes_all(tests.is_selection, tests.has_copies)
    )
    yield tested_claim(
        "selection", "", f"a selection: each output copies one entry of {name}{where}", tests.is_selection
    )
    partly = f"some outputs are entries of {name}; the others do not depend on it"
    yield tested_claim("partial", "", partly, tests.is_partial_selection)
    yield tested_claim("expansion", "", repeated, tests.has_copies)
    adds = f"each output adds entries of {name}: its row holds"
    yield tested_claim(
        "sum", "", f"{adds} a 1 at each of them", tests.passes_all(tests.has_only_ones, tests.has_equal_entries_per_row)
    )
    yield tested_claim("sum", "", f"{adds} the same number at each of them", tests.has_equal_entries_per_row)


def _multiple(name: str, factor: Expr) -> Iterator[Claim]:
    """Iterate over claims that J is a number times the identity."""
    number = f"({factor})" if factor.is_Rational and not factor.is_Integer else tidy_exponents(f"{float(factor):g}")
    text = "-I" if factor == -1 else f"{number}·I"
    says = f"a multiple of the identity: each output depends only on the matching entry of {name}"
    if factor.is_Rational or float(number) == float(factor):
        yield tested_claim(
            "diagonal", text, says, tests.passes_all(tests.is_diagonal, tests.is_multiple_of_identity(float(factor)))
        )


def _diagonals(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index], terms: Sequence[DeltaTerm]
) -> Iterator[Claim]:
    """Iterate over claims for deltas that pair every axis of out with the same axis of the input."""
    whole = [all(t.pairs.get(n) == n for n in range(len(outer))) and len(outer) == len(inner) for t in terms]
    says = f"diagonal: each output depends only on the matching entry of {name}"
    if all(whole):
        at_place = dict(zip(inner, outer, strict=True))
        notation = _notation(program, sp.Add(*(t.without(range(len(outer))) for t in terms)).xreplace(at_place), outer)
        if notation:
            there = tests.passes_all(tests.is_diagonal, tests.diagonal_is(notation))
            yield tested_claim("diagonal", f"diag({_transposed(notation)})", says, there)
        yield tested_claim("diagonal", "", says, tests.is_diagonal)
    elif any(whole):
        first, second = (
            sp.Add(*(t.whole for t, w in zip(terms, whole, strict=True) if w is on)) for on in (True, False)
        )
        says = "a diagonal plus a term in which every output can depend on every entry"
        parts = tests.holds_for_summands(first, tests.is_diagonal, second, tests.is_every_entry_nonzero)
        yield tested_claim("diagonal plus dense", "", says, parts)


def _blocks(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index], terms: Sequence[DeltaTerm]
) -> Iterator[Claim]:
    """Iterate over claims of I ⊗ M or M ⊗ I, for leading or trailing paired axes, and of different blocks."""
    lead = min(_count_tied(t, zip(range(len(outer)), range(len(inner)), strict=False)) for t in terms)
    yield from _equal_blocks(program, name, outer, inner, terms, lead, 0)
    backwards = [*zip(reversed(range(len(outer))), reversed(range(len(inner))), strict=False)]
    if trail := min(_count_tied(t, backwards) for t in terms):
        yield from _equal_blocks(program, name, outer, inner, terms, 0, trail)
    if lead:
        says = f"block-diagonal: one block per {_unit(len(inner) - lead)} of {name}, zeros elsewhere"
        yield tested_claim("block-diagonal", "", says, tests.has_blocks(lead))


def _equal_blocks(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index], terms: Sequence[DeltaTerm],
    lead: int, trail: int,
) -> Iterator[Claim]:  # fmt: skip
    """Iterate over claims of I ⊗ M for leading axes, M ⊗ I for trailing ones, and M for one block."""
    rows, columns = (axes[lead : len(axes) - trail] for axes in (outer, inner))
    paired = [*outer[:lead], *outer[len(outer) - trail :]]
    rest = sp.Add(*(t.without([outer.index(axis) for axis in paired]) for t in terms))
    if free_indices(rest) & {*paired, *inner[:lead], *inner[len(inner) - trail :]}:
        return
    notation, row, one = _block(program, rest, rows, columns), not rows, _unit(len(inner) - lead)
    shown, identity = _laid_out(notation, row), f"I({sp.Mul(*(axis.size for axis in paired))})"
    if trail:
        along = "columns" if len(inner) == 2 else "entries along the last axis"
        across = along if trail == 1 else "entries along the last axes"
        says = same = f"every block is a multiple of an identity: {across} do not mix"
    else:
        says, same = (
            f"{block} of {name}, zeros elsewhere"
            for block in (f"one block {shown} per {one}", f"the same block for every {one}")
        )
    if notation:
        text = f"{shown} ⊗ {identity}" if trail else f"{identity} ⊗ {shown}"
        yield tested_claim("kronecker", text, says, tests.has_same_blocks(lead, trail, notation, row))
    if notation and not trail:
        whole = tests.passes_all(
            tests.has_same_blocks(lead, 0, notation, row, several=False), tests.is_every_entry_nonzero
        )
        yield tested_claim("dense", shown, f"every output can depend on every entry of {name}", whole)
    yield tested_claim("kronecker", "", same, tests.has_same_blocks(lead, trail, None, row))


def _rest(name: str, terms: Sequence[DeltaTerm]) -> Iterator[Claim]:
    """Iterate over the weakest claims: the number of entries that an output depends on."""
    found = _found_ahead(terms)
    yield tested_claim(
        "one a row", "", f"each output depends on only one entry of {name}{found}", tests.has_one_per_row(1)
    )
    yield tested_claim(
        "one a row", "", f"each output depends on at most one entry of {name}{found}", tests.has_one_per_row(0)
    )
    yield tested_claim("dense", "", f"every output can depend on every entry of {name}", tests.is_every_entry_nonzero)
    yield tested_claim("sparse", "", f"no output depends on all entries of {name}", tests.has_zero_in_each_row)


def _found_ahead(terms: Sequence[DeltaTerm]) -> str:
    """Return a clause if a condition reads positions computed in the forward pass."""
    read = (name_of(entry) for term in terms for c in term.conditions for entry in accesses(c))
    return ", found in the forward pass" if any("·" in name for name in read) else ""


# Reading terms --------------------------------------------------------------------------------------


def _term(term: Expr, outer: Sequence[Index], inner: Sequence[Index]) -> DeltaTerm:
    """Split a product into deltas that pair axes, other conditions on positions, and the remaining factors."""
    pairs: dict[int, int] = {}
    deltas: dict[int, Expr] = {}
    conditions, value = [], sp.S.One
    for factor in sp.Mul.make_args(term):
        tied = _tied(factor, outer, inner) if is_delta(factor) else None
        if tied is not None and tied[0] not in pairs:
            pairs[tied[0]], deltas[tied[0]] = tied[1], factor
        elif is_delta(factor) or (isinstance(factor, Bracket) and not any(accesses(factor))):
            conditions.append(factor)
        else:
            value *= factor
    return DeltaTerm(pairs, deltas, tuple(conditions), value, term)


def _tied(factor: Expr, outer: Sequence[Index], inner: Sequence[Index]) -> tuple[int, int] | None:
    """Return the axes of a delta between an output index and an input index of the same size, or None."""
    for o, p in (factor.args, factor.args[::-1]):
        if o in outer and p in inner and o.size == p.size:
            return list(outer).index(o), list(inner).index(p)
    return None


def _count_tied(term: DeltaTerm, axes: Iterable[tuple[int, int]]) -> int:
    """Return how many pairs at the beginning of ``axes`` the term's deltas pair."""
    return sum(1 for _ in takewhile(lambda pair: term.pairs.get(pair[0]) == pair[1], axes))


def _unit(rest: int) -> str:
    """Return the word for a slice with ``rest`` axes: entry, row, matrix."""
    return {0: "entry", 1: "row", 2: "matrix"}.get(rest, "slice")


# Notation -------------------------------------------------------------------------------------------


def _block(program: Program, expression: Expr, rows: Sequence[Index], columns: Sequence[Index]) -> str:
    """Return a block with at most one row index and one column index in matrix notation, or an empty text."""
    return "" if len(rows) > 1 or len(columns) > 1 else _notation(program, expression, (*rows, *columns))


def _notation(program: Program, expression: Expr, axes: Sequence[Index]) -> str:
    """Return an expression in matrix notation; empty if there is no short one."""
    try:
        text = FormWriter(program).whole(expression, tuple(axes), program.output).text
    except NoForm:
        return ""
    return "" if "expand" in text or len(text) > LONGEST else text


def _laid_out(text: str, row: bool) -> str:
    """Return the notation of a block, with a vector that is a row transposed."""
    if not row:
        return _transposed(text)
    return f"{text}ᵀ" if text.isidentifier() else f"({text})ᵀ"


def _transposed(text: str) -> str:
    """Return ``a.T`` as ``aᵀ``."""
    return text[:-2] + "ᵀ" if text.endswith(".T") and text[:-2].isidentifier() else text


def why_nothing_flows(program: Program, name: str) -> str:
    """Return why the gradient with respect to ``name`` is 0: an operation cuts it, or the output does not depend on it.

    >>> from symgrad.language import read_program
    >>> why_nothing_flows(read_program("x.detach() * y").program, "x")
    'no gradient flows back through detach'
    >>> why_nothing_flows(read_program("take(x, n)").program, "n")
    'take only reads n (as its index), which gets no gradient'
    """
    if name not in program.relevant:
        return f"the output does not depend on {name}"
    cuts = cutting_reads(program, name)
    through = list(dict.fromkeys(sign_of(step.op) or str(step.op) for step, _ in cuts if reads_all(step)))
    told = [f"no gradient flows back through {' and '.join(through)}"] if through else []
    for step, place in cuts:
        entry = entry_of(step.op)
        if isinstance(step.op, VectorProduct):
            told.append(f"{step.called} reads the shape of {step.arguments[place]} alone")
        elif not reads_all(step) and entry is not None:
            of, role = step.arguments[place], entry.operands[place]
            whole = entry.domain_of(role).whole
            told.append(f"{step.op} only reads {of} (as its {role}), which gets no gradient" if whole else
                        f"{step.op} holds {of} (its {role}) constant, as torch does")  # fmt: skip
    return "; ".join(dict.fromkeys(told)) or f"small changes of {name} do not change the output"


def reads_all(step: Apply) -> bool:
    """Whether a step has no gradient with respect to any operand."""
    if isinstance(step.op, VectorProduct):
        return False
    entry = entry_of(step.op)
    return entry is not None and (
        is_non_differentiable(entry) or all(is_data_argument(step.op, n) for n in range(len(step.arguments)))
    )
