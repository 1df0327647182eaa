"""What torch's functions are in NumPy and in jax: one line each, as a function of the same arguments.

``np`` is the array library and ``special`` its special functions: ``scipy.special``, ``jax.scipy.special``. A method
``x.sum(0)`` is read as ``sum(x, 0)``. What is not listed has no counterpart that is known here, and is refused.
"""

from __future__ import annotations

SAME = (
    "exp", "log", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt", "abs", "sign", "floor", "ceil", "trunc", "expm1",
    "log1p", "log2", "log10", "exp2", "square", "isfinite", "deg2rad", "rad2deg", "sinc", "reciprocal",
)  # fmt: skip
"""Functions of one tensor that are called the same in NumPy."""
SPECIAL = ("erf", "erfc", "erfinv", "ndtr", "log_ndtr", "ndtri", "digamma", "i0", "i0e", "i1", "i1e", "entr")
"""Those of one tensor that are called the same among the special functions."""
RULES = (
    ("asin", "x: np.arcsin(x)"),
    ("acos", "x: np.arccos(x)"),
    ("atan", "x: np.arctan(x)"),
    ("asinh", "x: np.arcsinh(x)"),
    ("acosh", "x: np.arccosh(x)"),
    ("atanh", "x: np.arctanh(x)"),
    ("neg", "x: -x"),
    ("rsqrt", "x: 1 / np.sqrt(x)"),
    ("frac", "x: x - np.trunc(x)"),
    ("lgamma", "x: special.gammaln(x)"),
    ("polygamma", "n, x: special.polygamma(n, x)"),
    ("sigmoid", "x: special.expit(x)"),
    ("logsigmoid", "x: -np.logaddexp(0, -x)"),
    ("softplus", "x: np.logaddexp(x, 0)"),
    ("relu", "x: np.maximum(x, 0)"),
    ("silu", "x: x * special.expit(x)"),
    ("gelu", "x: x * special.ndtr(x)"),
    ("softsign", "x: x / (1 + np.abs(x))"),
    ("tanhshrink", "x: x - np.tanh(x)"),
    ("maximum", "x, y: np.maximum(x, y)"),
    ("minimum", "x, y: np.minimum(x, y)"),
    ("atan2", "x, y: np.arctan2(x, y)"),
    ("hypot", "x, y: np.hypot(x, y)"),
    ("copysign", "x, y: np.copysign(x, y)"),
    ("logaddexp", "x, y: np.logaddexp(x, y)"),
    ("logaddexp2", "x, y: np.logaddexp2(x, y)"),
    ("xlogy", "x, y: special.xlogy(x, y)"),
    ("xlog1py", "x, y: special.xlog1py(x, y)"),
    ("fmod", "x, y: np.fmod(x, y)"),
    ("remainder", "x, y: np.mod(x, y)"),
    ("lerp", "x, y, w: x + w * (y - x)"),
    ("where", "c, x, y: np.where(c, x, y)"),
    ("clamp", "x, min=None, max=None: np.clip(x, min, max)"),
    ("sum", "x, dim=None, keepdim=False: np.sum(x, axis=dim, keepdims=keepdim)"),
    ("mean", "x, dim=None, keepdim=False: np.mean(x, axis=dim, keepdims=keepdim)"),
    ("prod", "x, dim=None, keepdim=False: np.prod(x, axis=dim, keepdims=keepdim)"),
    ("amax", "x, dim=None, keepdim=False: np.max(x, axis=dim, keepdims=keepdim)"),
    ("amin", "x, dim=None, keepdim=False: np.min(x, axis=dim, keepdims=keepdim)"),
    ("max", "x: np.max(x)"),
    ("min", "x: np.min(x)"),
    ("var", "x, dim=None, correction=1, keepdim=False: np.var(x, axis=dim, ddof=correction, keepdims=keepdim)"),
    ("std", "x, dim=None, correction=1, keepdim=False: np.std(x, axis=dim, ddof=correction, keepdims=keepdim)"),
    ("logsumexp", "x, dim, keepdim=False: special.logsumexp(x, axis=dim, keepdims=keepdim)"),
    ("cumsum", "x, dim: np.cumsum(x, axis=dim)"),
    ("cumprod", "x, dim: np.cumprod(x, axis=dim)"),
    ("diff", "x: np.diff(x)"),
    ("flip", "x, *dims: np.flip(x, axis=dims)"),
    ("roll", "x, shifts, dims=None: np.roll(x, shifts, axis=dims)"),
    ("tril", "x, diagonal=0: np.tril(x, k=diagonal)"),
    ("triu", "x, diagonal=0: np.triu(x, k=diagonal)"),
    ("trace", "x: np.trace(x)"),
    ("diag", "x, diagonal=0: np.diag(x, k=diagonal)"),
    ("diagonal", "x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2)"),
    ("reshape", "x, *shape: np.reshape(x, shape)"),
    ("expand", "x, *shape: np.broadcast_to(x, shape)"),
    ("transpose", "x, a, b: np.swapaxes(x, a, b)"),
    ("permute", "x, *dims: np.transpose(x, dims)"),
    ("movedim", "x, a, b: np.moveaxis(x, a, b)"),
    ("unsqueeze", "x, dim: np.expand_dims(x, dim)"),
    ("squeeze", "x, dim: np.squeeze(x, axis=dim)"),
    ("tile", "x, *dims: np.tile(x, dims)"),
    ("fliplr", "x: np.fliplr(x)"),
    ("flipud", "x: np.flipud(x)"),
    ("zeros_like", "x: np.zeros_like(x)"),
    ("ones_like", "x: np.ones_like(x)"),
    ("arange", "n: np.arange(n)"),
    ("einsum", "text, *x: np.einsum(text, *x)"),
    ("one_hot", "x, n: np.eye(n)[x]"),
    ("index_select", "x, dim, index: np.take(x, index, axis=dim)"),
    ("to", "x, like: x.astype(like.dtype)"),
    ("numel", "x: x.size"),
    ("outer", "x, y: np.outer(x, y)"),
    ("dot", "x, y: np.dot(x, y)"),
    ("mm", "x, y: x @ y"),
    ("bmm", "x, y: x @ y"),
    ("matmul", "x, y: x @ y"),
    ("kron", "x, y: np.kron(x, y)"),
    ("linear", "x, w, b=0: x @ w.T + b"),
    ("inverse", "x: np.linalg.inv(x)"),
    ("det", "x: np.linalg.det(x)"),
    ("pinv", "x: np.linalg.pinv(x)"),
    ("cholesky", "x: np.linalg.cholesky(x)"),
)  # fmt: skip
"""A name in torch; its arguments, and what it comes to, in which options that were left out are left out."""
ONLY = {
    "numpy": (
        ("softmax", "x, dim: special.softmax(x, axis=dim)"),
        ("log_softmax", "x, dim: special.log_softmax(x, axis=dim)"),
    ),
    "jax": (
        ("softmax", "x, dim: jax.nn.softmax(x, axis=dim)"),
        ("log_softmax", "x, dim: jax.nn.log_softmax(x, axis=dim)"),
    ),
}
"""What the two libraries have in different places."""
MODULES = {
    "numpy": {"np": "import numpy as np", "special": "from scipy import special"},
    "jax": {
        "jax": "import jax", "np": "import jax.numpy as jnp", "special": "from jax.scipy import special",
    },
}  # fmt: skip
"""How a module is imported; in jax the array library is called ``jnp``."""
