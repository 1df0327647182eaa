"""What a call would cost, found out before it is made; `Unread` where that is too much.

Comes in: a function and its arguments. What the shapes and whole numbers among them bound to something small is made
without further ado. All else runs on ``device="meta"`` first, which holds no numbers: every tensor on the way is
counted, also those inside torch's own functions, and the products that a matrix product or a convolution takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from symgrad.reference.words import words

LARGEST, MOST_BYTES, MOST_PRODUCTS = 50_000_000, 2_000_000_000, 20_000_000_000
"""Entries of one tensor, bytes of all, and products of two numbers, in one text."""
STEPS, MOST_LISTED, DIGITS = 20_000, 1_000_000, 2_000
"""Expressions that are computed, entries of lists, and bits of a whole number."""
SMALL = 10_000
"""Entries and whole numbers of a call of which torch does not say beforehand how large its result is."""
FEW, FEW_PRODUCTS = 1_500_000, 1_000_000_000
"""Entries and products of a call that is made without further ado."""
SAME = words(
    "view reshape flatten ravel permute transpose unflatten swapaxes movedim squeeze unsqueeze getitem setitem view_as "
    "reshape_as masked_fill clamp add sub mul div pow fill"
)
"""Calls whose result has no more entries than the tensors, whatever numbers they are told."""
FACTORS = words("matmul mm bmm mv dot linear imatmul")
WIDE = words(
    "diag_embed diagflat vander outer ger kron cdist pdist cov corrcoef combinations cartesian_prod meshgrid einsum "
    "block_diag tensordot inner conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc "
    "bilinear multi_dot chain_matmul addmm addbmm baddbmm addr index_put histc searchsorted cross_entropy grid_sample "
    "addmv scaled_dot_product_attention embedding cosine_similarity pairwise_distance linear_cross_entropy take gather"
)
"""Calls whose result may have as many entries as the product of those of the tensors."""
BY_NUMBERS = words("one_hot bincount repeat_interleave")
"""Calls whose result has as many entries as the numbers in a tensor say."""
BY_DECIMALS = words("arange linspace logspace interpolate upsample range")
DENSE = {
    "mm": 2, "bmm": 2, "addmm": 3, "baddbmm": 3, "addbmm": 3, "mv": 2, "addmv": 3, "dot": 2, "vdot": 2,
    "_cdist_forward": 2,
}  # fmt: skip
"""Products, by the number of arguments; the last axis of the last but one is what is added up over."""
CUBED = ("linalg", "cholesky", "inverse", "svd", "eig", "qr", "lu", "ormqr", "triangular", "matrix_exp", "det")


class Unread(Exception):
    """The text is not Python, or holds what is not read here, or would cost too much: the reader has no answer."""


class Refused(Exception):
    """Python or torch refuses the text; the message is theirs. ``binding`` where a call has other arguments."""

    def __init__(self, said: str, binding: bool = False) -> None:
        super().__init__(said)
        self.binding = binding


class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class has no types
    """Counts what torch makes inside the block."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor has what makes it
        self.budget = budget

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.budget.take(func.overloadpacket.__name__, args, tensors_in(found))
        return found


