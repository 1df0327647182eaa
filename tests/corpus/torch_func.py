import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

x = torch.tensor([1.0, 2.0])
print(jacrev(torch.sin)(x), jacfwd(torch.sin)(x), hessian(lambda t: (t**3).sum())(x))
print(vmap(grad(lambda t: (t**3).sum()))(torch.ones(3, 2)))
print(grad_and_value(lambda t: t.sin().sum())(x))
out, pull = vjp(lambda t: t * t, x)
print(pull(torch.ones(2)), jvp(torch.exp, (x,), (x,)))
net = torch.nn.Linear(2, 1)
params = dict(net.named_parameters())
per_sample = vmap(grad(lambda p, t: functional_call(net, p, t).sum()), (None, 0))(params, torch.randn(3, 2))
print({k: tuple(v.shape) for k, v in per_sample.items()})
w = torch.ones(2, requires_grad=True)
vmap(lambda t: t * 2)(w).sum().backward()
print(w.grad)

for word, wrong in (("vjp", (torch.sin,)), ("jvp", (torch.sin, [x], [x])), ("jvp", (torch.sin, x, x)), ("vjp", ())):
    try:
        getattr(torch.func, word)(*wrong)
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__, error)
for word in ("grad", "jacrev", "hessian", "vmap"):
    try:
        getattr(torch.func, word)(3)(x)
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__, error)
