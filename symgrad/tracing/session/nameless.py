"""What data without a name is, in words: the text that made it, another tensor turned, or what its numbers are.

Comes in: a call's program, its inputs' nodes and the names that the script gives. Goes out: one line. A word about the
numbers is said only of numbers that were looked at, and a text only where that text itself made the tensor: what a
layer makes inside is said to be made there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.render.flow import shortened
from symgrad.tracing.lift.lifted import WRITTEN
from symgrad.tracing.record.frames import as_written
from symgrad.tracing.record.names import called, text_at, tree_of
from symgrad.tracing.record.numbers import digits, short
from symgrad.tracing.record.trace import Node, as_array
from symgrad.tracing.session.findings import Findings
from symgrad.tracing.story.events import some

OURS = re.compile(r"(data|mask|condition|bound|leaf)(_\d+)*")
"""What data and leaves are called for want of a name."""
WORD = re.compile(r"\w+")
LONGEST = 60
"""Characters of a text that is quoted."""
MOST = 8
"""Tensors that are described; a program with more of them has other worries."""


def nameless(call: Findings) -> list[str]:
    """What each input is that the script has no name for and that a line which is shown reads."""
    program, lifted, names, told = call.program, call.lifted, call.names, call.told
    read = set(WORD.findall(" ".join([*call.shown, *told.forward, *told.lines, *told.forms.values()])))
    known = {names[id(n)]: as_array(n.held) for n in call.scene.order if n.kind == "data" and id(n) in names}
    said: dict[str, list[str]] = {}
    for tensor in program.recording.inputs:
        node, label = lifted.nodes.get(tensor.name), program.labels[tensor.name]
        own = None if node is None else names.get(id(node))
        if label in read and OURS.fullmatch(label) and (own is None or WRITTEN.fullmatch(own)):
            words = described(node, label, np.asarray(program.arrays[tensor.name]), known)
            if words:
                said.setdefault(words, []).append(label)
    parts = [f"{some(labels)}: {each(words, len(labels))}" for words, labels in list(said.items())[:MOST]]
    return ["; ".join(parts)] if parts else []


def each(words: str, count: int) -> str:
    """A text that made several tensors made another one each time."""
    return f"each {words}" if count > 1 and not words.startswith(("zeros", "ones")) else words


def described(node: Node | None, label: str, array: Array, known: Mapping[str, Array]) -> str:
    """``X @ E.T``, ``zeros``, ``X.transpose(0, 1)``; empty where nothing is known."""
    text = None if node is None else made_as(node)
    if text is not None:
        return text
    alike = {found for name, other in known.items() if (found := as_part(name, other, array)) is not None}
    numbers = in_numbers(array, label)
    return alike.pop() if len(alike) == 1 and not numbers else numbers


def made_as(node: Node) -> str | None:
    """The text that made a tensor; of what a call made inside, that it was made there."""
    text = None if node.where is None or not node.made_by else text_at(node.where)
    tree = tree_of(text or "")
    if node.where is None or tree is None:
        return None
    quoted = shortened(as_written(tree, text or ""), LONGEST)
    if called(node.where) in (None, node.made_by.rpartition(".")[2]):
        return quoted
    return ", ".join(part for part in (in_numbers(as_array(node.held), ""), f"made inside {quoted}") if part)


def as_part(name: str, other: Array, array: Array) -> str | None:
    """How ``array`` is read of ``other``, where it is: as it stands, turned, reshaped or one of its rows."""
    if other.size == array.size and other.size:
        if np.array_equal(other.reshape(-1), array.reshape(-1)):
            shape = ", ".join(map(str, array.shape))
            return name if other.shape == array.shape else f"{name}.reshape({shape})"
        if other.ndim > 1 and np.array_equal(np.swapaxes(other, 0, 1).reshape(-1), array.reshape(-1)):
            shape = ", ".join(map(str, array.shape))
            turned = f"{name}.transpose(0, 1)"
            return turned if np.swapaxes(other, 0, 1).shape == array.shape else f"{turned}.reshape({shape})"
        return None
    if other.ndim > 1 and len(other) <= MOST and array.size > 1:
        flat = array.reshape(-1)
        found = [n for n, row in enumerate(other) if np.array_equal(row.reshape(-1), flat)]
        return f"{name}[{found[0]}]" if len(found) == 1 else None
    return None


def in_numbers(array: Array, label: str) -> str:
    """Zeros, ones, or what a mask holds."""
    if array.size == 1 and not np.isfinite(as_float(array)).all():
        return digits(float(array.reshape(-1)[0]))
    if array.size < 2 or array.dtype == object:
        return ""
    values = np.unique(array)
    if len(values) == 1 and values[0] in (0, 1):
        return "zeros" if values[0] == 0 else "ones"
    if len(values) == 2 and values[0] == 0:
        other = short(values[1:]).strip("[]")
        drew = label.startswith("mask")
        return f"what dropout drew, 0 where it drops and {other} elsewhere" if drew else f"only 0 and {other}"
    return ""
