"""The addresses of `symgrad serve`, who may ask for them, and the bounded worker that answers.

Comes in: requests of a browser on this machine. Goes out: the page to type in, explanations, verdicts on lines. Only
names of this machine are answered to; what changes anything or runs a script needs the token of the page. Work is done
by `symgrad_cli.serving.worker`, which is ended and begun anew when a job takes too long.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from html import escape
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from symgrad_cli.serving.script import GRACE, end_descendants

HERE = Path(__file__).parent
LONGEST, LARGEST_BODY = 4_000, 64_000
"""Characters of an expression, bytes of a request."""
FIELDS = ("expression", "let", "shape", "seed", "then", "wrt")
SAFE = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
SHELL = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src data:; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
FRAMED = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "sandbox allow-scripts; frame-ancestors 'self'"
)
FILES = {"/serve.js": ("serve.js", "text/javascript"), "/serve.css": ("serve.css", "text/css")}
MOST_STORIES = 4
"""Pages of scripts that are kept, the last ones."""
LARGEST_ANSWER = 64 << 20
"""Bytes of an answer."""
STARTING = 120.0
"""Seconds until a worker is ready."""
MOST_WAITING = 8
"""Jobs that wait; more are refused."""
EXAMPLES: tuple[dict[str, str], ...] = (
    {"title": "What does out.backward(v) compute?", "expression": "x@a", "seed": "[[1,2,3,4],[5,6,7,8]]"},
    {"title": "One row of J: a one-hot seed", "expression": "x**2", "let": "x=[1,2,3]", "seed": "onehot(1)"},
    {"title": "Why is my softmax gradient zero?", "expression": "softmax(x)", "let": "x=[1,2,3]"},
    {
        "title": "Cross entropy: softmax minus one-hot", "expression": "cross_entropy(x, y)", "let": "y=[0,2]",
        "shape": "x=2,3",
    },
    {"title": "A bias is broadcast: its gradient adds up", "expression": "x@w + b", "shape": "x=2,3; w=3,4; b=4"},
    {"title": "A tensor that is used twice", "expression": "x*x + x", "let": "x=[1,2,3]"},
    {"title": "relu at 0", "expression": "relu(x)", "let": "x=[-1,0,2]"},
    {"title": "sqrt at 0", "expression": "sqrt(x)", "let": "x=[0,4]"},
    {"title": "Layer norm", "expression": "layer_norm(x, (3,))", "let": "x=randn(2,3)", "seed": "randn(2,3,seed=1)"},
    {"title": "Two layers", "expression": "h = tanh(x@w); h@u", "let": "x=randn(2,3); w=randn(3,3); u=randn(3,2)"},
    {"title": "An equation of one's own", "expression": "out[i] = sum_j x[i+j]*w[j]", "shape": "x=6; w=3"},
)  # fmt: skip
"""Questions that people ask, to click on."""


class Bounded:
    """One worker, one job at a time."""

    def __init__(self, seconds: float, megabytes: int) -> None:
        self.seconds, self.megabytes = seconds, megabytes
        self.process: asyncio.subprocess.Process | None = None
        self.lock = asyncio.Lock()
        self.waiting = 0

    async def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a job; an ``error`` where it takes too long or too many wait."""
        if self.waiting >= MOST_WAITING:
            return {"error": "the server is busy: try again in a moment"}
        self.waiting += 1
        try:
            async with self.lock:
                return await self._asked(job)
        finally:
            self.waiting -= 1

    async def _asked(self, job: Mapping[str, Any]) -> dict[str, Any]:
        try:
            process = await self._running()
        except TimeoutError:
            await self.end()
            return {"error": "the worker does not start"}
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            bounds = {"seconds": self.seconds, "megabytes": self.megabytes}
            process.stdin.write(json.dumps({**job, **bounds}).encode() + b"\n")
            await process.stdin.drain()
            patience = self.seconds + (2 * GRACE if job["kind"] == "script" else 0)  # the worker ends a script itself
            line = await asyncio.wait_for(process.stdout.readline(), patience)
        except TimeoutError:
            await self.end()
            return {"error": f"this takes more than {self.seconds:g} seconds: smaller sizes, or symgrad explain"}
        except (OSError, ValueError):
            line = b""
        except asyncio.CancelledError:  # whoever asked has gone: the answer would be taken for the next one's
            await self.end()
            raise
        if not line:
            await self.end()
            return {"error": "the request was stopped: it took too much memory, or its answer is too long"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def _running(self) -> asyncio.subprocess.Process:
        if self.process is None or self.process.returncode is not None:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "symgrad_cli.serving.worker", str(self.megabytes),
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LARGEST_ANSWER,
                start_new_session=True,
            )  # fmt: skip
            assert self.process.stdout is not None
            await asyncio.wait_for(self.process.stdout.readline(), STARTING)  # it says when it is ready
        return self.process

    async def end(self) -> None:
        """End the worker and whatever it started."""
        process, self.process = self.process, None
        if process is not None and process.returncode is None:
            end_descendants(process.pid)
            with suppress(ProcessLookupError):
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)  # a session of its own
                else:
                    process.kill()
            await process.wait()


