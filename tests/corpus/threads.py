import threading

import torch

x = torch.ones(2, requires_grad=True)
net = torch.nn.Linear(2, 1)
lock = threading.Lock()


def work(n):
    with lock:
        (net(x) * n).sum().backward()


threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
(x * 3).sum().backward()
print(x.grad, net.weight.grad)
