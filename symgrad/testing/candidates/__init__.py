"""The interface of a candidate: it runs forward, and then computes vᵀJ for any number of seeds.

Nothing here uses torch. Goes out: the data classes that `symgrad.testing.candidates.tensors` (torch) and
`symgrad.testing.requests` (pairs of NumPy functions) return, with float64 arrays. Exceptions and printed output of the
candidate are part of the result. A `MemoryLayout` is one of the layouts of equal values: ``.sum()`` passes strides 0, a
transpose reversed strides, ``cat`` and slices those of a wider tensor; NumPy and torch create the same view of a
`StridedBuffer`.
"""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from symgrad.errors import file_or_cell_name
from symgrad.numeric import Array

JUNK = 97.0
"""What lies between the entries of a view: code that reads by its own idea of the strides shows it."""
OURS = str(Path(__file__).resolve().parent.parent)
LONGEST = 200
Seeds = Sequence[Array | None]
"""One for each output; None for one that does not count."""


@dataclass(frozen=True, eq=False)
class StridedBuffer:
    """A flat buffer and how a tensor lies in it, strides and offset counted in entries."""

    buffer: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def view(self, dtype: np.dtype[np.generic]) -> Array:
        """The tensor as NumPy sees it."""
        flat = self.buffer.astype(dtype)
        bytes_of = tuple(stride * flat.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, bytes_of)


@dataclass(frozen=True)
class MemoryLayout:
    """How the entries of a tensor may be placed in memory, if the tensor ``fits``."""

    name: str
    place: Callable[[Array], StridedBuffer]
    fits: Callable[[Array], bool] = lambda array: True

    def values(self, array: Array) -> Array:
        """The values that a tensor has in this layout: a stride of 0 repeats entries."""
        return self.place(array).view(np.dtype(np.float64)).copy()

    def lying(self, label: str, array: Array) -> str:
        """How a tensor lies in memory, in words."""
        placed = self.place(array)
        return f"{label} {self.name} (strides {placed.strides}, offset {placed.offset})"


def ordered(array: Array, order: tuple[int, ...]) -> StridedBuffer:
    """Axes stored in ``order``, the last of them next to each other."""
    moved = np.ascontiguousarray(array.transpose(order))
    strides = [0] * array.ndim
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(1, array.shape[axis])
    return StridedBuffer(moved.reshape(-1), array.shape, tuple(strides))


def column_major(array: Array) -> StridedBuffer:
    """The first axis fastest; a vector at every other place."""
    if array.ndim > 1:
        return ordered(array, tuple(reversed(range(array.ndim))))
    buffer = np.full(2 * array.size, JUNK)
    buffer[::2] = array
    return StridedBuffer(buffer, array.shape, (2,))


def padded_columns(array: Array) -> StridedBuffer:
    """Rows of a tensor with two more columns, of which these are the middle ones."""
    padded = np.full((*array.shape[:-1], array.shape[-1] + 2), JUNK)
    padded[..., 1:-1] = array
    strides = tuple(stride // padded.itemsize for stride in padded.strides)
    return StridedBuffer(padded.reshape(-1), array.shape, strides, 1)


def contiguous(array: Array) -> StridedBuffer:
    """Row by row."""
    return ordered(array, tuple(range(array.ndim)))


def at_an_offset(array: Array) -> StridedBuffer:
    """Contiguous, but not at the beginning of its storage."""
    plain = contiguous(array)
    return StridedBuffer(np.concatenate([np.full(3, JUNK), plain.buffer]), array.shape, plain.strides, 3)


def expanded_along(array: Array, axes: tuple[int, ...]) -> StridedBuffer:
    """Stored once along ``axes``."""
    picked = array[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(array.ndim))]
    plain = contiguous(picked)
    return StridedBuffer(plain.buffer, array.shape, tuple(0 if a in axes else s for a, s in enumerate(plain.strides)))


LAYOUTS = (
    MemoryLayout("transposed", column_major),
    MemoryLayout("expanded, as .sum() sends it", lambda a: expanded_along(a, tuple(range(a.ndim)))),
    MemoryLayout(
        "expanded along axis 0, as .sum(0) sends it", lambda a: expanded_along(a, (0,)),
        lambda a: a.ndim > 1 and a.shape[0] > 1 < a.size // a.shape[0],
    ),
    MemoryLayout("a slice of a wider tensor, as cat sends it", padded_columns, lambda a: a.ndim > 1),
    MemoryLayout("at an offset in its storage", at_an_offset),
    MemoryLayout("channels last", lambda a: ordered(a, (0, 2, 3, 1)), lambda a: a.ndim == 4),
)  # fmt: skip


@dataclass
class Heard:
    """What a block raised (in words, with the line of the candidate) and printed."""

    failure: str = ""
    printed: str = ""


