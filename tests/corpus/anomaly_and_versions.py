import torch

x = torch.tensor([0.0, 1.0], requires_grad=True)
with torch.autograd.set_detect_anomaly(True):
    try:
        (x.sqrt() * 0).sum().backward()
    except RuntimeError as error:
        print(error)
y = x * 2
print(x._version, y._version, y.grad_fn.name(), y.grad_fn.next_functions[0][0].name(), y._base is None)
v = y[0:1]
y.add_(1)
print(y._version, v.grad_fn.name(), v._base is y, y.is_leaf, v.is_leaf)
(v * 2).sum().backward()
print(x.grad, torch.is_anomaly_enabled())
