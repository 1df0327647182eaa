import warnings

import torch
import torch.nn.functional as F
from torch import nn

x = torch.ones(2, 2, requires_grad=True)
y = x * 2
y.grad
F.softmax(x)
nn.Softmax()(x)
for i in range(3):
    F.mse_loss(torch.ones(2), torch.ones(2, 1))
    nn.MSELoss()(torch.ones(2), torch.ones(2, 1))
torch.tensor(x)
torch.ones(3).T
warnings.warn("mine")
for i in range(2):
    z = F.mse_loss(x.sum(0), torch.ones(2, 1))
    z.backward()
    warnings.warn("mine too")
for i in range(3):  # torch warns in a file of its own, and does so again where the call is made again
    F.binary_cross_entropy(torch.sigmoid(x), torch.ones(2, 2), size_average=False).backward()
F.sigmoid(x), F.upsample(torch.ones(1, 1, 4, 4), scale_factor=2)
torch.meshgrid(torch.ones(2), torch.ones(2))
nn.LSTM(2, 2, dropout=0.1)
torch.autograd.grad((x * 2).sum(), x, only_inputs=False)
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        nn.L1Loss()(torch.ones(2), torch.ones(2, 1))
    except UserWarning as error:
        print("raised", str(error)[:30])


layer = nn.Linear(2, 2)
layer.register_full_backward_hook(lambda *_: None)  # its warning is five levels below the line that it names


def backward() -> None:
    layer(torch.ones(1, 2)).sum().backward()
    torch.autograd.backward(layer(torch.ones(1, 2)).sum())
    torch.autograd.grad(layer(torch.ones(1, 2)).sum(), dict(layer.named_parameters()).values())


def further_out() -> None:
    backward()


further_out()
