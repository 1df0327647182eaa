"""What stands between the brackets of torch's calls: read as torch reads it, or refused in words; it never trips."""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import symgrad
from symgrad.entries.spec import TORCHS
from symgrad.errors import SymgradError
from symgrad.language.inference import read_program
from symgrad.numeric import as_float, forward
from symgrad.ops import COMPOUNDS, SPELLINGS
from tests.compare import assert_same
from tests.torch_calls import call_text, found_in_torch

VALUES = {"x": (2, 3, 3), "y": (2, 3, 3), "m": (3, 3), "k": (3, 3), "u": (3,)}
ODD = (
    "", "x", "x, y", "x, y, y", "x, 0", "x, 1", "x, -1", "x, 0.5", "x, 2, 1", "x, 1, 1, 1", "x, 0, y", "x, None", "x, None, True", "x, True",
    "x, 'x'", "x, ()", "x, (0, 1)", "x, [0]", "x, (2, 3)", "x, y, True", "x, y, 1", "x, y, 0.5", "x, y, None", "x, dim=0", "x, dim=None",
    "x, dim=(0, 1)", "x, dim=-1, keepdim=True", "x, keepdim=True", "x, p=2", "x, axis=0, keepdims=True", "x, correction=0", "x, input=y",
    "x, other=y", "x, y, reduction='sum'", "[x, y]", "[x, y], 1", "[x, y], dim=0", "None", "2", "m, m", "u, u",
)  # fmt: skip
PLAIN = (
    "x",
    "x, y",
    "x, y, y",
    "m",
    "m, m",
    "u",
    "u, u",
    "x, 1",
    "x, 0",
    "x, 2",
    "x, 1, 0",
    "x, (3,)",
    "[x, y]",
    "m, u",
    "x, (1, 1)",
)
UNREAD = {
    "torch.chain_matmul": "out stands behind any number of matrices",
    "torch.group_norm": "cudnn_enabled is whose library it is",
}
"""Calls with an option at its default that is refused, and why."""
WORDS = sorted(word for word in {*COMPOUNDS, *SPELLINGS} if word.startswith(TORCHS))


def is_read(text: str) -> bool:
    """Whether the text is read; whatever is raised that is no refusal goes up."""
    try:
        read_program(
            text, shapes={name: shape for name, shape in VALUES.items() if re.search(rf"\b{name}\b(?!=)", text)}
        )
    except SymgradError:
        return False
    return True


