"""What is shown: the words, the formulas, the four formats.

The forum example is kept whole by tests/contract/test_goldens.py. Every formula of every operation's examples is
printed, read back by a reader that knows nothing of the printer, evaluated entry by entry, and held against the array
that was computed.
"""

import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError
from scipy import special

import symgrad
from symgrad.calculus import local_jacobian
from symgrad.errors import Frontend, for_frontend
from symgrad.explanation import Explanation
from symgrad.functions import STABLE
from symgrad.indexing import Equation
from symgrad.indexing.symbols import accesses
from symgrad.numeric import evaluate
from symgrad.oracles.comparisons import Check, skipped
from symgrad.render import numbers, schema
from symgrad.render import (
    write_derivation as written_derived,
)
from symgrad.render.content import explanation_page
from symgrad.render.formula import Unicode, formula_text
from symgrad.render.latex_alphabet import formula_latex
from symgrad.render.letters import Names, choose_names
from symgrad.render.markup import page_latex, page_markdown
from symgrad.render.text import page_text
from tests.cases import Case, first_stories

ROOT = Path(__file__).resolve().parents[1]
SEED = [[1, 2, 3, 4], [5, 6, 7, 8]]


@lru_cache
def forum() -> Explanation:
    return symgrad.explain("x@a", seed=SEED)


# --- the forum example --------------------------------------------------------------------------------------

REQUIRED = [
    # what is computed and what was assumed
    "out = x@a",
    "x 2×3   a 3×4   out 2×4",
    "Assumed: x and a are ones",
    "--let x=…",
    "--shape x=2,4",
    # 1 Forward
    "1  Forward",
    "out[i,k] = Σ_j x[i,j]·a[j,k]",
    "out[0,0] = x00·a00 + x01·a10 + x02·a20 = 3",
    "out[1,3] = x10·a03 + x11·a13 + x12·a23 = 3",
    "out = 3 3 3 3",
    "out has 8 elements, so out.backward() alone stops with",
    "grad can be implicitly created only for scalar outputs",
    "8 rows",
    "nobody said how to weigh them",
    # 2 Jacobian
    "2  The Jacobian J",
    "∂out[i,k]/∂x[p,q] = δ_ip·a[q,k]",
    "8×6, 24 of 48 entries can be nonzero",
    "J = I₂ ⊗ aᵀ: one block aᵀ per row of x, zeros elsewhere",
    "∂out[i,k]/∂a[p,q] = δ_kq·x[i,p]",
    "8×12, 24 of 96 entries can be nonzero",
    "J = x ⊗ I₄",
    "δ_ip is 1 where i = p and 0 elsewhere",
    "x00  x01  x02 │  x10  x11  x12",
    "every entry written out above is 1 here",
    # 3 Seed
    "3  The seed v: one weight for each output",
    "v = 1 2 3 4",
    "L = Σ v∘out",
    "1·out[0,0] + 2·out[0,1] + 3·out[0,2] + 4·out[0,3] + 5·out[1,0] + 6·out[1,1] + 7·out[1,2] + 8·out[1,3]",
    "= 108",
    "out.backward(v) computes the gradient of this L: ∂L/∂x and ∂L/∂a.",
    "It does not multiply out by v and hand that back.",
    "v∘out is 2×4 like out, x.grad is 2×3 like x",
    # 4 vᵀJ
    "4  vᵀJ",
    "x.grad[p,q] = Σ_{i,k} v[i,k]·∂out[i,k]/∂x[p,q]",
    "x.grad[p,q] = Σ_k v[p,k]·a[q,k]",
    "x.grad = v @ a.T",
    "x.grad[0,0] = 1·a00 + 2·a01 + 3·a02 + 4·a03 = 1·1 + 2·1 + 3·1 + 4·1 = 10",
    "x.grad[1,0] = 5·a00 + 6·a01 + 7·a02 + 8·a03 = 5 + 6 + 7 + 8 = 26",
    "x.grad = 10 10 10",
    "26 26 26",
    "a.grad[p,q] = Σ_i x[i,p]·v[i,q]",
    "a.grad = x.T @ v",
    "a.grad[0,0] = x00·1 + x10·5 = 1·1 + 1·5 = 6",
    "a.grad = 6 8 10 12",
    # 5 Proof
    "5  Proof",
    "out.backward(v), torch",
    "float64",
    "SymPy, every entry of J differentiated on its own",
    "⟨v, J u⟩ = ⟨vᵀJ, u⟩ for 3 random u",
    "Exact integers throughout: equal means identical.",
    "the rows of J are outputs and its columns are inputs, both numbered row by row",
]


def flat(text: str) -> str:
    """Whatever the lines are."""
    return re.sub(r"\s+", " ", text)


