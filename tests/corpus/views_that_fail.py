import torch

x = torch.ones(4, requires_grad=True)
y = x * 2
a, b = y.chunk(2)
try:
    a.add_(1)
except RuntimeError as error:
    print(error)
try:
    x.add_(1)
except RuntimeError as error:
    print(error)
with torch.no_grad():
    v = x.view(2, 2)
    v.mul_(2)
try:
    v.mul_(2)
except RuntimeError as error:
    print(error)
try:
    print(v.sum())
except RuntimeError as error:
    print(error)
e = y.exp()
e.add_(1)
try:
    e.sum().backward()
except RuntimeError as error:
    print(error)
