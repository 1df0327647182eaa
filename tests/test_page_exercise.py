"""Exercises inside a page: a line is read and held against numbers that travel, in a real browser, without Python.

Without a browser these tests are skipped, with the reason.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad.closed_form.form import assign_form
from symgrad.errors import InputError
from symgrad.exercises import Exercise, exercise_data
from symgrad.render.html.formula_trees import MOST_ENTRIES
from symgrad_cli.main import main
from tests.browser import Opened, browser
from tests.cases import cases
from tests.compare import assert_same

browsing = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
SIXTIETH = 60
"""Of the examples of the table one in so many answers itself in the page."""
EVALUATE = """([text, known]) => symgradLine.evaluate(symgradLine.parse(text), new Map(Object.entries(known)))"""
CHECK = (
    "([t, n, l]) => { const r = symgradExercise.check(symgradExercise.read(t), n, l); return `${r.kind}: ${r.said}`; }"
)
SOFTMAX = "(out * (v - (v * out).sum(-1, keepdim=True))) @ w.T"
LAYER = "c = x - x.mean(-1, keepdim=True); r = 1/(c.square().mean(-1, keepdim=True) + 1e-5).sqrt(); n = c*r; "
LAYER += "r*(v - v.mean(-1, keepdim=True) - n*(v*n).mean(-1, keepdim=True))"
PRODUCT = "view_as_real(view_as_complex(x) * view_as_complex(y))"
FOURIER = "view_as_real(torch.fft.fft(view_as_complex(x)))"
VERDICTS = [
    ("softmax(x@w)", "x", SOFTMAX, "exact: x.grad, at 9 points, also of other sizes"),
    ("softmax(x@w)", "x", f"x.grad = {SOFTMAX}", "exact"),
    ("softmax(x@w)", "x", f"1.00001*({SOFTMAX})", "approximate: the largest difference is 1.0e-5"),
    ("softmax(x@w)", "x", f"-({SOFTMAX})", "wrong: the sign is flipped"),
    (
        "softmax(x@w)",
        "x",
        f"3*({SOFTMAX})",
        "wrong: the gradient of x through t1 = matmul(x, w) is 3 times what it should be",
    ),
    ("softmax(x@w)", "x", "v @ w.T", "wrong: v passes softmax unchanged"),
    ("softmax(x@w)", "x", "(out * (v - (v*out).sum(0, keepdim=True))) @ w.T", "wrong: this is the result for axis 0"),
    ("softmax(x@w)", "w", "x.T @ torch.mul(out, v - torch.sum(v*out, -1, True))", "exact"),
    ("softmax(x@w)", "w", "einsum('ni,nj->ij', x, out*v - out*einsum('nj,nj->n', out, v)[:, None])", "exact"),
    ("x@a", "x", "v.mm(a.t())", "exact"),
    ("x@a", "x", "torch.matmul(v, a.transpose(0, 1))", "exact"),
    ("x@a", "x", "v @ a", "unread: 2×4 @ 3×4: 4 and 3 do not fit together"),
    ("x@a", "x", "a @ v.T", "wrong: x.grad has the shape of x, 2×3; this has 3×2"),
    ("x@a", "x", "v.sum()", "wrong: x.grad has the shape of x, 2×3; this has a number"),
    ("x@a", "x", "out @ a.T", "wrong"),
    ("x@a", "x", "x * 0", "wrong: only zeros come back"),
    ("x@a", "x", "(1 + 0*v) @ a.T", "wrong: v is not used"),
    ("relu(x)", "x", "v", "wrong: with v = "),
    ("relu(x)", "x", "v*(x > 0)", "exact"),
    ("relu(x)", "x", "torch.where(x > 0, v, 0)", "exact"),
    ("relu(x)", "x", "v*(x >= 0)", "wrong: right but where an input is 0"),
    ("x.sum()", "x", "v.expand(2)", "wrong: right at the sizes of this exercise, not at others"),
    ("x.sum()", "x", "v.expand(x.shape)", "exact"),
    ("x.mean()", "x", "v.expand_as(x) / x.numel()", "exact"),
    ("x.mean()", "x", "v / x.shape[0] * ones_like(x)", "exact"),
    ("h = tanh(x); h@w", "x", "(v@w.T)*(1 - h**2)", "exact"),
    ("h = tanh(x); h@w", "x", "t = v@w.mT; t - t*h*h", "exact"),
    ("x*x*x", "x", "v*2*x", "wrong"),
    ("x@w + b", "b", "v.sum(0)", "exact"),
    ("x@w + b", "b", "v.sum(1)", "wrong: b.grad has the shape of b"),
    ("layer_norm(x, (3,))", "x", LAYER, "exact"),
    ("inverse(x)", "x", "-out.T @ v @ out.T", "exact"),
    ("inverse(x)", "x", "-out @ v @ out", "wrong"),
    ("cumsum(x, 0)", "x", "v.flip(0).cumsum(0).flip([0])", "exact"),
    (PRODUCT, "x", "view_as_real(view_as_complex(v) * view_as_complex(y).conj())", "exact: x.grad, at 6 points"),
    (PRODUCT, "x", "view_as_complex(v) * conj(view_as_complex(y))", "exact"),
    (PRODUCT, "x", "view_as_complex(v) * view_as_complex(y)", "wrong"),
    (PRODUCT, "x", "torch.complex(v[0]*y[0] + v[1]*y[1], v[1]*y[0] - v[0]*y[1])", "exact"),
    (PRODUCT, "x", "z = view_as_complex(y); view_as_complex(v) / z * z.abs()**2", "exact"),
    (PRODUCT, "x", "view_as_complex(v) * view_as_complex(y).H", "unread: x.H is for matrices"),
    (PRODUCT, "x", "relu(view_as_complex(v))", "unread: this page does not read relu(…) of complex numbers"),
    (PRODUCT, "x", "view_as_complex(v) > 0", "unread: complex numbers are not compared here"),
    (FOURIER, "x", "view_as_real(len(v) * torch.fft.ifft(view_as_complex(v)))", "exact"),
    (FOURIER, "x", "torch.fft.ifft(view_as_complex(v), norm='forward')", "exact"),
    (FOURIER, "x", "torch.fft.ifft(view_as_complex(v))", "wrong: every entry is 0.25 of what it should be"),
    (FOURIER, "x", "n = arange(len(v)); exp(2j*math.pi*n[:, None]*n/len(v)) @ view_as_complex(v)", "exact"),
]
COMPLEX = [
    "x + y", "x - 2", "2 - x", "x * y", "x / y", "3 / x", "x / 3", "-x", "x**2", "x**-3", "x**0.5", "2**x", "x**y", "x @ y.mT",
    "1j * x", "2.5j * x.real + 1", "x.conj()", "x.mH @ y", "x.adjoint()", "x[0].H", "x[0].T", "x[0, 1:, None]",
    "x.real", "x.imag", "x.abs()", "x.angle()", "x.sgn()", "x.exp()", "x.log()", "x.sqrt()", "x.rsqrt()", "x.sin()", "x.cos()",
    "x.tan()", "x.sinh()", "x.cosh()", "x.tanh()", "x.square()", "x.reciprocal()", "x.sum(0)", "x.mean()", "x.cumsum(1)",
    "x.flip(0)", "x.roll(1, 2)", "x.permute(2, 0, 1)", "x.reshape(6, 4)", "x[:, :1].expand_as(y)", "x.reshape_as(y.mT)",
    "torch.cat([x, y.real], 1)", "torch.stack([x, y])", "torch.where(x.real > 0, x, y)", "x.masked_fill(y.imag > 0, 0)",
    "torch.einsum('nij,nkj->ik', x, y)", "torch.einsum('nij->j', x)", "torch.vdot(x[0, 0], y[0, 0])", "torch.dot(x[0, 0], y[0, 0])",
    "torch.outer(x[0, 0], y[0, 0])", "x.numel() * x.real", "torch.ones_like(x)", "torch.zeros_like(x)", "F.pad(x, (1, 2))",
    "torch.polar(x.real, y.real)", "torch.complex(x.real, y.real)", "torch.diag_embed(x[0])", "x[0].tril()",
    "torch.fft.fft(x)", "torch.fft.fft(x.real)", "torch.fft.ifft(x, 6)", "torch.fft.fft(x, n=3, dim=0, norm='ortho')",
    "torch.fft.fft2(x)", "torch.fft.ifft2(x, norm='forward')", "torch.fft.fftn(x)", "torch.fft.ifftn(x, s=(3, 3), norm='ortho')",
    "torch.fft.fftn(x, dim=(0, 1))", "torch.fft.ifft(x, dim=1).real",
]  # fmt: skip
NASTY = [
    "__import__('os').system('true')", "open('/etc/passwd')", "[v for v in v]", "lambda: v", "v.__class__", "constructor",
    "v.constructor('alert(1)')()", "toString()", "hasOwnProperty(v)", "document.title", "window", "eval('1')",
    "v" + "+v" * 900, "(" * 500, "-" * 1900 + "v", "v" + ".T" * 900, "v; v", "x = v", "v if v else v", "v @", "@ v", "v[",
    "v[0", "v[9]", "v[0:1:0]", "v[::,]", "ones(100000, 100000)", "ones(9999999999)", "ones(-1)", "v.expand(-2)", "a" * 3000,
    "v @ v @ v", "1e999 * v", "v / 0", "0/0", "v.reshape(-1, -1)", "v.sum(7)", "v.sum(0, 0, 0)", "v.sum(dim=(0, 0))",
    "exp()", "exp(v, v)", "exp(x=v, y=v)", "v.transpose(0)", "cat(v)", "stack([])", "one_hot(v, 3)", "arange(v)", "v < v < v",
    "v & v", "~v", "v % 2", "v // 2", "'text'", "einsum('ij->', v, v)", "einsum('i,i->i', v)", "\u202ev", "v\x00", "𝓿", "٣*v",
    "".join(f"a{n} = ones(400, 400) @ ones(400, 400); " for n in range(30)) + "v", "__proto__ = v; v @ a.T * 2", "torch", "torch.v",
    "1j", "1jj", "j", "v * 1j < 2", "view_as_complex(v)", "torch.complex(v, 1j)", "torch.fft.fft(v, 'x')", "torch.fft.fft(v, 10**9)",
    "torch.fft.fft(v, -1)", "torch.fft.fftn(v, dim=(0, 0))", "torch.fft.fft(v, norm='large')", "torch.fft.fft(v, v)", "fft()",
    "x.sum(1j)", "v.expand(1j)", "v[1j]", "exp(1j, 1j)", "where(1j, v, v)", "cat([v, 1j])", "(1j).real.imag", "view_as_real(v)",
    "(1j*v).sum(dim=0, dim=1)", "einsum('ij,ij,ij->', v, 1j*v, v)", "maximum(v, 1j)", "conj()", "polar(v)", "1j**v", "0j**-1 * v",
]  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def forum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page as the command writes it."""
    path = tmp_path_factory.mktemp("pages") / "exercise.html"
    done = CliRunner().invoke(main, ["exercise", "x@a", "--wrt", "a", "-o", str(path)])
    assert (done.exit_code, done.output) == (0, "")
    return path