@lru_cache
def forum_page() -> str:
    """The forum example's page, made once for all its sentences."""
    with for_frontend(Frontend.COMMAND):
        return flat(forum().to_text())


@pytest.mark.parametrize("sentence", REQUIRED)
def test_the_forum_example_says(sentence: str) -> None:
    assert flat(sentence) in forum_page()


def test_the_matrix_falls_into_blocks() -> None:
    lines = forum().to_text().splitlines()
    first = next(n for n, line in enumerate(lines) if "x00  x01  x02 │" in line)
    rows = lines[first + 1 : first + 10]
    assert [bool(re.search("─┼─", row)) for row in rows] == [False] * 4 + [True] + [False] * 4
    assert rows[0].split() == ["out[0,0]", "a00", "a10", "a20", "│", "·", "·", "·"]
    assert rows[8].split() == ["out[1,3]", "·", "·", "·", "│", "a03", "a13", "a23"]


def test_every_writer_tells_the_same_story() -> None:
    formats = (forum().to_text(), forum().to_markdown(), forum().to_latex())
    for word in (
        "Forward",
        "Jacobian",
        "seed",
        "Proof",
        "scalar outputs",
        "weigh",
        "hand that back",
        "identical",
        "v @ a.T",
    ):
        assert all(word in text for text in formats), word


# --- other stories ------------------------------------------------------------------------------------------


def said(expression: str, **options: Any) -> str:
    return re.sub(r"\s+", " ", symgrad.explain(expression, **options).to_text())


def test_a_scalar_needs_no_argument() -> None:
    text = said("sum(x*x)", x=[1, 2, 3])
    assert "out is a single number, so out.backward() needs no argument" in text
    assert "L is out itself" in text
    assert "scalar outputs" not in text


def test_without_a_seed_ones_are_what_they_mean() -> None:
    text = said("x*2", x=[1, 2])
    assert "No seed was given" in text
    assert "the result is the gradient of that sum, as out.sum().backward() gives it" in text
    assert "scalar outputs" in text


def test_a_downstream_loss_gives_the_seed() -> None:
    text = said("a@x", then="sum((out-y)**2)", y=[1, 2], a=[[1, 2, 0], [0, 1, 3]])
    assert "L = sum((out-y)**2)" in text
    assert "v[i] = ∂L/∂out[i] = 2·(out[i] − y[i])" in text
    assert "v = 4 4" in text
    assert "compared with v a x" in text


def test_a_tensor_that_is_used_twice_has_two_shares() -> None:
    text = said("x@x.T", x=[[1, -2, 3], [0, 1, 1]], seed=[[1, 2], [3, 4]])
    assert "x is used 2 times" in text
    assert "use 1: x.grad[p,q] = Σ_k v[p,k]·x[k,q] as argument 1 of x@x.T" in text
    assert "use 2: x.grad[p,q] = Σ_i v[i,p]·x[i,q] as argument 1 of x.T" in text
    assert "x.grad = (v + v.T) @ x" in text


def test_zero_gradients_are_explained() -> None:
    assert "x.grad is 0, up to rounding, although J is not" in said("softmax(x)", x=[1, 2, 3])
    assert "other weights show more" in said("softmax(x)", x=[1, 2, 3])
    assert "x.grad is 0: every entry of J is 0 at these numbers" in said("relu(x)", x=[-1, -2])
    assert "x.grad is 0 because every weight in v is 0" in said("x*2", x=[1, 2], seed=[0, 0])
    assert "weights cancel" in said("stack([x, 2*x])", x=[1, 2], seed=[[2, 4], [-1, -2]])


def test_an_input_without_a_path() -> None:
    text = said("y = 2*a; x*3")
    assert "out does not depend on a at all" in text
    assert "torch leaves a.grad at None" in text


def test_a_value_that_is_none() -> None:
    assert "where the slope of sqrt(x) is infinite or undefined" in said("sqrt(x)", x=[0, 4])


def test_large_things_are_named_and_not_printed() -> None:
    text = symgrad.explain("x@a", shapes={"x": (40, 30), "a": (30, 20)}, check=False).to_text()
    assert len(text.splitlines()) < 80
    assert "out = 30 in all 800 entries" in text
    assert "x.grad[0,0] = 1·a[0,0] + 1·a[0,1] + 1·a[0,2] + … + 1·a[0,19]" in text
    assert "The 800×1200 matrix is too large to show here" in re.sub(r"\s+", " ", text)
    assert "symgrad plan counts its zeros" in re.sub(r"\s+", " ", text)
    assert "v∘out is 40×20 like out, x.grad is 40×30 like x" in re.sub(r"\s+", " ", text)
    assert "v∘out has 2 entries like out, w.grad has 3 entries like w" in re.sub(
        r"\s+", " ", symgrad.explain("x@w", shapes={"x": (2, 3), "w": (3,)}, wrt="w", check=False).to_text()
    )
    assert '.gradients["x"].jacobian.sparse()' in text


