"""Where the processor time of the tests goes, by file and by test: ``python -m pytest -p tests.processor_time``.

A plugin of pytest. Each process measures what its tests used, and the processes that they began and waited for; the
reports carry it to the one that prints. What no test used is reading the test files and the libraries: once a process.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

SECONDS = "processor seconds"
SHOWN = 25
"""How many files are printed, and how many tests: those that used most."""
by_file, by_test = Counter[str](), Counter[str]()
at_last = 0.0


def used() -> float:
    """The processor time of this process and of those it waited for, in seconds."""
    return time.process_time() + sum(os.times()[2:4])


def pytest_runtest_logstart() -> None:
    """Before each test."""
    global at_last
    at_last = used()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """After each of its phases."""
    global at_last
    report = yield
    now = used()
    report.user_properties.append((SECONDS, now - at_last))
    at_last = now
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """In the process that prints: an example counts for its test, and that for its file."""
    seconds = sum(value for name, value in report.user_properties if name == SECONDS)
    test = report.nodeid.partition("[")[0].partition("@")[0]  # behind it xdist has the group
    by_test[test] += seconds
    by_file[test.partition("::")[0]] += seconds


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The sums, when all has been run and the other processes have ended."""
    whole, tests = used(), sum(by_file.values())
    write = terminalreporter.write_line
    write(f"{whole:.0f} s of processor time: {tests:.0f} s in tests, {whole - tests:.0f} s to read files and libraries")
    for sums in (by_file, by_test):
        for name, seconds in sums.most_common(SHOWN):
            write(f"{seconds:8.1f} s  {name}")
