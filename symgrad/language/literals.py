"""Values as people write them on a command line: ``[[1,2],[3,4]]``, ``1/2``, ``ones(2,3)``, ``@file.npy``.

Comes in: text. Goes out: a `Value`, which has a shape of its own or takes the one that the program needs (``ones``,
``random``, ``onehot(1,2)``). The text is parsed, never evaluated. ``torch.arange(6.).reshape(2, 3)`` is computed by
`symgrad.reference`, which calls nothing outside its whitelist.

Reading ``@file.npy`` and ``@file.json`` runs nothing that is in them. The header of a ``.npy`` file is read first: a
file that claims more entries than it has, or holds pickled Python objects, is refused before an array is made. Nothing
is ever unpickled.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from symgrad.errors import (
    InputError,
    NotationError,
    ShapeError,
    SourceText,
    SymgradError,
    UnknownNameError,
    UnsupportedError,
    place_errors,
)
from symgrad.language.arguments import (
    MOST,
    MOST_AXES,
    Array,
    exact_array,
    format_entry_name,
    is_boolean_data,
    split_pairs,
    too_large_error,
)
from symgrad.language.constants import combine_constants, is_scalar
from symgrad.language.parser import parse_script
from symgrad.language.syntax_tree import Items, Literal, PythonCall, Unary, dotted_name
from symgrad.notation.tree import Binary, Name, SyntaxNode

LENGTH = 100_000
"""Characters of a literal; longer ones belong into a file."""
DRAWN_BY = re.compile(r"(torch|numpy|np)\.(random\.)?(?=randn?\b)")
OF_LIBRARY = re.compile(rf"\b(?!{DRAWN_BY.pattern})(torch|numpy|np)\.")
"""What a library draws is drawn here with the seed that stands beside it."""
FORMS = "[[1,2],[3,4]], 3, 1/2, ones(2,3), zeros(2,3), eye(3), arange(6), randn(2,3,seed=0), torch.ones(2), @file.npy"
Shape = tuple[int, ...]
Maker = Callable[[Shape], Array]
Draw = Callable[[np.random.Generator, Shape], Array]


@dataclass(frozen=True)
class Value:
    """A value; ``shape`` is None where it takes the shape that is asked for. ``draw`` makes what has no seed given.

    ``truths`` says that torch takes it for a mask, ``pairs`` that it is complex, and its last axis (re, im).
    """

    text: str
    shape: Shape | None
    make: Maker
    draw: Draw | None = None
    truths: bool = False
    pairs: bool = False

    @classmethod
    def of(cls, text: str, given: Any) -> Value:
        """The value of an array or of nested lists."""
        try:
            array, complex_ones = exact_array(given, text), False
        except UnsupportedError:
            array, complex_ones = exact_array(split_pairs(given), text), True
        return cls(text, array.shape, lambda shape: array.copy(), None, is_boolean_data(given), complex_ones)

    def array(self, shape: Shape, name: str = "") -> Array:
        """The value in ``shape``: int64, fractions (dtype object) or float64.

        What is drawn without a seed depends on the ``name`` it is for, so that no two inputs are alike by chance.
        Raises `ShapeError` when it has another shape.
        """
        if self.shape is not None and self.shape != tuple(shape):
            raise ShapeError(
                f"{self.text} has another shape than is needed here",
                found=(f"{describe_shape(self.shape)}, and {describe_shape(tuple(shape))} is needed",),
                hints=("ones", f"randn({','.join(map(str, shape))})") if shape else ("a single number, such as 1",),
            )
        if math.prod(shape) > MOST:
            raise too_large_error(shape, self.text)
        if self.draw is not None:
            return self.draw(np.random.default_rng([0, *name.encode()]), tuple(shape))
        return self.make(tuple(shape))


def describe_shape(shape: Shape) -> str:
    """``2×3``, ``a vector of 3``, ``a single number``."""
    if not shape:
        return "a single number"
    return f"a vector of {shape[0]}" if len(shape) == 1 else "×".join(map(str, shape))


def parse_value(text: str, *, directory: Path | str | None = None) -> Value:
    """The value that ``text`` spells; files are looked for in ``directory``.

    >>> parse_value("[[1, 2], [3, 1/2]]").array((2, 2))
    array([[Fraction(1, 1), Fraction(2, 1)],
           [Fraction(3, 1), Fraction(1, 2)]], dtype=object)
    >>> parse_value("ones").array((2,))
    array([1, 1])

    Raises `InputError`, `ShapeError`, `NotationError` or `UnknownNameError`, with a span where there is one.
    """
    source, shown = SourceText(text), " ".join(text.split())
    try:
        if text.strip().startswith("@"):
            return value_from_file(text.strip(), directory)
        if OF_LIBRARY.search(text):
            return value_from_library(shown)
        if re.search(r"[\d.]j\b", text) and importlib.util.find_spec("torch") is not None:
            return replace(value_from_library(f"torch.tensor({shown})"), text=shorten_text(shown))
        script = parse_script(source, LENGTH)
        if len(script.statements) > 1 or script.statements[0].target is not None:
            raise NotationError("a value is one expression", span=script.statements[-1].span, hints=(FORMS,))
        return value_from_node(script.statements[0].value, shown)
    except SymgradError as error:
        source.locate(error)
        raise


def parse_entry_name(text: str) -> tuple[str, tuple[int, ...]] | None:
    """``x[0,1]`` and ``x.grad[0,1]`` as a name and a place; None for anything else."""
    match = re.fullmatch(r"\s*(\w+?)(?:\.grad)?\s*(?:\[([\d,\s]*)\])?\s*", text)
    return match and (match[1], tuple(int(part) for part in (match[2] or "").split(",") if part.strip()))


def value_from_library(text: str) -> Value:
    """``torch.tensor([1., 2.])``, ``np.linspace(0, 1, 5)``: what the library makes of it, in float64."""
    if importlib.util.find_spec("torch") is None:
        raise UnsupportedError("PyTorch is needed to read this value, and is not installed", hints=(FORMS,))
    from symgrad.reference import TextRejected, UnsupportedText, run_reference

    try:
        given = run_reference(text, {}).output
    except (TextRejected, UnsupportedText) as error:
        raise InputError(f"{shorten_text(text)} is not a value", found=(str(error),), hints=(FORMS,)) from None
    return Value.of(shorten_text(text), given)


def shorten_text(text: str) -> str:
    """A text as a message shows it."""
    return text if len(text) <= 40 else text[:39] + "…"


def value_from_file(text: str, directory: Path | str | None) -> Value:
    """``@file.npy``."""
    name = text[1:].strip()
    if not name or "\0" in name or any(0xD800 <= ord(c) < 0xE000 for c in name):
        raise InputError("@ needs the name of a file", hints=("@file.npy, @file.json",))
    array, truths = load_array(Path(directory or ".") / name, text)
    return Value(text, array.shape, lambda shape: array.copy(), truths=truths)


def value_from_node(node: SyntaxNode, text: str) -> Value:
    """The value for a syntax tree."""
    shown = shorten_text(text)
    if isinstance(node, Name):
        return value_from_call(node.name, (), {}, node, shown)
    if isinstance(node, PythonCall):
        if (word := dotted_name(node.function)) is None:
            raise not_a_value_error(node.function)
        keywords = {k.name: k.value for k in node.keywords}
        return value_from_call(DRAWN_BY.sub("", word), node.positional, keywords, node, shown)
    return place_errors(node.span, partial(Value.of, shown, nested_numbers(node)))


def nested_numbers(node: SyntaxNode) -> object:
    """Nested lists of numbers; arithmetic of numbers is worked out."""
    if isinstance(node, Items):
        return [nested_numbers(item) for item in node.items]
    if isinstance(node, Literal) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, Name) and node.name in ("nan", "inf", "NaN", "Infinity"):
        raise InputError(f"{node.name} is not a finite number", span=node.span)
    if isinstance(node, (Unary, Binary)):
        sides = (node.operand,) if isinstance(node, Unary) else (node.left, node.right)
        numbers = [nested_numbers(side) for side in sides]
        if all(is_scalar(n) for n in numbers):
            if isinstance(node, Binary):
                return place_errors(node.span, partial(combine_constants, node.sign, *numbers))
            value = numbers[0]
            return value if node.sign == "+" else place_errors(node.span, partial(combine_constants, "*", -1, value))
    raise NotationError("this is not a number", span=node.span, hints=(FORMS,))


# Made to measure ------------------------------------------------------------------------------------


def parse_nonnegative(node: SyntaxNode) -> int:
    """A non-negative integer."""
    value = nested_numbers(node)
    if not isinstance(value, int) or value < 0:
        raise InputError("this has to be an integer, 0 or more", span=node.span)
    return value


def parse_shape(nodes: Sequence[SyntaxNode], node: SyntaxNode) -> Shape:
    """Sizes written as ``2,3`` or ``(2,3)``."""
    if len(nodes) == 1 and isinstance(nodes[0], Items):
        nodes = nodes[0].items
    shape = tuple(parse_nonnegative(n) for n in nodes)
    if math.prod(shape) > MOST or len(shape) > MOST_AXES:
        error = too_large_error(shape, "this")
        error.span = node.span
        raise error
    return shape


def make_one_hot(index: Shape, shape: Shape, text: str) -> Array:
    """Zeros, and a one at ``index``."""
    fits = len(index) == len(shape) and all(i < n for i, n in zip(index, shape, strict=True))
    if not fits:
        raise ShapeError(f"{format_entry_name('out', index)} is not in {describe_shape(shape)}", found=(text,))
    array = np.zeros(shape, dtype=np.int64)
    array[index] = 1
    return array


RANDOM: dict[str, Draw] = {
    "randn": lambda generator, shape: generator.standard_normal(shape),
    "rand": lambda generator, shape: generator.random(shape),
    "random": lambda generator, shape: generator.integers(-9, 10, shape),
}
"""randn: normal numbers; rand: between 0 and 1; random: integers from −9 to 9, which are exact."""

FILLED: dict[str, Maker] = {
    "ones": lambda shape: np.ones(shape, dtype=np.int64),
    "zeros": lambda shape: np.zeros(shape, dtype=np.int64),
}
OTHERS = ("eye", "arange", "onehot")


def not_a_value_error(node: SyntaxNode) -> UnknownNameError:
    """The error for a word that makes no value."""
    return UnknownNameError("this is not a value: give the numbers alone", span=node.span, hints=(FORMS,))


def value_from_call(
    word: str, positional: Sequence[SyntaxNode], keywords: Mapping[str, SyntaxNode], node: SyntaxNode, text: str
) -> Value:
    """The value that ``word(…)`` makes."""
    if word in ("nan", "inf", "NaN", "Infinity"):
        raise InputError(f"{word} is not a finite number", span=node.span)
    if word not in (*RANDOM, *FILLED, *OTHERS):
        raise not_a_value_error(node)
    allowed = ("seed", "shape") if word in RANDOM else ("shape",)
    for keyword, value in keywords.items():
        if keyword not in allowed:
            raise UnknownNameError(f"{word} has no argument {keyword}", span=value.span, hints=(FORMS,))
    shape = parse_shape([keywords["shape"]], node) if "shape" in keywords else None
    if word in RANDOM:
        seed = parse_nonnegative(keywords["seed"]) if "seed" in keywords else None
        sized, draw = parse_shape(positional, node) if positional else shape, RANDOM[word]
        return Value(text, sized, lambda s: draw(np.random.default_rng(seed), s), draw if seed is None else None)
    if word in FILLED:
        return Value(text, parse_shape(positional, node) if positional else shape, FILLED[word])
    if word == "onehot":
        index = parse_shape(positional, node)
        if shape is not None:
            make_one_hot(index, shape, text)
        return Value(text, shape, lambda s: make_one_hot(index, s, text))
    if len(positional) > 1:
        raise NotationError(f"{word} takes one number", span=node.span, hints=(FORMS,))
    count = parse_shape(positional, node)
    if word == "eye":
        square = count * 2 or shape
        if square is not None and math.prod(square) > MOST:
            raise too_large_error(square, text)
        return Value(text, square, identity_array)
    if count and shape is not None and math.prod(shape) != count[0]:
        raise ShapeError(f"{count[0]} entries do not fill {describe_shape(shape)}", span=node.span)
    numbered = shape if shape is not None else count or None
    return Value(text, numbered, lambda shape: np.arange(math.prod(shape), dtype=np.int64).reshape(shape))


def identity_array(shape: Shape) -> Array:
    """The identity matrix."""
    if len(shape) != 2:
        raise ShapeError("eye makes a matrix", found=(f"{describe_shape(shape)} is needed",))
    return np.eye(*shape, dtype=np.int64)


LARGEST_JSON = 10**8
"""Bytes."""
FORMATS = ("@file.npy, @file.json",)


def load_array(path: Path, name: str) -> tuple[Array, bool]:
    """The array in the file at ``path``, and whether of truth values; raises `InputError` for what cannot be read."""
    readers: Mapping[str, Callable[[Path], object]] = {".npy": partial(read_npy, name=name), ".json": read_json_numbers}
    if path.suffix.lower() not in readers:
        raise InputError(f"files ending in {path.suffix or 'nothing'} are not read", hints=FORMATS)
    try:
        if not path.is_file():
            raise InputError(f"there is no file {path}", hints=FORMATS)
        given = readers[path.suffix.lower()](path)
        return exact_array(given, name), is_boolean_data(given)
    except (OSError, ValueError, EOFError, MemoryError, RecursionError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} cannot be read", found=(said[:200],)) from None


def read_npy(path: Path, name: str) -> object:
    """An array in NumPy's own format."""
    with path.open("rb") as file:
        shape, dtype = read_npy_header(file)
        if dtype.hasobject:
            raise InputError(f"{path} holds pickled Python objects, which are never unpickled")
        if math.prod(shape) > MOST:
            raise too_large_error(shape, name)
        start = file.tell()
        if path.stat().st_size - start < math.prod(shape) * dtype.itemsize:
            raise InputError(f"{path} is truncated", found=(f"its header says {'×'.join(map(str, shape))}",))
        file.seek(0)
        return np.load(file, allow_pickle=False)


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type that the file claims."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version[0]}.{version[1]} of the .npy format")
    shape, _, dtype = readers[version](file)
    return shape, dtype


def read_json_numbers(path: Path) -> object:
    """Nested lists of numbers."""
    if path.stat().st_size > LARGEST_JSON:
        raise InputError(f"{path} is too large", found=(f"{path.stat().st_size:,} bytes",))
    return json.loads(path.read_text(encoding="utf-8"))
