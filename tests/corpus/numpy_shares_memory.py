import numpy as np
import torch

w = torch.tensor([1.0, 2.0], requires_grad=True)
for _ in range(3):
    loss = (w**2).sum()
    w.grad = None
    loss.backward()
    w.detach().numpy()[:] -= 0.25 * w.grad.numpy()
a = np.ones(3)
t = torch.from_numpy(a)
y = (torch.ones(3, dtype=torch.float64, requires_grad=True) * t).sum()
a[0] = 7
y.backward()
print(w, t)
