import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
optimizers = {p: torch.optim.Adam([p], foreach=False, lr=0.1) for p in net.parameters()}


def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()


for p in net.parameters():
    p.register_post_accumulate_grad_hook(step)
x = torch.randn(5, 3)
for _ in range(3):
    loss = net(x).pow(2).mean()
    loss.backward()
    print(loss.item(), [p.grad for p in net.parameters()])
