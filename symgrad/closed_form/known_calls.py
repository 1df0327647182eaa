"""Gradients that torch has a call for: what is written at positions, and convolutions read backwards.

Each function looks at the shape of a whole formula and answers with the call, or with None. As with every closed form,
the text is shown only after it was read back and agreed with the formula.

    Σ_j δ(p, n[j])·v[j,q]                  →  zeros_like(x).index_add(0, n, v)
    Σ_j δ(q, n[p,j])·v[p,j]                →  zeros_like(x).scatter_add(1, n, v)
    Σ_{o,k} v[n,o,k]·w[o,c,p−k+d]          →  conv_transpose1d(v, w, padding=d)
    Σ_{n,k} v[n,o,k]·x[n,c,k+r−d]          →  conv1d(x.transpose(0, 1), v.transpose(0, 1), padding=d).transpose(0, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy as sp

from symgrad.closed_form.asking import reads_tensor
from symgrad.closed_form.merging import taken_apart
from symgrad.indexing import Bracket, Index
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of

if TYPE_CHECKING:
    from symgrad.closed_form.writer import Notation

MOST_AXES = 3
"""Axes that torch's convolutions move along at most."""


def known_call(notation: Notation, node: Expr, axes: Sequence[Index], wanted: str) -> str | None:
    """The call that gives ``node``, a formula for the whole tensor ``wanted``."""
    factors, bound = taken_apart(node)
    conditions = [f for f in factors if isinstance(f, Bracket) and not reads_tensor(f)]
    rest = [f for f in factors if f not in conditions]
    deltas = [f for f in rest if isinstance(f, sp.KroneckerDelta)]
    accesses = [f for f in rest if is_access(f) and "·" not in name_of(f)]
    if len(deltas) == 1 and len(rest) == 2 and len(accesses) == 1 and len(bound) == 1:
        return written_at(notation, deltas[0], accesses[0], axes, wanted)
    if len(accesses) == len(rest) == 2 and bound:
        v, other = sorted(accesses, key=lambda access: name_of(access) != "v")
        return backwards(notation, v, other, bound, axes) or weights_of(notation, v, other, bound, axes)
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


def padding(gaps: Sequence[Expr]) -> str | None:
    """Gaps that are whole numbers from 0 up as an argument; empty where all are 0."""
    if not all(gap.is_Integer and gap >= 0 for gap in gaps):
        return None
    same = f"{gaps[0]}" if len(set(gaps)) == 1 else f"({', '.join(map(str, gaps))})"
    return f", padding={same}" if any(gaps) else ""


def backwards(notation: Notation, v: Expr, w: Expr, bound: list[Index], axes: Sequence[Index]) -> str | None:
    """A convolution of stride 1 read backwards: v[n,o,k]·w[o,c,p−k+d], summed over o and k."""
    seed, kernel = indices_of(v), indices_of(w)
    space = len(kernel) - 2
    if not 1 <= space <= MOST_AXES or len(seed) != len(axes) or name_of(v) != "v" or len(axes) < space + 1:
        return None
    outputs, steps, channel, places = seed[-space - 1], seed[-space:], axes[-space - 1], axes[-space:]
    fits = kernel[:2] == (outputs, channel) and {outputs, *steps} == set(bound) and len(bound) == space + 1
    gaps = [sp.expand(e - p + k) for e, p, k in zip(kernel[2:], places, steps, strict=True)]
    told = padding(gaps) if fits and seed[: -space - 1] == tuple(axes[: -space - 1]) else None
    return None if told is None else f"conv_transpose{space}d(v, {notation.texts.tensor(name_of(w))[0]}{told})"


def weights_of(notation: Notation, v: Expr, x: Expr, bound: list[Index], axes: Sequence[Index]) -> str | None:
    """The gradient of a convolution's weights is a convolution: v[n,o,k]·x[n,c,k+r−d], summed over n and k."""
    seed, data = indices_of(v), indices_of(x)
    space = len(axes) - 2
    if not 1 <= space <= MOST_AXES or len(seed) != len(axes) or len(data) != len(axes) or name_of(v) != "v":
        return None
    fits = seed[1] == axes[0] and data[1] == axes[1] and seed[0] == data[0] and {seed[0], *seed[2:]} == set(bound)
    gaps = [sp.expand(k + r - e) for k, r, e in zip(seed[2:], axes[2:], data[2:], strict=True)]
    told = padding(gaps) if fits and len(bound) == space + 1 else None
    text = notation.texts.tensor(name_of(x))[0]
    turned = f"conv{space}d({text}.transpose(0, 1), v.transpose(0, 1){told}).transpose(0, 1)"
    return None if told is None else turned
