import copy
import io
import pickle

import torch
from torch import nn

net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
net(torch.randn(4, 2)).pow(2).sum().backward()
twin = copy.deepcopy(net)
net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()})
file = io.BytesIO()
torch.save(net.state_dict(), file)
file.seek(0)
back = torch.load(file)
again = pickle.loads(pickle.dumps(net))
print({k: v.tolist() for k, v in back.items()}, twin[0].weight.grad, again[1].running_mean)
net.eval()
twin.load_state_dict(net.state_dict())
ema = {k: v.clone() for k, v in net.state_dict().items()}
for k, v in twin.state_dict().items():
    if v.is_floating_point():
        ema[k].mul_(0.9).add_(v, alpha=0.1)
print(ema)
