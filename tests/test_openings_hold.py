"""What `explain` opens with holds: at most six lines, each gradient's line runs in torch and gives torch's gradient.

The printed text is what is tested: its lines are read back from the page and evaluated as they stand.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache

import hypothesis
import numpy as np
import pytest

import symgrad
from symgrad.backward.page_names import UNNAMED
from symgrad.backward.simplify.dtype_casts import gives_truths
from symgrad.errors import SymgradError
from symgrad.explanation import Explanation
from symgrad.oracles.torch import data_inputs
from tests import torch_programs, torch_side
from tests.cases import Case, first_stories
from tests.compare import assert_same
from tests.expressions import Expression, expressions
from tests.nights import numbers
from tests.test_lines_of_the_table import OTHERWISE, without

WIDE = 100_000
MOST = 10
FLIPPED = "x.grad = v_h.flip(0).cumsum(0).flip(0).T"
HALVES = "v_h = 0.01 + 2 * h / h.numel()"
NAME = re.compile(r"(?<![\w.])[^\W\d⁰¹²³⁴⁵⁶⁷⁸⁹]\w*")


@lru_cache(maxsize=8)
def page(explanation: Explanation, brief: bool) -> str:
    """The page of an explanation, unwrapped: several tests look at one."""
    return explanation.to_text(brief=brief, width=WIDE)


def opening(explanation: Explanation, brief: bool = False) -> list[str]:
    """The lines that a page opens with, unwrapped: code, formulas, and what is said below them."""
    title, _, rest = page(explanation, brief).rstrip("\n").partition("\n")
    assert title.strip()
    opened, _, sections = rest.partition("\n1  ")
    assert brief is not bool(sections), "a brief page has no section, a whole one has"
    told = [line.strip() for line in opened.splitlines() if line.strip()]
    remarks = ("Assumed:", "Complex tensors are shown")
    return [line for line in told if not line.startswith(remarks) and " no gradient" not in line]


def statements(lines: list[str]) -> set[str]:
    """The lines among them that are code."""
    return {line.removeprefix("with ") for line in lines if is_code(line)}


def is_code(line: str) -> bool:
    """Whether a line is a statement of Python that says its value."""
    match = re.match(r"(?:with )?[\w.]+ = (.+)$", line)
    if match is None or match[1].startswith("…"):
        return False
    try:
        ast.parse(match[1].replace("; ", "\n"))
    except SyntaxError:
        return False
    return True


def code_of(lines: list[str]) -> dict[str, str]:
    """The statements among them, by the name that each defines."""
    found = {}
    for line in lines:
        if is_code(line):
            name, text = line.removeprefix("with ").split(" = ", 1)
            found[name] = text
    return found


def inputs_of(explanation: Explanation) -> dict[str, np.ndarray]:
    """The inputs as torch takes them: of those that are only read whole numbers are integers."""
    still, found = data_inputs(explanation.program), {}
    for tensor in explanation.program.inputs:
        array = np.asarray(explanation.values[tensor.name], dtype=float)
        whole = (
            tensor.name in still
            and not tensor.name.startswith(("running", "weight"))
            and (array == np.round(array)).all()
        )
        found[tensor.name] = array.astype(np.int64) if whole else array
    return found


def in_words(lines: list[str]) -> set[str]:
    """The names that an opening says in words: what stands in a later section, what a letter of a formula is."""
    section = "in section 4", "see section 4"
    ends = (*section, *(f"{words} of the whole page" for words in section), "computed in the forward pass")
    said = [line for line in lines if line.endswith(ends) or line.startswith("(")]
    cut = {
        line.removeprefix("with ").partition(" = ")[0]
        for line in lines
        if "characters of code" in line or " more …" in line
    }
    return cut | {name for line in said for name in NAME.findall(line)}


def defined_everywhere(lines: list[str], known: set[str]) -> None:
    """Every name that a formula reads is a tensor with a name, an index, a function, or is said in words."""
    told = in_words(lines)
    for line in lines:
        found = re.match(r"[\w.]+\.grad(?:\[([\w,]*)\])? = (.+)$", line)
        if found is None or line.split(" = ")[0] + " = " + found[2] in statements(lines):
            continue
        over = re.findall(r"[ΣΠ]_(?:\{([^}]*)\}|(\w))", found[2])
        bound = {part.partition("<")[0].strip() for letters in over for part in "".join(letters).split(",")}
        here = {*(found[1] or "").split(","), *bound, *told, *known, "mod", "π"}
        loose = set(re.findall(rf"{NAME.pattern}(?!\w*\()", re.sub(r"[ΣΠ]_|δ_\w+|…\s+#.*", " ", found[2])))
        assert {re.sub(r"[\d²³⁴⁵⁶⁷⁸⁹]+$", "", n) for n in loose - here} <= here, (line, loose - here)


def evaluated(explanation: Explanation, lines: list[str]) -> dict[str, np.ndarray]:
    """The gradients whose line can be computed from the printed lines alone: all that read nothing said in words."""
    program = explanation.program
    inputs = inputs_of(explanation)
    title = NAME.findall(page(explanation, brief=True).partition("\n")[0])
    named = [t.name for t in program.tensors() if not UNNAMED.fullmatch(t.name) and t.name in title]
    known = {
        **{name: torch_side.tensor(np.asarray(explanation.values[name], dtype=float)) for name in named},
        **{
            step.result.name: torch_side.tensor(np.asarray(explanation.values[step.result.name], dtype=float)).bool()
            for step in program.steps
            if gives_truths(step.op)
        },
        **{k: v.detach() for k, v in torch_side.tensors(inputs, data_inputs(program)).items()},
        program.seed: torch_side.tensor(np.asarray(explanation.seed, dtype=float)),
        program.output: torch_side.tensor(np.asarray(explanation.output, dtype=float)),
    }
    defined_everywhere(lines, {*known})
    elsewhere, waiting, found = in_words(lines) - known.keys(), code_of(lines), dict[str, np.ndarray]()
    while waiting:
        ready = [name for name, text in waiting.items() if not set(NAME.findall(text)) & (waiting.keys() - {name})]
        assert ready, f"in a circle: {waiting}"
        for name in ready:
            text = waiting.pop(name)
            if set(NAME.findall(text)) & elsewhere:
                elsewhere.add(name)
                continue
            value = torch_side.evaluate(text, known, as_numbers=False)
            if name.endswith(".grad"):
                found[name.removesuffix(".grad")] = np.asarray(value, dtype=float)
            else:
                known[name] = value
    return found


def held(explanation: Explanation, what: str) -> int:
    """How many gradients of an opening were computed from its lines, all equal to torch's.

    Where torch has no number for a derivative that exists, and the page says so, it is what the page derived.
    """
    lines, alone = opening(explanation), opening(explanation, brief=True)
    assert 0 < len(lines) <= MOST, lines
    if any("section 4" in line for line in lines):  # there is room for more where nothing follows
        held_by(explanation, alone, what)
    else:
        assert lines == alone
    return held_by(explanation, lines, what)


def held_by(explanation: Explanation, lines: list[str], what: str) -> int:
    """The same for the lines of one opening."""
    program = explanation.program
    inputs = inputs_of(explanation)
    _, torchs = torch_programs.program_gradients(program, inputs, explanation.seed)
    said = " ".join(lines)
    own = {name: np.asarray(g.value, dtype=float) for name, g in explanation.gradients.items()}
    found = evaluated(explanation, lines)
    for name, value in found.items():
        there = torchs[name].reshape(own[name].shape)
        here = np.broadcast_to(value, there.shape)
        known = np.isfinite(there) | ("but those that follow" not in said)
        assert_same(there[known], here[known], what=f"{what}: {name}")
    for name, every, some in re.findall(
        r"(\w+) is used (\d+) times(?:: its gradient is the sum over (?:the (\d+)|these))?", said
    ):
        assert len(explanation.gradients[name].sweep.uses) == int(some or every)
    if "Equal to torch" in said:
        for name, array in own.items():
            assert_same(torchs[name].reshape(array.shape), array, what=f"{what}: {name}")
    return len(found)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", first_stories())
def test_every_example_of_the_table_opens_with_what_holds(case: Case) -> None:
    if case.example.text in OTHERWISE:
        return
    count = held(case.story, case.name)
    lines = opening(case.story)
    if not without(case) and not any(words in " ".join(lines) for words in ("in section 4", "characters of code")):
        assert count or not any(f"{name}.grad = " in line for name in case.story.gradients for line in lines), lines


@pytest.mark.one_in(3)
@pytest.mark.parametrize("slope", ["relu", "relu6", "F.softshrink", "F.hardtanh", "abs", "F.threshold"])
def test_a_slope_of_true_and_false_is_a_number_to_the_lines_behind_it(slope: str) -> None:
    """torch negates no condition and has no matrix of them."""
    options = ", 0.1, 0.0" if slope == "F.threshold" else ""
    generator = np.random.default_rng(0)
    for text in ("s = F.nll_loss(x, t); {}(s{})", "s = -x.sum(); {}(s{})", "s = 3 - (x @ w).sum(); {}(s{})"):
        inputs = {"x": -generator.uniform(0.5, 1, size=(2, 3)), "w": generator.uniform(1, 2, size=(3, 2))}
        inputs["t"] = np.array([0, 2])
        inputs = {name: value for name, value in inputs.items() if re.search(rf"\b{name}\b", text)}
        assert held(symgrad.explain(text.format(slope, options), **inputs), f"{text} of {slope}")


OPENED = (
    "softmax(x)", "F.layer_norm(x, (3,), g)", "F.group_norm(x, 2)", "F.batch_norm(x, None, None, training=True)",
    "F.normalize(x)", "logsumexp(x, dim=0)", "F.scaled_dot_product_attention(Q, K, V)", "F.cosine_similarity(x, y)",
    "h = softmax(x); h * x", "F.mish(x)", "xhat = log_softmax(x); 2 * xhat", "mse_loss(x, y)",
)  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("text", OPENED)
def test_what_stands_inside_an_opened_operation_is_said(text: str) -> None:
    """xhat, r and P are names of the operation's own, which nobody has read yet."""
    lines = opening(symgrad.explain(text, expand=True), brief=True)
    held(symgrad.explain(text, expand=True), text)
    assert not any(re.search(r"entries of (div|mul|sub|add)\b", line) for line in lines), lines


