"""torch's own operator database against captured pullbacks.

``PYTHONPATH=. python tests/conformance/sweep.py`` runs every variant with autograd support on all of its samples, in
float64 and complex128, and writes docs/reference/coverage.md. ``--samples N`` takes the first of each, ``--only NAME``
some variants, ``--dtype`` one type, float32 among them; ``--seeds`` other weights than random ones, or beside them;
``--jobs N``, ``--output FILE``. Complex inputs are compared as pairs. A page is written where nothing was left out. Exit
1 if anything is wrong or an error.
"""

from __future__ import annotations

import argparse
import sys
import time
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tests.conformance.outcomes import Outcome, page

DTYPES = ("float64", "complex128")
SINGLE = "float32"
"""Only where it is asked for; torch's own digits end there."""
RTOL_SINGLE = 1e-3
SEEDS = ("random", "ones", "whole")
"""Kinds of weights: ones are what ``.sum()`` has, small whole ones meet each other again."""
RTOL, RTOL_DECOMPOSED = 1e-9, 1e-7
COARSE = {"nn.functional.hardsigmoid": 1e-7}
"""torch's own gradient is coarser than float64 there: it multiplies by 1/6 in single precision."""
TIED = ("linalg.eigvalsh",)
"""Of equal values the vectors are nobody's choice: weights that tell the values apart have no gradient."""
LARGEST = 20_000


def variants(only: str | None = None, dtype: str = "float64") -> list[str]:
    """The variants with autograd support in ``dtype``, by name."""
    return [name for name in _database(dtype) if only is None or only in name]


