"""The backward as a program: one line for each cotangent, in the names that are already on the page.

Comes in: a program and the inputs to differentiate with respect to. Goes out: a `Backward`.

A composite operation is expanded first where that reads better, under the names that textbooks have for its parts:
attention by its scores and weights, a normalisation by its x̂. The backward of a backward has the weights of
the gradients times H, the second derivatives of Σ v·out; its forward lines are the program and its gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.backward.code import LONG, recursion_room
from symgrad.backward.cotangent_lines import CotangentLines
from symgrad.backward.groups import make_groups, merge_equal_steps
from symgrad.backward.line_data import Backward, ForwardMode, Line
from symgrad.backward.line_templates import templates_of_group
from symgrad.backward.page_names import PageNames, is_named
from symgrad.backward.simplify.complex_lines import rewrite_pairs_as_complex
from symgrad.backward.simplify.factors import name_divisor
from symgrad.backward.standard_groups import standardise_group
from symgrad.calculus import back, flowing
from symgrad.errors import InputError
from symgrad.language.expand import expand_steps, expansion_script
from symgrad.language.python_text import write_python
from symgrad.language.trees import FormCode
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.numeric.forward_pass import MOST_HELD, check_entries, compute
from symgrad.numeric.vector_products import Taken, numeric_pullback, push_values
from symgrad.ops import entry_named
from symgrad.ops.lookup import has_role
from symgrad.program import Apply, Program, Role

__all__ = [
    "LONG", "Backward", "ForwardMode", "Line", "derive_backward", "derive_double_backward", "derive_pushforward",
    "take_with_opened",
]  # fmt: skip

Pull = Callable[[Program, Values, Sequence[str], Backward], Mapping[str, Array]]
"""vᵀJ in numbers, by tensors of a program that lines belong to."""


def derive_backward(
    program: Program,
    wanted: Sequence[str],
    *,
    ends: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    values: Values | None = None,
    ones: bool = False,
    pull: Pull | None = None,
    complexes: Collection[str] = (),
) -> Backward:
    """The backward of ``program`` by ``wanted``, as lines that were proven at ``values``.

    A tensor that has a name keeps a line of its own; ``labels`` are what the page calls tensors. ``ones`` says that the
    seed of an output that is one number is 1. ``pull`` gives the numbers of the lines. ``complexes`` are the tensors
    that are complex to the reader.
    """
    chosen = tuple(ends) or (program.output,)
    wider, point = open_composites(program, wanted, values)
    told = labels or {}
    given = {t.name for t in wider.tensors() if is_named(told.get(t.name, t.name))}
    wider = merge_equal_steps(wider, {*given, *chosen, *wanted})
    names = PageNames(wider, given, told, wanted, chosen)
    ranks = {names.page(tensor.name): len(tensor.shape) for tensor in wider.tensors()}
    spoken = [names.page(tensor.name) for tensor in wider.tensors() if tensor.name in complexes]
    with recursion_room(wider):
        found = CotangentLines(wider, chosen, wanted, names, point).build(ones)
        found = rewrite_pairs_as_complex(found, spoken, ranks, names.page, names.shown)
    if pull is None or point is None:
        return found
    read = tuple(dict.fromkeys(line.of for line in found.statements if line.shape is not None))
    return found.with_values(pull(wider, point, read, found))


UNREADABLE = 150
"""A composite operation whose lines have more characters than this is opened; a divisor with a name does not count."""
DEEPEST = 4
"""Levels that are opened at most."""


def open_composites(program: Program, wanted: Sequence[str], values: Values | None) -> tuple[Program, Values | None]:
    """``program`` with composite steps opened as long as their lines do not read well."""
    for _ in range(DEEPEST):
        shapes = {tensor.name: tensor.shape for tensor in program.tensors()}
        composite = {step.result.name for step in program.steps if expansion_script(step, shapes) is not None}
        chosen = composite & set(find_unreadable(program, wanted, values)) if composite else set()
        if not chosen:
            break
        wider = expand_steps(program, chosen)
        try:
            values = None if values is None else add_opened_values(program, wider, values)
        except InputError:  # too many numbers to be held
            break
        program = wider
    return program, values


def add_opened_values(program: Program, wider: Program, values: Values) -> Values:
    """The values of ``program`` and those of the steps that opening it made; raises `InputError` where they are many.

    What is only broadcast takes no room.
    """
    known, made = {tensor.name for tensor in program.tensors()}, {step.result.name for step in program.steps}
    steps = [s for s in wider.steps if s.result.name not in known or (s.result.name in made and s not in program.steps)]
    new = [s.result.name for s in steps if s.result.name not in known and not has_role(s.op, Role.COPIES)]
    check_entries(sum(wider.entries[name] for name in new), MOST_HELD)
    arrays = dict(values.arrays)
    for step in steps:
        compute(step, wider, arrays)
    return values.with_arrays({name: array for name, array in arrays.items() if name not in values.arrays})


def take_with_opened(
    recorded: Program, opened: Program, values: Values, names: Collection[str], taken: Taken
) -> tuple[list[str], Taken] | None:
    """How a sweep over the steps as they were ``recorded`` gives the cotangents of ``names`` of the ``opened`` program.

    Of which tensors it is asked, and what takes them: a cotangent inside of what was opened follows from that of its
    result. None where something inside is read elsewhere, too, or was merged with something.
    """
    known, parts, inside = {t.name for t in recorded.tensors()}, dict[str, tuple[Apply, ...]](), list[Apply]()
    for step in opened.steps:
        inside.append(step)
        if step.result.name in known:
            parts[step.result.name], inside = tuple(inside[:-1]), []
    own = {step.result.name: end for end, steps in parts.items() for step in steps}
    read = ((name, own.get(step.result.name, step.result.name)) for step in opened.steps for name in step.tensors)
    if inside or not known <= opened.by_name.keys() or any(own.get(name, end) != end for name, end in read):
        return None

    def take(name: str, cotangent: Array) -> None:
        if name in names:
            taken(name, cotangent)
        inner = [step.result.name for step in reversed(parts.get(name, ())) if step.result.name in names]
        found = numeric_pullback(replace(opened, output=name), values, cotangent, inner) if inner else {}
        for own in inner:
            taken(own, found[own])

    return [name for name in known if name in names or parts.get(name)], take


def find_unreadable(program: Program, wanted: Sequence[str], values: Values | None) -> Iterator[str]:
    """The results of the steps that have no line, or one that nobody reads."""
    tensors, reached = program.by_name, flowing(program, wanted)
    for group in make_groups(program, tensors):
        if group.black or group.output not in reached or entry_named(group.steps[-1].op).expands is None:
            continue
        form = standardise_group(group, tensors, values, program.required)
        forms = [found.notation for _, found in templates_of_group(form, group, reached, False, values, short=True)]
        if None in forms or sum(form_length_at_once(own) for own in forms if own is not None) > UNREADABLE:
            yield group.output


def form_length_at_once(form: FormCode) -> int:
    """Characters of a form; without its divisor where that, and nothing else, has a line of its own."""
    return len(form.text) if form.definitions else len(write_python(name_divisor(form).last))


def derive_pushforward(
    program: Program,
    moved: Sequence[str],
    values: Values,
    *,
    ends: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    boxes: Mapping[str, Any] | None = None,
) -> ForwardMode:
    """The forward mode of ``program`` where tensors in ``moved`` change, as lines that were proven at ``values``.

    The changes are drawn there; ``boxes`` give the numbers of steps that nobody derived.
    """
    wider, point = open_composites(program, moved, values)
    draw = np.random.default_rng(0)
    along = {name: draw.uniform(0.5, 1.5, np.shape(values[name])) for name in moved}
    found, known = push_values(wider, values if point is None else point, along, ends, boxes)
    told = dict(labels or {})
    letter, pairs = found.letter, found.tangents.items()
    named = {own: told.get(name, "t1") for name, own in pairs if own not in (letter, f"J{letter}")}
    told |= {own: f"{letter}_{label}" for own, label in named.items() if is_named(label)}
    reached = [found.tangents[end] for end in ends or (program.output,) if end in found.tangents]
    lines = derive_backward(found.program, (), ends=reached, labels=told, values=known).forward
    return ForwardMode(found, lines)


def derive_double_backward(program: Program, wanted: Sequence[str], values: Values, seed: Array) -> Backward | None:
    """The lines of the backward of a backward, by each of ``wanted``; None where no gradient depends on anything.

    ``values`` prove lines, ``seed`` is v; of one number L the seed is 1, and goes without saying.
    """
    alone = not program.out.shape
    once = back(program, wanted, ones=alone)
    whole = replace(once.program, sizes=program.sizes, spoken=program.spoken, made=program.made)
    moving = flowing(whole, wanted)
    ends = [end for name in wanted if isinstance(end := once.cotangents.get(name), str) and end in moving]
    if not ends:
        return None
    known = {tensor.name: values[tensor.name] for tensor in program.inputs}
    if not alone:
        known[program.seed] = as_float(np.asarray(seed))
    return derive_backward(whole, wanted, ends=ends, values=forward(whole, known))
