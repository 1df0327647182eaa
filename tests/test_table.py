"""The table as a whole: nothing vanishes from it, and every spelling that users paste is understood.

The texts on the left are symgrad's to read; those on the right are run by torch itself, on the same numbers.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import symgrad
from symgrad import ops
from symgrad.errors import SymgradError
from symgrad.ops import TABLE, find, operations
from symgrad.ops.lookup import ATTRIBUTES
from tests import torch_side
from tests.compare import assert_same
from tests.sampling import random_seed, seed_of

NAMES = [
    "identity", "zeros_like", "ones_like", "add", "sub", "mul", "div", "neg", "pow", "square", "reciprocal",
    "exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sigmoid", "softplus", "silu", "gelu", "relu", "abs",
    "sign", "maximum", "minimum", "clamp", "lt", "le", "gt", "ge", "eq", "ne", "where", "leaky_relu", "elu",
    "celu", "selu", "hardtanh", "relu6", "hardsigmoid", "hardswish", "mish", "logsigmoid", "softsign",
    "tanhshrink", "softshrink", "hardshrink", "exp2", "expm1", "log2", "log10", "log1p", "rsqrt", "logaddexp",
    "logaddexp2", "ldexp", "logit", "xlogy", "xlog1py", "entr", "sinh", "cosh", "asin", "acos", "atan", "asinh",
    "atanh", "acosh", "atan2", "hypot", "deg2rad", "rad2deg", "sinc", "floor", "ceil", "trunc", "round", "frac",
    "remainder", "fmod", "nan_to_num", "copysign", "fmax", "fmin", "lerp", "addcmul", "addcdiv", "erf",
    "erfc", "erfinv", "erfcx", "ndtr", "log_ndtr", "ndtri", "lgamma", "digamma", "i0", "i1", "i0e", "i1e",
    "sum", "mean", "prod", "amax", "amin", "max", "min", "var", "std", "norm", "linalg_norm", "logsumexp",
    "softmax", "log_softmax", "mse_loss", "layer_norm",
    "linear", "bilinear", "batch_norm", "instance_norm", "group_norm", "rms_norm", "embedding",
    "scaled_dot_product_attention",
    "threshold", "prelu", "glu",
    "expand", "permute", "transpose", "T", "mT", "reshape", "flatten", "unsqueeze", "squeeze", "getitem", "cat",
    "stack", "diag",
    "flip", "flipud", "fliplr", "roll", "rot90", "tril", "triu", "diagonal", "diag_embed", "movedim", "select",
    "narrow", "chunk_part", "split_part", "unbind_part", "repeat", "tile", "repeat_interleave", "pad", "unfold",
    "pixel_shuffle",
    "mm", "mv", "bmm", "dot", "outer", "np_dot", "trace", "matmul", "einsum",
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "inverse",
    "gather", "take_along_dim", "take", "index_select", "masked_fill", "index_add", "scatter_add", "scatter",
    "index_copy", "index_fill",
    "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "kl_div", "soft_margin_loss", "poisson_nll_loss", "gaussian_nll_loss", "margin_ranking_loss",
    "hinge_embedding_loss", "nll_loss", "cross_entropy",
    "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d",
    "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "addmm", "addmv", "addr", "addbmm", "baddbmm", "tensordot", "kron", "vecdot", "cross", "cosine_similarity",
    "pairwise_distance", "normalize", "dist", "cdist", "cosine_embedding_loss", "triplet_margin_loss",
    "polygamma", "mvlgamma",
    "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "diff", "sort", "topk", "kthvalue", "median",
    "complex_pair", "complex_polar", "complex_conj", "complex_real", "complex_imag", "complex_abs", "complex_angle",
    "complex_mul", "complex_matmul", "complex_div", "complex_exp", "complex_log", "complex_sqrt", "complex_sin",
    "complex_cos", "complex_sinh", "complex_cosh", "complex_fft", "complex_ifft", "complex_rfft", "complex_irfft",
    "complex_hfft", "complex_ihfft",
]  # fmt: skip
"""What the table holds at least. A new entry needs no line here; a line that has to go is a promise broken."""


def test_no_operation_has_vanished() -> None:
    assert [name for name in NAMES if name not in TABLE] == []


def test_the_files_of_the_table_are_named_and_read_in_their_order() -> None:
    """Whichever operation was asked for first: here those that texts have most were."""
    rows = {
        path.stem
        for path in Path(ops.__file__).parent.glob("*.py")
        if "symgrad.entries.equations" in path.read_text("utf-8")
    }
    assert sorted(itertools.chain.from_iterable(ops.GROUPS.values())) == sorted(rows)
    assert sorted(ops.FILES[0]) == sorted(f"symgrad.ops.{family}" for family in rows)
    assert list(dict.fromkeys(ops.FAMILIES[name] for name in TABLE)) == ops.FILES[0]
    assert list(dict.fromkeys(ops.FAMILIES[op.name] for op in ops.SPELLINGS.values())) == ops.FILES[0]
    assert list(dict.fromkeys(ops.COMPOUNDS.source[name] for name in ops.COMPOUNDS)) == ops.COMPOUNDS.files
    with pytest.raises(KeyError):
        TABLE["nothing"]


def test_attributes_are_the_entries_whose_template_says_so() -> None:
    assert tuple(op.name for op in TABLE.values() if op.spelling.template == f"{{}}.{op.name}") == ATTRIBUTES


def test_every_entry_says_what_it_is() -> None:
    for op in operations():
        assert op.summary, op.name
        assert "=" in op.definition, op.name
        assert op.examples, op.name
        assert all(find(spelling) is op for spelling in op.spellings), op.name


def test_no_entry_has_brackets_around_nothing() -> None:
    """One name, one number, or brackets again: nothing that brackets would hold together."""
    idle = re.compile(r"(?<![\w⌋])\((?:\w+|\(([^()]|\([^()]*\))*\))\)|_\{\w\}")
    assert idle.search("out = (Σ_{i} x[i]) / (2)")
    assert idle.search("1 / ((Σ_j [size(x, 0) > j]))")
    assert not {op.name: op.definition for op in TABLE.values() if idle.search(op.definition)}


def test_no_entry_holds_a_derivative() -> None:
    fields = {field.lower() for op in operations() for field in op.__dataclass_fields__}
    assert not {f for f in fields if any(word in f for word in ("deriv", "grad", "vjp", "jvp", "backward", "jacobian"))}


# --- spellings ----------------------------------------------------------------------------------------------

X, M = {"x": (2, 3)}, {"x": (2, 3), "y": (2, 3)}
SAME = "="
"""The text is torch's own as it stands."""

