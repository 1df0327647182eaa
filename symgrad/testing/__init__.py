"""For test-suites: is a backward pass, however it was written, the vᵀJ of the formula it claims to be?

>>> from symgrad.testing import assert_backward
"""

from importlib import import_module
from typing import TYPE_CHECKING

WHERE = {
    "symgrad.testing.check": ("assert_backward", "check_backward"),
    "symgrad.testing.report": ("BackwardReport", "Battery", "Finding"),
}
"""Loaded when first asked for: the pytest plugin lives in this package, and costs nothing where nobody uses it."""

__all__ = ["BackwardReport", "Battery", "Finding", "assert_backward", "check_backward"]

if TYPE_CHECKING:
    from symgrad.testing.check import assert_backward, check_backward
    from symgrad.testing.report import BackwardReport, Battery, Finding
else:

    def __getattr__(name):
        """The public name ``name``, from its module (PEP 562)."""
        for module, names in WHERE.items():
            if name in names:
                found = globals()[name] = getattr(import_module(module), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        """What a prompt offers."""
        return sorted(__all__)
