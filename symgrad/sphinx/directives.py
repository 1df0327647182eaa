"""The directives ``symgrad``, ``symgrad-run`` and ``symgrad-python``: an expression explained, or code run, on a page.

    .. symgrad:: x@a
       :seed: [[1,2,3,4],[5,6,7,8]]
       :show: answer picture proof
       :claims: x.grad = v @ a.T
                x.grad = [[10,10,10],[26,26,26]]

Comes in: an expression or code, and options (``docs/how-to/sphinx.md`` says what each means). Goes out: nodes, and for
the end of the build what does not hold of what the author claims. ``symgrad-run`` shows a script and what `symgrad run`
tells of it, ``symgrad-python`` a snippet and its output; both run the author's own code. The role ``symgrad`` is a
closed form in a sentence, and ``symgrad-stamp`` says by which versions a page was made.
"""

from __future__ import annotations

import io
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective, SphinxRole

import symgrad
from symgrad.api import derive, explain_values
from symgrad.closed_form.form import assign_form
from symgrad.documents.article import readable_blocks
from symgrad.errors import Frontend, InputError, SymgradError, for_frontend
from symgrad.explanation import Explanation
from symgrad.language import parse_value
from symgrad.language.literals import parse_entry_name
from symgrad.oracles.torch import torch_version
from symgrad.render.content import explanation_page
from symgrad.render.page import Block, Page, Picture
from symgrad.sphinx.nodes import Made, boxed, code_block, nodes_of_blocks, word_nodes
from symgrad.sphinx.page_claims import failed_claims, missing_sentences, record_untrue

SECTION = {"equation": 0, "jacobian": 1, "seed": 2, "backward": 3, "proof": 4, "second": 5}
"""Parts that are a section of the whole page."""
PARTS = (*SECTION, "answer", "picture", "entries", "all", "text")
DEFAULT = ("answer", "picture")


