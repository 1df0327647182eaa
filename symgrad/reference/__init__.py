"""A text of Python run over torch's tensors as Python runs it: what is called torch's answer is the answer to the text.

Comes in: the text as it was typed, and a tensor for each input. Goes out: the output with its graph, or why there is
none: torch's own words where torch or Python refuses the text, and ours where the text is not read here. Nothing of
symgrad is used, so that a mistake in reading a text is not made twice. Nothing is handed to ``eval``: a whitelist of
syntax is walked (`reader`), words are looked up in a whitelist (`words`), and what a call would cost is found out on
``device="meta"`` before it is made (`bounds`).
"""

from symgrad.reference.bounds import Refused, Unread
from symgrad.reference.reader import Answer, run

__all__ = ["Answer", "Refused", "Unread", "run"]
