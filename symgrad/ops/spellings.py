"""Further spellings of torch's that are one or two entries of the table."""

from __future__ import annotations

from typing import Any

from symgrad.ops.compounds import Call, Last, compound


@compound("F.softmin", "torch.softmin")
def softmin(call: Call, part: int, x: Any, dim: Any = -1) -> Last:
    """softmax(−x)"""
    return "softmax", (call("neg", x),), {"dim": dim}


@compound("torch.hstack", "np.hstack")
def hstack(call: Call, part: int, tensors: Any) -> Last:
    """cat along columns; of vectors and numbers along their only axis."""
    parts = [call("unsqueeze", t, dim=0) if not t.shape else t for t in tensors]
    return "cat", tuple(parts), {"dim": 0 if len(parts[0].shape) == 1 else 1}


@compound("torch.vstack", "torch.row_stack", "np.vstack")
def vstack(call: Call, part: int, tensors: Any) -> Last:
    """cat along rows; vectors are rows."""
    vectors = [call("unsqueeze", t, dim=0) if not t.shape else t for t in tensors]
    return "cat", tuple(call("unsqueeze", t, dim=0) if len(t.shape) == 1 else t for t in vectors), {"dim": 0}
