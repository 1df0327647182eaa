import torch
from torch import nn

e = nn.Embedding(5, 2, sparse=True)
e(torch.tensor([1, 1, 3])).sum().backward()
print(e.weight.grad)
optimizer = torch.optim.SparseAdam(list(e.parameters()))
optimizer.step()
z = torch.tensor([1 + 2j, 3j], requires_grad=True)
(z.abs() ** 2).sum().backward()
print(z.grad)
i = torch.arange(6).view(2, 3)
i[0] += 1
print(i.sum(), i.float().mean())
s = torch.eye(3).to_sparse()
w = torch.ones(3, 1, requires_grad=True)
torch.sparse.mm(s, w).sum().backward()
print(w.grad)
