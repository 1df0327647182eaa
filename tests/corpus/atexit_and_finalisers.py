import atexit
import sys

import torch

x = torch.ones(2, requires_grad=True)
(x * 2).sum().backward()


class Last:
    def __del__(self):
        print("deleted", flush=True)


last = Last()
atexit.register(lambda: print("at exit", sys.argv[1:], __name__, __file__ is not None, flush=True))
print("end")
