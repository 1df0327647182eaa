"""`check_backward` and `assert_backward`: a candidate, what it is claimed to be, and numbers; every battery on it.

Comes in: a torch function or module, or a pair of NumPy functions; `check_named` takes the text that names one,
``package.module:function`` or ``package.module:forward,backward``, as on a command line. Goes out: a `BackwardReport`,
or the same check written as a file for pytest. What the candidate does is a finding, never an exception of ours; what
the caller gets wrong is a `SymgradError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import numpy as np

import symgrad
from symgrad.errors import InputError, SymgradError, UnknownNameError
from symgrad.explanation.formulas import Shapes
from symgrad.language import arguments
from symgrad.numeric import Array, as_float
from symgrad.oracles.torch import torch_version
from symgrad.testing.bench import BatteryResult, Bench, make_bench, not_made
from symgrad.testing.consistency import check_double_backward, check_duality, check_layouts, check_masks
from symgrad.testing.purity import (
    check_accumulation,
    check_contract,
    check_determinism,
    check_purity,
    print_findings,
    random_forward_finding,
)
from symgrad.testing.references import (
    GradientReference,
    capture_reference,
    reference_by_differences,
    reference_for_outputs,
)
from symgrad.testing.report import BackwardReport, Battery, Finding
from symgrad.testing.requests import Request, read_request
from symgrad.testing.special_points import check_kinks, check_whole_numbers
from symgrad.testing.trial_seeds import coarsest_tolerance
from symgrad.testing.value import check_value, cut_output_findings, forward_finding, output_shape_finding
from symgrad.tracing import need_torch

BATTERIES: Mapping[str, Callable[[Bench], BatteryResult]] = {
    "value": check_value, "contract": check_contract, "purity": check_purity, "determinism": check_determinism,
    "layout": check_layouts, "mask": check_masks, "accumulation": check_accumulation,
    "whole numbers": check_whole_numbers, "duality": check_duality, "kink": check_kinks,
    "double_backward": check_double_backward,
}  # fmt: skip
"""In the order in which they are run and told."""
REPORTED: ContextVar[Callable[[BackwardReport], object]] = ContextVar("REPORTED", default=lambda report: None)
"""Who is told of every report that is made: the pytest plugin writes them into a folder."""
AGAIN = 2
"""How often a finding of those has to come again."""
STEADY = ("layout", "mask", "accumulation", "double_backward", "duality")
"""Those that compare a candidate with itself: one that says something else each time is not asked."""


RANK = (
    "forward",
    "arity",
    "shape",
    "mutates_seed",
    "mutates_input",
    "mutates_gradient",
    "raises",
    "nondeterministic",
    "missing_path",
)
"""Findings that come first: others may follow from them."""
MOST = 10_000
"""Entries of the largest value that is written into a test."""


def check_backward(
    fn: Any,
    expression: Any = None,
    /,
    *,
    tolerance: float | None = None,
    order: int = 1,
    only: str | Sequence[str] | None = None,
    skip: str | Sequence[str] | None = None,
    wrt: str | Sequence[str] | None = None,
    shapes: Shapes | None = None,
    seed: int = 0,
    **inputs: Any,
) -> BackwardReport:
    """Hold the backward of ``fn`` against the derived vᵀJ of ``expression``, and against itself.

    ``fn`` takes ``inputs`` in the order given: a torch function, a module, or a pair ``(forward, backward)`` of NumPy
    functions (``backward(v, *inputs)``). ``wrt`` says which are differentiated (all floating ones, unless given), the
    rest are constants; what is no tensor is an option. ``expression`` is Python text, a list of texts for several
    outputs, a captured program, or None: then the forward pass of ``fn`` is captured, and where it cannot be, held
    against differences. ``order=2`` differentiates the backward too. ``only`` and ``skip`` name batteries.
    ``tolerance`` is relative to ``Σ|v|·|J|``, and follows from the type unless given. Raises `SymgradError` where the
    expression does not fit the inputs.

    >>> import torch
    >>> report = check_backward(torch.tanh, "tanh(x)", x=torch.tensor([0.5, 1.0]))
    >>> report.passed, [battery.name for battery in report.batteries][:2]
    (True, ['value', 'contract'])
    """
    __tracebackhide__ = True
    try:
        order = arguments.require_order(order)
        chosen = chosen_batteries(arguments.require_names(only, "only"), arguments.require_names(skip, "skip"), order)
        request = read_request(fn, expression, inputs, arguments.require_names(wrt, "wrt"))
        number, known = arguments.require_count(seed, "seed"), arguments.require_shapes(shapes)
        allowed = None if tolerance is None else require_tolerance(tolerance)
        truth: GradientReference | str | None = None
        if expression is not None:
            given = request.arrays, request.scalars, request.candidate.names, known
            truth = reference_for_outputs(expression, lambda: len(request.candidate.run().outputs), *given)
        run = request.candidate.run()
        if run.failure:
            finding = Finding("raises", "", "forward", f"the forward pass {run.failure}")
            return make_report(request, truth, number, [BatteryResult(Battery("value", "failed", 0), (finding,))])
        if truth is None:
            truth = reference_from_candidate(request)
        held = None if isinstance(truth, str) else truth
        other = output_shape_finding(held, run)
        if other is not None:
            return make_report(request, truth, number, [BatteryResult(Battery("value", "failed", 1), (other,))])
        rounding = coarsest_tolerance([*run.dtypes, *request.types], allowed, held.tolerance if held else 0.0)
        bench = make_bench(request.candidate, run, held, rounding, request.arrays, number)
        found = run_batteries(bench, chosen)
        if only is None and skip is None and order == 1 and len(found) > 1:
            found.append(not_made("double_backward", "order=2 checks it"))
        return make_report(request, truth, number, found)
    except SymgradError as error:
        raise error.with_traceback(None) from None  # the caller's line and the message: what is between says nothing


def assert_backward(fn: Any, expression: Any = None, /, **options: Any) -> BackwardReport:
    """Assert that `check_backward`, which takes the same arguments, finds nothing; the message is its report.

    >>> import torch
    >>> assert_backward(lambda x: torch.softmax(x, -1), "softmax(x, dim=-1)", x=torch.ones(2, 3)).passed
    True
    """
    __tracebackhide__ = True
    report = check_backward(fn, expression, **options)
    if not report.passed:
        raise AssertionError(report.to_text())
    return report


def require_tolerance(value: object) -> float:
    """A tolerance, relative to the terms of a sum."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1:
        return float(value)
    raise arguments.argument_error(value, "tolerance has to be a number between 0 and 1", "1e-6")


