"""How closely two gradients have to agree, what rounding may do to one, and the seeds that a backward is tried with.

Comes in: the type that the candidate computes in; a program with its values; the shapes of the outputs. Goes out: a
`GradientTolerance`, vᵀJ with noise, and `Weights`. An entry of vᵀJ is a sum, and what rounding may do to it is measured
by Σ|v|·|J|: a sum that cancels has no more digits than its terms. In low precision a candidate may be twice as far off
as torch's own backward is. For the noise the forward values are moved, and each local pullback by a share of the sum of
the magnitudes of its terms: 1 − tanh² has few digits where tanh is near 1, however it is computed.

Ones alone are a blind test: 1ᵀJ is 0 for softmax and layer norm, and a backward that ignores v passes it. So there is
every row of J where that is little, and weights that mix rows. Zeros have to give zeros, and so has a v of the left
null space of J. Whole numbers alone are blind, too: a backward that rounds v, casts it to a type with fewer digits,
clips it or drops what is small gives the same for them.
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
"""Relative to Σ|v|·|J|; for float64 what a chain of delicate functions needs, else 64 or 8 ulps."""
LEAST = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
"""Below that a number has fewer digits."""
LARGEST = {"float64": np.inf, "float32": 2.0**128, "float16": 2.0**16, "bfloat16": 2.0**128}
"""What is no smaller is infinite in the type."""
LOWER = {"float64": ("float32", "bfloat16", "float16"), "float32": ("bfloat16", "float16")}
FACTOR = 2.0
"""A candidate may be as many times as far off as eager torch."""
NOTHING = 1e-13
"""Of the sum of magnitudes: less is 0 but for rounding."""
MOST_ROWS = 64
"""Outputs with more entries than this are not tried row by row."""
SOME = 8
RANK = 1e-9
TIMES = ((1.0,), (-(2.0**12), -(2.0**6), -(2.0**3)), (2.0**-12, 2.0**-6, 2.0**-3))
"""What the random seed with all its digits is multiplied by: the first of which the type holds what comes back."""
SHORTER = (8, 11, 24)
"""Binary digits of bfloat16, float16 and float32."""
ROOM = 64
"""How far from the largest and the smallest number of the type gradients have to stay: more may stand on the way."""


@dataclass(frozen=True)
class GradientTolerance:
    """The type that counts, what may be off relative to the scale of a sum, and torch's own error relative to it.

    ``given``: the tolerance is the user's own, and torch's error does not count.
    """

    dtype: str
    share: float
    eager: float | None = None
    given: bool = False

    @property
    def allowed(self) -> float:
        """Relative to Σ|v|·|J|."""
        return self.beside(self.eager or 0.0)

    def beside(self, eager: float) -> float:
        """Relative to Σ|v|·|J|, where torch itself is off by ``eager``."""
        return self.share if self.given else max(self.share, FACTOR * eager)

    def within(self, array: Array) -> Array:
        """Where numbers are not too large for the type."""
        return np.abs(array) < LARGEST.get(self.dtype, np.inf)

    def ulps(self, gap: float, scale: float) -> float:
        """A difference in units of the last place of ``scale``."""
        return gap / (EPSILON.get(self.dtype, 2.0**-52) * scale) if scale else 0.0


def coarsest_tolerance(dtypes: Sequence[str], tolerance: float | None, floor: float) -> GradientTolerance:
    """From the coarsest of the types; ``tolerance`` is the user's own, ``floor`` that of the oracle."""
    coarsest = max(dtypes, key=lambda dtype: EPSILON.get(dtype, 1.0), default="float64")
    share = ALLOWED.get(coarsest, 1e-9) if tolerance is None else tolerance
    return GradientTolerance(coarsest, max(share, floor) if tolerance is None else share, given=tolerance is not None)


def cast_to(array: Array, dtype: str) -> Array:
    """Numbers in a lower type, as float64."""
    with np.errstate(over="ignore"):
        return to_bfloat16(array) if dtype == "bfloat16" else array.astype(dtype).astype(np.float64)


def shaken_pull(program: Program, values: Values, name: str, share: float, number: int) -> Callable[[Array], Array]:
    """vᵀJ by one input with noise from generator ``number``, for as many seeds as are given: the values move once."""
    point = values.with_arrays(perturbed(values.arrays, number, share))
    sweep = Pull(program, point, [name])

    def sizes(step: Apply, program: Program, values: Values, cotangent: Array, place: int) -> Array:
        return term_magnitudes(sweep.known[step.result.name], cotangent, place)

    def pulled(seed: Array) -> Array:
        sweep.hook = rounding_noise(program, point, share, number, sizes)
        return as_float(sweep.back({program.output: seed})[name])

    return pulled


def cancelling_step(program: Program, values: Values, seed: Array, name: str) -> Apply | None:
    """The last step in which all that comes back for a seed cancels, on the way to one input."""
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
    """Σ |terms| of one local pullback, entry by entry; 0 where that cannot be evaluated.

    A backward written by hand may cancel inside of one step: 1 − tanh² where tanh is flat.
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
    """A seed for each output, and what the whole is called."""

    name: str
    seeds: tuple[Array, ...]
    basic: bool = False
    """Whether it is 1 in one place and 0 elsewhere."""


def integer_seeds(shapes: Sequence[tuple[int, ...]], number: int) -> Iterator[Weights]:
    """Random integers from generator ``number``, the basis (some of it, where it is large), zeros and ones."""
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
    """Whole numbers, none of them 0: an entry with the weight 0 hides what is wrong there."""
    found = generator.integers(-largest, largest + 1, size=shape)
    return np.where(found == 0, largest + 1, found).astype(np.float64)


def real_seeds(
    shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str], number: int, coarsest: str, reach: float
) -> Iterator[Weights]:
    """Random numbers with all digits of the outputs' types, their large and small multiples; ``reach`` is max Σ|J|."""
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
    """Numbers from 0.25 to 2, each of which a cast to fewer digits moves by a fourth of the last place or more."""
    found: Array = np.zeros(shape)
    near: Array = np.ones(shape, dtype=bool)
    while near.any():
        found = np.where(near, generator.uniform(0.25, 2.0, shape), found)
        parts = [np.frexp(found)[0] * 2.0**digits for digits in SHORTER]
        near = np.any([np.abs(part - np.rint(part)) < 0.25 for part in parts], axis=0)
    return found


def null_seed(rows: Mapping[str, Array], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> Weights | None:
    """A v with vᵀJ = 0 but for rounding, from the rows of J by every input; None where there is only 0."""
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
