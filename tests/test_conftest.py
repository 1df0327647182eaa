"""What runs by default of a test with many examples: one in so many, spread over all of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import symgrad
from tests.cases import cases
from tests.conftest import MANY, ROOT, by_default, keep_together, leave_out


class Example:
    """One example of a test, as far as its marks and parameters go."""

    def __init__(self, nodeid: str, *marks: pytest.MarkDecorator, **params: object) -> None:
        self.nodeid, self.own_markers = nodeid, [mark.mark for mark in marks]
        self.callspec = SimpleNamespace(params=params)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self.own_markers if mark.name == name), None)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.own_markers.append(mark.mark)

    @property
    def slow(self) -> bool:
        return self.get_closest_marker("slow") is not None


@pytest.mark.parametrize("every", [2, 3, 4, 5])
def test_one_in_so_many_runs_and_every_value_of_a_parameter_has_its_turn(every: int) -> None:
    tests = [f"a.py::test_{number}" for number in range(50)]
    for test in tests:
        chosen = [number for number in range(every**2) if by_default(number, every, test)]
        assert [number // every for number in chosen] == list(range(every))
        assert {number % every for number in chosen} == set(range(every))
    assert {number for number in range(every) for test in tests if by_default(number, every, test)} == set(range(every))


def test_the_others_are_slow_and_slow_ones_are_not_counted() -> None:
    few, slow = pytest.mark.one_in(2), pytest.mark.slow
    first = [Example("a.py::test[x]", few), Example("a.py::test[slow]", few, slow), Example("a.py::test[y]", few)]
    other = [Example("a.py::test_another[x]", few), Example("a.py::test_plain[x]"), Example("a.py::test_plain[y]")]
    leave_out([*first, *other])  # type: ignore[list-item]  # stand-ins for pytest's items
    assert [example.slow for example in first] in ([False, True, True], [True, True, False])
    assert not any(example.slow for example in other)


def test_of_a_walk_over_the_operations_some_are_slow_and_the_rest_is_left_to_the_night() -> None:
    """Not of the contract, nor of examples that are no operation's: each of those is there for its own sake."""
    few, op = pytest.mark.one_in(5), cases()[0].op
    for place, param, left in (("a.py", op, True), ("tests/contract/a.py", op, False), ("a.py", "x + 1", False)):
        examples = [Example(f"{place}::test[{number}]", few, param=param) for number in range(300)]
        leave_out([*examples, Example("b.py::test")])  # type: ignore[list-item]  # stand-ins
        slow = sum(example.slow for example in examples)
        night = sum(example.get_closest_marker("night") is not None for example in examples)
        assert slow + night == 240
        assert MANY <= slow <= 2 * MANY if left else slow == 240


def test_the_default_tests_of_a_file_share_a_process_and_slow_ones_are_spread() -> None:
    own = pytest.mark.xdist_group("matmul")
    tests = [
        Example("a.py::test_x"), Example("a.py::test_y[1]"), Example("a.py::test_z", own),
        Example("b.py::test_x"), Example("b.py::test_y", pytest.mark.slow),
    ]  # fmt: skip
    keep_together(tests)  # type: ignore[arg-type]  # stand-ins for pytest's items
    groups = [test.get_closest_marker("xdist_group") for test in tests]
    assert [group and group.args for group in groups] == [("a.py",), ("a.py",), ("matmul",), ("b.py",), None]


def test_tests_of_one_operation_share_a_process() -> None:
    """By an example in every run; slow ones by the operation or its name, too."""
    case, slow = cases()[0], pytest.mark.slow
    tests = [
        Example("a.py::test[1]", case=case), Example("b.py::test[2]", slow, case=case),
        Example("b.py::test[3]", slow, op=case.op), Example("c.py::test[4]", slow, word=f"torch.{case.op.name}"),
        Example("c.py::test[5]", word=case.op.name), Example("c.py::test[6]", slow, word="nothing"),
    ]  # fmt: skip
    keep_together(tests)  # type: ignore[arg-type]  # stand-ins for pytest's items
    groups = [test.get_closest_marker("xdist_group") for test in tests]
    assert [group and group.args[0] for group in groups] == [*[case.op.name] * 4, "c.py", None]


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process has every group")
def test_groups_reach_the_scheduler(request: pytest.FixtureRequest) -> None:
    """pytest 9.2 went on without a word where xdist wrote the group; each process then derived what the other had."""
    assert request.node.nodeid.endswith("@tests/test_conftest.py")


def test_a_command_that_a_test_starts_runs_on_the_work_tree(tmp_path: Path) -> None:
    code = "import symgrad, symgrad_cli; print(symgrad.__file__, symgrad_cli.__file__, sep='\\n')"
    told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert told.splitlines() == [symgrad.__file__, str(ROOT / "cli" / "symgrad_cli" / "__init__.py")]
