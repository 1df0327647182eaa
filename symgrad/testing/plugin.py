"""The pytest plugin: a fixture, a marker, and ``--symgrad-report DIR``.

    def test_softmax(check_backward):
        check_backward(Softmax.apply, "softmax(x, dim=-1)", x=torch.randn(3, 4))

    @pytest.mark.symgrad("softmax(x, dim=-1)", x=(3, 4))
    def test_softmax():
        return Softmax.apply

Installed with symgrad it is loaded in every test session: it imports pytest and nothing else until it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from symgrad.testing.report import BackwardReport

CHECKS = pytest.StashKey[int]()
"""How many backwards a test has checked so far."""
LONGEST = 150


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--symgrad-report DIR``."""
    group = parser.getgroup("symgrad")
    group.addoption("--symgrad-report", metavar="DIR", help="write an HTML and a JSON file for each checked backward")


def pytest_configure(config: pytest.Config) -> None:
    """The marker is known."""
    config.addinivalue_line(
        "markers",
        "symgrad(expression, *, order, only, skip, wrt, tolerance, seed, **inputs): check the backward that the test "
        "returns; an input given as a shape is drawn",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Every backward that the test checks is reported where ``--symgrad-report`` says."""
    folder = item.config.getoption("--symgrad-report")
    if not folder:
        return (yield)
    from symgrad.testing.check import REPORTED

    token = REPORTED.set(lambda report: write_report(item, Path(folder), report))
    try:
        return (yield)
    finally:
        REPORTED.reset(token)


@pytest.fixture
def check_backward() -> Callable[..., BackwardReport]:
    """`symgrad.testing.assert_backward`, a refusal of symgrad's told without its traceback."""
    return run_check


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A marked test returns a candidate, which is checked."""
    __tracebackhide__ = True
    marker = pyfuncitem.get_closest_marker("symgrad")
    if marker is None:
        return None
    if len(marker.args) > 1:
        pytest.fail("pytest.mark.symgrad takes one expression, and inputs by name", pytrace=False)
    names = pyfuncitem._fixtureinfo.argnames
    candidate = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if candidate is None:
        pytest.fail(f"{pyfuncitem.name} is marked symgrad, but returns no function to check", pytrace=False)
    run_check(candidate, *marker.args, **draw_inputs(marker.kwargs))
    return True


def run_check(fn: Any, expression: Any = None, /, **options: Any) -> BackwardReport:
    """One check, which passes or fails the test."""
    __tracebackhide__ = True
    from symgrad.errors import SymgradError
    from symgrad.testing.check import assert_backward  # loads SymPy: only where it is used

    try:
        return assert_backward(fn, expression, **options)
    except SymgradError as error:
        refused = str(error)
    pytest.fail(refused, pytrace=False)  # outside of the handler: pytest would tell both


def draw_inputs(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options and inputs; a tuple of sizes is normal numbers of that shape, the same in every run."""
    import torch

    generator = torch.Generator().manual_seed(0)
    found = {}
    for name, value in options.items():
        sizes = isinstance(value, tuple) and all(isinstance(n, int) and not isinstance(n, bool) for n in value)
        found[name] = torch.randn(value, generator=generator, dtype=torch.float64) if sizes else value
    return found


def write_report(item: pytest.Item, folder: Path, report: BackwardReport) -> None:
    """``test_kernel.py-test_softmax.json`` and ``.html``; a second check of the same test is numbered."""
    from symgrad.files import write_whole
    from symgrad.testing.report import report_page

    folder.mkdir(parents=True, exist_ok=True)
    count = item.stash[CHECKS] = item.stash.get(CHECKS, 0) + 1
    name = re.sub(r"[^\w.\-\[\]]+", "-", item.nodeid).strip("-")[:LONGEST]
    own = name if count == 1 else f"{name}-{count}"
    write_whole(folder / f"{own}.json", report.to_json())
    write_whole(folder / f"{own}.html", report_page(item.nodeid, report))
