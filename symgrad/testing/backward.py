"""A torch function's own backward against the derived vᵀJ of an expression.

Comes in: a function, the expression it should be, and tensors. Goes out: a `Report`, or an AssertionError
that names the worst entry, its formula, what was expected and what came, and a guess at the slip.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.calculus import pullback
from symgrad.closed_form import closed_form
from symgrad.errors import InputError
from symgrad.explanation.formulas import Shapes
from symgrad.language import read, value_from
from symgrad.numeric import Array, Values, as_float, forward, numeric_pullback
from symgrad.oracles import Check, compare
from symgrad.program import Program
from symgrad.render import formula_text
from symgrad.testing.guesses import guess
from symgrad.testing.seeds import seeds

TOLERANCES = {"torch.float64": 1e-9, "torch.float32": 1e-4, "torch.float16": 1e-2, "torch.bfloat16": 5e-2}
"""How closely a backward has to agree, by its dtype, relative to the largest entry."""


@dataclass(frozen=True)
class Mismatch:
    """Where a backward pass and the formula differ most: input, seed, the check, and a guess."""

    name: str
    seed: str
    check: Check
    formula: str
    guess: str

    def __str__(self) -> str:
        if self.name == "out":
            place, what = f"out{_at(self.check)}", "the forward pass"
        else:
            place, what = f"{self.name}.grad{_at(self.check)}", f"backward with v = {self.seed}"
        lines = [f"{what}: {place} differs most"]
        if self.check.note:
            lines.append(f"  {self.check.note}")
        lines += [
            f"  formula:  {self.formula}",
            f"  expected: {self.check.expected!r}",
            f"  got:      {self.check.got!r}",
        ]
        return "\n".join([*lines, f"  perhaps:  {self.guess}"] if self.guess else lines)


@dataclass(frozen=True)
class Report:
    """What was tried: ``comparisons`` gradients compared; the mismatches, worst first."""

    expression: str
    comparisons: int
    mismatches: tuple[Mismatch, ...]

    @property
    def passed(self) -> bool:
        """Whether everything agreed."""
        return not self.mismatches


def assert_backward(
    function: Callable[..., Any], expression: str, *, shapes: Shapes | None = None, seed: int = 0, **tensors: Any
) -> Report:
    """Assert that ``function``'s backward is the vᵀJ of ``expression``; see `check_backward`.

    >>> import torch
    >>> x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> assert_backward(lambda x: torch.softmax(x, dim=-1), "softmax(x, dim=-1)", x=x).comparisons
    16
    """
    __tracebackhide__ = True
    report = check_backward(function, expression, shapes=shapes, seed=seed, **tensors)
    if not report.passed:
        worst = report.mismatches[0]
        more = len(report.mismatches) - 1
        others = f"\n({more} more of {report.comparisons} comparisons differ)" if more else ""
        raise AssertionError(f"this is not the backward of {expression!r}\n{worst}{others}\nrandom seed: {seed}")
    return report


def check_backward(
    function: Callable[..., Any], expression: str, *, shapes: Shapes | None = None, seed: int = 0, **tensors: Any
) -> Report:
    """Hold ``function``'s torch backward against the derived vᵀJ of ``expression``.

    ``tensors`` are passed to ``function`` in the order given; those of a floating dtype are differentiated.
    v runs over every basis seed (small outputs), random integers and ones. The formula is evaluated in
    float64 from the same rounded inputs. Raises `SymgradError` when the expression does not fit the tensors.
    """
    arrays = {name: np.asarray(value_from(tensor, name)) for name, tensor in tensors.items()}
    known = {**{n: tuple(s) for n, s in (shapes or {}).items()}, **{n: a.shape for n, a in arrays.items()}}
    program = read(expression, shapes=known).program
    missing = [t.name for t in program.inputs if t.name not in arrays]
    if missing:
        raise InputError(
            f"{expression!r} needs a value for {', '.join(missing)}", hints=(f"{missing[0]}=torch.randn(…)",)
        )
    values = forward(program, {t.name: arrays[t.name] for t in program.inputs})
    leaves, out = _run(function, tensors)
    wanted = [n for n in leaves if leaves[n].requires_grad and any(t.name == n for t in program.inputs)]
    tolerance = TOLERANCES.get(str(out.dtype), 1e-9)
    first = compare("the forward pass", as_float(values[program.output]), as_float(value_from(out)), tolerance)
    if not first.passed:
        return Report(expression, 1, (Mismatch("out", "", first, expression, ""),))
    found = [m for name in wanted for m in _compare(function, tensors, program, values, name, tolerance, seed)]
    mismatches = [m for m in found if m is not None]
    mismatches.sort(key=lambda m: -(m.check.max_error or 0))
    return Report(expression, len(found), tuple(mismatches))


def _run(function: Callable[..., Any], tensors: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The function on fresh leaves with the tensors' values."""
    leaves = {
        name: t.detach().clone().requires_grad_(t.is_floating_point()) if hasattr(t, "detach") else t
        for name, t in tensors.items()
    }
    out = function(*leaves.values())
    if not hasattr(out, "backward"):
        raise InputError("the function has to return one tensor", found=(type(out).__name__,))
    return leaves, out


def _compare(
    function: Callable[..., Any], tensors: Mapping[str, Any], program: Program, values: Values, name: str,
    tolerance: float, number: int,
) -> Sequence[Mismatch | None]:  # fmt: skip
    """One input: each seed through the function's own backward and through the formula."""
    import torch

    sweep = pullback(program, name)
    form = closed_form(program, sweep, name)
    formula = form.text if form else formula_text(sweep.equation.right, tuple(sweep.equation.axes))
    results: list[Mismatch | None] = []
    for label, weights in seeds(values[program.output].shape, number):
        leaves, out = _run(function, tensors)
        out.backward(torch.as_tensor(weights, dtype=out.dtype, device=out.device))
        expected = as_float(numeric_pullback(program, values, weights, [name])[name])
        grad = leaves[name].grad
        got = np.zeros(expected.shape) if grad is None else as_float(value_from(grad.double()))
        check = compare(f"backward({label})", expected, got, tolerance, "" if grad is not None else ".grad is None")
        results.append(None if check.passed else Mismatch(name, label, check, formula, guess(expected, got, weights)))
    return results


def _at(check: Check) -> str:
    """The worst entry's place."""
    return "" if check.worst in (None, ()) else str(list(check.worst or ()))


__all__ = ["Array", "Mismatch", "Report", "assert_backward", "check_backward"]
