import torch

x = torch.ones(3, requires_grad=True)
x.sum().backward()
assert x.grad.sum() == 4, x.grad
