"""Random scripts at singular points: every loss, layer and operation where torch has a convention, or no number at all.

A script is some lines that make tensors of such values, some that compute, one to three calls of backward or grad, and
prints of what they left. Comes in: a number. Goes out: the text, the same for the same number.
"""

from __future__ import annotations

from random import Random

VALUES = (
    "0.0",
    "-0.0",
    "1.0",
    "-1.0",
    "2.0",
    "0.5",
    "-3.0",
    "inf",
    "-inf",
    "nan",
    "1e30",
    "1e-30",
    "6.0",
    "-20.0",
    "90.0",
)
FINITE = ("0.0", "0.0", "-0.0", "1.0", "-1.0", "2.0", "0.5", "-3.0", "1.0", "6.0")
STEPS = (
    "torch.relu({})", "F.relu6({})", "{}.abs()", "torch.sqrt({})", "{} ** 0.5", "{} ** 0", "{} ** -1", "torch.log({})",
    "torch.log1p({})", "1 / {}", "{} / {}", "torch.norm({})", "torch.linalg.vector_norm({}, dim=-1)", "{}.norm(dim=0)",
    "F.normalize({}, dim=-1)", "torch.where({} > 0, {}, torch.sqrt({}))", "torch.where({0} != 0, 1 / {0}, {0})",
    "{}.clamp(0, 1)", "{}.clamp(min=0)", "torch.maximum({}, {})", "{}.amax(-1)", "{}.max()", "{}.min(-1).values",
    "{}.median()", "{}.std()", "{}.var(-1)", "{}.std(0)", "{}.prod()", "{}.prod(-1)", "torch.softmax({}, -1)",
    "F.log_softmax({}, -1)", "torch.logsumexp({}, -1)", "torch.sigmoid({})", "F.logsigmoid({})", "F.softplus({})",
    "torch.tanh({})", "torch.atan2({}, {})", "torch.hypot({}, {})", "torch.xlogy({}, {})", "{}.sign()", "{}.floor()",
    "torch.asin({})", "torch.acos({})", "torch.acosh({})", "torch.logit({})", "torch.special.entr({})", "torch.sinc({})",
    "{}.cumprod(-1)", "{}.cumsum(0)", "torch.cummax({}, -1).values", "{}.sort(-1).values", "{}.topk(2, -1).values",
    "F.layer_norm({}, {0}.shape[-1:])", "F.batch_norm({}, None, None, training=True)", "F.gelu({})", "F.silu({})",
    "F.elu({})", "F.leaky_relu({})", "F.hardswish({})", "F.hardtanh({})", "F.softshrink({})", "F.hardshrink({})",
    "{} * 0", "{} - {0}", "{} * {}", "{} + {}", "torch.nan_to_num({})", "{}[:0]", "{}[..., :0].sum()", "{}.mean()",
    "{}.nanmean()", "{}.nansum()", "torch.cdist({}, {})", "F.cosine_similarity({}, {}, dim=-1)",
    "F.pairwise_distance({}, {})", "torch.frac({})", "torch.remainder({}, {})", "torch.fmod({}, {})",
    "torch.lerp({}, {}, 0.0)", "{}.detach() * {}", "torch.rsqrt({})", "{} ** {}", "torch.erfinv({})", "torch.lgamma({})",
    "F.dropout({}, 0.5)", "F.max_pool1d({}, 2)", "torch.quantile({}, 0.5)", "{}.view(-1)", "{}.T", "torch.exp({})",
    "{}[{}[..., 0] > 0]", "{}.masked_fill({} == 0, 0)", "torch.special.i0e({})", "F.threshold({}, 0, 0)",
    "torch.linalg.norm({})", "torch.linalg.matrix_norm({})", "torch.cov({})", "torch.corrcoef({})", "F.glu({}, -1)",
    "torch.nn.utils.clip_grad_norm_([{}], 1.0)",
)  # fmt: skip
LOSSES = (
    "F.mse_loss({}, {})", "F.l1_loss({}, {})", "F.smooth_l1_loss({}, {})", "F.huber_loss({}, {})",
    "F.cross_entropy({}, torch.full(({0}.shape[0],), -100))", "F.cross_entropy({}, torch.zeros({0}.shape[0], dtype=torch.long))",
    "F.cross_entropy({}, {}.softmax(-1))", "F.cross_entropy({}, torch.zeros({0}.shape[0], dtype=torch.long), label_smoothing=0.1)",
    "F.nll_loss({}, torch.zeros({0}.shape[0], dtype=torch.long), weight=torch.zeros({0}.shape[-1]))",
    "F.binary_cross_entropy(torch.sigmoid({}), {}.clamp(0, 1))", "F.binary_cross_entropy({}.clamp(0, 1), ({} > 0).to({}.dtype))",
    "F.binary_cross_entropy_with_logits({}, ({} > 0).to({}.dtype))", "F.kl_div({}, {}, reduction='batchmean')",
    "F.kl_div(F.log_softmax({}, -1), torch.softmax({}, -1), reduction='sum')", "F.poisson_nll_loss({}, {}.abs(), full=True)",
    "F.gaussian_nll_loss({}, {}, {}.abs())", "F.hinge_embedding_loss({}, {}.sign())", "F.soft_margin_loss({}, {}.sign())",
    "F.margin_ranking_loss({}, {}, {}.sign())", "F.triplet_margin_loss({}, {}, {})", "F.cosine_embedding_loss({}, {}, torch.ones({0}.shape[0]))",
    "F.multilabel_soft_margin_loss({}, ({} > 0).to({}.dtype))", "F.multi_margin_loss({}, torch.zeros({0}.shape[0], dtype=torch.long))",
)  # fmt: skip
SHAPES = ((3,), (2, 3), (2, 2), (1, 3), (1,), (), (0, 3), (2, 0), (0,), (1, 1), (2, 2, 2))