class Served:
    """One server: its worker, its token, whether it runs scripts, and the pages of the last ones."""

    def __init__(self, bounded: Bounded, scripts: bool) -> None:
        self.bounded, self.scripts, self.token = bounded, scripts, secrets.token_urlsafe(24)
        self.stories: dict[str, str] = {}

    async def shell(self, request: Request) -> Response:
        """The page to type in."""
        known = {"examples": EXAMPLES, "token": self.token, "scripts": self.scripts}
        text = (HERE / "serve.html").read_text(encoding="utf-8")
        text = text.replace("KNOWN", escape(json.dumps(known)))
        return HTMLResponse(text, headers={**SAFE, "Content-Security-Policy": SHELL, "X-Frame-Options": "DENY"})

    async def file(self, request: Request) -> Response:
        """A file of ours, by its whole address."""
        name, kind = FILES[request.url.path]
        return Response((HERE / name).read_bytes(), media_type=kind, headers=SAFE)

    async def page(self, request: Request) -> Response:
        """The page of an expression, or what is wrong with it."""
        job = {name: request.query_params.get(name, "") for name in FIELDS}
        headers = {**SAFE, "Content-Security-Policy": FRAMED}
        unknown = [name for name in request.query_params if name not in FIELDS]
        if unknown:
            fields = f"the fields of an address are {', '.join(FIELDS)}"
            return HTMLResponse(told(f"This page has no field {unknown[0]}: {fields}."), headers=headers)
        if not job["expression"].strip():
            return HTMLResponse(told("Type an expression, such as x@a."), headers=headers)
        if any(len(value) > LONGEST for value in job.values()):
            return HTMLResponse(told(f"A text has at most {LONGEST:,} characters here."), 413, headers)
        answer = await self.bounded.ask({"kind": "page", **job})
        found = told(answer["error"]) if "error" in answer else answer["found"]
        # a refusal is an answer: a browser would call another status an error
        return HTMLResponse(found, headers=headers)

    async def exercise(self, request: Request) -> Response:
        """A question, or the verdict on a line."""
        return await self.posted(request, "exercise", (*FIELDS, "line", "solution"))

    async def script(self, request: Request) -> Response:
        """What a script's backward calls compute; only where the server was started for it.

        Its page has an address of its own, which nobody guesses: a frame with the page's own rules shows it.
        """
        if not self.scripts:
            return refused(403, "this server runs no scripts: symgrad serve --scripts")
        return await self.posted(request, "script", ("source",))

    def kept(self, found: dict[str, str]) -> dict[str, str]:
        """The page of a script put aside, and its address in its place; none where there is no page."""
        page = found.pop("page")
        if not page:
            return found | {"story": ""}
        name = secrets.token_urlsafe(24)
        self.stories[name] = page
        while len(self.stories) > MOST_STORIES:
            del self.stories[next(iter(self.stories))]
        return found | {"story": f"/story/{name}"}

    async def story(self, request: Request) -> Response:
        """The page of a script that ran."""
        page = self.stories.get(request.path_params["name"])
        headers = {**SAFE, "Content-Security-Policy": FRAMED}
        if page is None:
            return HTMLResponse(told("This page has expired: run the script again."), 404, headers)
        return HTMLResponse(page, headers=headers)

    async def posted(self, request: Request, kind: str, fields: Sequence[str]) -> Response:
        """The answer to what a page of this server asked; nobody else knows its token."""
        given = request.headers.get("x-symgrad-token", "")
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return refused(403, "this request did not come from a page of this server")
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return refused(415, "this takes JSON")
        body = b""
        try:
            async for part in request.stream():
                body += part
                if len(body) > LARGEST_BODY:
                    return refused(413, f"a request has at most {LARGEST_BODY:,} bytes")
            found = json.loads(body)
        except ClientDisconnect:
            return refused(400, "the client has disconnected")
        except (ValueError, RecursionError):
            return refused(400, "this is not JSON")
        if not isinstance(found, dict) or not all(isinstance(found.get(n, ""), str) for n in fields):
            return refused(400, "texts by name are expected")
        job = {name: found.get(name, "") for name in fields}
        if not job[fields[0]].strip():
            return refused(422, f"there is no {fields[0]}")
        if kind != "script" and any(len(value) > LONGEST for value in job.values()):
            return refused(413, f"a text has at most {LONGEST:,} characters here")
        answer = await self.bounded.ask({"kind": kind, **job})
        if kind == "script" and "found" in answer:
            answer["found"] = self.kept(answer["found"])
        return JSONResponse(answer, headers=SAFE)


def told(text: str) -> str:
    """A sentence as a page."""
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>symgrad</title><meta name="color-scheme" '
        'content="light dark"><body style="font:16px/1.5 system-ui,sans-serif;margin:1.5rem"><main><h1 '
        'style="font-size:1rem">symgrad</h1><pre role="alert" tabindex="0" style="white-space:pre-wrap">'
        f"{escape(text)}</pre></main></body></html>"
    )


def refused(status: int, why: str) -> Response:
    """What is not done, and why."""
    return JSONResponse({"error": why}, status, headers=SAFE)


def application(bounded: Bounded, scripts: bool, hosts: Sequence[str]) -> Starlette:
    """The whole server; ``hosts`` are the names that it answers to."""
    served = Served(bounded, scripts)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        await bounded.end()

    routes = [
        Route("/", served.shell), *(Route(path, served.file) for path in FILES), Route("/page", served.page),
        Route("/story/{name}", served.story),
        Route("/exercise", served.exercise, methods=["POST"]), Route("/script", served.script, methods=["POST"]),
    ]  # fmt: skip
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return Starlette(routes=routes, middleware=[guard], lifespan=lifespan)