@pytest.fixture
def opened(chromium: Any, forum: Path) -> Iterator[Opened]:
    context = chromium.new_context(viewport={"width": 900, "height": 700})
    found = Opened(context.new_page())
    found.open(forum.as_uri())
    yield found
    assert found.complaints == []
    assert len([url for url in found.requests if not url.startswith("data:")]) == 1
    context.close()


def test_what_travels_is_right_and_no_mistake_is() -> None:
    found = exercise_data(symgrad.explain("x@a", seed="randn(2,4)", check=False))
    assert found is not None
    assert {point["where"] for point in found["points"]} == {"here", "sizes", "whole"}
    assert len({tuple(point["known"]["x"]["shape"]) for point in found["points"]}) > 2
    for point in found["points"]:
        for trial in point["trials"]:
            v, a, grad = (
                np.reshape(t["values"], t["shape"]) for t in (trial["v"], point["known"]["a"], trial["expected"]["x"])
            )
            np.testing.assert_allclose(grad, v @ a.T, rtol=1e-12, atol=1e-12)
    right = [trial["expected"]["x"]["values"] for trial in found["points"][0]["trials"]]
    for mistake in found["mistakes"]["x"]:
        gaps = [np.abs(np.subtract(made, true)).max() for made, true in zip(mistake["made"], right, strict=True)]
        assert max(gaps) > 1e-3, mistake["said"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", ["F.group_norm(x, 2, weight, bias)", "x@a", "softmax(x, dim=-1)"])
def test_all_numbers_of_every_point_travel_however_many_a_page_shows(text: str) -> None:
    shapes = {"x": (2, 4, 2), "weight": (4,), "bias": (4,)} if "group" in text else None
    data = exercise_data(symgrad.exercise(text, shapes=shapes).explanation)
    assert data is not None
    largest = 0
    for point in data["points"]:
        tensors = [*point["known"].values(), *(t["v"] for t in point["trials"])]
        tensors += [gradient for t in point["trials"] for gradient in t["expected"].values()]
        assert [len(t["values"]) for t in tensors] == [int(np.prod(t["shape"])) for t in tensors], point["where"]
        largest = max(largest, *(len(t["values"]) for t in tensors))
    assert largest > MOST_ENTRIES or "group" not in text


def test_what_is_too_much_has_no_exercise() -> None:
    assert exercise_data(symgrad.explain("x*a", shapes={"x": (80, 80), "a": (80, 80)}, check=False)) is None
    with pytest.raises(InputError, match="this exercise has no page"):
        symgrad.exercise("x*a", shapes={"x": (80, 80), "a": (80, 80)}).to_html()


class TestInTheBrowser:
    pytestmark = browsing

    def test_the_answers_are_hidden_until_they_are_asked_for(self, opened: Opened) -> None:
        page = opened.page
        assert page.locator(".answer:visible, .story:visible, .live:visible").count() == 0
        line, verdict = page.locator("[name=line]"), page.locator("#verdict")
        assert page.locator("[name=wrt]").input_value() == "a"
        line.fill("v.T @ x")
        line.press("Enter")
        assert verdict.text_content() == "wrong: a.grad has the shape of a, 3×4; this has 4×3"
        line.fill("x.T @ v")
        line.press("Enter")
        assert verdict.text_content() == "exact: a.grad, at 9 points, also of other sizes"
        page.locator("[name=wrt]").select_option("x")
        assert verdict.text_content() == ""
        assert opened.violations() == []
        page.locator("#hide").click()
        assert page.locator(".answer").is_visible()

    def test_complex_numbers_are_those_of_torch(self, opened: Opened) -> None:
        """Each function of complex numbers that the page reads, beside torch's."""
        shape, generator = (2, 3, 4), np.random.default_rng(5)
        values = {name: generator.normal(size=(*shape, 2)) for name in ("x", "y")}
        pairs = {name: torch.view_as_complex(torch.tensor(array)) for name, array in values.items()}
        known = {name: {"shape": array.shape, "values": array.reshape(-1).tolist()} for name, array in values.items()}
        for line in COMPLEX:
            wanted = eval(line, {"torch": torch, "F": torch.nn.functional, **pairs})  # noqa: S307 - lines of the table above
            wanted = torch.view_as_real(wanted.resolve_conj()) if wanted.is_complex() else wanted
            read = f"x = view_as_complex(x); y = view_as_complex(y); {line}"
            found = opened.page.evaluate(EVALUATE, [read, known])
            assert tuple(found["shape"]) == tuple(wanted.shape), line
            assert_same(np.reshape(found["values"], found["shape"]), wanted.numpy(), tolerance=1e-13)

    @pytest.mark.parametrize("expression", dict.fromkeys(row[0] for row in VERDICTS))
    def test_lines_and_verdicts(self, opened: Opened, expression: str) -> None:
        shapes = {"inverse(x)": {"x": (2, 2)}, "layer_norm(x, (3,))": {"x": (2, 3)}, FOURIER: {"x": (4, 2)}}.get(
            expression
        )
        data = json.dumps(exercise_data(symgrad.exercise(expression, shapes=shapes).explanation))
        for _, name, line, said in (row for row in VERDICTS if row[0] == expression):
            found = opened.page.evaluate(CHECK, [data, name, line])
            assert found.startswith(said), (line, found)

    def test_strange_lines_are_words_and_nothing_else(self, opened: Opened) -> None:
        data = json.dumps(exercise_data(symgrad.exercise("x@a").explanation))
        for line in NASTY:
            found = opened.page.evaluate(CHECK, [data, "x", line])
            assert found.startswith(("unread: ", "wrong: ")), (line, found)
            assert "internal error" not in found, (line, found)
        assert opened.page.evaluate("({}).polluted === undefined && document.title.startsWith('out')")

    def test_closed_forms_pass_and_their_doubles_do_not(self, opened: Opened) -> None:
        kinds: Counter[str] = Counter()
        for case in cases()[3::SIXTIETH]:
            data = exercise_data(case.story)
            for name, gradient in case.story.gradients.items() if data is not None else ():
                form = gradient.closed_form
                if form is None or not gradient.value.size:
                    continue
                *named, last = assign_form(name, form)
                text, line = json.dumps(data), last.partition(" = ")[2]
                found = opened.page.evaluate(CHECK, [text, name, "; ".join([*named, line])])
                kinds[found.partition(":")[0]] += 1
                assert found.startswith(("exact", "unread")), (case, line, found)
                if found.startswith("exact") and gradient.value.astype(float).any():
                    double = "; ".join([*named, f"2 * ({line})"])
                    assert opened.page.evaluate(CHECK, [text, name, double]).startswith("wrong"), (case, line)
        assert kinds["exact"] > 0.8 * kinds.total(), kinds

    def test_python_and_the_page_say_the_same(self, opened: Opened) -> None:
        for expression, name, line, said in VERDICTS[:12]:
            question = symgrad.exercise(expression, wrt=name)
            assert isinstance(question, Exercise)
            assert question.check(line).kind == said.partition(":")[0], line
