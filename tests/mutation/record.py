"""Which tests run which changed lines, so that a change is told by those tests alone instead of by the whole suite.

The default tests run once in one process, without any change. Before the statement of each change that was drawn stands
a call that notes its number; a test is given the numbers noted while it ran. What it did not run itself but was
remembered from an earlier test (``functools.cache``, a fixture of a whole file, what a file computes when it is read)
counts for it too: whoever is handed a remembered value is handed the numbers that were noted when it was made. A change
in what runs on import concerns every test. A test that starts a process, or reads the source as text, is asked about
every change, since nothing is noted there. SymPy's own caches are left as they are: a value that only they remember is
the one thing that could be missed.

In: the changes and a copy of the tree, in a process that has not imported symgrad. Out: a file of JSON.
"""

from __future__ import annotations

import ast
import builtins
import functools
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

NOTE = "__changed__"
"""What the call that notes a number is called, among the builtins."""
APART = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")
"""Events of Python's after which something runs that is not noted here."""
OURS = ("symgrad", "symgrad_cli", "tests", "test_", "conftest")
"""Whose remembered values are followed."""
PARTS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements stand in a statement."""


def statement(body: list[Any], line: int, inside: bool = False) -> tuple[list[Any], Any] | None:
    """The innermost statement at ``line`` with the list that it stands in; None outside every function."""
    for node in body:
        lines = [part.lineno for part in ast.walk(node) if hasattr(part, "lineno")]
        if not lines or not min(lines) <= line <= max(getattr(p, "end_lineno", 0) or 0 for p in ast.walk(node)):
            continue
        within = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in PARTS:
            if found := statement(getattr(node, part, []), line, within):
                return found
        return (body, node) if inside and isinstance(node, ast.stmt) else None
    return None


def with_notes(text: str, changes: Iterable[tuple[int, int]]) -> tuple[ast.Module, set[int]]:
    """The tree of ``text`` that notes each ``(number, line)`` before it runs; the numbers of what runs on import."""
    tree, found, on_import = ast.parse(text), [], set[int]()
    for number, line in changes:
        if place := statement(tree.body, line):
            found.append((number, *place))
        else:
            on_import.add(number)
    for number, body, node in found:
        call = ast.Call(ast.Name(NOTE, ast.Load()), [ast.Constant(number)], [])
        body.insert(next(n for n, other in enumerate(body) if other is node), ast.copy_location(ast.Expr(call), node))
    return ast.fix_missing_locations(tree), on_import


class Recomputed(functools.cached_property):
    """A property that is remembered nowhere."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Its value."""
        return self if instance is None else self.func(instance)


