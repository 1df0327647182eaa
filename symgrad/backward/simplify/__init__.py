"""The named rules by which lines are merged and simplified, each exact, and only where the result is shorter to read.

Comes in: cotangents as Python expressions, in the order of their computation, each with what it belongs to. Goes out:
fewer of them. Every rule works on the syntax tree, so that brackets are where Python needs them.

    alias     v_t = v_h: what reads v_t reads v_h
    number    v_s = -1: what reads v_s reads −1, and as many ones where a number has no shape: torch expands, turns and
              multiplies no number as a matrix
    inline    an unnamed cotangent that is read once stands where it is read, if that line stays short
    no margin   pad(a, (0, x.shape[2] % 2)) is a, where x is even there
    no expand   (a / s).expand(x.shape) * x is a * x / s, and x + a.expand(x.shape) is x + a
    lowest terms   2 * s * x / s / 4 is x / 2, where s is one number
    signs       -(-a / 4) + -b is a / 4 - b
    side by side   pad(a, (0, n)) + pad(b, (m, 0)) is cat([a, b], -1), where the two lie next to each other
    in turn        what goes back to x[::2] and x[1::2] is stack([a, b], -1).flatten(-2)
    one margin     pad(a, (0, n)) + pad(b, (0, n)) is pad(a + b, (0, n))
    one condition  a * (t > 0) + b * (t > 0) is (a + b) * (t > 0)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from symgrad.backward.page_names import OpaqueCall, write_calls
from symgrad.backward.simplify import broadcasting, concat
from symgrad.backward.simplify.broadcasting import Shapes, make_ones
from symgrad.backward.simplify.factors import drop_double_transposes, order_signs
from symgrad.language.python_text import write_python
from symgrad.language.syntax_tree import Literal, Unary
from symgrad.language.trees import add_terms, count_mentions, fill_ones, is_tensor_free, replace_names
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.shapes import Shape


def only_reckons(node: SyntaxNode, name: str) -> bool:
    """Whether a name stands in arithmetic only, where a number may be put for it: 2 has no ``.expand``.

    >>> from symgrad.language.python_text import read_python
    >>> texts = ("-v_s / 3", "(v_s * t)[None] + v_s", "v_s.expand(t.shape)", "(v_s / 3)[:, None]", "v_s @ w")
    >>> [only_reckons(read_python(text), "v_s") for text in texts]
    [True, True, False, False, False]
    """

    def reckons(part: SyntaxNode) -> bool:
        number = count_mentions(part, name) and is_tensor_free(replace_names(part, {name: Literal(1)}))
        return only_reckons(part, name) and (arithmetic or not number)

    arithmetic = isinstance(node, Unary) or (isinstance(node, Binary) and node.sign in broadcasting.ELEMENTWISE)
    return all(map(reckons, node.parts))


LONGEST = 64
"""Characters of a line that another was merged into, a number in a name counted as one: turns of a loop read alike."""
NUMBER = re.compile(r"(?<=[a-z_])\d+")
"""One in a name."""
SHORT = 12
"""Characters of a number that stands wherever it is read."""


@dataclass
class Summand:
    """What reaches a tensor ``through`` others, whose cotangents it reads; None is a part without code.

    ``asked`` stands in the place of code that nobody here wrote: ``hook(v_h)``.
    """

    through: tuple[str, ...]
    value: SyntaxNode | None
    asked: OpaqueCall | None = None


@dataclass
class Draft:
    """A line in the making: its terms are added up; ``shape`` is that of its tensor.

    ``shapes`` are those of other tensors. ``page`` is what its tensor is called; "" where it belongs to none.
    ``filled``: whether a line does more with it than reckon, so that a number or a condition does not do.
    """

    of: str
    terms: list[Summand]
    shape: Shape | None = None
    shapes: Shapes = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    page: str = ""
    filled: bool = False

    def without_margins(self, shapes: Shapes) -> None:
        """Leave out what is 0 around a tensor at these sizes."""
        for term in self.terms:
            found = None if term.value is None else concat.drop_empty_margins(term.value, shapes)
            if found is not None and term.value is not None and found != term.value:
                term.value = found
                self.rules.append("no margin")

    def without_expands(self, shapes: Shapes) -> None:
        """Leave out what arithmetic broadcasts by itself, where another term or factor has the whole shape."""
        broadcast = broadcasting.Broadcasting(shapes)
        for term in self.terms:
            term.value = None if term.value is None else broadcasting.drop_expands(term.value, shapes)
        values = [term.value for term in self.terms]
        for n, term in enumerate(self.terms):
            others = [value for value in (*values[:n], *values[n + 1 :]) if value is not None]
            bare = None if term.value is None else broadcast.bare(term.value, *others)
            if bare is not term.value:
                term.value = values[n] = bare
                self.rules.append("no expand")

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors whose cotangents are read, directly or through what was merged into this line."""
        return tuple(dict.fromkeys(name for term in self.terms for name in term.through))

    @property
    def told(self) -> str | None:
        """The sum of the terms in words, where some have no code and all can be said."""
        questions = [term.asked for term in self.terms if term.asked is not None]
        known = [write_python(term.value) for term in self.terms if term.value is not None]
        return " + ".join([*write_calls(questions), *known]) if len(questions) + len(known) == len(self.terms) else None

    @property
    def value(self) -> SyntaxNode | None:
        """The sum of the terms, shortened; None where one has no code."""
        values = [term.value for term in self.terms if term.value is not None]
        if not values or len(values) < len(self.terms):
            return None
        found = concat.merge_alike(values)
        if self.shape is not None:
            found = concat.merge_interleaved(found, self.shape)
            found = concat.merge_adjacent(found, self.shape, concat.TensorShapes(self.shapes))
        return order_signs(add_terms(found))


