import torch
from torch import nn

layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
net = nn.TransformerEncoder(layer, 2)
attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
x = torch.randn(2, 5, 8)
with torch.no_grad():
    a, b = layer(x), net(x)
    c = attention(x, x, x)[0]
d = layer(x.requires_grad_())
d.sum().backward()
print(a.sum(), b.sum(), c.sum(), x.grad.sum())
