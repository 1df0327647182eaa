"""What a text may call: words, in whichever library they stand, and the order in which bare words are looked up.

A word that is not here is not called, whatever torch or NumPy have under it. With ``_`` behind it, it is the method, or
the function, that writes over what it is given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 -- as everybody calls it


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


WORDS = words("""
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
PROPERTIES = words("T mT H mH real imag shape dtype ndim data is_leaf requires_grad itemsize nbytes device")
MAKERS = words("tensor as_tensor ones zeros full eye linspace arange hann_window rand randn randint randperm")
"""Functions of torch's that make a tensor of no other."""
DRAWN = words("rand randn randint randperm rand_like randn_like")
"""Functions whose numbers are drawn: they are handed in."""
DROPS = words("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu")
"""Functions that draw numbers unless they are told ``training=False``, or 0."""
LOWER = words("float half bfloat16")
LESS = {torch.float32, torch.float16, torch.bfloat16}
"""Types of fewer digits: a cast of an input to one of them keeps all digits here."""
IMPLICIT = words("softmax log_softmax softmin")
SHORT = {"BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "Sequential": ""}
"""Modules whose functions have longer names."""
CONSTANTS = {
    "math": ("pi", "e", "tau", "inf", "nan"), "numpy": ("pi", "e", "inf", "nan", "newaxis"),
    "torch": ("pi", "e", "inf", "nan", "strided", "contiguous_format", "preserve_format"),
}  # fmt: skip
OF_NUMBERS = words(
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


def is_allowed(word: str) -> bool:
    """Whether a function or a method may be called so."""
    return word in WORDS or (word.endswith("_") and not word.endswith("__") and word[:-1] in WORDS)


def is_module(word: str) -> bool:
    """Whether a class of ``torch.nn`` is the module of a function that may be called."""
    function = word.lower().removesuffix("loss")
    return word in SHORT or bool({function, f"{function}loss"} & {known.replace("_", "") for known in WORDS})


def bare(word: str) -> Any:
    """The function that a bare word stands for; None where it can be but a method, or nothing."""
    if not is_allowed(word):
        return None
    places = [m for m in ORDER if m is not torch or word not in REMOVED]
    return next((getattr(m, word) for m in places if callable(getattr(m, word, None))), None)
