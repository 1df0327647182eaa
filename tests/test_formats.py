"""The four formats: lines that fit, LaTeX that is balanced, Markdown that renders, JSON that obeys its schema."""

import json
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

import symgrad
from symgrad.render import schema
from symgrad.render import write_derivation as written_derived
from tests.cases import Case, first_stories
from tests.forum import forum


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", first_stories())
def test_every_operation_in_every_format(case: Case) -> None:
    explanation = case.story
    for width in (60, 100):
        text = explanation.to_text(width=width)
        assert [line for line in text.splitlines() if len(line) > width] == []
        assert [line for line in text.splitlines() if line != line.rstrip()] == []
    for latex in (explanation.to_latex(), math_of(explanation.to_markdown())):
        assert balanced(latex)
    first = next((g for g in explanation.gradients.values() if g.value.size), None)
    if first is None:
        conforms(json.loads(explanation.to_json()))
        return
    place = (first.name, (0,) * first.value.ndim)
    assert explanation.to_text(entry=place)
    assert balanced(explanation.to_latex(entry=place))
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
