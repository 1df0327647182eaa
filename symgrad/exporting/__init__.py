"""The forward pass and vᵀJ as source that stands on its own: a `torch.autograd.Function`, or plain functions.

Comes in: text, an index equation or a captured program. Goes out: Python for torch, NumPy or jax, from the same lines
that the pages show (`symgrad.backward`). The function is `symgrad.export`, so the package cannot be called that.
"""

from symgrad.exporting.source import export

__all__ = ["export"]
