import torch
from torch import nn

rnn, fc = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)
h, _ = rnn(torch.randn(5, 6, 3))
loss = nn.functional.mse_loss(fc(h[:, -1]), torch.randn(5, 1))
loss.backward()
print(loss.item(), fc.weight.grad)
