"""Groups of steps that one line is for: in standard form, with what their sizes require."""

from __future__ import annotations

import pytest

from symgrad import explain
from symgrad.backward.groups import make_groups
from symgrad.backward.standard_groups import standardise_group
from symgrad.language import read_program


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [("F.selu(chunk(y, 2)[1])", {"y": (4, 3)}), ("addmv(diff(y), c, diff(y))", {"y": (4,), "c": (3, 3)})],
)
def test_a_group_without_a_line_falls_apart_whatever_its_steps_are_called(text: str, shapes: dict[str, object]) -> None:
    assert explain(text, shapes=shapes, check=False).backward.lines


def test_what_a_derivation_requires_is_of_the_sizes_it_knows() -> None:
    """Those of its inputs: what another step requires says nothing here, and a number is decided already."""
    program = read_program(
        "h = x[1:3].tanh(); h * y[2:4] * z[:2].exp()", shapes={"x": ("n",), "y": ("m",), "z": ("k",)}
    ).program
    assert len(program.required) > 2
    tensors, kept = {tensor.name: tensor for tensor in program.tensors()}, 0
    for group in make_groups(program, {step.result.name for step in program.steps}):
        found = standardise_group(group, tensors, None, program.required)
        known = {s for own in found.program.inputs for size in own.shape for s in size.free_symbols}
        required = [size for size in found.program.required if not size.free_symbols & set(found.slots.found)]
        assert all(size.free_symbols and size.free_symbols <= known for size in required), required
        kept += len(required)
    assert kept
