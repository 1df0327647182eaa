"""The example of the forum, explained once for all tests of a process."""

from functools import lru_cache

import symgrad
from symgrad import Explanation

SEED = [[1, 2, 3, 4], [5, 6, 7, 8]]


@lru_cache
def forum() -> Explanation:
    return symgrad.explain("x@a", seed=SEED)