@pytest.mark.slow
def test_long_programs_get_stages() -> None:
    text = said("tanh(w3@tanh(w2@tanh(w1@x)))", check=False)
    assert "v_t1 is the gradient with respect to t1:" in text
    assert "x.grad[p,q] = Σ_i w1[i,p]·v_t1[i,q]" in text


def test_sizes_are_told_where_they_are_read() -> None:
    assert "x.grad[p,q] = 2·v·x[p,q]/(m·n)" in said("mean(x*x)", x=[[1, 2], [3, 4], [5, 6]])
    assert "here m = 3, n = 2" in said("mean(x*x)", x=[[1, 2], [3, 4], [5, 6]])


def test_one_entry() -> None:
    text = re.sub(r"\s+", " ", forum().to_text(entry=("x", (0, 1))))
    assert "4 of 8 outputs depend on x01:" in text
    assert "out[0,2] a12 1 3 3" in text
    assert "sum 10" in text
    assert "x.grad[0,1] = 1·a10 + 2·a11 + 3·a12 + 4·a13 = 1·1 + 2·1 + 3·1 + 4·1 = 10" in text
    with pytest.raises(symgrad.SymgradError):
        forum().to_text(entry=("x", (2, 0)))
    with pytest.raises(symgrad.SymgradError):
        forum().to_text(entry=("z", (0,)))


# --- proofs that fail, and proofs that were not made --------------------------------------------------------


def with_check(check: Check) -> str:
    gradient = forum().gradients["x"]
    gradients = {**forum().gradients, "x": replace(gradient, checks=(check, *gradient.checks[1:]))}
    return re.sub(r"\s+", " ", replace(forum(), gradients=gradients).to_text())


def test_a_disagreement_is_the_result() -> None:
    bad = Check("out.backward(v), torch 0", 7.0, False, worst=(0, 1), expected=10.0, got=17.0)
    text = with_check(bad)
    assert "DIFFERS: out.backward(v), torch 0, for x: at x[0,1] expected 10, got 17" in text
    assert "The oracles disagree with what was derived" in text.split("1 Forward")[0]
    assert "do not use these formulas" in text
    assert "equal means identical" not in text


def test_a_check_that_was_not_made_says_why() -> None:
    text = with_check(skipped("out.backward(v) by torch", "torch is not installed"))
    assert "skipped" in text
    assert "Skipped for x: out.backward(v) by torch (torch is not installed)." in text


def test_decimals_show_the_difference() -> None:
    assert "Decimal numbers: the table shows the largest difference" in said("exp(x)", x=[0.5, 1.5])


def test_without_checks_nothing_is_claimed() -> None:
    assert "Checks were turned off" in said("x*2", check=False)


# --- formulas -----------------------------------------------------------------------------------------------

