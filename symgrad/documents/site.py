"""Writing all pages into a folder, each file whole or not at all.

Comes in: a folder and the operations wanted. Goes out: ``index.md``, ``forum.md``, ``kinks.md`` and ``ops/NAME.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from symgrad.documents.kinks import kinks_page
from symgrad.documents.pages import forum_page, index_page, operation_page
from symgrad.errors import InputError, UnknownNameError
from symgrad.files import write_whole
from symgrad.ops import Op, close, entries, find


def chosen(names: Sequence[str]) -> list[Op]:
    """The operations called ``names``, all of them when there is none; raises `UnknownNameError`."""
    if not names:
        return list(entries())
    wanted = []
    for name in names:
        op = find(name)
        if op is None:
            raise UnknownNameError(f"there is no operation {name}", hints=tuple(close(name)) or ("symgrad ops",))
        wanted.append(op.name)
    return [op for op in entries() if op.name in wanted]


def made(folder: Path) -> None:
    """Make ``folder``, in one that is there; raises `InputError` when it cannot be."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}", found=(error.strerror or str(error),)) from None


def write_site(folder: Path, names: Sequence[str] = (), check: bool = True) -> Iterator[Path]:
    """Write the pages one by one, yielding each file as it stands."""
    ops = chosen(names)
    made(folder)
    made(folder / "ops")
    for op in ops:
        page = operation_page(op, check)
        for path, svg in page.pictures:  # before the page: whatever interrupts, a page that stands has its pictures
            write_whole(folder / path, svg)
        yield write_whole(folder / page.path, page.text)
    for page in (forum_page(check), kinks_page(ops), index_page(ops)):
        yield write_whole(folder / page.path, page.text)
