"""What a user reads is in the field's words: sentences and private words that a review threw out do not come back.

Strings of the source that are not docstrings, templates of pages and the documentation are looked through. Words of the
output are explained in the glossary, a page of the site that each HTML page carries too: each term of the page occurs in the output, and each term of the
field that the output uses is on the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest
from click.testing import CliRunner

import symgrad
from symgrad_cli.main import main
from tests.parsed import PARSED, nodes_of, tree_of

ROOT = Path(__file__).parent.parent
SOURCE = [*(ROOT / "symgrad").rglob("*.py"), *(ROOT / "cli").rglob("*.py")]
TEMPLATES = [
    p for p in (*(ROOT / "symgrad").rglob("*"), *(ROOT / "cli").rglob("*")) if p.suffix in (".jinja", ".html", ".js")
]
PAGES = [
    path
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if path.name != "changelog.md" and "operations" not in path.parts  # pages that a build writes
]
GLOSSARY = ROOT / "symgrad" / "render" / "html" / "templates" / "glossary.md"

SENTENCES = (
    r"that is where the division by",
    r"divides a sum by",
    r"\b(?:is|are) not asked\b",
    r"sets aside is None",
    r"starts afresh",
    r"mentions? (?:no|neither|the) (?:forward )?value|mentions? neither side",
    r"adds what torch says",
    r"torch's own, not checked",
    r"nothing was computed on the way to it",
    r"belong no vectors in particular",
    r"nobody's choice",
    r"which is as good",
    r"squares are no floats",
    r"what they are apart has fewer digits",
    r"had kept it for its pullback",
    r"answers? only to the entry",
    r"[Ww]here they meet stands how fast",
    r"[Tt]he arithmetic makes",
    r"torch wants \S+ in",
    r"held against (?:differences|nothing|the oracles)",
    r"What KIND of error",
    r"that are no tensors are numbers",
    r"What no text says",
    r"its backward is what (?:its )?author",
    r"gives here what its forward derives to",
    r"is what is declared",
    r"the real one\b",
    r"leaves a part of",
    r"a part of the way from",
    r"a value it can take where it is not chosen",
    r"is born (?:going back|in the forward)",
    r"has to be kept inside its domain",
    r"nothing comes back",
    r"left null space",
    r"adds up what it feeds",
    r"asks for all of J",
    r"one row a sweep",
    r"seeds would do",
    r"has them apart",
    r"told here is the first",
    r"a text is written in functions",
    r"needs the numbers of a run",
    r"does not name a value",
    r"there is neither a kind of error",
    r"there is nothing to differentiate by",
    r"what it gives is not",
    r"outside its engine nobody would|nobody else would",
    r"no value is looked at",
    r"with its length",
    r"what follows from it follows",
    r"that it undoes",
    r"\bnot made\b",
    r"; right is ",
    r"seeds differ",
    r"[Tt]old by the formula",
    r"held against (?:the equation|Python)",
    r"imports nothing of symgrad",
    r"a file is whole or not there",
    r"[Oo]nly this machine is answered",
    r"Another choice",
    r"…, one after the other",
    r"evaluated whole",
    r"Torch refuses this text",
    r"shares add up",
    r": a constant, it gets",
    r"does not change with every",
    r"there is no derivative: the slope",
    r"torch's, too",
    r"curved the same",
    r"changes its slope",
    r"for it alone",
    r"characters in code",
    r"not the derivative of the value",
    r"every entry once",
    r"already held the value",
    r"In the mathematics",
    r"times before, with",
    r"and how few passes",
    r"is known here",
    r"that nothing knows",
    r"[Nn]othing gives is inferred",
    r"belong into",
)
"""Sentences that were replaced. Three that a review praised stay: ``weighs the rows``, ``No path is not a zero``, …"""
WORDS = (
    r"\(asked\)",
    r"\bblack box(?:es)?\b.",
    r"\blengths: ",
    r"\bcomposed\b.",
    r"\bsummands?\b",
    r"what comes? back|comes? back to",
    r"\bthe slope that was declared\b",
    r"\b(?:jacobian|gradient|derivative|slope|differentiated?|ᵀJ|J|H) by \{",
)
"""Words of a dialect: the field says differentiated, not verified, gradient norms, gradient, with respect to."""
QUOTED = {"docs/contributing.md"}
"""Pages about the house itself."""


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file that are not docstrings (of commands these too), with implicit concatenation and the fields of f-strings joined."""
    nodes = nodes_of(path.read_text(encoding="utf-8"))
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    if "symgrad_cli" not in path.parts:  # docstrings of commands are their help
        inner |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            fields = ((p, ast.unparse(p.value) if isinstance(p, ast.FormattedValue) else "") for p in node.values)
            yield node.lineno, "".join(f"{{{field}}}" if field else str(getattr(p, "value", "")) for p, field in fields)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@cache
