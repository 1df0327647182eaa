import torch
from torch import nn
from torch.distributions import Categorical

policy = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 2), nn.Softmax(dim=-1))
optimizer = torch.optim.RMSprop(policy.parameters(), lr=1e-2)
for length in (3, 5):
    state, logs, rewards = torch.ones(3), [], []
    for _ in range(length):
        m = Categorical(policy(state))
        action = m.sample()
        logs.append(m.log_prob(action))
        rewards.append(float(action) - 0.5)
        state = torch.roll(state, 1) * 0.9 + action
    returns = torch.tensor([sum(rewards[n:]) for n in range(length)])
    loss = torch.stack([-log * r for log, r in zip(logs, returns)]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(rewards, loss.item())
