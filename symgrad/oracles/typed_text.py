"""torch's answer to the text that the user typed, which `symgrad.reference` runs without a word of symgrad's reading.

Comes in: the text, what it is told beside its inputs, and numbers. Goes out: a `TorchRun` that says what was run: the
text itself; or the steps that were read, where the text is none for the reader, as an index equation, or is NumPy's; or
nothing, where torch refuses it. What each input is to torch (a leaf, data, whole numbers, truth values, a number) comes
from one account, the program's, and is not tried out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import RUN, SymgradError, UnsupportedError
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Values, forward
from symgrad.numeric.arranged import integer_operands
from symgrad.numeric.exact import Array, as_float, gaps, largest_finite
from symgrad.oracles.comparisons import TOLERANCE, Text
from symgrad.oracles.torch import (
    NO_ARGUMENT,
    TURNED,
    TorchRun,
    data_inputs,
    first_line,
    has_free_signs,
    run_torch,
    torch_forward,
    torch_leaves,
    torch_version,
)
from symgrad.program import Program

if TYPE_CHECKING:
    from symgrad.reference import ReferenceResult

NUMPYS = re.compile(r"\b(?:np|numpy)\b")
NOT_DERIVED = ("not implemented", "does not require grad", "not differentiable")
"""What torch says of a call that it has no derivative of."""
MASKS = ("mask", "condition")
"""Operands that torch takes truth values for, among those that are whole numbers here."""
CUTS = re.compile(r"\b(?:detach|detach_|no_grad|data|item|tolist|float|int|requires_grad_)\b")
"""What stops a gradient: torch's backward is no derivative of the forward pass behind it, and is meant so."""
BESIDE, MOST_NAMED = 1e-3, 2


def input_kinds(program: Program, text: Text) -> dict[str, str]:
    """What the inputs are to torch that are no leaves: ``whole``, ``truth``, or ``data``, decimal numbers."""
    found: dict[str, str] = {}
    for name, (operand, domain) in integer_operands(program).items():
        signs = domain.draw[0] < 0  # 1 and -1, which torch takes as decimal numbers
        found[name] = "truth" if operand in MASKS else "data" if signs else "whole"
    found = dict.fromkeys(text.fixed, "whole") | found | dict.fromkeys(text.truths, "truth")
    return {t.name: found[t.name] for t in program.inputs if t.name in found}


def ask_torch(
    text: Text | None, program: Program, inputs: Mapping[str, Array], seed: Array, wanted: Sequence[str]
) -> TorchRun | None:
    """``out.backward(v)`` by torch of the ``text``; of the steps where there is none, or it cannot be asked for it."""
    if text is None or torch_version() is None:
        return run_torch(program, inputs, seed, wanted)
    found = run_text(text, program, inputs, seed, wanted)
    if found.output is None and not found.unread:  # of nothing torch says less than of the steps
        return run_torch(program, inputs, seed, wanted)
    if found.unread:
        by_steps = run_torch(program, inputs, seed, wanted)
        assert by_steps is not None
        output = by_steps.output if found.output is None else found.output
        return replace(by_steps, output=output, unread=found.unread, numpys=found.output is not None)
    if found.refused and not found.dialect:
        run_torch(program, inputs, seed, wanted)  # raises what torch says of the numbers
    if found.refused or found.refusal:
        return found
    if has_free_signs(program):
        by_steps = run_torch(program, inputs, seed, wanted)
        if by_steps is not None and not nearly_equal(by_steps.output, found.output):
            return replace(by_steps, turned=True, unread=TURNED)
    return found


def run_text(text: Text, program: Program, inputs: Mapping[str, Array], seed: Array, wanted: Sequence[str]) -> TorchRun:
    """What torch says of the text itself."""
    import torch

    from symgrad.reference import TextRejected, UnsupportedText

    version = torch.__version__.split("+")[0]
    if not all(np.size(array) for array in inputs.values()):
        return TorchRun(None, {}, version)
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        kinds = input_kinds(program, text)
        data, others = frozenset(name for name in wanted if name in kinds), {*inputs} - {*wanted, *kinds}
        try:
            while True:
                rest = [name for name in wanted if name not in data]
                try:
                    found = torch_gradients(run_reader(text, kinds, inputs, rest), seed, rest, version, others)
                    return replace(found, gradients={**found.gradients, **dict.fromkeys(data)}, data=data)
                except (TextRejected, RuntimeError) as error:
                    if NO_ARGUMENT not in str(error) or not (more := data_inputs(program) & {*rest}):
                        raise
                    data |= more
        except UnsupportedText as error:
            return TorchRun(None, {}, version, unread=str(error))
        except TextRejected as error:
            return TorchRun(np.zeros(0), {}, version, refused=str(error), dialect=error.binding)
        except RuntimeError as error:
            return TorchRun(np.zeros(0), {}, version, refused=first_line(error).partition(":")[0])