GRADIENTS = [
    ("x@a", "x", "Σ_k v[p,k]·a[q,k]"),
    ("x@a", "a", "Σ_i x[i,p]·v[i,q]"),
    ("tanh(x)", "x", "v[p]·(1 − out[p]²)"),
    ("x + b", "b", "v[p]"),
    ("x.mean()", "x", "v/m"),
    ("softmax(x, dim=1)", "x", "out[p,q]·(v[p,q] − Σ_j v[p,j]·out[p,j])"),
    ("x@x.T", "x", "Σ_i v[i,p]·x[i,q] + Σ_k v[p,k]·x[k,q]"),
    ("mse_loss(x, y)", "x", "2·v·(x[p] − y[p]) / m"),
    ("relu(x)", "x", "v[p]·[x[p] > 0]"),
    ("x/y", "y", "−v[p]·x[p]/y[p]²"),
    ("x**y", "x", "v[p]·y[p]·x[p]^(y[p] − 1)"),
    ("norm(x)", "x", "v·x[p]·[out ≠ 0] / out"),
    ("x.reshape(3, 2)", "x", "v[⌊p/2⌋,p mod 2]"),
    ("cat([x, y])", "y", "v[p + m]"),
    ("i*k", "i", "v[p]·k[p]"),
    ("p + q*r", "q", "v[s]·r[s]"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("expression", "name", "formula"), GRADIENTS)
def test_gradients_read_as_a_person_writes_them(expression: str, name: str, formula: str) -> None:
    lines = [
        re.sub(r" {3,}.*", "", line.strip())
        for line in written_derived("text", *symgrad.derive(expression)).splitlines()
    ]
    found = [line.partition(" = ")[2] for line in lines if re.match(rf"{name}\.grad(\[|\b)", line)]
    assert formula in found


def test_a_formula_without_names() -> None:
    _, derived = symgrad.derive("x@a")
    equation = derived[0].sweep.equation
    assert formula_text(equation.right, equation.axes) == "Σ_j v[p,j]·a[q,j]"
    assert formula_latex(equation.right, equation.axes) == r"\sum_{j} v_{pj} \, a_{qj}"


def test_held_integers_are_read_as_a_tensor() -> None:
    text = symgrad.explain("max(x, dim=1).values", x=[[1, 3, 2], [5, 4, 6]], check=False).to_text()
    assert "out[i] = x[i,n[i]]" in text
    assert "n = 1 2" in text
    assert "·out" not in text.replace("∘out", "").replace("1·out", "")


@dataclass(frozen=True)
class Printed:
    """One formula under its names, and the numbers it stands for."""

    what: str
    equation: Equation
    names: Names
    explanation: Explanation


def formulas_of(explanation: Explanation) -> Iterator[Printed]:
    """Every forward equation, Jacobian and gradient of an explanation."""
    program, names = explanation.program, choose_names(explanation.program)
    for step in program.steps:
        equation = local_jacobian(step, program).equation
        yield Printed(step.result.name, equation, names.entry(equation.axes, step.result.name), explanation)
    for name, gradient in explanation.gradients.items():
        jacobian = gradient.jacobian
        if jacobian.formula is not None:
            scope = names.entry(jacobian.axes, program.output).inner(jacobian.inner)
            yield Printed(
                f"J {name}", Equation((*jacobian.axes, *jacobian.inner), jacobian.formula), scope, explanation
            )
        if gradient.sweep.whole:
            yield Printed(f"grad {name}", gradient.sweep.equation, names.inner(gradient.inner), explanation)


class Sized(Unicode):
    """The printer, with the length of every sum: Σ_{i:2,k:4}."""

    def __init__(self, sizes: Mapping[Any, int]) -> None:
        self.sizes = sizes

    def bounded(self, letter: str, index: Any, body: Any, names: Names) -> str:
        return f"{letter}:{index.size.xreplace(dict(self.sizes))}"

    def over(self, sign: str, letters: Sequence[str], text: str) -> str:
        return f"{sign}_{{{','.join(letters)}}} {text}"


class Unsaid(Unicode):
    """The printer without the lengths of sums that no entry tells."""

    def bounded(self, letter: str, index: Any, body: Any, names: Names) -> str:
        return letter


@pytest.mark.parametrize("case", first_stories())
def test_what_is_printed_is_what_was_computed(case: Case) -> None:
    explanation = case.story
    arrays = {**explanation.values.arrays, "v": explanation.seed}
    sizes = explanation.values.sizes
    for printed in formulas_of(explanation):
        names = printed.names
        text = Sized(sizes).write(printed.equation.right, names)
        assert re.sub(r"_\{(\w+)\}", r"_\1", re.sub(r":\d+", "", text)) == Unsaid().write(printed.equation.right, names)
        wanted = np.asarray(evaluate(printed.equation, arrays, sizes), dtype=float)
        called = {names.name(name): np.asarray(array, dtype=float) for name, array in arrays.items()}
        reader = Reader(text, called, {str(s): n for s, n in sizes.items()})
        letters = [names.letter(i) for i in printed.equation.axes]
        assert len(set(letters)) == len(letters)
        assert not set(letters) & set(called)
        with np.errstate(all="ignore"):
            for at in list(np.ndindex(*wanted.shape))[:24]:
                found = reader.value(dict(zip(letters, at, strict=True)))
                expected = wanted[at]
                same = found == expected or (math.isnan(found) and math.isnan(expected))
                assert same or found == pytest.approx(expected, rel=1e-7, abs=1e-9), (printed.what, text, at)


# --- a reader of formulas, for the test above ---------------------------------------------------------------

TOKEN = re.compile(
    r"\s*([ΣΠ]_\{[^}]*\}|δ_\w\w|δ_\{\w+,\w+\}|10⁻[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\d+\.?\d*(?:e[+-]?\d+)?|[^\W\d][^\W⁰¹²³⁴⁵⁶⁷⁸⁹]*"
    r"|[⁰¹²³⁴⁵⁶⁷⁸⁹]+|[·/^()\[\],|⌊⌋√+−=≠<>≤≥])"
)
DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    "=": lambda a, b: a == b,
    "≠": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "≤": lambda a, b: a <= b,
    "≥": lambda a, b: a >= b,
}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "sign")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{function.__name__: function.evaluate for function in STABLE},
    "σ": special.expit,
    "max": np.maximum,
    "erf": special.erf,
    "erfc": special.erfc,
    "Γ": special.gamma,
    "logΓ": special.gammaln,
    "atan2": np.arctan2,
    "polygamma": special.polygamma,
    "besseli": special.iv,
    "erfinv": special.erfinv,
}
Place = dict[str, int]
Meaning = Callable[[Place], float]


