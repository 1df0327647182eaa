"""The lifted program, and the conversion of recorded arguments and calls to its steps.

Comes in: a recording, the user's names, the arguments of a call. Goes out: `LiftedProgram`, which
`symgrad.tracing.lift.lifter` fills; the steps that a listing shows, with labels; operands and options of an entry,
bound by `symgrad.language.binding.bind_arguments`; and `Refused`, raised by one way of lifting so that the next is
tried. Options without mathematics (``dtype``, ``out``, ``device``) are dropped; every value is compared with torch's
afterwards, so a dropped option that mattered is noticed. Nothing here loads torch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symgrad.backward.page_names import Suggested, rename_results
from symgrad.entries.spec import Op
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.language.binding import TOLD, Argument, Ref, bind_arguments, resolve_keyword
from symgrad.language.builder import StepOperand
from symgrad.numeric.exact import Array
from symgrad.ops.calls.registry import Last
from symgrad.ops.lookup import entry_of, has_role
from symgrad.program import SEEDS, Apply, Program, Role, free_name
from symgrad.program import Argument as StepArgument
from symgrad.tracing.record.trace import Node, SourceLine, map_nested

CAST = re.compile(r"(bfloat16|half)_\d+")
"""Matches the recording's name of an operand that autocast rounded."""
FIRST = re.compile(r"[^\W\d]\w*")
"""Matches the name at the beginning of a text."""
UNNAMED, HIDDEN = re.compile(r"t\d+"), re.compile(r"wide\d+")
"""Match the recording's names of unnamed tensors, and an explanation's names of tensors that were only broadcast."""


def listed_steps(program: Program, labels: Mapping[str, str]) -> tuple[Apply, ...]:
    """Return the steps without those that only broadcast an operand, or that only derivatives read."""
    return tuple(s for s in program.forward_steps if not is_implicit_step(s, labels))


def is_implicit_step(step: Apply, labels: Mapping[str, str]) -> bool:
    """Whether a step is not listed: it only broadcasts and has no name, or only rounds as autocast does."""
    return (has_role(step.op, Role.COPIES) and step.result.name not in labels) or autocast_method(step) != ""


def autocast_method(step: Apply) -> str:
    """Return the method of a step that rounds as autocast does, else an empty text."""
    found = CAST.fullmatch(step.result.name) if has_role(step.op, Role.HANDS_ON) else None
    return found[1] if found is not None else ""


def rounding_method(step: Apply, spellings: Mapping[str, str]) -> str:
    """Return the method of a step that rounds as autocast or the script does, else an empty text."""
    word = spellings.get(step.result.name, "").removeprefix("Tensor.") if has_role(step.op, Role.HANDS_ON) else ""
    return autocast_method(step) or (word if word in ("bfloat16", "half", "float") else "")


def assign_labels(
    program: Program,
    ends: Sequence[str],
    labels: Mapping[str, str],
    cotangents: Mapping[str, tuple[str, str]],
    suggested: Mapping[str, str],
) -> dict[str, str]:
    """Return labels for every listed step: a single output is ``out``; others are ``suggested`` names, or numbered.

    ``cotangents`` are the steps of a recorded backward: the letter, and the tensor they belong to.
    """
    found = dict(labels)
    told = [step.result.name for step in listed_steps(program, labels)]
    free = [name for name in told if UNNAMED.fullmatch(name) and labels.get(name, name) == name]
    unnamed = set(free)
    taken = {label for name, label in labels.items() if name not in unnamed}
    taken |= {first[0] for label in taken if (first := FIRST.match(label)) is not None}  # out[0]: out is a list
    number = 0
    for name in free:
        if name == ends[-1] and len(set(ends)) == 1 and "out" not in taken:
            found[name] = "out"
            continue
        if name in suggested:
            wish = VALUE if suggested[name] == SEEDS[0] else suggested[name]
            found[name] = Suggested(free_name((wish,), taken))
            taken.add(found[name])
            continue
        number += 1
        while f"t{number}" in taken:
            number += 1
        found[name] = f"t{number}"
    taken |= set(found.values())
    made = {found.get(name) for name in told}
    for given in program.inputs:
        label = found.get(given.name, "")
        first = FIRST.match(label) if WRITTEN.fullmatch(label) else None
        if first is not None and first[0] in made:  # bases[:, 1:] of an older bases; mu.weight is a module's
            found[given.name] = free_name((f"{first[0]}_0",), taken)
            taken.add(found[given.name])
    unclaimed = [name for name in cotangents if found.get(name, name) == name]
    taken -= set(unclaimed)
    for name in unclaimed:
        letter, tensor = cotangents[name]
        shown = found.get(tensor) or free_name((tensor,), taken)  # one that is not told has no number on the page
        found[name] = free_name((f"{letter}_{shown}",), taken)
        taken.add(found[name])
    return found


