import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Dispatches(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


x = torch.ones(3, requires_grad=True)
with Functions() as f:
    torch.nn.functional.mse_loss(x.exp(), torch.ones(3)).backward()
print(f.names)
with Dispatches() as d:
    y = (x.exp() * 2).sum()
    y.backward()
    with torch.no_grad():
        x.mul_(2)
print(d.names, x.grad)
with torch.device("cpu"):
    print(torch.ones(2).device)
packed = []
with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(tuple(t.shape)) or t, lambda t: t):
    torch.linalg.eigh(torch.eye(2, requires_grad=True) * torch.tensor([1.0, 2.0])).eigenvalues.sum().backward()
print(packed)
