"""The functions that a text may call, and the cost of a call before it runs; `UnsupportedText` if it is too high.

Comes in: a word, in whichever library it stands; a function and its arguments. Only the words listed here are called,
whatever else torch or NumPy have. A listed word with ``_`` behind it is the method or function that works in place. A
call whose shapes and integers bound it to something small is made at once. Any other runs on ``device="meta"`` first,
which holds no numbers: every tensor is counted, also those inside torch's own functions, and so are the
multiplications of a matrix product or a convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 -- as everybody calls it
from torch.utils._python_dispatch import TorchDispatchMode


def split_words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


WORDS = split_words("""
    abs absolute acos acosh adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
    adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr adjoint affine_grid all
    alpha_dropout amax amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh argmax argmin
    argsort array as_tensor asarray asin asinh astype atan atan2 atanh atleast_1d atleast_2d atleast_3d avg_pool1d
    avg_pool2d avg_pool3d baddbmm batch_norm bfloat16 bilinear binary_cross_entropy binary_cross_entropy_with_logits
    bincount block_diag bmm bool broadcast_tensors broadcast_to cartesian_prod cat cdist ceil celu chain_matmul
    channel_shuffle cholesky cholesky_ex cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip clone
    column_stack combinations complex concat concatenate cond conj conj_physical constant_pad_nd contiguous conv1d
    conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d copy copysign corrcoef cos cosh
    cosine_embedding_loss cosine_similarity count_nonzero cov cpu cross cross_entropy cuda cummax cummin cumprod cumsum
    cumulative_trapezoid deg2rad det detach diag diag_embed diagflat diagonal diagonal_scatter diff digamma dim dist div
    divide dot double dropout dropout1d dropout2d dropout3d dsplit dstack eigh eigvalsh einsum elu embedding entr eq
    equal erf erfc erfcx erfinv exp exp2 expand expand_as expand_dims expit expm1 eye feature_alpha_dropout fft fft2
    fftn fftshift fill finfo fix flatten flip fliplr flipud float float_power floor floor_divide fmax fmin fmod fold
    frac from_numpy full full_like gammaln gather gaussian_nll_loss ge gelu ger glu greater greater_equal grid_sample
    group_norm gt half hann_window hardshrink hardsigmoid hardswish hardtanh hfft hfft2 hfftn hinge_embedding_loss
    hsplit hstack huber_loss hypot i0 i0e i1 i1e identity ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn imag index_add
    index_copy index_fill index_reduce index_select inner instance_norm int interpolate inv inv_ex inverse irfft irfft2
    irfftn isclose isfinite isinf isnan item kl_div kron kthvalue l1_loss layer_norm ldexp le leaky_relu lerp less
    less_equal lgamma linear linear_cross_entropy linspace local_response_norm log log10 log1p log2 log_ndtr log_softmax
    logaddexp logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsigmoid logsumexp
    long lp_pool1d lp_pool2d lstsq lt margin_ranking_loss masked_fill masked_select matmul matrix_exp matrix_norm
    matrix_power max max_pool1d max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d maximum mean median
    meshgrid min minimum mish mm mod moveaxis movedim mse_loss msort mul multi_dot multi_margin_loss multigammaln
    multilabel_soft_margin_loss multiply mv mvlgamma nan_to_num nanmean nanmedian nansum narrow narrow_copy
    native_batch_norm native_group_norm native_layer_norm ndtr ndtri ne neg negative new_full new_ones new_tensor
    new_zeros nll_loss nonzero norm normalize not_equal nuclear_norm numel numpy one_hot ones ones_like outer pad
    pairwise_distance pdist permute pinv pinverse pixel_shuffle pixel_unshuffle poisson_nll_loss polar polygamma
    positive pow power prelu prod psi qr quantile rad2deg rand rand_like randint randn randn_like randperm ravel real
    reciprocal relu relu6 remainder renorm repeat repeat_interleave requires_grad reshape reshape_as resolve_conj rfft
    rfft2 rfftn rms_norm rnn_relu_cell rnn_tanh_cell roll rot90 round row_stack rrelu rsqrt rsub
    scaled_dot_product_attention scatter scatter_add scatter_reduce select select_scatter selu sgn sigmoid sign signbit
    silu sin sinc sinh size slice_scatter slogdet smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink
    softsign solve solve_ex solve_triangular sort split split_with_sizes sqrt square squeeze stack std std_mean stride
    sub subtract sum svd svdvals swapaxes swapdims t take take_along_axis take_along_dim tan tanh tanhshrink tensor
    tensor_split tensordot tensorinv tensorsolve threshold tile to tolist topk trace transpose trapezoid trapz
    triangular_solve tril triplet_margin_loss triu true_divide trunc type type_as unbind unflatten unfold unique
    unsqueeze upsample vander var var_mean vdot vecdot vector_norm view view_as view_as_complex view_as_real vsplit
    vstack where xlog1py xlogy zero zeros zeros_like
    """)
PROPERTIES = split_words("T mT H mH real imag shape dtype ndim data is_leaf requires_grad itemsize nbytes device")
MAKERS = split_words("tensor as_tensor ones zeros full eye linspace arange hann_window rand randn randint randperm")
"""Functions of torch's that make a tensor of no other."""
DRAWN = split_words("rand randn randint randperm rand_like randn_like")
"""Functions whose numbers are drawn: they are handed in."""
DROPS = split_words("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu")
"""Functions that draw numbers unless they are told ``training=False``, or 0."""
LOWER = split_words("float half bfloat16")
LESS = {torch.float32, torch.float16, torch.bfloat16}
"""Types of fewer digits: a cast of an input to one of them keeps all digits here."""
IMPLICIT = split_words("softmax log_softmax softmin")
SHORT = {"BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "Sequential": ""}
"""Modules whose functions have longer names."""
CONSTANTS = {
    "math": ("pi", "e", "tau", "inf", "nan"), "numpy": ("pi", "e", "inf", "nan", "newaxis"),
    "torch": ("pi", "e", "inf", "nan", "strided", "contiguous_format", "preserve_format"),
}  # fmt: skip
OF_NUMBERS = split_words(
    "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh floor ceil trunc pow fabs erf "
    "erfc gamma lgamma hypot degrees radians isnan isinf isfinite copysign fmod"
)
"""What ``math`` may be asked for."""
PYTHONS: Mapping[str, Any] = {
    "sum": sum, "max": max, "min": min, "abs": abs, "round": round, "pow": pow, "len": len, "float": float, "int": int,
    "bool": bool, "list": list, "tuple": tuple, "zip": zip, "enumerate": enumerate, "reversed": reversed,
    "sorted": sorted, "all": all, "any": any, "complex": complex, "range": range, "slice": slice,
}  # fmt: skip
ALONE = {"inf": math.inf, "nan": math.nan, "π": math.pi, "device": "cpu"}
"""What words are where nothing is called so."""
LIBRARIES: Mapping[str, Any] = {
    "torch": torch, "F": F, "nn": torch.nn, "np": np, "numpy": np, "math": math, "linalg": torch.linalg,
}  # fmt: skip
PARTS: Mapping[str, Any] = {
    "torch": torch, "torch.nn": torch.nn, "torch.nn.functional": F, "torch.linalg": torch.linalg,
    "torch.fft": torch.fft, "torch.special": torch.special, "torch.autograd": torch.autograd, "numpy": np,
    "numpy.linalg": np.linalg, "numpy.fft": np.fft, "math": math,
}  # fmt: skip
"""Modules by their names, those within another among them."""
REMOVED = ("solve", "lstsq", "eig", "matrix_rank")
"""What stands in ``torch`` to say that it is in ``torch.linalg`` now."""
ORDER = (F, torch, torch.linalg, torch.special, torch.fft)
"""Where a bare word is looked up: first in ``torch.nn.functional``; last it is a method of its first argument."""


def is_allowed_word(word: str) -> bool:
    """Whether a function or a method may be called so."""
    return word in WORDS or (word.endswith("_") and not word.endswith("__") and word[:-1] in WORDS)


def is_allowed_module(word: str) -> bool:
    """Whether a class of ``torch.nn`` is the module of a function that may be called."""
    function = word.lower().removesuffix("loss")
    return word in SHORT or bool({function, f"{function}loss"} & {known.replace("_", "") for known in WORDS})


def find_bare_function(word: str) -> Any:
    """The function that a bare word stands for; None where it can be but a method, or nothing."""
    if not is_allowed_word(word):
        return None
    places = [m for m in ORDER if m is not torch or word not in REMOVED]
    return next((getattr(m, word) for m in places if callable(getattr(m, word, None))), None)


LARGEST, MOST_BYTES, MOST_PRODUCTS = 50_000_000, 2_000_000_000, 20_000_000_000
"""Entries of one tensor, bytes of all, and products of two numbers, in one text."""
STEPS, MOST_LISTED, DIGITS = 20_000, 1_000_000, 2_000
"""Expressions that are computed, entries of lists, and bits of a whole number."""
FEW, FEW_PRODUCTS, SMALL = 5_000_000, 1_000_000_000, 10_000
"""Entries and products of a call that is made without further ado; sizes where torch does not foretell the result."""
SAME = split_words(
    "view reshape flatten ravel permute transpose unflatten swapaxes movedim squeeze unsqueeze getitem setitem view_as "
    "reshape_as masked_fill clamp add sub mul div pow fill"
)
"""Calls whose result has no more entries than the tensors, whatever numbers they are told."""
FACTORS = split_words("matmul mm bmm mv dot linear imatmul")
WIDE = split_words(
    "diag_embed diagflat vander outer ger kron cdist pdist cov corrcoef combinations cartesian_prod meshgrid einsum "
    "block_diag tensordot inner conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc "
    "bilinear multi_dot chain_matmul addmm addbmm baddbmm addr index_put histc searchsorted cross_entropy grid_sample "
    "addmv scaled_dot_product_attention embedding cosine_similarity pairwise_distance linear_cross_entropy take gather"
)
"""Calls whose result may have as many entries as the product of those of the tensors."""
SQUARE = split_words("eye identity tri")
"""Calls whose result has as many columns as rows where one number is told."""
BY_NUMBERS = split_words("one_hot bincount repeat_interleave")
"""Calls whose result has as many entries as the numbers in a tensor say."""
BY_DECIMALS = split_words("arange linspace logspace interpolate upsample range")
CUBED = split_words("linalg cholesky inverse svd eig qr lu ormqr triangular matrix_exp det")
"""What functions inside torch are called that take as many products as a matrix product."""


class UnsupportedText(Exception):
    """The text is not Python, or holds what is not read here, or would cost too much: the reader has no answer."""


class TextRejected(Exception):
    """Python or torch refuses the text; the message is theirs. ``binding`` where a call has other arguments."""

    def __init__(self, said: str, binding: bool = False) -> None:
        super().__init__(said)
        self.binding = binding


class UncompiledMode(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's class has no types
    """A mode that torch does not wrap for its compiler: the first call of one that it wraps imports that, a second."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class CostCounter(UncompiledMode):  # type: ignore[no-untyped-call]  # nor have those below it
    """Counts what torch makes inside the block."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # nor has what makes it
        self.budget = budget

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        from torch.utils.flop_counter import flop_registry  # what is small never comes here

        found, packet = func(*args, **(kwargs or {})), func.overloadpacket
        made, given = [*find_nested(found, torch.Tensor)], [*find_nested(args, torch.Tensor)]
        each = 1.0
        if "pool" in packet.__name__ and len(args) > 1:
            each = float(prod(n for n in find_nested(args[1], int) if n > 0))
        elif any(word in packet.__name__ for word in CUBED):
            each = float(max((n for t in given for n in t.shape), default=1))
        if packet in flop_registry:
            self.budget.products -= flop_registry[packet](*args, **(kwargs or {}), out_val=found)
        shared = {tensor.untyped_storage()._cdata for tensor in given}
        self.budget.products -= each * sum(tensor.numel() for tensor in made)
        self.budget.spend([tensor for tensor in made if tensor.untyped_storage()._cdata not in shared])
        if any(tensor.numel() > LARGEST for tensor in made):
            raise UnsupportedText(f"a tensor of {max(tensor.numel() for tensor in made):,} entries is too large")
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
            raise UnsupportedText("it takes too many steps")

    def list(self, values: Any) -> Any:
        """``values``, whose entries are counted, those of lists in it too."""
        waiting = [values]
        while waiting:
            if isinstance(found := waiting.pop(), (list, tuple, dict)):
                self.entries(len(found) + 1)
                waiting += found.values() if isinstance(found, dict) else found
        return values

    def entries(self, count: int) -> None:
        """So many entries of lists."""
        self.listed -= count
        if self.listed < 0:
            raise UnsupportedText("its lists are too long")

    def spend(self, made: Any) -> None:
        """The bytes of tensors."""
        self.bytes -= sum(tensor.numel() * tensor.element_size() for tensor in find_nested(made, torch.Tensor))
        if self.bytes < 0 or self.products < 0:
            raise UnsupportedText("it computes too much")

    def foresee(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, **beside: Any) -> None:
        """Refuse a call that would cost too much: by its shapes, or run on the device without numbers."""
        entries, products = bound_cost(name.rstrip("_"), args, kwargs)
        if entries <= FEW and products <= FEW_PRODUCTS:
            self.products -= int(products)
            return
        if name in BY_NUMBERS:
            raise UnsupportedText("how large its result is depends on numbers")
        try:
            with torch.no_grad(), CostCounter(self):
                function(*to_meta(args), **to_meta(kwargs), **beside)
        except UnsupportedText:
            raise
        except Exception:  # refused, or made of numbers: the call itself says which
            size = sum(t.numel() for t in find_nested((args, kwargs), torch.Tensor))
            largest = max(map(abs, find_nested((args, kwargs), (int, float))), default=0)
            if size > MOST_LISTED or (size > SMALL and largest > SMALL) or largest > LARGEST:
                raise UnsupportedText("how large its result is depends on numbers") from None

    def numpy(self, args: Any) -> None:
        """A call of NumPy's, of which nothing says beforehand how large its result is."""
        size = prod(max(a.size, 1) for a in find_nested(args, (np.ndarray, np.generic)))
        if size > LARGEST or prod(abs(n) for n in find_nested(args, (int, float)) if abs(n) > 8) > SMALL:
            raise UnsupportedText("a call of NumPy's that may be too large")


def bound_cost(name: str, args: Sequence[Any], kwargs: Any) -> tuple[float, float]:
    """At most how many entries the result of a call has, and how many products it takes."""
    tensors = list(find_nested((args, kwargs), torch.Tensor))
    sizes = [float(max(1, tensor.numel())) for tensor in tensors]
    counts = [abs(n) for n in find_nested((args, kwargs), (int, float)) if isinstance(n, int) or name in BY_DECIMALS]
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


def find_nested(values: Any, kind: Any) -> Iterator[Any]:
    """What is of a ``kind`` among values, and in lists among them; a truth value is no number."""
    if isinstance(values, kind) and not isinstance(values, bool):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from find_nested(value, kind)
    elif isinstance(values, Mapping):
        yield from find_nested(list(values.values()), kind)


def to_meta(value: Any) -> Any:
    """``value`` with tensors that hold no numbers."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if type(value) in (list, tuple):
        return type(value)(map(to_meta, value))
    return {key: to_meta(part) for key, part in value.items()} if isinstance(value, dict) else value
