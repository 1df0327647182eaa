"""Any text at all: it is read or refused, soon, nothing of it runs, and torch gives the shapes that are read."""

import gc
import sys
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import sympy as sp
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from symgrad import SymgradError, operations
from symgrad.language import LOSSES, ParsedProgram, expand_composites, read_program
from symgrad.program import Program
from tests.torch_programs import function_of

WORDS = st.sampled_from(
    [
        *"xabwhv", "out", "softmax", "relu", "torch.", "F.", "np.", "math.", "sum", "mean", "exp", "cat", "stack",
        "einsum", "max", "norm", "var", "x.", ".T", ".shape", ".reshape", ".view", ".permute", ".expand", ".values",
        *"()[]()[],:=<+-*/%@.; \n", "==", "//", "**", "...", "0", "1", "2", "-1", "0.5", "1e9", "999999", "True",
        "None", "'ij,jk->ik'", "'mean'", "dim=", "keepdim=", "lambda ", "__import__('os')", "eval(",
        "\0", "\ud800", "\ufeff",
        *"é²−#\\'\"{`$",
    ]
)  # fmt: skip

NAMES = st.sampled_from(["x", "y", "a", "b"])
CONSTANTS = st.sampled_from(["2", "-1", "0.5", "1/3", "x.shape[0]", "len(y)", "math.sqrt(2)", "a.numel()"])
INDICES = st.sampled_from(
    ["0", "-1", ":", "1:", ":-1", "::2", "...", "None", "1:3", "5", ":x.shape[0]//2", "3:1", "0:0"]
)
FUNCTIONS = st.sampled_from(
    sorted({s.replace("Tensor.", "torch.Tensor.") for op in operations() for s in (op.name, *op.spellings)})
)
COMMON = st.sampled_from(
    [
        "exp", "torch.tanh", "F.relu", "np.abs", "torch.maximum", "where", "sum", "mean", "amax", "torch.prod", "diag",
        "logsumexp", "softmax", "torch.mm", "torch.Tensor.mv", "dot", "outer", "trace", "matmul", "stack",
        "permute", "transpose", "torch.Tensor.T", "reshape", "torch.flatten", "unsqueeze", "squeeze",
    ]
)  # fmt: skip
OPTIONS = st.sampled_from(
    [
        "0", "1", "-1", "-9", "10**17", "0.5", "True", "None", "(0, 1)", "(1, 0)", "(2, -1)", "(1.5,)", "()", "'mean'",
        "'none'", "x", "x.shape", "dim=0", "dim=1", "dim=-1", "keepdim=True", "axis=0", "correction=0", "p=1",
        "reduction='sum'", "min=0", "shape=(3, -1)", "dims=(1, 0)",
    ]
)  # fmt: skip


