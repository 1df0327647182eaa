import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1))
points = torch.rand(6, 2)
x, t = points[:, :1].requires_grad_(), points[:, 1:].requires_grad_()
u = net(torch.cat([x, t], dim=1))
ones = torch.ones_like(u)
u_t = torch.autograd.grad(u, t, ones, create_graph=True)[0]
u_x = torch.autograd.grad(u, x, ones, create_graph=True)[0]
u_xx = torch.autograd.grad(u_x, x, ones, create_graph=True)[0]
loss = (u_t + u * u_x - 0.01 * u_xx).pow(2).mean()
loss.backward()
print(loss.item(), [p.grad.norm().item() for p in net.parameters() if p.grad is not None])
