"""A torch function's own backward against the derived vᵀJ of an expression.

Comes in: a function, the expression it should be, and tensors. Goes out: a `Report`, or an AssertionError
that names the worst entry, its formula, what was expected and what came, and the slip, where one gives just that.
What a backward raises, and NaN that it returns, is a finding like any other.
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
from symgrad.language import arguments, read, value_from
from symgrad.numeric import Array, Values, as_float, forward, numeric_pullback
from symgrad.oracles import Check, compare
from symgrad.program import Program
from symgrad.render import formula_text
from symgrad.testing.guesses import Suspect, Trial, guess
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
        lines = [f"{what}: {place} {'differs most' if self.check.worst is not None else 'cannot be compared'}"]
        if self.check.note:
            lines.append(f"  {self.check.note}")
        lines.append(f"  formula:  {self.formula}")
        if self.check.expected is not None:
            lines += [f"  expected: {self.check.expected!r}", f"  got:      {self.check.got!r}"]
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
    if not callable(function):
        raise arguments.wrong(function, "the function has to be one that can be called", "torch.tanh")
    expression, shapes, seed = (
        arguments.text_of(expression, "the expression"), arguments.shapes_of(shapes), arguments.number_of(seed, "seed"),
    )  # fmt: skip
    arrays = {name: np.asarray(value_from(tensor, name)) for name, tensor in tensors.items()}
    known = {**{n: tuple(s) for n, s in shapes.items()}, **{n: a.shape for n, a in arrays.items()}}
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
    first = compare("the forward pass", as_float(values[program.output]), _numbers(out), tolerance)
    if not first.passed:
        return Report(expression, 1, (Mismatch("out", "", first, expression, ""),))
    attempts = [(label, v, _attempt(function, tensors, v)) for label, v in seeds(values[program.output].shape, seed)]
    found = [m for name in wanted for m in _compare(attempts, program, values, name, tolerance)]
    mismatches = [m for m in found if m is not None]
    mismatches.sort(key=lambda m: -float("inf") if m.check.max_error is None else -m.check.max_error)
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


@dataclass(frozen=True, eq=False)
class Attempt:
    """One call of backward: ``.grad`` of every leaf, or why there is none."""

    leaves: Mapping[str, Any]
    failure: str = ""


def _attempt(function: Callable[..., Any], tensors: Mapping[str, Any], weights: Array) -> Attempt:
    """Runs the function's own backward; what it raises is a finding, not an error of ours."""
    import torch

    leaves, out = _run(function, tensors)
    if not out.requires_grad:
        return Attempt(leaves, "out does not require a gradient: the way back was cut in the forward pass")
    try:
        out.backward(torch.as_tensor(weights, dtype=out.dtype, device=out.device))
    except Exception as error:  # whatever a user's backward does
        return Attempt(leaves, f"backward raises {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    return Attempt(leaves)


def _compare(
    attempts: Sequence[tuple[str, Array, Attempt]], program: Program, values: Values, name: str, tolerance: float
) -> Sequence[Mismatch | None]:
    """One input: for each seed the gradient of the function's own backward beside that of the formula."""
    sweep = pullback(program, name)
    form = closed_form(program, sweep, name)
    formula = form.text if form else formula_text(sweep.equation.right, tuple(sweep.equation.axes))
    trials: list[Trial] = []
    checks: list[tuple[str, Check]] = []
    for label, weights, attempt in attempts:
        what = f"backward({label})"
        if attempt.failure:
            checks.append((label, Check(what, None, False, note=attempt.failure)))
            continue
        expected = as_float(numeric_pullback(program, values, weights, [name])[name])
        grad = attempt.leaves[name].grad
        got = np.zeros(expected.shape) if grad is None else _numbers(grad)
        note = ".grad is None" if grad is None else "" if np.isfinite(got).all() else "not every entry is finite"
        trials.append(Trial(label, weights, expected, got))
        checks.append((label, compare(what, expected, got, tolerance, note)))
    if all(check.passed for _, check in checks):
        return [None] * len(checks)
    slip = guess(Suspect(name, program, values, sweep, trials, tolerance)) if len(trials) == len(checks) else ""
    return [None if check.passed else Mismatch(name, label, check, formula, slip) for label, check in checks]


def _numbers(tensor: Any) -> Array:
    """What torch computed, in float64, NaN and infinities too; complex numbers are refused as values are."""
    if tensor.is_complex():
        return as_float(value_from(tensor))
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return np.asarray(dense.cpu().double().numpy())


def _at(check: Check) -> str:
    """The worst entry's place."""
    return "" if check.worst in (None, ()) else str(list(check.worst or ()))


__all__ = ["Array", "Mismatch", "Report", "assert_backward", "check_backward"]
