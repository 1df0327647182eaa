"""The meaning of the names in an equation: indices, tensors, numbers; and the equation without definitions.

Comes in: an `IndexEquation`. `inline_definitions` replaces the names that ``where`` defines and gives each sum a letter
of its own, so that no name means two things later on. `classify_names` says which names are tensors and with how many
axes, which are numbers, and which tensors are read only inside indices. Both refuse, with its place, what has no
meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.errors import NotationError, UnknownNameError
from symgrad.notation import tree
from symgrad.notation.checks import NameChecker, index_has_no_entries_error
from symgrad.notation.meaning import CONSTANTS, EquationFunction
from symgrad.shapes import Shape

MOST_NODES = 5_000
"""An equation with its definitions put in may have this many nodes."""


@dataclass(frozen=True)
class AccessPattern:
    """How a tensor is read: by this many axes, ``…`` being more behind the ``front`` ones; ``flat``: by its numbers."""

    axes: int
    more: bool
    flat: bool = False
    front: int = 0

    def fits(self, shape: Shape) -> bool:
        """Whether a tensor of this shape can be read so."""
        return self.flat or len(shape) == self.axes or (self.more and len(shape) > self.axes)

    def lead(self, shape: Shape) -> Shape:
        """The axes that ``…`` stands for."""
        return shape[self.front : len(shape) - (self.axes - self.front)] if self.more else ()

    def under(self, lead: Shape, shape: Shape) -> Shape:
        """``shape`` with these axes in the place of ``…``."""
        return (*shape[: self.front], *lead, *shape[len(shape) - (self.axes - self.front) :]) if self.more else shape


@dataclass(frozen=True)
class EquationNames:
    """What the names of an equation are, in order of appearance.

    ``tensors`` are read entry by entry (a number without indices has no axes; π and e are no names of anybody's),
    ``data`` are those among them that are read inside indices: nothing flows back to them. ``counts`` are whole numbers
    inside indices and bounds.
    """

    tensors: Mapping[str, AccessPattern]
    data: frozenset[str]
    counts: tuple[str, ...]


def inline_definitions(statement: tree.IndexEquation) -> tree.IndexEquation:
    """``statement`` without ``where``, each of its sums over letters of its own."""
    return DefinitionInliner(statement).whole()


class DefinitionInliner:
    """Puts definitions in their places."""

    def __init__(self, statement: tree.IndexEquation) -> None:
        self.statement = statement
        self.definitions: dict[str, tree.Definition] = {}
        for definition in statement.definitions:
            if definition.name in self.definitions or definition.name == statement.name:
                raise NotationError(f"{definition.name} is defined twice", span=definition.span)
            self.definitions[definition.name] = definition
        self.own = [letter.name for letter in statement.letters]
        for definition in statement.definitions:
            if definition.name in self.own:
                told = f"{definition.name} is an index of {statement.name}, so it cannot be defined after where"
                raise NotationError(told, span=definition.span, hints=("another name after where",))
        self.taken = {
            n.name for n in tree.walk(statement) if isinstance(n, (tree.Name, tree.Letter, tree.Access, tree.FlatEntry))
        }
        self.bounded = {n.name for n in tree.walk(statement) if isinstance(n, tree.Letter) and n.bound is not None}
        self.used: set[str] = set()
        self.count = 0

    def whole(self) -> tree.IndexEquation:
        """The statement, spelled out."""
        for place, letter in enumerate(self.statement.letters):
            if letter.name in self.own[:place]:
                raise NotationError(
                    f"{letter.name} occurs twice on the left: each entry is defined once", span=letter.span,
                    hints=(f"[{letter.name} = k] on the right for what is not zero on a diagonal only",),
                )  # fmt: skip
        inside = dict.fromkeys(self.own, None)
        letters = {name: tree.Name(name) for name in inside}
        right = self.spelled(self.statement.right, letters, ())
        slots = tuple(self.slot(slot) for slot in self.statement.slots)
        return replace(self.statement, slots=slots, right=right, definitions=())

    def slot(self, slot: tree.Slot) -> tree.Slot:
        """A letter on the left, what it is bounded by spelled out."""
        if isinstance(slot, tree.RowIndex):
            letters = (letter for letter in slot.places if isinstance(letter, tree.Letter))
            return replace(slot, places=tuple(map(self.slot, letters)))
        if isinstance(slot, tree.Dots) or slot.bound is None:
            return slot
        return replace(slot, bound=self.spelled(slot.bound, {}, ()))

    def spelled(
        self, node: tree.SyntaxNode, letters: Mapping[str, tree.SyntaxNode], within: tuple[str, ...]
    ) -> tree.SyntaxNode:
        """``node`` with what the letters stand for; ``within`` are the definitions that it is a part of."""
        self.count += 1
        if self.count > MOST_NODES:
            raise NotationError("the equation is too long once its definitions are substituted", span=node.span)
        if isinstance(node, tree.Name):
            if node.name in letters:
                return replace(letters[node.name], span=node.span)
            return self.defined(node, (), letters, within) if node.name in self.definitions else node
        if isinstance(node, tree.Access):
            if node.name in letters:
                raise index_has_no_entries_error(node)
            if node.name in self.definitions:
                return self.defined(node, node.slots, letters, within)
        if isinstance(node, tree.BigOperator):
            return self.big(node, letters, within)
        if isinstance(node, tree.PaddedEntry):
            free = [isinstance(slot, tree.Name) and slot.name not in self.bounded for slot in node.entry.slots]
            return guard_entry(self.spelled(node.entry, letters, within), free)
        found = tree.rebuild_node(node, lambda part: self.spelled(part, letters, within))
        for place in found.places if isinstance(found, tree.RowIndex) else ():
            if not isinstance(place, tree.Name):
                raise NotationError("only letters can stand between these commas", span=place.span, hints=("(i,j)",))
        return found

    def big(
        self, node: tree.BigOperator, letters: Mapping[str, tree.SyntaxNode], within: tuple[str, ...]
    ) -> tree.BigOperator:
        """A sum, over letters that nothing else has."""
        inner, named = dict(letters), []
        for letter in node.letters:
            if letter.name in inner:
                raise NotationError(
                    f"{letter.name} is already an index outside this sum", span=letter.span,
                    hints=("another letter under the sum",),
                )  # fmt: skip
            bound = None if letter.bound is None else self.spelled(letter.bound, letters, within)
            named.append(tree.Letter(self.free(letter.name), bound, span=letter.span))
        for letter, own in zip(node.letters, named, strict=True):
            inner[letter.name] = tree.Name(own.name)
        return tree.BigOperator(node.sign, tuple(named), self.spelled(node.body, inner, within), span=node.span)

    def free(self, wish: str) -> str:
        """``wish``, or the letter with the next number that nothing has."""
        name, count = wish, 1
        while name in self.used or (count > 1 and name in self.taken):
            count += 1
            name = f"{wish[0]}{count}"
        self.used.add(name)
        return name

    def defined(
        self,
        node: tree.SyntaxNode,
        slots: tuple[tree.SyntaxNode, ...],
        letters: Mapping[str, tree.SyntaxNode],
        within: tuple[str, ...],
    ) -> tree.SyntaxNode:
        """What a definition says, its letters replaced by what stands in the brackets."""
        assert isinstance(node, (tree.Name, tree.Access))
        definition = self.definitions[node.name]
        if node.name in within:
            raise NotationError(f"{node.name} is defined by itself", span=node.span)
        if len(slots) != len(definition.letters):
            told = f"{definition.name}[{','.join(definition.letters)}]" if definition.letters else definition.name
            raise NotationError(f"where defines {told}", span=node.span, hints=(f"write {told} here",))
        at = {name: self.spelled(slot, letters, within) for name, slot in zip(definition.letters, slots, strict=True)}
        outer = {name: value for name, value in letters.items() if name in self.own}
        return self.spelled(definition.right, {**outer, **at}, (*within, node.name))


def guard_entry(entry: tree.SyntaxNode, free: Sequence[bool]) -> tree.SyntaxNode:
    """An entry beside the conditions that its place is inside; what runs over its axis alone is ``free`` of one."""
    if not isinstance(entry, tree.Access):
        raise NotationError("a hat is for entries of a tensor", span=entry.span)
    found: tree.SyntaxNode = entry
    for place, slot in enumerate(entry.slots):
        if free[place] or isinstance(slot, (tree.Dots, tree.RowIndex)):
            continue
        behind = any(isinstance(other, tree.Dots) for other in entry.slots[:place])
        size = tree.AxisSize(entry.name, place - len(entry.slots) if behind else place, span=entry.span)
        chains = tree.RelationChain((slot, tree.Number("0")), ("≥",)), tree.RelationChain((slot, size), ("<",))
        found = tree.Binary("·", found, tree.Condition(chains, span=entry.span), span=entry.span)
    return found


def classify_names(statement: tree.IndexEquation, functions: Mapping[str, EquationFunction]) -> EquationNames:
    """What the names of a statement are that is spelled out; raises `SymgradError` for what means nothing."""
    check = NameChecker(statement, functions)
    tensors: dict[str, AccessPattern] = {}
    data: set[str] = set()
    counts: dict[str, None] = {}
    bare: dict[str, tree.Name] = {}
    for node, indexing in walk_with_index_flag(statement):
        if isinstance(node, tree.Access):
            check.access(node)
            more = sum(isinstance(slot, tree.Dots) for slot in node.slots)
            if more > 1:
                raise NotationError("… occurs once among the indices", span=node.span)
            front = next((n for n, slot in enumerate(node.slots) if isinstance(slot, tree.Dots)), 0)
            found = AccessPattern(len(node.slots) - more, bool(more), front=front)
            before = tensors.setdefault(node.name, found)
            if before.flat:
                tensors[node.name] = found
            elif before != found:
                differs = f"has {before.axes} indices in one place and {found.axes} here"
                if (before.axes, before.more) == (found.axes, found.more):
                    differs = "has … at another place among its indices here"
                raise NotationError(f"{node.name} {differs}", span=node.span)
            if indexing:
                data.add(node.name)
        elif isinstance(node, tree.FlatEntry):
            check.access(node)
            tensors.setdefault(node.name, AccessPattern(0, False, flat=True))
        elif isinstance(node, tree.RowIndex):
            for place in node.places:
                check.letter(place)
        elif isinstance(node, tree.Delta):
            for side in (node.left, node.right):
                if isinstance(side, tree.Name) and len(side.name) == 1:
                    check.letter(side)
        elif isinstance(node, tree.Name) and node.name not in check.letters:
            check.bare_name(node)
            if indexing:
                counts[node.name] = None
            else:
                bare.setdefault(node.name, node)
        elif isinstance(node, tree.ScalarCall):
            check.call(node)
    if not any(isinstance(slot, tree.Dots) for slot in statement.slots):
        for node in tree.walk(statement.right):
            if isinstance(node, tree.Dots):
                hints = (f"{statement.name}[…, …]", "a letter for each of these axes, and Σ over it")
                raise NotationError("… is not among the indices of the result", span=node.span, hints=hints)
    for name, node in bare.items():
        if name in tensors:
            raise NotationError(f"{name} is a tensor: give indices", span=node.span, hints=(f"{name}[i]",))
    order = {
        node.name: None
        for node in tree.walk(statement.right)
        if isinstance(node, (tree.Access, tree.FlatEntry, tree.Name))
    }
    numbers = {name: AccessPattern(0, False) for name in bare if name not in counts and name not in CONSTANTS}
    known = {**tensors, **numbers}
    check_size_axes(statement, known)
    check.scope(statement)
    return EquationNames({name: known[name] for name in order if name in known}, frozenset(data), tuple(counts))


def walk_with_index_flag(node: tree.SyntaxNode, indexing: bool = False) -> Iterator[tuple[tree.SyntaxNode, bool]]:
    """Every node, and whether it stands inside an index or says how far one runs."""
    yield node, indexing
    inner = indexing or isinstance(node, (tree.Access, tree.FlatEntry, tree.Letter))
    for part in node.parts:
        yield from walk_with_index_flag(part, inner)


def check_size_axes(statement: tree.IndexEquation, tensors: Mapping[str, AccessPattern]) -> None:
    """Refuse ``size(x, 2)`` of what has no such axis."""
    for node in tree.walk(statement):
        if isinstance(node, tree.AxisSize):
            pattern = tensors.get(node.name)
            if pattern is None:
                raise UnknownNameError(f"the equation reads no tensor {node.name}", span=node.span)
            axes = pattern.axes
            if node.axis is not None and not (-axes <= node.axis < (axes if not pattern.more else 0)):
                raise NotationError(
                    f"{node.name} has no axis {node.axis} here", span=node.span,
                    hints=("axes are counted from 0, or from the end: −1",),
                )  # fmt: skip