class Reader:
    """A formula as it is printed, as a function of its letters: terms, products, Σ to the end of its product."""

    def __init__(self, text: str, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> None:
        self.tokens = TOKEN.findall(text)
        assert "".join(self.tokens) == re.sub(r"\s", "", text), text
        self.arrays, self.sizes = arrays, sizes
        self.at = 0
        self.meaning = self.terms()
        assert self.at == len(self.tokens), (text, self.tokens[self.at :])

    def value(self, place: Place) -> float:
        return float(self.meaning(place))

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        assert not wanted or token == wanted, (wanted, token)
        self.at += 1
        return token

    def terms(self) -> Meaning:
        negative = self.peek() == "−" and bool(self.take())
        first = self.term()
        result: Meaning = (lambda p: -first(p)) if negative else first
        while self.peek() in ("+", "−"):
            sign = 1 if self.take() == "+" else -1
            result = (lambda a, b, s: lambda p: a(p) + s * b(p))(result, self.term(), sign)
        return result

    def term(self) -> Meaning:
        masks: list[Meaning] = []  # a condition that does not hold makes its term 0, whatever it is divided by
        result = self.masked(masks)
        while self.peek() in ("·", "/", "mod"):
            sign = self.take()
            other = self.masked(masks)
            if sign == "·":
                result = (lambda a, b: lambda p: a(p) * b(p))(result, other)
            elif sign == "/":
                result = (lambda a, b: lambda p: np.divide(a(p), b(p)))(result, other)
            else:
                result = (lambda a, b: lambda p: a(p) % b(p))(result, other)
        return (lambda p: result(p) if all(mask(p) for mask in masks) else 0.0) if masks else result

    def masked(self, masks: list[Meaning]) -> Meaning:
        condition, factor = self.peek() == "[", self.factor()
        masks += [factor] if condition else []
        return factor

    def factor(self) -> Meaning:
        if self.peek()[:2] in ("Σ_", "Π_"):
            return self.big(self.take())
        base = self.base()
        if self.peek() == "^":
            self.take()
            exponent = self.base()
            return lambda p: np.power(float(base(p)), float(exponent(p)))
        if re.fullmatch("[⁰¹²³⁴⁵⁶⁷⁸⁹]+", self.peek()):
            power = int(self.take().translate(DIGITS))
            return lambda p: base(p) ** power
        return base

    def big(self, token: str) -> Meaning:
        runs = [run.split(":") for run in token[3:-1].split(",")]
        letters, ranges = [letter for letter, _ in runs], [range(int(size)) for _, size in runs]
        body = self.term()
        gather = sum if token[0] == "Σ" else math.prod

        def value(place: Place) -> float:
            return gather(body({**place, **dict(zip(letters, at, strict=True))}) for at in product(*ranges))

        return value

    def base(self) -> Meaning:
        token = self.take()
        if token == "(":
            inner = self.terms()
            self.take(")")
            return inner
        if token == "[":
            left = self.terms()
            relation = RELATIONS[self.take()]
            right = self.terms()
            self.take("]")
            return lambda p: float(relation(left(p), right(p)))
        if token in ("|", "⌊"):
            inner = self.terms()
            self.take({"|": "|", "⌊": "⌋"}[token])
            return (lambda p: abs(inner(p))) if token == "|" else (lambda p: math.floor(inner(p)))
        if token == "√":
            inner = self.base()
            return lambda p: np.sqrt(inner(p))
        if token.startswith("δ_"):
            first, second = token[3:-1].split(",") if token[2] == "{" else token[2:]
            return lambda p: float(p[first] == p[second])
        if token.startswith("10⁻"):
            return lambda p: 10.0 ** int(token[2:].translate(DIGITS))
        if token[0].isdigit():
            return lambda p: float(token)
        return self.named(token)

    def named(self, token: str) -> Meaning:
        if token in FUNCTIONS and self.peek() == "(":
            arguments = self.several("(", ")")
            return lambda p: FUNCTIONS[token](*(a(p) for a in arguments))
        if token in self.arrays and (self.peek() == "[" or token not in self.sizes):
            indices = self.several("[", "]") if self.peek() == "[" else []
            return lambda p: self.entry(token, [i(p) for i in indices])
        if token[0] in self.arrays and token[1:].isdecimal():
            return lambda p: self.entry(token[0], [int(d) for d in token[1:]])
        if token in self.sizes:
            return lambda p: self.sizes[token]
        if token in ("e", "π"):
            return lambda p: {"e": math.e, "π": math.pi}[token]
        return lambda p: p[token]

    def several(self, opening: str, closing: str) -> list[Meaning]:
        self.take(opening)
        found = [self.terms()]
        while self.peek() == ",":
            self.take()
            found.append(self.terms())
        self.take(closing)
        return found

    def entry(self, name: str, at: list[float]) -> float:
        array = self.arrays[name]
        places = tuple(int(i) for i in at)
        inside = all(0 <= i < n for i, n in zip(places, array.shape, strict=True))
        return float(array[places]) if inside else 0.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2·x0 + 1", 7.0),
        ("Σ_{i:3} x[i]·2 + 1", 19.0),
        ("(Σ_{i:3} x[i]) / 3", 3.0),
        ("Σ_{i:3} (x[i] − 1)²", 14.0),
        ("1 / Σ_{i:3} x[i]", 1 / 9),
        ("−x0/(2·x1)", -0.75),
        ("[x0 > 2]·Π_{i:3} x[i]", 24.0),
        ("⌊x2/2⌋ + (7 mod 4)", 5.0),
        ("x0^(x1 − 1)·√x2", 6.0),
    ],
)
def test_the_reader_reads(text: str, value: float) -> None:
    reader = Reader(text, {"x": np.array([3.0, 2.0, 4.0])}, {})
    assert reader.value({}) == pytest.approx(value)