def run(
    name: str, samples: int | None = None, dtype: str = "float64", filled_with: float | None = None,
    kinds: Sequence[str] = SEEDS[:1],
) -> Outcome:  # fmt: skip
    """One variant, on its first ``samples`` samples, or on all of them; every entry that is followed at one value, if so."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    begin = time.monotonic()
    op = _database(dtype)[name]
    verdicts = Counter[tuple[str, str]]()
    try:
        for sample in islice(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=True), samples):
            if filled_with is not None:
                for tensor in _tensors((sample.input, sample.args, sample.kwargs)):
                    if tensor.requires_grad and tensor.layout == torch.strided:
                        tensor.detach().fill_(filled_with)
            verdicts[judge(op, sample, filled_with is not None, kinds)] += 1
    except Exception as error:
        verdicts["error", f"samples: {type(error).__name__}: {error}"] += 1
    return Outcome(name, verdicts, time.monotonic() - begin)


def judge(op: Any, sample: Any, singular: bool = False, kinds: Sequence[str] = SEEDS[:1]) -> tuple[str, str]:
    """Capture, pull seeds of these kinds back, compare with torch.autograd.grad; the verdict, and why.

    At a ``singular`` point torch may have a rule that is no derivative, or lose it on its way: the slope on both sides of
    what torch computes forward decides then. Of operations that are not derived NaN and ∞ are one there.
    """
    import torch

    from symgrad.errors import SymgradError
    from symgrad.tracing import capture
    from symgrad.tracing.record.trace import as_numbers

    state = torch.get_rng_state()
    tensors = list(_tensors((sample.input, sample.args, sample.kwargs)))
    if sum(t.numel() for t in tensors) > LARGEST:
        return "skipped", "too large"
    chosen = [t for t in tensors if (t.is_floating_point() or t.is_complex()) and t.requires_grad]
    if not chosen:
        return "skipped", "no floating-point input"
    leaves = [t.detach().clone().requires_grad_(True) for t in chosen]
    whole = (sample.input, sample.args, sample.kwargs)

    def filled(values: Sequence[Any]) -> Any:
        by_identity = {id(t): v for t, v in zip(chosen, values, strict=True)}
        return _map(whole, lambda part: by_identity.get(id(part), _copied(part)))

    arguments = filled([leaf.clone() for leaf in leaves])
    try:
        expected = [t for t in _tensors(_called(op, sample, arguments)) if t.is_floating_point() or t.is_complex()]
    except Exception as error:
        return "skipped", f"torch itself: {error}"
    if not any(t.requires_grad for t in expected):
        return "skipped", "no gradient"
    torch.set_rng_state(state)
    try:
        program = capture(lambda *values: _called(op, sample, filled(values)), *[t.detach().clone() for t in chosen])
        if len(program.inputs) != len(leaves):
            return "error", f"{len(program.inputs)} inputs for {len(leaves)} tensors"
        single = all(t.dtype == torch.float32 for t in chosen)
        if not single and not program.black_boxes and any(t.dtype != _wider(t) for t in leaves):
            # Derived is held against torch in double precision: its own sums lose what a small difference is made of.
            leaves = [t.detach().to(_wider(t)).requires_grad_(True) for t in leaves]
            expected = [
                t
                for t in _tensors(_called(op, sample, filled([leaf.clone() for leaf in leaves])))
                if t.is_floating_point() or t.is_complex()
            ]
    except SymgradError as error:
        return "refused", error.problem
    except Exception as error:
        return "error", f"{type(error).__name__}: {error}"[:200]
    tolerance = COARSE.get(_name(op), RTOL_DECOMPOSED if len(program.operations) > 1 else RTOL)
    tolerance = RTOL_SINGLE if single else tolerance
    for kind in kinds:
        generator = torch.Generator().manual_seed(0)
        seeds = [_seed(t, generator, kind) for t in expected]
        pairs = [(t, s) for t, s in zip(expected, seeds, strict=True) if t.requires_grad]
        try:
            truth = torch.autograd.grad(
                [t for t, _ in pairs], leaves, [s for _, s in pairs], allow_unused=True, retain_graph=True
            )
        except RuntimeError as error:
            return "skipped", f"torch itself: {error}"
        try:
            found = program.pullback(seeds if len(seeds) > 1 else seeds[0])
        except SymgradError as error:
            return "refused", error.problem
        except Exception as error:
            return "error", f"{type(error).__name__}: {error}"[:200]
        for (name, got), true in zip(found.items(), truth, strict=True):
            right = np.zeros(got.shape) if true is None else as_numbers(true)
            own = np.asarray(got, dtype=float)
            if singular and program.black_boxes:
                own, right = (np.where(np.isfinite(a), a, np.nan) for a in (own, right))
            if not close(own, right, tolerance):
                place = list(found).index(name)
                if (
                    singular
                    and own.shape == leaves[place].shape
                    and is_the_slope(op, sample, filled, leaves, seeds, place, own, right)
                ):
                    continue
                gap = np.nanmax(np.abs(np.asarray(got, dtype=float) - right)) if right.size else 0
                return "wrong", f"{name} differs by {gap:.3g}, {kind} seeds"
    boxes = program.black_boxes
    return ("not derived", boxes[0].reason or boxes[0].spelling) if boxes else ("derived", "")


def is_the_slope(
    op: Any, sample: Any, filled: Any, leaves: Sequence[Any], seeds: Sequence[Any], place: int, own: Any, right: Any
) -> bool:
    """Whether ``own`` is the slope from both sides wherever torch's ``right`` is another number; or none is, where `TIED`."""
    import torch

    def total(moved: Any) -> float:
        values = [moved if n == place else leaf.detach().clone() for n, leaf in enumerate(leaves)]
        outs = [t for t in _tensors(_called(op, sample, filled(values))) if t.is_floating_point() or t.is_complex()]
        return sum(float((seed.conj() * out.detach()).real.sum()) for seed, out in zip(seeds, outs, strict=True))

    def slope(at: tuple[int, ...], step: float) -> float | None:
        """On one side; None where torch takes no such number, a target below 0 say."""
        near, far = leaves[place].detach().clone(), leaves[place].detach().clone()
        near[at], far[at] = near[at] + step, far[at] + 2 * step
        try:
            return (4 * total(near) - 3 * total(leaves[place].detach().clone()) - total(far)) / (2 * step)
        except RuntimeError:
            return None

    with torch.no_grad():
        places = np.argwhere(~np.isclose(own, right, rtol=1e-9, atol=1e-9))
        slopes = [
            (np.asarray(own)[at], [s for s in (slope(at, 1e-4), slope(at, -1e-4)) if s is not None])
            for at in map(tuple, places.tolist())
        ]
    if _name(op) in TIED and any(not np.allclose(sides, sides[:1], rtol=1e-3) for _, sides in slopes):
        return True
    return bool(slopes) and all(sides and np.allclose(sides, number, rtol=1e-5, atol=1e-5) for number, sides in slopes)


