import traceback

import torch
import torch.nn.functional as F

x = torch.ones(2, requires_grad=True)


class M(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 2

    @staticmethod
    def backward(ctx, v):
        raise ValueError("mine")


def hook(g):
    raise KeyError("hook")


y = x * 2
y.register_hook(hook)
for work in (
    lambda: (x * 2).backward(),
    lambda: torch.mm(x, x),
    lambda: F.mse_loss(x, torch.ones(3)),
    lambda: x.view(5),
    lambda: M.apply(x).sum().backward(),
    lambda: y.sum().backward(),
    lambda: torch.autograd.grad(x.sum(), torch.ones(2, requires_grad=True)),
    lambda: torch.autograd.grad(1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    lambda: x.backward(nothing=1),
    lambda: F.multi_head_attention_forward(1),
    lambda: x + "a",
):
    try:
        work()
    except Exception as error:
        print(traceback.format_exc())
        print(type(error), error)
