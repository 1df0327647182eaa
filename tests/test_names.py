"""A name means one thing in the whole library: classes, functions and files, counted.

Where several modules share a name on purpose, it is in a list below with the role that they share: writers of formats
have a function each for a table, say. A list that names what is no longer shared is red, so that it cannot go stale.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.parsed import tree_of

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = sorted((ROOT / "symgrad").rglob("*.py"))
MOST_FILES = 319

CLASSES: Mapping[str, str] = {}
"""Classes with one name in several modules, and why."""

FUNCTIONS: Mapping[str, str] = {
    "check_backward": "the fixture of the pytest plugin hands out the function of the same name",
    "solve": "torch's own word, and the one of mathematics for an equation in one index",
}
"""Functions with one name in several modules, and the role that they share."""

FILES: Mapping[str, str] = {"tokens": "what each of the two dialects, Python and index equations, is cut into"}
"""Files with one stem, and the role that they play in sibling packages."""


def defined(tree: ast.Module, kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> Iterator[str]:
    """The names of the classes or functions that a module defines, not those within others."""
    return (node.name for node in tree.body if isinstance(node, kind))


def shared(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Pairs of a name and a module, by name: those that stand in more than one module.

    >>> shared([("f", "a"), ("f", "b"), ("g", "a"), ("f", "a")])
    {'f': ['a', 'b']}
    """
    where: dict[str, set[str]] = defaultdict(set)
    for name, module in names:
        where[name].add(module)
    return {name: sorted(modules) for name, modules in where.items() if len(modules) > 1}


def hidden(package: str, modules: Iterable[str], text: str) -> list[str]:
    """Modules of a package that its ``__init__`` hides behind something else of the same name.

    >>> hidden("a.b", ["c", "d"], "from a.b.c import c, e")
    ['a.b.c']
    >>> hidden("a.b", ["c", "d"], "from a.b import c")
    []
    """
    bound: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module != package:
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
    return [f"{package}.{module}" for module in modules if module in bound]


def module_of(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


def hold(found: Mapping[str, list[str]], allowed: Mapping[str, str], what: str) -> None:
    """Nothing is shared but what is allowed, and all of that is."""
    new = {name: modules for name, modules in found.items() if name not in allowed}
    assert not new, f"{what} with one name in several modules: give each a name for what it does: {new}"
    stale = sorted(allowed.keys() - found.keys())
    assert not stale, f"no longer shared, so take them off the list: {stale}"


@pytest.mark.parametrize(
    ("kind", "allowed"), [(ast.ClassDef, CLASSES), (ast.FunctionDef, FUNCTIONS)], ids=["classes", "functions"]
)
def test_a_name_is_defined_in_one_module(
    kind: type[ast.ClassDef] | type[ast.FunctionDef], allowed: Mapping[str, str]
) -> None:
    names = [(name, module_of(path)) for path in LIBRARY for name in defined(tree_of(path.read_text("utf-8")), kind)]
    assert len(names) > 500
    hold(shared(names), allowed, kind.__name__)


def test_a_stem_is_of_one_file() -> None:
    names = [(path.stem, module_of(path)) for path in LIBRARY if path.stem != "__init__"]
    hold(shared(names), FILES, "files")


def test_no_module_is_hidden_by_its_package() -> None:
    for path in LIBRARY:
        if path.stem == "__init__":
            beside = [p.stem for p in path.parent.glob("*.py")] + [p.name for p in path.parent.iterdir() if p.is_dir()]
            package = path.parent.relative_to(ROOT).as_posix().replace("/", ".")
            assert not hidden(package, beside, path.read_text("utf-8")), path


def test_there_are_few_enough_files_to_know() -> None:
    assert len(LIBRARY) <= MOST_FILES, "merge two files of one idea before you add one"


def test_the_check_can_fail() -> None:
    with pytest.raises(AssertionError, match="give each a name"):
        hold({"told": ["a", "b"]}, {}, "functions")
    with pytest.raises(AssertionError, match="no longer shared"):
        hold({}, {"told": "says"}, "functions")
