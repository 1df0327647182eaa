"""Notes about a call without an error: accumulated gradients, hooks, rounding, data without a name.

Comes in: the findings of a call. Goes out: lines. None of this is an error, but a reader of the numbers would wonder.
Data without a name is described by its numbers only after they were examined, and by a text only if that text created
the tensor; what a layer creates is described as made inside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.backward.page_names import Suggested
from symgrad.explanation.notable import describe_broadcast_pairs, find_broadcast_pairs
from symgrad.numeric.exact import Array, as_float
from symgrad.program import Pullback
from symgrad.render.numbers import format_array, format_digits
from symgrad.render.wrapping import truncate_end
from symgrad.tracing.captured.step_text import pull_recording, torch_choices
from symgrad.tracing.lift import WRITTEN
from symgrad.tracing.lift.boxes import format_change
from symgrad.tracing.lift.call_sweeps import OVERFLOWS, settle_singular
from symgrad.tracing.record.frames import source_segment
from symgrad.tracing.record.names import (
    called_name_at,
    names_another,
    parse_one,
    read_name_expression,
    text_at,
)
from symgrad.tracing.record.trace import Node, SourceLine, as_numbers, holds_same_numbers
from symgrad.tracing.session.scene import Findings, Scene
from symgrad.tracing.story.events import list_names

CLIPPING = ("total_norm", "max_norm", "clip_coef_clamped")
"""Variables of torch's ``clip_grad_norm_``: the norm, the bound, and the factor."""


def explain_seed_letter(call: Findings) -> list[str]:
    """Return a note if the seed is not called v, because the name is taken."""
    if call.letter == "v":
        return []
    why = "names of the script begin with v"
    if "v" in call.program.labels.values():
        why = "v is a tensor of the script"
    elif any(isinstance(step.op, Pullback) for step in call.program.recording.steps):
        why = "v_… already names gradients"
    return [f"{why}, so the seed is called {call.letter} here"]


def explain_accumulation(call: Findings) -> list[str]:
    """Return a note if this call added to an earlier gradient; the advice is printed once for each line."""
    scene, program, rows, letter = call.scene, call.program, call.rows, call.letter
    again = [r.name for r in rows if r.before is not None and np.any(r.before)]
    if not again:
        return []
    lines = name_previous_writer(scene, [t for name, (t, _) in call.targets.items() if program.labels[name] in again])
    who = f"{again[0]}.grad" if len(again) == 1 else f".grad of {len(again)} tensors"
    row = next(r for r in rows if r.name == again[0])
    shown = call.repeated and len(again) == 1  # elsewhere the table has the numbers
    sums = f": {format_array(row.before)} + {format_array(row.added)} = {format_array(row.after)}" if shown else ""
    adds = f"{who} still held the value from {lines}; backward adds to it{sums}"
    fresh = f"{again[0]}.grad = None" if len(again) == 1 else "optimizer.zero_grad()"
    before = "Set" if len(again) == 1 else "Call"
    one, two = f"{letter}₁", f"{letter}₂"
    if not scene.watch.is_news(scene.where.file, scene.where.line, fresh):
        return [adds]
    start = f"{before} {fresh} first to start from zero."
    return [f"{adds}. Two calls with {one} and {two} add what one with {one} + {two} adds. {start}"]


def name_previous_writer(scene: Scene, tensors: list[Any]) -> str:
    """Return the line that filled ``.grad`` of all these leaves, or "earlier lines" if it is not known or not one."""

    def place(tensor: Any) -> str:
        where, _, number = scene.watch.filled.get(tensor, (None, "", 0))
        since = {line for line, last in scene.watch.unseen.items() if last > number}
        if where is None or since - {(where.file, where.line)}:
            return "earlier lines"
        if (where.file, where.line) == (scene.where.file, scene.where.line):
            return "this line before"
        return str(where.seen_from(scene.where.file))

    places = {place(tensor) for tensor in tensors}
    return places.pop() if len(places) == 1 else "earlier lines"


def explain_torch_overflow(call: Findings) -> list[str]:
    """Return notes about steps where torch overflows and the derivation does not, unless already reported."""
    judge, program = call.judge, call.program
    if any(reason.startswith(OVERFLOWS) for reason in judge.chosen.values()):
        return []
    if not any(row.overflows and not row.lost for row in call.rows):
        return []
    found = dict[str, str]()
    pull_recording(program, judge.seeds, noted=found, settle=settle_singular)
    return torch_choices(program, {name: why for name, why in found.items() if why.startswith(OVERFLOWS)})


def explain_torch_rounding(call: Findings) -> list[str]:
    """Return a note if torch's gradient differs from the derivation by more than one rounding."""
    labels, coarse, rough = call.program.labels, call.judge.coarse, call.judge.rough
    said = {
        "torch's float32 is off by up to {} (of the largest entry); in float64 torch equals the derivation": coarse,
        "the two differ by up to {} (of the largest entry), which rounding can explain": rough,
    }
    return [
        f"{list_names([labels[name] for name in found])}: {words.format(f'{max(found.values()):.2g}')}"
        for words, found in said.items()
        if found
    ]


