import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

x = torch.randn(2, 4)
net = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
traced = torch.jit.trace(lambda a: (a * 2).relu(), x)
symbolic = torch.fx.symbolic_trace(net)
print(traced.graph, symbolic.code, make_fx(lambda a: a.sin() * 2)(x).code)
z = x.clone().requires_grad_()
traced(z).sum().backward()
symbolic(z).sum().backward()
print(z.grad.sum())
