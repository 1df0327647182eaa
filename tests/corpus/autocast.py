import torch
from torch import nn

net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
x = torch.randn(8, 16)
with torch.autocast("cpu", dtype=torch.bfloat16):
    h = net(x)
    loss = h.pow(2).mean()
loss.backward()
print(h.dtype, loss.item(), net[0].weight.grad.norm().item())
half = nn.Linear(4, 2).to(torch.bfloat16)
half(torch.ones(1, 4, dtype=torch.bfloat16)).sum().backward()
print(half.weight.grad)
