"""The directives ``symgrad-run`` and ``symgrad-python``: code that runs while the page is built, and what it prints.

    .. symgrad-run::
       :says: L = out[0] + out[1], the sum

       import torch
       x = torch.ones(2, requires_grad=True)
       (x * 2).backward(torch.ones(2))

``symgrad-run`` shows a script and what `symgrad run` tells of it, ``symgrad-python`` a snippet and its output. Both run
the author's own code. ``says`` are sentences that have to be there; ``raises`` is the last line of the exception that
ends it, and without it an exception fails the build. ``hide`` shows the output alone. ``symgrad-stamp`` says by which
versions a page was made.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

import symgrad
from symgrad.errors import SymgradError
from symgrad.oracles.torch import torch_version
from symgrad.sphinx.expression import lines
from symgrad.sphinx.nodes import Made, boxed, code_block
from symgrad.sphinx.truth import unsaid, untrue


class CodeDirective(SphinxDirective):
    """Code, and what came of it."""

    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]] | None] = {
        "says": lines, "raises": directives.unchanged, "hide": directives.flag, "name": directives.unchanged,
        "full": directives.flag,
    }  # fmt: skip

    def outcome(self, source: str) -> tuple[str, str]:
        """What was printed, and the last line of the exception that ended it."""
        raise NotImplementedError

    def run(self) -> Made:
        """The code and its output; what does not hold is remembered for the end of the build."""
        source = "\n".join(self.content).rstrip() + "\n"
        place, line = self.get_source_info()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's own, once a process: which page has it depends on the order
                printed, failure = self.outcome(source)
        except SymgradError as error:  # what cannot be run here is told with the others, at the end
            untrue(self.env, f"{place}:{line}", str(error))
            return [boxed([code_block(str(error))], "symgrad-error")]
        expected = self.options.get("raises", "")
        if bool(expected) != bool(failure) or expected not in failure:
            untrue(self.env, f"{place}:{line}", f"it ends in {failure or 'no exception'}, not in {expected or 'none'}")
        for sentence in unsaid(f"{printed}\n{failure}", self.options.get("says", ())):
            untrue(self.env, f"{place}:{line}", f"{sentence}\n{printed}")
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
        from symgrad.tracing.story.tell import event_text

        told: list[str] = []
        own = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, redirected(io.StringIO(), own):
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
        with tempfile.TemporaryDirectory() as folder, redirected(printed, io.StringIO()):
            path = Path(folder) / name
            path.write_text(source, encoding="utf-8")
            module = type(sys)("snippet")
            module.__file__ = str(path)
            try:
                exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 -- the author's own snippet
            except Exception as error:
                return printed.getvalue(), traceback.format_exception_only(error)[-1].strip()
        return printed.getvalue(), ""


@contextlib.contextmanager
def redirected(out: io.StringIO, err: io.StringIO) -> Any:
    """Both streams caught."""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


class StampDirective(SphinxDirective):
    """``symgrad-stamp``."""

    def run(self) -> Made:
        """One sentence."""
        torch = torch_version()
        with_torch = f"torch {torch}" if torch else "no torch installed"
        said = f"Every number on this page was computed when it was built: symgrad {symgrad.__version__}, {with_torch}."
        return [nodes.paragraph("", said, classes=["symgrad-stamp"])]
