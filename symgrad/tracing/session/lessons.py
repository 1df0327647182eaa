"""Notes for learners about a call without an error: the size of J, what v = ones sums, means, Hessian products.

Comes in: the program of a call, its seeds, its leaves. Goes out: size and structure of J, if they are cheap, and lines,
each tested on the numbers before it is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from symgrad.backward.groups import is_move
from symgrad.backward.simplify.factors import strip_transpose
from symgrad.errors import SymgradError
from symgrad.explanation.notable import describe_mean, describe_repeated_read, find_means, reads_at_positions
from symgrad.language.python_text import write_python
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.numeric import Array
from symgrad.numeric.arranged import SYMMETRIC, matrix_inputs, symmetric_gradient
from symgrad.numeric.exact import as_float
from symgrad.ops.lookup import has_role
from symgrad.oracles.forms import reader_of
from symgrad.program import Role
from symgrad.render.numbers import format_digits
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import pull_recording, with_labels
from symgrad.tracing.record.trace import Node, upstream_nodes
from symgrad.tracing.session.nonfinite import has_nan_output
from symgrad.tracing.session.scene import Findings, Scene
from symgrad.tracing.story.events import Leaf
from symgrad.tracing.story.line_checks import names_on_page, values_on_page
from symgrad.tracing.story.story_lines import StoryLines

SHORT, FEW = 14, 6
"""The most steps and leaves of a program with such notes."""
ROWS = ": v is ones, so whole rows of H are added, with the mixed derivatives (a Laplacian adds only the diagonal)"
MOST = 20_000
"""The most entries of a product that is formed to test a sentence."""


def collect_lessons(call: Findings) -> list[str]:
    """Return all notes of this module about a small program."""
    program, seeds, rows, told = call.program, call.seeds, call.rows, call.told
    found = [*double_backward_note(call.scene, program, told.letter(program.recording.seed), seeds)]
    if len(program.recording.steps) > SHORT or len(rows) > FEW or len(program.ends) != 1 or program.black_boxes:
        return found
    try:
        moving = any(row.added.any() and not row.rounding for row in rows)
        found += symmetry_note(program, rows)
        found += repeated_reads_note(program, rows)
        found += per_sample_note(program, rows, told)
        found += mean_loss_note(program) if moving or has_nan_output(program) else ()
        found += added_rows_note(program, seeds, rows) if moving else ()
    except SymgradError:
        pass
    return found


def pull_from(program: Capture, name: str, weights: Array, wanted: Sequence[str]) -> Mapping[str, Array]:
    """Return vᵀJ from a tensor of the program, in floats."""
    return {own: as_float(array) for own, array in pull_recording(program, {name: weights}, wanted).items()}


def mean_loss_note(program: Capture) -> Iterator[str]:
    """Yield a note about the only loss that takes a mean, with its divisor; ``mean()`` in the script needs none."""
    losses = [(s, n) for s, n in find_means(program.recording, program.values) if not has_role(s.op, Role.AVERAGES)]
    if len(losses) == 1:
        yield describe_mean(*losses[0], program.recording, program.values)


def added_rows_note(program: Capture, seeds: Mapping[str, Array], leaves: Sequence[Leaf]) -> Iterator[str]:
    """Yield a note that v = ones or a sum adds rows of J, or that v = ones adds nothing up as J is diagonal."""
    end = program.ends[0]
    given, label = np.asarray(seeds[end]), program.labels.get(end, end)
    if given.size > 1 and (given == 1).all():
        name, first = end, " ".join(["1", *["0"] * min(2, given.size - 1), *["…"] * (given.size > 3)])
        alone = f"v = {first} gives the first alone, torch.func.jacrev all of them"
        said = f"v = ones adds the {given.size} rows of J; {alone}"
    elif given.size == 1 and (summed := find_summed_tensor(program, end)) is not None:
        name, count = summed, np.size(program.arrays[summed])
        said = f"{label} sums {count} entries, so their {count} rows of J add up; jacrev returns each row"
    else:
        return
    size, shape = np.size(program.arrays[name]), np.shape(program.arrays[name])
    rows = [pull_from(program, name, np.eye(1, size, n).reshape(shape), program.wanted) for n in {0, 1, size - 1}]
    pairs = combinations(rows, 2)
    finite = all(np.isfinite(array).all() for row in rows for array in row.values())
    if finite and any(np.any((one[own] != 0) & (other[own] != 0)) for one, other in pairs for own in program.wanted):
        yield said
    if name == end and leaves and all(DIAGONAL in leaf.jacobian for leaf in leaves):
        yield "J is diagonal, so v = ones returns all of it: the slope of each output with respect to its own input"


def find_summed_tensor(program: Capture, end: str) -> str | None:
    """The tensor whose entries the last step adds, if it does."""
    maker = program.recording.makers.get(end)
    tensors = program.recording.by_name
    if maker is None or maker.result.name in program.boxes or len(maker.tensors) != 1 or not is_move(maker, tensors):
        return None
    (name,) = maker.tensors
    weights = pull_from(program, end, np.ones(np.shape(program.arrays[end])), [name])[name]
    return name if weights.size > 1 and (weights == 1).all() else None


def repeated_reads_note(program: Capture, rows: Sequence[Leaf]) -> Iterator[str]:
    """An entry that is read several times by a selection, or by the one step that reads a tensor at given positions."""
    own = {label: name for name, label in program.labels.items()}
    for row in rows:
        name, selects = own[row.name], "selection" in row.jacobian
        readers = program.recording.readers.get(name, ())
        looks_up = len(readers) == 1 and reads_at_positions(readers[0])
        looks_up = looks_up and any(program.arrays[n].dtype.kind == "i" for n in readers[0].tensors)
        if not (selects or looks_up):
            continue
        end = program.ends[0] if selects else readers[0].result.name
        counts = pull_from(program, end, np.ones(np.shape(program.arrays[end])), [name])[name]
        if selects or (counts.sum() == np.size(program.arrays[end]) and (counts == np.round(counts)).all()):
            yield from describe_repeated_read(row.name, counts)


def symmetry_note(program: Capture, rows: Sequence[Leaf]) -> Iterator[str]:
    """A matrix that is read as symmetric: two places share what one variable would have."""
    kinds = matrix_inputs(program.recording)
    for own, kind in kinds.items():
        row = next((row for row in rows if row.name == program.labels.get(own, own)), None)
        if kind not in SYMMETRIC or row is None or row.added.ndim != 2 or len(row.added) < 2:
            continue
        shared, whole = float(row.added[1, 0]), float(symmetric_gradient(row.added)[1, 0])
        a, b = f"{row.name}[1,0]", f"{row.name}[0,1]"
        said = f"{format_digits(shared)} each, {format_digits(whole)} as one variable"
        yield f"{row.name} is symmetric here: {a} and {b} get {said}"


def per_sample_note(program: Capture, rows: Sequence[Leaf], told: StoryLines) -> Iterator[str]:
    """The first gradient that adds a product over the rows of a batch: before the sum, one for each row."""
    if told.source is None:
        return
    own = {label: name for name, label in program.labels.items()}
    known, shown = values_on_page(program, told.source), names_on_page(program, told.source)
    for row in rows:
        line = told.source.gradients.get(own.get(row.name, ""))
        if line is None or line.tree is None or line.text != told.forms.get(row.name):
            continue
        tree = line.tree
        if not isinstance(tree, Binary) or tree.sign != "@" or not line.names <= known.keys():
            continue
        left = strip_transpose(tree.left)
        if not isinstance(left, Name):
            continue
        one, other = (evaluate_part(part, known) for part in (left, tree.right))
        if one.ndim != 2 or other.ndim != 2 or len(one) < 2 or one.size * other.shape[1] > MOST:
            continue
        apart = one[:, :, None] * other[:, None, :]
        if not np.allclose(apart.sum(0), row.added, rtol=1e-4, atol=1e-6):
            continue
        names = [with_labels(write_python(part), shown) for part in (left, tree.right)]
        first, second = (f"({text})" if " " in text else text for text in names)
        yield (
            f"{row.name}: the product adds {len(one)} rows (samples); before that sum the gradients per sample are "
            f"{first}[:, :, None] * {second}[:, None, :]"
        )
        return


def evaluate_part(part: SyntaxNode, known: Mapping[str, Any]) -> Array:
    """A part of a line in numbers."""
    if isinstance(part, Name):
        return as_float(np.asarray(known[part.name]))
    return as_float(np.asarray(reader_of(False)(write_python(part), dict(known))))


def double_backward_note(scene: Scene, program: Capture, v: str, seeds: Mapping[str, Array]) -> Iterator[str]:
    """A gradient that is differentiated: by its v this is J·u, by what it is a gradient by H·u."""
    if len(scene.nodes) != 1:
        return
    node: Node = scene.nodes[0]
    name = program.labels.get(program.ends[0], program.ends[0])
    asked = [node for node, _ in scene.leaves]
    if (made := node.gradient) is None:
        summed = find_summed_tensor(program, program.ends[0])
        yield from through_gradient_note(scene, name, v, "" if summed is None else program.labels.get(summed, summed))
        return
    line = f" (line {node.where.line})" if node.where is not None else ""
    weights = [weight for weight in made.weights if any(weight is own for own in asked)]
    if weights and len(asked) == 1:
        by = scene.sight.get(id(scene.leaves[0][1]), "its v")
        gives = "it gives J·u, columns of J (the double backward trick)"
        yield f"{name} is v·J with v = {by}{line}: differentiated with respect to {by} {gives}"
    elif len(made.outputs) == 1 and not made.outputs[0].shape and [made.inputs[node.index]] == asked:
        by = scene.sight.get(id(scene.leaves[0][1]), "its input")
        given = np.asarray(seeds[program.ends[0]])
        rows = ROWS if given.size > 1 and (given == 1).all() else ""
        yield (
            f"{name} is already a gradient with respect to {by}{line}: its {v}ᵀJ is H·{v}, a Hessian-vector "
            f"product{rows}"
        )


def through_gradient_note(scene: Scene, name: str, v: str, summed: str) -> Iterator[str]:
    """A number that is made of a gradient, as g·w is: by the chain rule H·w comes back of it."""
    asked = [node for node, _ in scene.leaves]
    made = [n for n in scene.order if (g := n.gradient) is not None and [g.inputs[n.index]] == asked]
    if len(made) != 1 or len(made[0].gradient.outputs) != 1 or made[0].gradient.outputs[0].shape:
        return
    (inner,) = made
    tensor = inner.owner()
    if tensor is None or asked[0] in upstream_nodes(tuple(scene.nodes), {id(inner)}):
        return
    by, own = (scene.sight.get(id(t), word) for t, word in ((scene.leaves[0][1], "its input"), (tensor, "a gradient")))
    line = f" (line {inner.where.line})" if inner.where is not None else ""
    yield (
        f"{own} is already a gradient with respect to {by}{line}, and {name} depends on {by} only through {own}: "
        f"{v}ᵀJ is H times the gradient of {own}, a Hessian-vector product{ROWS if summed == own else ''}"
    )


DIAGONAL = "diagonal("
"""Prefix of the notation of a diagonal Jacobian."""


def describe_leaf_jacobian(program: Capture, name: str) -> str:
    """Return J's size, and its structure if that is cheap."""
    found = format_jacobian_size(program, name)
    if len(program.ends) > 1 or len(program.recording.steps) > SHORT or found == "1×1":
        return found
    try:
        read = program.jacobian(program.labels[name]).structure
    except SymgradError:
        return found
    notation = with_labels(read.notation, program.labels).replace("diag(", DIAGONAL)
    return f"{found} {notation or read.kind}".rstrip()


def format_jacobian_size(program: Capture, name: str) -> str:
    """Format J's size as ``3×3``: rows are outputs, columns entries of the leaf."""
    rows = sum(int(np.prod(np.shape(program.arrays[e]), dtype=object)) for e in dict.fromkeys(program.ends))
    return f"{rows}×{int(np.prod(np.shape(program.arrays[name]), dtype=object))}"
