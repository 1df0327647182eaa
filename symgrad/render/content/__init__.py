"""An explanation as a page: what is said, in which order, in which words. How it looks is the writers' business.

Comes in: an `Explanation` (or, for `symgrad derive`, a program and its formulas). Goes out: a `Page`. This is
the only place that knows the words, so that the writers need not repeat them.
"""

from symgrad.render.content.second_order import second_order_section
from symgrad.render.content.whole import derivation_page, derivatives, lines_of, page_of, pullbacks

__all__ = ["derivation_page", "derivatives", "lines_of", "page_of", "pullbacks", "second_order_section"]
