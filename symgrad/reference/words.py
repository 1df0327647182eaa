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
    adaptive_max_pool2d adaptive_max_pool3d add addbmm addcdiv addcmul addmm addmv addr adjoint affine_grid airy_ai all
    allclose alpha_dropout amax amin aminmax angle any arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh
    argmax argmin argsort around array array_split as_tensor asarray asin asinh astype atan atan2 atanh atleast_1d
    atleast_2d atleast_3d average avg_pool1d avg_pool2d avg_pool3d baddbmm bartlett_window batch_norm bessel_j0
    bessel_j1 bessel_y0 bessel_y1 bfloat16 bilinear binary_cross_entropy binary_cross_entropy_with_logits bincount
    bitwise_and bitwise_not bitwise_or bitwise_xor blackman_window block_diag bmm bool broadcast_shapes
    broadcast_tensors broadcast_to bucketize byte cartesian_prod cat cbrt cdist cdouble ceil celu cfloat chain_matmul
    channel_shuffle char cholesky cholesky_ex cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clip clone
    column_stack combinations complex concat concatenate cond conj conj_physical constant_pad_nd contiguous conv1d
    conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d copy copysign corrcoef cos cosh
    cosine_embedding_loss cosine_similarity count_nonzero cov cpu cross cross_entropy ctc_loss cuda cummax cummin cumprod cumsum
    cumulative_trapezoid deg2rad det detach diag diag_embed diag_indices diagflat diagonal diagonal_scatter diff digamma
    dim dist div divide dot double dropout dropout1d dropout2d dropout3d dsplit dstack eig eigh eigvals eigvalsh einsum
    element_size elu embedding entr eq equal erf erfc erfcx erfinv exp exp2 expand expand_as expand_dims expit expm1 eye
    feature_alpha_dropout fft fft2 fftfreq fftn fftshift fill fill_diagonal finfo fix flatnonzero flatten flip fliplr
    flipud float float_power floor floor_divide fmax fmin fmod fold frac frexp from_numpy full
    full_like gammainc gammaincc gammaln gather gaussian_nll_loss gcd ge gelu geqrf ger glu gradient greater
    greater_equal grid_sample group_norm gt half hamming_window hann_window hardshrink hardsigmoid hardswish hardtanh
    heaviside hfft hfft2 hfftn hinge_embedding_loss histc householder_product hsplit hstack huber_loss hypot i0 i0e i1
    i1e identity ifft ifft2 ifftn ifftshift igamma igammac ihfft ihfft2 ihfftn iinfo imag index_add index_copy
    index_fill index_put index_reduce index_select inner instance_norm int interpolate inv inv_ex inverse invert irfft
    irfft2 irfftn is_complex is_contiguous is_floating_point isclose isfinite isin isinf isnan istft item kl_div kron
    kthvalue l1_loss layer_norm lcm ldexp ldl_factor le leaky_relu lerp less less_equal lgamma linear
    linear_cross_entropy linspace local_response_norm log log10 log1p log2 log_ndtr log_softmax logaddexp logaddexp2
    logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logsigmoid logspace logsumexp long
    lp_pool1d lp_pool2d lstsq lt lu lu_factor lu_solve lu_unpack margin_ranking_loss masked_fill masked_scatter
    masked_select matmul matrix_exp matrix_norm matrix_power matrix_rank matrix_transpose max max_pool1d
    max_pool1d_with_indices max_pool2d max_pool3d max_unpool1d max_unpool2d max_unpool3d maximum mean median meshgrid
    min minimum mish mm mod mode modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 moveaxis
    movedim mse_loss msort mul multi_dot multi_margin_loss multigammaln multilabel_margin_loss
    multilabel_soft_margin_loss multiply mv mvlgamma nan_to_num nanmax nanmean nanmedian nanmin nanquantile nanstd
    nansum nanvar narrow narrow_copy native_batch_norm native_group_norm native_layer_norm ndimension ndtr ndtri ne neg
    negative nelement new_full new_ones new_tensor new_zeros nextafter nll_loss nonzero norm normalize not_equal
    nuclear_norm numel numpy one_hot ones ones_like orgqr outer pad pairwise_distance pdist percentile permute
    permute_dims pinv pinverse pixel_shuffle pixel_unshuffle poisson_nll_loss polar polygamma positive pow power prelu
    prod psi ptp put qr quantile rad2deg rand rand_like randint randint_like randn randn_like randperm ravel real
    reciprocal relu relu6 remainder renorm repeat repeat_interleave reshape reshape_as resolve_conj resolve_neg
    rnn_relu_cell rnn_tanh_cell
    result_type retain_grad rfft rfft2 rfftfreq rfftn rint rms_norm roll rot90 round row_stack rrelu rsqrt rsub
    requires_grad scalar_tensor scaled_dot_product_attention scaled_modified_bessel_k0 scaled_modified_bessel_k1 scatter scatter_add
    scatter_reduce searchsorted select select_scatter selu sgn short sigmoid sign signbit silu sin sinc sinh size
    slice_scatter slogdet smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign solve solve_ex
    solve_triangular sort spherical_bessel_j0 split split_with_sizes sqrt square squeeze stack std std_mean stft stride
    sub subtract sum svd svdvals swapaxes swapdims t take take_along_axis take_along_dim tan tanh tanhshrink tensor
    tensor_split tensordot tensorinv tensorsolve threshold tile to tolist topk trace transpose trapezoid trapz tri
    triangular_solve tril tril_indices triplet_margin_loss triplet_margin_with_distance_loss triu triu_indices
    true_divide trunc type type_as unbind unflatten unfold unique unravel_index unsafe_chunk unsafe_split unsqueeze
    upsample vander var var_mean vdot vecdot vector_norm view view_as view_as_complex view_as_real vsplit vstack where
    xlog1py xlogy zero zeros zeros_like zeta
    """)
PROPERTIES = words("T mT H mH real imag shape dtype ndim data is_leaf requires_grad itemsize nbytes device")
FIELDS = words(
    "values indices eigenvalues eigenvectors Q R U S Vh V sign logabsdet LU pivots solution residuals rank L info "
    "inverse P singular_values mantissa exponent result eps max min tiny mean std var count counts"
)
"""Names of the parts of a call that gives several, and of ``torch.finfo``."""
MAKERS = words(
    "tensor as_tensor ones zeros full eye linspace logspace arange scalar_tensor tril_indices triu_indices hann_window "
    "hamming_window bartlett_window blackman_window rand randn randint randperm fftfreq rfftfreq"
)
"""Functions of torch's that make a tensor of no other."""
DRAWN = words("rand randn randint randperm rand_like randn_like randint_like")
"""Functions whose numbers are drawn: they are handed in."""
DROPS = words("dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu")
"""Functions that draw numbers unless they are told ``training=False``, or 0."""
LOWER = words("float half bfloat16")
LESS = {torch.float32, torch.float16, torch.bfloat16}
"""Types of fewer digits: a cast of an input to one of them keeps all digits here."""
IMPLICIT = words("softmax log_softmax softmin")
SHORT = {"BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "Sequential": ""}
"""Modules whose functions have longer names."""
DTYPES = words(
    "float double half float16 bfloat16 float32 float64 int long short uint8 int8 int16 int32 int64 bool complex64 "
    "complex128 cfloat cdouble bool_"
)
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
ALONE = {"inf": math.inf, "nan": math.nan, "π": math.pi}
"""Words that are numbers where nothing is called so."""
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
