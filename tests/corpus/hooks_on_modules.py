import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
net[0].register_forward_hook(lambda m, i, o: print("forward", tuple(o.shape)))
net[0].register_forward_pre_hook(lambda m, i: print("before", len(i)))
net[2].register_full_backward_hook(lambda m, gi, go: print("backward", [tuple(g.shape) for g in go]))
net[2].register_full_backward_pre_hook(lambda m, go: print("before backward"))
net(torch.ones(2, 2)).sum().backward()
print([p.grad.sum().item() for p in net.parameters()])
