import torch

net = torch.nn.Linear(2, 1)
g = torch.autograd.grad(net(torch.ones(1, 2)).sum(), net.parameters())
x = torch.tensor([1.0, 2.0], requires_grad=True)
h = x * 3
(s,) = torch.autograd.grad((h**2).sum(), h, retain_graph=True)
u, t = torch.autograd.grad((h**2).sum(), (h, x))
print(g, s, u, t)
torch.autograd.backward((p.sum() for p in (x * 2, x * 3)), inputs=(p for p in [x]))
print(x.grad)
