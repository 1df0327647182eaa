"""What is tested by default, and with which examples.

Hypothesis: what is tested before a change lands must not depend on luck. ``main`` draws the same examples in every run,
so that a red run is the change's own doing. ``nightly`` draws new ones, many of them, to find what nobody thought of:
``pytest --hypothesis-profile=nightly``.

``one_in(n)``: of a test's many examples one in n is run by default, and the others are slow. Where a test walks over the
operations of the table, some ``MANY`` of its slow examples stay slow and the rest is left to the night; of examples that
nobody wrote for this test, one in ``slow`` of ``one_in(n, slow=…)``. Each test leaves out others, so the slow run meets
every operation in several tests. Of the contract no operation is left to the night. At night all are run, and where the
contract is run alone (``pytest tests/contract``) all, or one in ``alone`` of those with ``one_in(n, alone=…)``.

The default tests of a file run in one process, one after the other: what they derive, and the libraries that they alone
need, is there once. Tests of examples of one operation of the table run in one process, whichever files they stand in,
slow ones also where they have the operation alone; the other slow ones are spread over all processes. A mark
`xdist_group` of a test's own goes before all that.

Python's search for cycles rests while the tests are collected, leaves alone what was there before the first test, and
is rarer: libraries and tests are a million objects that stay, and looking through them took a tenth of all time. At the
end it rests as well: Python would look through all that was derived twice more, and it is freed with the process.

A worker has a core of its own, so it loads the libraries with one thread each: more would wait for those of the others.
And SymPy, which keeps the last 1,000 answers of each of its functions, keeps 30,000 in a process that derives for
minutes. Commands that tests start have neither.

Commands that tests start run on the work tree, as the tests do, from whatever folder. Nothing is kept for later runs, nor
known from earlier ones: the folder for that is the developer's own.
"""

import gc
import importlib
import os
from collections.abc import Generator, Sequence
from functools import lru_cache
from pathlib import Path
from unittest.mock import patch
from zlib import crc32

import pytest
from _pytest.mark import deselect_by_mark
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:
    with patch.dict(os.environ, {"OMP_NUM_THREADS": "1", "SYMPY_CACHE_SIZE": "30000"}):
        for library in ("numpy", "sympy", "torch"):
            importlib.import_module(library)

# No deadline in either: the first example pays for SymPy's caches, and workers share the cores.
settings.register_profile("main", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("main")

ROOT = Path(__file__).resolve().parents[1]
MANY = 8
"""Of one test's slow examples of operations so many, or up to twice as many, stay slow."""
os.environ["SYMGRAD_CACHE"] = ""
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "cli")])

collect_ignore_glob = ["corpus/*", "mutation/*"]
"""Scripts and a command: looking for examples in docstrings would run the ones and load the other's libraries."""


def by_default(number: int, every: int, test: str = "") -> bool:
    """Whether the example with this number runs by default, as one in ``every``.

    One of each ``every`` in a row, at another place in each row: where two parameters are multiplied out, every value of
    both has its turn. Each test begins at a place of its own, so that several tests of the same examples, those of the
    table say, do not all leave out the same ones.
    """
    return (number + crc32(test.encode())) % every == number // every % every


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Mark the other examples of what is ``one_in(n)`` as slow, then do what ``-m`` says before others look at all."""
    if settings.get_current_profile_name() != "nightly":
        leave_out(items)
    deselect_by_mark(items, config)
    keep_together(items)


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Mark what is left to the slow run, and to the night."""
    leave_to_the_slow(items, alone=all(item.nodeid.startswith("tests/contract/") for item in items))
    leave_to_the_night(items)


def keep_together(items: Sequence[pytest.Item]) -> None:
    """Mark the tests of a file, and those of an operation, as a group."""
    for item in items:
        if not any(map(item.get_closest_marker, ("xdist_group", "night"))):
            slow = item.get_closest_marker("slow") is not None
            group = operation_of(item, slow) or (None if slow else item.nodeid.partition("::")[0])
            if group is not None:
                item.add_marker(pytest.mark.xdist_group(group))


def operation_of(item: pytest.Item, slow: bool) -> str | None:
    """The operation that a test has an example of; if it is ``slow``, also one that is a parameter, or its name."""
    for value in getattr(getattr(item, "callspec", None), "params", {}).values():
        op = getattr(value, "op", value if slow else None)
        name = op.rpartition(".")[2] if isinstance(op, str) else getattr(op, "name", None)
        if name in names_of_operations():
            return str(name)
    return None


@lru_cache(maxsize=1)
def names_of_operations() -> frozenset[str]:
    """All names of the table."""
    from symgrad import operations

    return frozenset(op.name for op in operations())


def leave_to_the_slow(items: Sequence[pytest.Item], alone: bool = False) -> None:
    """Mark the other examples of what is ``one_in(n)`` as slow, or some of them, and the rest as left to the night.

    ``alone`` there is nothing but the contract.
    """
    examples: dict[str, list[tuple[pytest.Item, int]]] = {}
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None and not any(map(item.get_closest_marker, ("slow", "night"))):
            examples.setdefault(item.nodeid.partition("[")[0], []).append(
                (item, mark.kwargs.get("alone", 1) if alone else mark.args[0])
            )
    for test, found in examples.items():
        others = []
        for number, (item, every) in enumerate(found):
            if not by_default(number, min(every, len(found)), test):  # of two examples one in four is one
                others.append(item)
        for number, item in enumerate(others):
            share = item.get_closest_marker("one_in").kwargs.get("slow", 1)
            kept = by_default(number, min(share, len(others)), test)
            item.add_marker(pytest.mark.slow if kept else pytest.mark.night)


def leave_to_the_night(items: Sequence[pytest.Item]) -> None:
    """Of each walk over the operations leave most slow examples to the night; the contract keeps all."""
    walks: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("night"):  # an example may be, of a test that is slow
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "slow"]
        slow = item.get_closest_marker("slow") and not item.get_closest_marker("night")
        if slow and not item.nodeid.startswith("tests/contract/") and operation_of(item, slow=True):
            walks.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, found in walks.items():
        every = max(1, len(found) // MANY)
        for number, item in enumerate(found):
            if not by_default(number, every, test):
                item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "slow"]
                item.add_marker(pytest.mark.night)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No search for cycles until everything is read; what is there then is left out of every search."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


def pytest_unconfigure() -> None:
    """No search for cycles while the process ends."""
    gc.freeze()
    gc.disable()


@pytest.fixture
def fresh_derivations() -> Generator[None, None, None]:
    """What a broken rule derived must not reach another test."""
    from tests.forgotten import forget

    forget()
    yield
    forget()
