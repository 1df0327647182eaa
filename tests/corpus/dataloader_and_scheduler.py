import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(10, 4), torch.randint(0, 3, (10,)))
net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
for epoch in range(2):
    for x, t in DataLoader(data, batch_size=4, shuffle=True):
        optimizer.zero_grad()
        loss = nn.CrossEntropyLoss()(net(x), t)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
    scheduler.step()
    print(epoch, round(loss.item(), 6), scheduler.get_last_lr())
