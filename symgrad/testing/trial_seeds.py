"""Tolerances of gradients, the effect of rounding, and the seeds with which a backward is tested.

Comes in: the candidate's dtype; a program with its values; the shapes of the outputs. Goes out: a `GradientTolerance`,
vᵀJ with noise, and `Weights`. An entry of vᵀJ is a sum whose rounding error is measured relative to Σ|v|·|J|: a sum
that cancels has no more digits than its terms. In low precision a candidate's error may be twice that of torch's own
backward. The noise perturbs forward values, and each local pullback relative to the sum of the magnitudes of its terms:
1 − tanh² has few digits where tanh is near 1, however it is computed.

Ones alone miss errors: 1ᵀJ is 0 for softmax and layer norm, so a backward that ignores v passes. So the seeds include
every row of a small J, weights that mix rows, zeros, and a v of the left null space of J; the last two must give zeros.
Integers alone miss errors, too: a backward that rounds, casts or clips v gives the same for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.calculus import local_pullback
from symgrad.calculus.local_derivatives import SEED
from symgrad.errors import SymgradError
from symgrad.indexing import Equation
from symgrad.language.dtypes import to_bfloat16
from symgrad.numeric import Array, Values, as_float, evaluate
from symgrad.numeric.sparse import terms_of
from symgrad.numeric.vector_products import Pull, Read
from symgrad.oracles.numerical import perturbed, rounding_noise
from symgrad.program import Apply, Program

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ALLOWED = {"float64": 1e-9, "float32": 2.0**-17, "float16": 2.0**-7, "bfloat16": 2.0**-4}
"""Tolerances relative to Σ|v|·|J|: 64 or 8 ulps; for float64 enough for a chain of ill-conditioned functions."""
LEAST = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
"""The smallest normal numbers."""
LARGEST = {"float64": np.inf, "float32": 2.0**128, "float16": 2.0**16, "bfloat16": 2.0**128}
"""The smallest powers of two that overflow."""
LOWER = {"float64": ("float32", "bfloat16", "float16"), "float32": ("bfloat16", "float16")}
FACTOR = 2.0
"""The largest allowed ratio of a candidate's error to eager torch's."""
NOTHING = 1e-13
"""A sum below this share of the sum of magnitudes is 0 up to rounding."""
MOST_ROWS = 64
"""The largest number of output entries that are tested row by row."""
SOME = 8
RANK = 1e-9
TIMES = ((1.0,), (-(2.0**12), -(2.0**6), -(2.0**3)), (2.0**-12, 2.0**-6, 2.0**-3))
"""Factors of the random seed; of each group the first whose gradients are in the dtype's range is used."""
SHORTER = (8, 11, 24)
"""Binary digits of bfloat16, float16 and float32."""
ROOM = 64
"""The margin of gradients from the dtype's limits, since intermediate values may be larger."""


@dataclass(frozen=True)
class GradientTolerance:
    """The lowest dtype, the tolerance relative to the scale of a sum, and torch's own relative error.

    ``given``: the tolerance is the user's, and torch's error does not count.
    """

    dtype: str
    share: float
    eager: float | None = None
    given: bool = False

    @property
    def allowed(self) -> float:
        """The tolerance relative to Σ|v|·|J|."""
        return self.beside(self.eager or 0.0)

    def beside(self, eager: float) -> float:
        """Return the tolerance relative to Σ|v|·|J| if torch's own error is ``eager``."""
        return self.share if self.given else max(self.share, FACTOR * eager)

    def within(self, array: Array) -> Array:
        """Return where numbers do not overflow in the dtype."""
        return np.abs(array) < LARGEST.get(self.dtype, np.inf)

    def ulps(self, gap: float, scale: float) -> float:
        """Return a difference in ulps of ``scale``."""
        return gap / (EPSILON.get(self.dtype, 2.0**-52) * scale) if scale else 0.0


def coarsest_tolerance(dtypes: Sequence[str], tolerance: float | None, floor: float) -> GradientTolerance:
    """Return the tolerance for the lowest of the dtypes; ``tolerance`` is the user's, ``floor`` the reference's."""
    coarsest = max(dtypes, key=lambda dtype: EPSILON.get(dtype, 1.0), default="float64")
    share = ALLOWED.get(coarsest, 1e-9) if tolerance is None else tolerance
    return GradientTolerance(coarsest, max(share, floor) if tolerance is None else share, given=tolerance is not None)


def cast_to(array: Array, dtype: str) -> Array:
    """Round an array to a lower dtype, and return it as float64."""
    with np.errstate(over="ignore"):
        return to_bfloat16(array) if dtype == "bfloat16" else array.astype(dtype).astype(np.float64)


def shaken_pull(program: Program, values: Values, name: str, share: float, number: int) -> Callable[[Array], Array]:
    """Return a function from seeds to vᵀJ of one input with noise of generator ``number``; values move once."""
    point = values.with_arrays(perturbed(values.arrays, number, share))
    sweep = Pull(program, point, [name])

    def sizes(step: Apply, program: Program, values: Values, cotangent: Array, place: int) -> Array:
        return term_magnitudes(sweep.known[step.result.name], cotangent, place)

    def pulled(seed: Array) -> Array:
        sweep.hook = rounding_noise(program, point, share, number, sizes)
        return as_float(sweep.back({program.output: seed})[name])

    return pulled


