"""Facts are fields: which operations are named in strings outside ``ops``, and why. The list only shrinks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from symgrad.entries.derived_facts import dtype_words, infer_dtype_words
from symgrad.ops import TABLE, Op
from symgrad.ops.lookup import basics
from tests.parsed import PARSED, nodes_of

ROOT = Path(__file__).resolve().parent.parent / "symgrad"
OTHER_WORDS: dict[str, dict[str, str]] = {
    "NumPy's and torch's words for functions of SymPy": {
        "closed_form/writing/shorthand_writers.py": "abs atan2 lgamma ndtr round",
        "closed_form/writing/sum_writers.py": "mean sum var",
        "oracles/torch.py": (
            "acos acosh asin asinh atan atan2 atanh ceil cos cosh erf erfc erfcx erfinv exp floor i0e i1e lgamma log "
            "log_ndtr ndtri round sigmoid sign sin sinh tan tanh trunc"
        ),
    },
    "words of the notation, in SymPy and on arrays": {
        "functions.py": (
            "abs acos acosh asin asinh atan atan2 atanh ceil cos cosh erf erfc erfcx erfinv exp floor i0e i1e "
            "lgamma log log_ndtr max maximum min minimum ndtri polygamma sigmoid sign sin sinh softplus tan "
            "tanh trunc"
        ),
    },
    "what torch calls a parameter": {
        "language/binding.py": "abs",
    },
    "Python's mathematics, on numbers that a text writes": {
        "language/constants.py": "abs cos exp log sin sqrt tan tanh",
    },
    "steps of the lowering, which are not the table's": {
        "lowering/": (
            "abs add exp expand floor log logaddexp max maximum minimum prod remainder reshape sign sqrt sum "
            "take transpose where"
        ),
        "tracing/captured/on_": (
            "add atan2 expand logaddexp max maximum minimum polygamma prod remainder reshape softplus sqrt "
            "sum take transpose where"
        ),
    },
    "words of the notation": {
        "notation/": "abs floor max mean min prod sign sqrt sum where",
        "entries/derived_facts.py": "mean",
    },
    "NumPy's functions, in code that it is handed": {
        "oracles/evaluators.py": (
            "T abs atan2 clamp copysign expand floor lgamma mT ones_like polygamma prod round sum where zeros_like"
        ),
    },
    "how functions of SymPy are set": {
        "render/formula.py": "floor max mean sigmoid softmax var",
        "render/latex_alphabet.py": "cos cosh exp floor log sin sinh tan tanh",
        "render/html/formula_trees.py": (
            "abs acos acosh asin asinh atan atan2 atanh cos cosh erf exp floor log max prod sigmoid sign sin "
            "sinh softplus sum tan tanh"
        ),
    },
    "a symbol that pages set": {
        "render/content/": "sum",
    },
    "a key of what is written as JSON": {
        "render/json.py": "where",
        "exercises/points.py": "where",
        "tracing/story/": "where",
    },
    "an option of a command, a function, a directive": {
        "api.py": "expand",
        "sphinx/directives.py": "expand",
    },
    "the name of a rule": {
        "closed_form/rewriting/__init__.py": "mean softmax",
        "closed_form/program_facts.py": "inverse",
    },
    "a kind of structure, of which the identity and a diagonal are two": {
        "explanation/structure.py": "identity sum diagonal",
        "tracing/session/jacobian_sweeps.py": "diagonal identity",
    },
    "a kind of reason, of slip, of word in a text": {
        "explanation/reasons.py": "sum",
        "testing/": "sign",
        "language/parser.py": "sign",
        "language/syntax_tree.py": "sign",
        "language/tokens.py": "sign",
    },
    "a method that tells a tensor of torch's, which may not be imported": {
        "language/arguments.py": "detach",
        "testing/requests.py": "detach",
        "tracing/captured/__init__.py": "detach",
    },
    'what an option is set to: reduction="mean", mode="bilinear"': {
        "entries/along.py": "mean sum",
        "explanation/notable.py": "mean sum",
        "language/dtypes.py": "mean",
        "tracing/lift/layer_calls.py": "amax amin bilinear max mean min prod sum",
        "tracing/lift/compositions.py": "linear mean sum",
        "tracing/lift/placing.py": "amax mean sum",
    },
    "what numbers of a run are called": {
        "tracing/lift/compositions.py": "sign",
    },
}
"""Words that an operation has too and that mean something else where a path begins so, by what they mean there."""
NAMED: dict[str, dict[str, str]] = {
    "lines of Python are taken apart and put together as trees: a function stands there by its name": {
        "backward/form_guards.py": "permute",
        "backward/forward_lines.py": "ones_like zeros_like",
        "backward/simplify/concat.py": "pad",
        "backward/simplify/factors.py": "T",
        "backward/simplify/broadcasting.py": "ones_like zeros_like",
        "exporting/torch_text.py": "layer_norm sqrt var",
    },
    "another library counts the arguments otherwise": {
        "exporting/numpy_text.py": "einsum mT pad",
    },
    "what a closed form writes": {
        "closed_form/writing/shorthand_writers.py": "norm",
        "closed_form/writing/complex_forms.py": "abs",
        "closed_form/writing/index_ranges.py": "tril triu",
        "closed_form/writing/sum_writers.py": "einsum",
        "closed_form/fragments.py": "mT",
        "language/trees.py": "T T",
        "closed_form/source_code.py": "T",
        "explanation/structure.py": "expand",
    },
    "a step of a derivative, which symgrad makes by itself": {
        "calculus/product_programs.py": "add",
        "explanation/__init__.py": "ones_like zeros_like",
    },
    "T of a vector is the vector, of more than a matrix every axis; and a file system may hold t for T": {
        "language/elaborate.py": "T",
        "documents/__init__.py": "T",
    },
    "torch computes it otherwise than it is defined: other arguments, a product in one, no rank, a word that draws, an option said twice": {
        "tracing/lift/compositions.py": "pinv",
        "tracing/lift/inside.py": "addmm addmv baddbmm",
        "tracing/record/transforms.py": "normalize",
    },
}
"""Strings that are the name of an entry, by the reason why: take out what is gone, and add nothing."""


BUILDERS = {"call": 0, "method": 1, "call_method": 2, "partial": 1}
"""What builds a call in a line of code, and where it is told its name: a name that is written decides nothing."""


def told_to_builders(node: ast.Call) -> list[ast.expr]:
    """The name of the call that a builder makes."""
    place = BUILDERS.get(node.func.id, -1) if isinstance(node.func, ast.Name) else -1
    named = [keyword.value for keyword in node.keywords if keyword.arg == "word"]
    return named or node.args[place : place + 1] if place >= 0 else []


def loose_values(node: ast.AST) -> Sequence[ast.expr]:
    """The strings inside of one node that do not count."""
    match node:
        case ast.JoinedStr(values):
            return values
        case ast.Expr(value):
            return [value]
        case ast.Call():
            return told_to_builders(node)
    return []


def named_in(text: str) -> Counter[str]:
    """The strings of a file that are the name of an entry, how often.

    Docstrings, sentences, parts of f-strings and the names of calls that are written do not count.
    """
    loose = {id(value) for node in nodes_of(text) for value in loose_values(node)}
    return Counter(
        node.value
        for node in nodes_of(text)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value in TABLE
        and id(node) not in loose
    )


def other_words(name: str) -> set[str]:
    """The words that mean something else in a file."""
    places = [(prefix, words) for by in OTHER_WORDS.values() for prefix, words in by.items()]
    return {word for prefix, words in places if name.startswith(prefix) for word in words.split()}


def counted() -> dict[str, Counter[str]]:
    """The files with such strings; the reference reader shares nothing with the table, so its words are torch's."""
    paths = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
    outside = {name: path for name, path in paths.items() if not name.startswith(("ops/", "reference/"))}
    found = {name: named_in(path.read_text("utf-8")) for name, path in outside.items()}
    own = {
        name: Counter({w: n for w, n in words.items() if w not in other_words(name)}) for name, words in found.items()
    }
    return {name: words for name, words in own.items() if words}


