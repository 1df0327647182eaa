"""Finding an operation by the way somebody spelled it.

Comes in: ``torch.nn.functional.softmax``, ``F.softmax``, ``np.exp``, ``softmax``, ``Tensor.softmax``.
Goes out: the entry, or the spellings that come close.
"""

from __future__ import annotations

import difflib

from symgrad.entries.spec import COMPOUND_SPELLINGS, SPELLINGS, Op

TORCHS = ("torch.", "F.", "Tensor.")
"""What a spelling begins with that torch has; what is NumPy's, or ATen's, it has not in these words."""
PREFIXES = {
    "torch.nn.functional.": "F.",
    "nn.functional.": "F.",
    **dict.fromkeys(("numpy.", "jnp.", "jax.numpy."), "np."),
    "torch.Tensor.": "Tensor.",
}


def normal(spelling: str) -> str:
    """``spelling`` with the long module prefixes shortened."""
    for long, short in PREFIXES.items():
        if spelling.startswith(long):
            return short + spelling.removeprefix(long)
    return spelling


def find(spelling: str) -> Op | None:
    """The entry spelled so, or None. A spelling without a module is tried as torch's, F's, a method's, NumPy's."""
    spelling = normal(spelling)
    if spelling in SPELLINGS:
        return SPELLINGS[spelling]
    if "." not in spelling:
        for prefix in ("torch.", "F.", "Tensor.", "np.", "torch.linalg.", "torch.fft."):
            if prefix + spelling in SPELLINGS:
                return SPELLINGS[prefix + spelling]
    return None


def close(spelling: str, limit: int = 3) -> list[str]:
    """Spellings that come close to one that nothing knows."""
    spelling, known = normal(spelling), [*SPELLINGS, *sorted(COMPOUND_SPELLINGS)]
    if "." in spelling:
        module, _, word = spelling.rpartition(".")
        candidates = {s.rpartition(".")[2]: s for s in known if s.startswith(module + ".")}
        candidates = candidates or {s.rpartition(".")[2]: s for s in known}
    else:
        word, candidates = spelling, {s.rpartition(".")[2]: s.rpartition(".")[2] for s in known}
    return [candidates[w] for w in difflib.get_close_matches(word.lower(), sorted(candidates), n=limit, cutoff=0.6)]
