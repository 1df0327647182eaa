"""`symgrad.records.dataclass` against Python's own: the same class, written with both."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Hashable
from functools import cached_property
from typing import Any

import pytest

from symgrad import records

BOTH = {"own": dataclasses.dataclass, "symgrad's": records.dataclass}
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((1,), {}), ((1, 2), {}), ((1,), {"y": 3}), ((1,), {"z": 3}), ((1,), {"kept": [4]}), ((1, 2, 3, 4, 5), {}),
    ((1,), {"span": 9}), (([],), {}), ((float("nan"),), {}),
]  # fmt: skip


def classes(dataclass: Any, **options: Any) -> dict[str, Any]:
    """The same classes by one of the two: fields of every sort, one that inherits, one that writes its own methods."""

    class Point:
        """Three numbers and more."""

        x: int
        y: int = 2
        kept: list[int] = dataclasses.field(default_factory=list)
        span: int = dataclasses.field(default=0, compare=False, kw_only=True)
        quiet: str = dataclasses.field(default="q", repr=False, hash=False)
        made: dict[str, int] = dataclasses.field(default_factory=dict, init=False)
        still: int = dataclasses.field(default=7, init=False)
        put: Any = None
        make_kept: Any = None
        hash: Any = None

        @cached_property
        def doubled(self) -> int:
            """Kept in the object, frozen as it is."""
            return self.x * 2

    class Named(dataclass(**options)(Point)):  # type: ignore[misc]  # which of the two is what is tested
        """One that inherits, and looks at what it was given."""

        z: int = 5

        def __post_init__(self) -> None:
            if self.z == 3:
                raise ValueError("not 3")

    class Own:
        """Its own methods."""

        x: int
        y: int = 1

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return self.x == getattr(other, "x", None)

    class Hashed:
        """Its own hash."""

        x: int
        y: int = 1

        def __hash__(self) -> int:
            return 1

    class Empty:
        """No field."""

    class Single:
        """One field."""

        x: object

    made = {kind.__name__: dataclass(**options)(kind) for kind in (Named, Own, Hashed, Empty, Single)}
    return {"Point": Named.__mro__[1], **made}


def outcome(does: Any) -> Any:
    """What a call gives, or how it fails."""
    try:
        return does()
    except Exception as error:
        return type(error), str(error).replace("<locals>.", "")


def told(kind: Any, given: tuple[tuple[Any, ...], dict[str, Any]], shown: bool) -> list[Any]:
    """All that can be asked of a class and of an object of it."""
    first, second, third = (outcome(lambda: kind(*given[0], **given[1])) for _ in range(3))
    if isinstance(first, tuple):
        return [first]
    return [
        str(vars(first)), first == second, first == copy.copy(first), first != second, first == 1,
        outcome(lambda: first == dataclasses.replace(first, x=8)), outcome(lambda: hash(first) == hash(second)),
        str(outcome(lambda: dataclasses.astuple(first))), str(outcome(lambda: first.doubled)),
        kind.__match_args__, str(inspect.signature(kind)), isinstance(first, Hashable), shown and repr(first),
        *(outcome(lambda name=name: setattr(third, name, 3)) for name in ("x", "other")),
        outcome(lambda: delattr(third, "x")), str(vars(third)),
    ]  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"eq": False}, {"frozen": True, "kw_only": True},
                                     {"frozen": True, "eq": False, "repr": False}], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", ["Point", "Named", "Own", "Hashed", "Empty", "Single"])
def test_a_class_of_data_is_what_pythons_own_would_be(name: str, options: dict[str, Any]) -> None:
    for given in ARGUMENTS:
        shown = options.get("repr", True)
        python, ours = (told(classes(dataclass, **options)[name], given, shown) for dataclass in BOTH.values())
        assert ours == python
    python, ours = (classes(dataclass, **options)[name] for dataclass in BOTH.values())
    assert str(inspect.signature(ours)) == str(inspect.signature(python))  # before any object was made
    assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(python)]


@records.dataclass(frozen=True)
class Sent:
    """What another process makes no object of before it reads one."""

    x: int
    y: tuple[int, ...] = ()


def test_what_was_sent_is_equal_where_it_was_made_nowhere() -> None:
    text = (
        "import pickle, sys; first, second = pickle.loads(sys.stdin.buffer.read()); print(first == second, "
        "len({first, second}), repr(first)); first.x = 2"
    )
    sent = pickle.dumps((Sent(1, (2,)), Sent(1, (2,))))
    found = subprocess.run([sys.executable, "-c", text], input=sent, capture_output=True, check=False)
    assert found.stdout.decode().split("\n")[0] == "True 1 Sent(x=1, y=(2,))"
    assert "FrozenInstanceError: cannot assign to field 'x'" in found.stderr.decode()


def test_only_what_is_called_is_written() -> None:
    kind = classes(records.dataclass, frozen=True)["Single"]
    assert all(isinstance(vars(kind)[name], records.Unwritten) for name in records.SOURCES)
    kind(1)
    kinds = {name: type(vars(kind)[name]).__name__ for name in records.SOURCES}
    assert kinds == {"__init__": "function", "__eq__": "Unwritten", "__hash__": "Unwritten"}
