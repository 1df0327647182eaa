import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 2))
x = torch.randn(2, 3, requires_grad=True)
for kind in (False, True):
    checkpoint(net, x, use_reentrant=kind).sum().backward()
    print(kind, x.grad)
checkpoint_sequential(net, 2, x, use_reentrant=False).sum().backward()
print(x.grad, [p.grad.sum().item() for p in net.parameters()])
