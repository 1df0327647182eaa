"""The shapes that source is written for: a check of them in one statement, and what is read of shapes alone.

Comes in: the shapes of a program's inputs, sizes as symbols where any number will do. Goes out: the condition under
which they do not fit, and the words for it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence

from symgrad.closed_form.texts.pieces import NoForm
from symgrad.closed_form.texts.size_text import least_sizes, size_text
from symgrad.exporting.parts import Statement
from symgrad.program import Tensor
from symgrad.shapes import Size


def misfit(inputs: Sequence[Tensor], required: Sequence[Size], rank: str) -> tuple[str, str]:
    """A condition, true where shapes do not fit, and what they have to be: ``x.dim() != 2``, "x: m×n".

    ``rank`` is how a library says how many axes a tensor has.
    """
    wrong = []
    for number, tensor in enumerate(inputs):
        sizes = [known_size(size, inputs[:number], tensor, axis) for axis, size in enumerate(tensor.shape)]
        if None in sizes or any(f"{tensor.name}." in str(text) for text in sizes):
            wrong.append(f"{rank.format(tensor.name)} != {len(sizes)}")
        own = [text or f"{tensor.name}.shape[{axis}]" for axis, text in enumerate(sizes)]
        if set(sizes) != {None}:
            wrong.append(f"{tensor.name}.shape != ({', '.join(own)}{',' * (len(own) == 1)})")
    needs = [in_text(size, inputs) for size in required]
    wrong += [f"{text} < 0" for text in needs if text is not None]
    said = [f"{t.name}: {'×'.join(str(s).replace(' ', '') for s in t.shape) or 'one number'}" for t in inputs]
    said += least_sizes(required)
    count = ".numel()" if rank.endswith("()") else ".size"
    return " or ".join(wrong).replace(".numel()", count), ", ".join(said)


def one_shape(names: Sequence[str]) -> tuple[str, str]:
    """The same, where all have one shape, which may be any."""
    first, *others = names
    wrong = " or ".join(f"{name}.shape != {first}.shape" for name in others)
    return wrong, f"{', '.join(names)} in one shape"


def known_size(size: Size, before: Sequence[Tensor], tensor: Tensor, axis: int) -> str | None:
    """What an axis has to be as long as, by the tensors and the axes ``before`` it; None where anything will do."""
    found = in_text(size, [*before, Tensor(tensor.name, tensor.shape[:axis])])
    return None if found is not None and f"{tensor.name}.numel" in found else found


def in_text(size: Size, tensors: Sequence[Tensor]) -> str | None:
    """A size as Python over shapes; None where no tensor has it."""
    try:
        return size_text(size, tensors)[0]
    except NoForm:
        return None


def only_shapes(statements: Iterable[Statement]) -> frozenset[str]:
    """The names of which nothing but the shape, or the number of entries, is read."""
    whole: set[str] = set()
    shaped: set[str] = set()
    for statement in statements:
        inside = {id(n.value) for n in ast.walk(statement.value) if isinstance(n, ast.Attribute) and is_shape(n)}
        for node in ast.walk(statement.value):
            if isinstance(node, ast.Name):
                (shaped if id(node) in inside else whole).add(node.id)
    return frozenset(shaped - whole)


def is_shape(node: ast.Attribute) -> bool:
    """``x.shape`` or ``x.numel``."""
    return node.attr in ("shape", "numel") and isinstance(node.value, ast.Name)


def without_shapes(statement: Statement, names: Collection[str], way: str) -> Statement:
    """``x.shape`` as what it was kept as, ``way``; ``x.numel()`` too."""

    class Kept(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
            self.generic_visit(node)
            if not (is_shape(node) and isinstance(node.value, ast.Name) and node.value.id in names):
                return node
            kept = ast.parse(way.format(node.value.id), mode="eval").body
            return kept if node.attr == "shape" else ast.Attribute(kept, "numel")

    return Statement(statement.target, Kept().visit(ast.parse(ast.unparse(statement.value), mode="eval")).body)
