"""The input names of a text, the likely ranks of inputs, and the used names of a program.

A name that is read before it is assigned is an input, unless it names a function or a module. Its use suggests its
rank: a factor of ``@`` is a matrix, a subscript of einsum has a letter per axis, and any other input is a vector.

`UsedNames` gives steps and inputs the first free name of ``h``, ``h_2``, ``h_3``, …. A loop asks for the same name in
every iteration, so the last number that was given out is remembered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from symgrad.entries.spec import Op
from symgrad.errors import Setting, Span, UnknownNameError, close_names
from symgrad.language.binding import TOLD
from symgrad.language.dtypes import TYPED, UNREAD
from symgrad.language.syntax_tree import (
    Attribute,
    EquationNode,
    Items,
    Keyword,
    Literal,
    PythonCall,
    Script,
    Subscript,
    dotted_name,
)
from symgrad.notation.tree import Binary, Dots, Name, SyntaxNode, walk
from symgrad.ops.calls.call_texts import SIGNS
from symgrad.ops.calls.registry import find_compound
from symgrad.ops.lookup import ATTRIBUTES, find

MODULES = {
    "torch": "the module torch",
    "F": "torch.nn.functional",
    "nn": "torch.nn",
    "np": "the module numpy",
    "numpy": "the module numpy",
    "math": "the module math",
    "linalg": "torch.linalg",
    "jnp": "the module jax.numpy",
    "jax": "the module jax",
}
LIBRARIES = ("tf", "keras", "einops", "scipy", "scp", "cp", "mx", "nnx", "paddle", "flax")
"""What other libraries are called where something of theirs is read; a tensor may be called so, too."""
PROPERTIES = (*ATTRIBUTES, "real", "imag")
NUMBERS = ("inf", "nan", "π")
"""Names that are numbers wherever nothing is called so: ``from math import inf`` stands above what is pasted."""
RANKS = (1, 2, 0, 3, 4)
"""What a tensor may be when nothing is known, most likely first."""


@dataclass(frozen=True)
class TextNames:
    """The inputs of a text in order of appearance, where each first stands, and the names that it assigns."""

    inputs: dict[str, Span]
    assigned: frozenset[str]


def find_names(script: Script, given: Collection[str] = ()) -> TextNames:
    """The names in ``script``, some of them ``given``; raises `UnknownNameError` for one that can be no tensor."""
    numbers = {*NUMBERS} - {*given}
    inputs: dict[str, Span] = {}
    assigned: set[str] = set()
    for statement in script.statements:
        for name in (name for node in statement.read for name in iterate_tensor_names(node)):
            if not any(name.name in known for known in (assigned, inputs, numbers)):
                check_not_module(name.name, name.span, "it cannot be a tensor", "another name")
                if name.name in LIBRARIES and name.name not in given:
                    check_library(name, statement.value)
                inputs[name.name] = name.span
        for target in statement.names:
            start = statement.span[0]
            check_not_module(target, (start, start + len(target)), "nothing can be assigned to it")
            assigned.add(target)
    return TextNames(inputs, frozenset(assigned))


def iterate_tensor_names(node: SyntaxNode) -> Iterator[Name]:
    """The names in ``node`` that stand for values, not for functions or modules."""
    skipped: set[int] = set()
    for part in walk(node):
        if id(part) in skipped:
            continue
        if isinstance(part, PythonCall) and isinstance(part.function, Name):
            skipped.add(id(part.function))
        elif isinstance(part, Keyword) and part.name in TOLD:
            skipped |= {id(inner) for inner in walk(part.value)}
        elif isinstance(part, PythonCall) and isinstance(part.function, Attribute) and part.function.name in TYPED:
            skipped |= {id(given) for given in part.positional if isinstance(given, Name) and given.name in UNREAD}
        elif isinstance(part, Attribute) and is_module_path(part):
            owner: SyntaxNode = part
            while isinstance(owner, Attribute):
                owner = owner.owner
                skipped.add(id(owner))
        elif isinstance(part, Name):
            yield part


def call_spelling(call: PythonCall) -> tuple[str, SyntaxNode | None] | None:
    """What a call is spelled like, and for a method what it is called on; None where what is called is neither."""
    function = call.function
    path = dotted_name(function)
    if path is not None and (isinstance(function, Name) or is_module_path(function)):
        return path, None
    return (f"Tensor.{function.name}", function.owner) if isinstance(function, Attribute) else None


def is_module_path(node: SyntaxNode) -> bool:
    """Whether ``node`` is something like ``torch.nn.functional.softmax``."""
    path = dotted_name(node)
    return path is not None and "." in path and path.partition(".")[0] in MODULES


def check_not_module(word: str, span: Span, told: str, *hints: str) -> None:
    """Refuse the name of a module."""
    if word in MODULES:
        raise UnknownNameError(f"{word} means {MODULES[word]}, so {told}", span=span, hints=hints)


def check_library(name: Name, value: SyntaxNode) -> None:
    """Refuse what is called of another library, with a tensor: ``tf.square(x)``."""
    calls = [part for part in walk(value) if isinstance(part, PythonCall) and part.positional]
    called = [part for part in calls if (dotted_name(part.function) or "").startswith(f"{name.name}.")]
    if any(isinstance(inner, Name) for part in called for inner in walk(part.positional[0])):
        told = Setting("let", name.name, sentence="a tensor of that name: {}")
        hints = ("the same function of torch or NumPy", told)
        raise UnknownNameError(f"{name.name} is not a library that symgrad reads", span=name.span, hints=hints)


def unknown_tensor_error(name: str, inputs: Collection[str]) -> UnknownNameError:
    """The error for a shape or value of a tensor that the text does not mention."""
    near = close_names(name, sorted(inputs), cutoff=0.5)
    known = ", ".join(inputs) or "none"
    return UnknownNameError(
        f"the expression has no input {name}",
        found=(f"its inputs: {known}",),
        hints=(f"did you mean {near[0]}?",) if near else (),
    )


Candidates = tuple[tuple[int, int], ...]
"""(rank, how unlikely it is), most likely first."""


def candidate_ranks(script: Script, names: TextNames) -> dict[str, Candidates]:
    """For each input the ranks to try, by the operations it is a direct operand of."""
    uses: dict[str, list[Candidates]] = {name: [] for name in names.inputs}
    for statement in script.statements:
        for node in (inner for part in statement.read for inner in walk(part)):
            for operand, candidates in rank_hints(node):
                if isinstance(operand, Name) and operand.name in uses:
                    uses[operand.name].append(candidates)
    plain = tuple((rank, 2 * position) for position, rank in enumerate(RANKS))
    return {name: common_ranks(hints) if hints else plain for name, hints in uses.items()}


def common_ranks(hints: list[Candidates]) -> Candidates:
    """The ranks that every use admits, in the order of the first; the first use's where there are none."""
    common = tuple((r, cost) for r, cost in hints[0] if all(r in dict(hint) for hint in hints[1:]))
    return common or hints[0]


