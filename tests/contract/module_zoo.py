"""Every layer and loss of torch.nn, small, with several options: (name, module, inputs).

``tests/contract/test_module_zoo.py`` captures them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Entry = tuple[str, nn.Module, tuple[Any, ...]]
draw = torch.randn


def whole(*shape: int) -> torch.Tensor:
    """Classes."""
    return torch.randint(0, 4, shape)


def inside(*shape: int) -> torch.Tensor:
    """Numbers between 0 and 1, away from both."""
    return torch.rand(*shape) * 0.8 + 0.1


class Unpooled(nn.Module):
    """Maxima, and back to where they stood."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.pool, self.back = getattr(nn, f"MaxPool{d}d")(2, return_indices=True), getattr(nn, f"MaxUnpool{d}d")(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.back(*self.pool(x))


class Attention(nn.Module):
    """A sequence that attends to itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer, self.options = nn.MultiheadAttention(4, 2, batch_first=True), options

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x, x, x, **self.options)


class Called(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def modules() -> Iterator[Entry]:
    """Every layer and loss of torch.nn, with several options each."""
    yield "Linear", nn.Linear(3, 2), (draw(2, 3),)
    yield "Linear nobias", nn.Linear(3, 2, bias=False), (draw(3),)
    yield "Bilinear", nn.Bilinear(3, 2, 4), (draw(2, 3), draw(2, 2))
    yield "Identity", nn.Identity(), (draw(2, 3),)
    yield "LazyLinear", nn.LazyLinear(2), (draw(2, 3),)
    for d in (1, 2, 3):
        sp = [7, 6, 5][:d]
        conv, turned = getattr(nn, f"Conv{d}d"), getattr(nn, f"ConvTranspose{d}d")
        yield f"Conv{d}d", conv(2, 4, 3), (draw(2, 2, *sp),)
        yield f"Conv{d}d opts", conv(2, 4, 2, stride=2, padding=1, dilation=2, groups=2, bias=False), (draw(2, 2, *sp),)
        for pm in ("reflect", "replicate", "circular", "zeros"):
            yield f"Conv{d}d {pm}", conv(2, 2, 3, padding=1, padding_mode=pm), (draw(1, 2, *sp),)
        yield f"Conv{d}d same", conv(2, 2, 3, padding="same"), (draw(2, *sp),)
        yield f"ConvT{d}d", turned(2, 4, 3), (draw(2, 2, *sp),)
        yield (
            f"ConvT{d}d opts",
            turned(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2, dilation=2),
            (draw(1, 2, *sp),),
        )
        yield f"LazyConv{d}d", getattr(nn, f"LazyConv{d}d")(2, 2), (draw(1, 2, *sp),)
        yield f"MaxPool{d}d", getattr(nn, f"MaxPool{d}d")(2), (draw(2, 2, *sp),)
        yield (
            f"MaxPool{d}d opts",
            getattr(nn, f"MaxPool{d}d")(3, stride=2, padding=1, dilation=1, ceil_mode=True, return_indices=True),
            (draw(2, 2, *sp),),
        )
        yield (
            f"AvgPool{d}d",
            getattr(nn, f"AvgPool{d}d")(2, stride=1, padding=1, count_include_pad=False, ceil_mode=True),
            (draw(2, 2, *sp),),
        )
        yield f"LPPool{d}d", getattr(nn, f"LPPool{d}d")(2, 2), (draw(2, 2, *sp).abs(),)
        yield f"LPPool{d}d 3", getattr(nn, f"LPPool{d}d")(3, 2, ceil_mode=True), (draw(2, 2, *sp).abs(),)
        yield f"AdaptMax{d}d", getattr(nn, f"AdaptiveMaxPool{d}d")(2), (draw(2, 2, *sp),)
        yield f"AdaptMax{d}d ri", getattr(nn, f"AdaptiveMaxPool{d}d")(3, return_indices=True), (draw(2, 2, *sp),)
        yield f"AdaptAvg{d}d", getattr(nn, f"AdaptiveAvgPool{d}d")(3), (draw(2, 2, *sp),)
        for P in ("ReflectionPad", "ReplicationPad", "CircularPad", "ZeroPad"):
            yield f"{P}{d}d", getattr(nn, f"{P}{d}d")(1), (draw(1, 2, *sp),)
        yield f"ConstantPad{d}d", getattr(nn, f"ConstantPad{d}d")(1, 2.5), (draw(1, 2, *sp),)
        yield f"ConstantPad{d}d neg", getattr(nn, f"ConstantPad{d}d")((-1, 2) * d, 2.5), (draw(1, 2, *sp),)
        yield f"BatchNorm{d}d", getattr(nn, f"BatchNorm{d}d")(2), (draw(3, 2, *sp),)
        yield (
            f"BatchNorm{d}d opts",
            getattr(nn, f"BatchNorm{d}d")(2, eps=1e-3, momentum=None, affine=False, track_running_stats=False),
            (draw(3, 2, *sp),),
        )
        yield (
            f"InstanceNorm{d}d",
            getattr(nn, f"InstanceNorm{d}d")(2, affine=True, track_running_stats=True),
            (draw(3, 2, *sp),),
        )
        yield f"InstanceNorm{d}d plain", getattr(nn, f"InstanceNorm{d}d")(2), (draw(2, *sp),)
        yield f"Dropout{d}d", getattr(nn, f"Dropout{d}d")(0.4), (draw(3, 2, *sp),)
        yield f"MaxUnpool{d}d", Unpooled(d), (draw(1, 2, *[4] * d),)
    yield "BatchNorm1d 2d", nn.BatchNorm1d(3), (draw(4, 3),)
    yield "SyncBatchNorm", nn.SyncBatchNorm(3), (draw(4, 3, 2),)
    for d in (2, 3):
        yield f"FractionalMaxPool{d}d", getattr(nn, f"FractionalMaxPool{d}d")(2, output_size=2), (draw(1, 2, *[5] * d),)
        yield (
            f"FractionalMaxPool{d}d r",
            getattr(nn, f"FractionalMaxPool{d}d")(2, output_ratio=0.5, return_indices=True),
            (draw(1, 2, *[5] * d),),
        )
    yield "LayerNorm", nn.LayerNorm((3, 4)), (draw(2, 3, 4),)
    yield "LayerNorm nob", nn.LayerNorm(4, bias=False), (draw(2, 3, 4),)
    yield "LayerNorm noaff", nn.LayerNorm(4, elementwise_affine=False), (draw(2, 3, 4),)
    yield "RMSNorm", nn.RMSNorm(4), (draw(2, 3, 4),)
    yield "RMSNorm eps", nn.RMSNorm((3, 4), eps=1e-2), (draw(2, 3, 4),)
    yield "GroupNorm", nn.GroupNorm(2, 4), (draw(2, 4, 3),)
    yield "GroupNorm na", nn.GroupNorm(4, 4, affine=False), (draw(2, 4, 3, 2),)
    yield "LocalResponseNorm", nn.LocalResponseNorm(2), (draw(2, 4, 3),)
    yield "CrossMapLRN2d", nn.CrossMapLRN2d(2), (draw(2, 4, 3, 3),)
    acts = {
        "ReLU": [{}, {"inplace": True}],
        "ReLU6": [{}],
        "ELU": [{}, {"alpha": 2.0}],
        "SELU": [{}],
        "CELU": [{}, {"alpha": 0.5}],
        "GELU": [{}, {"approximate": "tanh"}],
        "LeakyReLU": [{}, {"negative_slope": 0.3}],
        "PReLU": [{}],
        "RReLU": [{}],
        "Hardshrink": [{}],
        "Hardsigmoid": [{}],
        "Hardswish": [{}],
        "Hardtanh": [{}, {"min_val": -2, "max_val": 0.5}],
        "LogSigmoid": [{}],
        "Mish": [{}],
        "SiLU": [{}],
        "Sigmoid": [{}],
        "Softplus": [{}, {"beta": 3, "threshold": 1}],
        "Softshrink": [{}],
        "Softsign": [{}],
        "Tanh": [{}],
        "Tanhshrink": [{}],
        "Softmax": [{"dim": 1}],
        "Softmin": [{"dim": 0}],
        "LogSoftmax": [{"dim": -1}],
        "GLU": [{}],
    }
    for a, os in acts.items():
        for o in os:
            yield f"{a} {o}", nn.Sequential(nn.Linear(4, 4), getattr(nn, a)(**o)), (draw(3, 4),)
    yield "Threshold", nn.Threshold(0.1, 2.0), (draw(3, 4),)
    yield "PReLU n", nn.PReLU(4), (draw(3, 4, 2),)
    yield "Softmax2d", nn.Softmax2d(), (draw(2, 3, 4, 2),)
    yield (
        "AdaptiveLogSoftmaxWithLoss",
        nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6]),
        (draw(5, 4), torch.tensor([0, 4, 7, 9, 2])),
    )
    yield "Dropout", nn.Dropout(0.3), (draw(3, 4),)
    yield "AlphaDropout", nn.AlphaDropout(0.3), (draw(3, 4),)
    yield "FeatureAlphaDropout", nn.FeatureAlphaDropout(0.3), (draw(3, 4, 2),)
    yield "Embedding", nn.Embedding(5, 3, padding_idx=1), (whole(2, 3),)
    yield "Embedding maxnorm", nn.Embedding(5, 3, max_norm=1.0, scale_grad_by_freq=True), (whole(2, 3),)
    for m in ("sum", "mean", "max"):
        yield f"EmbeddingBag {m}", nn.EmbeddingBag(5, 3, mode=m, padding_idx=2), (whole(4, 3),)
    yield (
        "EmbeddingBag off",
        nn.EmbeddingBag(5, 3, mode="sum", include_last_offset=True),
        (whole(6), torch.tensor([0, 2, 6])),
    )
    for c in (nn.LSTM, nn.GRU, nn.RNN):
        yield f"{c.__name__}", c(2, 3), (draw(3, 2, 2),)
        yield (
            f"{c.__name__} big",
            c(2, 3, num_layers=2, bidirectional=True, batch_first=True, bias=False, dropout=0.2),
            (draw(2, 3, 2),),
        )
        yield f"{c.__name__} unb", c(2, 3), (draw(3, 2),)
        yield f"{c.__name__}Cell", getattr(nn, c.__name__ + "Cell")(2, 3), (draw(2, 2),)
    yield "LSTM proj", nn.LSTM(2, 3, proj_size=2), (draw(3, 2, 2),)
    yield "LSTM h0", nn.LSTM(2, 3), (draw(3, 2, 2), (draw(1, 2, 3), draw(1, 2, 3)))
    yield "GRU h0", nn.GRU(2, 3), (draw(3, 2, 2), draw(1, 2, 3))
    yield "RNN relu", nn.RNN(2, 3, nonlinearity="relu"), (draw(3, 2, 2),)
    yield "MHA", nn.MultiheadAttention(4, 2), (draw(3, 2, 4), draw(3, 2, 4), draw(3, 2, 4))
    yield (
        "MHA bf",
        nn.MultiheadAttention(4, 2, batch_first=True, kdim=3, vdim=2, dropout=0.1),
        (draw(2, 3, 4), draw(2, 5, 3), draw(2, 5, 2)),
    )
    yield (
        "MHA opts",
        nn.MultiheadAttention(4, 2, bias=False, add_bias_kv=True, add_zero_attn=True),
        (draw(3, 4), draw(3, 4), draw(3, 4)),
    )
    yield "MHA self", Attention(), (draw(2, 3, 4),)
    yield "MHA nw", Attention(need_weights=False), (draw(2, 3, 4),)
    yield (
        "MHA mask",
        Attention(attn_mask=torch.triu(torch.ones(3, 3, dtype=torch.bool), 1), need_weights=False),
        (draw(2, 3, 4),),
    )
    yield (
        "MHA kpm",
        Attention(
            key_padding_mask=torch.tensor([[False, False, True], [False, False, False]]), average_attn_weights=False
        ),
        (draw(2, 3, 4),),
    )
    for nf in (True, False):
        yield (
            f"EncoderLayer {nf}",
            nn.TransformerEncoderLayer(4, 2, 6, norm_first=nf, batch_first=True, dropout=0.1),
            (draw(2, 3, 4),),
        )
        yield (
            f"DecoderLayer {nf}",
            nn.TransformerDecoderLayer(4, 2, 6, norm_first=nf, activation="gelu"),
            (draw(3, 2, 4), draw(4, 2, 4)),
        )
    yield (
        "Encoder",
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, batch_first=True), 2, norm=nn.LayerNorm(4)),
        (draw(2, 3, 4),),
    )
    yield "Transformer", nn.Transformer(4, 2, 1, 1, 6), (draw(3, 2, 4), draw(4, 2, 4))
    yield "CosineSimilarity", nn.CosineSimilarity(), (draw(2, 3), draw(2, 3))
    yield "PairwiseDistance", nn.PairwiseDistance(p=1.5, keepdim=True), (draw(2, 3), draw(2, 3))
    yield "Flatten", nn.Flatten(), (draw(2, 3, 2),)
    yield "Unflatten", nn.Unflatten(1, (2, 2)), (draw(2, 4),)
    yield "Fold", nn.Fold((4, 4), 2), (draw(1, 8, 9),)
    yield "Unfold", nn.Unfold(2, padding=1, stride=2), (draw(1, 2, 4, 4),)
    yield "PixelShuffle", nn.PixelShuffle(2), (draw(1, 4, 2, 2),)
    yield "PixelUnshuffle", nn.PixelUnshuffle(2), (draw(1, 1, 4, 4),)
    yield "ChannelShuffle", nn.ChannelShuffle(2), (draw(1, 4, 2, 2),)
    for m, d in (
        ("nearest", 1),
        ("linear", 1),
        ("bilinear", 2),
        ("bicubic", 2),
        ("trilinear", 3),
        ("nearest-exact", 2),
    ):
        yield f"Upsample {m}", nn.Upsample(scale_factor=2, mode=m), (draw(1, 2, *[3] * d),)
    yield "Upsample size", nn.Upsample(size=(5, 4), mode="bilinear", align_corners=True), (draw(1, 2, 3, 3),)
    yield "UpsamplingNearest2d", nn.UpsamplingNearest2d(scale_factor=2), (draw(1, 2, 3, 3),)
    yield "UpsamplingBilinear2d", nn.UpsamplingBilinear2d(scale_factor=2), (draw(1, 2, 3, 3),)
    for red in ("mean", "sum", "none"):
        yield f"L1 {red}", nn.L1Loss(reduction=red), (draw(2, 3), draw(2, 3))
        yield f"MSE {red}", nn.MSELoss(reduction=red), (draw(2, 3), draw(2, 3))
        yield (
            f"CE {red}",
            nn.CrossEntropyLoss(reduction=red, label_smoothing=0.1, weight=torch.tensor([1.0, 2, 0.5, 1])),
            (draw(3, 4), whole(3)),
        )
        yield f"CE ign {red}", nn.CrossEntropyLoss(reduction=red, ignore_index=1), (draw(3, 4, 2), whole(3, 2))
        yield f"CE prob {red}", nn.CrossEntropyLoss(reduction=red), (draw(3, 4), draw(3, 4).softmax(-1))
        yield f"NLL {red}", nn.NLLLoss(reduction=red, ignore_index=0), (draw(3, 4), whole(3))
        yield f"NLL2d {red}", nn.NLLLoss2d(reduction=red), (draw(2, 4, 2, 2), whole(2, 2, 2))
        yield (
            f"PoissonNLL {red}",
            nn.PoissonNLLLoss(reduction=red, full=True, log_input=False),
            (inside(2, 3), inside(2, 3) * 5),
        )
        yield f"GaussianNLL {red}", nn.GaussianNLLLoss(reduction=red, full=True), (draw(2, 3), draw(2, 3), inside(2, 3))
        yield f"KLDiv {red}", nn.KLDivLoss(reduction=red, log_target=red == "sum"), (draw(2, 3), inside(2, 3))
        yield f"BCE {red}", nn.BCELoss(reduction=red, weight=inside(3)), (inside(2, 3), inside(2, 3))
        yield f"BCEL {red}", nn.BCEWithLogitsLoss(reduction=red, pos_weight=inside(3)), (draw(2, 3), inside(2, 3))
        yield (
            f"MarginRanking {red}",
            nn.MarginRankingLoss(margin=0.2, reduction=red),
            (draw(4), draw(4), torch.tensor([1.0, -1, 1, -1])),
        )
        yield f"HingeEmb {red}", nn.HingeEmbeddingLoss(reduction=red), (draw(4), torch.tensor([1.0, -1, 1, -1]))
        yield (
            f"MultiLabelMargin {red}",
            nn.MultiLabelMarginLoss(reduction=red),
            (draw(2, 4), torch.tensor([[1, 3, -1, 0], [2, -1, 0, 0]])),
        )
        yield f"Huber {red}", nn.HuberLoss(reduction=red, delta=0.5), (draw(2, 3), draw(2, 3))
        yield f"SmoothL1 {red}", nn.SmoothL1Loss(reduction=red, beta=0.5), (draw(2, 3), draw(2, 3))
        yield (
            f"MultiLabelSoftMargin {red}",
            nn.MultiLabelSoftMarginLoss(reduction=red, weight=inside(3)),
            (draw(2, 3), torch.tensor([[1.0, 0, 1], [0, 1, 1]])),
        )
        yield (
            f"CosineEmb {red}",
            nn.CosineEmbeddingLoss(reduction=red, margin=0.1),
            (draw(2, 3), draw(2, 3), torch.tensor([1.0, -1])),
        )
        yield f"MultiMargin {red}", nn.MultiMarginLoss(reduction=red, p=2, weight=inside(4)), (draw(3, 4), whole(3))
        yield (
            f"TripletMargin {red}",
            nn.TripletMarginLoss(reduction=red, swap=True, p=1.5),
            (draw(2, 3), draw(2, 3), draw(2, 3)),
        )
        yield (
            f"TripletDist {red}",
            nn.TripletMarginWithDistanceLoss(reduction=red, distance_function=nn.PairwiseDistance()),
            (draw(2, 3), draw(2, 3), draw(2, 3)),
        )
        yield (
            f"CTC {red}",
            nn.CTCLoss(reduction=red, zero_infinity=True),
            (draw(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [3, 3]]), torch.tensor([5, 4]), torch.tensor([2, 2])),
        )
    yield "weight_norm p", nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 3, 2)), (draw(2, 2, 4),)
    yield "weight_norm None", nn.utils.parametrizations.weight_norm(nn.Linear(3, 2), dim=None), (draw(2, 3),)
    yield "spectral_norm p", nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)), (draw(2, 3),)
    for om in ("matrix_exp", "cayley", "householder"):
        yield (
            f"orthogonal {om}",
            nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map=om),
            (draw(2, 3),),
        )
        yield (
            f"orthogonal tall {om}",
            nn.utils.parametrizations.orthogonal(nn.Linear(2, 4), orthogonal_map=om),
            (draw(2, 2),),
        )
    yield (
        "sdpa",
        Called(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        (draw(2, 2, 3, 4), draw(2, 2, 3, 4), draw(2, 2, 3, 4)),
    )
    yield (
        "sdpa gqa",
        Called(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)),
        (draw(2, 4, 3, 4), draw(2, 2, 3, 4), draw(2, 2, 3, 4)),
    )
    yield (
        "sdpa mask",
        Called(
            lambda q, k, v: F.scaled_dot_product_attention(
                q, k, v, attn_mask=torch.zeros(3, 3, dtype=q.dtype) - 1, dropout_p=0.2
            )
        ),
        (draw(2, 2, 3, 4), draw(2, 2, 3, 4), draw(2, 2, 3, 4)),
    )
    yield (
        "_grouped_mm",
        Called(lambda a, b: torch._grouped_mm(a, b, offs=torch.tensor([1, 3, 4], dtype=torch.int32))),
        (draw(4, 8), draw(3, 8, 8)),
    )
    yield (
        "grid_sample",
        Called(lambda x, g: F.grid_sample(x, g, mode="bicubic", padding_mode="border", align_corners=False)),
        (draw(1, 2, 4, 4), torch.rand(1, 2, 3, 2) * 2 - 1),
    )
    yield "affine_grid", Called(lambda t: F.affine_grid(t, (1, 1, 2, 3), align_corners=False)), (draw(1, 2, 3),)
