"""torch.fft and the short-time transform, lifted on pairs: one axis at a time, each an entry of the table.

Comes in: the arguments of a recorded call. Goes out: the last step. A transform over several axes is one over each
of them in turn, and its norm is the product of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.language.steps.calls import Ref
from symgrad.ops import ground
from symgrad.ops.calls.spectra import LAST_TWO, axes_of
from symgrad.tracing.lift.complex.pairs import Pairs, Rule, is_complex
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.record.trace import Node

REAL_IN = ("rfft", "ihfft")
LONGEST = 4096
"""Transforms of more points are black boxes: their equation's cosines would not fit into memory."""


def given(p: Pairs, word: str, x: Any) -> Ref:
    """What a transform takes: a real tensor, or pairs."""
    if word in REAL_IN:
        if is_complex(x):
            raise Refused(f"{word} takes a real tensor")
        return p.real(x)  # type: ignore[no-any-return]  # a node's reference
    return p.pair(x)


def along(p: Pairs, word: str, ref: Ref, n: Any, dim: int, norm: str | None) -> Ref:
    """One transform along one axis."""
    points = max(int(ref.shape[dim]), int(n or 0))
    if points > LONGEST:
        raise Refused(f"{points} points: the equation is a sum against a table of {points}² cosines")
    return p(f"complex_{word}", ref, n, dim, norm)


def one(word: str) -> Rule:
    """Along one axis."""

    def rule(p: Pairs, x: Node, n: int | None = None, dim: int = -1, norm: str | None = None) -> Ref:
        return along(p, word, given(p, word, x), n, dim % len(x.shape), norm)

    return rule


def several(first: str | None, rest: str, last: str | None, usual: Any) -> Rule:
    """``first`` along the last of the axes, ``rest`` along the others, or the others first and then ``last``."""

    def rule(p: Pairs, x: Node, s: Any = None, dim: Any = usual, norm: str | None = None) -> Ref:
        axes = axes_of(x, s, dim)
        ref = given(p, first or rest, x)
        if first is not None:
            ref = along(p, first, ref, axes[-1][1], axes[-1][0], norm)
        whole = first is None and last is None
        for axis, n in axes if whole else axes[:-1]:
            ref = along(p, rest, ref, n, axis, norm)
        return ref if last is None else along(p, last, ref, axes[-1][1], axes[-1][0], norm)

    return rule


def stft(
    p: Pairs,
    x: Node,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Ref | None:
    """Windows of the signal, each weighed and transformed: out[f, t] = Σ_j w[j]·x[hop·t + j]·exp(−2πi·jf/n)."""
    if align_to_window or is_complex(x):
        return None
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    frames = p(ground.unfold, p.real(x), len(x.shape) - 1, n_fft, hop)
    left = (n_fft - width) // 2
    margins = (left, n_fft - width - left)
    if window is not None:
        if is_complex(window):
            return None
        weights = p.real(window) if width == n_fft else p(ground.pad, p.real(window), margins)
        frames = p(ground.mul, frames, weights)
    elif width != n_fft:
        frames = p(ground.mul, frames, p.lifter.data("window", np.pad(np.ones(width), margins)))
    axis, norm = len(frames.shape) - 1, "ortho" if normalized else None
    half = onesided is None or onesided
    source = frames if half else p(ground.complex_pair, frames, 0)
    return p(ground.transpose, along(p, "rfft" if half else "fft", source, None, axis, norm), axis - 1, axis)


SPECTRA: Mapping[str, Rule] = {
    **{word: one(word) for word in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{
        f"{word}{tail}": several(first, rest, last, usual)
        for tail, usual in (("2", LAST_TWO), ("n", None))
        for word, first, rest, last in (
            ("fft", None, "fft", None),
            ("ifft", None, "ifft", None),
            ("rfft", "rfft", "fft", None),
            ("irfft", None, "ifft", "irfft"),
            ("hfft", None, "fft", "hfft"),
            ("ihfft", "ihfft", "ifft", None),
        )
    },
    "stft": stft,
}
"""Functions of torch.fft by their last word."""
