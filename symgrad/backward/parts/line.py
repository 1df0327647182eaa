"""One line of a backward, and the parts that it is made of: plain frozen data.

Built by `symgrad.backward.lines`; a `Backward` holds them in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from symgrad.backward.parts.code import read_by
from symgrad.indexing import Equation, instantiate
from symgrad.numeric import Array
from symgrad.shapes import Shape, Size

LONG = 160
"""Characters of a line beyond which nobody reads it, as of one in array operations."""


@dataclass(frozen=True)
class Part:
    """What reaches a tensor through one that reads it; ``equation`` says it entry by entry.

    It is kept as it was derived, in standard names, and put into the names of the page when asked for. ``rules`` led
    from there to its line.
    """

    through: str
    derived: Equation | None
    names: Mapping[str, str]
    sizes: Mapping[Size, Size]
    rules: tuple[str, ...] = ()

    @property
    def equation(self) -> Equation | None:
        """The index equation in the names of the page; None where it would be too long, or is torch's own."""
        return None if self.derived is None else instantiate(self.derived, self.names, self.sizes)


@dataclass(frozen=True)
class Line:
    """One statement, ``name = text`` as it is shown and ``target = code`` as Python.

    The two differ where the user's name for a tensor is no name of Python (``fc1.weight``, ``fc1_weight``). A line of
    the backward belongs to the tensor ``of`` and has its shape; a name for what stands twice belongs to none.
    ``code`` is None where no short notation says it; ``parts`` say it entry by entry, one for each use. ``through``
    are the tensors whose cotangents it reads, ``rules`` those that merged or shortened it; ``own`` is the reason where
    a part of it is torch's own product. ``value`` are its numbers, where there are any.
    """

    name: str
    text: str | None
    target: str
    code: str | None
    of: str
    shape: Shape | None
    parts: tuple[Part, ...] = ()
    through: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    own: str = ""
    value: Array | None = field(default=None, compare=False, repr=False)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that its code reads."""
        return read_by([] if self.code is None else [self.code])

    @property
    def is_told(self) -> bool:
        """Whether it stands among others: it says how it is computed, or that nothing short does."""
        return self.text is not None or bool(self.parts)

    @property
    def shown(self) -> str:
        """The line as it stands among others: of one that nobody would read, how long it is; of none, why."""
        if self.code is None and self.parts:
            return f"{self}  # {self.own or 'no line of code was found and proven for it'}"
        if self.text is None or len(self.text) <= LONG:
            return str(self)
        return f"{self.name} = …  # {len(self.code or self.text):,} characters in code"

    def __str__(self) -> str:
        return f"{self.name} = {self.text if self.text is not None else '…'}"
