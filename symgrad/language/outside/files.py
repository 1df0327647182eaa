"""``@file.npy`` and ``@file.json``: arrays from files, without running anything that is in them.

A ``.npy`` file is read by its header first, so that one which claims more entries than it has, or holds
pickled Python objects, is refused before any array is made. Nothing is ever unpickled.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from symgrad.errors import InputError
from symgrad.language.outside.values import MOST, Array, holds_truths, too_large, value_from

LARGEST_JSON = 10**8
"""Bytes."""
FORMATS = ("@file.npy, @file.json",)


def load(path: Path, name: str) -> tuple[Array, bool]:
    """The array in the file at ``path``, and whether of truth values; raises `InputError` for what cannot be read."""
    readers: Mapping[str, Callable[[Path], object]] = {".npy": partial(load_npy, name=name), ".json": load_json}
    if path.suffix.lower() not in readers:
        raise InputError(f"files ending in {path.suffix or 'nothing'} are not read", hints=FORMATS)
    try:
        if not path.is_file():
            raise InputError(f"there is no file {path}", hints=FORMATS)
        given = readers[path.suffix.lower()](path)
        return value_from(given, name), holds_truths(given)
    except (OSError, ValueError, EOFError, MemoryError, RecursionError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} cannot be read", found=(said[:200],)) from None


def load_npy(path: Path, name: str) -> object:
    """An array in NumPy's own format."""
    with path.open("rb") as file:
        shape, dtype = header(file)
        if dtype.hasobject:
            raise InputError(f"{path} holds pickled Python objects, which are never unpickled")
        if math.prod(shape) > MOST:
            raise too_large(shape, name)
        start = file.tell()
        if path.stat().st_size - start < math.prod(shape) * dtype.itemsize:
            raise InputError(f"{path} is cut short", found=(f"its header says {'×'.join(map(str, shape))}",))
        file.seek(0)
        return np.load(file, allow_pickle=False)


def header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type that the file claims."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format")
    return shape, dtype


def load_json(path: Path) -> object:
    """Nested lists of numbers."""
    if path.stat().st_size > LARGEST_JSON:
        raise InputError(f"{path} is too large", found=(f"{path.stat().st_size:,} bytes",))
    return json.loads(path.read_text(encoding="utf-8"))
