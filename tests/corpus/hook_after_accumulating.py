import torch

net = torch.nn.Linear(2, 2)


def double(p):
    p.grad.mul_(2)


net.weight.register_post_accumulate_grad_hook(double)
net(torch.ones(1, 2)).sum().backward()
print(net.weight.grad, net.bias.grad)
