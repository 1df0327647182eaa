"""Activations: out[i] = f(x[i]), most of them in pieces.

Where two pieces meet, the bracket says which of them gives the derivative: the one that torch's backward uses
there, tested at every listed kink.
"""

from __future__ import annotations

import sympy as sp

from symgrad.entries.equations import F, op
from symgrad.entries.spec import no_alignment
from symgrad.errors import ShapeError
from symgrad.shapes import Shape, Sizes

# a table: one operation, one row
# fmt: off
op("leaky_relu(x, negative_slope=0.01)", "out = x·[x > 0] + negative_slope·x·(1 − [x > 0])",
   "x[i] where x[i] > 0, negative_slope·x[i] elsewhere", F, more=("F.leaky_relu(x, 0.2) with x:3",))
op("rrelu(x, lower=0.125, upper=0.3333333333333333, training: unsupported=False)", "out = x·[x > 0] + (lower + upper)/2·x·(1 − [x > 0])",
   "leaky_relu with the slope halfway between lower and upper; in training, where torch draws it, this is not it",
   ("F.{}", "torch.{}"), examples=("F.rrelu(x)", "F.rrelu(x, 0.1, 0.3) with x:3"))
op("elu(x, alpha=1.0)", "out = x·[x > 0] + alpha·expm1(x·(1 − [x > 0]))·(1 − [x > 0])",
   "x[i] where x[i] > 0, alpha·(exp(x[i]) − 1) elsewhere", F, more=("F.elu(x, 0.5) with x:3",))
op("celu(x, alpha=1.0)", "out = x·[x > 0] + alpha·expm1(x·(1 − [x > 0])/alpha)·(1 − [x > 0])",
   "x[i] where x[i] > 0, alpha·(exp(x[i]/alpha) − 1) elsewhere", F, "torch.celu", more=("F.celu(x, 0.5) with x:3",))
op("selu(x)", "out = 1.0507009873554805·(x·[x > 0] + 1.6732632423543772·expm1(x·(1 − [x > 0]))·(1 − [x > 0]))",
   "elu with the numbers that keep mean 0 and variance 1", F, "torch.selu")
op("hardtanh(x, min_val=-1.0, max_val=1.0)",
   "out = x·[x > min_val]·[x < max_val] + min_val·[x ≤ min_val] + max_val·[x ≥ max_val]",
   "x[i] kept between min_val and max_val; the derivative at a bound is 0", F,
   variants={"not min_val<max_val": "out = x·[x > min_val]·[x < max_val] + min_val·[x ≤ min_val] + max_val·[x > min_val]"}, more=("F.hardtanh(x, -0.5, 1.5) with x:3",))
op("relu6(x)", "out = x·[x > 0]·[x < 6] + 6·[x ≥ 6]", "x[i] kept between 0 and 6; the derivative at a bound is 0", F)
op("hardsigmoid(x)", "out = (x/6 + 1/2)·[x > −3]·[x < 3] + [x ≥ 3]",
   "x[i]/6 + ½ kept between 0 and 1; compared with relu6(x + 3)/6, since torch's own backward rounds 1/6 to float32", F, torch=lambda torch, x: torch.nn.functional.relu6(x + 3) / 6)
op("hardswish(x)", "out = x·(x + 3)/6·[x > −3]·[x < 3] + x·[x ≥ 3]", "x[i]·(x[i]/6 + ½ kept between 0 and 1)", F)
op("mish(x)", "out = x·tanh(softplus(x))", "x[i] times tanh of log(1 + exp(x[i])), a smooth relu", F, expands="x * tanh(softplus(x))")
op("logsigmoid(x)", "out = −softplus(−x)", "log σ(x[i]), σ the logistic function", F, "aten.log_sigmoid", expands="log(sigmoid(x))",
   arrays="x: -np.logaddexp(0, -x)")
op("softsign(x)", "out = x / (1 + |x|)", "x shrunk into ±1", home=F, arrays="x: x / (1 + np.abs(x))")
op("tanhshrink(x)", "out = x − tanh(x)", "how far x[i] is from its hyperbolic tangent", home=F, expands="x - tanh(x)", arrays="x: x - np.tanh(x)")
op("softshrink(x, lambd: float >= 0=0.5)", "out = (x − lambd)·[x > lambd] + (x + lambd)·[x < −lambd]",
   "x[i] moved towards 0 by lambd, 0 between ±lambd", F)
op("hardshrink(x, lambd=0.5)", "out = x·[x > lambd] + x·[x < −lambd]", "x[i] outside of ±lambd, 0 between", F, "torch.hardshrink Tensor.hardshrink",
   variants=lambda shapes, lambd: "out = x" if lambd < 0 else "out = x·[x > lambd] + x·[x < −lambd]")
op("threshold(x, threshold: float, value: float)", "out = x·[x > threshold] + value·(1 − [x > threshold])",
   "x[i] above the threshold, value elsewhere", ("F.{}", "torch.{}", "aten.{}"), kinks=0.5,
   examples=("F.threshold(x, 0.5, -1.0)",))
# fmt: on


def prelu_shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """One slope for all, or one for each channel (axis 1)."""
    x, weight = shapes
    if len(weight) > 1:
        raise ShapeError(f"the weight of prelu is a vector, not a tensor with {len(weight)} axes")
    if weight and sizes.find(weight[0]) != 1:
        sizes.unify(weight[0], x[1] if len(x) > 1 else sp.Integer(1))
    return x


PRELU = "out[i] = x[i]·[x[i] > 0] + weight·x[i]·(1 − [x[i] > 0])"
op("prelu(x, weight)", PRELU, "x[i] where x[i] > 0, elsewhere x[i] times one slope for all, or that of its channel (axis 1)",
   ("F.{}", "torch.{}", "Tensor.{}", "aten.{}"), "aten._prelu_kernel", along="all but channels",
   variants=lambda shapes: PRELU.replace("weight", "weight[0]") if shapes[1] == (1,) else PRELU,  # one slope for all is the first

   shape=prelu_shape, align=no_alignment, kinks=0,
   ranks={"x": (2, 3), "weight": (1,)}, examples=("F.prelu(x, weight) with x:3x2 weight:2", "F.prelu(x, weight) with x:3 weight:1"),
   result_dtype="real")  # fmt: skip


op("glu(x, dim: int=-1)", "out[i<size(x, 0)/2] = x[i]·sigmoid(x[i + size(x, 0)/2])", "the first half along dim,"
   " times the logistic function of the second", F, axes="dim", examples=("F.glu(x) with x:2x4", "F.glu(x, 0) with x:4x2"))  # fmt: skip
