"""PyTorch programs as symgrad's own: what ran, as a program; and what each ``backward()`` did.

`capture` runs a function once and hands back a `Capture`; `run_script` runs a whole script and explains every
call of ``backward``. Importing this package does not load torch; using it does.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from symgrad.errors import UnsupportedError
from symgrad.tracing.captured import Capture

if TYPE_CHECKING:
    from symgrad.tracing.story.events import Session

__all__ = ["Capture", "capture", "capture_call", "load_ipython_extension", "need_torch", "run_script"]


def capture(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Capture:
    """Run ``fn(*args, **kwargs)`` once and record what it did, as a `Capture`.

    ``fn`` is a function or an ``nn.Module``; tensors may stand anywhere in its arguments and results. Every
    floating argument is an input to differentiate by, and so is every parameter that requires a gradient, under
    its qualified name (``conv1.weight``). Random numbers and integers are data of this run; so is the way that
    ``if`` and ``for`` took. The program keeps the values of this run: what becomes of the parameters later does
    not change it. Raises `SymgradError`; an exception of ``fn`` passes through.

    >>> import torch
    >>> def layer(x, w, b):
    ...     h = x @ w + b
    ...     return torch.relu(h)
    >>> program = capture(layer, torch.tensor([[1.0, 2.0]]), torch.eye(2), torch.tensor([0.5, -9.0]))
    >>> program
    layer: 3 operations, 3 inputs, as it ran once
      input  x  1×2  float32
      input  w  2×2  float32
      input  b  2    float32
      t1 = x @ w      1×2
      h = t1 + b      1×2
      out = relu(h)   1×2
      output out
    >>> program.pullback([[1.0, 1.0]])["b"].tolist()
    [1.0, 0.0]
    """
    need_torch()
    from symgrad.tracing.captured.function import capture_function

    return capture_function(fn, args, kwargs)


def capture_call(target: str, values: Any, shapes: Any, wrt: Any = None) -> Capture:
    """Capture ``package.module:function`` with values by name: `symgrad explain --call`."""
    need_torch()
    from symgrad.tracing.captured.function import capture_named

    return capture_named(target, values, shapes, wrt)


def run_script(path: str, arguments: list[str], **options: Any) -> Session:
    """Run a script as ``python path arguments…`` would, and explain each ``backward()`` in it."""
    need_torch()
    from symgrad.tracing.session.script import run_file

    return run_file(path, arguments, **options)


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext symgrad``: a cell that begins with ``%%symgrad`` is explained as a script is."""
    need_torch()
    from symgrad.tracing.session.script import run_cell
    from symgrad.tracing.story.event_content import closing_text, legend_text
    from symgrad.tracing.story.session_pages import event_text

    def told(_: str, text: str) -> None:
        name = f"<cell {shell.execution_count}>"
        session = run_cell(
            shell.transform_cell(text), name, shell.user_ns, tell=lambda event: say(event_text(event) + "\n")
        )
        say(closing_text(session) + legend_text(session))

    def say(text: str) -> None:
        sys.stdout.write(text)

    shell.register_magic_function(told, "cell", "symgrad")


def need_torch() -> None:
    """Everything here runs PyTorch code."""
    if importlib.util.find_spec("torch") is None:
        raise UnsupportedError(
            "PyTorch is not installed, and this runs PyTorch code", hints=('pip install "symgrad[torch]"',)
        )
