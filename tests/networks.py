"""Scripts and networks that several test files run."""

from __future__ import annotations

import torch

import symgrad

LENET = """import torch
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)
    def forward(self, image):
        hidden = F.max_pool2d(F.relu(self.conv1(image)), 2)
        hidden = F.max_pool2d(F.relu(self.conv2(hidden)), 2)
        hidden = F.relu(self.fc2(F.relu(self.fc1(torch.flatten(hidden, 1)))))
        return self.fc3(hidden)
torch.manual_seed(0)
net = Net()
image = torch.randn(1, 1, 32, 32)
out = net(image)
out.backward(torch.randn(1, 10))
net.zero_grad()
loss = nn.functional.mse_loss(net(image), torch.randn(1, 10))
loss.backward()
"""
NETWORK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range({blocks})])
        self.stem, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
model = Net()
loss = nn.functional.cross_entropy(model(torch.randn(3, 4)), torch.tensor([0, 1, 0]))
loss.backward()
"""
"""A residual network of so many blocks."""


def chain(layers: int) -> symgrad.Capture:
    """So many equal layers."""
    torch.manual_seed(1)
    weights = [torch.randn(3, 3, dtype=torch.float64) for _ in range(layers)]

    def run(x: torch.Tensor) -> torch.Tensor:
        for w in weights:
            x = torch.tanh(x @ w)
        return x

    return symgrad.capture(run, torch.randn(2, 3, dtype=torch.float64))
