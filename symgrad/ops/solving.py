"""How an entry is made whose result solves equations: they are its definition.

    solved("inverse(x)", "Σ_j x[…,i,j]·out[…,j,k] = δ(i, k)", step="out[…,i,k] = out[…,i,k] − …", …)

F is the left side without the right, at the letters that no Σ adds up. What is differentiated is one Newton step from
the solution, out − S·F(x, out), with out on its right side and S, the inverse of ∂F/∂out, held still. At the solution F
is 0, so the value is out; and the derivative of the step by x is −S·∂F/∂x, which is what the implicit function theorem
says. S is no derivative of the operation: whether it belongs to F is tested for every entry, by differentiating F = 0.

Shapes and values that the entries share whose results solve equations between matrices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import INDICES, WORDS, op
from symgrad.entries.indexed import IndexedEquation
from symgrad.entries.operands import matrix_domain, require_rank
from symgrad.entries.signatures import CallPattern, call_of
from symgrad.entries.spec import Op, View, no_alignment
from symgrad.errors import DomainError, UndefinedError
from symgrad.indexing import Equation, fresh_axes
from symgrad.notation.ranges import RangeFinder
from symgrad.notation.tree import Access
from symgrad.shapes import Shape, Sizes

SYMMETRIC = "s[i,j] = (x[…,i,j] + x[…,j,i])/2"
"""x where x is symmetric: nothing flows to the rest."""


def square_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """The shape of a matrix, or of a stack of them, with as many rows as columns."""
    shape = require_rank(shapes[0], 2)
    sizes.unify(shape[-2], shape[-1])
    return shape


def batch_of_square(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """One number for each square matrix."""
    return square_shape(sizes, shapes)[:-2]


def inverted(x: Any) -> Any:
    """NumPy's inverse; a matrix that has none is refused."""
    try:
        return np.linalg.inv(np.asarray(x, float))
    except np.linalg.LinAlgError:
        raise DomainError(
            "this matrix has no inverse", hints=("its rows must not be multiples or sums of each other",)
        ) from None


ASYMMETRY = 1e-5
"""How far from symmetric a matrix may be and still be taken for it: differences need to move one entry a little."""


def checked_symmetric(x: Any) -> Any:
    """(x + xᵀ)/2 of a matrix that is symmetric but for rounding; refuses any other."""
    x = np.asarray(x, float)
    turned = np.swapaxes(x, -1, -2)
    if x.size and np.max(np.abs(x - turned)) > ASYMMETRY * max(1.0, float(np.max(np.abs(x)))):
        raise DomainError("this matrix is not symmetric", hints=("(x + x.T) / 2 is",))
    return (x + turned) / 2


APART = 1e-10
"""Values nearer to each other than this share of the largest count as equal."""


def require_distinct(values: Any, what: str) -> Any:
    """``values`` if no two along the last axis are equal; what belongs to equal ones has no derivative."""
    values = np.asarray(values, float)
    if values.shape[-1] > 1 and values.size:
        gaps = np.abs(np.diff(np.sort(values, axis=-1), axis=-1))
        largest = np.max(np.abs(values), axis=-1, keepdims=True)
        if np.any(gaps <= APART * np.maximum(largest, np.finfo(float).tiny)):
            raise UndefinedError(
                f"two {what} are equal: their vectors are not unique, so there is no derivative",
                hints=("functions of all values alike have one: eigvalsh, svdvals, trace, det, matrix_norm",),
            )
    return values


LEADING = 0.37
"""An entry leads its column when it is at least this share of the largest; no simple fraction, so ties are rare."""


def column_signs(columns: Any) -> Any:
    """The sign for each column that makes its first leading entry positive.

    An eigenvector's sign is nobody's choice: LAPACK's differs between builds, so neither NumPy's nor torch's is taken.
    """
    columns = np.asarray(columns)
    if not columns.size:
        return np.ones((*columns.shape[:-2], 1, columns.shape[-1]))
    sizes = np.abs(columns)
    first = np.argmax(sizes >= LEADING * sizes.max(axis=-2, keepdims=True), axis=-2)
    return np.where(np.take_along_axis(columns, np.expand_dims(first, -2), axis=-2) < 0, -1.0, 1.0)


