"""The entries that symgrad puts into programs by itself, where it lifts a run or takes complex tensors apart.

Comes in: the table. Goes out: entries, to be applied. Who decides by what an operation is asks its entry for the fact
(fields of `symgrad.entries.spec.Op`) and never whether it is one of these; a test sees to it.
"""

from symgrad.entries.spec import Op
from symgrad.ops.lookup import entry_named

# fmt: off
NAMES = {
    *["add", "sub", "mul", "div", "neg", "gt", "lt", "where", "remainder", "relu", "softplus", "softmax", "log_softmax", "logsumexp", "zeros_like", "ones_like"],
    *["reshape", "expand", "permute", "transpose", "unsqueeze", "unfold", "pad", "narrow", "select", "cat", "gather", "index_select", "index_add"],
    *["index_reduce", "matmul", "attention", "norm", "complex_pair", "complex_real", "complex_imag", "complex_conj"],
}
# fmt: on


def __getattr__(name: str) -> Op:
    """An entry; its file is loaded when it is asked for first (PEP 562)."""
    if name not in NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = entry_named("scaled_dot_product_attention" if name == "attention" else name)
    return found
