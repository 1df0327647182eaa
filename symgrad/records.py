"""`dataclass`, each of whose methods is written when it is called first.

Comes in: a class, as for `dataclasses.dataclass`, and the same options. Goes out: the class with the same fields and
methods. Python's own writes and compiles up to six methods for each class while it is imported, half a millisecond for
each of a few hundred classes; a short command makes objects of every second one and compares few of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError, asdict, field, fields, replace
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]

Source = tuple[str, dict[str, Any]]
"""The text of a method, and the values of the names in it."""
FACTORY = type("Factory", (), {"__repr__": lambda self: "<factory>"})()
"""The default of an argument in whose place a factory makes something, as a signature shows it."""


def init_source(kind: Any) -> Source:
    """``__init__``: each field from its argument, its default or its factory."""
    known: dict[str, Any] = {"__put__": object.__setattr__}  # in names that no field has
    plain, named, lines = ["self"], list[str](), list[str]()
    for f in fields(kind):
        value, usual = f.name, f"__usual_{f.name}__"
        if f.default_factory is not MISSING:
            known |= {usual: FACTORY, f"__make_{f.name}__": f.default_factory}
            value = f"__make_{f.name}__()" + (f" if {f.name} is {usual} else {f.name}" if f.init else "")
        elif f.default is not MISSING:
            known[usual] = f.default
        if f.init:
            (named if f.kw_only else plain).append(f"{f.name}={usual}" if usual in known else f.name)
        if f.init or f.default_factory is not MISSING:
            lines.append(f"__put__(self, {f.name!r}, {value})")
    lines += ["self.__post_init__()"] if hasattr(kind, "__post_init__") else []
    order = [*plain, *["*"][: len(named)], *named]
    return f"def __init__({', '.join(order)}): {'; '.join(lines or ['pass'])}", known


def eq_source(kind: Any) -> Source:
    """``__eq__``: of the same class, and every field that counts is equal."""
    one, other = (tuple_of((f.name for f in fields(kind) if f.compare), name) for name in ("self", "other"))
    return (
        f"def __eq__(self, other): return {one} == {other} if other.__class__ is self.__class__ else NotImplemented",
        {},
    )


def hash_source(kind: Any) -> Source:
    """``__hash__``: of the fields that count."""
    counted = (f.name for f in fields(kind) if (f.compare if f.hash is None else f.hash))
    return f"def __hash__(self): return hash({tuple_of(counted, 'self')})", {}


def tuple_of(names: Iterable[str], of: str) -> str:
    """The attributes of an object as a tuple.

    >>> tuple_of(["x", "y"], "self"), tuple_of([], "self")
    ('(self.x, self.y,)', '()')
    """
    return f"({' '.join(f'{of}.{name},' for name in names)})"


SOURCES: dict[str, Callable[[Any], Source]] = {"__init__": init_source, "__eq__": eq_source, "__hash__": hash_source}


class Unwritten:
    """A method in the place of which the written one stands as soon as anybody asks for it."""

    def __init__(self, kind: Any, name: str) -> None:
        self.kind, self.name = kind, name

    def __get__(self, instance: object, owner: Any = None) -> Any:
        text, known = SOURCES[self.name](self.kind)
        exec(text, known)  # noqa: S102 -- names of fields, as in Python's own
        method = known[self.name]
        method.__qualname__, method.__module__ = f"{self.kind.__qualname__}.{self.name}", self.kind.__module__
        if self.name == "__init__":
            method.__annotations__ = {**{f.name: f.type for f in fields(self.kind) if f.init}, "return": None}
        setattr(self.kind, self.name, method)
        return method.__get__(instance, owner)


@recursive_repr()
def shown(self: Any) -> str:
    """The class, and its fields with their values."""
    return (
        f"{type(self).__qualname__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in fields(self) if f.repr)})"
    )


def freeze(kind: Any) -> None:
    """Refuse to set or delete a field."""
    names = frozenset(f.name for f in fields(kind))

    def refuse(self: object, name: str, does: str) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot {does} field {name!r}")

    def set_attribute(self: object, name: str, value: object) -> None:
        refuse(self, name, "assign to")
        super(kind, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        refuse(self, name, "delete")
        super(kind, self).__delattr__(name)

    kind.__setattr__, kind.__delattr__ = set_attribute, delete_attribute


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(kind=None, /, *, frozen=False, eq=True, repr=True, kw_only=False):
        """`dataclasses.dataclass`: what a class writes itself, stays."""

        def made(kind):
            own = {name for name, value in vars(kind).items() if value is not None}
            dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(kind)
            methods = {"__init__": Unwritten(kind, "__init__")}
            if repr:
                methods["__repr__"] = shown
            if eq:
                methods |= {
                    "__eq__": Unwritten(kind, "__eq__"), "__hash__": Unwritten(kind, "__hash__") if frozen else None
                }  # fmt: skip
            for name, method in methods.items():
                if name not in own:
                    setattr(kind, name, method)
            if frozen:
                freeze(kind)
            return kind

        return made if kind is None else made(kind)
