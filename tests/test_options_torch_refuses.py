"""Options of the whole table in and beside their ranges: what torch refuses is refused, in a sentence.

Nothing here names what an option may be: torch says so. A value goes into the call of each example by its name; an
exception that is no refusal of symgrad's is red, and so is a number where torch has none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad import InputError
from symgrad.errors import SymgradError
from symgrad.ops import SPELLINGS, Op
from symgrad.oracles.torch import run_torch
from symgrad.question import ask
from tests import torch_side
from tests.cases import Case, cases

BESIDE: tuple[Any, ...] = (-2, -1, 0, 1, 2, 7, -0.5, 0.5, None, True, (), (1, 2), (0, 1, 1), "sum", float("inf"))
"""Values in and beside what options may be."""


def calls(case: Case) -> Iterator[str]:
    """The example with one option of its operation at another value."""
    op = case.op
    for place, option in enumerate(op.signature.parameters):
        for value in BESIDE if option not in op.operands else ():
            tree = ast.parse(case.example.text, mode="eval")
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and op in (own := called(node)):
                    at = place - own.index(op)
                    if at < len(node.args):
                        node.args[at] = ast.Name(shown(value))
                    else:
                        kept = [k for k in node.keywords if k.arg != option]
                        node.keywords = [*kept, ast.keyword(option, ast.Name(shown(value)))]
                    yield ast.unparse(tree)


def called(node: ast.Call) -> list[Op | None]:
    """What a call means as a function, and as a method of the tensor before its dot."""
    word = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    spelled = ast.unparse(node.func)
    return [SPELLINGS.get(spelled) or SPELLINGS.get(f"torch.{spelled}"), SPELLINGS.get(f"Tensor.{word}")]


def shown(value: Any) -> str:
    """A value as it is typed."""
    return "math.inf" if value == float("inf") else repr(value)


def refused_by_torch(text: str, case: Case) -> bool:
    """Whether torch has no value: what is only of another type than its parser takes (a list, None) has one."""
    try:
        torch_side.evaluate(text, torch_side.tensors(case.inputs, {*case.fixed, *case.op.data}))
    except (TypeError, AttributeError):
        return False
    except (RuntimeError, ValueError, LookupError, ArithmeticError, AssertionError):
        return True
    return False


def accepted(text: str, case: Case) -> bool:
    """Whether symgrad has a value; any exception but its own goes on."""
    try:
        question = ask(text, case.inputs, None)
        out = question.values[question.program.output]
        inputs = {given.name: given.value for given in question.inputs}
        run_torch(question.program, inputs, np.ones(np.shape(out)), [])
    except SymgradError:
        return False
    return True


READ_OTHERWISE = {
    "cdist": "compute_mode changes nothing, whatever it is",
    "linalg_norm": "dim=() are all axes, as of other norms",
    "logsumexp": "dim=() are all axes, as of other reductions: torch 2.13 takes it so for a number alone",
    "max_unpool1d": "stride=() is none, as torch has it elsewhere; output_size=2 is read as (2,)",
    "max_unpool2d": "stride=() is none, as torch has it elsewhere",
    "max_unpool3d": "stride=() is none, as torch has it elsewhere",
}
"""Where symgrad means to read what torch does not."""
FIRST = {case.op.name: case for case in reversed(cases())}


@pytest.mark.one_in(24)
@pytest.mark.filterwarnings("ignore")  # torch warns of odd options
@pytest.mark.parametrize("name", list(FIRST))
def test_an_option_that_torch_refuses_is_refused_in_a_sentence(name: str) -> None:
    case, wrong = FIRST[name], list[str]()
    for text in calls(case):
        if accepted(text, case) and refused_by_torch(text, case):
            wrong.append(text)
    assert not wrong or name in READ_OTHERWISE, wrong


@pytest.mark.parametrize(
    "name", ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]
)
def test_an_option_is_refused_where_torch_refuses_it(name: str) -> None:
    functional = pytest.importorskip("torch").nn.functional
    for p in (2, -1, 1.5):
        with pytest.raises(ValueError, match="between 0 and 1"):
            getattr(functional, name)(None, p, False)
        with pytest.raises(InputError, match="p has to be a number from 0 to 1"):
            symgrad.explain(f"F.{name}(x, {p}, False)", check=False)
    for p in (0, 0.5, 1):
        assert symgrad.explain(f"F.{name}(x, {p}, False)", check=False)
