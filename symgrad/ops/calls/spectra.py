"""torch.fft along several axes: one axis after the other, each an entry of the table.

Comes in: the lengths and axes as torch has them. Goes out: the axes in turn, each with its length, and the compounds of
the transforms of a signal that is its own mirror image: ``hfft2`` goes forward along all axes but the last, ``ihfft2``
along the last one first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.ops.calls.registry import Call, Compound, Last, enter
from symgrad.ops.complex.fourier import each_axis

Axes = list[tuple[int, Any]]
"""Axes counted from the front, each with the length that is asked for there; None is its own."""
LAST_TWO = (-2, -1)


def axes_of(x: Any, s: Any, dim: Any) -> Axes:
    """Each axis with the length asked for there; -1 is its own."""
    axes, lengths = each_axis(len(x.shape), s, dim)
    return [(axis, None if n == -1 else n) for axis, n in zip(axes, lengths, strict=True)]


def mirrored(call: Call, x: Any, axes: Axes, norm: Any) -> Last:
    """The real spectrum of a signal that is its own mirror image: the last axis at the end."""
    *others, (last, n) = axes
    for axis, length in others:
        x = call("complex_fft", x, n=length, dim=axis, norm=norm)
    return "complex_hfft", (x,), {"n": n, "dim": last, "norm": norm}


def halved(call: Call, x: Any, axes: Axes, norm: Any) -> Last:
    """The signal's first half, of its real spectrum: the last axis first."""
    *others, (last, n) = axes
    steps: list[tuple[str, int, Any]] = [("complex_ihfft", last, n)]
    steps += [("complex_ifft", axis, length) for axis, length in others]
    for name, axis, length in steps[:-1]:
        x = call(name, x, n=length, dim=axis, norm=norm)
    name, axis, length = steps[-1]
    return name, (x,), {"n": length, "dim": axis, "norm": norm}


def along_axes(word: str, steps: Callable[..., Last], usual: Any, says: str) -> None:
    """Enter a transform that goes along ``usual`` axes where none are named."""

    def transform(call: Call, part: int, x: Any, s: Any = None, dim: Any = usual, norm: Any = None) -> Last:
        return steps(call, x, axes_of(x, s, dim), norm)

    enter(Compound(word, transform, says, pairs=True), (f"torch.fft.{word}",))


SPECTRUM = "The real spectrum of a signal that is its own mirror image, along"
SIGNAL = "The first half of the signal with this real spectrum, along"
along_axes("hfft2", mirrored, LAST_TWO, f"{SPECTRUM} two axes.")
along_axes("hfftn", mirrored, None, f"{SPECTRUM} all axes.")
along_axes("ihfft2", halved, LAST_TWO, f"{SIGNAL} two axes.")
along_axes("ihfftn", halved, None, f"{SIGNAL} all axes.")
