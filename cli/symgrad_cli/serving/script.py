"""A script of `symgrad serve --scripts`, run within bounds as a process of its own, and the end of all that it started.

Comes in: its text. Goes out: the page of `symgrad run`, as far as it came, and what was printed. Nothing that it
started goes on, and its folder is gone. What a process started is known from Linux's ``/proc``; elsewhere nothing is
known of anybody's children. Who adopts orphans keeps those, too, that were started in a session of their own.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

MOST_PRINTED, MOST_PAGE, MOST_FILE = 100_000, 8 << 20, 64 << 20
"""Characters that are shown of what it prints, bytes of its page, bytes of any file that it writes."""
MOST_PROCESSES = 64
"""That it may start."""
GRACE = 10.0
"""Seconds in which what has been told until the end is written."""
PAUSE = 0.1
"""Seconds between two looks at it."""


def run_script(source: str, seconds: float, most_megabytes: int) -> dict[str, str]:
    """The page of `symgrad run` and what the script printed; in an empty folder."""
    with tempfile.TemporaryDirectory(prefix="symgrad-script-") as folder, tempfile.TemporaryFile() as printed:
        place, story = Path(folder) / "script.py", Path(folder) / "story.html"
        place.write_text(source, encoding="utf-8", errors="replace")
        done = [sys.executable, "-m", "symgrad_cli", "run", "--format", "html", "-o", str(story), place.name]
        with subprocess.Popen(
            done, cwd=folder, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, start_new_session=True,
            preexec_fn=hold_files,  # a script that never stops printing would fill the disk
        ) as process:  # fmt: skip
            why = ended(process, seconds, most_megabytes)
        end_session(process.pid)
        printed.seek(0)
        said = printed.read(MOST_PRINTED + 1).decode("utf-8", "replace")
        if len(said) > MOST_PRINTED:
            said = f"{said[:MOST_PRINTED]}\n… (output cut)"
        try:
            page = story.read_text(encoding="utf-8") if story.stat().st_size <= MOST_PAGE else ""
        except (OSError, ValueError):  # it ended before there was anything to tell
            page = ""
    return {"page": page, "said": f"{said}\n{why}".lstrip("\n") if why else said}


def ended(process: subprocess.Popen[bytes], seconds: float, most_megabytes: int) -> str:
    """Wait until it has ended, and end it where it goes beyond a bound: why, in that case."""
    why, last = "", time.monotonic() + seconds
    while process.poll() is None:
        family = descendants(os.getpid())
        if len(family) > MOST_PROCESSES:
            why = f"The script was stopped: it started more than {MOST_PROCESSES} processes."
        elif megabytes(family) > most_megabytes:
            why = f"The script was stopped: it takes more than {most_megabytes:,} megabytes."
        elif time.monotonic() > last:
            process.send_signal(signal.SIGINT)  # as Ctrl-C would: what was told until then is written
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            why = (
                f"The script was stopped: it takes more than {seconds:g} seconds. In a shell symgrad run has no bounds."
            )
        if why:
            end_session(process.pid)
            break
        time.sleep(PAUSE)
    return why


def end_session(leader: int) -> None:
    """End all that is left of a script: its session, and, on Linux, what it started in others."""
    with suppress(OSError, AttributeError):
        os.killpg(leader, signal.SIGKILL)
    end_descendants(os.getpid())
    reap()


def hold_files() -> None:
    """No file may grow beyond a bound, where the system can hold a process to it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE, MOST_FILE))


PROC = Path("/proc")
SET_CHILD_SUBREAPER = 36
"""Of prctl."""


def adopt_orphans() -> None:
    """Whatever is left behind by a descendant of this process becomes its child, where the system has that."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """All that ``pid`` started, and what those started."""
    children: dict[int, list[int]] = {}
    for child, parent in parents():
        children.setdefault(parent, []).append(child)
    found, ahead = [], [pid]
    while ahead:
        new = children.get(ahead.pop(), [])
        found += new
        ahead += new
    return found


def parents() -> Iterator[tuple[int, int]]:
    """Every process that runs, and who started it."""
    for place in PROC.glob("[0-9]*"):
        with suppress(OSError, ValueError):
            state, parent, *_ = (place / "stat").read_text().rpartition(")")[2].split()
            if state not in "ZX":
                yield int(place.name), int(parent)


def megabytes(pids: Iterable[int]) -> float:
    """The memory that processes hold; what several share counts once."""
    kilobytes = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            kilobytes += int((PROC / str(pid) / "smaps_rollup").read_text().partition("\nPss:")[2].split()[0])
    return kilobytes / 1024


def end_descendants(pid: int) -> None:
    """End all that ``pid`` started: first nobody goes on, so that nobody starts another, then nobody is left."""
    stopped: set[int] = set()
    while new := set(descendants(pid)) - stopped:
        for one in new:
            send(one, signal.SIGSTOP)
        stopped |= new
    for one in stopped:
        send(one, signal.SIGKILL)


def send(pid: int, number: int) -> None:
    """A signal to a process that may be gone."""
    with suppress(OSError):
        os.kill(pid, number)


def reap() -> None:
    """Children that have ended are forgotten by the system."""
    with suppress(OSError, AttributeError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
