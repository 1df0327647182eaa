import torch
from torch import nn
from torch.distributions import MultivariateNormal

w, u, b = (nn.Parameter(torch.randn(n)) for n in (2, 2, 1))
optimizer = torch.optim.Adam([w, u, b])
base = MultivariateNormal(torch.zeros(2), torch.eye(2))
for _ in range(2):
    z = base.sample((6,))
    a = torch.tanh(z @ w + b)
    x = z + u * a[:, None]
    det = (1 + ((1 - a**2)[:, None] * w) @ u).abs().log()
    loss = -(base.log_prob(x) + det).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