def explain_clipping(found: tuple[Any, ...] | None) -> str:
    """Explain what ``clip_grad_norm_`` does: the norm of all gradients together, and the factor.

    ``found`` are its variables `CLIPPING`; without them return an empty text.
    """
    if found is None:
        return ""
    total, most, factor = (float(value) for value in found)
    norms = f"the total norm is {format_digits(total)}, max_norm is {format_digits(most)}"
    if factor == 1:
        return f"no gradient is clipped: {norms}"
    return f"every gradient is clipped: {norms}, so each is multiplied by {format_digits(factor)}"


def explain_nested_backward(call: Findings) -> list[str]:
    """Return notes about leaves to which a backward inside this one added, as in a checkpoint.

    A backward in another thread counts if it has leaves of this one.
    """
    scene = call.scene
    own, found = {id(tensor) for _, tensor in scene.leaves}, dict[str, set[int]]()
    for leaf, place in scene.watch.inner:
        if id(leaf) in scene.sight and (place == "inside" or id(leaf) in own):
            found.setdefault(place, set()).add(id(leaf))
    return [
        f"a backward ran {'inside this one' if place == 'inside' else f'{place} meanwhile'}, and added to .grad of "
        f"{', '.join(name for leaf, name in scene.sight.items() if leaf in leaves)}: that gradient is not explained "
        "here"
        for place, leaves in found.items()
    ]


def name_gradient_changer(scene: Scene, tensor: Any) -> str:
    """Return what may have changed a gradient: a hook, another backward, a write; empty if nothing did."""
    if any(getattr(tensor, name, None) for name in ("_backward_hooks", "_post_accumulate_grad_hooks")):
        return "a hook"
    places = [place for leaf, place in scene.watch.inner if tensor is leaf]
    if places:
        return f"a backward {places[0]}"
    return "a write during the call" if {id(tensor), id(tensor.grad)} & {*map(id, scene.watch.during)} else ""


def explain_leaf_hooks(call: Findings) -> list[str]:
    """Return notes about leaves with hooks, whose gradient is the hook's result for vᵀJ."""
    program, targets, rows = call.program, call.targets, call.rows
    notes = [f"{program.labels[n]} has a hook: torch adds what the hook returns for {program.recording.seed}ᵀJ"
             for n, (t, _) in targets.items() if getattr(t, "_backward_hooks", None)]  # fmt: skip
    own = {program.labels[n] for n, (t, _) in targets.items() if getattr(t, "_post_accumulate_grad_hooks", None)}
    later = [row for row in rows if row.changed and row.name in own]
    if later:
        one = len(later) == 1
        who = f"{later[0].name} has a hook that runs" if one else f"{len(later)} leaves have hooks that run"
        gone = all(row.after is None for row in later)
        left = "it set .grad to None" if gone else ".grad is what the hook left there"
        notes.append(f"{who} after {program.recording.seed}ᵀJ was added: {left}")
    return notes


def explain_overwritten_seed(call: Findings) -> list[str]:
    """Return notes about seeds that were overwritten during the call."""
    scene = call.scene
    told = [found.overwrote for found in scene.observations if found.overwrote]
    for given, now in zip(scene.seeds, scene.given.passed, strict=True):
        if not told and given is not None and not holds_same_numbers(given, now.detach()):
            told.append(f"the v passed to backward was overwritten during the call ({format_change(given, now)})")
    return told


def explain_leaf_output(call: Findings) -> list[str]:
    """Return a note for each output that is a leaf itself, so that backward reaches nothing else."""
    program = call.program
    names = dict.fromkeys(program.labels.get(end, end) for end in program.ends if end in program.wanted)
    return [f"{name} is a leaf, so this backward reaches no other tensor" for name in names]


def explain_broadcast_losses(call: Findings) -> list[str]:
    """Return notes about losses whose two sides are broadcast, so that every pair counts."""
    program = call.program
    found = find_broadcast_pairs(program.recording.steps, lambda name: np.shape(program.arrays[name]))
    labels = program.labels
    return [
        describe_broadcast_pairs(step, *((labels.get(n, n), shape) for n, shape in sides)) for step, *sides in found
    ]


OURS = re.compile(r"(data|mask|condition|bound|leaf)(_\d+)*")
"""Matches generated names of data and leaves."""
WORD = re.compile(r"\w+")
LONGEST = 60
"""The most characters of a quoted text."""
MOST = 8
"""The most tensors that are described."""