class Record:
    """A plugin of pytest, and what stands in for the caches and the reader of modules while the tests are recorded."""

    def __init__(self, root: Path, changes: Sequence[dict[str, Any]]) -> None:
        self.root = root
        self.noted: set[int] = set()  # by what runs now: a change, or -1 - the place of a remembered value in `values`
        self.values: list[frozenset[int]] = []
        self.places: dict[frozenset[int], int] = {}
        self.everywhere: set[int] = set()
        self.below: dict[str, set[int]] = defaultdict(set)  # noted for all tests of a file or folder
        self.tests: dict[str, set[int]] = {}
        self.seconds: dict[str, float] = {}
        self.apart: set[str] = set()
        self.red: set[str] = set()
        self.now: str | None = None
        self.reading = False
        self.changes: dict[Path, list[tuple[int, int]]] = defaultdict(list)
        for change in changes:
            self.changes[root / change["path"]].append((change["number"], change["first"]))

    @contextmanager
    def apart_from(self, kept: set[int] | None = None) -> Generator[set[int]]:
        """Note what runs inside in a set of its own."""
        above, self.noted = self.noted, set() if kept is None else kept
        try:
            yield self.noted
        finally:
            self.noted = above

    def value(self, noted: set[int]) -> int:
        """The number that stands for all of ``noted``."""
        key = frozenset(noted)
        if key not in self.places:
            self.places[key] = len(self.values)
            self.values.append(key)
        return -1 - self.places[key]

    # --- what is replaced

    def install(self) -> None:
        """Stand in for ``cache``, ``lru_cache``, ``cached_property`` and the reader of modules, from now on."""
        lru_cache, get_code, exec_module = functools.lru_cache, SourceFileLoader.get_code, SourceFileLoader.exec_module

        def cached(maxsize: Any = 128, typed: bool = False) -> Any:
            if callable(maxsize):
                return self.remembered(maxsize) if maxsize.__module__.startswith(OURS) else lru_cache(maxsize)
            return lambda f: self.remembered(f) if f.__module__.startswith(OURS) else lru_cache(maxsize, typed)(f)

        def code(loader: SourceFileLoader, fullname: str) -> Any:
            path = Path(loader.path)
            if path not in self.changes:
                return get_code(loader, fullname)
            self.reading = True
            tree, on_import = with_notes(path.read_text(encoding="utf-8"), self.changes[path])
            self.reading = False
            self.everywhere |= on_import
            return compile(tree, loader.path, "exec", dont_inherit=True)

        def execute(loader: SourceFileLoader, module: Any) -> None:
            if not loader.path.startswith((f"{self.root}/symgrad/", f"{self.root}/cli/")):
                exec_module(loader, module)
                return
            self.reading = True  # of bytecode, and of what it imports
            try:
                with self.apart_from() as noted:
                    exec_module(loader, module)
            finally:
                self.reading = False
            self.everywhere |= self.all_of(noted)

        functools.lru_cache, functools.cache = cached, lambda function: cached(function)
        functools.cached_property = Recomputed
        SourceFileLoader.get_code, SourceFileLoader.exec_module = code, execute
        setattr(builtins, NOTE, lambda number: self.noted.add(number))
        sys.addaudithook(self.audit)

    def remembered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``functools.cache`` that remembers what was noted too; it forgets nothing."""
        known: dict[Any, tuple[Any, int | None]] = {}
        counts = [0, 0]

        @functools.wraps(function)
        def asked(*values: Any, **named: Any) -> Any:
            key = (values, tuple(named.items())) if named else values
            if key in known:
                counts[0] += 1
                result, number = known[key]
            else:
                counts[1] += 1
                above, self.noted = self.noted, set()
                try:
                    result = function(*values, **named)
                except BaseException:
                    above |= self.noted
                    raise
                finally:
                    noted, self.noted = self.noted, above
                number = self.value(noted) if noted else None
                known[key] = result, number
            if number is not None:
                self.noted.add(number)
            return result

        info = functools._CacheInfo
        asked.cache_info = lambda: info(counts[0], counts[1], None, len(known))

        def clear() -> None:
            known.clear()
            counts[:] = 0, 0

        asked.cache_clear = clear
        return asked

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Asked by Python: does the test look at what is not noted?"""
        if self.now is not None and not self.reading:
            ours = event == "open" and str(arguments[0]).startswith((f"{self.root}/symgrad", f"{self.root}/cli"))
            if event in APART or (ours and str(arguments[0]).endswith(".py")):
                self.apart.add(self.now)

    # --- what pytest asks

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: Any) -> Generator[None, Any, Any]:
        """Around the reading of a file."""
        with self.apart_from(self.below[collector.nodeid]):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """Around a fixture: what outlives the test counts for all that could use it."""
        if fixturedef.scope == "function":
            return (yield)
        with self.apart_from(self.below[fixturedef.baseid]):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, Any, Any]:
        """Around a test."""
        self.now, begun = item.nodeid, time.process_time()
        with self.apart_from() as noted:
            result = yield
        self.tests[item.nodeid], self.seconds[item.nodeid] = noted, round(time.process_time() - begun, 3)
        self.now = None
        return result

    def pytest_runtest_logreport(self, report: Any) -> None:
        """After each phase of a test."""
        if report.failed:
            self.red.add(report.nodeid)

    # --- what comes out

    def all_of(self, noted: Iterable[int]) -> set[int]:
        """The changes in ``noted``, and in the remembered values there."""
        found, open_ones = set[int](), list(noted)
        while open_ones:
            number = open_ones.pop()
            if number not in found:
                found.add(number)
                open_ones += self.values[-1 - number] if number < 0 else ()
        return {number for number in found if number >= 0}

    def write(self, output: Path) -> None:
        """Write which changes each test runs, in seconds' order; those apart, and those of every test."""
        below = {node: self.all_of(noted) for node, noted in self.below.items()}
        tests = {}
        for name in sorted(self.tests, key=self.seconds.__getitem__):
            around = [noted for node, noted in below.items() if name.startswith(node)]
            tests[name] = {"seconds": self.seconds[name], "runs": sorted(self.all_of(self.tests[name]).union(*around))}
        found = {"everywhere": sorted(self.everywhere), "apart": sorted(self.apart), "red": sorted(self.red)}
        output.write_text(json.dumps({**found, "tests": tests}), encoding="utf-8")