def larger(inner: st.SearchStrategy[str], functions: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions made of smaller ones, plausible more often than right."""
    signs = st.sampled_from(["+", "-", "*", "/", "@", "**", "<", "=="])
    calls = st.builds(
        lambda f, operands, options: f"{f}({', '.join([*operands, *options])})",
        functions,
        st.lists(inner, min_size=1, max_size=2),
        st.one_of(st.just([]), st.lists(OPTIONS, max_size=2)),
    )
    return st.one_of(
        calls,
        calls,
        st.builds("({} {} {})".format, inner, signs, inner),
        st.builds("({} {} {})".format, inner, signs, CONSTANTS),
        st.builds("(-{})".format, inner),
        st.builds("{}[{}]".format, inner, st.lists(INDICES, min_size=1, max_size=3).map(", ".join)),
        st.builds("{}.{}".format, inner, st.sampled_from(["T", "mT", "mT", "shape[0]", "values"])),
        st.builds("cat([{}, {}], {})".format, inner, inner, st.sampled_from(["0", "1", "-1", "x", "(0,)"])),
        st.builds("einsum({}, {}, {})".format, st.sampled_from(["'ij,jk->ik'", "'i,i->'", "'ij,j'"]), inner, inner),
    )


EXPRESSIONS = st.recursive(NAMES, lambda inner: larger(inner, COMMON), max_leaves=6)
ANYTHING = st.recursive(NAMES, lambda inner: larger(inner, FUNCTIONS), max_leaves=6)
TEXTS = st.one_of(st.text(max_size=60), st.lists(WORDS, max_size=30).map("".join), ANYTHING)
WAYS = st.sampled_from(
    [{}, {"out_shape": (2, 3)}, {"out_shape": ()}, {"symbolic": True}, {"shapes": {"x": (2, 3)}}, {"output": LOSSES}]
)

watching: list[str] = []
active = False


def audit(event: str, arguments: tuple[object, ...]) -> None:
    """Notes code that comes from a text; modules that SymPy loads late come from files, and trees do not run."""
    if not active:
        return
    runs = event == "exec" and getattr(arguments[0], "co_filename", "").startswith("<string>")
    compiles = event == "compile" and arguments[1] == "<string>"
    if runs or compiles or event in ("os.system", "os.exec", "subprocess.Popen", "pickle.find_class"):
        watching.append(event)


listening = cache(lambda: sys.addaudithook(audit))
AUDITED = pytest.mark.xdist_group("language: audit")
"""A hook stays for as long as the process: the tests that need it share one, which has it from the first of them on."""


def watched(text: str, way: dict) -> ParsedProgram | str:
    """The reading of ``text``, or the kind of its error, under the eyes of the audit hook."""
    global active
    listening()
    watching.clear()
    active = True
    gc.disable()  # a large process spends seconds on a collection, and they are not the text's
    try:
        return read_program(text, **way)
    except SymgradError as error:
        active = False
        places = error.span is None or 0 <= error.span[0] <= error.span[1] <= len(text)
        return error.kind if places and str(error) else "an error without a message, or beside the text"
    finally:
        active = False
        gc.enable()


@AUDITED
@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(4))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(text=TEXTS, way=WAYS)
def test_any_text_gives_a_reading_or_a_symgrad_error_soon_and_runs_nothing(part: int, text: str, way: dict) -> None:
    """Each part draws its own."""
    started = time.process_time()
    result = watched(text, way)
    assert time.process_time() - started < 2
    assert not watching
    if isinstance(result, ParsedProgram):
        check(result)
    else:
        assert result in ("syntax", "name", "shape", "value", "domain", "unsupported")


@AUDITED
@pytest.mark.parametrize("slip", [lambda: exec("1 + 1"), lambda: sp.sympify("x + 1")])
def test_the_audit_sees_what_runs(slip: Callable[[], object]) -> None:
    global active
    listening()
    watching.clear()
    active = True
    try:
        slip()
    finally:
        active = False
    assert watching


def check(reading: ParsedProgram) -> None:
    """What holds of every reading: steps have places, and sizes are whole numbers if they are numbers at all."""
    program: Program = reading.program
    for tensor in program.tensors():
        if program.sizes:
            assert all(n >= 0 for n in program.numbers(tensor.shape))
    for step in program.steps:
        assert step.span is not None
        assert hash(step.options) is not None
    expand_composites(program)


@settings(max_examples=150)
@given(EXPRESSIONS)
def test_what_is_read_has_the_shape_that_torch_gives_it(text: str) -> None:
    try:
        program = read_program(text).program
    except SymgradError:
        return
    assume(all(0 not in program.numbers(t.shape) for t in program.tensors()))  # torch has no max of nothing
    generator = np.random.default_rng(0)
    inputs = [torch.tensor(generator.uniform(0.5, 2, program.numbers(t.shape))) for t in program.inputs]
    out = function_of(program)(*inputs)
    assert tuple(out.shape) == program.numbers(program.out.shape)


@given(ANYTHING)
def test_a_reading_is_the_reading_of_its_own_shapes(text: str) -> None:
    try:
        program = read_program(text).program
    except SymgradError:
        return
    shapes = {t.name: program.numbers(t.shape) for t in program.inputs}
    again = read_program(text, shapes=shapes).program
    assert [t.name for t in again.tensors()] == [t.name for t in program.tensors()]
    assert [again.numbers(t.shape) for t in again.tensors()] == [program.numbers(t.shape) for t in program.tensors()]
