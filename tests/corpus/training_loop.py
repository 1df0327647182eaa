import torch
from torch import nn

net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
x, y = torch.randn(16, 3), torch.randn(16, 1)
for step in range(4):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
