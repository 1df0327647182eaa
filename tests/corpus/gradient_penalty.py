import torch
from torch import nn

d = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
real, fake = torch.randn(3, 2), torch.randn(3, 2)
alpha = torch.rand(3, 1)
between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
score = d(between)
(slope,) = torch.autograd.grad(score, between, torch.ones_like(score), create_graph=True, retain_graph=True)
penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
loss = d(fake).mean() - d(real).mean() + 10 * penalty
loss.backward()
print(loss.item(), [p.grad.norm().item() for p in d.parameters() if p.grad is not None])
