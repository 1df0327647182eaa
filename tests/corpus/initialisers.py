import torch
from torch import nn

for name in (
    "uniform_",
    "normal_",
    "ones_",
    "zeros_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "trunc_normal_",
    "orthogonal_",
    "eye_",
):
    layer = nn.Linear(3, 4)
    getattr(nn.init, name)(layer.weight)
    layer(torch.ones(1, 3)).sum().backward()
    print(name, layer.weight.sum().item(), layer.weight.grad.sum().item(), layer.weight._version)
conv = nn.Conv1d(3, 3, 3)
nn.init.dirac_(conv.weight)
nn.init.sparse_(nn.Linear(3, 4).weight, 0.5)
print(conv.weight.sum().item())
