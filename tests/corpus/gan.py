import torch
from torch import nn

torch.manual_seed(3)
g = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2))
d = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
g_opt, d_opt = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
bce = nn.BCELoss()
for step in range(2):
    real, z = torch.randn(5, 2) + 2, torch.randn(5, 2)
    fake = g(z)
    g_opt.zero_grad()
    g_loss = bce(d(fake), torch.ones(5, 1))
    g_loss.backward()
    g_opt.step()
    d_opt.zero_grad()
    d_loss = (bce(d(real), torch.ones(5, 1)) + bce(d(fake.detach()), torch.zeros(5, 1))) / 2
    d_loss.backward()
    d_opt.step()
    print(f"{g_loss.item():.6f} {d_loss.item():.6f}")
