import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = (x**3).sum()
(g,) = torch.autograd.grad(y, x, create_graph=True)
g.sum().backward()
print(g, x.grad)
rows = [torch.autograd.grad(e, x, retain_graph=True)[0] for e in g] if g.requires_grad else None
print(rows)
