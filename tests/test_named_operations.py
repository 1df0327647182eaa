"""Facts are fields: how often operations are named in strings outside ``ops``, file by file. The numbers only shrink."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from symgrad.ops import TABLE
from symgrad.ops.holding import found, held_as

ROOT = Path(__file__).resolve().parent.parent / "symgrad"
OTHER_WORDS = {
    "closed_form/lowering.py": "NumPy's and torch's words for functions of SymPy",
    "functions.py": "words of the notation, in SymPy and on arrays",
    "language/constants.py": "Python's mathematics, on numbers that a text writes",
    "lowering": "steps of the lowering, which are not the table's",
    "notation": "words of the notation",
    "oracles/array_text.py": "NumPy's functions, in code that it is handed",
    "oracles/torch_equation.py": "torch's words for functions of SymPy",
    "render": "how functions of SymPy are set",
    "tracing/captured/on_": "steps of the lowering, on torch and on other libraries",
}
"""Where paths begin in which a word that an operation has too means something else."""
NAMED = {
    "api.py": 1,
    "backward/beside.py": 3,
    "backward/groups.py": 1,
    "backward/lines.py": 5,
    "backward/margins.py": 1,
    "backward/phrasing.py": 3,
    "calculus/back.py": 1,
    "closed_form/complex_text.py": 3,
    "closed_form/edges.py": 2,
    "closed_form/entries.py": 1,
    "closed_form/form.py": 1,
    "closed_form/function_calls.py": 2,
    "closed_form/notation.py": 1,
    "closed_form/of_programs.py": 6,
    "closed_form/pieces.py": 2,
    "closed_form/rules.py": 2,
    "closed_form/source_text.py": 15,
    "closed_form/sums.py": 4,
    "documents/pages.py": 1,
    "exercises/travel.py": 1,
    "explanation/notable.py": 5,
    "explanation/reasons.py": 1,
    "explanation/second.py": 2,
    "explanation/structure.py": 8,
    "exporting/arrays.py": 5,
    "exporting/module.py": 1,
    "exporting/statistics.py": 3,
    "exporting/torch_text.py": 4,
    "language/apply.py": 7,
    "language/builder.py": 1,
    "language/complex_halves.py": 5,
    "language/complexes.py": 6,
    "language/elaborate.py": 5,
    "language/kinds.py": 2,
    "language/names.py": 3,
    "language/picks.py": 8,
    "language/syntax.py": 2,
    "language/text_pairs.py": 10,
    "language/tokens.py": 3,
    "language/values.py": 2,
    "sphinx/expression.py": 2,
    "testing/jax_pairs.py": 1,
    "testing/places.py": 1,
    "testing/requests.py": 1,
    "testing/share_slips.py": 2,
    "testing/slips.py": 1,
    "testing/step_slips.py": 1,
    "testing/wrong_line.py": 1,
    "tracing/captured/seeds.py": 1,
    "tracing/captured/words.py": 3,
    "tracing/lift/again.py": 1,
    "tracing/lift/bench.py": 1,
    "tracing/lift/calls/compositions.py": 7,
    "tracing/lift/calls/draws.py": 1,
    "tracing/lift/calls/layers.py": 15,
    "tracing/lift/calls/matrices.py": 8,
    "tracing/lift/calls/sparse.py": 14,
    "tracing/lift/calls/statistics.py": 9,
    "tracing/lift/calls/weights.py": 15,
    "tracing/lift/casts.py": 1,
    "tracing/lift/choices.py": 7,
    "tracing/lift/complex/complexes.py": 8,
    "tracing/lift/complex/definitions.py": 7,
    "tracing/lift/complex/matrices.py": 7,
    "tracing/lift/complex/pairs.py": 3,
    "tracing/lift/complex/picking.py": 7,
    "tracing/lift/complex/spectra.py": 6,
    "tracing/lift/complex/spectral.py": 2,
    "tracing/lift/complex/views.py": 16,
    "tracing/lift/decompose.py": 19,
    "tracing/lift/labels.py": 2,
    "tracing/lift/lifter.py": 7,
    "tracing/lift/placing.py": 8,
    "tracing/lift/rewrites.py": 9,
    "tracing/lift/steps.py": 1,
    "tracing/lift/templates.py": 6,
    "tracing/lift/values.py": 1,
    "tracing/record/cuts.py": 2,
    "tracing/record/spelling.py": 4,
    "tracing/record/transforms.py": 2,
    "tracing/record/written.py": 2,
    "tracing/session/births.py": 3,
    "tracing/session/lessons.py": 1,
    "tracing/session/paths.py": 1,
    "tracing/session/remarks.py": 1,
    "tracing/session/rows.py": 2,
    "tracing/story/page.py": 2,
    "tracing/story/tell.py": 2,
}
"""How many strings in a file are the name of an entry: write the smaller number when there are fewer."""


SLACK = 12
"""By so much all numbers together may be behind, so that one who has fewer names is not held up by them."""


def named_in(text: str) -> int:
    """How many strings of a file are the name of an entry: docstrings, sentences and parts of f-strings do not count."""
    tree = ast.parse(text)
    loose = {
        id(value)
        for node in ast.walk(tree)
        for value in (
            node.values if isinstance(node, ast.JoinedStr) else [node.value] if isinstance(node, ast.Expr) else []
        )
    }
    return sum(
        isinstance(node, ast.Constant) and node.value in TABLE and id(node) not in loose
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def counted() -> dict[str, int]:
    """The files with such strings."""
    paths = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
    outside = {name: path for name, path in paths.items() if not name.startswith(("ops/", *OTHER_WORDS))}
    numbers = Counter({name: named_in(path.read_text("utf-8")) for name, path in outside.items()})
    return dict(+numbers)


def test_facts_of_an_operation_are_fields_of_its_entry() -> None:
    """No file names more operations than it did; where there are fewer the smaller number is to stand here, soon."""
    now = counted()
    assert {name: count for name, count in now.items() if count > NAMED.get(name, 0)} == {}
    assert sum(NAMED.values()) - sum(now.values()) <= SLACK
    assert sum(NAMED.values()) <= 388


def test_the_count_sees_a_name_and_not_a_sentence() -> None:
    assert named_in('WORDS = {"matmul": 1}\nif op == "relu": pass') == 2
    assert named_in('"""sum"""\nword = f"mean of {x}"\nother = "the sum of it"') == 0


def test_each_exemption_is_a_file_that_has_such_words() -> None:
    for name in OTHER_WORDS:
        files = [file for file in ROOT.rglob("*.py") if file.relative_to(ROOT).as_posix().startswith(name)]
        assert sum(named_in(file.read_text("utf-8")) for file in files) > 0, name


@pytest.mark.parametrize("op", [op for op in TABLE.values() if op.holds], ids=lambda op: op.name)
def test_what_an_entry_says_of_truth_values_does_not_follow_from_its_equation(op: object) -> None:
    assert held_as(op) != found(op.name)  # type: ignore[arg-type,attr-defined]  # an entry
