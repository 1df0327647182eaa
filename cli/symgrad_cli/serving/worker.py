"""The worker of `symgrad serve`: one job a line of JSON in, one answer a line of JSON out.

A process of its own, so that work that takes too long can be ended, and that takes no more memory than it may. Run as
``python -m symgrad_cli.serving.worker MEGABYTES``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import symgrad
from symgrad.errors import Frontend, InputError, SymgradError, for_frontend
from symgrad.language import parse_value
from symgrad_cli import options
from symgrad_cli.serving.script import adopt_orphans, run_script

SPARE = 4096
"""Megabytes of addresses beside the memory: what libraries reserve and never use."""


def split(text: str) -> list[str]:
    """``x=[[1,2]]; w=ones`` as its parts."""
    return [part for part in text.replace("\n", ";").split(";") if part.strip()]


@contextmanager
def field(name: str, *forms: str) -> Iterator[None]:
    """What is wrong in a field of the page is said of that field, and how it is written."""
    try:
        yield
    except SymgradError as error:
        error.problem, error.hints = f"{name}: {error.problem}", forms
        raise


def values_of(job: Mapping[str, str]) -> dict[str, Any]:
    """The field of values."""
    with field("values", "x=[[1,2]]; w=randn(3,2)"):
        return dict(options.values_of(split(job.get("let", ""))))


def shapes_of(job: Mapping[str, str]) -> dict[str, Any]:
    """The field of shapes."""
    with field("shapes", "x=2,3; w=3,4"):
        return dict(options.shapes_of(split(job.get("shape", ""))))


def seed_of(job: Mapping[str, str]) -> Any:
    """The field of the seed; None where it is empty."""
    seed = job.get("seed", "").strip()
    with field("seed v", "[[1,2],[3,4]]", "ones", "onehot(0)"):
        return parse_value(seed) if seed else None


def page(job: Mapping[str, str]) -> str:
    """The page of one expression; values from files are refused, since a link holds them."""
    from symgrad.api import explain_values
    from symgrad.exercises import exercise_data

    if any("@" in job.get(part, "") for part in ("let", "seed")):
        raise InputError("values from files are not read here", hints=("x=[[1,2],[3,4]]", "x=randn(2,3)"))
    found = explain_values(
        job["expression"], values_of(job), seed=seed_of(job), shapes=shapes_of(job),
        then=job.get("then", "").strip() or None, wrt=job.get("wrt", "").strip() or None,
    )  # fmt: skip
    return found.to_html(asked=exercise_data(found))


def exercise(job: Mapping[str, str]) -> dict[str, str]:
    """The question, and what became of a line."""
    if job.get("then", "").strip():
        raise InputError("an exercise has a seed v, and no loss", hints=("an empty field for the loss",))
    asked = symgrad.exercise(
        job["expression"], wrt=job.get("wrt", "").strip() or None, shapes=shapes_of(job)
    )  # fmt: skip
    found = {"question": asked.question, "name": asked.name}
    if job.get("line", "").strip():
        verdict = asked.check(job["line"])
        found |= {"kind": verdict.kind, "said": verdict.said}
    if job.get("solution"):
        found["solution"] = asked.solution or "(there is no short closed form)"
    return found


def script(job: Mapping[str, str]) -> dict[str, str]:
    """The page of a run, and what the script printed."""
    return run_script(job["source"], float(job["seconds"]), int(job["megabytes"]))


JOBS = {"page": page, "exercise": exercise, "script": script}


def answer(line: str) -> dict[str, Any]:
    """One job done; what is wrong with it is an answer as well."""
    job = json.loads(line)
    try:
        with for_frontend(Frontend.FIELDS):
            try:
                return {"found": JOBS[job["kind"]](job)}
            except SymgradError as error:
                return {"error": str(error)}
    except MemoryError:
        return {"error": "error[value]: this takes more memory than the server gives it"}
    except RecursionError:
        return {"error": "error[unsupported]: the expression is too deep to work with"}
    except Exception as error:  # the server goes on; what this is, it says
        return {"error": f"symgrad bug: {type(error).__name__}: {error}"}


def bound(megabytes: int) -> None:
    """Take no more memory than that, where the system can hold a process to it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        limit = (megabytes + SPARE) << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Answer until nobody asks."""
    bound(int(sys.argv[1]))
    adopt_orphans()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    answer('{"kind": "page", "expression": "x*a"}')  # what is loaded once is no part of anybody's job
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(answer(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
