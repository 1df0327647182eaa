"""A second derivative as data.

Comes in: what `symgrad.explanation.second` derived and proved. Goes out: a `Hessian`, by one pair of inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from symgrad.explanation.jacobian import Jacobian
from symgrad.indexing.symbols import Expr
from symgrad.numeric import Array
from symgrad.oracles import Check


@dataclass(frozen=True, eq=False)
class Hessian:
    """∂²L/∂first∂second with L = Σ v·out; ``value`` has the shape of ``first``, then that of ``second``.

    ``closed_form`` is text in torch's syntax where both inputs are vectors or numbers, or None; ``jacobian``
    is the same matrix as the Jacobian of the gradient by ``first``: formula, symbols, numbers, labels. ``digits`` is
    with how many the formula was evaluated where float64 loses those of ``value``; 0 where it does not.
    """

    first: str
    second: str
    value: Array
    jacobian: Jacobian
    constant: bool
    checks: tuple[Check, ...]
    written: Callable[[], str | None]
    digits: int = 0

    @cached_property
    def closed_form(self) -> str | None:
        """The matrix in torch's syntax, proven when it is first asked for; None where there is no such form."""
        return self.written()

    @property
    def formula(self) -> Expr | None:
        """The index formula; None where it would be too long to read."""
        return self.jacobian.formula

    def __repr__(self) -> str:
        rows, columns = self.jacobian.shape
        by = f"by {self.first}, twice" if self.first == self.second else f"by {self.first} and {self.second}"
        return f"<Hessian {rows}×{columns} {by}>"

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed."""
        return all(check.passed is not False for check in self.checks)
