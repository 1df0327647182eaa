import torch
from torch.autograd.function import once_differentiable


class Split(torch.autograd.Function):
    count = 0

    @staticmethod
    def forward(ctx, x, scale, y):
        Split.count += 1
        ctx.scale = scale
        ctx.set_materialize_grads(False)
        return x * scale, y + 1, torch.tensor([1, 2])

    @staticmethod
    @once_differentiable
    def backward(ctx, a, b, c):
        Split.count += 100
        return None if a is None else a * ctx.scale, None, b


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx, v):
        return v


x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
a, b, c = Split.apply(x, 3, y)
(a * 2 + b).sum().backward()
print(x.grad, y.grad, Split.count)
a, _, _ = Split.apply(x, 3, y)
a.sum().backward()
z = x * 2
Add.apply(z).sum().backward()
print(x.grad, y.grad, Split.count)
