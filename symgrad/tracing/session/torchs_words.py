"""What torch says where it refuses a backward: the one place that reads its English.

Comes in: an exception. Goes out: which refusal it is, or None. The words are those of the torch versions that are
tested; a test makes torch say each of them.
"""

from __future__ import annotations

from enum import Enum


class Refusal(Enum):
    """A part of torch's message that no other refusal has."""

    COMPLEX_OUTPUT = "only for real scalar"
    NO_SEED = "implicitly created only for scalar"
    OTHER_SHAPE = "Mismatch in shape"
    NO_TENSOR = "grad_output"
    SECOND_TIME = "second time"
    OVERWRITTEN = "inplace operation"
    NO_PATH = "does not require grad"
    UNUSED = "not have been used in the graph"
    MISCOUNTED = "incorrect number of gradients"
    SHARED_MEMORY = "refers to a single memory location"


def refusal_of(error: Exception) -> Refusal | None:
    """The refusal that an exception's message is."""
    message = str(error)
    return next((refusal for refusal in Refusal if refusal.value in message), None)


__all__ = ["Refusal", "refusal_of"]
