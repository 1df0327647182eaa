import contextlib
import io
import sys

import torch

x = torch.ones(2, requires_grad=True)
file = io.StringIO()
with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
    (x * 2).sum().backward()
    print("inside")
print(repr(file.getvalue()))


class Tee:
    def __init__(self, stream):
        self.stream, self.count = stream, 0

    def write(self, text):
        self.count += 1
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()


sys.stdout, saved = Tee(sys.stdout), sys.stdout
(x * 3).sum().backward()
print("one")
count, sys.stdout = sys.stdout.count, saved
print(count)
