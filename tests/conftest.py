"""Hypothesis profiles: what is tested before a change lands must not depend on luck.

``main`` draws the same examples in every run, so that a red run is the change's own doing. ``nightly`` draws
new ones, many of them, to find what nobody thought of: ``pytest --hypothesis-profile=nightly``.
"""

from hypothesis import settings

# No deadline in either: the first example pays for SymPy's caches, and workers share the cores.
settings.register_profile("main", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("main")

collect_ignore_glob = ["corpus/*", "mutation/*"]
"""Scripts and a command: looking for examples in docstrings would run the ones and load the other's libraries."""
