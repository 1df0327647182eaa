"""After a run of the benchmarks that measured ratios: the table, printed and written as a page.

pytest's cache keeps the ratios of the last runs on this machine, so that the page says how far they lie apart.
"""

from __future__ import annotations

import pytest

from tests.benchmarks import ratios

KEPT = "symgrad/benchmarks"
RUNS = 5


def pytest_sessionfinish(session: pytest.Session) -> None:
    if ratios.FOUND.rows and ratios.FOUND.growth:
        cache = session.config.cache
        before = cache.get(KEPT, []) if cache is not None else []
        runs = [*before, ratios.own_times(ratios.FOUND)][-RUNS:]
        if cache is not None:
            cache.set(KEPT, runs)
        page = ratios.written(ratios.FOUND, runs)
        print(f"\n{page}")
        ratios.PAGE.write_text(page, encoding="utf-8")