def merge_drafts(
    drafts: list[Draft], cotangents: Mapping[str, str], fixed: Collection[str], shapes: Shapes
) -> list[Draft]:
    """``drafts`` in order, merged by the rules; ``cotangents`` are the names by tensor, ``fixed`` stay lines.

    ``shapes`` are those of what has a name on the page.
    """
    readers: dict[str, list[Draft]] = {}
    for draft in drafts:
        for name in draft.reads:
            readers.setdefault(name, []).append(draft)
    kept = []
    for draft in drafts:
        value, name = draft.value, cotangents[draft.of]
        near = readers.get(draft.of, [])
        if value is not None and draft.page and is_tensor_free(value):
            kept += put_numbers_in(draft, value, near, cotangents, fixed, shapes)
            continue
        rule = None if draft.of in fixed or value is None else choose_rule(value, name, draft, near, shapes)
        if rule is None or value is None:
            kept.append(draft)
            continue
        for reader in near:
            reader.terms = [inline_cotangent(term, draft, name, value, shapes) for term in reader.terms]
            reader.rules += [*draft.rules, rule]
    mark_tensors_needed(kept, cotangents)
    return kept


def mark_tensors_needed(drafts: list[Draft], cotangents: Mapping[str, str]) -> None:
    """Mark what a line turns, pads or multiplies as a matrix, directly or through lines that reckon with it."""
    known = {draft.of: draft for draft in drafts}
    for reader in reversed(drafts):
        for of in reader.reads:
            draft = known.get(of)
            if draft is not None and draft is not reader:
                draft.filled |= reader.filled or any(needs_tensor(t, draft, cotangents[of]) for t in reader.terms)


def put_numbers_in(
    draft: Draft,
    number: SyntaxNode,
    readers: list[Draft],
    cotangents: Mapping[str, str],
    fixed: Collection[str],
    shapes: Shapes,
) -> list[Draft]:
    """Let what reads a cotangent read its number; the line itself where it still has readers, or has to be."""
    name = cotangents[draft.of]
    scalar = shapes.get(name) == ()
    everywhere = (scalar or draft.of not in fixed) and can_put_number(number, name, draft, readers)
    for reader in readers:
        read = [put_number(term, draft, name, number, cotangents[reader.of], shapes) for term in reader.terms]
        in_numbers = all(term.value is not None and is_tensor_free(term.value) for term in read)
        if not (everywhere or in_numbers or scalar):
            continue
        if not (everywhere or in_numbers):
            read = [read[n] if needs_tensor(term, draft, name) else term for n, term in enumerate(reader.terms)]
        reader.rules += [*draft.rules, "number"] if read != reader.terms else []
        reader.terms = read
    return [] if everywhere and draft.of not in fixed else [draft]


def can_put_number(number: SyntaxNode, name: str, draft: Draft, readers: list[Draft]) -> bool:
    """Whether what reads a cotangent reads its number, so that it needs no line."""
    values = [term.value for reader in readers for term in reader.terms if draft.of in term.through]
    count = sum(count_mentions(value, name) for value in values if value is not None)
    return bool(values) and None not in values and (count == 1 or len(write_python(number)) <= SHORT)


def needs_tensor(term: Summand, draft: Draft, name: str) -> bool:
    """Whether a term does more than reckon with a cotangent."""
    return draft.of in term.through and term.value is not None and not only_reckons(term.value, name)


def put_number(term: Summand, draft: Draft, name: str, number: SyntaxNode, own: str, shapes: Shapes) -> Summand:
    """A term of the cotangent ``own`` with a number in the place of a cotangent's name."""
    if draft.of not in term.through or term.value is None:
        return term
    ones = fill_ones(number, make_ones(draft.page))
    whole = broadcasting.cancel_fractions(replace_names(term.value, {name: ones}), shapes)
    bare = broadcasting.Broadcasting(shapes).bare(whole, Name(own))
    value = bare if is_tensor_free(bare) else whole  # a row is not read as if it were filled
    return Summand(merge_through(term, draft), value)


def inline_cotangent(term: Summand, draft: Draft, name: str, value: SyntaxNode, shapes: Shapes) -> Summand:
    """A term with a cotangent's value in the place of its name."""
    if draft.of not in term.through or term.value is None:
        return term
    whole = drop_double_transposes(replace_names(term.value, {name: value}))
    return Summand(merge_through(term, draft), broadcasting.cancel_fractions(whole, shapes))


def merge_through(term: Summand, draft: Draft) -> tuple[str, ...]:
    """What a term reads that has a cotangent's value in the place of its name: what that read, too."""
    return (*(read for read in term.through if read != draft.of), *draft.reads)


def choose_rule(value: SyntaxNode, name: str, draft: Draft, readers: list[Draft], shapes: Shapes) -> str | None:
    """The rule by which a line goes into those that read it."""
    terms = [term for reader in readers for term in reader.terms if draft.of in term.through]
    if not terms or any(term.value is None for term in terms):
        return None
    if isinstance(value, Name):
        return "alias"
    if len(readers[0].terms) > LONGEST / len("a + "):  # each trial would add them all up
        return None
    if sum(count_mentions(term.value, name) for term in terms if term.value is not None) != 1:
        return None
    terms = [inline_cotangent(term, draft, name, value, shapes) for term in readers[0].terms]
    trial = Draft("", terms, readers[0].shape, readers[0].shapes).value
    return "inline" if trial is not None and len(NUMBER.sub("0", write_python(trial))) <= LONGEST else None
