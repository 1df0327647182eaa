"""What would do is said in the words of the way in: no option of a shell where there is none."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import symgrad
import symgrad_cli
from symgrad.errors import FORMS, Frontend, Setting, for_frontend
from symgrad_cli.main import main
from tests.parsed import PARSED, nodes_of

CONTEXT = click.Context(main)
VERBS = [verb for name in main.list_commands(CONTEXT) if (verb := main.get_command(CONTEXT, name)) is not None]
OPTIONS = {option.lstrip("-") for verb in VERBS for p in verb.params for option in p.opts}
OPTION = re.compile(rf"(?<![\w-])--({'|'.join(sorted(o for o in OPTIONS if len(o) > 1))})(?![\w-])")
WRONG = "A@B"
SIZES = {"A": (2, 3), "B": (4, 5)}


def python() -> tuple[str, str]:
    with pytest.raises(symgrad.SymgradError) as caught:
        symgrad.explain(WRONG, shapes=SIZES)
    return str(caught.value), symgrad.explain("x@a", check=False).to_text()


def command() -> tuple[str, str]:
    refused = CliRunner().invoke(main, ["explain", WRONG, "--shape", "A=2,3", "--shape", "B=4,5"])
    return refused.output, CliRunner().invoke(main, ["explain", "x@a", "--no-check"]).output


def fields() -> tuple[str, str]:
    from symgrad_cli.serving.worker import answer

    refused = answer(json.dumps({"kind": "page", "expression": WRONG, "shape": "A=2,3; B=4,5"}))
    page = answer(json.dumps({"kind": "page", "expression": "x@a"}))["found"]
    return refused["error"], re.sub(r"<[^>]*>", "", page)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("ask", "error", "assumed"),
    [
        (python, 'try:   shapes={"B": (3, 5)}', 'To change this: x=… seed=… shapes={"x": (2, 4)}'),
        (command, "try:   --shape B=3,5", "To change this: --let x=… --seed … --shape x=2,4"),
        (fields, "try:   shapes: B=3,5", "To change this: values: x=… seed: … shapes: x=2,4"),
    ],
    ids=["python", "command", "fields"],
)
def test_the_same_hint_in_the_words_of_the_way_in(ask: Callable[[], tuple[str, str]], error: str, assumed: str) -> None:
    """An error, and what was assumed: each says what would do as it is written there, and nothing of another way."""
    refused, page = (" ".join(text.split()) for text in ask())
    assert " ".join(error.split()) in refused
    assert assumed in page
    if ask is not command:
        assert not OPTION.search(refused)
        assert not OPTION.search(page)


def test_the_page_about_the_command_line_has_every_verb() -> None:
    """They are loaded when they are asked for: who looks at the group alone sees none."""
    pages = pytest.importorskip("sphinx_click.ext", reason="the site's page of commands is made with sphinx-click")
    listed = [verb.name for verb in pages._filter_commands(CONTEXT)]
    assert listed == main.list_commands(CONTEXT) == sorted(listed)
    assert {"check", "explain", "help", "run"} < {*listed}
    assert {"let", "shape", "seed"} < OPTIONS


def test_a_way_is_left_as_it_was_entered() -> None:
    """Asked from within another way, and after an error in it."""
    hint = Setting("shape", "x", "3")
    with for_frontend(Frontend.COMMAND):
        with for_frontend(Frontend.FIELDS):
            assert str(hint) == "shapes: x=3"
        with pytest.raises(symgrad.SymgradError), for_frontend(Frontend.DIRECTIVE):
            symgrad.explain(WRONG, shapes=SIZES)
        assert str(hint) == "--shape x=3"
    assert str(hint) == 'shapes={"x": (3,)}'


def test_hints_of_the_local_page_name_its_fields() -> None:
    """The loss was said to be an option of the shell, beside a field for it."""
    page = (Path(symgrad_cli.__file__).parent / "serving" / "serve.html").read_text(encoding="utf-8")
    labels = re.findall(r"<label[^>]*>([^<]+)<", page)
    for what in ("let", "shape", "seed", "wrt", "then"):
        field = FORMS[Frontend.FIELDS][what].partition(":")[0]
        assert any(label.split()[0] == field.split()[0] for label in labels), what


@pytest.mark.parametrize("way", Frontend)
def test_every_way_has_words_for_every_setting(way: Frontend) -> None:
    """None is missing, and each can be said."""
    with for_frontend(way):
        for what in FORMS[Frontend.COMMAND]:
            assert str(Setting(what, "x", "1,2"))


def loose(path: Path) -> list[str]:
    """The texts of a module that name an option of a shell and are no whole command, no setting and no docstring."""
    nodes = nodes_of(path.read_text(encoding="utf-8"))
    apart = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}  # docstrings
    for call in (n for n in nodes if isinstance(n, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id == "Setting":
            apart |= {id(part) for part in ast.walk(call)}
    texts = (n for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return [n.value for n in texts if id(n) not in apart and OPTION.search(n.value) and "symgrad " not in n.value]


@PARSED
def test_no_text_of_the_library_names_an_option_of_the_shell() -> None:
    """They are settings, which every way says in its own words."""
    root = Path(symgrad.__file__).parent
    of_the_shell = {  # what only the shell reaches, with the reason
        "tracing/captured/function.py": {"--call "},  # --call itself is being read
        "errors.py": {form for form in FORMS[Frontend.COMMAND].values() if OPTION.search(form)},  # its own words
    }
    found = {str(p.relative_to(root)): set(loose(p)) for p in root.rglob("*.py")}
    assert {place: texts for place, texts in found.items() if texts} == of_the_shell


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        ("x@a", {}, ["x, a and v are ones", "x is 2×3, a is 3×4"]),
        ("x@a", {"seed": [[1, 2]]}, ["x and a are ones", "x is 1×2, a is 2×2"]),
        ("x*c", {"shapes": {"x": (3,)}}, ["x, c and v are ones", "c is a vector"]),
        ("x*c", {"x": [1.0, 2.0], "c": 3.0}, ["v is ones"]),
        ("(x*c).sum()", {"x": [1.0, 2.0], "c": 3.0}, []),
        ("v*x", {"v": [1.0, 2.0], "x": 3.0}, ["g is ones"]),
        (
            "F.cross_entropy(x, y)",
            {},
            ["y is ones", "x is 0.47, −0.6, 0.21, …", "x is 2×3, y is a vector of 2"],  # at ones softmax shows little
        ),
    ],
)
def test_what_nobody_gave_is_said(text: str, given: dict[str, Any], said: list[str]) -> None:
    """Values, the seed among them, and shapes; nothing of what was given, and no seed where there is one number."""
    assert list(symgrad.explain(text, check=False, **given).assumptions) == said
