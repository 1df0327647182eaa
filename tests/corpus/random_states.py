import random

import numpy as np
import torch
from torch import nn

x = torch.ones(4, requires_grad=True)
for _ in range(2):
    (nn.functional.dropout(x, 0.5) * torch.rand(4)).sum().backward()
    print(x.grad, random.random(), np.random.rand(), torch.rand(1).item())
generator = torch.Generator().manual_seed(5)
print(torch.randn(2, generator=generator), torch.randperm(4), torch.initial_seed())
nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True)(torch.randn(1, 3, 4)).sum().backward()
print(torch.rand(1).item())
