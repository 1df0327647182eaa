import torch

x = torch.ones(3, requires_grad=True)
print("before")


def deep(t):
    return torch.nn.functional.linear(t, torch.ones(2, 2))


try:
    deep(x)
except RuntimeError as first:
    raise ValueError("while multiplying") from first
