import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(1)
body, mean, value = nn.Linear(2, 5), nn.Linear(5, 1), nn.Linear(5, 1)
for layer, gain in ((body, 2**0.5), (mean, 0.01), (value, 1.0)):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.constant_(layer.bias, 0.0)
log_std = nn.Parameter(torch.zeros(1, 1))
parameters = [*body.parameters(), *mean.parameters(), *value.parameters(), log_std]
h = body(torch.randn(4, 2)).tanh()
law = Normal(mean(h), log_std.exp().expand(4, 1))
action = law.rsample()
ratio = (law.log_prob(action.detach()) - law.log_prob(action.detach()).detach()).exp()
advantage = torch.randn(4, 1)
policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
loss = policy + 0.5 * (value(h) - 1).pow(2).mean() - 0.01 * law.entropy().mean()
loss.backward()
total = nn.utils.clip_grad_norm_(parameters, 0.5)
print(loss.item(), total.item())
