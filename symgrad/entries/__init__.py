"""What an entry of the table is made with: one line of text, and everything that follows from it.

Comes in: how an operation is called, its equation, a sentence, and the few facts that neither says. Goes out: an `Op`
in the `TABLE`, with its shape rule, options, forward, examples and torch's call. The rows themselves are `symgrad.ops`,
whose files are loaded one after the other until one of them has what is asked for (`Registry`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from threading import RLock
from types import FrameType
from typing import TypeVar

Entered = TypeVar("Entered")


class Registry(MutableMapping[str, Entered]):
    """What some files enter by names; who asks for one loads no more of them than it takes, who asks for all, all.

    ``files`` are the modules in the order in which the registry is read, ``unread`` those still to be loaded, what is
    asked for most first: registries that the same files fill share both. ``source`` says which of them made an entry.
    """

    loading = RLock()

    def __init__(self, files: list[str], unread: list[str]) -> None:
        self.files, self.unread = files, unread
        self.entered: dict[str, Entered] = {}
        self.source: dict[str, str] = {}

    def read_until(self, name: str | None) -> dict[str, Entered]:
        """What is entered when the name is there, or, without one, when all files are loaded."""
        while name not in self.entered and self.unread:
            with self.loading:  # another thread that asks waits for what this one loads
                if name not in self.entered and self.unread:
                    file = self.unread[0]
                    import_module(file)  # which may load others, or this one through another registry
                    if file in self.unread:
                        self.unread.remove(file)
        return self.entered

    def __getitem__(self, name: str) -> Entered:
        return self.read_until(name)[name]

    def __setitem__(self, name: str, entry: Entered) -> None:
        self.source.setdefault(name, file_being_imported())
        self.entered[name] = entry

    def __delitem__(self, name: str) -> None:
        del self.entered[name]

    def __iter__(self) -> Iterator[str]:
        place = {file: n for n, file in enumerate(self.files)}
        return iter(sorted(self.read_until(None), key=lambda name: place.get(self.source[name], len(place))))

    def __len__(self) -> int:
        return len(self.read_until(None))


def file_being_imported() -> str:
    """The module of the table whose top level is running, through whatever helpers; empty outside the table."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals["__name__"])
    return module if module.startswith("symgrad.ops.") else ""