def decided_by_basics(text: str) -> list[int]:
    """The lines that do something else with an entry of `symgrad.ops.lookup.basics` than hand it to what applies it."""
    if "basics." not in text:
        return []
    applied = {id(part) for node in nodes_of(text) if isinstance(node, ast.Call) for part in node.args}
    chosen = {
        id(part)
        for node in nodes_of(text)
        if isinstance(node, ast.IfExp) and id(node) in applied
        for part in (node.body, node.orelse)
    }
    return [
        node.lineno
        for node in nodes_of(text)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "basics"
        if id(node) not in applied | chosen
    ]


@PARSED
def test_facts_of_an_operation_are_fields_of_its_entry() -> None:
    """No file names another operation than it did, and what is gone is gone from the list."""
    told = {name: Counter(words.split()) for files in NAMED.values() for name, words in files.items()}
    assert counted() == told
    assert sum(words.total() for words in told.values()) <= 37


def test_the_count_sees_a_name_and_not_a_sentence() -> None:
    assert named_in('WORDS = {"matmul": 1}\nif op == "relu": pass') == {"matmul": 1, "relu": 1}
    assert not named_in('"""sum"""\nword = f"mean of {x}"\nother = "the sum of it"')
    assert not named_in('call("softmax", x, dim=-1)\nmethod(x, "sum")\ncall_method(piece, axes, "mean")')
    assert named_in('call(x, "sum")\nmethod("sum", word)') == {"sum": 2}


@PARSED
def test_each_word_that_means_something_else_stands_there() -> None:
    files = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.rglob("*.py")}
    for prefix, words in ((prefix, words) for by in OTHER_WORDS.values() for prefix, words in by.items()):
        standing = {word for name, text in files.items() if name.startswith(prefix) for word in named_in(text)}
        assert set(words.split()) <= standing, prefix


@PARSED
def test_what_programs_are_built_with_is_applied_and_nothing_is_decided_by_it() -> None:
    """`symgrad.ops.lookup.basics` is no way round: who asks what an operation is asks for a fact of its entry."""
    files = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.rglob("*.py")}
    assert {name: lines for name, text in files.items() if (lines := decided_by_basics(text))} == {}
    used = {word for name, text in files.items() for word in re.findall(r"\bbasics\.(\w+)", text)}
    assert all(isinstance(getattr(basics, name), Op) for name in used)


def test_a_decision_by_an_entry_is_seen() -> None:
    assert decided_by_basics("p(basics.mul, x)\np(basics.sub if odd else basics.add, x)") == []
    assert decided_by_basics("if named(op) is basics.mul: pass\nx = basics.mul.name") == [1, 2]


@pytest.mark.parametrize("op", [op for op in TABLE.values() if op.traits.result_dtype], ids=lambda op: op.name)
def test_what_an_entry_says_of_truth_values_does_not_follow_from_its_equation(op: object) -> None:
    assert dtype_words(op) != infer_dtype_words(op.name)  # type: ignore[arg-type,attr-defined]  # an entry