VALUE = "value"
"""The label of a tensor that torch's own code calls v, the name of the seed."""
RESERVED = frozenset({"out", "inf", "nan", "pi", "e", "torch", "F", "np"})
"""Names that mean something else in a formula."""
WRITTEN = re.compile(r".*([\])]|\.(T|mT|H|mH|real|imag))", re.DOTALL)
"""Matches labels that are expressions, ``x[row]`` or ``k.T``; they are not numbered."""
TWICE = "an entry is written twice: one value stays, and torch's backward passes the weight on to each"
"""Why a write with repeated positions is left to torch."""
UNKNOWN = "has no equation here"
"""The reason for a call without an entry."""


class Refused(Exception):
    """Raised when one way to lift a call does not work; the message is the reason."""


def explain_refusal(error: Exception) -> str:
    """Return an error's first sentence, without hints; torch's own messages go on for pages."""
    first = error.problem if isinstance(error, SymgradError) else (str(error).splitlines() or [""])[0]
    return first.partition(". ")[0]


@dataclass(eq=False)
class LiftedProgram:
    """A program being lifted, with its values; ``outputs`` and ``program`` are set at the end.

    ``labels`` are the user's names of inputs and steps, ``nodes`` the inputs' nodes, ``lines`` the script's lines of
    steps, and ``spellings`` the functions called there.
    """

    outputs: tuple[str, ...] = ()
    program: Program = field(init=False)
    arrays: dict[str, Array] = field(default_factory=dict)
    boxes: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    lines: dict[str, SourceLine] = field(default_factory=dict)
    spellings: dict[str, str] = field(default_factory=dict)
    refs: dict[int, Ref] = field(default_factory=dict)
    origins: dict[str, Any] = field(default_factory=dict)

    @property
    def complexes(self) -> frozenset[str]:
        """The tensors that are complex in torch and pairs (re, im) here, unless also read as real pairs."""
        refs, entries = self.refs.values(), [(step.result.name, entry_of(step.op)) for step in self.program.steps]
        paired = {name for name, op in entries if op is not None and "out" in op.traits.complex_pairs}
        made = (paired | {ref.name for ref in refs if ref.complex}) - {ref.name for ref in refs if not ref.complex}
        return frozenset(made | {name for name, node in self.nodes.items() if node.held.is_complex()})


def identifier(label: str) -> str:
    """Return ``label`` as an identifier: ``conv1.weight`` becomes ``conv1_weight``."""
    word = "".join(c if c.isalnum() or c == "_" else "_" for c in label).strip("_") or "x"
    word = f"x{word}" if word[0].isdigit() else word
    return f"{word}_" if word in RESERVED else word


NOWHERE = (0, 0)
"""Captured calls have no place in a text."""

DROPPED = frozenset({
    *TOLD, "out", "inplace", "requires_grad", "non_blocking", "_stacklevel", "copy", "half_to_float", "size_average",
    "reduce", "_dtype",
})  # fmt: skip
"""Keywords without mathematics."""
SORT = object()
"""A dtype, device or layout among positional arguments: it has no mathematics."""


