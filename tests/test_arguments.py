"""Whatever is passed to a public function: an answer, or a `SymgradError`; the table has every function and argument."""

from __future__ import annotations

import fractions
import inspect
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
import symgrad.testing
from symgrad.api import explain_values
from symgrad.errors import InputError, SymgradError

X = [[1.0, 2.0], [3.0, 4.0]]
LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: list[Any] = []
for _ in range(3000):
    DEEP = [DEEP]


class Odd:
    """Something whose every attribute raises, its __repr__ too."""

    def __repr__(self) -> str:
        raise RuntimeError("odd")


WRONG: dict[str, Any] = {
    "None": None, "3": 3, "-1": -1, "2.5": 2.5, "True": True, "''": "", "]": "]", "bytes": b"x", "[]": [],
    "ragged": [1, [2]], "{}": {}, "set": {1}, "object": object(), "odd": Odd(), "function": lambda: 0, "class": int,
    "nan": float("nan"), "10**400": 10**400, "long": "a" * 5000, "nested": "(" * 3000, "objects": np.array([object()]),
    "strings": np.array(["a"]), "loop": LOOP, "deep": DEEP, "1j": 1j, "iterator": iter(()), "keys": {1: 2},
    "meta": torch.empty(2, device="meta"), "sparse": torch.eye(2).to_sparse(), "nul": "x\0", "surrogate": "\udcff",
    "letters": {"x": "ab"}, "negative": {"x": (-1,)}, "many": {"x": (1,) * 100}, "(None,)": (None,), "twice": ["x", "x"],
    "record": np.zeros(2, dtype=[("a", int)]), "1/3": fractions.Fraction(1, 3), "array": np.arange(3.0),
    "no numbers": np.array([]), "tensor": torch.ones(3), "8 axes": np.ones((2,) * 8), "14 axes": np.ones((1,) * 14),
    "a day": np.datetime64("2020-01-01"), "masked": np.ma.array([1.0, 2.0], mask=[0, 1]), "slice": slice(1),
}  # fmt: skip

FUNCTIONS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "explain": (
        symgrad.explain,
        {"expression": "x*y", "seed": X, "wrt": "x", "then": None, "shapes": None, "check": False, "expand": False,
         "order": 1, "forward": True, "x": X},
    ),
    "explain_values": (explain_values, {"expression": "x*y", "values": {"x": X}, "check": False}),
    "jacobian": (symgrad.jacobian, {"expression": "x*y", "wrt": "x", "shapes": None, "check": False, "x": X}),
    "vjp": (symgrad.vjp, {"expression": "x*y", "wrt": "x", "seed": None, "shapes": None, "check": False, "x": X}),
    "derive": (symgrad.derive, {"expression": "x*y", "wrt": "x", "shapes": None, "expand": False}),
    "jvp": (symgrad.jvp, {"expression": "x*y", "wrt": "x", "direction": X, "shapes": None, "x": X}),
    "hessian": (
        symgrad.hessian,
        {"expression": "sum(x*y)", "wrt": "x", "other": "y", "seed": None, "shapes": None, "check": False, "x": X},
    ),
    "hvp": (
        symgrad.hvp,
        {"expression": "sum(x*x)", "wrt": "x", "direction": X, "seed": None, "shapes": None, "x": X},
    ),
    "operations": (symgrad.operations, {}),
    "dropped_forms": (symgrad.dropped_forms, {}),
    "capture": (symgrad.capture, {"fn": torch.tanh, "args": torch.tensor(X)}),
    "export": (
        symgrad.export,
        {"source": "x*y", "to": "torch", "style": None, "name": None, "wrt": "x", "shapes": None, "forward_only": False},
    ),
    "exercise": (symgrad.exercise, {"expression": "x*y", "wrt": "x", "shapes": None, "x": X}),
    "check_backward": (
        symgrad.testing.check_backward,
        {"fn": torch.tanh, "expression": "tanh(x)", "tolerance": None, "order": 1, "only": None, "skip": None,
         "wrt": None, "shapes": None, "seed": 0, "x": torch.tensor(X)},
    ),
    "assert_backward": (
        symgrad.testing.assert_backward,
        {"fn": torch.tanh, "expression": "tanh(x)", "x": torch.tensor(X)},
    ),
}  # fmt: skip
OTHERS = {"args", "kwargs", "values", "inputs", "options"}
"""Parameters that take any number of arguments: x stands for them."""
CASES = [(name, argument) for name, (_, usual) in FUNCTIONS.items() for argument in usual if argument != "args"]