SCALARS = (
    "t[0].sum()", "t[1].sum()", "t[2].mean()", "t.sum()", "t.mean()", "t[:, 0].mean()", "t[:, 1].sum()", "t[1:].sum()",
    "t[0, 0]", "t[2, 1]", "(t * x).sum()", "t.T.sum()", "t.max()", "t[0] @ t[1]", "w.abs().sum()", "x[0].prod()",
    "(x @ w).sum()", "(t[0] - t[1]).sum()", "(x - t).mean()", "(t[:2] * w[1:]).sum()", "s ** 2",
)  # fmt: skip
"""Numbers that people make of a tensor, to add, subtract and weigh them."""
HEADS = "relu(x)", "x @ w", "softmax(x, -1)", "cumsum(x, 0)", "x * x", "x.T", "x.flip(0) @ w"
SUMS = "a - b", "a + 2 * b", "2 * a - 0.5 * b + c", "a * b", "a / (1 + b ** 2) - c", "(a - b).relu()", "a - b.exp() - c"


def of_scalars(seed: int) -> str:
    """A program of statements that adds, subtracts and weighs several numbers."""
    generator = np.random.default_rng(seed)
    a, b, c = (str(text) for text in generator.choice(SCALARS, 3, replace=False))
    lines = (
        f"t = {generator.choice(HEADS)}",
        f"s = {generator.choice(SCALARS[:-1])}",
        f"a = {a}",
        f"b = {b}",
        f"c = {c}",
    )
    last = str(generator.choice(SUMS))
    named = {name: line.partition(" = ")[2] for name, line in zip("abc", lines[2:], strict=True)}
    if generator.random() < 0.5:  # the same without names
        return "; ".join([*lines[:2], re.sub(r"\b[abc]\b", lambda match: f"({named[match[0]]})", last)])
    return "; ".join([*lines, last])