def tensor(random: Random, shape: tuple[int, ...], finite: bool) -> str:
    """``torch.tensor([[0., nan, 1.]])`` as code."""
    if 0 in shape:
        return f"torch.zeros({shape})"

    def nested(sizes: tuple[int, ...]) -> str:
        if not sizes:
            word = random.choice(FINITE if finite else VALUES)
            return f"float('{word}')" if word.lstrip("-") in ("inf", "nan") else word
        return "[" + ", ".join(nested(sizes[1:]) for _ in range(sizes[0])) + "]"

    return f"torch.tensor({nested(shape)})"


def script(number: int) -> str:
    """The script of a number."""
    random = Random(number)
    shape, finite, double = random.choice(SHAPES), random.random() < 0.6, random.random() < 0.4
    dtype = ".double()" if double else ""
    lines = ["import torch", "import torch.nn.functional as F", f"torch.manual_seed({number})"]
    names = ["x", "y"]
    lines.append(f"x = {tensor(random, shape, finite)}{dtype}.requires_grad_(True)")
    lines.append(
        f"y = {tensor(random, shape, finite)}{dtype}{'.requires_grad_(True)' if random.random() < 0.6 else ''}"
    )
    if random.random() < 0.25 and len(shape) == 2:
        lines.append(f"net = torch.nn.Linear({shape[1]}, {random.choice((1, 3))}){dtype}")
        lines.append("h = net(x)")
        names.append("h")
    if random.random() < 0.3:
        lines.append("with torch.no_grad(): x *= 1")
    for number_of_step in range(random.randint(1, 4)):
        text = random.choice(LOSSES if random.random() < 0.35 else STEPS)
        names_in = [random.choice(names) for _ in range(text.count("{"))]
        text = text.replace("{0}", names_in[0])
        for name in names_in:
            text = text.replace("{}", name, 1)
        name = f"t{number_of_step}" if random.random() < 0.3 else f"a{number_of_step}"
        lines += [
            "try:",
            f"    {name} = {text}",
            "except Exception as error:",
            "    print(type(error).__name__)",
            f"    {name} = x",
        ]
        names.append(name)
    out = random.choice(names[2:])
    how = random.random()
    if how < 0.55:
        ends = [f"{out}.sum().backward()"]
    elif how < 0.7:
        ends = [f"{out}.backward(torch.full_like({out}, {random.choice(('0.0', '1.0', '-2.0'))}))"]
    elif how < 0.8:
        ends = [f"{out}.mean().backward()", "(x * x).sum().backward()"]
    elif how < 0.9:
        ends = [f"print(torch.autograd.grad({out}.sum(), x, allow_unused=True))"]
    else:
        ends = [f"g, = torch.autograd.grad({out}.sum(), x, create_graph=True)", "(g * g).sum().backward()"]
    for end in ends:
        lines += [
            "try:",
            f"    {end}",
            "except Exception as error:",
            "    print(type(error).__name__, str(error)[:80])",
        ]
    lines += ["print(x.grad, y.grad)"]
    return "\n".join(lines) + "\n"
