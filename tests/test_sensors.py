"""What `symgrad run` sees of a backward of the user's own that torch repairs without a word."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.session_pages import event_text

FUNCTION = """
import sys
import torch
from torch.autograd.function import once_differentiable


class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b

    @staticmethod
    {mark}
    def backward(ctx, v):
        return {returned}


x, b = torch.ones(4, 3, requires_grad=True), torch.ones({shape}, requires_grad=True)
{before}
(Add.apply(x, b) ** 2).sum().backward()
"""
ADDED = "Add.backward returned 4×3 for its input 2, which is 3 (own.py:15): autograd sums it up, other callers do not"


def notes(place: Path, returned: str, shape: str = "3", mark: str = "", before: str = "") -> tuple[str, ...]:
    """The notes on the only call."""
    script = place / "own.py"
    text = FUNCTION.format(returned=returned, shape=shape, mark=mark, before=before)
    script.write_text(text if mark else text.replace("    \n    def backward", "\n    def backward"))
    (call,) = run_script(str(script), [], tell=event_text).calls
    return tuple(note for note in call.notes if "returned" in note)


@pytest.mark.parametrize("mark", ["", "@once_differentiable"])
def test_a_gradient_that_is_not_reduced_is_named_at_its_line(tmp_path: Path, mark: str) -> None:
    assert notes(tmp_path, "v, v", mark=mark) == (ADDED,)


def test_a_gradient_of_another_type_is_named(tmp_path: Path) -> None:
    said = "Add.backward returned float16 for its input 1, which is float32 (own.py:15): torch cast it"
    assert notes(tmp_path, "v.half(), v.sum(0)") == (said,)


STRIDED = """
import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    @staticmethod
    def backward(ctx, v):
        {read}
        return v * torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


x = torch.ones(2, 3, requires_grad=True)
(Double.apply(x).T * torch.arange(6.0).reshape(3, 2)).sum().backward()
"""


@pytest.mark.parametrize("read", ["v = v.as_strided((2, 3), (3, 1))", "pass", "v = v + 1"])
def test_a_backward_that_takes_v_to_lie_in_order_is_named(tmp_path: Path, read: str) -> None:
    script = tmp_path / "strided.py"
    script.write_text(STRIDED.format(read=read))
    (call,) = run_script(str(script), [], tell=event_text).calls
    said = (
        "Double.backward reads v as if it were contiguous, which explains its result: v has strides (1, 2); call "
        "v.contiguous() first"
    )
    assert (said in call.notes) == ("as_strided" in read)
    assert any("Double.backward is wrong" in note for note in call.notes) == (read != "pass")


MISCOUNTED = (
    "Add.backward returned {} (own.py:15), and Add.forward has 2 inputs: return one for each, in their order, None "
    "for inputs without one"
)
WRITTEN_TO = (
    "Add.backward wrote into such a tensor (own.py:15). The v it received is one: 4×3 with strides (0, 0), as the "
    "backward of sum passes it; v must not be modified"
)
REFUSED = {
    "v": [MISCOUNTED.format("1 gradient")],
    "(v, v.sum(0), v)": [MISCOUNTED.format("3 gradients")],
    "(v.mul_(2), None)": [WRITTEN_TO],
    "(v[:, :1].expand(4, 3).contiguous().expand(2, 4, 3).mul_(2), None)": [],
    "1 / 0": [],
}


@pytest.mark.parametrize("returned", REFUSED)
def test_what_torch_refuses_of_a_backward_is_named_at_its_line(tmp_path: Path, returned: str) -> None:
    """A write into another tensor of that kind is not laid to v, where v lies in order."""
    text = FUNCTION.format(returned=returned, shape="3", mark="@once_differentiable", before="")
    if "expand" not in returned:
        text = text.replace("(Add.apply(x, b) ** 2).sum()", "Add.apply(x, b).sum()")  # v is one number, spread
    before, _, last = text.rstrip().rpartition("\n")
    script = tmp_path / "own.py"
    script.write_text(f"{before}\ntry:\n    {last}\nexcept Exception as error:\n    print(error)\n")
    (call,) = run_script(str(script), [], tell=event_text).calls
    assert call.failure
    assert [reason for reason in call.reasons if reason.startswith("Add.backward")] == REFUSED[returned]


def test_of_a_right_backward_nothing_is_said(tmp_path: Path) -> None:
    assert notes(tmp_path, "v, v.sum(0)") == ()


def test_none_is_told_where_a_gradient_was_asked(tmp_path: Path) -> None:
    said = "Add.backward returned None for its input 2 (own.py:15), so no gradient flows on from there"
    assert said in notes(tmp_path, "v, None", "4, 3")


def test_who_profiles_goes_on(tmp_path: Path) -> None:
    before = "seen = []; sys.setprofile(lambda frame, event, value: seen.append(event))"
    try:
        assert notes(tmp_path, "v, v", before=before) == ()
        assert sys.getprofile() is not None
    finally:
        sys.setprofile(None)


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    notes(tmp_path, "v, v")
    assert sys.getprofile() is None


SEVERAL = """
class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, times, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, None, g * x + h


t = torch.tanh(x)
p, s = Both.apply(t, 3, {other})
{end}.sum().backward()
"""


@pytest.mark.parametrize(
    ("other", "end", "said"),
    [
        ("b", "(p + 2 * s)", ["v_t = Both.backward(v_p, v_s)[0] #", "b 1×12 Both.backward(v_p, v_s)[2]", "s = Both.apply(t, …, b)[1]"]),
        ("b", "s", ["v_t = Both.backward(0, v_s)[0] #"]),
        ("t", "(p + s)", ["v_t = Both.backward(v_p, v_s)[0] + Both.backward(v_p, v_s)[2] #"]),
    ],
)  # fmt: skip
def test_a_function_of_several_tensors_is_asked_once_and_each_takes_its_part(
    tmp_path: Path, other: str, end: str, said: list[str]
) -> None:
    script = tmp_path / "own.py"
    given = (
        FUNCTION.split("\n\n\n")[0]
        + "\nx, b = torch.ones(4, 3, requires_grad=True), torch.ones(4, 3, requires_grad=True)\n"
    )
    script.write_text(given + SEVERAL.format(other=other, end=end))
    (call,) = run_script(str(script), [], tell=event_text).calls
    told = " ".join(event_text(call, 200).split())
    assert [line for line in said if line not in told] == [], told
    assert all(leaf.boxed for leaf in call.leaves)