Beside = Mapping[str, Callable[..., Any]]
Equations = str | Callable[..., str]
BOUND = re.compile(r"Σ_\{?([a-z,]+)")


@dataclass(frozen=True)
class Solves:
    """What is 0 at the result."""

    call: CallPattern
    texts: Equations
    beside: tuple[str, ...]

    def written(self, shapes: Any, options: Mapping[str, Any]) -> list[str]:
        """The equations for these shapes and options."""
        texts = self.texts if isinstance(self.texts, str) else self.texts(shapes, **options)
        return texts.split("; ")

    def __call__(self, *tensors: View, **options: Any) -> tuple[Equation, ...]:
        """The same in SymPy: operands, then what is held still, out first."""
        views = tensors[: len(self.call.operands)]
        held: Any = dict(zip(("out", *self.beside), tensors[len(views) :], strict=True))
        return tuple(self.at(text, views, held, options) for text in self.written([v.shape for v in views], options))

    def at(self, text: str, views: Sequence[View], held: Any, options: Mapping[str, Any]) -> Equation:
        """One equation, at indices of its own."""
        reading = IndexedEquation(self.call, equation_as_difference(text), {})
        tree, names = reading.tree(views, options), (*self.call.operands, "out")
        shapes = {name: view.shape for name, view in zip(names, (*views, held["out"]), strict=True)}
        found = RangeFinder(tree, shapes, Sizes(), {}).find().found
        read = next(node for node in tree.entries if node.name in shapes and isinstance(node, Access))
        batch = shapes[read.name][: len(shapes[read.name]) + 1 - len(read.slots)]
        letters = [letter.name for letter in tree.letters]
        axes = fresh_axes((*batch, *(found[letter] for letter in letters)), [*"bcde"[4 - len(batch) :], *letters])
        return Equation(axes, reading.index(axes, views, held, options))


def equation_as_difference(text: str) -> str:
    """An equation as F = left − right.

    >>> equation_as_difference("Σ_j x[…,i,j]·out[…,j,k] = s[i,k] where s[i,j] = x[…,j,i]")
    'F[…,i,k] = (Σ_j x[…,i,j]·out[…,j,k]) − (s[i,k]) where s[i,j] = x[…,j,i]'
    """
    sides, where, names = WORDS.split(text)[0].partition(" where ")
    left, right = sides.split(" = ")
    bound = {letter for found in BOUND.findall(sides) for letter in found.split(",")}
    slots = (letter for _, found in INDICES.findall(sides) for letter in found.split(","))
    free = ",".join(dict.fromkeys(letter for letter in slots if letter not in bound))
    return f"F[{free}] = ({left}) − ({right}){where}{names}"


def solved_op(
    call: str,
    solves: Equations,
    says: str,
    home: Sequence[str] = (),
    *,
    step: str,
    values: Callable[..., Any],
    kind: str,
    letters: str = "",
    **given: Any,
) -> Op:
    """An entry whose result ``solves`` equations (a semicolon between them), as ``values`` finds it.

    ``step`` is the Newton step, ``instead`` that under other options; ``kind`` says which matrices the first operand may be.
    """
    said = call_of(call)
    first = said.operands[0]
    what = Solves(said, solves, tuple(given.get("auxiliaries", ())))
    texts = what.written(((sp.S.Zero, sp.S.Zero),) * len(said.operands), said.usual)
    facts: dict[str, Any] = {
        "align": no_alignment,
        "ranks": {first: (2,)},
        "domain": {first: matrix_domain(kind)},
        **given,
    }
    facts["residual"] = what
    return op(
        call, step, says, home, definition="; ".join(texts), reads_out=True, forward=values, letters=letters, **facts
    )  # fmt: skip
