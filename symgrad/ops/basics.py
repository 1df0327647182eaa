"""The entries that symgrad puts into programs by itself, where it lifts a run or takes complex tensors apart.

Comes in: the table. Goes out: entries, to be applied. Who decides by what an operation is asks its entry for the fact
(fields of `symgrad.entries.spec.Op`) and never whether it is one of these; a test sees to it.
"""

from symgrad.ops.lookup import entry_named

# fmt: off
add, sub, mul, div, neg, gt, lt, where, remainder = map(entry_named, ("add", "sub", "mul", "div", "neg", "gt", "lt", "where", "remainder"))
relu, softplus, softmax, log_softmax, logsumexp, zeros_like, ones_like = map(entry_named, ("relu", "softplus", "softmax", "log_softmax", "logsumexp", "zeros_like", "ones_like"))
reshape, expand, permute, transpose, unsqueeze, unfold, pad = map(entry_named, ("reshape", "expand", "permute", "transpose", "unsqueeze", "unfold", "pad"))
narrow, select, cat, gather, index_select, index_add, index_reduce = map(entry_named, ("narrow", "select", "cat", "gather", "index_select", "index_add", "index_reduce"))
matmul, attention, norm, complex_pair, complex_real, complex_imag, complex_conj = map(entry_named, ("matmul", "scaled_dot_product_attention", "norm", "complex_pair", "complex_real", "complex_imag", "complex_conj"))
