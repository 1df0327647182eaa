"""Writing all pages into a folder, each file whole or not at all.

Comes in: a folder and the operations wanted. Goes out: ``index.md``, ``forum.md``, ``kinks.md`` and ``ops/NAME.md``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

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


def check_folder(folder: Path) -> None:
    """Raise `InputError` before any work where it is plain that nothing can be written into ``folder``."""
    place = folder if folder.exists() else folder.absolute().parent
    if not place.is_dir():
        raise InputError(f"cannot write into {folder}", found=(f"{place} is no folder",))
    if not os.access(place, os.W_OK):
        raise InputError(f"cannot write into {folder}", found=(f"{place} may not be written",))


def put(folder: Path, place: PurePosixPath, text: str) -> Path:
    """One file into ``folder``, which is made for it; raises `InputError` where that cannot be."""
    whole = folder / place
    try:
        folder.mkdir(exist_ok=True)  # its own folder is the user's to make
        whole.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}", found=(error.strerror or str(error),)) from None
    return write_whole(whole, text)


def write_site(folder: Path, names: Sequence[str] = (), check: bool = True) -> Iterator[Path]:
    """Write the pages one by one, yielding each file as it stands; whatever interrupts leaves no folder without one."""
    ops = chosen(names)
    check_folder(folder)
    for op in ops:
        page = operation_page(op, check)
        for path, svg in page.pictures:  # before the page: whatever interrupts, a page that stands has its pictures
            put(folder, path, svg)
        yield put(folder, page.path, page.text)
    for page in (forum_page(check), kinks_page(ops), index_page(ops)):
        yield put(folder, page.path, page.text)
