"""Torch calls that are several entries of the table in a row and need the numbers of a run.

Comes in: a call without an entry of its own. Goes out: the last of its steps. Each composition follows torch's
documented definition; its value is compared with torch's afterwards, as for every step. Here are statistics, random
draws, packed sequences (packing selects entries, padding adds constants), and the CTC loss, which is Graves' recursion
over time with one logsumexp per time step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array, as_float
from symgrad.ops.calls.one_line_calls import INNER, SHORTCUT
from symgrad.ops.calls.registry import Last, done, drop_empty_operands, find_compound, in_front
from symgrad.ops.lookup import basics, find
from symgrad.program import Role
from symgrad.tracing.lift import (
    COMPOSITIONS,
    DROPPED,
    Refused,
    composition,
    explain_refusal,
    without_subclass,
)
from symgrad.tracing.lift.boxes import replay
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.entry_choices import lift_overwrite, lift_selection, selected_indices
from symgrad.tracing.record.trace import Node, as_numbers


@composition()
def softplus(steps: LiftContext, node: Node, x: Any, beta: Any = 1, threshold: Any = SHORTCUT) -> Last | None:
    """Lift log(1 + exp(x)), and x itself beyond torch's threshold."""
    soft = steps(basics.softplus, x)
    beyond = bool((node.value() > SHORTCUT).any())
    return done(steps(basics.where, steps(basics.gt, x, SHORTCUT), x, soft) if beyond else soft)


@composition()
def nextafter(steps: LiftContext, node: Node, x: Any, y: Any) -> Last | None:
    """Lift nextafter as x plus a constant step; where x equals y, torch's gradient is 0."""
    start, end = (as_numbers(t.held) if isinstance(t, Node) else np.asarray(t) for t in (x, y))
    equal = np.broadcast_to(start == end, node.shape)
    step = as_numbers(node.held) - np.where(equal, 0, start)
    moved = steps(basics.where, steps.data("equal", equal), 0.0, x) if equal.any() else x
    expanded = moved if tuple(moved.shape) == node.shape else steps(basics.expand, moved, node.shape)
    return "torch.add", (expanded, steps.data("least", step)), {}


@composition("concat", "concatenate")
@composition()
def cat(
    steps: LiftContext, node: Node, tensors: Any = None, dim: Any = 0, *, axis: Any = None, **other: Any
) -> Last | None:  # fmt: skip
    """Lift a concatenation without empty 1-D tensors, which torch ignores."""
    parts = drop_empty_operands(other.pop("tensors", tensors))
    dim = dim if axis is None else axis
    if len(parts) == 1:
        return "Tensor.clone", (parts[0],), {}
    return "torch.cat", (parts, dim), {}


