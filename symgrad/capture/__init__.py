"""PyTorch programs as symgrad's own: what ran, as a program; and what each ``backward()`` did.

`capture` runs a function once and hands back a `Program`; `run_script` runs a whole script and explains every
call of ``backward``. Importing this package does not load torch; using it does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from symgrad.capture.program import Program

if TYPE_CHECKING:
    from symgrad.capture.story import Session

__all__ = ["Program", "capture", "run_script"]


def capture(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Program:
    """Run ``fn(*args, **kwargs)`` once and record what it did, as a `Program`.

    ``fn`` is a function or an ``nn.Module``; tensors may stand anywhere in its arguments and results. Every
    floating argument is an input to differentiate by, and so is every parameter that requires a gradient, under
    its qualified name (``conv1.weight``). Random numbers and integers are data of this run; so is the way that
    ``if`` and ``for`` took. Raises `SymgradError`.
    """
    from symgrad.capture.function import capture_function

    return capture_function(fn, args, kwargs)


def run_script(path: str, arguments: list[str], **options: Any) -> Session:
    """Run a script as ``python path arguments…`` would, and explain each ``backward()`` in it."""
    from symgrad.capture.script import run

    return run(path, arguments, **options)
