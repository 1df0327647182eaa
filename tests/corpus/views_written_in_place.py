import torch

w = torch.ones(2, 2, requires_grad=True)
with torch.no_grad():
    w.view(4).copy_(torch.zeros(4))
    w[0].fill_(3.0)
    w.t().add_(1)
    w.view(-1)[0] = 5
(w * w).sum().backward()
print(w, w.grad)
x = torch.ones(4, requires_grad=True)
y = x * 2
a, b = y.chunk(2)
y.add_(1)
y.sum().backward()
print(x.grad)
z = x * 1
z[1:3].mul_(4)
z.view(2, 2)[0] += x[:2]
z.sum().backward()
print(x.grad, z._version, y._version)
u = torch.zeros(3)
u[1] = x[0]
u.sum().backward()
print(x.grad, u)
for part in torch.ones(4).split(2):
    part.add_(1)
