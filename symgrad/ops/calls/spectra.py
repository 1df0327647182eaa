"""torch.fft along several axes: one axis after the other, each an entry of the table.

Comes in: the lengths and axes as torch has them. Goes out: the axes in turn, each with its length, and the compounds of
the transforms of a signal that is its own mirror image: ``hfft2`` goes forward along all axes but the last, ``ihfft2``
along the last one first.
"""

from __future__ import annotations

from typing import Any

from symgrad.ops.calls.written import said
from symgrad.ops.complex.fourier import each_axis


def in_turn(x: Any, s: Any, dim: Any, back: bool) -> str:
    """One transform around the other, the last axis by the one that halves or doubles it."""
    axes, lengths = each_axis(len(x.shape), s, dim)
    *others, last = ((axis, None if n == -1 else n) for axis, n in zip(axes, lengths, strict=True))
    forward = [*(("complex_fft", other) for other in others), ("complex_hfft", last)]
    backward = [("complex_ihfft", last), *(("complex_ifft", other) for other in others)]
    text = "x"
    for name, (axis, n) in backward if back else forward:
        text = f"{name}({text}, n={n}, dim={axis}, norm=norm)"
    return text


# fmt: off
for ending, usual, along in (("2", (-2, -1), "two axes."), ("n", None, "all axes.")):
    said(f"hfft{ending}(x, s: axes=None, dim: axes={usual}, norm: any=None)", lambda x, s, dim, norm: in_turn(x, s, dim, back=False),
         f"The real spectrum of a signal that is its own mirror image, along {along}", f"torch.fft.hfft{ending}", pairs=True)
    said(f"ihfft{ending}(x, s: axes=None, dim: axes={usual}, norm: any=None)", lambda x, s, dim, norm: in_turn(x, s, dim, back=True),
         f"The first half of the signal with this real spectrum, along {along}", f"torch.fft.ihfft{ending}", pairs=True)