# --- every operation in every format ------------------------------------------------------------------------


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", first_stories())
def test_every_operation_in_every_format(case: Case) -> None:
    explanation = case.story
    page = explanation_page(explanation)
    for width in (60, 100):
        text = page_text(page, width=width)
        assert [line for line in text.splitlines() if len(line) > width] == []
        assert [line for line in text.splitlines() if line != line.rstrip()] == []
    for latex in (page_latex(page), math_of(page_markdown(page))):
        assert balanced(latex)
    first = next((g for g in explanation.gradients.values() if g.value.size), None)
    if first is None:
        conforms(json.loads(explanation.to_json()))
        return
    place = (first.name, (0,) * first.value.ndim)
    story = explanation_page(explanation, place)
    assert page_text(story)
    assert balanced(page_latex(story))
    data = json.loads(explanation.to_json(entry=place))
    conforms(data)
    conforms({key: value for key, value in data.items() if key != "entry"})


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", first_stories())
def test_every_derivation_in_every_format(case: Case) -> None:
    program, derived = case.program, case.derived
    assert [line for line in written_derived("text", program, derived, width=80).splitlines() if len(line) > 80] == []
    assert balanced(written_derived("latex", program, derived))
    assert balanced(math_of(written_derived("markdown", program, derived)))
    conforms(json.loads(written_derived("json", program, derived)))


def math_of(markdown: str) -> str:
    """The formulas of a Markdown page."""
    without_code = re.sub(r"```.*?```|`[^`]*`", "", markdown, flags=re.DOTALL)
    assert without_code.count("$") % 2 == 0
    formulas = re.findall(r"\$\$(.*?)\$\$|\$([^$]*)\$", without_code, flags=re.DOTALL)
    assert not any("|" in whole + inline for whole, inline in formulas)
    assert not any(re.search(r"\\[\\,;]", whole + inline) for whole, inline in formulas), "Markdown eats these"
    return "\n".join(whole or inline for whole, inline in formulas)


def balanced(latex: str) -> bool:
    """Braces, environments, and \\left with \\right."""
    bare = re.sub(r"\\[{}]", "", latex)
    depth = 0
    for character in bare:
        depth += (character == "{") - (character == "}")
        assert depth >= 0, latex
    begun, ended = (sorted(re.findall(rf"\\{word}{{(\w+\*?)}}", bare)) for word in ("begin", "end"))
    assert begun == ended
    assert len(re.findall(r"\\left\b", bare)) == len(re.findall(r"\\right\b", bare))
    return depth == 0


def test_balance_can_fail() -> None:
    for broken in ("{", r"\left(x", r"\begin{array} x"):
        with pytest.raises(AssertionError):
            assert balanced(broken)


def test_latex_is_ascii() -> None:
    assert forum().to_latex().isascii()
    assert symgrad.explain("θ*α", check=False).to_latex().isascii()


def test_names_with_underscores() -> None:
    explanation = symgrad.explain("x_train @ w_1", check=False)
    assert r"\mathrm{x\_train}_{ij}" in explanation.to_latex()
    assert balanced(explanation.to_latex())


