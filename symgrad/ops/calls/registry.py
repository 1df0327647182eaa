"""The one registry of calls that are several entries of the table one after the other, or that give several results.

Comes in: how torch spells a call, and a function that says it in entries. Goes out: the `Compound` of a spelling.
Texts and captured programs read the same ones, so what either of them understands is said once. Beside it stand the
calls, by their last word, that need the numbers of a run, and those that only pick entries of an argument.

A function takes ``call`` (which applies an entry and hands back its result), the number of the result that is wanted,
and the arguments as torch has them. It answers with the last step: an entry, its operands, its options; or with None,
where the call is the table's own entry of that name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from symgrad.entries import Registry
from symgrad.entries.spec import COMPOUNDS, TABLE
from symgrad.ops.lookup import short_spelling


class CallApplier(Protocol):
    """What applies an entry of the table and hands back its result, and knows sizes."""

    def __call__(self, name: str, *operands: Any, **options: Any) -> Any:
        """The result of one entry."""

    def number(self, size: Any) -> int | None:
        """A size as a number, None where it is open."""

    def whole(self, size: Any) -> int:
        """A size as a number; one that is open becomes one, and an error says where it cannot."""


Steps = TypeVar("Steps", bound=Callable[..., Any])
Last = tuple[str, tuple[Any, ...], dict[str, Any]]
Count = Callable[..., int]


@dataclass(frozen=True)
class Compound:
    """A call of torch's said in entries, and in a sentence.

    ``declared`` is what stands between its brackets, where the parameters of ``steps`` do not say it. ``fields`` name the results of a call that
    gives several, in torch's order; ``count`` says how many it gives where that depends on its arguments. ``reals`` marks what is the same as
    torch's only of real numbers: of whole numbers and truth values torch makes something else. ``matrices`` says that it takes a matrix first,
    then matrices or vectors, ``pairs`` that its steps are of complex tensors also where the first one is real.
    """

    name: str
    steps: Callable[..., Last | None]
    says: str
    fields: tuple[str, ...] = ()
    count: Count | None = None
    reals: bool = False
    matrices: bool = False
    pairs: bool = False
    declared: Callable[[], inspect.Signature] | None = None

    @property
    def several(self) -> bool:
        """Whether the call gives more than one result."""
        return bool(self.fields) or self.count is not None

    @property
    def usage(self) -> str:
        """How it is called, and what it gives."""
        gives = f" → {', '.join(self.fields)}" if self.fields else " → …" if self.count else ""
        return f"{self.name}{self.signature}{gives}"

    @property
    def signature(self) -> inspect.Signature:
        """What users may write between the brackets."""
        own = list(inspect.signature(self.steps).parameters.values())[2:]
        parameters = own if self.declared is None else self.declared().parameters.values()
        return inspect.Signature([p.replace(annotation=p.empty) for p in parameters])


CALLED: Registry[Compound] = Registry(COMPOUNDS.files, COMPOUNDS.unread)
"""By their own names, as texts call each other; those without a spelling of torch's are for them alone."""


def enter(entry: Compound, spelled: Sequence[str]) -> None:
    """Put a call into the registry, under every spelling."""
    CALLED[entry.name] = entry
    COMPOUNDS.update(dict.fromkeys(spelled, entry))


def compound(*spelled: str, **marks: Any) -> Callable[[Steps], Steps]:
    """Enter a function under every spelling; ``marks`` are what `Compound` says beside its steps."""

    def entered(steps: Steps) -> Steps:
        enter(Compound(steps.__name__, steps, (inspect.getdoc(steps) or "").splitlines()[0], **marks), spelled)
        return steps

    return entered


def spellings_everywhere(*words: str) -> tuple[str, ...]:
    """What is a function, a method, and ATen's."""
    return tuple(f"{place}.{word}" for word in words for place in ("torch", "Tensor", "aten"))


def find_compound(spelling: str) -> Compound | None:
    """The compound spelled so, or None; without a module, torch.linalg's or torch's where the table has no such name."""
    return COMPOUNDS.get(full_spelling(spelling))


def full_spelling(spelling: str) -> str:
    """A spelling with the module where the registry has it; as it stands where it has none."""
    spelling = short_spelling(spelling)
    if spelling in COMPOUNDS or "." in spelling:
        return spelling
    tried = ("torch.", "F.") if spelling in TABLE else ("torch.linalg.", "torch.", "F.", "Tensor.")
    return next((place + spelling for place in tried if place + spelling in COMPOUNDS), spelling)


def in_front(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with the tensor that a keyword gives (``input=x``) before the others."""
    front = {key: keywords[key] for key in ("input", "self") if key in keywords}
    return (*front.values(), *arguments), {key: value for key, value in keywords.items() if key not in front}


def drop_empty_operands(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Of tensors to join those that torch does not pass over: an empty one with one axis fits any other.

    One is left where all of them are like that.
    """
    parts = tuple(tensors)
    return tuple(t for t in parts if tuple(t.shape) != (0,)) or parts[:1]


def done(ref: Any) -> Last:
    """The result as it stands."""
    return "identity", (ref,), {}


def apply_last_step(call: CallApplier, last: Last) -> Any:
    """The result of a last step that is not the last."""
    return call(last[0], *last[1], **last[2])


# Calls, by their last word, that only captured programs understand: they depend on the numbers of a run.
DRAWS = "it draws random numbers"
PLACES = "where its entries land depends on values"
COUNTED = "which entries belong together depends on values"
POSITIONS = "it returns positions, which have no derivative"

OF_RUNS: Mapping[str, str] = {
    **dict.fromkeys(("bernoulli", "normal", "poisson", "uniform", "exponential", "log_normal", "geometric"), DRAWS),
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), f"{DRAWS} unless training=False"),
    **dict.fromkeys(("cauchy", "multinomial", "alpha_dropout", "feature_alpha_dropout"), DRAWS),
    **dict.fromkeys(("masked_scatter", "index_put", "put", "as_strided_scatter"), PLACES),
    **dict.fromkeys(("segment_reduce", "embedding_bag", "ctc_loss", "multilabel_margin_loss"), COUNTED),
    **dict.fromkeys(("grouped_mm", "nanmedian", "nanquantile", "masked_select"), COUNTED),
    **dict.fromkeys(("argsort", "argmax", "argmin", "nonzero", "bincount", "searchsorted", "bucketize"), POSITIONS),
    **dict.fromkeys(("lu", "lu_factor", "lu_factor_ex", "lu_solve", "lu_unpack"), "its rows change places by values"),
    **dict.fromkeys(("householder_product", "orgqr", "ormqr"), "one reflection after the other is derived of what ran"),
    "fill_diagonal": "which entries lie on its diagonal depends on the sizes of a run",
    **dict.fromkeys(("frexp", "nextafter"), "how far it moves a number depends on the number"),
    **dict.fromkeys(("sampled_addmm", "sparse_sampled_addmm", "to_dense"), "what a sparse matrix stores is data"),
}


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