SPELLINGS: list[tuple[str, str, dict[str, tuple[int, ...]]]] = [
    # + - * / ** @ with broadcasting and batches, negation
    ("x + y", SAME, {"x": (2, 3), "y": (3,)}),
    ("x + y", SAME, {"x": (3, 1, 2), "y": (1, 4, 1)}),
    ("torch.add(x, y)", SAME, M),
    ("x.add(y)", SAME, M),
    ("np.add(x, y)", "x + y", M),
    ("x - y", SAME, {"x": (2, 3), "y": (2, 1)}),
    ("torch.sub(x, y)", SAME, M),
    ("torch.subtract(x, y)", SAME, M),
    ("np.subtract(x, y)", "x - y", M),
    ("1 - x", SAME, X),
    ("x * y", SAME, {"x": (2, 3), "y": (2, 1)}),
    ("torch.mul(x, y)", SAME, M),
    ("x.multiply(y)", SAME, M),
    ("np.multiply(x, y)", "x * y", M),
    ("x / y", SAME, {"x": (2, 3), "y": (1, 3)}),
    ("torch.div(x, y)", SAME, M),
    ("torch.true_divide(x, y)", SAME, M),
    ("np.divide(x, y)", "x / y", M),
    ("1 / x", SAME, X),
    ("x ** 2", SAME, X),
    ("x ** 0.5", SAME, X),
    ("x ** -1", SAME, X),
    ("x ** y", SAME, M),
    ("2 ** x", SAME, X),
    ("torch.pow(x, 3)", SAME, X),
    ("x.pow(2)", SAME, X),
    ("np.power(x, 3)", "x ** 3", X),
    ("-x", SAME, X),
    ("torch.neg(x)", SAME, X),
    ("np.negative(x)", "-x", X),
    ("x @ y", SAME, {"x": (2, 3), "y": (3, 4)}),
    ("x @ y", SAME, {"x": (5, 2, 3), "y": (3, 4)}),
    ("x @ y", SAME, {"x": (2, 1, 2, 3), "y": (3, 3, 2)}),
    ("torch.matmul(x, y)", SAME, {"x": (2, 3), "y": (3,)}),
    ("x.matmul(y)", SAME, {"x": (3,), "y": (3, 2)}),
    ("np.matmul(x, y)", "x @ y", {"x": (2, 3), "y": (3, 4)}),
    # exp, log, sqrt, sin, cos, tan, tanh, sigmoid, relu, abs, square, reciprocal, softplus, gelu, silu
    *[(f"torch.{f}(x)", SAME, X) for f in
      ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sigmoid", "relu", "abs", "square", "reciprocal")],
    *[(f"x.{f}()", SAME, X) for f in
      ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sigmoid", "relu", "abs", "square", "reciprocal")],
    *[(f"np.{f}(x)", f"torch.{f}(x)", X) for f in
      ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "abs", "square", "reciprocal")],
    *[(f"{f}(x)", f"torch.{f}(x)", X) for f in ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sigmoid", "relu")],
    *[(f"F.{f}(x)", SAME, X) for f in ("relu", "sigmoid", "tanh", "softplus", "gelu", "silu")],
    ("torch.nn.functional.gelu(x)", SAME, X),
    ('F.gelu(x, approximate="tanh")', SAME, X),
    ("torch.absolute(x)", SAME, X),
    # sum, mean, prod, max/amax (dim, keepdim), var, std, norm, logsumexp
    *[(text.format(f), SAME, X) for f in ("sum", "mean") for text in
      ("torch.{}(x)", "x.{}()", "x.{}(0)", "x.{}(dim=0, keepdim=True)", "torch.{}(x, dim=-1)", "x.{}((0, 1))")],
    *[(f"np.{f}(x, axis=1, keepdims=True)", f"torch.{f}(x, dim=1, keepdim=True)", X) for f in ("sum", "mean")],
    ("np.max(x, axis=0)", "torch.amax(x, dim=0)", X),
    ("np.amin(x)", "torch.amin(x)", X),
    ("torch.prod(x)", SAME, X),
    ("x.prod(dim=1, keepdim=True)", SAME, X),
    ("np.prod(x, axis=0)", "torch.prod(x, dim=0)", X),
    ("torch.max(x)", SAME, X),
    ("x.max()", SAME, X),
    ("torch.max(x, dim=1).values", SAME, X),
    ("x.max(dim=1, keepdim=True)[0]", SAME, X),
    ("x.min(0).values", SAME, X),
    ("torch.amax(x, dim=(0, 1))", SAME, X),
    ("x.amax(dim=-1, keepdim=True)", SAME, X),
    ("torch.max(x, y)", SAME, M),
    ("x.var()", SAME, X),
    ("torch.var(x, dim=1)", SAME, X),
    ("torch.var(x, dim=0, correction=0, keepdim=True)", SAME, X),
    ("x.var(dim=1, unbiased=False)", SAME, X),
    ("x.std()", SAME, X),
    ("torch.std(x, dim=1, keepdim=True)", SAME, X),
    ("x.std(dim=(0, 1))", SAME, X),
    ("torch.norm(x)", SAME, X),
    ("x.norm(dim=1)", SAME, X),
    ("torch.linalg.norm(x)", SAME, X),
    ("torch.norm(x, p=1, dim=0)", SAME, X),
    *((f"torch.linalg.matrix_norm(x, {p}, (2, 0))", SAME, {"x": (2, 3, 4)}) for p in (1, -1, "'fro'", "'nuc'", 2)),
    *((f"torch.linalg.matrix_norm(x, {p}, (1, 2), True)", SAME, {"x": (2, 3, 4)}) for p in ("torch.inf", "-torch.inf")),
    ("torch.linalg.vector_norm(x, 3, dim=1, keepdim=True)", SAME, X),
    ("np.linalg.norm(x)", "torch.linalg.norm(x)", X),
    ("torch.logsumexp(x, dim=1)", SAME, X),
    ("x.logsumexp(dim=0, keepdim=True)", SAME, X),
    # dot, mm, mv, bmm, outer, einsum, trace
    ("torch.dot(x, y)", SAME, {"x": (3,), "y": (3,)}),
    ("x.dot(y)", SAME, {"x": (3,), "y": (3,)}),
    ("np.dot(x, y)", "torch.dot(x, y)", {"x": (3,), "y": (3,)}),
    ("np.dot(x, y)", "x @ y", {"x": (2, 3), "y": (3, 4)}),
    ("torch.mm(x, y)", SAME, {"x": (2, 3), "y": (3, 4)}),
    ("x.mm(y)", SAME, {"x": (2, 3), "y": (3, 4)}),
    ("torch.mv(x, y)", SAME, {"x": (2, 3), "y": (3,)}),
    ("torch.bmm(x, y)", SAME, {"x": (2, 2, 3), "y": (2, 3, 2)}),
    ("torch.outer(x, y)", SAME, {"x": (2,), "y": (3,)}),
    ("np.outer(x, y)", "torch.outer(x, y)", {"x": (2,), "y": (3,)}),
    ('torch.einsum("ij,jk->ik", x, y)', SAME, {"x": (2, 3), "y": (3, 4)}),
    ('torch.einsum("ij,jk", x, y)', SAME, {"x": (2, 3), "y": (3, 4)}),
    ('torch.einsum("bij,bjk->bik", [x, y])', SAME, {"x": (2, 2, 3), "y": (2, 3, 2)}),
    ('np.einsum("ii->i", x)', 'torch.einsum("ii->i", x)', {"x": (3, 3)}),
    ('np.einsum("ii", x)', 'torch.einsum("ii", x)', {"x": (3, 3)}),
    ("torch.trace(x)", SAME, {"x": (3, 3)}),
    ("x.trace()", SAME, {"x": (3, 3)}),
    ("np.trace(x)", "torch.trace(x)", {"x": (3, 3)}),
    # transpose/.T/permute/reshape/squeeze/unsqueeze/expand, basic slicing and integer indexing, cat, stack
    ("x.T", SAME, X),
    ("x.t()", SAME, X),
    ("x.mT", SAME, {"x": (2, 2, 3)}),
    ("torch.transpose(x, 0, 1)", SAME, X),
    ("x.transpose(0, -1)", SAME, {"x": (2, 3, 4)}),
    ("np.transpose(x)", "x.T", X),
    ("np.swapaxes(x, 0, 1)", "x.T", X),
    ("x.permute(2, 0, 1)", SAME, {"x": (2, 3, 4)}),
    ("torch.permute(x, (1, 0))", SAME, X),
    ("x.reshape(3, 2)", SAME, X),
    ("x.reshape((3, 2))", SAME, X),
    ("x.view(-1)", SAME, X),
    ("torch.reshape(x, (6,))", SAME, X),
    ("np.reshape(x, (3, 2))", "torch.reshape(x, (3, 2))", X),
    ("x.flatten()", SAME, X),
    ("torch.flatten(x, 1)", SAME, {"x": (2, 3, 2)}),
    ("x.squeeze()", SAME, {"x": (2, 1, 3, 1)}),
    ("torch.squeeze(x, 1)", SAME, {"x": (2, 1, 3)}),
    ("x.unsqueeze(0)", SAME, X),
    ("torch.unsqueeze(x, -1)", SAME, X),
    ("np.expand_dims(x, 1)", "torch.unsqueeze(x, 1)", X),
    ("x.expand(4, 3)", SAME, {"x": (1, 3)}),
    ("x.expand(2, -1, 3)", SAME, {"x": (4, 1)}),
    ("torch.broadcast_to(x, (2, 3))", SAME, {"x": (3,)}),
    *[(f"x[{key}]", SAME, {"x": (4, 3)}) for key in
      ("0", "-1", "1:", ":-1", "::2", "1:4:2", "-3:", "-9:", ":, 0", "1, 2", "..., -1", "None", ":, None", "1:3, ::2")],
    ("torch.cat([x, y])", SAME, {"x": (2, 3), "y": (1, 3)}),
    ("torch.cat((x, y), dim=1)", SAME, {"x": (2, 3), "y": (2, 2)}),
    ("np.concatenate([x, y], axis=-1)", "torch.cat([x, y], dim=-1)", {"x": (2, 3), "y": (2, 2)}),
    ("torch.cat([x, x, y])", SAME, {"x": (2,), "y": (3,)}),
    ("torch.stack([x, y])", SAME, M),
    ("torch.stack((x, y), dim=-1)", SAME, M),
    ("np.stack([x, y], axis=1)", "torch.stack([x, y], dim=1)", M),
    # where, maximum, minimum, clamp
    ("torch.where(x > y, x, y)", SAME, M),
    ("np.where(x > 1, x, 0)", "torch.where(x > 1, x, 0.0)", X),
    ("torch.maximum(x, y)", SAME, M),
    ("x.minimum(y)", SAME, M),
    ("np.maximum(x, y)", "torch.maximum(x, y)", M),
    ("torch.clamp(x, 0.5, 1)", SAME, X),
    ("x.clamp(min=0.7)", SAME, X),
    ("torch.clip(x, max=1)", SAME, X),
    ("np.clip(x, 0.5, 1)", "torch.clamp(x, 0.5, 1)", X),
    # softmax, log_softmax, mse_loss, cross_entropy with soft targets, layer_norm
    ("F.softmax(x, dim=-1)", SAME, X),
    ("torch.softmax(x, 0)", SAME, X),
    ("x.softmax(-1)", SAME, X),
    ("F.log_softmax(x, dim=1)", SAME, X),
    ("x.log_softmax(dim=0)", SAME, X),
    ("F.mse_loss(x, y)", SAME, M),
    ('F.mse_loss(x, y, reduction="sum")', SAME, M),
    ("F.cross_entropy(x, y)", SAME, M),
    ('F.cross_entropy(x, y, reduction="none")', SAME, M),
    ("F.layer_norm(x, (3,))", SAME, X),
    ("F.layer_norm(x, x.shape[1:])", SAME, {"x": (2, 3, 2)}),
    ("torch.nn.functional.layer_norm(x, [3], eps=1e-3)", SAME, X),
    # several statements, and what people paste around them
    ("h = torch.tanh(x @ w + b); h @ w2", SAME, {"x": (2, 3), "w": (3, 2), "b": (2,), "w2": (2, 1)}),
    ("x / x.norm(dim=-1, keepdim=True)", SAME, X),
    ("(x - x.mean(0)) / x.std(0)", SAME, X),
    ("F.softmax(q @ k.T / math.sqrt(3), dim=-1) @ w", SAME, {"q": (2, 3), "k": (4, 3), "w": (4, 2)}),
    ("x.sum() / x.numel()", SAME, X),
    ("x.reshape(x.shape[0], -1)", SAME, {"x": (2, 3, 2)}),
    ("x * (x > 1)", SAME, X),
]  # fmt: skip


@pytest.mark.one_in(30)
@pytest.mark.parametrize(
    ("text", "torch_text", "shapes"), SPELLINGS,
    ids=[f"{text} with {' '.join('x'.join(map(str, s)) for s in shapes.values())}" for text, _, shapes in SPELLINGS],
)  # fmt: skip
def test_a_spelling_means_what_torch_means(text: str, torch_text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    number = seed_of(text)
    generator = np.random.default_rng(number)
    inputs = {name: generator.uniform(0.4, 1.9, size=shape) for name, shape in shapes.items()}
    own = text if torch_text == SAME else torch_text
    out = torch_side.evaluate(own, {name: torch_side.tensor(array) for name, array in inputs.items()})
    weights = random_seed(out.shape, generator)
    out_by_torch, expected = torch_side.text_gradients(own, inputs, weights)
    found = symgrad.explain(text, seed=weights, check=False, **inputs)
    assert_same(out_by_torch, found.output, seed=number, what=text)
    for name, gradient in found.gradients.items():
        assert_same(expected[name], gradient.value, seed=number, what=f"{text} by {name}")


def test_hardsigmoid_of_torch_is_off_by_its_float32_sixth_and_by_nothing_else() -> None:
    """Why the table and the tests write torch's hardsigmoid out: its backward multiplies by 1/6 in float32."""
    x = torch.tensor([-4.0, -3.0, -1.5, 0.0, 2.5, 3.0, 4.0], dtype=torch.float64, requires_grad=True)
    (own,) = torch.autograd.grad(torch.nn.functional.hardsigmoid(x).sum(), x)
    (exact,) = torch.autograd.grad(TABLE["hardsigmoid"].torch(torch, x).sum(), x)
    assert own.tolist() == [float(np.float32(1 / 6)) if g else 0.0 for g in exact.tolist()]
    assert torch.equal(torch.nn.functional.hardsigmoid(x), TABLE["hardsigmoid"].torch(torch, x))


ONE, TWO = {"x": (2, 3)}, {"x": (2, 3), "y": (4, 5)}
UNFIT = [
    *[(text, ONE) for text in
      ("x.reshape(4)", "x.sum(2)", "x[2]", "x[0, 0, 0]", "x.expand(3, 3)", "x.permute(0, 0)", "F.layer_norm(x, (2,))")],
    *[(text, TWO) for text in
      ("x @ y", "torch.mm(x, y)", "x + y", "x * y[0]", "torch.cat([x, y[0]])", "torch.stack([x, y])", "torch.dot(x, y)",
       "F.mse_loss(x, y)", "torch.where(x > 0, x, y)", 'torch.einsum("ij,jk->ik", x, y)', "x.T @ y", "torch.max(x, y)")],
]  # fmt: skip


@pytest.mark.parametrize(("text", "shapes"), UNFIT)
def test_shapes_that_do_not_fit_are_shape_errors(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises((RuntimeError, IndexError)):
        torch_side.evaluate(text, {name: torch_side.tensor(np.ones(shape)) for name, shape in shapes.items()})
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text, shapes=shapes, check=False)
    assert caught.value.kind == "shape", caught.value
    assert caught.value.span is not None


NOT_READ_ALONE = {"chunk_part", "split_part"}
"""Operations whose examples need the sizes that their listing gives beside the text."""


@pytest.mark.one_in(60)
@pytest.mark.parametrize("op", tuple(operations()), ids=lambda op: op.name)
def test_every_operation_is_derived_at_sizes_that_nobody_gave(op) -> None:
    if op.name in NOT_READ_ALONE:
        with pytest.raises(SymgradError):
            symgrad.derive(op.examples[0].text)
        return
    _, found = symgrad.derive(op.examples[0].text)
    assert found


@pytest.mark.parametrize("text", ["narrow(x, 0, 1, 2)", "x[1:3]", "F.pixel_shuffle(x, 2)"])
def test_a_form_is_tried_at_sizes_that_the_text_allows(text: str) -> None:
    (derived,) = symgrad.derive(text)[1]
    assert derived.form is not None
