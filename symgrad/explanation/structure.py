"""The structure of a Jacobian: what its formula suggests, before any number is computed.

Comes in: ∂out[i,k]/∂x[p,q] as terms with deltas. Goes out: claims, strongest first, each with the test that it has to
pass on the numbers before it is said (`symgrad.explanation.claims`). Where J is 0 for every number the sentence says
why nothing flows back, from the program alone.
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
from symgrad.explanation.claims import Claim, certain, tested
from symgrad.indexing import Bracket, Index, over_terms
from symgrad.indexing.sums import is_delta
from symgrad.indexing.symbols import Expr, accesses, free_indices, name_of
from symgrad.language.python_text import tidy_exponents
from symgrad.ops import entry_of, is_data_argument
from symgrad.ops.calls.call_texts import sign_of
from symgrad.program import Apply, Program, VectorProduct

COMPOSED = certain("product", "", "a product of the steps' Jacobians; its formula is too long to write out")
LONGEST = 40
"""Characters of the longest notation of a block."""


@dataclass(frozen=True)
class DeltaTerm:
    """One product: which axes its deltas pair, the other conditions on places, and what it is worth where they hold."""

    pairs: dict[int, int]
    deltas: dict[int, Expr]
    conditions: tuple[Expr, ...]
    value: Expr
    whole: Expr

    def without(self, axes: Collection[int]) -> Expr:
        """The product without the deltas of some output axes."""
        return sp.Mul(self.value, *self.conditions, *(d for axis, d in self.deltas.items() if axis not in axes))


@lru_cache(maxsize=256)
def suggested(
    program: Program, name: str, outer: tuple[Index, ...], inner: tuple[Index, ...], formula: Expr
) -> tuple[Claim, ...]:
    """What ``formula`` suggests, strongest first."""
    if formula == 0:
        return (certain("zero", "0", f"{why_nothing_flows(program, name)}: every entry is 0"),)
    if not outer:
        return (certain("row", "", f"one row: the gradient of the one output with respect to {name}"),)
    if not inner:
        return (certain("column", "", f"one column: the derivative of every output with respect to {name}"),)
    terms = [_term(term, outer, inner) for term in over_terms(formula, is_delta)]
    return (
        *_copies(name, terms),
        *_diagonals(program, name, outer, inner, terms),
        *_blocks(program, name, outer, inner, terms),
        *_rest(name, terms),
    )


def _copies(name: str, terms: Sequence[DeltaTerm]) -> Iterator[Claim]:
    """Where every term is a number under conditions on places: entries are copied, repeated, added."""
    if any(any(accesses(term.value)) for term in terms):
        return
    read = any(any(accesses(c)) for term in terms for c in term.conditions)
    if not read:
        yield tested("identity", "I", "the identity", tests.both(tests.multiple(1.0), tests.in_place))
        same = f"the identity: the output holds the entries of {name} in the same order"
        yield tested("identity", "I", same, tests.multiple(1.0))
        if len(terms) == 1 and terms[0].value.is_number and not terms[0].conditions:
            yield from _multiple(name, terms[0].value)
    found = _found_ahead(terms)
    where = found or ", which receives its weight"
    if read:
        stay = f"a permutation that leaves the entries of {name} in their order at these numbers{found}"
        yield tested("permutation", "", stay, tests.multiple(1.0))
    moved = f"a permutation: the output holds the entries of {name} in another order{found}"
    yield tested("permutation", "", moved, tests.permutation)
    repeated = f"each entry of {name} is used in several outputs, whose weights are added"
    yield tested("expansion", "", f"an expansion: {repeated}", tests.both(tests.selection, tests.several_ways))
    yield tested("selection", "", f"a selection: each output copies one entry of {name}{where}", tests.selection)
    partly = f"some outputs are entries of {name}; the others do not depend on it"
    yield tested("partial", "", partly, tests.part)
    yield tested("expansion", "", repeated, tests.several_ways)
    adds = f"each output adds entries of {name}: its row holds"
    yield tested("sum", "", f"{adds} a 1 at each of them", tests.both(tests.all_ones, tests.added_up))
    yield tested("sum", "", f"{adds} the same number at each of them", tests.added_up)


def _multiple(name: str, factor: Expr) -> Iterator[Claim]:
    """A number times the identity."""
    number = f"({factor})" if factor.is_Rational and not factor.is_Integer else tidy_exponents(f"{float(factor):g}")
    text = "-I" if factor == -1 else f"{number}·I"
    says = f"a multiple of the identity: each output depends only on the matching entry of {name}"
    if factor.is_Rational or float(number) == float(factor):
        yield tested("diagonal", text, says, tests.both(tests.in_place, tests.multiple(float(factor))))


def _diagonals(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index], terms: Sequence[DeltaTerm]
) -> Iterator[Claim]:
    """Where every axis is paired with its own."""
    whole = [all(t.pairs.get(n) == n for n in range(len(outer))) and len(outer) == len(inner) for t in terms]
    says = f"diagonal: each output depends only on the matching entry of {name}"
    if all(whole):
        at_place = dict(zip(inner, outer, strict=True))
        notation = _notation(program, sp.Add(*(t.without(range(len(outer))) for t in terms)).xreplace(at_place), outer)
        if notation:
            there = tests.both(tests.in_place, tests.diagonal_is(notation))
            yield tested("diagonal", f"diag({_transposed(notation)})", says, there)
        yield tested("diagonal", "", says, tests.in_place)
    elif any(whole):
        first, second = (
            sp.Add(*(t.whole for t, w in zip(terms, whole, strict=True) if w is on)) for on in (True, False)
        )
        says = "a diagonal plus a term in which every output can depend on every entry"
        parts = tests.sum_of(first, tests.in_place, second, tests.every_entry)
        yield tested("diagonal plus dense", "", says, parts)


def _blocks(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index], terms: Sequence[DeltaTerm]
) -> Iterator[Claim]:
    """I ⊗ M or M ⊗ I, where the paired axes stand first or last and M does not mention them; else one block each."""
    lead = min(_count_tied(t, zip(range(len(outer)), range(len(inner)), strict=False)) for t in terms)
    yield from _equal_blocks(program, name, outer, inner, terms, lead, 0)
    backwards = [*zip(reversed(range(len(outer))), reversed(range(len(inner))), strict=False)]
    if trail := min(_count_tied(t, backwards) for t in terms):
        yield from _equal_blocks(program, name, outer, inner, terms, 0, trail)
    if lead:
        says = f"block-diagonal: one block per {_unit(len(inner) - lead)} of {name}, zeros elsewhere"
        yield tested("block-diagonal", "", says, tests.blocks(lead))


def _equal_blocks(
    program: Program, name: str, outer: Sequence[Index], inner: Sequence[Index], terms: Sequence[DeltaTerm],
    lead: int, trail: int,
) -> Iterator[Claim]:  # fmt: skip
    """I ⊗ M for the first axes, M ⊗ I for the last ones; M itself where there is one block."""
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
        yield tested("kronecker", text, says, tests.same_blocks(lead, trail, notation, row))
    if notation and not trail:
        whole = tests.both(tests.same_blocks(lead, 0, notation, row, several=False), tests.every_entry)
        yield tested("dense", shown, f"every output can depend on every entry of {name}", whole)
    yield tested("kronecker", "", same, tests.same_blocks(lead, trail, None, row))


def _rest(name: str, terms: Sequence[DeltaTerm]) -> Iterator[Claim]:
    """What is left to say: how many entries an output can answer to."""
    found = _found_ahead(terms)
    yield tested("one a row", "", f"each output depends on only one entry of {name}{found}", tests.one_at_most(1))
    yield tested("one a row", "", f"each output depends on at most one entry of {name}{found}", tests.one_at_most(0))
    yield tested("dense", "", f"every output can depend on every entry of {name}", tests.every_entry)
    yield tested("sparse", "", f"no output depends on all entries of {name}", tests.none_answers_to_all)


def _found_ahead(terms: Sequence[DeltaTerm]) -> str:
    """Said where a condition reads a place that the forward pass found."""
    read = (name_of(entry) for term in terms for c in term.conditions for entry in accesses(c))
    return ", found in the forward pass" if any("·" in name for name in read) else ""


# Reading terms --------------------------------------------------------------------------------------


def _term(term: Expr, outer: Sequence[Index], inner: Sequence[Index]) -> DeltaTerm:
    """Which output axis a delta ties to which input axis, the other conditions on places, and the other factors."""
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
    """The two axes of a delta between an output index and an input index of the same size."""
    for o, p in (factor.args, factor.args[::-1]):
        if o in outer and p in inner and o.size == p.size:
            return list(outer).index(o), list(inner).index(p)
    return None


def _count_tied(term: DeltaTerm, axes: Iterable[tuple[int, int]]) -> int:
    """How many of some axes, from the first of them on, are tied one to one."""
    return sum(1 for _ in takewhile(lambda pair: term.pairs.get(pair[0]) == pair[1], axes))


def _unit(rest: int) -> str:
    """What the first axes number, when ``rest`` axes of the input are left."""
    return {0: "entry", 1: "row", 2: "matrix"}.get(rest, "slice")


# Notation -------------------------------------------------------------------------------------------


def _block(program: Program, expression: Expr, rows: Sequence[Index], columns: Sequence[Index]) -> str:
    """A matrix with at most one row and one column index in matrix notation."""
    return "" if len(rows) > 1 or len(columns) > 1 else _notation(program, expression, (*rows, *columns))


def _notation(program: Program, expression: Expr, axes: Sequence[Index]) -> str:
    """An expression in matrix notation, as code; empty where there is none that is short."""
    try:
        text = FormWriter(program).whole(expression, tuple(axes), program.output).text
    except NoForm:
        return ""
    return "" if "expand" in text or len(text) > LONGEST else text


def _laid_out(text: str, row: bool) -> str:
    """A block as it is shown: a vector that is a row is transposed."""
    if not row:
        return _transposed(text)
    return f"{text}ᵀ" if text.isidentifier() else f"({text})ᵀ"


def _transposed(text: str) -> str:
    """``a.T`` with ᵀ."""
    return text[:-2] + "ᵀ" if text.endswith(".T") and text[:-2].isidentifier() else text


def why_nothing_flows(program: Program, name: str) -> str:
    """What cuts the way back, or that there is none to cut.

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
    """Whether nothing flows back to any operand."""
    if isinstance(step.op, VectorProduct):
        return False
    entry = entry_of(step.op)
    return entry is not None and (
        is_non_differentiable(entry) or all(is_data_argument(step.op, n) for n in range(len(step.arguments)))
    )
