import torch
from torch.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
print(torch.autograd.grad(x**2, x, torch.eye(3), is_grads_batched=True))
print(jacobian(lambda t: t**2, x, vectorize=True), jacobian(lambda t: t**2, x))
print(hessian(lambda t: (t**3).sum(), x), hessian(lambda t: (t**3).sum(), x, vectorize=True))
v = torch.ones(3)
print(vjp(torch.sin, x, v), jvp(torch.sin, x, v), hvp(lambda t: (t**3).sum(), x, v), vhp(lambda t: (t**3).sum(), x, v))
