import weakref

import torch
from torch import nn

torch.__future__.set_swap_module_params_on_conversion(True)
net = nn.Linear(2, 1)
net(torch.ones(1, 2)).sum().backward()
net.double()
net.zero_grad()
net(torch.ones(1, 2).double()).sum().backward()
print(net.weight.grad, net.weight.dtype)
torch.__future__.set_swap_module_params_on_conversion(False)
a, b = torch.ones(2, requires_grad=True), torch.zeros(2, requires_grad=True)
(a * 2).sum().backward()
torch.utils.swap_tensors(a, b)
(a * 3).sum().backward()
print(a, a.grad, b, b.grad)
own = weakref.ref(a)
try:
    torch.utils.swap_tensors(a, b)
except RuntimeError as error:
    print(error, own() is a)