def test_the_table_has_every_public_function_and_argument() -> None:
    public = {*symgrad.__all__, *symgrad.testing.__all__}
    found = {n: getattr(symgrad, n, None) or getattr(symgrad.testing, n) for n in public if n != "__version__"}
    functions = {n: f for n, f in found.items() if inspect.isfunction(f)}
    del functions["load_ipython_extension"]  # IPython calls it, with its own shell
    assert functions.keys() == FUNCTIONS.keys() - {"explain_values"}
    for name, function in functions.items():
        assert set(inspect.signature(function).parameters) - OTHERS <= FUNCTIONS[name][1].keys(), name


def called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    parameters = inspect.signature(function).parameters
    first = [given[n] for n, p in parameters.items() if n in given and p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)]
    kinds = {n for n, p in parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL)}
    return function(*first, **{n: v for n, v in given.items() if n not in kinds})


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("name", "argument"), CASES, ids=lambda part: part)
def test_a_wrong_argument_is_an_answer_or_a_symgrad_error(name: str, argument: str) -> None:
    function, usual = FUNCTIONS[name]
    called(function, usual)
    for wrong, value in WRONG.items():
        if name == "capture" and argument == "fn" and wrong in ("function", "class"):
            continue  # what a user's own function raises passes through
        begin = time.process_time()
        try:
            called(function, {**usual, argument: value})
        except SymgradError as error:
            assert error.problem
        except AssertionError as error:  # that a candidate is wrong is an answer, too
            assert name == "assert_backward", error
            assert "this is not the backward" in str(error)
        assert time.process_time() - begin < 5, wrong


def test_a_tensor_without_numbers_is_refused() -> None:
    with pytest.raises(SymgradError, match="device meta"):
        symgrad.capture(lambda x: x * 2, torch.ones(2, device="meta"))


@cache
def results() -> dict[str, Any]:
    """What public functions hand back, by name."""
    found = symgrad.explain("x*y", x=X, check=False)
    gradient = found.gradients["x"]
    return {
        "Explanation": found, "Gradient": gradient, "Jacobian": gradient.jacobian,
        "Capture": symgrad.capture(torch.tanh, torch.tensor(X)), "Exercise": symgrad.exercise("x*y", x=X),
    }  # fmt: skip


INNER = {"backward_by", "boxed", "trial"}
"""Methods that other modules call, with what they have made themselves."""
METHODS = [
    (name, method, parameter)
    for name, result in results().items()
    for method in dir(type(result))
    if not method.startswith("_") and method not in INNER and inspect.isfunction(getattr(type(result), method))
    for parameter in list(inspect.signature(getattr(type(result), method)).parameters)[1:]
]  # fmt: skip
USUAL: dict[str, Any] = {"name": "x", "first": "x", "options": {}}
OPTIONS = ("width", "entry", "color", "long", "no_such_option")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "method", "parameter"), METHODS)
def test_methods_of_results_refuse_by_name(name: str, method: str, parameter: str) -> None:
    call = getattr(results()[name], method)
    needed = {
        n: USUAL.get(n)
        for n, p in inspect.signature(call).parameters.items()
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD and n != parameter
    }
    for wrong, value in WRONG.items():
        given = dict.fromkeys(OPTIONS, value) if parameter == "options" else {parameter: value}
        for one, passed in given.items():
            try:
                call(**{**needed, one: passed})
            except SymgradError:
                continue
            except TypeError as error:
                assert "unexpected keyword argument" in str(error), wrong
                assert parameter == "options"
            except Exception as error:
                raise AssertionError(f"{name}.{method}({one}=…) with {wrong}") from error


def test_the_message_says_what_it_has_to_be() -> None:
    with pytest.raises(InputError, match="the expression has to be text"):
        symgrad.explain(3)  # type: ignore[arg-type]  # that is the question
    with pytest.raises(InputError, match="order has to be 1 or 2"):
        symgrad.explain("x", order=3)
    with pytest.raises(InputError, match="wrt has to be the name of an input"):
        symgrad.vjp("x*y", ["x", "y"])  # type: ignore[arg-type]  # that is the question
    for call in (symgrad.explain, symgrad.jvp, symgrad.vjp, symgrad.jacobian, symgrad.hessian):
        with pytest.raises(SymgradError, match="the expression has no input let"):  # whatever was given as its value
            called(call, {"expression": "x*y", "wrt": "x", "let": {"x": X}, "direction": X})
