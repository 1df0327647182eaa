"""The lines of a forward and a backward pass as one function's parts, before anyone says in which library.

Comes in: a `Backward`. Goes out: `Parts`: statements as syntax trees, in the names of the page.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.backward import Backward, Line
from symgrad.backward.parts.code import Conditions, read_by
from symgrad.backward.shortening.merging import put
from symgrad.errors import UnsupportedError

RESERVED = frozenset({"ctx", "inputs", "output", "jax", "jnp", "special", "ValueError", "staticmethod", "tuple"})
"""What the source itself reads: no tensor is called so there."""


@dataclass(frozen=True)
class Statement:
    """``target = value``."""

    target: str
    value: ast.expr

    @property
    def reads(self) -> frozenset[str]:
        """The names that it reads."""
        return names_in(self.value)


@dataclass(frozen=True)
class Parts:
    """``forward`` computes ``outputs`` from ``inputs``; ``backward`` the ``gradients``, by inputs, from ``seeds``."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    forward: tuple[Statement, ...]
    seeds: tuple[str, ...]
    backward: tuple[Statement, ...]
    gradients: Mapping[str, str]

    def ahead(self, wanted: Collection[str], known: Collection[str]) -> tuple[Statement, ...]:
        """The forward statements that compute ``wanted`` from what is ``known``."""
        needed, kept = set(wanted) - set(known), []
        for statement in reversed(self.forward):
            if statement.target in needed and statement.target not in known:
                kept.append(statement)
                needed |= statement.reads
        return tuple(reversed(kept))

    @property
    def mentioned(self) -> frozenset[str]:
        """What the backward reads of the forward pass: inputs, outputs, and what is computed on the way."""
        own = {*self.inputs, *(statement.target for statement in self.forward)}
        return frozenset(own & frozenset().union(*(statement.reads for statement in self.backward)))


def parts_of(lines: Backward) -> Parts:
    """The parts of a backward; raises `UnsupportedError` where a line has no code."""
    page = {tensor.name: name for tensor, name in zip(lines.source.inputs, lines.inputs, strict=True)}
    page |= {line.of: line.target for line in reversed(lines.forward)}  # what an operation finds beside comes after it
    taken = {*lines.inputs, *(line.target for line in (*lines.forward, *lines.statements)), *filter(None, lines.seeds)}
    new = {name: free(name, taken) for name in sorted(taken & RESERVED)}

    def called(name: str) -> str:
        return new.get(name, name)

    def statement(line: Line) -> Statement:
        if line.code is None:
            hints = (line.own,) if line.own else ()
            raise UnsupportedError(f"this cannot be exported: {line.name} has no code", found=hints)
        tree = Conditions(lines.inputs).visit(ast.parse(line.code, mode="eval")).body
        return Statement(called(line.target), put(tree, {old: ast.Name(name) for old, name in new.items()}))

    ends = tuple(dict.fromkeys(page[end] for end in lines.seeds))
    read = read_by(line.code for line in (*lines.forward, *lines.statements) if line.code is not None)
    forward = [statement(line) for line in lines.forward if line.target in read or line.target in ends]
    return without_aliases(
        Parts(
            tuple(map(called, lines.inputs)),
            tuple(map(called, ends)),
            tuple(forward),
            tuple(called(seed) for seed in lines.seeds.values() if seed is not None),
            tuple(statement(line) for line in lines.statements),
            {called(page[name]): called(line.target) for name, line in lines.gradients.items()},
        )
    )


def without_aliases(parts: Parts) -> Parts:
    """The same with one name for one tensor: after ``out = h`` a Function's result *is* what it saves on the way."""
    same: dict[str, ast.expr] = {}
    forward = []
    for statement in parts.forward:
        value = put(statement.value, same)
        if isinstance(value, ast.Name):
            same[statement.target] = value
        else:
            forward.append(Statement(statement.target, value))
    names = {old: value.id for old, value in same.items() if isinstance(value, ast.Name)}
    outputs = tuple(names.get(name, name) for name in parts.outputs)
    backward = tuple(Statement(s.target, put(s.value, same)) for s in parts.backward)
    return replace(parts, forward=tuple(forward), outputs=outputs, backward=backward)


def free(name: str, taken: Collection[str]) -> str:
    """``name`` with underscores after it, until nothing is called so."""
    while name in taken or name in RESERVED:
        name += "_"
    return name


def names_in(value: ast.expr) -> frozenset[str]:
    """The names of tensors that an expression reads, functions left out."""
    called = {id(node.func) for node in ast.walk(value) if isinstance(node, ast.Call)}
    return frozenset(n.id for n in ast.walk(value) if isinstance(n, ast.Name) and id(n) not in called)


def read_of(statements: Iterable[Statement]) -> frozenset[str]:
    """The names that some statements read."""
    return frozenset().union(*(statement.reads for statement in statements))


def listed(names: Sequence[str]) -> str:
    """Several targets, or one: ``x, a``, ``(x,)``."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)