def rank_hints(node: SyntaxNode) -> Iterator[tuple[SyntaxNode, Candidates]]:
    """Operands that stand directly in ``node``, with the ranks they may have there."""
    if isinstance(node, Binary):
        yield from table_ranks(find(SIGNS.get(node.sign, "")), (node.left, node.right))
    elif isinstance(node, Attribute) and node.name in PROPERTIES:
        yield from table_ranks(find(f"Tensor.{node.name}"), (node.owner,))
    elif isinstance(node, EquationNode):
        for name, (axes, more) in zip(node.tensors, node.ranks, strict=True):
            yield name, ((axes + 1, 0), (axes, 1), (axes + 2, 2)) if more else ((axes, 0),)
    elif isinstance(node, Subscript):
        reads = sum(not isinstance(i, Dots) and i != Literal(None) for i in node.items)
        yield node.owner, tuple((max(reads, 1) + more, 2 * more) for more in range(4))
    elif isinstance(node, PythonCall) and (spelling := call_spelling(node)) is not None:
        spelled, owner = spelling
        op, operands = find(spelled), node.positional if owner is None else (owner, *node.positional)
        if op is None:
            yield from matrix_ranks(spelled, operands)
        elif op.subscripts and operands:
            yield from einsum_ranks(operands)
        else:
            yield from table_ranks(op, operands)


def matrix_ranks(spelled: str, operands: tuple[SyntaxNode, ...]) -> Iterator[tuple[SyntaxNode, Candidates]]:
    """A matrix first, then matrices or vectors: what compounds of linear algebra take; in a list, matrices."""
    compound = find_compound(spelled)
    for position, operand in enumerate(operands if compound is not None and compound.matrices else ()):
        if isinstance(operand, Items):
            yield from ((item, ((2, 0), (1, 9))) for item in operand.items)
        else:
            yield operand, ((2, 0), (3, 2)) if position == 0 else ((2, 0), (1, 1), (3, 2))


def table_ranks(op: Op | None, operands: tuple[SyntaxNode, ...]) -> Iterator[tuple[SyntaxNode, Candidates]]:
    """What the table says about the ranks of an operation's operands.

    Of two factors the second one loses axes first, so that a seed of rank 1 makes ``A @ x`` a matrix times a
    vector, and the first one gains them first, so that one of rank 3 makes ``x @ w`` a batch times a matrix.
    """
    if op is None or op.variadic:
        return
    for position, (name, operand) in enumerate(zip(op.operands, operands, strict=False)):
        ranks = op.ranks.get(name, ())
        if not ranks:
            continue
        later = [(rank < ranks[0]) == (position == 0) if len(op.operands) == 2 else False for rank in ranks]
        yield operand, tuple((r, 2 * n + (n > 0 and later[n])) for n, r in enumerate(ranks))


def einsum_ranks(arguments: tuple[SyntaxNode, ...]) -> Iterator[tuple[SyntaxNode, Candidates]]:
    """One axis per letter of einsum's subscripts, and one for ``...``, where nothing says how many."""
    equation, *operands = arguments
    if isinstance(equation, Literal) and isinstance(equation.value, str):
        terms = equation.value.replace(" ", "").partition("->")[0].split(",")
        for term, operand in zip(terms, operands, strict=False):
            letters = len(term.replace("...", ""))
            yield operand, tuple((letters + more, n) for n, more in enumerate((1, 0, 2, 3) if "..." in term else (0,)))


class UsedNames(set[str]):
    """A set of names.

    >>> names = UsedNames(["h", "h_2"])
    >>> names.add(names.first_free("h")), sorted(names)
    (None, ['h', 'h_2', 'h_3'])
    >>> names.free(["h_2"]), names.first_free("h")
    (None, 'h_2')
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(names)
        self.counted: dict[str, int] = {}

    def first_free(self, name: str, kept: Collection[str] = ()) -> str:
        """``name`` if it is free, else ``name_2``, ``name_3``, …, which may be none of those ``kept`` either."""
        count = self.counted.get(name, 1)
        free = name if count == 1 else f"{name}_{count}"
        while free in self or (count > 1 and free in kept):
            count += 1
            free = f"{name}_{count}"
        self.counted[name] = count
        return free

    def free(self, names: Iterable[str]) -> None:
        """Nothing has these names any more."""
        for name in names:
            self.discard(name)
            stem, _, number = name.rpartition("_")
            self.counted.pop(name, None)
            if number.isdecimal() and stem in self.counted:
                self.counted[stem] = min(self.counted[stem], max(2, int(number)))
