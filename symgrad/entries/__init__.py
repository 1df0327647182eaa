"""The creation of a table entry from one line of text.

Comes in: the call of an operation, its equation, a sentence, and the few facts that follow from neither. Goes out: an
`Op` in the `TABLE`, with its shape rule, options, forward, examples and torch's call. The rows themselves are in
`symgrad.ops`, whose files are loaded one after the other until the name looked up is found (`Registry`).
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
    """A mapping that modules fill on import. A lookup imports them until the name is found; iteration imports all.

    ``files`` are the modules in the order of iteration, ``unread`` those not yet imported, the most used first;
    registries filled by the same files share both. ``source`` maps each name to the module that entered it.
    """

    loading = RLock()

    def __init__(self, files: list[str], unread: list[str]) -> None:
        self.files, self.unread = files, unread
        self.entered: dict[str, Entered] = {}
        self.source: dict[str, str] = {}

    def read_until(self, name: str | None) -> dict[str, Entered]:
        """Import files until ``name`` is entered (all for None), and return the entries."""
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
    """Return the module of the table that is being imported, or an empty text outside the table."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals["__name__"])
    return module if module.startswith("symgrad.ops.") else ""
