"""Sums against the turns e^(±2πi·j·k/n) as torch's Fourier transforms: the pullback of one is another one.

    Σ_k (cos(2π·p·k/n) + i·sin(2π·p·k/n))·v[k]    →  torch.fft.ifft(v, norm="forward")

Comes in: a formula in complex letters (`symgrad.closed_form.writing.complex_forms`). Goes out: the formula in which
each such sum is a letter, and what the letters are. A cosine is (e + 1/e)/2 and a sine (e − 1/e)/2i of a letter e for
the turn.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.closed_form.rewriting.conjugates import BAR, over_one_range
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, access, accesses, indices_of, name_of
from symgrad.program import free_name
from symgrad.shapes import Size

SPECTRUM = "spectrum"
WORDS = {-1: ("fft", ""), 1: ("ifft", ', norm="forward"')}
"""The transform that turns forwards or back, neither divided by n."""


@dataclass(frozen=True)
class Transform:
    """The transform of a tensor along ``dims``, of so many points, of which so many are kept; ``rank`` axes in all."""

    name: str
    sign: int
    rank: int
    dims: tuple[int, ...]
    given: tuple[Size, ...]
    points: tuple[Size, ...]
    kept: tuple[Size, ...]

    def text(self, inner: str, size: Callable[[Size], str]) -> str:
        """As torch is called; ``size`` writes a length."""
        word, norm = WORDS[self.sign]
        several = len(self.dims) > 1
        lengths, dims = [size(n) for n in self.points], [str(d) for d in self.dims]
        padded = self.points != self.given
        length = f", s=({', '.join(lengths)})" if several else f", n={lengths[0]}"
        every = self.dims == tuple(range(self.rank)) if several else self.dims == (self.rank - 1,)
        along = "" if every else f", dim=({', '.join(dims)})" if several else f", dim={dims[0]}"
        found = f"torch.fft.{word}{'n' * several}({inner}{length * padded}{along}{norm})"
        cut = dict(zip(self.dims, self.kept, strict=True)) if self.kept != self.points else {}
        last = max(cut, default=-1)
        parts = [f":{size(cut[d])}" if d in cut else ":" for d in range(last + 1)]
        return f"{found}[{', '.join(parts)}]" if parts else found


@dataclass
class Spectra:
    """The transforms of a formula with ``axes``; ``complexes`` are of complex numbers, ``taken`` names of others.

    torch cuts what is longer than the points of a transform: where that is wrong, the proof finds it.
    """

    axes: Sequence[Index]
    complexes: Mapping[str, None]
    taken: Collection[str]
    made: dict[str, Transform]

    def put_in(self, formula: Expr) -> Expr | None:
        """``formula`` with a letter for each sum against turns; None where a sum is something else."""
        turns: dict[Expr, sp.Symbol] = {}
        sums, rest = list[tuple[Expr, Expr, list[Index]]](), sp.S.Zero
        for outside, inside, own in summands(formula):
            if not own:
                rest += outside * inside
                continue
            number, beside = outside.as_independent(*outside.free_symbols, as_Add=False)
            sums.append((beside, number * inside, own))
        for beside, body, bound in over_one_range(sums):
            for term in sp.Add.make_args(sp.expand(in_turns(body, turns))):
                found = self.transform(term, bound, turns)
                if found is None:
                    return None
                rest += beside * found
        return rest

    def transform(self, term: Expr, bound: Sequence[Index], turns: Mapping[Expr, sp.Symbol]) -> Expr | None:
        """One term of a sum: a number, turns, and an entry that is read along the summed axes."""
        powers = term.as_powers_dict()
        read = [a for a in accesses(term) if {*indices_of(a)} & {*bound}]
        if len(read) != 1 or powers[read[0]] != 1:
            return None
        entry, factor = read[0], term / read[0]
        at, dims, points, signs = list(indices_of(entry)), [], [], set()
        for index in bound:
            around = [(angle, e) for angle, e in turns.items() if angle.has(index) and powers[e] != 0]
            if len(around) != 1 or at.count(index) != 1:
                return None
            angle, e = around[0]
            partner = next((p for p in self.axes if angle.has(p)), None)
            if partner is None:
                return None
            count = sp.cancel(2 * sp.pi * index * partner / angle)
            if count.has(index, partner, sp.pi):
                return None
            dims.append(at.index(index))
            points.append((count, index.size, partner.size))
            at[dims[-1]] = partner
            signs.add(powers[e])
            factor /= e ** powers[e]
        if len(signs) != 1 or not signs <= {1, -1} or factor.has(*bound, *turns.values()):
            return None
        (sign,) = signs
        name = name_of(entry)
        turned = name.endswith(BAR) or (name not in self.complexes and sign == 1)
        order = sorted(range(len(dims)), key=dims.__getitem__)
        lengths = [tuple(points[n][part] for n in order) for part in (1, 0, 2)]
        made = Transform(name.removesuffix(BAR), int(-sign if turned else sign), len(at), tuple(sorted(dims)), *lengths)
        known = next((own for own, other in self.made.items() if other == made), None)
        letter = known or free_name((SPECTRUM,), {*self.taken, *self.made})
        self.made[letter] = made
        return factor * access(letter + BAR * turned, at)


def summands(formula: Expr) -> Iterator[tuple[Expr, Expr, list[Index]]]:
    """The terms of a formula: what stands outside of all sums, what inside, and the indices of all sums around that."""
    for term in sp.Add.make_args(formula):
        factors = sp.Mul.make_args(term)
        bracket = next((f for f in factors if f.is_Add and f.has(sp.Sum)), None)
        total = next((f for f in factors if isinstance(f, sp.Sum)), None)
        if bracket is not None:
            yield from (part for each in bracket.args for part in summands(term / bracket * each))
        elif total is None:
            yield term, sp.S.One, []
        else:
            own = [limit[0] for limit in total.limits]
            for outside, inside, inner in summands(total.function):
                yield term / total, outside * inside, [*own, *inner]


def in_turns(body: Expr, turns: dict[Expr, sp.Symbol]) -> Expr:
    """``body`` with letters for the turns of its cosines and sines."""

    def letter(angle: Expr) -> sp.Symbol:
        return turns.setdefault(angle, sp.Dummy("e"))

    found = body.replace(sp.cos, lambda angle: (letter(angle) + 1 / letter(angle)) / 2)
    return found.replace(sp.sin, lambda angle: (letter(angle) - 1 / letter(angle)) / (2 * sp.I))
