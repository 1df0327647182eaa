"""The workflow file: what it runs is there, on every Python that is supported, and a tag publishes the site."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install symgrad[docs]")
ELSEWHERE = {"sudo", "apt-get"}
"""What the machines of the workflow have, and a developer's need not."""


@pytest.fixture(scope="module")
def workflow() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    found["on"] = found.pop(True)  # YAML 1.1 reads the word "on" as a truth value
    return found


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def commands(job: dict[str, Any]) -> list[list[str]]:
    """The commands of a job, word by word."""
    lines = (step["run"] for step in job["steps"] if "run" in step)
    return [shlex.split(part) for line in lines for part in re.split(r"&&|\n", line) if part.strip()]


def test_every_supported_python_runs_what_a_change_has_to_hold(workflow: Any, project: Any) -> None:
    checks = workflow["jobs"]["checks"]
    versions = [tuple(map(int, v.split("."))) for v in checks["strategy"]["matrix"]["python"]]
    oldest = tuple(map(int, re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"]).groups()))
    assert versions == [(3, minor) for minor in range(oldest[1], 14)]
    setup = next(step for step in checks["steps"] if "setup-python" in step.get("uses", ""))
    assert setup["with"]["python-version"] == "${{ matrix.python }}"
    assert [".ci/run"] in commands(checks)
    assert {"push", "pull_request"} <= set(workflow["on"])


def test_every_command_is_there(workflow: Any, project: Any) -> None:
    for job in workflow["jobs"].values():
        for words in commands(job):
            program = words[0]
            if program.startswith("."):
                assert (ROOT / program).stat().st_mode & 0o111, program
            elif program not in {*ELSEWHERE, "echo"}:
                assert shutil.which(program) or program in ("pip", "python"), program
            if program == "pip":
                (extras,) = re.findall(r"\[([\w,]+)\]", " ".join(words))
                assert set(extras.split(",")) <= set(project["optional-dependencies"])
                assert (ROOT / words[words.index("-c") + 1]).is_file()
            if program == "python":
                assert words[1:3] == ["-m", "sphinx"]
                assert (ROOT / words[-2] / "conf.py").is_file()


def test_a_tag_publishes_the_site_that_was_built(workflow: Any) -> None:
    jobs = workflow["jobs"]
    assert set(jobs["publish"]["needs"]) == {"checks", "site"}
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert jobs["publish"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert [step["uses"].partition("@")[0] for step in jobs["publish"]["steps"]] == ["actions/deploy-pages"]
    upload = next(step for step in jobs["site"]["steps"] if "upload-pages-artifact" in step.get("uses", ""))
    assert commands(jobs["site"])[-1][-1] == upload["with"]["path"]
    tags = workflow["on"]["push"]  # nothing narrows a push: a tag is one
    assert not tags, "a push of branches alone would leave tags out"


def test_everything_that_is_used_has_a_version(workflow: Any) -> None:
    used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
    assert used
    assert [use for use in used if not re.fullmatch(r"actions/[\w-]+@v\d+", use)] == []
    assert all(job.get("timeout-minutes", 0) for name, job in workflow["jobs"].items() if name != "publish")
