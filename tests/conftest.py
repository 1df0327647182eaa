"""What is tested by default, and with which examples.

Hypothesis: what is tested before a change lands must not depend on luck. ``main`` draws the same examples in every run,
so that a red run is the change's own doing. ``nightly`` draws new ones, many of them, to find what nobody thought of:
``pytest --hypothesis-profile=nightly``.

``one_in(n)``: of a test's many examples one in n is run by default, and the others are slow; at night all are run.
"""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import settings

# No deadline in either: the first example pays for SymPy's caches, and workers share the cores.
settings.register_profile("main", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("main")

collect_ignore_glob = ["corpus/*", "mutation/*"]
"""Scripts and a command: looking for examples in docstrings would run the ones and load the other's libraries."""


def by_default(number: int, every: int) -> bool:
    """Whether the example with this number runs by default, as one in ``every``.

    One of each ``every`` in a row, at another place in each row: where two parameters are multiplied out, every value of
    both has its turn.
    """
    return number % every == number // every % every


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Mark the other examples of what is ``one_in(n)`` as slow, before pytest looks for what is slow."""
    if settings.get_current_profile_name() == "nightly":
        return
    seen = Counter[str]()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None and item.get_closest_marker("slow") is None:
            test = item.nodeid.partition("[")[0]
            if not by_default(seen[test], *mark.args):
                item.add_marker(pytest.mark.slow)
            seen[test] += 1
