"""torch.nn's modules, captured: derived, and the gradients by every input and parameter are those of torch.autograd."""

from __future__ import annotations

import copy
from functools import cache

import pytest
import torch

from symgrad import capture
from tests.compare import assert_same
from tests.contract.module_zoo import modules
from tests.nights import numbers

DERIVED_NOWHERE = {"CrossMapLRN2d": "apply", "Embedding maxnorm": "torch's rule, not the derivative"}
"""Modules with a black box, and what is said of it."""
QUICK = (
    "Bilinear", "LocalResponseNorm", "RMSNorm eps", "PReLU n", "AdaptiveLogSoftmaxWithLoss", "FeatureAlphaDropout",
    "EmbeddingBag off", "MHA opts", "MHA kpm", "EncoderLayer True", "MaxUnpool2d", "FractionalMaxPool2d r",
    "InstanceNorm1d", "weight_norm p", "spectral_norm p", "orthogonal cayley", "TripletMargin mean", "_grouped_mm",
    "Embedding maxnorm", "CrossMapLRN2d",
)  # fmt: skip
"""Those that other tests have not."""
TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-3}
TYPES = torch.float64, torch.float32
SINGLE = {"Hardsigmoid {}": 1e-7}
"""torch multiplies by 1/6 in single precision there."""


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else []
    return [t for part in parts for t in tensors_of(part)]


def changed(value, change):
    if isinstance(value, tuple):
        return tuple(changed(part, change) for part in value)
    return change(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def check(name, net, inputs, dtype, train):
    """Captured and pulled back, with the random numbers that torch's own run draws."""
    net = copy.deepcopy(net)
    net(*inputs)  # what is lazy takes its shape
    net = net.to(dtype).train(train)
    given = changed(inputs, lambda t: t.detach().to(dtype, copy=True))
    leaves = []

    def leaf(tensor):
        leaves.append(tensor.clone().requires_grad_())
        return leaves[-1].clone()

    own, arguments = copy.deepcopy(net), changed(given, leaf)
    torch.manual_seed(1)
    outputs = tensors_of(own(*arguments))
    seeds = [torch.linspace(-1, 2, o.numel(), dtype=torch.float64).reshape(o.shape).to(o.dtype) for o in outputs]
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o.requires_grad]
    parameters = dict(own.named_parameters())
    wanted = [*leaves, *parameters.values()]
    truth = torch.autograd.grad([o for o, _ in pairs], wanted, [s for _, s in pairs], allow_unused=True)
    torch.manual_seed(1)
    program = capture(net, *given)
    found = program.pullback(seeds if len(seeds) > 1 else seeds[0])
    assert set(parameters) <= set(found)
    names = [*(n for n in found if n not in parameters), *parameters]
    for one, expected, value in zip(names, truth, wanted, strict=True):
        right = torch.zeros_like(value) if expected is None else expected
        assert_same(right, found[one], tolerance=max(TOLERANCE[dtype], SINGLE.get(name, 0)), what=f"{name}, {one}")
    said = [box.reason or box.spelling for box in program.black_boxes]
    assert bool(said) == (name in DERIVED_NOWHERE), said
    assert all(DERIVED_NOWHERE[name] in f"{box.spelling} {box.reason}" for box in program.black_boxes)


@cache
def zoo():
    torch.manual_seed(0)
    return {name: (net, inputs) for name, net, inputs in modules()}


@pytest.mark.one_in(8, alone=4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
def test_a_module_is_derived(name):
    dtype = torch.float32 if name == "_grouped_mm" else torch.float64
    check(name, *zoo()[name], dtype, train=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", numbers(range(2), range(2, 4)))
def test_every_module_is_derived(part):
    """While it trains and not, in double and in single precision by turns; at night the other way round."""
    for number, (name, (net, inputs)) in enumerate(zoo().items()):
        dtype, train = TYPES[(number + part // 2) % 2], part % 2 == 0
        if (name, dtype) == ("_grouped_mm", torch.float64):
            continue  # torch has it in single precision and below
        if name.startswith("CTC") and dtype is torch.float64:
            continue  # its probabilities sum up to 1 in single precision only
        check(name, net, inputs, dtype, train)