def explain_nameless_inputs(call: Findings) -> list[str]:
    """Return a note that describes the unnamed inputs read by printed lines."""
    program, lifted, names, told = call.program, call.lifted, call.names, call.told
    read = set(WORD.findall(" ".join([*call.shown, *told.forward, *told.lines, *told.forms.values()])))
    known = {names[id(n)]: as_numbers(n.held) for n in call.scene.order if n.kind == "data" and id(n) in names}
    said: dict[str, list[str]] = {}
    for tensor in program.recording.inputs:
        node, label = lifted.nodes.get(tensor.name), program.labels[tensor.name]
        own = None if node is None else names.get(id(node))
        passed = isinstance(own, Suggested) and own.isidentifier()  # called as the line that reads it does
        written, ours = own is not None and WRITTEN.fullmatch(own), OURS.fullmatch(label)
        if label in read and written and not ours and own != label:  # q_0, of q.detach()
            said.setdefault(f"the script's {own}", []).append(label)
        elif label in read and (passed or (ours and (own is None or written))):
            words = describe_data(node, label, np.asarray(program.arrays[tensor.name]), known, call.scene.sight)
            if words:
                said.setdefault(words, []).append(label)
    parts = []
    for words, labels in list(said.items())[:MOST]:
        each = "each " if len(labels) > 1 and not words.startswith(("zeros", "ones")) else ""  # another one each time
        parts.append(f"{list_names(labels)}: {each}{words}")
    return ["; ".join(parts)] if parts else []


def describe_data(
    node: Node | None, label: str, array: Array, known: Mapping[str, Array], sight: Mapping[int, str]
) -> str:
    """Describe data as ``X @ E.T``, ``zeros``, ``X.transpose(0, 1)``; empty if nothing is known."""
    text = None if node is None else quote_making_text(node, sight)
    if text is not None:
        return text
    base = None if node is None else node.held._base
    known = {**known, sight[id(base)]: as_numbers(base)} if id(base) in sight else known
    others = ((name, other) for name, other in known.items() if name != label)
    alike = {found for name, other in others if (found := write_as_part(name, other, array)) is not None}
    numbers = describe_values(array, label)
    return alike.pop() if len(alike) == 1 and not numbers else numbers


def quote_making_text(node: Node, sight: Mapping[int, str]) -> str | None:
    """Return the text that created a tensor, or that it was made inside a call; None if unknown."""
    text = None if node.where is None or not node.made_by or node.where.in_library else text_at(node.where)
    tree = parse_one(text or "")
    if node.where is None or tree is None or names_another(read_name_expression(text or "", ()), node, sight):
        return None
    if isinstance(tree, (ast.Tuple, ast.Name)):  # a, b = x: the targets
        return None
    quoted = truncate_end(source_segment(tree, text or ""), LONGEST)
    word, *place = re.split(r"(?=\[)", node.made_by.rpartition(".")[2])  # chunk[0]
    if called_name_at(node.where) in (None, word):
        return "".join((quoted, *place))
    return ", ".join(part for part in (describe_values(as_numbers(node.held), ""), f"made inside {quoted}") if part)


def write_as_part(name: str, other: Array, array: Array) -> str | None:
    """Write ``array`` as ``other``, its transpose, a reshape, or one of its rows; None if it is none of these."""
    if other.size == array.size and other.size:
        turned = [(f"{name}.transpose(0, 1)", np.swapaxes(other, 0, 1))] if other.ndim > 1 else []
        for text, view in ((name, other), *turned):
            if np.array_equal(view.reshape(-1), array.reshape(-1)):
                return text if view.shape == array.shape else f"{text}.reshape({', '.join(map(str, array.shape))})"
        return None
    if other.ndim > 1 and len(other) <= MOST and array.size > 1:
        flat = array.reshape(-1)
        found = [n for n, row in enumerate(other) if np.array_equal(row.reshape(-1), flat)]
        return f"{name}[{found[0]}]" if len(found) == 1 else None
    return None


def describe_values(array: Array, label: str) -> str:
    """Describe an array of zeros, of ones, or a mask; empty for others."""
    if array.size == 1 and not np.isfinite(as_float(array)).all():
        return format_digits(float(array.reshape(-1)[0]))
    if array.size < 2 or array.dtype == object:
        return ""
    values = np.unique(array)
    if len(values) == 1 and values[0] in (0, 1):
        return "zeros" if values[0] == 0 else "ones"
    if len(values) == 2 and values[0] == 0:
        other = format_array(values[1:]).strip("[]")
        drew = label.startswith("mask")
        return f"the dropout mask, 0 where it drops and {other} elsewhere" if drew else f"only 0 and {other}"
    return ""


def read_backward_call(where: SourceLine) -> tuple[str | None, str | None]:
    """Return the texts of the tensor and the seed of the ``backward`` call at ``where``; None if unknown."""
    text = text_at(where) or ""
    tree = parse_one(text)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Attribute) or tree.func.attr != "backward":
        return None, None
    owner = tree.func.value
    of_torch = source_segment(owner, text).endswith("autograd")
    parts = [*tree.args] if of_torch else [owner, *tree.args]
    parts += [k.value for k in tree.keywords if k.arg in ("gradient", "grad_tensors")]
    first, second, *_ = [*(source_segment(part, text) for part in parts), None, None]
    plain = not parts or isinstance(parts[0], (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return first if plain else f"({first})", second
