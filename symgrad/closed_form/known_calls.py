"""Gradients that torch has a call for: what is written at positions, and convolutions read backwards.

Each function looks at the shape of a whole formula and answers with the call, or with None. As with every closed form,
the text is shown only after it was read back and agreed with the formula.

    Σ_j δ(p, n[j])·v[j,q]                  →  zeros_like(x).index_add(0, n, v)
    Σ_j δ(q, n[p,j])·v[p,j]                →  zeros_like(x).scatter_add(1, n, v)
    Σ_{o,k} v[n,o,k]·w[o,c,p−s·k+d]        →  conv_transpose1d(v, w, stride=s, padding=d)
    Σ_{n,k} v[n,o,k]·x[n,c,s·k+r−d]        →  conv1d(x.transpose(0, 1), v.transpose(0, 1), padding=d, dilation=s)
                                                .transpose(0, 1)
    Σ_{o,k} v[n,o,k]·w[c,o,k−s·p+d]        →  conv1d(v, w, stride=s, padding=d), for a transposed one

With a stride these are as long as x and w only if no entry is left over at the end; where one is, they are not shown.
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


def told(word: str, numbers: Sequence[Expr], usual: int) -> str | None:
    """Whole numbers from 0 up as an argument; empty where all are as usual."""
    if not all(number.is_Integer and number >= 0 for number in numbers):
        return None
    same = f"{numbers[0]}" if len(set(numbers)) == 1 else f"({', '.join(map(str, numbers))})"
    return f", {word}={same}" if any(number != usual for number in numbers) else ""


def slopes_and_gaps(places: Sequence[Expr], steps: Sequence[Index], word: str) -> str | None:
    """Places s·k − d as arguments, k the steps of a window: ``word`` says s, ``padding`` d."""
    slopes = [place.coeff(step) for place, step in zip(places, steps, strict=True)]
    gaps = [sp.expand(s * k - place) for place, s, k in zip(places, slopes, steps, strict=True)]
    texts = [told(word, slopes, 1), told("padding", gaps, 0)]
    return None if None in texts or sp.S.Zero in slopes else "".join(text for text in texts if text)


def apart(longer: Sequence[Expr], shorter: Sequence[Expr]) -> list[Expr]:
    """Differences of places."""
    return [sp.expand(a - b) for a, b in zip(longer, shorter, strict=True)]


def backwards(notation: Notation, v: Expr, w: Expr, bound: list[Index], axes: Sequence[Index]) -> str | None:
    """A convolution read backwards: v[n,o,k]·w[o,c,p−s·k+d], or w[c,o,k−s·p+d], summed over o and k."""
    seed, kernel = indices_of(v), indices_of(w)
    space = len(kernel) - 2
    if not 1 <= space <= MOST_AXES or len(seed) != len(axes) or name_of(v) != "v" or len(axes) < space + 1:
        return None
    outputs, steps, channel, places = seed[-space - 1], seed[-space:], axes[-space - 1], axes[-space:]
    if {outputs, *steps} != set(bound) or len(bound) != space + 1 or seed[: -space - 1] != tuple(axes[: -space - 1]):
        return None
    text = notation.texts.tensor(name_of(w))[0]
    if kernel[:2] == (outputs, channel):
        how = slopes_and_gaps(apart(places, kernel[2:]), steps, "stride")
        return None if how is None else f"conv_transpose{space}d(v, {text}{how})"
    how = slopes_and_gaps(apart(steps, kernel[2:]), places, "stride") if kernel[:2] == (channel, outputs) else None
    return None if how is None else f"conv{space}d(v, {text}{how})"


def weights_of(notation: Notation, v: Expr, x: Expr, bound: list[Index], axes: Sequence[Index]) -> str | None:
    """The gradient of a convolution's weights is a convolution: v[n,o,k]·x[n,c,s·k+r−d], summed over n and k."""
    seed, data = indices_of(v), indices_of(x)
    space = len(axes) - 2
    if not 1 <= space <= MOST_AXES or len(seed) != len(axes) or len(data) != len(axes) or name_of(v) != "v":
        return None
    added = {index for index in (seed[0], *seed[2:]) if isinstance(index, Index)}  # no sum over a batch of one
    if seed[1] != axes[0] or data[1] != axes[1] or seed[0] != data[0] or added != set(bound):
        return None
    how = slopes_and_gaps(apart(data[2:], axes[2:]), seed[2:], "dilation")
    text = notation.texts.tensor(name_of(x))[0]
    turned = f"conv{space}d({text}.transpose(0, 1), v.transpose(0, 1){how}).transpose(0, 1)"
    return None if how is None else turned
