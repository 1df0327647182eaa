import os
import sys

import numpy as np
import torch

torch.set_default_dtype(torch.float64)
torch.set_printoptions(precision=2)
torch.set_grad_enabled(False)
x = torch.ones(2, requires_grad=True)
print((x * 2).requires_grad, torch.is_grad_enabled())
torch.set_grad_enabled(True)
np.seterr(all="raise")
try:
    np.float64(1) / np.float64(0)
except FloatingPointError as error:
    print(error)
with torch.inference_mode():
    z = x * 3
    z.add_(1)
    print(z.is_inference(), z)
y = (x * torch.tensor([0.0, 1e-320])).sqrt().sum()
y.backward()
print(x.grad, torch.get_default_dtype(), torch.get_num_threads() > 0, np.geterr()["divide"])
print(__name__, os.path.basename(__file__), sys.argv[1:], os.path.basename(sys.argv[0]), len(sys.path[0]) > 0)
print(sorted(k for k in globals() if k.startswith("__")), sys.excepthook is sys.__excepthook__)
np.seterr(all="warn", under="ignore")
