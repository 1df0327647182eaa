"""The entry of an operation that a text states: everything about it follows from its index equation.

Comes in: `Stated`, the text of the equation. Goes out: an `Op` like those of the table, with the shape rule, the
broadcasting and the definition that the text says. There is neither a NumPy nor a torch column: who wants numbers
evaluates the equation.
"""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from symgrad.entries.operands import integers_between
from symgrad.entries.readings import equation_functions
from symgrad.entries.spec import TABLE, At, Data, HeldTensor, Op, Rules, View
from symgrad.errors import ShapeError, bug
from symgrad.indexing.symbols import Expr
from symgrad.notation.checks import find_checked_ranges
from symgrad.notation.linear import bind_letters, slots_shape, split_leading_indices
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.ranges import LetterRanges as Found
from symgrad.notation.read_write import read_statement
from symgrad.notation.scope import EquationNames, classify_names, inline_definitions
from symgrad.notation.tree import Absolute, Access, Condition, Floor, IndexEquation, Name, ScalarCall, walk
from symgrad.program import Stated
from symgrad.shapes import Shape, Size, Sizes

Ranges = tuple[tuple[str, Size], ...]


@dataclass(frozen=True)
class StatedReading:
    """A statement that is spelled out, and what its names are."""

    whole: IndexEquation
    names: EquationNames

    def aligned(self, sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
        """The axes of ``…`` are broadcast; the others are as the letters say."""
        read = list(zip(self.names.tensors.items(), shapes, strict=True))
        for (name, pattern), shape in read:
            if not pattern.fits(shape):
                more = " or more" if pattern.more else ""
                told = f"the equation reads {name} with {pattern.axes} indices{more}, and it has {len(shape)}"
                entries = (n for n in walk(self.whole) if isinstance(n, (Access, Name)) and n.name == name)
                hints = (
                    () if pattern.axes or pattern.more else (f"an entry is {name}[i], and the left says for which i",)
                )
                raise ShapeError(told, span=next(entries).span, hints=hints)
        common = sizes.broadcast_shapes([pattern.lead(shape) for (_, pattern), shape in read if pattern.more])
        return tuple(pattern.under(common, shape) for (_, pattern), shape in read)

    def found(self, sizes: Sizes, shapes: tuple[Shape, ...]) -> Found:
        """How far each letter runs, and which entries decided where no axis simply says it."""
        return find_checked_ranges(
            self.whole, dict(zip(self.names.tensors, self.aligned(sizes, shapes), strict=True)), sizes
        )

    def resolved(self, sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> dict[str, Hashable]:
        """How far each letter runs, as an option of the step."""
        return {"ranges": tuple((letter, sizes.find(n)) for letter, n in self.found(sizes, shapes).found.items())}

    def shape(self, sizes: Sizes, shapes: tuple[Shape, ...], *, ranges: Ranges) -> Shape:
        """The sizes of the letters on the left, in front of them those of ``…``."""
        leads = (pattern.lead(s) for s, pattern in zip(shapes, self.names.tensors.values(), strict=True))
        return slots_shape(self.whole.slots, max(leads, key=len, default=()), dict(ranges))

    def index(
        self, at: At, views: Sequence[View | None], held: Mapping[str, HeldTensor], options: Mapping[str, Hashable]
    ) -> Expr:
        """The right-hand side at ``at``."""
        given: Any = options["ranges"]
        ranges = dict(given)
        lead, rest = split_leading_indices(self.whole.slots, at)
        letters = bind_letters(self.whole, self.whole.named, rest, ranges)
        tensors = {name: view for name, view in zip(self.names.tensors, views, strict=True) if view is not None}
        return EquationMeaning(tensors, letters, ranges, equation_functions(), lead).of(self.whole.right)


@lru_cache(maxsize=1024)
def equation_of(text: str) -> StatedReading:
    """The equation that ``text`` states; raises `SymgradError` where it means nothing."""
    statement = inline_definitions(read_statement(text))
    return StatedReading(statement, classify_names(statement, equation_functions()))


@lru_cache(maxsize=1024)
def entry_stated(op: Stated) -> Op:
    """The entry of a stated equation."""
    equation = equation_of(op.text)
    names = equation.names

    def unspoken(*args: Any, **options: Any) -> Any:
        raise bug(f"{op.text} is evaluated, and has no column in the table")

    return Op(
        name=str(op),
        summary="stated by the text",
        definition=op.text,
        index=equation.index,
        signature=inspect.Signature(
            [
                inspect.Parameter(
                    name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Data if name in names.data else View
                )
                for name in names.tensors
            ]
        ),
        rules=Rules(shape=equation.shape, align=equation.aligned, resolve=equation.resolved),
        numpy=unspoken,
        torch=unspoken,
        domain=dict.fromkeys(names.data, integers_between(0, 1)),
        smooth=not any(isinstance(node, (Absolute, Floor, Condition)) or kinked(node) for node in walk(equation.whole)),
        letters="".join(letter.name for letter in equation.whole.letters if len(letter.name) == 1) or "ijkl",
        stated=op,
    )


def kinked(node: object) -> bool:
    """Whether a function that is called has kinks."""
    return isinstance(node, ScalarCall) and (entry := TABLE.get(node.function)) is not None and not entry.smooth
