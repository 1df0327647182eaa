"""What ``symgrad run`` says of a script, in the same process: its stories as text, or its events as data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from symgrad_cli.main import main

LEGEND = "J: one row for each entry of the output"
"""How what stands behind the last story begins: it is the same for all of them."""


def stories_of(script: Path, status: int = 0) -> list[str]:
    """The text that is told of each call, beginning with its place; the script prints nothing that looks so."""
    ran = CliRunner().invoke(main, ["run", str(script)], catch_exceptions=False)
    assert ran.exit_code == status, ran.output
    return re.split(rf"(?m)^(?={re.escape(script.name)}:\d+  )", ran.stdout.partition(LEGEND)[0])[1:]


def events_of(script: Path, status: int = 0) -> list[dict[str, Any]]:
    """What is written as JSON of each call."""
    to = script.with_suffix(".json")
    ran = CliRunner().invoke(main, ["run", "--format", "json", "-o", str(to), str(script)], catch_exceptions=False)
    assert ran.exit_code == status, ran.output
    events: list[dict[str, Any]] = json.loads(to.read_text(encoding="utf-8"))["events"]
    return events
