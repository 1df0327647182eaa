import pickle
import sys
from dataclasses import dataclass

import torch


@dataclass
class Config:
    width: int = 2


config = pickle.loads(pickle.dumps(Config(3)))
x = torch.ones(config.width, requires_grad=True)
x.sum().backward()
print(config, x.grad, sys.modules["__main__"].__dict__ is globals(), Config.__module__)