def run_reader(
    text: Text, kinds: Mapping[str, str], inputs: Mapping[str, Array], leaves: Collection[str], floats: str = "float64"
) -> ReferenceResult:
    """The reader's answer, its inputs as the account has them, of a type of ``floats``."""
    import torch

    from symgrad.reference import run_reference

    numpys = NUMPYS.search(text.typed) is not None
    types = {"whole": torch.int64, "truth": torch.bool}
    given: dict[str, Any] = {}
    for name, array in inputs.items():
        if name in text.made:
            continue
        if numpys:
            given[name] = as_float(array).astype({"whole": np.int64, "truth": np.bool_}.get(kinds.get(name, ""), float))
        elif name in kinds:
            given[name] = torch.tensor(as_float(array)).to(types.get(kinds[name], getattr(torch, floats)))
        else:
            tensor = torch.tensor(as_float(array), dtype=getattr(torch, floats))
            tensor = torch.view_as_complex(tensor) if name in text.pairs else tensor
            given[name] = tensor.requires_grad_(name in leaves)
    numbers = {name: int(n) if int(n) == n else float(n) for name, n in text.numbers.items()}
    return run_reference(text.typed, {**given, **numbers}, text.draws)


CASTS = re.compile(r"\b(?:double|float|half|bfloat16|to|type|type_as|dtype|float_power)\b")
FLOATS = ("float32", "float64")
"""What makes other floats of floats; and those that are tried."""


def cast_of(text: str, program: Program, values: Values) -> str:
    """What torch's result is of float32 as of float64, where that is one type; "" where it is what was given."""
    if not CASTS.search(text):
        return ""
    from symgrad.reference import TextRejected, UnsupportedText

    typed, inputs = Text(text), {t.name: values[t.name] for t in program.inputs}
    try:
        found = {str(run_reader(typed, input_kinds(program, typed), inputs, (), kind).output.dtype) for kind in FLOATS}
    except (TextRejected, UnsupportedText, RuntimeError):
        return ""
    return found.pop() if len(found) == 1 else ""


def torch_second(
    text: Text | None, program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str
) -> tuple[Array, str, str] | None:
    """∂²(Σ v·out) / ∂first ∂second by differentiating torch's backward (``create_graph=True``), and torch's version.

    A row for each entry of ``first``, a column for each of ``second``; None when torch is not installed. Torch is asked
    for the text; where that is none for it, for the steps, and the last word says why.
    """
    if torch_version() is None:
        return None
    import torch

    out, leaves, why = output_with_graph(text, program, inputs, {first, second})
    rows, columns = (np.size(inputs[name]) for name in (first, second))
    result = torch.zeros(rows, columns, dtype=torch.float64)
    total = (torch.tensor(as_float(seed), dtype=out.dtype).reshape(out.shape) * out).sum()
    gradient = None
    if total.requires_grad and leaves[first].requires_grad:
        (gradient,) = torch.autograd.grad(total, leaves[first], create_graph=True, allow_unused=True)
    gradient = None if gradient is None else to_pairs(gradient)
    if gradient is not None and gradient.requires_grad and leaves[second].requires_grad:
        for row, entry in enumerate(gradient.reshape(-1)):
            (found,) = torch.autograd.grad(entry, leaves[second], retain_graph=True, allow_unused=True)
            if found is not None:
                result[row] = to_pairs(found).reshape(-1)
    return np.asarray(result.numpy()), torch.__version__.split("+")[0], why


def output_with_graph(
    text: Text | None, program: Program, inputs: Mapping[str, Array], wanted: Collection[str]
) -> tuple[Any, Mapping[str, Any], str]:
    """torch's output, its leaves, and why it is that of the steps and not of the text, where it is."""
    import torch

    from symgrad.reference import TextRejected, UnsupportedText

    kinds = {} if text is None else input_kinds(program, text)
    rest = {*wanted} - data_inputs(program) - kinds.keys()
    why = "the steps were requested"
    if text is not None and all(np.size(array) for array in inputs.values()):
        try:
            with warnings.catch_warnings(), torch.enable_grad():
                warnings.simplefilter("ignore")
                found = run_reader(text, kinds, inputs, rest)
            out = found.output
            if not isinstance(out, (np.ndarray, np.generic)):
                leaves = {name: found.leaves.get(name, torch.zeros(())) for name in wanted}
                out = to_pairs(out)
                if not has_free_signs(program) or nearly_equal(
                    forward(program, inputs)[program.output], out.detach().numpy()
                ):
                    return out, leaves, ""
                why = TURNED
            else:
                why = "the text is NumPy's"
        except (TextRejected, UnsupportedText) as error:
            why = str(error)
    leaves = torch_leaves(inputs, rest)
    return torch_forward(program, leaves), leaves, why


