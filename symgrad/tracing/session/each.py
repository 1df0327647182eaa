"""A captured program's sweeps with one seed and one result for each output, however many there are.

`Capture.pullback` takes the bare seed of a single output, as ``backward(v)`` does; stories go over all outputs alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.numeric import Array
from symgrad.tracing.captured.capture import Capture


def pulled(program: Capture, seeds: Sequence[Any]) -> dict[str, Any]:
    """The gradients by input, for one seed for each output."""
    return program.pullback(seeds if len(seeds) > 1 else seeds[0])


def pushed(program: Capture, tangents: Mapping[str, Any]) -> list[Array]:
    """How each output changes."""
    found = program.pushforward(tangents)
    return list(found) if isinstance(found, tuple) else [found]