def output() -> tuple[tuple[str, str], ...]:
    """Every string that a user may see, with its place."""
    found = [(f"{path.relative_to(ROOT)}:{line}", text) for path in SOURCE for line, text in literals(path)]
    return (*found, *((str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in TEMPLATES))


@cache
def documentation() -> tuple[tuple[str, str], ...]:
    """Every line of the documentation, with its place."""
    pages = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8").splitlines() for page in PAGES}
    return tuple((f"{page}:{n}", line) for page in pages if page not in QUOTED for n, line in enumerate(pages[page], 1))


def slips(pattern: str) -> list[str]:
    """Where the pattern occurs: in the output, and line by line in the documentation."""
    of = re.compile(pattern)
    return [f"{place}: {m[0]}" for place, text in (*output(), *documentation()) if (m := of.search(text))]


@PARSED
@pytest.mark.parametrize("pattern", [*SENTENCES, *WORDS])
def test_a_sentence_that_was_thrown_out_stays_out(pattern: str) -> None:
    assert slips(pattern) == []


def test_a_slip_is_seen(tmp_path: Path) -> None:
    """In a joined f-string, and not in a docstring."""
    path = tmp_path / "one.py"
    path.write_text(
        '"""is what is declared"""\nx = 1\nsaid = f"{x} is what "\\\n    f"is declared, {x} the real one"\n'
    )
    assert [text for _, text in literals(path)] == ["{x} is what is declared, {x} the real one"]


TERMS = (
    "seed", "Jacobian", "vᵀJ", "pullback", "Hessian", "kink", "jump", "saturated", "overflow", "underflow",
    "cancel", "not verified", "not derived", "gradient norm", "leaf", "detach", "broadcast", "saved tensor", "graph",
    "in place", "with respect to", "diagonal", "selection", "expansion", "permutation", "block-diagonal", "one-hot",
    "difference quotient", "chain rule", "index formula", "closed form", "convention", "batch", "contiguous", "ulp",
)  # fmt: skip
"""Terms that a reader may not know. Each that the output uses is explained."""


def explained() -> dict[str, str]:
    """The terms of the glossary, in the letters of a sentence, and what is said of each."""
    text = GLOSSARY.read_text(encoding="utf-8")
    return {name: body.strip() for name, body in re.findall(r"^### (.+)\n+((?:(?!^#).*\n?)+)", text, re.MULTILINE)}


@PARSED
def test_every_term_of_the_output_is_in_the_glossary() -> None:
    page, said = " ".join(explained()).lower(), "\n".join(text for _, text in output())
    assert [term for term in TERMS if term.lower() in said.lower() and term.lower() not in page] == []


@PARSED
def test_every_term_of_the_glossary_occurs_in_the_output() -> None:
    said = "\n".join(text for _, text in output()).lower()
    unsaid = [name for name in explained() if not any(word.strip().lower() in said for word in name.split(","))]
    assert unsaid == []


def test_every_term_is_explained_shortly_and_with_an_example() -> None:
    for name, body in explained().items():
        assert 8 <= len(body.split()) <= 75, (name, len(body.split()))
        assert "`" in body, name


def test_a_page_of_an_explanation_and_of_a_story_carries_the_glossary(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\nx.exp().sum().backward()\n", encoding="utf-8"
    )
    assert CliRunner().invoke(main, ["run", "-o", str(tmp_path / "story.html"), str(script)]).exit_code == 0
    for page in (
        symgrad.explain("x * 2", check=False).to_html(),
        (tmp_path / "story.html").read_text(encoding="utf-8"),
    ):
        terms = re.findall(r"<dt>(.*?)</dt>", page)
        assert terms == list(explained())
        assert page.count("<dd>") == len(terms)


def test_the_site_links_the_glossary() -> None:
    assert "\nglossary\n" in (ROOT / "docs" / "reference" / "index.md").read_text(encoding="utf-8")
    assert "(reference/glossary.md)" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


@PARSED
def test_the_docstring_of_a_module_begins_with_what_it_is() -> None:
    first = {
        path: (ast.get_docstring(tree_of(path.read_text(encoding="utf-8"))) or "").split(" ")[0] for path in SOURCE
    }
    assert [str(path) for path, word in first.items() if word in ("What", "Where", "Of", "Which", "How")] == []


NAMED = re.compile(r"(?<![`\w])`([A-Za-z_][\w.]*)`(?!`)")
"""A name in single backticks."""
LIBRARIES = ("torch", "np", "numpy", "scipy", "sympy", "ast", "python")
"""What a name in single backticks may begin with, besides those of the code."""


def identifiers(node: ast.AST) -> Iterator[str]:
    """The names that a node of the source defines or reads."""
    for field in ("name", "id", "attr", "arg"):
        yield from str(getattr(node, field, "")).split(".")


def is_known(name: str, known: frozenset[str]) -> bool:
    """Whether a name of a docstring exists: a dotted one by importing it, another as a name of the source."""
    if not name.startswith("symgrad."):
        return name.split(".")[0] in LIBRARIES or known.issuperset(name.split("."))
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@PARSED
def test_a_name_in_a_docstring_exists() -> None:
    nodes = {path: nodes_of(path.read_text(encoding="utf-8")) for path in SOURCE}
    known = frozenset(name for each in nodes.values() for node in each for name in identifiers(node))
    known |= {part.removesuffix(".py") for path in SOURCE for part in path.relative_to(ROOT).parts}
    texts = [
        (path, node.value.value)
        for path, each in nodes.items()
        for node in each
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    named = [(str(path), name) for path, text in texts for name in NAMED.findall(text)]
    assert len(named) > 500
    assert [pair for pair in named if not is_known(pair[1], known)] == []