# --- JSON ---------------------------------------------------------------------------------------------------


VALIDATOR = Draft202012Validator(schema())
DEFINITIONS = schema()["$defs"]


def conforms(data: Any) -> None:
    """``data`` obeys the schema, as the jsonschema library reads it."""
    VALIDATOR.validate(data)


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())


def test_the_schema_can_fail() -> None:
    data = json.loads(forum().to_json())
    conforms(data)
    for spoil in (
        lambda d: d.pop("seed"),
        lambda d: d.update(extra=1),
        lambda d: d["gradients"]["x"].update(passed="yes"),
        lambda d: d["gradients"]["x"]["jacobian"]["entries"].append([1, 2]),
        lambda d: d["seed"].update(origin="guessed"),
        lambda d: d["output"].update(value="three"),
    ):
        broken = json.loads(forum().to_json())
        spoil(broken)
        with pytest.raises(ValidationError):
            conforms(broken)


def test_every_field_of_the_schema_is_described() -> None:
    for name, definition in DEFINITIONS.items():
        assert definition.get("description"), name


@pytest.mark.parametrize(
    ("text", "x", "found"),
    [
        ("relu(x)", [0.0, 3.0], ("kink", [0], 0, 1, 1)),
        ("abs(x).sum()", [0.0, 0.0], ("kink", [0], -1, 1, 2)),
        ("(x > 0) * x", [0.0, 3.0], ("turn", [0], 0, 1, 1)),
        ("relu(x)", [1.0, 3.0], None),
    ],
)
def test_json_has_the_kinks_that_the_page_has(text: str, x: list[float], found: tuple[Any, ...] | None) -> None:
    explanation = symgrad.explain(text, x=x, check=False)
    data = json.loads(explanation.to_json())
    conforms(data)
    page = " ".join(explanation.to_text(width=400).split())
    assert [(k["kind"], k["at"], k["left"], k["right"], k["count"]) for k in data["kinks"]] == (
        [found] if found else []
    )
    assert all(kink["says"] in page for kink in data["kinks"])


def test_json_keeps_numbers_as_they_are() -> None:
    data = json.loads(symgrad.explain("x/3", x=[1, 2], check=False).to_json())
    assert data["output"]["value"] == ["1/3", "2/3"]
    assert data["gradients"]["x"]["value"] == ["1/3", "1/3"]
    assert data["gradients"]["x"]["jacobian"]["entries"] == [[0, 0, "1/3"], [1, 1, "1/3"]]
    data = json.loads(symgrad.explain("sqrt(x)", x=[0, 4], check=False).to_json())
    assert data["gradients"]["x"]["value"] == ["inf", 0.25]
    data = json.loads(forum().to_json())
    assert data["gradients"]["x"]["value"] == [[10, 10, 10], [26, 26, 26]]
    assert len(data["gradients"]["x"]["jacobian"]["entries"]) == 24
    assert data["gradients"]["x"]["jacobian"]["row_labels"][:2] == ["out[0,0]", "out[0,1]"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (Fraction(1, 3), "1/3"),
        (0.1 + 0.2, "0.3"),
        (-2.0, "-2"),
        (-0.0, "0"),
        (float("nan"), "nan"),
        (1e-9, "1e-09"),
    ],
)
def test_numbers(value: Any, text: str) -> None:
    assert numbers.text(value) == text


# --- colour -------------------------------------------------------------------------------------------------


def test_colour_changes_nothing_but_colour() -> None:
    colored = forum().to_text(color=True)
    assert "\x1b[" in colored
    bare = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", colored).splitlines()) + "\n"
    assert bare == forum().to_text()


@pytest.mark.slow
def test_rich_is_loaded_for_colour_only() -> None:
    code = (
        "import symgrad, sys; e = symgrad.explain('x*2', check=False); e.to_text(); print('rich' in sys.modules);"
        "e.to_text(color=True); print('rich' in sys.modules)"
    )
    report = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert report.stdout.split() == ["False", "True"]


def test_every_entry_of_a_formula_is_printed_once() -> None:
    _, derived = symgrad.derive("x@a")
    equation = derived[0].sweep.equation
    assert len(list(accesses(equation.right))) == formula_text(equation.right, equation.axes).count("[")