class Budget:
    """What is left of a text's steps, bytes and products."""

    def __init__(self) -> None:
        self.steps, self.listed, self.bytes = STEPS, MOST_LISTED, MOST_BYTES
        self.products: float = MOST_PRODUCTS

    def step(self) -> None:
        """One expression."""
        self.steps -= 1
        if self.steps < 0:
            raise Unread("it takes too many steps")

    def list(self, values: Any) -> Any:
        """``values``, whose entries are counted, those of lists in it too."""
        waiting = [values]
        while waiting:
            found = waiting.pop()
            if isinstance(found, (list, tuple)):
                self.listed -= len(found) + 1
                if self.listed < 0:
                    raise Unread("its lists are too long")
                waiting += found
        return values

    def take(self, name: str, args: Sequence[Any], made: Iterator[Any]) -> None:
        """One call inside torch, with the tensors that it gave."""
        given = [a for a in args if isinstance(a, torch.Tensor)]
        shared = {a.untyped_storage()._cdata for a in given}
        entries = 0
        for tensor in made:
            entries += tensor.numel()
            if tensor.numel() > LARGEST:
                raise Unread(f"a tensor of {tensor.numel():,} entries is too large")
            if tensor.untyped_storage()._cdata not in shared:
                self.bytes -= tensor.numel() * tensor.element_size()
        self.products -= entries * products(name, args, given)
        if self.bytes < 0 or self.products < 0:
            raise Unread("it computes too much")

    def meta(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What ``function`` would give, on the device without numbers; None where that cannot be said."""
        try:
            with torch.no_grad(), Counted(self):
                return function(*emptied(args), **emptied(kwargs))
        except Unread:
            raise
        except Exception:  # refused, or made of numbers: the call itself says which
            size = sum(t.numel() for t in tensors_in((args, kwargs)))
            largest = max(map(abs, numbers_in((args, kwargs))), default=0)
            if size > MOST_LISTED or (size > SMALL and largest > SMALL) or largest > LARGEST:
                raise Unread("how large its result is depends on numbers") from None
            return None

    def fits(self, name: str, args: Any, kwargs: Any) -> bool:
        """Whether a call is surely small, by the shapes and whole numbers that it is given."""
        entries, products = bound(name.rstrip("_"), args, kwargs)
        if entries > FEW or products > FEW_PRODUCTS:
            if name in BY_NUMBERS:
                raise Unread("how large its result is depends on numbers")
            return False
        self.products -= int(products)
        return True

    def spend(self, found: Any) -> None:
        """The bytes of what a call gave."""
        self.bytes -= sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(found))
        if self.bytes < 0 or self.products < 0:
            raise Unread("it computes too much")

    def numpy(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """A call of NumPy's, of which nothing says beforehand how large its result is."""
        size = prod(max(a.size, 1) for a in arrays_in((args, kwargs)))
        whole = [abs(n) for n in numbers_in((args, kwargs))]
        if size > LARGEST or prod(max(n, 1) for n in whole if n > 8) > SMALL:
            raise Unread("a call of NumPy's that may be too large")


def bound(name: str, args: Any, kwargs: Any) -> tuple[float, float]:
    """At most how many entries the result of a call has, and how many products it takes."""
    tensors = list(tensors_in((args, kwargs)))
    sizes = [max(1, tensor.numel()) for tensor in tensors]
    counts = [float(abs(n)) for n in numbers_in((args, kwargs)) if isinstance(n, int) or name in BY_DECIMALS]
    if name == "arange" and len(args) == 3 and args[2]:
        counts = [abs((args[1] - args[0]) / args[2])]
    told = 1.0 if name in SAME else prod(n for n in counts if n > (8 if tensors else 1))
    if name in FACTORS and len(tensors) > 1 and tensors[0].dim():
        first, second = tensors[:2]
        inner = first.shape[-1] or 1
        taken = sizes[0] * sizes[1] / inner / (1 if first.dim() < 3 or second.dim() < 3 else first.shape[0] or 1)
        return taken / inner + sum(sizes), taken
    if name == "combinations":
        return float(sizes[0]) ** max(2, *counts, 0), 1
    if name in BY_NUMBERS:
        told *= prod(float(t.abs().max()) + 1 for t in tensors if t.numel() and not t.dtype.is_floating_point)
    if name in WIDE:
        return prod(map(float, sizes)) * told, prod(map(float, sizes)) * told
    try:
        entries = prod(np.broadcast_shapes(*(tuple(tensor.shape) for tensor in tensors)))
    except ValueError:
        entries = 0
    largest = max((max(t.shape, default=1) for t in tensors), default=1)
    return max(entries, sum(sizes)) * told, max(entries, sum(sizes)) * told * (largest if len(tensors) == 1 else 1)


def products(name: str, args: Sequence[Any], given: Sequence[Any]) -> float:
    """How many products an entry of the result of a call inside torch takes."""
    if name in DENSE and len(given) >= 2 and given[-1].dim():
        return int(given[-2].shape[-1]) if given[-2].dim() else 1
    if "convolution" in name and len(given) >= 2:
        return float(given[1].numel() / max(1, min(given[1].shape[:2])))
    if "pool" in name and len(args) > 1:
        return float(prod(n for n in numbers_in(args[1]) if n > 0))
    if any(word in name for word in CUBED) and given:
        return float(max(given[0].shape, default=1))
    return 1


def tensors_in(values: Any) -> Iterator[Any]:
    """The tensors among values."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, Mapping):
        yield from tensors_in(list(values.values()))


def arrays_in(values: Any) -> Iterator[Any]:
    """The arrays of NumPy's among values."""
    if isinstance(values, (np.ndarray, np.generic)):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from arrays_in(value)
    elif isinstance(values, Mapping):
        yield from arrays_in(list(values.values()))


def numbers_in(values: Any) -> Iterator[float]:
    """The numbers among values."""
    if isinstance(values, (int, float)) and not isinstance(values, bool):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from numbers_in(value)
    elif isinstance(values, Mapping):
        yield from numbers_in(list(values.values()))


def emptied(value: Any) -> Any:
    """``value`` with tensors that hold no numbers; a function that makes tensors makes those."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if type(value) in (list, tuple):
        return type(value)(map(emptied, value))
    if isinstance(value, dict):
        return {key: emptied(part) for key, part in value.items()}
    return value
