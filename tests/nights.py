"""What of a test's examples the slow tests run, and what is left to the night."""

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def numbers(slow: Iterable[Any], night: Iterable[Any]) -> list[ParameterSet]:
    """Parameters, as a rule numbers of parts: the slow tests run the first ones, ``pytest -m night`` the others."""
    return [
        *(pytest.param(number, marks=pytest.mark.slow) for number in slow),
        *(pytest.param(number, marks=pytest.mark.night) for number in night),
    ]
