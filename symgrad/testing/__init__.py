"""For test-suites: is a backward pass, however it was written, the vᵀJ of the formula it claims to be?

>>> from symgrad.testing import assert_backward
"""

from symgrad.testing.backward import Mismatch, Report, assert_backward, check_backward

__all__ = ["Mismatch", "Report", "assert_backward", "check_backward"]
