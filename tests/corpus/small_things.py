import gc
import weakref

import torch

x = torch.ones(2, requires_grad=True)
for work in (lambda: x * 2, lambda: x.sum(), lambda: x[0], lambda: x + x, lambda: torch.stack([x, x])):
    work().sum().backward()
torch.autograd.backward([x.sum(), (x * 2).sum()], [torch.tensor(1.0), None])
print(x.grad, x.tolist(), len(x), bool(x[0]), float(x[1]), int(x[1]), x.numel(), f"{x[0]:.2f}", hash(x) == id(x))
y = x * 2
ref = weakref.ref(y)
del y
gc.collect()
print(ref() is None, x is x.requires_grad_(), [a.item() for a in x], x.shape, x.stride(), x in [x])
out = torch.empty(2)
torch.add(torch.ones(2), 1, out=out)
print(out, torch.equal(out, torch.full((2,), 2.0)), torch.where(x > 0), x.max(0), x.sort().indices)
a, b = torch.ones(2, 2).unbind()
a += 1
print(a, b, x.__class__, x.retains_grad, x.grad_fn, x.is_leaf, x.new_zeros(1), torch.zeros(0).sum())
