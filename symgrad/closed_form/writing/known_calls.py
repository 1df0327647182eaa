"""Gradients that torch has a call for: what is written at positions, and convolutions read backwards.

Each function looks at the shape of a whole formula and answers with the call, or with None. As with every closed form,
the text is shown only after it was read back and agreed with the formula.

    Σ_j δ(p, n[j])·v[j,q]                  →  zeros_like(x).index_add(0, n, v): `places`
    Σ_{o,k} v[n,o,k]·w[o,c,p−s·k+d]        →  conv_transpose1d(v, w, stride=s, padding=d): `convolutions`
    Σ_{a,b} v[n,(c,a,b),(p−a,q−b)]         →  F.fold(v, x.shape[-2:], (k, l)): `folds`
    Σ_j v[p−j,j]                           →  zeros_like(x).index_add(0, arange(n).unfold(0, k, 1)…): `selections`
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.rewriting.asking import indices_in, reads_tensor
from symgrad.closed_form.rewriting.merging import taken_apart
from symgrad.closed_form.texts.notation import Notation
from symgrad.closed_form.writing.convolutions import convolution
from symgrad.closed_form.writing.folds import folded, unfolded
from symgrad.closed_form.writing.places import written_at
from symgrad.closed_form.writing.selections import by_steps, by_windows, on_diagonal
from symgrad.indexing import Bracket, Index
from symgrad.indexing.brackets import Unravel
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of


def known_call(notation: Notation, node: Expr, axes: Sequence[Index], wanted: str) -> str | None:
    """The call that gives ``node``, a formula for the whole tensor ``wanted``."""
    factors, bound = taken_apart(node)
    conditions = [f for f in factors if isinstance(f, Bracket) and not reads_tensor(f)]
    rest = [f for f in factors if f not in conditions]
    deltas = [f for f in rest if isinstance(f, sp.KroneckerDelta)]
    accesses = [f for f in rest if is_access(f) and "·" not in name_of(f)]
    if len(deltas) == 1 and len(accesses) == 1 and reads_tensor(deltas[0]):
        v, beside = accesses[0], [f for f in factors if f not in (*deltas, *accesses)]
        within = all(indices_in(factor) <= {*indices_of(v)} for factor in beside)
        return written_at(notation, deltas[0], v, beside, axes, wanted) if within else None
    if len(deltas) == 1 and len(rest) == 2 and len(accesses) == 1 and not deltas[0].has(sp.Mod, Unravel):
        return on_diagonal(notation, deltas[0], accesses[0], axes, wanted)
    if len(accesses) == 1 and len(accesses) + len(deltas) == len(rest) and not bound:
        return by_steps(notation, accesses[0], axes, wanted) if deltas else unfolded(notation, accesses[0], axes)
    if len(accesses) == 2 and len(accesses) + len(deltas) == len(rest) and bound:
        v, other = sorted(accesses, key=lambda access: name_of(access) != notation.program.seed)
        return convolution(notation, node, v, other, bound, axes)
    if len(accesses) == 1 and len(accesses) + len(deltas) == len(rest) and bound:
        windows = by_windows(notation, accesses[0], bound[0], axes, wanted) if len(bound) == 1 else None
        return windows or folded(notation, accesses[0], bound, axes, wanted)
    return None
