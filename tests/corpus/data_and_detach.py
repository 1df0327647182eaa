import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
x.data = torch.tensor([3.0, 4.0])
x.data.add_(1)
(x.detach() * x).sum().backward()
print(x, x.grad, x._version)
h = torch.zeros(2)
for n in range(3):
    h = (h * 0.5 + x).tanh()
    h.sum().backward()
    h = h.detach()
print(h, x.grad)