def to_operand(value: Any, refs: Mapping[int, Any]) -> Any:
    """Convert an argument to the language's values: a `Ref`, a number, text, a tuple, None."""
    if id(value) in refs:
        return refs[id(value)]
    if isinstance(value, (tuple, list)):
        return tuple(to_operand(part, refs) for part in value)
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**31 else value
    if type(value).__name__ in ("dtype", "device", "layout", "memory_format", "Generator"):
        return SORT
    raise UnsupportedError(f"an argument of type {type(value).__name__} has no place in the table")


def bind_entry_arguments(
    op: Op, spelling: str, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[list[StepOperand], dict[str, Any]]:
    """Return operands and options for ``op``; raise `SymgradError` if it does not take these arguments."""
    given = [Argument(a, NOWHERE) for a in arguments if a is not SORT]
    for name, value in keywords.items():
        own = resolve_keyword(op.signature.parameters, name)
        if value is SORT or (own is None and (name in DROPPED or value is None or value is False)):
            continue
        given.append(Argument(value, NOWHERE, own or name))
    found = bind_arguments(op, spelling, given, NOWHERE)
    return [StepOperand(m, m.name if isinstance(m, Ref) else str(m)) for m, _ in found.operands], dict(found.options)


Refusals = (SymgradError, TypeError, ValueError, AttributeError, ArithmeticError, LookupError, NotImplementedError,
            AssertionError, RuntimeError)  # fmt: skip
"""Errors of an entry that does not fit a call; then the next way is tried."""


Composition = Callable[..., Last | None]


COMPOSITIONS: dict[str, Composition] = {}
"""Calls that need the numbers of a run to be written in entries, by the last word of torch's spelling."""


def composition(*words: str, also: Sequence[str] = ()) -> Callable[[Composition], Composition]:
    """Return a decorator that registers a function under ``words``, or its own name and ``also``."""

    def entered(function: Composition) -> Composition:
        COMPOSITIONS.update(dict.fromkeys(words or (function.__name__, *also), function))
        return function

    return entered


def gather_tensor_list(op: Op, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of a variadic entry as torch takes them: tensors in one list."""
    row = op.variadic and bool(arguments) and all(hasattr(a, "shape") for a in arguments)
    return (tuple(arguments),) if row else tuple(arguments)


def without_subclass(value: Any) -> Any:
    """Return recorded values as plain torch tensors."""
    return map_nested(value, lambda part: part.tensor() if isinstance(part, Node) else part)


def skip_broadcast_steps(
    program: Program, labels: Mapping[str, str], ends: Collection[str]
) -> tuple[tuple[Apply, ...], dict[str, str]]:
    """Return the steps without implicit ones that a single step reads, and the source of each skipped tensor."""
    readers = Counter(name for step in program.forward_steps for name in step.tensors)
    unsaid = {
        step.result.name: str(step.arguments[0])
        for step in program.forward_steps
        if is_implicit_step(step, labels) and readers[step.result.name] == 1 and step.result.name not in ends
    }

    def past(argument: StepArgument) -> StepArgument:
        while isinstance(argument, str) and argument in unsaid:
            argument = unsaid[argument]
        return argument

    steps = (step for step in program.forward_steps if step.result.name not in unsaid)
    return tuple(replace(step, arguments=tuple(map(past, step.arguments))) for step in steps), unsaid


def relabel_program(program: Program, labels: Mapping[str, str]) -> Program:
    """Return ``program`` with unnamed tensors renamed to ``labels``, and hidden ones to ``wide1``, …"""
    own = [t.name for t in program.tensors() if UNNAMED.fullmatch(t.name)]
    known = {name: labels[name] for name in own if name in labels}
    change = {name: label if label.isidentifier() else identifier(label) for name, label in known.items()}
    hidden = [name for name in own if name not in change]
    change |= {name: f"wide{n}" for n, name in enumerate(hidden, 1)}
    kept = {t.name for t in program.tensors()} - set(change)
    if len(set(change.values())) < len(change) or kept & set(change.values()):
        return program
    return rename_results(program, change)