def chosen_batteries(only: Sequence[str] | None, skip: Sequence[str] | None, order: int) -> tuple[str, ...]:
    """The batteries that are asked for; raises `InputError` for a name that there is not."""
    for name in (*(only or ()), *(skip or ())):
        if name not in BATTERIES:
            raise InputError(f"there is no battery {name!r}", found=(", ".join(BATTERIES),))
    wished = [name for name in BATTERIES if (name in only if only else name != "double_backward" or order == 2)]
    return tuple(name for name in wished if name not in (skip or ()))


def reference_from_candidate(request: Request) -> GradientReference | str:
    """What the candidate's own forward pass says, or the reason why nothing does."""
    names = request.candidate.names
    found: GradientReference | str = "a pair of functions"
    if request.candidate.masks:
        found = capture_reference(request.function, request.inputs, request.arrays, names)
    return reference_by_differences(request.candidate, request.arrays, found) if isinstance(found, str) else found


def run_batteries(bench: Bench, chosen: Sequence[str]) -> list[BatteryResult]:
    """Every battery that says something here."""
    first = forward_finding(bench)
    if first is not None:
        unsteady = random_forward_finding(bench, bench.candidate.run())
        return [BatteryResult(Battery("determinism" if unsteady else "value", "failed", 1), (unsteady or first,))]
    gone = tuple(cut_output_findings(bench)) if not bench.baseline.failure else ()
    if gone:
        return [BatteryResult(Battery("value", "failed", 1), gone)]
    found: list[BatteryResult] = []
    differs = False
    for name in chosen:
        if bench.baseline.failure and name not in ("contract", "purity", "kink"):
            found.append(not_made(name, "backward returned no gradients"))
        elif differs and name in STEADY:
            found.append(not_made(name, "its result changes from call to call"))
        else:
            found.append(run_battery(bench, name))
            differs |= any(f.kind == "nondeterministic" and not f.evidence.get("slight") for f in found[-1].findings)
    if bench.baseline.failure and not any(o.findings for o in found):
        found.append(check_contract(bench))
    loud = tuple(print_findings(bench))
    if loud:
        found.append(BatteryResult(Battery("quiet", "failed", 1), loud))
    return found


def run_battery(bench: Bench, name: str) -> BatteryResult:
    """What a battery finds; one that compares the candidate with itself has to find it again, one call later each time.

    What came once is a candidate that says something else now and then.
    """
    made = BATTERIES[name](bench)
    kept = made.findings
    for _ in range(AGAIN if kept and name in STEADY else 0):
        bench.candidate.run().pull(bench.mixed)
        kept = tuple(f for f in BATTERIES[name](bench).findings if f in kept)
    lost = [f for f in made.findings if f not in kept]
    if not lost:
        return made
    said = f"its result changes from call to call: {lost[0].message.splitlines()[0]}; but not when it was called again"
    return replace(made, findings=(*kept, Finding("nondeterministic", lost[0].input, lost[0].where, said)))


