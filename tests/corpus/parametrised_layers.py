import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, parametrizations, spectral_norm, vector_to_parameters

net = nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 3)), parametrizations.spectral_norm(nn.Linear(3, 2)))
net(torch.randn(2, 3)).sum().backward()
old = spectral_norm(nn.Linear(3, 2))
old(torch.randn(2, 3)).sum().backward()
flat = parameters_to_vector(net.parameters())
vector_to_parameters(flat * 2, net.parameters())
tied = nn.Linear(3, 3)
twice = nn.Sequential(tied, nn.GELU(), tied)
twice(torch.randn(2, 3)).sum().backward()
print(flat.sum().item(), tied.weight.grad.sum().item(), [tuple(p.shape) for p in net.parameters()])