def to_pairs(tensor: Any) -> Any:
    """A complex tensor of torch's as (re, im) on a last axis; a real one as it is."""
    import torch

    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def torch_gradients(
    found: ReferenceResult, seed: Array, wanted: Sequence[str], version: str, others: Collection[str]
) -> TorchRun:
    """The output and the gradients of an answer; by ``others`` nobody asked, and the output may require them."""
    import torch

    out: Any = found.output
    if isinstance(out, (np.ndarray, np.generic)):
        return TorchRun(np.asarray(out), {}, version, unread="it is NumPy's")
    out = to_pairs(out)
    gradients: dict[str, Array | None] = dict.fromkeys(wanted)
    leaves = {n: found.leaves[n] for n in wanted if n in found.leaves and found.leaves[n].requires_grad}
    if leaves and (out.requires_grad or not others):
        weights = torch.tensor(as_float(seed), dtype=out.dtype)
        if isinstance(found.seed, torch.Tensor) and not nearly_equal(seed, found.seed.numpy()):
            raise reading_error("v", seed, found.seed.numpy())
        if weights.shape == out.shape:
            try:
                came: Sequence[Any] = torch.autograd.grad(out, [*leaves.values()], weights, allow_unused=True)
            except RuntimeError as error:
                words = first_line(error)
                if not any(said in words for said in NOT_DERIVED):
                    raise
                return TorchRun(np.asarray(out.detach().numpy()), {}, version, refusal=words, text=True)
            gradients |= {
                n: None if g is None else to_pairs(g).detach().numpy() for n, g in zip(leaves, came, strict=True)
            }
    return TorchRun(np.asarray(out.detach().numpy()), gradients, version, text=True, kept=found.kept)


def nearly_equal(ours: Array, theirs: Array) -> bool:
    """Whether two outputs are the same but for rounding, wherever both have numbers."""
    a, b = as_float(ours), as_float(theirs)
    if a.shape != b.shape:
        return False
    known = np.isfinite(a) & np.isfinite(b)
    scale = max(1.0, float(np.abs(b[known]).max(initial=0.0)))
    return bool(np.all(np.abs(a[known] - b[known]) <= TOLERANCE * scale))


def describe_other_values(name: str, ours: Array, theirs: Array) -> str:
    """Which entries of the output torch has otherwise: sign(NaN) is 0 there, hardswish(−∞) is NaN. Empty where none.

    >>> describe_other_values("out", np.array([np.nan, 1.0]), np.array([0.0, 1.0]))
    "torch's own forward pass has another value at out[0]: 0, by the equation nan"
    """
    a, b = as_float(ours), as_float(theirs)
    if a.shape != b.shape:
        return ""
    places = [tuple(int(i) for i in at) for at in np.argwhere(gaps(a, b) > TOLERANCE * max(1.0, largest_finite(b)))]
    if not places:
        return ""
    named = [format_entry_name(name, at) for at in places[:MOST_NAMED]]
    more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    at = places[0]
    return (
        f"torch's own forward pass has another value at {', '.join(named)}{more}: "
        f"{float(b[at]):.6g}, by the equation {float(a[at]):.6g}"
    )


def check_reading(program: Program, inputs: Mapping[str, Array], output: Array, found: TorchRun) -> None:
    """Refuse a text that Python gives another value than what was read, with both numbers."""
    if not (found.text or found.numpys) or nearly_equal(output, found.output):
        return
    try:
        decimals = forward(program, {name: as_float(array) for name, array in inputs.items()})[program.output]
        by_steps = run_torch(program, inputs, np.ones(np.shape(output)), ())
    except SymgradError:
        return
    steps = decimals if by_steps is None else by_steps.output
    if not nearly_equal(decimals, found.output) and not nearly_equal(
        steps, found.output
    ):  # decimals: 0.3 / 0.1 is below 3
        raise reading_error(program.output, output, found.output)


def same_beside(text: Text, program: Program, inputs: Mapping[str, Array], seed: Array, name: str) -> bool:
    """Whether the text and its steps have one gradient beside the point: it has none then, and is read as it stands."""
    draw, kinds = np.random.default_rng(7), input_kinds(program, text)
    moved = {n: as_float(a) + BESIDE * draw.uniform(-1, 1, np.shape(a)) for n, a in inputs.items()}
    there = {n: inputs[n] if n in kinds or n in text.made else moved[n] for n in inputs}
    try:
        runs = [ask_torch(own, program, there, seed, [name]) for own in (text, None)]
    except SymgradError:
        return False
    one, other = (None if run is None else run.gradients.get(name) for run in runs)
    none = np.zeros(np.shape(inputs[name]))
    return nearly_equal(none if one is None else one, none if other is None else other)


def reading_error(name: str, ours: Array, theirs: Array) -> SymgradError:
    """The error for a text that is read otherwise than Python does."""
    a, b = as_float(ours), as_float(theirs)
    if a.shape != b.shape:
        told = f"{name} has the shape {tuple(b.shape)} in Python, {tuple(a.shape)} as symgrad reads it"
    else:
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(gaps(a, b))), a.shape))
        told = f"{format_entry_name(name, at)} is {float(b[at]):.6g} in Python, {float(a[at]):.6g} as symgrad reads it"
    return UnsupportedError(
        "symgrad reads this text differently from Python, so it shows nothing", found=(told,), hints=(RUN,)
    )
