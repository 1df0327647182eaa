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
FEW, FEW_PRODUCTS, SMALL = 5_000_000, 1_000_000_000, 10_000
"""Entries and products of a call that is made without further ado; sizes where torch does not foretell the result."""
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
SQUARE = words("eye identity tri")
"""Calls whose result has as many columns as rows where one number is told."""
BY_NUMBERS = words("one_hot bincount repeat_interleave")
"""Calls whose result has as many entries as the numbers in a tensor say."""
BY_DECIMALS = words("arange linspace logspace interpolate upsample range")
CUBED = words("linalg cholesky inverse svd eig qr lu ormqr triangular matrix_exp det")
"""What functions inside torch are called that take as many products as a matrix product."""


class Unread(Exception):
    """The text is not Python, or holds what is not read here, or would cost too much: the reader has no answer."""


class Refused(Exception):
    """Python or torch refuses the text; the message is theirs. ``binding`` where a call has other arguments."""

    def __init__(self, said: str, binding: bool = False) -> None:
        super().__init__(said)
        self.binding = binding


class Uncompiled(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class has no types
    """A mode that torch does not wrap for its compiler: the first call of one that it wraps imports that, a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Counted(Uncompiled):  # type: ignore[no-untyped-call]  # nor have those below it
    """Counts what torch makes inside the block."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor has what makes it
        self.budget = budget

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch.utils.flop_counter import flop_registry  # what is small never comes here

        found, packet = func(*args, **(kwargs or {})), func.overloadpacket
        made, given = [*inside(found, torch.Tensor)], [*inside(args, torch.Tensor)]
        each = 1.0
        if "pool" in packet.__name__ and len(args) > 1:
            each = float(prod(n for n in inside(args[1], int) if n > 0))
        elif any(word in packet.__name__ for word in CUBED):
            each = float(max((n for t in given for n in t.shape), default=1))
        if packet in flop_registry:
            self.budget.products -= flop_registry[packet](*args, **(kwargs or {}), out_val=found)
        shared = {tensor.untyped_storage()._cdata for tensor in given}
        self.budget.products -= each * sum(tensor.numel() for tensor in made)
        self.budget.spend([tensor for tensor in made if tensor.untyped_storage()._cdata not in shared])
        if any(tensor.numel() > LARGEST for tensor in made):
            raise Unread(f"a tensor of {max(tensor.numel() for tensor in made):,} entries is too large")
        return found


class Budget:
    """What is left of a text's steps, bytes and products."""

    def __init__(self) -> None:
        self.steps, self.listed, self.bytes = STEPS, MOST_LISTED, MOST_BYTES
        self.products: float = MOST_PRODUCTS

    def step(self, count: int = 1) -> None:
        """So many expressions, or turns of a loop."""
        self.steps -= count
        if self.steps < 0:
            raise Unread("it takes too many steps")

    def list(self, values: Any) -> Any:
        """``values``, whose entries are counted, those of lists in it too."""
        waiting = [values]
        while waiting:
            if isinstance(found := waiting.pop(), (list, tuple)):
                self.entries(len(found) + 1)
                waiting += found
        return values

    def entries(self, count: int) -> None:
        """So many entries of lists."""
        self.listed -= count
        if self.listed < 0:
            raise Unread("its lists are too long")

    def spend(self, made: Any) -> None:
        """The bytes of tensors."""
        self.bytes -= sum(tensor.numel() * tensor.element_size() for tensor in inside(made, torch.Tensor))
        if self.bytes < 0 or self.products < 0:
            raise Unread("it computes too much")

    def foresee(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, **beside: Any) -> None:
        """Refuse a call that would cost too much: by its shapes, or run on the device without numbers."""
        entries, products = bound(name.rstrip("_"), args, kwargs)
        if entries <= FEW and products <= FEW_PRODUCTS:
            self.products -= int(products)
            return
        if name in BY_NUMBERS:
            raise Unread("how large its result is depends on numbers")
        try:
            with torch.no_grad(), Counted(self):
                function(*emptied(args), **emptied(kwargs), **beside)
        except Unread:
            raise
        except Exception:  # refused, or made of numbers: the call itself says which
            size = sum(t.numel() for t in inside((args, kwargs), torch.Tensor))
            largest = max(map(abs, inside((args, kwargs), (int, float))), default=0)
            if size > MOST_LISTED or (size > SMALL and largest > SMALL) or largest > LARGEST:
                raise Unread("how large its result is depends on numbers") from None

    def numpy(self, args: Any) -> None:
        """A call of NumPy's, of which nothing says beforehand how large its result is."""
        size = prod(max(a.size, 1) for a in inside(args, (np.ndarray, np.generic)))
        if size > LARGEST or prod(abs(n) for n in inside(args, (int, float)) if abs(n) > 8) > SMALL:
            raise Unread("a call of NumPy's that may be too large")


def bound(name: str, args: Sequence[Any], kwargs: Any) -> tuple[float, float]:
    """At most how many entries the result of a call has, and how many products it takes."""
    tensors = list(inside((args, kwargs), torch.Tensor))
    sizes = [float(max(1, tensor.numel())) for tensor in tensors]
    counts = [abs(n) for n in inside((args, kwargs), (int, float)) if isinstance(n, int) or name in BY_DECIMALS]
    if name == "arange" and len(args) == 3 and args[2]:
        counts = [abs((args[1] - args[0]) / args[2])]
    counts *= 2 if name in SQUARE and len(counts) == 1 else 1
    told = 1.0 if name in SAME else prod(float(n) for n in counts if n > (8 if tensors else 1))
    if name in FACTORS and len(tensors) > 1 and tensors[0].dim():
        first, second = tensors[:2]
        inner = first.shape[-1] or 1
        taken = sizes[0] * sizes[1] / inner / (1 if first.dim() < 3 or second.dim() < 3 else first.shape[0] or 1)
        return taken / inner + sum(sizes), taken
    if name == "combinations":
        return sizes[0] ** max(2, *counts, 0), 1
    if name in BY_NUMBERS:
        told *= prod(float(t.abs().max()) + 1 for t in tensors if t.numel() and not t.dtype.is_floating_point)
    if name in WIDE:
        return prod(sizes) * told, prod(sizes) * told
    try:
        entries = max(prod(np.broadcast_shapes(*(tuple(t.shape) for t in tensors))), sum(sizes)) * told
    except ValueError:
        entries = sum(sizes) * told
    return entries, entries * (max(tensors[0].shape, default=1) if len(tensors) == 1 else 1)


def inside(values: Any, kind: Any) -> Iterator[Any]:
    """What is of a ``kind`` among values, and in lists among them; a truth value is no number."""
    if isinstance(values, kind) and not isinstance(values, bool):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from inside(value, kind)
    elif isinstance(values, Mapping):
        yield from inside(list(values.values()), kind)


def emptied(value: Any) -> Any:
    """``value`` with tensors that hold no numbers."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if type(value) in (list, tuple):
        return type(value)(map(emptied, value))
    return {key: emptied(part) for key, part in value.items()} if isinstance(value, dict) else value