def torch_takes(text: str) -> bool:
    """Whether torch computes it."""
    known: dict[str, Any] = {name: torch.full(shape, 0.5, dtype=torch.float64) for name, shape in VALUES.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(text, {"torch": torch, "F": F, **known})  # noqa: S307 -- the tests' own texts
    except Exception:
        return False
    return True


def defaults(word: str) -> Iterator[str]:
    """torch's options as it takes them alone, by keyword."""
    function = found_in_torch(word)
    try:
        declared = [(p.name, p.default) for p in inspect.signature(function).parameters.values()]
        yield from (f"{name}={usual!r}" for name, usual in declared if usual is not inspect.Parameter.empty)
    except (TypeError, ValueError):  # what is not written in Python has a schema
        for name in ("_".join(word.split(".")[1:]), word.rpartition(".")[2]):
            for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
                yield from (f"{a.name}={a.default_value!r}" for a in schema.arguments if a.has_default_value())


@pytest.mark.one_in(24, slow=8)
@pytest.mark.parametrize("word", WORDS)
def test_whatever_stands_between_the_brackets_is_read_or_refused(word: str) -> None:
    """A list for a number, a text for a tensor, nothing at all: some of these were "symgrad bug" or an IndexError."""
    for arguments in ODD:
        is_read(call_text(word, arguments))


@pytest.mark.one_in(24, slow=8)
@pytest.mark.parametrize("word", [word for word in WORDS if word not in UNREAD])
def test_an_option_that_says_what_torch_takes_alone_is_as_if_it_were_not_there(word: str) -> None:
    """``torch.add(x, y, alpha=1)``, ``F.softplus(x, beta=1)``, ``size_average=None``: each was refused."""
    texts = [text for text in (call_text(word, plain) for plain in PLAIN) if torch_takes(text) and is_read(text)]
    for text in texts[:3]:
        for option in dict.fromkeys(defaults(word)):
            whole = f"{text[:-1]}{'' if text.endswith('()') else ', '}{option})"
            if re.search(r"=['\w.-]+$", option) and not option.startswith("_") and torch_takes(whole):
                assert is_read(whole), whole


def names(word: str) -> Iterator[list[str]]:
    """What torch calls the arguments, in each of its ways."""
    function = found_in_torch(word)
    try:
        parameters = list(inspect.signature(function).parameters.values())
        if not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
            yield [p.name for p in parameters]
    except (TypeError, ValueError):
        for name in ("_".join(word.split(".")[1:]), word.rpartition(".")[2]):
            for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
                if not schema.overload_name or "Scalar" not in schema.overload_name:
                    yield ["input" if a.name == "self" else a.name for a in schema.arguments]


@pytest.mark.one_in(48, slow=8)
@pytest.mark.parametrize("word", WORDS)
def test_arguments_may_be_given_by_torchs_names(word: str) -> None:
    """``F.mse_loss(x, target=y)``, ``torch.cdist(x1=x, x2=y)``, ``torch.linalg.inv(A=x)``: each was refused."""
    for plain in (*PLAIN, "x > 0.5, x, y", "m, k, u", "m, (0, 1)", "m, 0.2, 0.6"):
        given = re.findall(r"[^,(\[]+(?:[(\[][^)\]]*[)\]])?", plain) if "[" not in plain else [plain]
        if not is_read(call_text(word, plain)):
            continue
        for own in names(word):
            first = min(word.startswith("Tensor."), 1)
            spoken = [
                *map(str.strip, given[:first]),
                *(f"{n}={a.strip()}" for n, a in zip(own[first:], given[first:], strict=False)),
            ]
            text = call_text(word, ", ".join(spoken))
            if len(own) >= len(given) and "out=" not in text and torch_takes(text):
                assert is_read(text), text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("x.sum(keepdim=True)", "dim"), ("torch.mean(x, keepdim=True)", "dim"), ("torch.prod(x, keepdim=True)", "dim"),
     ("torch.logsumexp(x)", "dim"), ("x.softmax()", "dim"), ("torch.log_softmax(x)", "dim"), ("F.layer_norm(x)", "normalized_shape")],
)  # fmt: skip
def test_what_torch_wants_to_be_told_is_asked_for(text: str, wanted: str) -> None:
    """They were explained as if torch took them, and said to be equal to it."""
    assert not torch_takes(text)
    with pytest.raises(SymgradError, match=f"needs {wanted}"):
        read_program(text, shapes={"x": (2, 3)})


@pytest.mark.parametrize("text", ["sum(x, keepdim=True)", "x.sum(keepdims=True)", "np.sum(x, keepdims=True)", "softmax(x)", "layer_norm(x)",
                                  "F.softmax(x)", "torch.amax(x, keepdim=True)", "torch.softmax(x, -1)"])  # fmt: skip
def test_what_is_the_tables_own_or_numpys_is_read_without_it(text: str) -> None:
    read_program(text, shapes={"x": (2, 3)})


LOSSES = [word for word in WORDS if word.endswith("_loss") or "cross_entropy" in word or word == "F.kl_div"]
OLDER = [word for word in LOSSES if word.startswith("F.") and "size_average=None" in defaults(word)]


@pytest.mark.parametrize("word", OLDER)
def test_a_reduction_in_the_place_of_an_older_word_is_none(word: str) -> None:
    """``F.mse_loss(x, y, 'sum')`` is the mean in torch: 'sum' stands where size_average does, and counts as True."""
    parameters = list(inspect.signature(getattr(F, word[2:])).parameters.values())
    place = [parameter.name for parameter in parameters].index("size_average")
    given = ["x" if p.default is p.empty else repr(p.default) for p in parameters[:place]]
    with pytest.raises(SymgradError, match="size_average is torch's older option"):
        read_program(f"{word}({', '.join([*given, repr('sum')])})", shapes={"x": (2, 3)})