def cancelling_step(program: Program, values: Values, seed: Array, name: str) -> Apply | None:
    """Return the last step whose cotangent cancels to 0 for a seed, on the path to one input, or None."""
    found: list[Apply] = []

    def seen(step: Apply, place: int, cotangent: Array, part: Array) -> None:
        sizes = term_magnitudes(sweep.known[step.result.name], as_float(cotangent), place)
        if sizes.any() and np.abs(as_float(part)).max() <= NOTHING * sizes.max():
            found.append(step)

    sweep = Pull(program, values, [name], hook=seen)
    if any(t.name == name for t in program.inputs):
        sweep.back({program.output: seed})
    return found[0] if found else None


def term_magnitudes(read: Read, cotangent: Array, place: int) -> Array:
    """Return Σ |terms| of one local pullback for each entry; 0 if it cannot be evaluated.

    A hand-written backward may cancel inside one step, as 1 − tanh² does where tanh is flat.
    """
    form, arrays, sizes = read
    try:
        equation = local_pullback(form.key, place)
        terms = Equation(equation.axes, terms_of(equation.right))
        return np.abs(as_float(evaluate(terms, {**arrays, SEED: cotangent}, sizes)))
    except SymgradError:
        return np.zeros(())


@dataclass(frozen=True, eq=False)
class Weights:
    """A seed for each output, and their name."""

    name: str
    seeds: tuple[Array, ...]
    basic: bool = False
    """Whether the seed is a basis vector."""


def integer_seeds(shapes: Sequence[tuple[int, ...]], number: int) -> Iterator[Weights]:
    """Iterate over random integers of generator ``number``, the basis (a sample if it is large), zeros and ones."""
    generator = np.random.default_rng(number)
    yield Weights("random integers", tuple(drawn_integers(generator, shape, 4) for shape in shapes))
    sizes = [int(np.prod(shape, dtype=object)) for shape in shapes]
    places = [(n, at) for n, shape in enumerate(shapes) for at in range(sizes[n])]
    if len(places) > MOST_ROWS:
        chosen = generator.choice(len(places), size=SOME, replace=False)
        places = [places[int(n)] for n in sorted(chosen)]
    for n, at in places:
        found = tuple(np.zeros(shape) for shape in shapes)
        found[n].reshape(-1)[at] = 1.0
        where = ",".join(str(int(i)) for i in np.unravel_index(at, shapes[n])) if shapes[n] else ""
        which = f"output {n + 1}: " if len(shapes) > 1 else ""
        yield Weights(f"{which}onehot({where})" if where else f"{which}1", found, True)
    yield Weights("zeros", tuple(np.zeros(shape) for shape in shapes))
    if sum(sizes) > MOST_ROWS:
        yield Weights("ones", tuple(np.ones(shape) for shape in shapes))


def drawn_integers(generator: np.random.Generator, shape: tuple[int, ...], largest: int) -> Array:
    """Draw nonzero integers, since a weight 0 hides errors."""
    found = generator.integers(-largest, largest + 1, size=shape)
    return np.where(found == 0, largest + 1, found).astype(np.float64)


def real_seeds(
    shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str], number: int, coarsest: str, reach: float
) -> Iterator[Weights]:
    """Iterate over random floats with all digits of the dtypes, and their multiples; ``reach`` is max Σ|J|."""
    generator = np.random.default_rng(number + 4)
    low, high = ROOM * LEAST.get(coarsest, 0.0), LARGEST.get(coarsest, np.inf) / ROOM
    drawn = [drawn_digits(generator, shape) * generator.choice((-1.0, 1.0), shape) for shape in shapes]
    for sizes in TIMES:
        size = next((s for s in sizes if not reach or low <= abs(s) * reach <= high), 0.0)
        if size:
            told = tuple(size * cast_to(a, dtype) for a, dtype in zip(drawn, dtypes, strict=True))
            by = "" if size == 1 else f" times {size:g}" if abs(size) > 1 else f" divided by {1 / size:g}"
            yield Weights(f"random numbers{by}", told)


def drawn_digits(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw numbers from 0.25 to 2 that a cast to a lower dtype changes by at least a quarter of its last place."""
    found: Array = np.zeros(shape)
    near: Array = np.ones(shape, dtype=bool)
    while near.any():
        found = np.where(near, generator.uniform(0.25, 2.0, shape), found)
        parts = [np.frexp(found)[0] * 2.0**digits for digits in SHORTER]
        near = np.any([np.abs(part - np.rint(part)) < 0.25 for part in parts], axis=0)
    return found


def null_seed(rows: Mapping[str, Array], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> Weights | None:
    """Return a v with vᵀJ = 0 up to rounding, from the rows of J of every input; None if there is only 0."""
    flat = [array.reshape(len(array), -1) for array in rows.values()]
    matrix = np.concatenate(flat, 1) if flat else np.zeros((0, 0))
    if not matrix.size or not np.isfinite(matrix).all():
        return None
    left, singular, _ = np.linalg.svd(matrix)
    rank = int((singular > RANK * max(1.0, singular.max(initial=0.0))).sum())
    if rank >= len(matrix):
        return None
    vector, parts, begin = left[:, -1], [], 0
    vector = vector / np.abs(vector).max()
    for shape, dtype in zip(shapes, dtypes, strict=True):
        size = int(np.prod(shape, dtype=object))
        parts.append(cast_to(vector[begin : begin + size].reshape(shape), dtype))
        begin += size
    return Weights("a v with vᵀJ = 0", tuple(parts))
