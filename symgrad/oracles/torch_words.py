"""A call that a text makes and that symgrad says in several steps, answered by torch's own function.

Comes in: the call as it is written, and the tensors before it. Goes out: torch's result. Each of the steps agrees with
torch by itself, and yet the whole may have another rule where they meet: ``torch.clamp(x, lo, hi)`` where lo = hi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from symgrad.entries.equations import path_of, plain
from symgrad.ops.lookup import TORCHS
from symgrad.program import Program, Read, Written
from symgrad.shapes import Size, with_numbers

SAME = 1e-9
"""How near two vectors are, but for their signs."""
REFUSALS = (RuntimeError, LookupError, ValueError, TypeError, AssertionError, ArithmeticError)
"""What torch's own calls raise: an assertion of F.embedding's, a division by 0 of F.lp_pool2d's."""


def in_its_own_words(call: Written, tensors: Mapping[str, Any], steps: Any, sizes: Mapping[Size, int]) -> Any:
    """What torch makes of ``call``; ``steps``, their result, where it does not take it so, or gives another shape.

    Texts are wider than torch: options in NumPy's words, numbers for tensors, positions that are inputs.
    """
    import torch

    if not call.spelled.startswith(TORCHS):
        return steps
    function: Any = torch
    for part in path_of(call.spelled):
        function = getattr(function, part, None)

    def given(value: Any) -> Any:
        if isinstance(value, Read):
            return tensors[value.name].to(getattr(torch, value.kind)) if value.kind != "float" else tensors[value.name]
        if isinstance(value, tuple):
            return tuple(map(given, value))
        return plain(with_numbers(value, sizes) if hasattr(value, "free_symbols") else value)

    try:
        found = function(*map(given, call.arguments), **{key: given(value) for key, value in call.keywords})
        found = found if call.place is None else found[call.place]
    except (*REFUSALS, AttributeError):  # of a number where torch takes a tensor
        return steps
    if not isinstance(found, torch.Tensor) or found.shape != steps.shape or found.is_complex():
        return steps
    return found.to(steps.dtype)


def turned(found: Any, steps: Any) -> bool:
    """Whether vectors that torch ``found`` are those of ``steps``, some with the other sign."""
    import torch

    near = [
        torch.allclose(one, other, rtol=SAME, atol=SAME) for one, other in ((found, steps), (found.abs(), steps.abs()))
    ]
    return near == [False, True]


def in_torch(program: Program, names: Sequence[str]) -> Iterator[str]:
    """Tensors that torch has too: in place of one that is within a call of torch's own, what that call reads."""
    for name in names:
        calls = [call for result, call in program.written.items() if name in program.within(result)]
        yield from calls[0].reads if calls else (name,)