def lift_composition(
    steps: LiftContext, node: Node, spelling: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Last | None:
    """Lift a call that is several entries in a row; return None for any other."""
    word = spelling.rpartition(".")[2]
    own, inner, compound = COMPOSITIONS.get(word), INNER.get(word), find_compound(spelling)
    try:
        last = None
        if compound is not None:
            known = compound.signature.parameters
            told = {key: value for key, value in keywords.items() if key in known or key not in DROPPED}
            positional, spoken = in_front(arguments, told)
            last = compound.steps(steps, node.index or 0, *positional, **spoken)
        if last is None and inner is not None:
            return inner(steps, node.index or 0, *arguments, **keywords)
        if last is None:
            return None if own is None else own(steps, node, *arguments, **keywords)
        return name_operands(match_vector_signs(steps, node, lift_zero_pseudo_inverse(steps, node, last), word))
    except (TypeError, SymgradError) as error:  # the call has other arguments than these: the table may know them
        raise Refused(f"{word}: {explain_refusal(error)}") from error


def name_operands(last: Last) -> Last:
    """Pass operands by name, since the entry's options may come between them."""
    name, operands, options = last
    op = find(name)
    if op is None or op.traits.role is Role.HANDS_ON or op.variadic or len(operands) > len(op.operands):
        return last
    return name, (), {**dict(zip(op.operands, operands, strict=False)), **options}


VECTORS = frozenset({"eigh", "_linalg_eigh", "svd", "_linalg_svd"})
"""Calls that return eigenvectors or singular vectors, whose sign is arbitrary."""


def lift_zero_pseudo_inverse(steps: LiftContext, node: Node, last: Last) -> Last:
    """Lift the pseudo-inverse as a constant 0 if all singular values are below the cutoff."""
    nothing = (
        last[0] == "pinv" and not node.held.any() and any(bool(n.held.any()) for n in last[1] if isinstance(n, Node))
    )
    return done(steps.data("nothing", as_float(node.value()))) if nothing else last


def match_vector_signs(steps: LiftContext, node: Node, last: Last, word: str) -> Last:
    """Multiply vectors by the signs that torch chose in this run."""
    name, operands, options = last
    if word not in VECTORS or len(node.shape) < len(operands[0].shape):
        return last
    ref = steps(name, *operands, **options)
    own, given = as_float(steps.arrays[ref.name]), as_float(node.value())
    axis = -1 if node.index == 2 and "linalg" in node.maker.spelling else -2  # the rows of Vh, the columns of V
    signs = np.where(np.sum(own * given, axis=axis, keepdims=True) < 0, -1.0, 1.0)
    return done(ref if (signs > 0).all() else steps(basics.mul, ref, steps.data("sign", signs)))


@composition()
def nanmedian(steps: LiftContext, node: Node, x: Any, dim: Any = None, keepdim: bool = False) -> Last | None:
    """Lift nanmedian over all entries as the median of those that are not NaN."""
    numbers = np.flatnonzero(~np.isnan(without_subclass(x).reshape(-1).numpy(force=True)))
    if dim is not None or not numbers.size:
        return None
    flat = steps(basics.reshape, x, (-1,))
    if len(numbers) < flat.shape[0]:
        flat = steps(basics.index_select, flat, 0, steps.data("numbers", numbers))
    return "torch.median", (flat,), {}


@composition(also=("nanquantile",))
def quantile(
    steps: LiftContext,
    node: Node,
    x: Any,
    q: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    interpolation: Any = "linear",
) -> Last | None:
    """Lift quantiles as interpolations between sorted entries, whose ranks are found by running the call on ranks."""
    if not isinstance(q, Node) and "nan" not in node.maker.spelling:
        return None
    values, moves = without_subclass(x), isinstance(q, Node) and q.carries and interpolation == "linear"
    own = torch.arange(values.numel()).reshape(values.shape)
    rows, numbers = (a.reshape(-1) if dim is None else a.movedim(dim, -1) for a in (values, own))
    order = rows.argsort(dim=-1, stable=True)
    ranks = order.argsort(-1).to(values.dtype).where(~rows.isnan(), torch.nan)
    sent = ranks.reshape(values.shape) if dim is None else ranks.movedim(-1, dim)
    between = np.nan_to_num(as_numbers(replay(node, (x,), (sent,))))
    ordered, ref = numbers.gather(-1, order), steps.refs_in((x,))[id(x)]

    def entries(at: Array) -> Any:
        found = torch.as_tensor(at, dtype=torch.int64).reshape(-1, *rows.shape[:-1]).unsqueeze(-1)
        places = ordered.expand(len(found), *ordered.shape).gather(-1, found)
        return lift_selection(steps, ref, places.numpy().reshape(node.shape), None)

    low = np.floor(between)
    if (low == between).all():
        return done(entries(low))
    weight = steps.data("weight", between - low) if not moves else lift_quantile_rank(steps, node, q, between, low)
    return "torch.lerp", (entries(low), entries(np.ceil(between)), weight), {}


def lift_quantile_rank(steps: LiftContext, node: Node, q: Any, ranks: Array, low: Array) -> Any:
    """Return the fractional part of a rank as a function of q, if q has a gradient."""
    own = as_numbers(q.held)
    if not own.all():
        raise Refused("a quantile by q, where q is 0")
    lead = (*own.shape, *[1] * (len(node.shape) - own.ndim))
    last = steps.data("last", ranks / own.reshape(lead))
    rank = steps(basics.mul, steps(basics.expand, steps(basics.reshape, q, lead), node.shape), last)
    return steps(basics.sub, rank, steps.data("below", low))


@composition()
def rrelu(
    steps: LiftContext,
    node: Node,
    x: Any,
    lower: Any = 1 / 8,
    upper: Any = 1 / 3,
    training: bool = False,
    *_: Any,
    **__: Any,
) -> Last | None:
    """Lift rrelu: an x that is not positive times a slope, random in training, else the mean of both bounds."""
    if not training:
        return "F.leaky_relu", (x, (lower + upper) / 2), {}
    signs = torch.where(x.held > 0, 1.0, -1.0).to(x.held.dtype)  # a slope is drawn for each that is not positive
    slopes = as_numbers(replay(node, (x,), (signs,)) * signs)
    return "torch.mul", (x, steps.data("slope", slopes)), {}


# Packed sequences --------------------------------------------------------------------------------------------


@composition("_pad_packed_sequence")
def lift_pad_packed_sequence(steps: LiftContext, node: Node, data: Any, *_: Any, **__: Any) -> Last | None:
    """Lift the unpacking of a packed sequence: rows at their time steps, and a constant after each end."""
    if node.index or not data.held.numel():
        return None
    places = selected_indices(node, data)
    rest = steps.data("padding", np.where(places < 0, as_numbers(node.held), 0.0))
    return done(lift_overwrite(steps, rest, steps.refs_in((data,))[id(data)], places, steps.wish(node)))


# Alignments --------------------------------------------------------------------------------------------------

IMPOSSIBLE = -1e30
"""A finite value for log 0: its exponential is 0 beside any other, and so is its gradient."""


def reduction_word(reduction: str | int) -> str:
    """Return torch's name of a loss reduction, from the name or from its number."""
    return reduction if isinstance(reduction, str) else ("none", "mean", "sum")[reduction]


@composition()
def ctc_loss(
    steps: LiftContext, node: Node, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any,
    blank: int = 0, reduction: Any = 1, zero_infinity: bool = False,
) -> Last | None:  # fmt: skip
    """Lift −log of the probability of all alignments by the forward variable α, one time step after the other.

    torch's backward assumes probabilities that sum to 1, so it is the gradient of the loss of log_softmax(log_probs).
    The mean divides by target lengths first; with ``zero_infinity`` a sequence without an alignment has loss 0.
    """
    word = reduction_word(reduction)
    classes, moments, ends = align_labels(targets, input_lengths, target_lengths, blank)
    lp = steps(basics.log_softmax, log_probs, dim=-1)
    if len(log_probs.shape) == 2:
        lp = steps(basics.unsqueeze, lp, dim=1)
    each = steps(
        basics.gather, lp, 2, steps.data("classes", np.broadcast_to(classes, (int(lp.shape[0]), *classes.shape)))
    )
    last = steps.data("ends", np.stack([2 * ends, np.maximum(2 * ends - 1, 0)], axis=1))
    final = steps(basics.gather, alignment_log_probabilities(steps, each, classes, moments), 1, last)
    twice = np.stack([np.zeros_like(ends), ends == 0], axis=1)  # without classes both ends are one
    loss = steps(basics.neg, steps(basics.logsumexp, add_barriers(steps, twice, final), dim=1))
    if zero_infinity:
        loss = steps(basics.where, steps(basics.gt, loss, -IMPOSSIBLE / 2), 0.0, loss)
    if word == "none":
        return "torch.reshape", (loss, node.shape), {}
    if word == "mean":
        loss = steps(basics.div, loss, steps.data("lengths", np.maximum(ends, 1).astype(float)))
    return done(steps(word, loss))


def align_labels(targets: Any, input_lengths: Any, target_lengths: Any, blank: int) -> tuple[Array, Array, Array]:
    """Return each sequence's labels with blanks around them, its number of time steps and of labels."""
    given = np.asarray(without_subclass(targets).numpy()) if isinstance(targets, Node) else np.asarray(targets)
    moments, ends = (
        np.atleast_1d(np.asarray(without_subclass(n).numpy() if isinstance(n, Node) else n)).astype(np.int64)
        for n in (input_lengths, target_lengths)
    )
    starts = np.concatenate([[0], np.cumsum(ends)])
    classes = np.full((len(ends), 2 * int(ends.max(initial=0)) + 1), blank, dtype=np.int64)
    for n, end in enumerate(ends):
        row = given[n, :end] if given.ndim == 2 else given[starts[n] : starts[n] + end]
        classes[n, 1 : 2 * end : 2] = row
    return classes, moments, ends


def alignment_log_probabilities(steps: LiftContext, each: Any, classes: Any, moments: Any) -> Any:
    """Return α at each sequence's last time step: the log-probability of all paths that end at each label."""
    places = np.arange(classes.shape[1])
    repeated = np.pad(classes[:, 2:] == classes[:, :-2], ((0, 0), (2, 0)), constant_values=True)[:, : len(places)]
    closed = np.zeros((*classes.shape, 3))  # the ways from two places before, from one, and from the place itself
    closed[:, :, 0] = repeated | (places % 2 == 0)
    alpha = add_barriers(steps, np.broadcast_to(places >= 2, classes.shape), steps(basics.select, each, dim=0, index=0))
    for moment in range(1, int(moments.max(initial=1))):
        before = steps(
            basics.unfold, steps(basics.pad, alpha, pad=(2, 0), value=IMPOSSIBLE), dimension=1, size=3, step=1
        )
        came = steps(basics.logsumexp, add_barriers(steps, closed, before), dim=2)
        new = steps(basics.add, came, steps(basics.select, each, dim=0, index=moment))
        over = np.broadcast_to((moment >= moments)[:, None], classes.shape)
        alpha = steps(basics.where, steps.data("over", over), alpha, new) if over.any() else new
    return alpha


def add_barriers(steps: LiftContext, places: Any, values: Any) -> Any:
    """Add `IMPOSSIBLE` to the values at ``places``."""
    return steps(basics.add, values, steps.data("barred", np.where(places, IMPOSSIBLE, 0.0)))


composition("frexp")(  # divided by a power of two, which is locally constant
    lambda steps, node, x: (
        "torch.mul",
        (x, steps.data("scale", np.ldexp(1.0, -np.frexp(as_float(as_numbers(x.held)))[1]))),
        {},
    )
)
composition(  # torch passes nothing back to the parameters of what is drawn
    "bernoulli", "normal", "poisson", "uniform", "exponential", "log_normal", "geometric", "cauchy"
)(lambda steps, node, *_, **__: done(steps.data("drawn", node.value())))