@pytest.mark.slow
def test_a_formula_that_is_not_shown_is_not_said_to_be_the_answer() -> None:
    given = {"x": np.ones((1, 1, 3, 3)), "g": np.full((1, 2, 2, 2), 0.3)}
    page = said("F.grid_sample(x, g)", **given, check=False)
    assert "too long to show. (No short matrix notation was found either.)" in page
    assert page.count("the index formula is the answer") == 1  # that by x is shown


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "number", ["1234.5678", "0.12345", "0.00123", "0.044715", "0.134145", "12345.678", "1.000000000001"]
)
def test_a_formula_keeps_the_digits_of_its_numbers(number: str) -> None:
    """1234.6·x would be another function; a power of a fraction has an exact constant, and a text a float."""
    page = symgrad.explain(f"{number}*x + gelu(x, approximate='tanh')", check=False).to_text(width=1000)
    assert f"{number}·x[i]" in page
    assert "0.044715·x[i]³" in page
    assert "/200000" not in page


def test_a_number_beside_one_is_not_called_one() -> None:
    """Five digits would; what 32 bits leave of a whole number still is that."""
    page = symgrad.explain("1.00001*x", x=[1], check=False).to_text()
    assert "x.grad[0] = 1.00001·1 = 1.00001\n" in page
    assert [numbers.text(number) for number in (0.99998, 2.0000002, 1 - 1e-12, 12345.4)] == [
        "0.99998",
        "2",
        "1",
        "12345",
    ]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("inv(A)", "out is the inverse, which solves A·out = I."),
        ("b = solve(x, a); b.sum()", "b is the solution of x·b = a, without left"),
        ("y = cholesky(A@A.T); y.sum()", "y is the lower triangular factor of a symmetric t2 = y·yᵀ, with a positive"),
    ],
)
def test_what_an_operation_says_of_itself_is_said_in_the_names_of_the_page(expression: str, said: str) -> None:
    shapes = {name: (2,) if name == "a" else (2, 2) for name in "Axa" if re.search(rf"\b{name}\b", expression)}
    assert said in symgrad.explain(expression, shapes=shapes, check=False).to_text()


def test_notation_is_explained_where_it_stands_and_nowhere_else() -> None:
    """What a formula does not write is not explained, and every letter of the forward pass is."""
    page = symgrad.explain("quantile(x, 0.75, 1, keepdim=True)", shapes={"x": (2, 3)}, check=False).to_text(width=1000)
    assert "⌊ ⌋ rounds down" in page
    assert "mod is" not in page
    for name in ("m[i,j]", "n_out[i,j]"):
        assert f"{name} is the position found in the forward pass" in page
    assert "mod is the remainder" in symgrad.explain("x.reshape(3, 2)", shapes={"x": (2, 3)}, check=False).to_text()


RAISES = "import torch\nx = torch.ones(2, 3, requires_grad=True)\n\ny = x * 2\ny.backward()"


@pytest.mark.parametrize("console", [False, True])
def test_a_pasted_script_that_raises_begins_with_that(console: bool) -> None:
    typed = "\n".join(f">>> {line}".rstrip() for line in RAISES.splitlines()) if console else RAISES
    lines = [line.strip() for line in symgrad.explain(typed).to_text().splitlines()]
    assert lines[1:3] == [
        "torch raises an error at line 5, y.backward():",
        "RuntimeError: grad can be implicitly created only for scalar outputs",
    ]
    assert "y.sum().backward(), which weighs them all by 1" in " ".join(lines[3:6])
    assert "torch raises" not in symgrad.explain(RAISES.replace("y.backward()", "y.sum().backward()")).to_text()
    assert "torch raises" not in symgrad.explain(RAISES.replace("backward()", "backward(torch.ones(2, 3))")).to_text()
    assert "torch raises" not in symgrad.explain("x * 2").to_text()


def test_a_pasted_script_that_writes_over_what_backward_needs_begins_with_that() -> None:
    typed = "import torch\nx = torch.ones(3, requires_grad=True)\nh = x.exp()\nh += 1\nh.sum().backward()"
    lines = [line.strip() for line in symgrad.explain(typed).to_text().splitlines()]
    first = lines.index("torch raises an error at line 5, h.sum().backward():")
    assert first == 2  # below the text and the shapes
    assert lines[first + 1].startswith("RuntimeError: one of the variables needed for gradient computation")
    assert "symgrad errors" in " ".join(lines[first + 2 : first + 5])


def test_a_pasted_script_without_a_backward_says_so() -> None:
    text = " ".join(symgrad.explain("x = torch.ones(3, requires_grad=True)\ny = x * 2\nprint(y)").to_text().split())
    assert "This script has no backward(): running it computes no gradient." in text
    assert "has no backward()" not in symgrad.explain("h = x * 2\nh.sum()").to_text()


def test_that_matrices_are_too_large_is_said_once() -> None:
    text = symgrad.explain("x@a", shapes={"x": (40, 30), "a": (30, 40)}, check=False).to_text()
    assert text.count("too large to show") == 1
