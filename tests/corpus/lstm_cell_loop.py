import torch
from torch import nn

cell, out = nn.LSTMCell(1, 3), nn.Linear(3, 1)
series = torch.sin(torch.arange(12.0)).view(2, 6)
optimizer = torch.optim.LBFGS([*cell.parameters(), *out.parameters()], lr=0.5, max_iter=2)


def closure():
    optimizer.zero_grad()
    h = c = torch.zeros(2, 3)
    outputs = []
    for x in series[:, :-1].split(1, dim=1):
        h, c = cell(x, (h, c))
        outputs += [out(h)]
    loss = nn.functional.mse_loss(torch.cat(outputs, dim=1), series[:, 1:])
    loss.backward()
    return loss


print(optimizer.step(closure).item())
