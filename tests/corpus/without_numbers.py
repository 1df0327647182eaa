"""Tensors that hold no numbers: torch.export, make_fx, fake tensors that outlive their mode, the meta device."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

exported = torch.export.export(torch.nn.Linear(2, 1), (torch.ones(1, 2),))
print([node.op for node in exported.graph.nodes])
for kind in ("fake", "real"):
    print(make_fx(lambda x: (x * 2).sin(), tracing_mode=kind)(torch.ones(2)).code)
with FakeTensorMode():
    fake = torch.ones(2, 3, requires_grad=True)
(fake * 2).sum().backward()
print(fake.grad)
del fake
with torch.device("meta"):
    net = torch.nn.Linear(2, 3)
y = net(torch.ones(1, 2, device="meta")).sum()
y.backward()
print(net.weight.grad)
try:
    print(y.item())
except RuntimeError as error:
    print(error)
del net, y
x = torch.ones(2, requires_grad=True)
(x * 3).sum().backward()
print(x.grad)
