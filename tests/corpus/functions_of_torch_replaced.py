import torch
import torch.nn.functional as F

calls = []


def counted(name, old):
    def mine(*arguments, **keywords):
        calls.append(name)
        return old(*arguments, **keywords)

    return mine


kept = torch.Tensor.backward, torch.autograd.grad, F.softmax, F.layer_norm, torch.einsum, torch.Tensor.split
torch.Tensor.backward = counted("backward", torch.Tensor.backward)
torch.autograd.grad = counted("grad", torch.autograd.grad)
F.softmax = counted("softmax", F.softmax)
F.layer_norm = counted("layer_norm", F.layer_norm)
torch.einsum = counted("einsum", torch.einsum)
torch.Tensor.split = counted("split", torch.Tensor.split)
x = torch.ones(2, 4, requires_grad=True)
F.softmax(x, dim=-1).pow(2).sum().backward()
F.layer_norm(x, (4,)).pow(2).sum().backward()
(g,) = torch.autograd.grad(torch.einsum("ij,ik->", x, x), x)
x.split(2, dim=1)[0].sum().backward()
torch.Tensor.backward, torch.autograd.grad, F.softmax, F.layer_norm, torch.einsum, torch.Tensor.split = kept
(x * 2).sum().backward()
print(calls, x.grad, g)