def numbers_hold(seed: int) -> None:
    """The opening of one such program holds."""
    text, generator = of_scalars(seed), np.random.default_rng(seed)
    reads = [name for name in "xw" if re.search(rf"\b{name}\b", text)]
    explanation = symgrad.explain(text, **{name: generator.uniform(0.2, 2, size=(3, 3)) for name in reads})
    assert explanation.passed
    held(explanation, text)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", range(8))
def test_sums_of_several_numbers_open_with_what_holds(seed: int) -> None:
    numbers_hold(seed)


@pytest.mark.parametrize("start", numbers([8], range(13, 68, 5)))
def test_many_sums_of_several_numbers_open_with_what_holds(start: int) -> None:
    for seed in range(start, start + 5):
        numbers_hold(seed)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "t = relu(x)\nt[0].sum() - t[1].sum()",
            ["v_t = pad(stack([ones_like(t1), -ones_like(t3)]), (0, 0, 0, t.shape[0] - 2))", "x.grad = v_t * (x > 0)"],
        ),
        ("h = tanh(x); a = h.sum(); b = h.mean(); a - b", ["v_h = 1 - 1 / h.numel()", "x.grad = v_h * (1 - h ** 2)"]),
        ("h = x.T.cumsum(0); 3 * h.sum() - h.mean()", ["v_h = (3 - 1 / h.numel()) * ones_like(h)", FLIPPED]),
        ("h = tanh(x); s = (h * h).mean(); s + 0.01 * h.sum()", [HALVES, "x.grad = v_h * (1 - h ** 2)"]),
    ],
)
def test_a_cotangent_that_is_a_number_is_read_as_one(text: str, lines: list[str]) -> None:
    explanation = symgrad.explain(text, x=np.arange(1.0, 10).reshape(3, 3) / 9)
    assert held(explanation, text) == 1
    assert [str(line) for line in explanation.backward.statements if line.text] == lines


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("torch.where(x > 0, x.sqrt(), x)", "x.grad = v * ~t1 + v * t1 / t2 / 2"),
        ("where(~(x > 0), x, 2*x)", "x.grad = v * where(x > 0, 2, 1)"),
        ("m = x > 0; h = where(m, x.sqrt() + 1, x*x); (m*h) @ w", "x.grad = 2 * v_h * ~m * x + v_h * m / t1 / 2"),
        ("m = ~(x > 0); where(m, x.exp(), x.sqrt())", "x.grad = v * ~m / t3 / 2 + v * m * t2"),
    ],
)
def test_a_condition_is_negated_as_one(text: str, line: str) -> None:
    """No (t1 == 0) for what holds true and false."""
    inputs = {"x": np.array([[0.5, -2.0, 1.5], [3.0, 1.0, -2.5]]), "w": np.array([[2.0, 3.0], [1.0, -1.0], [4.0, 0.5]])}
    explanation = symgrad.explain(text, **{name: inputs[name] for name in inputs if re.search(rf"\b{name}\b", text)})
    assert line in opening(explanation, brief=True)
    assert held(explanation, text)


