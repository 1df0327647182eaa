"""The rows of the table as they are written: its files run once more beside it, and each row can be made without a field."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import pytest

from symgrad.entries import equations as mechanism
from symgrad.entries import spec
from symgrad.ops import GROUPS, TABLE, Op

USUAL = inspect.signature(mechanism.op)
Row = Mapping[str, Any]
"""What a row of the table gives to `symgrad.entries.equations.op`, by the names of its parameters."""
RULES = ("index", "prepare", "shape", "align", "numpy", "torch")
"""Fields of an entry that are functions: two that do the same need not be the same."""


@lru_cache(maxsize=1)
def rows() -> dict[str, Row]:
    """Every row of the table by the name of its entry, its files run once more beside the table."""
    found, own = dict[str, Row](), mechanism.op

    def noted(*arguments: Any, **keywords: Any) -> Op:
        given = USUAL.bind(*arguments, **keywords).arguments
        row = {**{name: value for name, value in given.items() if name != "facts"}, **given.get("facts", {})}
        row = {name: value for name, value in row.items() if value is not None and not said_so(name, value)}
        op = own(*arguments, **keywords)
        found[op.name] = row
        return op

    with pytest.MonkeyPatch.context() as patch:
        for module, name, other in ((mechanism, "op", noted), (mechanism, "register", same), (spec, "register", same)):
            patch.setattr(module, name, other)
        for family in sorted(itertools.chain.from_iterable(GROUPS.values())):
            place = importlib.util.find_spec(f"symgrad.ops.{family}")
            assert place is not None
            assert place.loader is not None
            place.loader.exec_module(importlib.util.module_from_spec(place))
    return found


def said_so(name: str, value: Any) -> bool:
    """Whether a parameter has the value that it has by itself, as where a factory of rows hands it on."""
    usual = USUAL.parameters[name].default if name in USUAL.parameters else default_of(name)
    return bool(type(usual) is type(value) and usual == value)


def default_of(name: str) -> Any:
    """The value of a field of an entry, or of a group of its fields, that no row gives."""
    return next((getattr(kind, name) for kind in (Op, *mechanism.GROUPS.values()) if hasattr(kind, name)), None)


def facts_of(op: Op) -> dict[str, Any]:
    """All fields of an entry by their names, those of its groups among them."""
    groups = [getattr(op, group) for group in mechanism.GROUPS]
    own = [field.name for field in dataclasses.fields(Op) if field.name not in mechanism.GROUPS]
    return {name: getattr(op, name) for name in own} | {
        field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)
    }


def same(op: Op) -> Op:
    """The entry, which is in the table already."""
    return op


def made(row: Row) -> Op:
    """The entry of a row, not put into the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanism, "register", same)
        return mechanism.op(**row)


def without(row: Row, field: str) -> Op | None:
    """The entry without a field; None where there is none."""
    try:
        return made({name: value for name, value in row.items() if name != field})
    except Exception:  # whatever an entry without it cannot do
        return None


def alike(one: Op, other: Op) -> bool:
    """Whether two entries say the same, their rules apart."""
    others = facts_of(other)
    return all(value == others[name] for name, value in facts_of(one).items() if name not in RULES)


def told(op: Op) -> dict[str, Any]:
    """What an entry says, of what is computed only that it is."""
    return {
        name: callable(value) or (set(value) if isinstance(value, dict) else value)
        for name, value in facts_of(op).items()
        if name not in (*RULES, "smooth")  # smooth by the entries before it
    }


ROWS = sorted(name for name in TABLE if name in rows())


LOOPS = {
    **dict.fromkeys(("det", "inverse", "logabsdet", "logdet", "pinv", "solve"), ("reads_out",)),
    "avg_pool1d": ("smooth",), "conv1d": ("smooth",), "gt": ("summary",), "lt": ("summary",), "max_unpool1d": ("ranks",),
    "max_unpool3d": ("ranks",),
}  # fmt: skip
"""What the other rows of a loop, or of a function that makes rows, need."""


@contextmanager
def instead(op: Op) -> Iterator[None]:
    """Another entry in the place of the one of its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLE, op.name, op)
        for registry in (spec.SPELLINGS, spec.ROLES):
            for word in [word for word, own in registry.items() if own.name == op.name]:
                patch.setitem(registry, word, op)
        if op.traits.role is None:
            for role in [role for role, own in spec.ROLES.items() if own is op]:
                patch.delitem(spec.ROLES, role)
        yield
