"""Which names of a program are taken.

Comes in: names, as steps and inputs get them. Goes out: the first that is free of ``h``, ``h_2``, ``h_3``, …. A loop
asks for the same name at every turn, so up to which number they are taken is remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Taken(set[str]):
    """A set of names.

    >>> names = Taken(["h", "h_2"])
    >>> names.add(names.first_free("h")), sorted(names)
    (None, ['h', 'h_2', 'h_3'])
    >>> names.free(["h_2"]), names.first_free("h")
    (None, 'h_2')
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(names)
        self.counted: dict[str, int] = {}

    def first_free(self, name: str, kept: Collection[str] = ()) -> str:
        """``name`` if it is free, else ``name_2``, ``name_3``, …, which may be none of those ``kept`` either."""
        count = self.counted.get(name, 1)
        free = name if count == 1 else f"{name}_{count}"
        while free in self or (count > 1 and free in kept):
            count += 1
            free = f"{name}_{count}"
        self.counted[name] = count
        return free

    def free(self, names: Iterable[str]) -> None:
        """Nothing has these names any more."""
        for name in names:
            self.discard(name)
            stem, _, number = name.rpartition("_")
            self.counted.pop(name, None)
            if number.isdecimal() and stem in self.counted:
                self.counted[stem] = min(self.counted[stem], max(2, int(number)))