NUMPY = (
    "x", "x, y", "m", "m, k", "u", "u, u", "m, u", "x, 0", "x, 1", "x, -1", "x, None", "x, axis=0", "x, axis=None", "x, axis=(0, 1)",
    "x, axis=0, keepdims=True", "x, keepdims=True", "x, ddof=1", "x, 0, ddof=1", "x, (0, 1)", "x, 1, 2", "x, (2, 0, 1)", "[m, m]", "(m, m), 1",
    "x, 0, 1", "m, (9, 1)", "x, y, 1", "m, m, 0", "x, 0.3, 0.6", "u, 1", "u, k=1", "m, k=-1", "m, (1, 1)", "x, 1, 0", "m, [0, 1], 1", "m, ord=1",
    "m, 'fro'", "m, np.inf", "x, shift=1", "m, m, axes=1", "x > 0.5, x, y", "x, 0, None, None, True", "x, 0.5, 0", "m, (2, 1)", "m, offset=1",
    "x, n=2", "x, decimals=1",
)  # fmt: skip
NUMPYS_OWN = {
    "np.linalg.svd": "signs that nobody chose",
    "np.roll": "half a step, which NumPy rounds",
    "np.linalg.lstsq": "what is left of a square matrix, which NumPy does not say",
    "np.divide": "numbers that are divided by 0, which a page refuses",
    "np.floor_divide": "the same",
}
"""Calls that are not compared, and why."""


def by_numpy(text: str, given: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """NumPy's own real numbers; None where it does not take the text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what NumPy will not take any more, and of NaN
            copies = {name: value.copy() for name, value in given.items()}
            found = np.asarray(eval(text, {"np": np, **copies}))  # noqa: S307 -- the tests' own texts
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError, np.linalg.LinAlgError):
        return None
    return None if np.iscomplexobj(found) or found.dtype == object else found


@pytest.mark.one_in(6, slow=3)
@pytest.mark.parametrize(
    "word", sorted(w for w in {*COMPOUNDS, *SPELLINGS} if w.startswith("np.") and w not in NUMPYS_OWN)
)
def test_numpys_words_are_numpys(word: str) -> None:
    """``np.sort(x)[0]`` is a row, not torch's values; ``np.cross(x, y, 1)`` has an axis of x alone in that place."""
    values = {name: np.random.default_rng(len(shape)).uniform(0.2, 0.9, shape) for name, shape in VALUES.items()}
    for text in (f"{word}({arguments}){part}" for arguments in NUMPY for part in ("", "[0]", "[1]")):
        given = {name: value for name, value in values.items() if re.search(rf"\b{name}\b", text)}
        expected = by_numpy(text, given)
        if expected is None:
            continue
        with contextlib.suppress(SymgradError):
            reading = read_program(text, shapes={name: value.shape for name, value in given.items()})
            found = forward(reading.program, {**given, **reading.made})[reading.program.output]
            assert_same(expected.astype(float), as_float(found), what=text)


def test_every_call_is_tried() -> None:
    assert len(WORDS) > 400
    assert len(OLDER) > 12


@pytest.mark.parametrize("options", ["rtol=0.9", "atol=1.5", "0.9", "rtol=0.1, atol=2.0"])
def test_a_pseudo_inverse_of_what_is_left_is_refused(options: str) -> None:
    """Of a singular value that counts as 0 no equation was asked: the page said that the oracles disagree."""
    x = [[3.0, 1.0], [1.0, 2.0], [0.0, 1.0]]
    with pytest.raises(SymgradError, match="a singular value counts as 0 here"):
        symgrad.explain(f"torch.linalg.pinv(x, {options})", x=x)
    assert symgrad.explain("torch.linalg.pinv(x, rtol=0.1)", x=x).passed
