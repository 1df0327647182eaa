"""torch.compile: nothing of the observer is traced, guarded on, or warned about."""

import torch

torch.manual_seed(0)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return 2 * x * v


@torch.compile(backend="eager", fullgraph=True)
def squares(x):
    return Square.apply(x).sum()


@torch.compile(backend="aot_eager")
def wave(x, w):
    return (x * w).sin().sum()


@torch.compile(backend="eager")
def step(w, x):
    loss = (w * x).sum()
    loss.backward()
    (g,) = torch.autograd.grad((w**3).sum(), w)
    return loss, g


x = torch.randn(3, requires_grad=True)
squares(x).backward()
for n in range(3):
    wave(torch.ones(3) * n, x).backward()
print(x.grad)
w = torch.randn(3, requires_grad=True)
print(step(w, torch.ones(3)), w.grad)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
net.compile(backend="aot_eager")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    loss = net(torch.ones(2, 3)).pow(2).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
(x * 2).sum().backward()
print(x.grad)
counted = torch._dynamo.utils.counters
print(dict(counted["stats"]), sorted(counted["graph_break"]))
torch._dynamo.reset()
counted.clear()
