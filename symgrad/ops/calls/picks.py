"""Calls each of whose results is an entry of an argument: which one it is can be seen by sending numbers through them.

Comes in: nothing. Goes out: functions by their last word, in torch and in ATen. Captured programs read them
(`symgrad.tracing.lift.choices`), of real tensors and of complex ones.
"""

from __future__ import annotations

POOLS = (
    *(f"{kind}max_pool{n}d_with_indices" for kind in ("", "adaptive_", "fractional_") for n in (1, 2, 3)),
    *(f"adaptive_max_pool{n}d" for n in (1, 2, 3)),
    *(f"fractional_max_pool{n}d" for n in (2, 3)),
)
"""Poolings that also say where each maximum stood."""
CHOICES = frozenset({
    "split", "split_with_sizes", "chunk", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit", "select", "narrow",
    "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "as_strided", "unfold", "take", "index_select", "gather",
    "take_along_dim", "roll", "flip", "fliplr", "flipud", "rot90", "tile", "repeat", "repeat_interleave", "movedim",
    "moveaxis", "swapdims", "diagonal", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "unflatten", "squeeze",
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "broadcast_tensors", "meshgrid", "view", "reshape",
    "__getitem__", "permute", "ravel", "swapaxes", "transpose", "masked_select", "slice", "expand", "narrow_copy",
    "native_channel_shuffle", "adjoint", "T", "mT", "H", "mH", "squeeze_copy", "index", "select_copy",
    "slice_copy", "diagonal_copy", "unfold_copy", "as_strided_copy", "transpose_copy", "t", "flatten", "combinations",
    "cartesian_prod", "unsqueeze", "expand_as", "reshape_as", "view_as", "sort", "topk", "kthvalue", "mode", "median",
    "nanmedian", "msort", "cummax", "cummin", *POOLS, "permute_copy", "view_copy", "unbind_copy",
    "_pack_padded_sequence",
})  # fmt: skip
"""Functions each of whose results is an entry of their first argument."""
RANKED = frozenset({"sort", "topk", "kthvalue", "mode", "median", "nanmedian", "msort", "cummax", "cummin", *POOLS})
"""Choices that depend on the values: the places come as the second result."""
MOVERS = (CHOICES - RANKED) | frozenset({
    "fftshift", "ifftshift", "hstack", "vstack", "dstack", "column_stack", "row_stack", "block_diag", "tril", "triu",
    "diag", "diag_embed", "diagflat", "pad", "constant_pad_nd", "__setitem__", "index_put", "scatter", "masked_scatter",
    "slice_scatter", "select_scatter", "diagonal_scatter", "index_copy", "cat", "where", "put", "expand_copy", "t_copy", "unsqueeze_copy",
})  # fmt: skip
"""Functions each of whose results is an entry of one of their arguments, or 0."""
WRITES = frozenset({"__setitem__", "index_put", "scatter", "masked_scatter", "slice_scatter", "select_scatter",
                    "diagonal_scatter", "index_copy", "put"})  # fmt: skip
"""Functions that write entries over others: one that is written over again gets a gradient from torch all the same."""
SHARING = {
    **dict.fromkeys(["positive", "view_as", "view", "unsqueeze", "squeeze", "unflatten", "cpu"], "in order"),
    **dict.fromkeys(["contiguous", "reshape", "reshape_as", "flatten", "ravel"], "if dense"),
    **dict.fromkeys(["T", "mT", "t", "transpose", "swapaxes", "swapdims", "adjoint", "H", "mH"], "turned"),
    **dict.fromkeys(["chunk", "split", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit"], "several"),
    **dict.fromkeys(["permute", "movedim", "moveaxis", "narrow", "select", "diagonal", "expand", "expand_as", "broadcast_to", "unfold", "real", "imag", "conj", "view_as_real", "view_as_complex", "atleast_1d", "atleast_2d", "atleast_3d", "dropout", "detach", "data"], "seen"),
}  # fmt: skip
"""Calls whose result shares its entries with the first argument: in their order, if those lie one behind the other, …."""
