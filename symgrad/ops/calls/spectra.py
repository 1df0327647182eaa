"""torch.fft along several axes: one axis after the other, each an entry of the table.

Comes in: the lengths and axes as torch has them. Goes out: the axes in turn, each with its length, and the compounds of
the transforms of a signal that is its own mirror image: ``hfft2`` goes forward along all axes but the last, ``ihfft2``
along the last one first.
"""

from __future__ import annotations

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


def along_axes(word: str, usual: Any, says: str) -> None:
    """Enter a transform that goes along ``usual`` axes where none are named."""

    def transform(call: Call, part: int, x: Any, s: Any = None, dim: Any = usual, norm: Any = None) -> Last:
        *others, last = axes_of(x, s, dim)
        if word.startswith("i"):
            steps = [("complex_ihfft", last), *(("complex_ifft", other) for other in others)]
        else:
            steps = [*(("complex_fft", other) for other in others), ("complex_hfft", last)]
        for name, (axis, n) in steps[:-1]:
            x = call(name, x, n=n, dim=axis, norm=norm)
        name, (axis, n) = steps[-1]
        return name, (x,), {"n": n, "dim": axis, "norm": norm}

    enter(Compound(word, transform, says, pairs=True), (f"torch.fft.{word}",))


for ending, usual, axes in (("2", LAST_TWO, "two axes."), ("n", None, "all axes.")):
    along_axes(f"hfft{ending}", usual, f"The real spectrum of a signal that is its own mirror image, along {axes}")
    along_axes(f"ihfft{ending}", usual, f"The first half of the signal with this real spectrum, along {axes}")
