"""torch.fft and the short-time transform, lifted on pairs: entries of the table, or calls that are several of them.

Comes in: the arguments of a recorded call. Goes out: the last step.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from symgrad.language.steps.calls import Ref
from symgrad.ops import ground
from symgrad.ops.calls.complex_rules import Rule
from symgrad.ops.calls.registry import find_compound
from symgrad.ops.complex.fourier import each_axis
from symgrad.ops.entry import named
from symgrad.tracing.lift.complex.pairs import Pairs, is_complex
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.record.trace import Node

LONGEST = 4096
"""Transforms of more points are black boxes: their equation's cosines would not fit into memory."""


def along(p: Pairs, name: str, x: Any, *given: Any, **spoken: Any) -> Ref:
    """One transform along its axes, of a node or of an earlier step."""
    op, of_pairs = named(name), "x" in named(name).pairs
    if isinstance(x, Node) and is_complex(x) and not of_pairs:
        raise Refused(f"{name.removeprefix('complex_')} takes a real tensor")
    ref: Ref = p.pair(x) if of_pairs else p.real(x)
    call = op.signature.bind(ref, *given, **spoken)
    call.apply_defaults()
    _, asked, dim, _ = call.arguments.values()
    sizes = ref.shape[: -1 if of_pairs else None]
    for axis, points in zip(*each_axis(len(sizes), asked, dim), strict=True):
        longest = max(int(sizes[axis]), int(points or 0))
        if longest > LONGEST:
            raise Refused(f"{longest} points: the equation is a sum against a table of {longest}² cosines")
    return p(op, ref, *given, **spoken)


def transform(word: str) -> Rule:
    """One of torch.fft's functions: an entry, or several of them."""

    def rule(p: Pairs, x: Node, *given: Any, **spoken: Any) -> Ref | None:
        several, apply = find_compound(f"torch.fft.{word}"), partial(along, p)
        if several is None:
            return apply(f"complex_{word}", x, *given, **spoken)
        last = several.steps(apply, 0, x, *given, **spoken)
        return None if last is None else apply(last[0], *last[1], **last[2])

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
    return p(ground.transpose, along(p, f"complex_{'r' * half}fft", source, None, axis, norm), axis - 1, axis)


WORDS = [f"{word}{tail}" for tail in ("", "2", "n") for word in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")]
SPECTRA: Mapping[str, Rule] = {**{word: transform(word) for word in WORDS}, "stft": stft}
"""Functions of torch.fft by their last word."""
