"""Each rule of closed forms is there for a gradient that nobody would write without it.

A rule is left out alone, and the form of its example is derived again: it is lost, or longer. A rule without an example
fails here, so that none stays that nothing needs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import symgrad
from symgrad.backward import line_templates, template_cache
from symgrad.closed_form.rewriting import FormRule
from tests.parsed import nodes_of

CLOSED_FORM = Path(symgrad.__file__).parent / "closed_form"
LOGISTIC_LOSS = "-(t * log(sigmoid(D @ w)) + (1 - t) * log(1 - sigmoid(D @ w))).mean()"
EXAMPLES = {
    "above the floor": ("F.normalize(x, dim=-1)", "x", {"x": (2, 3)}, 1),
    "absolute": ("x * abs(x)", "x", {"x": (3,)}, 1),
    "away from zero": ("x.std()", "x", {"x": (2, 3)}, 1),
    "cases": ("F.smooth_l1_loss(x, y)", "x", {"x": (3,), "y": (3,)}, 1),
    "centre": ("F.layer_norm(x, (3,))", "x", {"x": (2, 3)}, 1),
    "centred already": ("((x - x.mean()) * (y - y.mean())).sum()", "x", {"x": (3,), "y": (3,)}, 1),
    "common factor": ("x / norm(x)", "x", {"x": (3,)}, 1),
    "complement": ("F.huber_loss(x, y)", "x", {"x": (3,), "y": (3,)}, 1),
    "constant out": ("(x - x.mean()) / x.std()", "x", {"x": (2, 3)}, 1),
    "cross product": ("torch.cross(x, y, dim=0)", "x", {"x": (3,), "y": (3,)}, 1),
    "decided": ("cumprod(x, 0)", "x", {"x": (3,)}, 1),
    "either side": ("F.softshrink(x)", "x", {"x": (3,)}, 1),
    "inverse": ("log(det(inv(x)))", "x", {"x": (3, 3)}, 1),
    "logistic": ("log(1 + exp(x))", "x", {"x": (3,)}, 1),
    "mean": ("F.rms_norm(x, (3,), eps=1e-05)", "x", {"x": (2, 3)}, 1),
    "merge nested sums": ("eigh(x).eigenvectors", "x", {"x": (2, 2, 2)}, 1),
    "merge sums": ("(x.T @ a @ x).sum()", "x", {"x": (4, 3), "a": (4, 4)}, 1),
    "multiply out": (LOGISTIC_LOSS, "w", {"D": (4, 3), "t": (4,), "w": (3,)}, 1),
    "name the output": ("1 / (1 + exp(-x))", "x", {"x": (3,)}, 1),
    "name the power": ("2 ** x", "x", {"x": (3,)}, 1),
    "norm of 0": ("norm(x) ** 2", "x", {"x": (2, 3)}, 1),
    "normal": ("F.gelu(x)", "x", {"x": (3,)}, 1),
    "number out": ("cholesky(x)", "x", {"x": (3, 3)}, 1),
    "numbered apart": ("x.repeat(2, 1)", "x", {"x": (2, 3)}, 1),
    "one denominator": ("F.softsign(x)", "x", {"x": (3,)}, 1),
    "raised together": ("logsumexp(a @ x, 0)", "x", {"a": (4, 3), "x": (3,)}, 1),
    "reciprocal gap": ("eigh(x).eigenvectors", "x", {"x": (3, 3)}, 1),
    "softmax": ("log(exp(a @ x).sum())", "x", {"a": (4, 3), "x": (3,)}, 1),
    "squared": ("norm(a @ x)", "x", {"a": (4, 3), "x": (3,)}, 2),
    "standardise": ("F.layer_norm(x, (3,))", "x", {"x": (2, 3)}, 1),
    "step": ("out[i] = x[i]·(0.99·[a[i] > 0] + 0.01)", "x", {"x": (3,), "a": (3,)}, 1),
    "symmetrise": ("eigh(x).eigenvectors", "x", {"x": (3, 3)}, 1),
    "taken in": (LOGISTIC_LOSS, "w", {"D": (4, 3), "t": (4,), "w": (3,)}, 2),
    "turn": ("eigh(x).eigenvectors", "x", {"x": (3, 3)}, 1),
    "turned logistic": ("logaddexp(x, y)", "x", {"x": (3,), "y": (3,)}, 1),
    "variance": ("F.layer_norm(x, (3,))", "x", {"x": (2, 3)}, 1),
    "without one": ("prod(x)", "x", {"x": (3,)}, 1),
}
"""By a rule: a program, the input, the shapes, and the order of the derivative whose form needs it."""
OUTPUTS = (
    ("x / norm(x)", "x", {"x": (3,)}, 1),
    ("prod(x)", "x", {"x": (3,)}, 1),
    ("cumprod(x, 0)", "x", {"x": (4,)}, 1),
    ("F.cosine_similarity(x, y)", "x", {"x": (2, 3), "y": (2, 3)}, 1),
)
"""What else the output has a name in."""


def rule_names() -> Iterator[str]:
    """The names of all rules, as the source makes them."""
    for path in sorted(CLOSED_FORM.rglob("*.py")):
        for node in nodes_of(path.read_text(encoding="utf-8")):
            match node:
                case ast.Call(func=ast.Name(id="FormRule"), args=[ast.Constant(value=str() as name), *_]):
                    yield name


def derived_form(text: str, wanted: str, shapes: dict[str, tuple[int, ...]], order: int) -> str | None:
    """The closed form of a gradient, or of a second derivative, derived anew."""
    template_cache.TEMPLATES.clear()
    line_templates.derive_template.cache_clear()
    found = symgrad.explain(text, wrt=[wanted], shapes=shapes, check=False, order=order)
    return (found.hessians[wanted, wanted] if order == 2 else found.gradients[wanted]).closed_form


def test_each_rule_has_an_example() -> None:
    assert sorted(set(rule_names())) == sorted(EXAMPLES)


@pytest.mark.parametrize(("name", "example"), [*EXAMPLES.items(), *(("name the output", own) for own in OUTPUTS)])
def test_without_a_rule_a_form_is_lost_or_longer(
    name: str, example: tuple[str, str, dict[str, tuple[int, ...]], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = derived_form(*example)
    assert whole is not None
    attribute = FormRule.__getattribute__

    def left_out(rule: FormRule, called: str) -> Any:
        own = attribute(rule, called)
        return (lambda expression: expression) if called == "rewrite" and rule.name == name else own

    monkeypatch.setattr(FormRule, "__getattribute__", left_out)
    without = derived_form(*example)
    assert without is None or len(without) > len(whole), (whole, without)