class listening:  # noqa: N801  # read as a verb: with listening() as heard
    """Keep what the block raises and prints; warnings are nobody's business here."""

    def __enter__(self) -> Heard:
        self.heard, self.before = Heard(), (sys.stdout, sys.stderr)
        self.out = sys.stdout = sys.stderr = io.StringIO()
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")
        return self.heard

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.warnings.__exit__(None, None, None)
        sys.stdout, sys.stderr = self.before
        self.heard.printed = self.out.getvalue()
        if not isinstance(error, (Exception, SystemExit)):
            return False
        self.heard.failure = describe_exception(error)  # whatever a candidate does
        return True


def describe_exception(error: BaseException) -> str:
    """``raises KeyError: 'weight' (kernel.py:12)``."""
    first = (str(error).strip().splitlines() or [""])[0][:LONGEST]
    place = innermost_own_line(error)
    return f"raises {type(error).__name__}: {first}".rstrip(": ") + (f" ({place})" if place else "")


def innermost_own_line(error: BaseException) -> str:
    """The innermost line that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((OURS, "<")) and "site-packages" not in f.filename]
    return f"{file_or_cell_name(own[-1].filename)}:{own[-1].lineno}" if own else ""


@dataclass(frozen=True)
class Meta:
    """What is known of a tensor without its entries."""

    shape: tuple[int, ...]
    dtype: str
    device: str = "cpu"


@dataclass(frozen=True, eq=False)
class ReturnedGradients:
    """What one backward handed to the engine, before that repairs it, and what it should be; None: no gradient.

    ``wanted`` has an entry for each argument of the forward pass; ``names`` say what is known of them.
    """

    function: str
    got: tuple[Meta | None, ...]
    wanted: tuple[Meta | None, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Mutation:
    """Something that a candidate wrote into: ``what`` is v, an input, or a saved tensor; and an entry of it."""

    kind: str
    what: str
    where: str
    before: float
    after: float


def array_mutations(
    kind: str, where: str, before: Mapping[str, Array], after: Mapping[str, Array | None]
) -> tuple[Mutation, ...]:
    """The first entry of each array that is no longer what it was; of what is None now nothing is said."""
    pairs = ((what, was, after[what]) for what, was in before.items())
    found = (None if now is None else first_mutation(kind, what, where, was, now) for what, was, now in pairs)
    return tuple(change for change in found if change is not None)


def first_mutation(kind: str, what: str, where: str, before: Array, after: Array) -> Mutation | None:
    """The first entry of an array that is no longer what it was; None where there is none."""
    if before.shape != after.shape:
        return Mutation(kind, what, where, float("nan"), float("nan"))
    differ = np.argwhere((before != after) & ~((before != before) & (after != after)))
    if not len(differ):
        return None
    at = tuple(int(i) for i in differ[0])
    place = f"{what}[{','.join(map(str, at))}]" if at else what
    return Mutation(kind, f"{where}: {place}", what, float(before[at]), float(after[at]))


@dataclass(frozen=True, eq=False)
class PullResult:
    """One call of backward: a gradient for each input (None: none came), or why there are none."""

    gradients: Mapping[str, Array | None] = field(default_factory=dict)
    failure: str = ""
    printed: str = ""
    changes: tuple[Mutation, ...] = ()
    returned: tuple[ReturnedGradients, ...] = ()
    functions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variation:
    """How a run differs from the plain one: other numbers, other layouts, other inputs that require a gradient."""

    values: Mapping[str, Array] = field(default_factory=dict, hash=False)
    layouts: Mapping[str, MemoryLayout] = field(default_factory=dict, hash=False)
    required: frozenset[str] | None = None
    double: bool = False


PLAIN = Variation()


class CandidateRun(Protocol):
    """One forward pass."""

    outputs: tuple[Array, ...]
    dtypes: tuple[str, ...]
    failure: str
    printed: str
    changes: tuple[Mutation, ...]
    cut: tuple[bool, ...]

    def pull(self, seeds: Seeds, layouts: Sequence[MemoryLayout | None] = (), watched: bool = False) -> PullResult:
        """vᵀJ by the candidate's own backward, each seed in a layout; ``watched``: what it writes and returns, too."""

    def accumulated(self, seeds: Seeds) -> PullResult | None:
        """What backward adds to a ``.grad`` that holds ones already; None where there is no such thing."""
        return None


class Candidate(Protocol):
    """A forward and a backward pass; ``names`` are the inputs that are differentiated, in order."""

    names: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    masks: bool
    spent: str

    def run(self, variation: Variation = PLAIN) -> CandidateRun:
        """The forward pass on fresh copies of the inputs."""

    def pushed(self, name: str, tangent: Array) -> tuple[Array, ...] | str | None:
        """Ju by the candidate's own forward mode; None where it has none, text where it raises."""
        return None

    def second(self, name: str, seeds: Seeds, weights: Array) -> PullResult:
        """The derivative of Σ weights·(gradient by ``name``) by every input; ``failure`` where there is none."""
        return PullResult({}, "there is no graph to differentiate again")
