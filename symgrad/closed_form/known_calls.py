"""Gradients that torch has a call for: what is written at positions, and convolutions read backwards.

Each function looks at the shape of a whole formula and answers with the call, or with None. As with every closed form,
the text is shown only after it was read back and agreed with the formula.

    Σ_j δ(p, n[j])·v[j,q]                  →  zeros_like(x).index_add(0, n, v)
    Σ_j δ(q, n[p,j])·v[p,j]                →  zeros_like(x).scatter_add(1, n, v)
    Σ_{o,k} v[n,o,k]·w[o,c,p−s·k+d]        →  conv_transpose1d(v, w, stride=s, padding=d): `convolutions`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy as sp

from symgrad.closed_form.asking import reads_tensor
from symgrad.closed_form.convolutions import convolution
from symgrad.closed_form.merging import taken_apart
from symgrad.indexing import Bracket, Index
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of

if TYPE_CHECKING:
    from symgrad.closed_form.writer import Notation


def known_call(notation: Notation, node: Expr, axes: Sequence[Index], wanted: str) -> str | None:
    """The call that gives ``node``, a formula for the whole tensor ``wanted``."""
    factors, bound = taken_apart(node)
    conditions = [f for f in factors if isinstance(f, Bracket) and not reads_tensor(f)]
    rest = [f for f in factors if f not in conditions]
    deltas = [f for f in rest if isinstance(f, sp.KroneckerDelta)]
    accesses = [f for f in rest if is_access(f) and "·" not in name_of(f)]
    if len(deltas) == 1 and len(rest) == 2 and len(accesses) == 1 and len(bound) == 1:
        return written_at(notation, deltas[0], accesses[0], axes, wanted)
    if len(accesses) == 2 and len(accesses) + len(deltas) == len(rest) and bound:
        v, other = sorted(accesses, key=lambda access: name_of(access) != notation.program.seed)
        return convolution(notation, node, v, other, bound, axes)
    return None


def written_at(notation: Notation, delta: Expr, seed: Expr, axes: Sequence[Index], wanted: str) -> str | None:
    """index_add for positions that hold for whole slices, scatter_add for positions of single entries."""
    here, there = sorted(delta.args, key=lambda side: side not in axes)
    if here not in axes or not is_access(there) or "·" in name_of(there):
        return None
    dim, own = list(axes).index(here), indices_of(seed)
    if len(own) != len(axes) or any(a != b for n, (a, b) in enumerate(zip(own, axes, strict=True)) if n != dim):
        return None
    positions, moved = notation.texts.tensor(name_of(there))[0], notation.texts.tensor(name_of(seed))[0]
    if indices_of(there) == (own[dim],):
        return f"zeros_like({wanted}).index_add({dim}, {positions}, {moved})"
    return f"zeros_like({wanted}).scatter_add({dim}, {positions}, {moved})" if indices_of(there) == own else None