def _wider(tensor: Any) -> Any:
    """The type of a tensor, in double precision where it is in single."""
    import torch

    return {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(tensor.dtype, tensor.dtype)


def _seed(tensor: Any, generator: Any, kind: str) -> Any:
    """Weights for an output; complex ones for a complex output."""
    import torch

    if kind == "ones":
        return torch.ones_like(tensor).detach()
    if kind == "whole":
        return torch.randint(-3, 5, tensor.shape, generator=generator).to(tensor.dtype)
    dtype = torch.complex128 if tensor.is_complex() else torch.float64
    return torch.randn(tensor.shape, generator=generator, dtype=dtype).to(tensor.dtype)


def close(got: Any, right: Any, tolerance: float) -> bool:
    """Equal within ``tolerance`` of the largest entry; a NaN only with a NaN."""
    if got.shape != right.shape:
        return False
    finite = np.abs(right[np.isfinite(right)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    with np.errstate(invalid="ignore"):
        same = (got == right) | (np.isnan(got) & np.isnan(right)) | (np.abs(got - right) <= tolerance * scale)
    return bool(same.all())


def stub() -> types.ModuleType:
    """A stand-in for expecttest."""
    module = types.ModuleType("expecttest")
    module.TestCase = unittest.TestCase  # type: ignore[attr-defined]  # a module made here has no fixed names
    return module


@lru_cache
def _database(dtype: str) -> dict[str, Any]:
    # torch's test helpers import expecttest for a base class that the database itself never uses.
    sys.modules.setdefault("expecttest", stub())
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    return {_name(op): op for op in op_db if op.supports_autograd and getattr(torch, dtype) in op.dtypes}


def _name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def _copied(part: Any) -> Any:
    return part.detach().clone() if hasattr(part, "detach") else part


def _called(op: Any, sample: Any, arguments: tuple[Any, ...]) -> Any:
    first, args, kwargs = arguments
    # As torch's own gradcheck calls it: what reads a symmetric matrix, or a triangle, is given one made from the sample.
    result = op.gradcheck_wrapper(op.op, first, *args, **kwargs)
    return sample.output_process_fn_grad(result)


def _tensors(value: Any) -> Iterator[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)


def _map(value: Any, change: Any) -> Any:
    if isinstance(value, (tuple, list)):
        parts = [_map(part, change) for part in value]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {key: _map(part, change) for key, part in value.items()}
    return change(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int)
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("docs/reference/coverage.md"))
    parser.add_argument("--dtype", choices=(*DTYPES, SINGLE))
    parser.add_argument("--seeds", choices=SEEDS, nargs="+", default=list(SEEDS[:1]))
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument(
        "--derived", type=int, default=0, help="fail where fewer variants are derived in the first type"
    )
    chosen = parser.parse_args(arguments)
    found = {d: swept(d, chosen) for d in ([chosen.dtype] if chosen.dtype else DTYPES)}
    import torch

    if chosen.only is None and chosen.dtype is None and chosen.samples is None:
        chosen.output.parent.mkdir(parents=True, exist_ok=True)
        chosen.output.write_text(page(found, torch.__version__.split("+")[0]), encoding="utf-8")
    for dtype, outcomes in found.items():
        sys.stdout.write(f"{dtype}: {dict(Counter(o.status for o in outcomes))}\n")
    fails = any(o.status in ("wrong", "error") for outcomes in found.values() for o in outcomes)
    derived = sum(o.status == "derived" for o in next(iter(found.values())))
    if derived < chosen.derived:
        sys.stderr.write(f"{derived} variants are derived, {chosen.derived} have to be\n")
    return 1 if fails or derived < chosen.derived else 0


def swept(dtype: str, chosen: argparse.Namespace) -> list[Outcome]:
    """Every variant in one type, by name."""
    outcomes = []
    jobs = [(name, chosen.samples, dtype, None, tuple(chosen.seeds)) for name in variants(chosen.only, dtype)]
    with get_context("spawn").Pool(chosen.jobs) as pool:
        for outcome in pool.imap_unordered(_run, jobs, chunksize=1):
            outcomes.append(outcome)
            if chosen.verbose or outcome.status in ("wrong", "error"):
                counted = f"{outcome.count('derived')} of {outcome.samples}"
                rest = outcome.reasons("not derived", "refused", "wrong", "error")
                sys.stderr.write(f"{outcome.name:45} {outcome.status:10} {counted:12} {outcome.seconds:6.1f}s {rest}\n")
    return sorted(outcomes, key=lambda o: o.name)


def _run(job: tuple[str, int | None, str, None, tuple[str, ...]]) -> Outcome:
    return run(*job)


if __name__ == "__main__":
    sys.exit(main())
