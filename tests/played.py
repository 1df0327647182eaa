"""Scripts under ``symgrad run``: what the command tells of one, and what was seen of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from click.testing import CliRunner

from symgrad.tracing import run_script
from symgrad.tracing.story.events import Session
from symgrad.tracing.story.session_pages import WIDTH, event_text
from symgrad_cli.main import main

HEAD = "import torch\n"
NETWORK_HEAD = f"{HEAD}from torch import nn\nimport torch.nn.functional as F\n"
ACCUMULATION = """
x = torch.tensor([1., 2., 3.], requires_grad=True)
y = torch.tensor([.5, -1., 2.], requires_grad=False) # Note: requires_grad=False
z = x * y

z.backward(torch.ones(3)) # Using gradient to allow for non-scalar
print(x.grad)

x.grad.zero_() #zero out the gradients

y2 = torch.tensor([4., 5., 6.], requires_grad=True)
z2 = x*y2
z2.backward()
print(x.grad)
"""


@contextmanager
def own_default_precision() -> Iterator[None]:
    """A script may change the default precision; the next one has its own."""
    before = torch.get_default_dtype()
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def play(
    tmp_path: Path, source: str, *arguments: str, head: str = HEAD, width: int = WIDTH, **options: Any
) -> tuple[Session, str]:
    """Run a script; its session and everything that was told."""
    path = tmp_path / "script.py"
    path.write_text(head + source, encoding="utf-8")
    told: list[str] = []
    with own_default_precision():
        session = run_script(
            str(path), list(arguments), tell=lambda event: told.append(event_text(event, width)), **options
        )
    return session, "\n".join(told)


def play_network(tmp_path: Path, source: str, width: int = WIDTH, **options: Any) -> tuple[Session, str]:
    """The same for a script that has ``nn`` and ``F`` at hand, and ends well."""
    session, told = play(tmp_path, source, head=NETWORK_HEAD, width=width, **options)
    assert session.status == 0
    return session, told


def tell(tmp_path: Path, source: str, *options: str, head: str = HEAD) -> str:
    """What the command writes into a file about a script that ends well."""
    path, story = tmp_path / "script.py", tmp_path / "story.txt"
    path.write_text(head + source, encoding="utf-8")
    with own_default_precision():
        ended = CliRunner().invoke(main, ["run", "-o", str(story), *options, str(path)], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return story.read_text(encoding="utf-8")


def tell_network(tmp_path: Path, source: str) -> str:
    """The same for a script that has ``nn`` and ``F`` at hand."""
    return tell(tmp_path, source, head=NETWORK_HEAD)
