"""Work within bounds: a worker that is ended and begun anew when a job takes too long.

Comes in: jobs, as plain dictionaries. Goes out: answers of `symgrad_cli.serving.worker`, or what became of it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from symgrad_cli.serving.family import end_descendants
from symgrad_cli.serving.script import GRACE

LARGEST = 64 << 20
"""Bytes of an answer."""
STARTING = 120.0
"""Seconds until a worker is ready."""
MOST_WAITING = 8
"""Jobs that wait; more are refused."""


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
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LARGEST, start_new_session=True,
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
