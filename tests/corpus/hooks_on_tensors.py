import torch

seen = []
x = torch.tensor([1.0, 2.0], requires_grad=True)
handle = x.register_hook(lambda g: seen.append(g.clone()))
y = x * 3
y.register_hook(lambda g: g * 2)
y.retain_grad()
z = (y**2).sum()
z.backward()
handle.remove()
print(x.grad, y.grad, seen)
w = torch.ones(2, requires_grad=True)
w.register_hook(lambda g: print("hook", g) or g / 2)
(w * 4).sum().backward()
print(w.grad)
