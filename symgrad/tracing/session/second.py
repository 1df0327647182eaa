"""A product or a Hessian of `torch.autograd.functional` as one event: what H is, and how many sweeps it takes.

Comes in: an `Ask` whose call is over, and what torch returned. Goes out: a note: size, structure and zeros of H (of J
for ``jvp``), why fewer sweeps would do, the function and its gradient, the lines of the product, and whether
torch returned what was derived.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.record.trace import as_array, tensors_in
from symgrad.tracing.record.transforms import Ask
from symgrad.tracing.session.agreement import difference, precision_of
from symgrad.tracing.session.scene import pulled, pushed
from symgrad.tracing.session.transformed import (
    boxes,
    hessians,
    kind_of,
    lines_of,
    program_of,
    sizes,
    slopes_of,
)
from symgrad.tracing.story.events import Note

ZEROS = "u·H for a u of zeros"
SWEEPS = {
    "hvp": f"H·v, second derivatives times v, by three sweeps: the gradient, {ZEROS}, and that differentiated by u:",
    "vhp": "v·H, v times second derivatives, by two sweeps: the gradient, and v·J of the gradient:",
    "jvp": "Ju for u = v, by two sweeps: w·J for a w of zeros, and that differentiated by w (double backward trick):",
    "hessian": "all second derivatives, by a sweep for the gradient and one back through it for each entry "
    "(torch.func.hessian(f) goes through it in one batched sweep):",
}
"""How each of them gets there."""


def told(ask: Ask, result: object) -> Note:
    """The event of one call; raises `UnsupportedError` where its function cannot be told."""
    found = list(tensors_in(result[1] if ask.word != "hessian" else result))  # type: ignore[index]  # torch's pair
    if not ask.ends or not ask.wanted:
        raise UnsupportedError("its function ran on tensors of a transform, or gave none")
    title = f"torch.autograd.functional.{ask.word}() gives {SWEEPS[ask.word]}"
    if ask.word == "hessian":
        if any(t.requires_grad and t.is_leaf for t in found):
            raise UnsupportedError("it returned leaves of a graph of its own")
        return hessians(ask, [t.detach() for t in found], title)
    return product(ask, [as_float(as_array(t)) for t in found], title)


def product(ask: Ask, torchs: Sequence[Array], title: str) -> Note:
    """One product with H, or with J."""
    second = ask.word != "jvp"
    named = dict(ask.inside.names)
    ends = slopes_of(ask, named) if second else list(ask.ends)
    program = program_of(ask, ends, named)
    labels = [program.labels[own] for own in program.wanted]
    given = [as_array(t) for t in ask.tangents] or [np.ones(np.shape(program.arrays[own])) for own in program.wanted]
    if ask.word == "vhp":
        own = list(pulled(program, given).values())
    else:
        own = pushed(program, dict(zip(labels, given, strict=True)))
    kind = precision_of(kind_of(ends))[0]
    pairs = [difference(as_float(a), b, kind, None, 0.0) for a, b in zip(own, torchs, strict=True)]
    agrees = all(same for _, same in pairs)
    said = [*sizes(program, ask.word, second)]
    if ask.word == "hvp":
        said += transposed(program, given, own, kind, labels)
    elif ask.word == "vhp":
        said.append(f"{forwards(labels, 'grad(f)')} takes the gradient and one sweep forward through it")
    else:
        said.append(f"{forwards(labels, 'f')} takes one sweep, forward")
    said.append(
        "= torch in every entry" if agrees else f"≠ torch, by {max(e for e, _ in pairs):.2g} of the largest entry"
    )
    return Note(ask.where, title, (*said, *lines_of(program, second), *boxes(program)), agrees)


def transposed(
    program: Capture, given: Sequence[Array], own: Sequence[Array], kind: float, labels: Sequence[str]
) -> Iterator[str]:
    """That H is symmetric, so that fewer sweeps do: tried with this v."""
    back = list(pulled(program, given).values())
    if all(difference(as_float(a), as_float(b), kind, None, 0.0)[1] for a, b in zip(own, back, strict=True)):
        yield f"H·v = v·H here, as H is symmetric: vhp() takes two sweeps, and so does {forwards(labels, 'grad(f)')}"


def forwards(labels: Sequence[str], function: str) -> str:
    """``torch.func.jvp(torch.func.grad(f), (x,), (v,))``."""
    weights = ["v"] if len(labels) == 1 else [f"v_{name}" for name in labels]
    asked = f"torch.func.{function}" if function != "f" else function
    asked = asked.replace("(f)", f"(f, argnums={tuple(range(len(labels)))})") if len(labels) > 1 else asked
    pair = [f"({', '.join(names)}{',' if len(names) == 1 else ''})" for names in (labels, weights)]
    return f"torch.func.jvp({asked}, {', '.join(pair)})"