def make_report(
    request: Request, truth: GradientReference | str | None, number: int, found: Sequence[BatteryResult]
) -> BackwardReport:
    """Findings ranked, and what was run; whoever wants to know of reports is told."""
    every = [finding for one in found for finding in one.findings]
    if any(f.kind == "unreduced" for f in every):  # the same slip is seen in every call
        every = list({(f.kind, f.input, f.where): f for f in every}.values())
    if any(f.kind.startswith("mutates") for f in every):  # torch noticed it, too
        told = ("inplace operation", "written-to tensor", "read-only")
        every = [f for f in every if f.kind.startswith("mutates") or not any(part in f.message for part in told)]
    once = {id(next((f for f in every if f.kind == "nondeterministic"), None))}  # every battery may have met it
    every = [f for f in every if f.kind != "nondeterministic" or id(f) in once]
    every.sort(key=lambda f: RANK.index(f.kind) if f.kind in RANK else len(RANK))
    name = getattr(request.function, "__name__", type(request.function).__name__)
    text = truth.text if truth is not None and not isinstance(truth, str) else name
    said = truth.said if truth is not None and not isinstance(truth, str) else f"nothing: {truth}"
    shapes = request.candidate.shapes
    inputs = {
        n: f"{'×'.join(map(str, shapes[n])) or 'a number'} {dtype}"
        for n, dtype in zip(request.candidate.names, request.types, strict=True)
    }
    versions = {"symgrad": symgrad.__version__, "torch": torch_version() or "", "numpy": np.__version__}
    report = BackwardReport(text, said, tuple(every), tuple(o.battery for o in found), inputs, number, versions)
    REPORTED.get()(report)
    return report


def check_named(
    target: str, expression: str | None, values: Mapping[str, Array], wrt: Sequence[str] | None, dtype: str,
    options: Mapping[str, Any],
) -> BackwardReport:  # fmt: skip
    """Import the candidate and check it; without ``wrt`` all values are floating, else the others stay as they are.

    Raises `UnsupportedError` where PyTorch is not installed: names are found as torch's functions are.
    """
    need_torch()
    from symgrad.tracing.captured.function import capture_environment, find_target

    for name in wrt or ():
        if name not in values:
            raise UnknownNameError(f"there is no value for {name}", found=(f"given: {', '.join(values)}",))
    with capture_environment():
        module, _, path = target.partition(":")
        names = path.split(",")
        found = [find_target(f"{module}:{name.strip()}", "") for name in names]
        if len(found) > 2:
            raise InputError("a pair is a forward and a backward", found=(target,), hints=("module:forward,backward",))
        candidate = found[0] if len(found) == 1 else (found[0], found[1])
        inputs = {name: as_candidate_tensor(value, wrt is None or name in wrt, dtype) for name, value in values.items()}
        if isinstance(candidate, tuple):
            inputs = {name: tensor.numpy() for name, tensor in inputs.items()}
        return check_backward(candidate, expression, wrt=wrt, **options, **inputs)


def as_candidate_tensor(value: Array, floating: bool, dtype: str) -> Any:
    """A value as the candidate gets it."""
    import torch

    if floating or value.dtype.kind == "O":
        return torch.tensor(as_float(value)).to(getattr(torch, dtype))
    return torch.tensor(value)


def write_test(
    target: str, expression: str | None, values: Mapping[str, Array], wrt: Sequence[str] | None, dtype: str,
    options: Mapping[str, Any],
) -> str:  # fmt: skip
    """A pytest file that makes the same check; raises `InputError` for values that are too large to be written."""
    module, _, path = target.partition(":")
    names = [f"{module}.{name.strip()}" for name in path.split(",")]
    pair = len(names) > 1
    library = "import numpy as np" if pair else "import torch"
    ours = "from symgrad.testing import assert_backward"
    lines = [f'"""Written by symgrad check {target}."""', "", library, ours, "", f"import {module}", "", ""]
    given = []
    for name, array in values.items():
        if array.size > MOST:
            raise InputError(f"{name} is too large to be written into a test", found=(f"{array.size:,} entries",))
        floating = wrt is None or name in wrt or array.dtype.kind == "O"
        numbers = as_float(array).tolist() if floating else array.tolist()
        kind = f"{'np' if pair else 'torch'}.{dtype if floating else 'int64'}"
        given.append(f"    {name} = {'np.array' if pair else 'torch.tensor'}({numbers}, dtype={kind})")
    called = names[0] if not pair else f"({', '.join(names)})"
    arguments = [called, *([repr(expression)] if expression is not None else [])]
    arguments += [f"{name}={value!r}" for name, value in options.items() if value not in (None, (), 0)]
    arguments += [f"wrt={list(wrt)!r}"] if wrt is not None else []
    arguments += [f"{name}={name}" for name in values]
    title = path.replace(".", "_").replace(",", "_").replace(" ", "").lower()
    lines += [f"def test_{title}():", *given]
    return "\n".join([*lines, f"    assert_backward({', '.join(arguments)})"])
