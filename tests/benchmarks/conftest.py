"""After a run of the benchmarks that measured ratios: the table, printed and written as a page."""

from __future__ import annotations

import pytest

from tests.benchmarks import ratios


def pytest_sessionfinish(session: pytest.Session) -> None:
    if ratios.FOUND.rows and ratios.FOUND.growth:
        page = ratios.written(ratios.FOUND)
        print(f"\n{page}")
        ratios.PAGE.write_text(page, encoding="utf-8")
