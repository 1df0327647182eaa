import torch
from torch.autograd import gradcheck, gradgradcheck

x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
w = torch.randn(3, dtype=torch.float64, requires_grad=True)
print(gradcheck(lambda a, b: (a * b).tanh(), (x, w)), gradgradcheck(torch.sin, (x,)))
try:
    gradcheck(torch.relu, (torch.full((2,), 1e-7, dtype=torch.float64, requires_grad=True),))
except RuntimeError as error:
    print(str(error).splitlines()[0])
print(gradcheck(lambda a: a.sin(), (x,), fast_mode=True))