def option_lines(text: str | None) -> list[str]:
    """The lines of an option that are not empty."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def option_items(text: str | None) -> list[str]:
    """The lines of an option, or what stands between its semicolons."""
    return [part.strip() for line in option_lines(text) for part in line.split(";") if part.strip()]


def option_parts(text: str | None) -> tuple[str, ...]:
    """What ``show`` names."""
    found = tuple(re.split(r"[\s,]+", (text or "").strip()))
    for part in found:
        if part not in PARTS:
            raise ValueError(f"{part} is not a part of the page; the parts are {', '.join(PARTS)}")
    return found


def option_pairs(found: list[str], option: str) -> dict[str, str]:
    """``NAME=VALUE`` lines."""
    result = {}
    for line in found:
        name, equals, value = line.partition("=")
        if not equals or not name.strip().isidentifier():
            raise InputError(f":{option}: needs NAME=VALUE", found=(line,))
        result[name.strip()] = value.strip()
    return result


def read_shape(text: str) -> tuple[int | str, ...]:
    """``2,3`` or ``m,3``; nothing is a scalar."""
    return tuple(int(p) if p.isdigit() else p for p in re.split(r"[\s,()]+", text) if p)


class ExpressionDirective(SphinxDirective):
    """``symgrad``."""

    required_arguments = 0
    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]] | None] = {
        "let": option_items, "shape": option_items, "seed": directives.unchanged, "wrt": directives.unchanged,
        "then": directives.unchanged, "order": directives.nonnegative_int, "expand": directives.flag,
        "entry": directives.unchanged, "show": option_parts, "says": option_lines, "claims": option_lines,
        "raises": directives.unchanged,
    }  # fmt: skip

    def run(self) -> Made:
        """The nodes in one box; what is not true is remembered for the end of the build."""
        with for_frontend(Frontend.COMMAND):  # whoever reads the page has no directive to change, but a shell
            return self.made()

    def made(self) -> Made:
        """What `run` gives, in the words of whoever asks."""
        expression = "\n".join([*self.arguments, *self.content]).strip()
        refused = self.options.get("raises")
        try:
            story = self.explained(expression)
            at = self.entry()
            asked = self.options.get("show", DEFAULT)
            made = [node for part in asked for node in part_nodes(story, part, at, asked)]
        except SymgradError as error:
            if refused != error.kind:
                with for_frontend(Frontend.DIRECTIVE):
                    record_untrue(self, f"{expression}: {error}")
            return [boxed([code_block(str(error))], "symgrad-error")]
        if refused is not None:
            record_untrue(self, f"{expression} raises no error, and :raises: expects one")
        says = self.options.get("says", ())
        said = story.to_text(width=10_000) if says else ""  # the whole page, only to look for them
        for sentence in (*disagreeing(story), *missing_sentences(said, says)):
            record_untrue(self, sentence)
        for sentence in failed_claims(story, self.options.get("claims", ())):
            record_untrue(self, sentence)
        box = boxed(made)
        self.set_source_info(box)
        return [box]

    def explained(self, expression: str) -> Explanation:
        """The explanation that the options ask for."""
        given: dict[str, Any] = {
            name: parse_value(text) for name, text in option_pairs(self.options.get("let", []), "let").items()
        }
        seed = self.options.get("seed")
        return explain_values(
            expression, given,
            seed=None if seed is None else parse_value(seed),
            wrt=self.options.get("wrt"), then=self.options.get("then"),
            shapes={x: read_shape(text) for x, text in option_pairs(self.options.get("shape", []), "shape").items()},
            expand="expand" in self.options, order=self.options.get("order", 1),
        )  # fmt: skip

    def entry(self) -> tuple[str, tuple[int, ...]] | None:
        """The entry whose story ``entries`` tells."""
        text = self.options.get("entry")
        if text is None:
            return None
        found = parse_entry_name(text)
        if found is None:
            raise InputError(":entry: names one entry of an input", found=(text,), hints=("x[0,1]",))
        return found


def part_nodes(story: Explanation, part: str, at: tuple[str, tuple[int, ...]] | None, asked: Sequence[str]) -> Made:
    """One part of an explanation; beside the proof, the story of an entry has none."""
    if part == "picture":
        name = at[0] if at is not None else None
        return nodes_of_blocks([Picture(name or next(iter(story.gradients), ""), story.to_svg(name))])
    if part == "text":
        return [code_block(story.to_text(width=88, entry=at).rstrip())]
    if part == "entries":
        name = next(iter(story.gradients))
        first = at or (name, (0,) * story.gradients[name].value.ndim)
        page = explanation_page(story, first, paper=True)
        return nodes_of_blocks(
            page_blocks(replace(page, sections=page.sections[:-1]) if "proof" in asked else page, story)
        )
    if part == "answer":
        page = explanation_page(story, None, True, paper=True)
        heading = nodes.paragraph("", "", *word_nodes(page.title), classes=["symgrad-asked"])
        return [heading, *nodes_of_blocks(readable_blocks(page.lead, story.expression))]
    if part == "all":
        return nodes_of_blocks(page_blocks(explanation_page(story, paper=True), story))
    if part == "second" and not story.hessians:
        raise InputError(":show: second needs :order: 2")
    places = sorted({SECTION[each] for each in asked if each in SECTION})
    section = explanation_page(story, only=places).sections[places.index(SECTION[part])]
    return nodes_of_blocks(readable_blocks(section.blocks, story.expression))


def page_blocks(page: Page, story: Explanation) -> Iterator[Block]:
    """Everything on a page, one after the other."""
    yield from readable_blocks(page.lead, story.expression)
    for section in page.sections:
        yield from readable_blocks(section.blocks, story.expression)


def disagreeing(story: Explanation) -> Iterator[str]:
    """The oracles that disagree with what was derived."""
    for name, gradient in story.gradients.items():
        for check in gradient.checks:
            if check.passed is False:
                yield f"{story.expression}: {name}.grad disagrees with {check.oracle}"


class ClosedFormRole(SphinxRole):
    """``symgrad``: closed forms, for every size."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """The lines as code."""
        expression, _, asked = self.text.partition("->")
        wanted, equals, claim = (part.strip() for part in asked.partition("="))
        try:
            name = wanted.removesuffix(".grad")
            _, found = derive(expression.strip(), wrt=name or None)
        except SymgradError as error:
            record_untrue(self, f"{self.text}: {error}")
            return [nodes.literal("", self.text)], []
        said = [text for d in found if d.form for text in assign_form(f"{d.name}.grad", d.form.text)]
        if not said:
            record_untrue(self, f"{expression.strip()} has no closed form")
        if equals and f"{wanted} = {claim}" not in said:
            record_untrue(self, f"{wanted} = {claim} is claimed, but it is {'; '.join(said)}")
        return [nodes.literal("", "; ".join(said), classes=["symgrad-form"])], []


class CodeDirective(SphinxDirective):
    """Code, and what came of it."""

    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]] | None] = {
        "says": option_lines, "raises": directives.unchanged, "hide": directives.flag, "name": directives.unchanged,
        "full": directives.flag,
    }  # fmt: skip

    def outcome(self, source: str) -> tuple[str, str]:
        """What was printed, and the last line of the exception that ended it."""
        raise NotImplementedError

    def run(self) -> Made:
        """The code and its output; what does not hold is remembered for the end of the build."""
        source = "\n".join(self.content).rstrip() + "\n"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's own, once a process: which page has it depends on the order
                printed, failure = self.outcome(source)
        except SymgradError as error:  # what cannot be run here is told with the others, at the end
            record_untrue(self, str(error))
            return [boxed([code_block(str(error))], "symgrad-error")]
        expected = self.options.get("raises", "")
        if bool(expected) != bool(failure) or expected not in failure:
            record_untrue(self, f"it ends in {failure or 'no exception'}, not in {expected or 'none'}")
        for sentence in missing_sentences(f"{printed}\n{failure}", self.options.get("says", ())):
            record_untrue(self, f"{sentence}\n{printed}")
        shown: Made = [] if "hide" in self.options else [code_block(source.rstrip(), "python")]
        told = "\n".join(part for part in (printed.rstrip(), failure) if part)
        if told:
            output = code_block(told)
            output["classes"].append("symgrad-output")
            shown.append(output)
        return [boxed(shown, "symgrad-code")]


class RunDirective(CodeDirective):
    """``symgrad-run``."""

    def outcome(self, source: str) -> tuple[str, str]:
        """What `symgrad run` tells, the script's own output left out."""
        from symgrad.tracing import run_script
        from symgrad.tracing.story.session_pages import event_text

        told: list[str] = []
        own = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(own):
            path = Path(folder) / self.options.get("name", "script.py")
            path.write_text(source, encoding="utf-8")
            session = run_script(str(path), [], tell=lambda event: told.append(event_text(event)))
        ended = own.getvalue().strip().splitlines()
        return "\n".join(told), (ended[-1] if ended else "an exit status") if session.status else ""


class PythonDirective(CodeDirective):
    """``symgrad-python``."""

    def outcome(self, source: str) -> tuple[str, str]:
        """What it prints."""
        printed, name = io.StringIO(), "snippet.py"
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(printed), redirect_stderr(io.StringIO()):
            path = Path(folder) / name
            path.write_text(source, encoding="utf-8")
            module = type(sys)("snippet")
            module.__file__ = str(path)
            try:
                exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 -- the author's own snippet
            except Exception as error:
                return printed.getvalue(), traceback.format_exception_only(error)[-1].strip()
        return printed.getvalue(), ""


class StampDirective(SphinxDirective):
    """``symgrad-stamp``."""

    def run(self) -> Made:
        """One sentence."""
        torch = torch_version()
        with_torch = f"torch {torch}" if torch else "no torch installed"
        said = f"Every number on this page was computed when it was built: symgrad {symgrad.__version__}, {with_torch}."
        return [nodes.paragraph("", said, classes=["symgrad-stamp"])]