@pytest.mark.filterwarnings(r"ignore:.*degrees of freedom is <= 0")  # torch's words about a covariance of nothing
@pytest.mark.parametrize("part", numbers(range(1), range(1, 10)))
def test_random_programs_open_with_what_holds(part: int) -> None:
    @hypothesis.seed(part)
    @hypothesis.settings(max_examples=6, database=None, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(drawn=expressions(4))
    def check(drawn: Expression) -> None:
        holds(drawn)

    check()


def holds(drawn: Expression) -> None:
    """The opening of a program that torch can differentiate and that has a value holds."""
    try:
        explanation = symgrad.explain(drawn.text, **drawn.inputs)
    except SymgradError:
        return
    differentiable = all(g.checks and g.checks[0].passed for g in explanation.gradients.values())
    if "except for the signs of some vectors" in " ".join(explanation.to_text().split()):
        return  # lines that torch runs have its signs
    if differentiable and np.isfinite(np.asarray(explanation.output, dtype=float)).all():
        try:
            held(explanation, drawn.text)
        except RuntimeError as refused:
            assert "not differentiable" in str(refused)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["F.scaled_dot_product_attention(F.glu(b), c, c, d)", "F.glu(b).norm(dim=1) / F.glu(b).shape[1] ** 0.5"]
)
def test_a_root_of_half_a_size_is_not_rounded_down(text: str) -> None:
    """``2 ** 0.5 * b.shape[1] ** 0.5 // 2`` is a whole number, and √2 is none."""
    shapes = {"b": (2, 4), "c": (3, 2), "d": (2, 3)}
    told = symgrad.explain(
        text, shapes={name: shape for name, shape in shapes.items() if f"{name}" in re.findall(r"\w+", text)}
    ).to_text()
    assert not re.search(r"\*\* 0\.5 // ", told), told[:600]
