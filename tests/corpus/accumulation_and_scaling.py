import torch
from torch import nn

net = nn.Linear(3, 1)
scaler = torch.amp.GradScaler("cpu", enabled=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for micro in range(4):
    loss = net(torch.randn(2, 3)).pow(2).mean() / 2
    scaler.scale(loss).backward()
    if micro % 2:
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_value_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=False)
    print(loss.item(), scaler.get_scale(), net.bias.grad)
