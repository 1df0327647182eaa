"""The letters of indices and entries on a page.

Indices of a formula are SymPy dummies whose own name is only a hint. Comes in: a program. Goes out: `Names`,
which gives every index one letter, the same letter for the same axis wherever it can: outputs i, j, k, l as
the operation hints at them (i, k for a matrix product, so that j is left for the sum), the entry that is
differentiated by p, q, r, s, and a summed index the letter of the axis it runs along. No index is called
like a tensor or a size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.errors import bug
from symgrad.indexing import Equation, Index
from symgrad.indexing.definitions import NamedEquation
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access, name_of
from symgrad.numeric import Array
from symgrad.program import SEEDS, Program, free_name

OUTER = "ijkl"
INNER = "pqrstw"
SPARE = "jklmnabcdihrst"
LOSSES = ("L", "loss", "total")
JACOBIANS = ("J", "Jac")


@dataclass(frozen=True)
class Letters:
    """What a page calls the seed v, the output, the number L = Σ v∘out and the Jacobian J."""

    seed: str = SEEDS[0]
    output: str = "out"
    loss: str = LOSSES[0]
    jacobian: str = JACOBIANS[0]


def letters_of(program: Program) -> Letters:
    """v, out, L and J, or others where tensors are called so."""
    loss, jacobian = (free_name(words, program.names | program.spoken) for words in (LOSSES, JACOBIANS))
    return Letters(program.seed, program.output, loss, jacobian)


@dataclass(frozen=True)
class Names:
    """The letters in scope, and how tensors and their entries are written.

    ``axes`` are the indices of the left-hand side, which decide the order of factors; ``along`` the letters
    that go with the axes of a tensor; ``taken`` what no index may be called; ``order`` the tensors by
    appearance; ``compact`` the tensors whose numbered entries are written ``x01``; ``numbers`` the tensors
    whose numbered entries are written as numbers; ``called`` other names for tensors; ``seed`` is what the seed is
    called, ``back`` what the names of gradients on their way back begin with. Derivatives are written in the names of
    ``definitions``.
    """

    letters: Mapping[Index, str] = field(default_factory=dict)
    axes: tuple[Index, ...] = ()
    along: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    order: Mapping[str, int] = field(default_factory=dict)
    compact: frozenset[str] = frozenset()
    numbers: Mapping[str, Array] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    seed: str = SEEDS[0]
    back: str = f"{SEEDS[0]}_"
    definitions: tuple[NamedEquation, ...] = ()

    def letter(self, index: Index) -> str:
        """The letter of an index in scope."""
        if index not in self.letters:
            raise bug(f"the index {index} has no letter here")
        return self.letters[index]

    def entry(self, axes: Sequence[Index], name: str) -> Names:
        """In scope: ``axes`` as the indices of an output or intermediate called ``name``."""
        letters = self.along.get(name, ())
        return self._with(axes, [letters[n] if n < len(letters) else a.name for n, a in enumerate(axes)])

    def inner(self, axes: Sequence[Index]) -> Names:
        """In scope: ``axes`` as the entry that is differentiated by, p, q, r, s."""
        free = [letter for letter in INNER if letter not in self.taken]
        return self._with(axes, [free[n] if n < len(free) else "p" for n in range(len(axes))])

    def bound(self, indices: Sequence[Index], body: Expr) -> Names:
        """In scope: ``indices``, summed over in ``body``."""
        return self._with(indices, [self._axis_letter(k, body) for k in indices], left=False)

    def written(self, numbers: Mapping[str, Array]) -> Names:
        """The entries of these tensors written as numbers."""
        return replace(self, numbers={**self.numbers, **numbers})

    def ordered(self, names: Sequence[str]) -> Names:
        """Factors in the order of ``names`` where their indices do not decide."""
        return replace(self, order={name: n for n, name in enumerate(dict.fromkeys([*names, *self.order]))})

    def carries_weights(self, name: str) -> bool:
        """Whether a tensor is the seed or a gradient on its way back."""
        return name == self.seed or name.startswith(self.back)

    def name(self, tensor: str) -> str:
        """What a tensor is called on the page; ``n·out``, found in the forward pass, is no product of two."""
        return self.called.get(tensor, tensor.replace("·", "_"))

    def _with(self, axes: Sequence[Index], wanted: Sequence[str], left: bool = True) -> Names:
        letters = dict(self.letters)
        for index, wish in zip(axes, wanted, strict=True):
            letters[index] = self._free(wish, set(letters.values()) | self.taken)
        return replace(self, letters=letters, axes=(*self.axes, *axes) if left else self.axes)

    @staticmethod
    def _free(wish: str, used: set[str] | frozenset[str]) -> str:
        """``wish`` if nothing is called so, else the first spare letter."""
        candidates = (wish, *SPARE, *(f"{wish[0]}{n}" for n in range(1, 100)))
        return str(next(letter for letter in candidates if letter not in used))

    def _axis_letter(self, index: Index, body: Expr) -> str:
        """The letter of the axis that a summed index runs along: the weights' first, then any tensor's."""
        found = [
            (not self.carries_weights(name_of(a)), n, letters[place])
            for n, a in enumerate(accesses(body))
            for letters in [self.along.get(name_of(a).removeprefix(self.back), ())]
            for place, i in enumerate(indices_of(a))
            if i == index and place < len(letters)
        ]
        used = set(self.letters.values()) | self.taken
        free = [letter for *_, letter in sorted(found) if letter not in used]
        return free[0] if free else index.name


def choose_names(program: Program, definitions: Sequence[NamedEquation] = ()) -> Names:
    """The names on a page about ``program``, nothing in scope yet; no index is called as one of ``definitions``."""
    tensors = [tensor.name for tensor in program.tensors()]
    equations = {step.result.name: local_jacobian(step, program).equation for step in program.steps}
    called = letters_of(program)
    names = Names(
        taken=program.names | {called.seed, called.loss, called.jacobian} | {own.name for own in definitions},
        order={name: n for n, name in enumerate([program.seed, *tensors])},
        compact=_compact(program),
        called=dict(_held(list(equations.values()), {*tensors, *_told_sizes(program)})),
        seed=program.seed,
        back=program.back,
        definitions=tuple(definitions),
    )
    along: dict[str, tuple[str, ...]] = {}
    for name, equation in equations.items():
        here = replace(names, along=along).entry(equation.axes, name)
        letters = _letters_in(equation.right, here)
        along.setdefault(name, tuple(here.letter(i) for i in equation.axes))
        for entry in accesses(equation.right):
            plain = tuple(letters.get(i, "") for i in indices_of(entry))
            if all(plain):
                along.setdefault(name_of(entry), plain)
    along[program.seed] = along.get(program.output, tuple(OUTER))
    return replace(names, along=along)


def loose_names(expression: Expr, axes: Sequence[Index]) -> Names:
    """Names for a formula that stands alone: p, q, r, s for ``axes``."""
    tensors = list(dict.fromkeys(name_of(entry) for entry in accesses(expression)))
    sizes = {str(s) for s in expression.free_symbols if not isinstance(s, Index)}
    return Names(taken=frozenset({*tensors, *sizes}), order={name: n for n, name in enumerate(tensors)}).inner(axes)


def visible(expression: Expr) -> Iterator[Any]:
    """Every node that can be seen on the page: the bounds of sums cannot."""
    yield expression
    if isinstance(expression, (sp.Sum, sp.Product)):
        yield from visible(expression.function)
    elif is_access(expression):
        for index in indices_of(expression):
            yield from visible(index)
    else:
        for argument in expression.args:
            yield from visible(argument)


def _letters_in(expression: Expr, names: Names) -> dict[Expr, str]:
    """The letter of every index of ``expression``, the summed ones included."""
    found: dict[Expr, str] = dict(names.letters)
    if hasattr(expression, "limits"):
        names = names.bound([limit[0] for limit in expression.limits], expression.function)
        found |= names.letters
        return found | _letters_in(expression.function, names)
    for part in expression.args:
        found |= _letters_in(part, names)
    return found


def _compact(program: Program) -> frozenset[str]:
    """Tensors with a name of one letter and sizes of one digit, so that ``x01`` can be read."""
    known = {s for s, value in program.sizes.items() if value <= 10}
    shapes = {tensor.name: tensor.shape for tensor in program.tensors()} | {program.seed: program.out.shape}
    return frozenset(
        name
        for name, shape in shapes.items()
        if len(name) == 1 and all(s in known or (s.is_Integer and s <= 10) for s in shape)
    )


def _told_sizes(program: Program) -> Iterator[str]:
    """The letters of sizes that a page for every size has: x m×n."""
    sizes = (size for tensor in program.tensors() for size in tensor.shape) if not program.sizes else ()
    return (str(symbol) for size in sizes for symbol in size.free_symbols)


def _held(equations: Sequence[Equation], tensors: Collection[str]) -> Iterator[tuple[str, str]]:
    """Integers found in the forward pass: ``n·out`` is called n where that is unique, else n_out."""
    held = [name_of(entry) for e in equations for entry in accesses(e.right) if "·" in name_of(entry)]
    taken = {*tensors, *(str(n) for e in equations for n in visible(e.right) if n.is_Symbol)}
    for name in dict.fromkeys(held):
        base, _, owner = name.partition("·")
        unique = sum(other.startswith(f"{base}·") for other in set(held)) == 1
        yield name, base if unique and base not in taken else f"{base}_{owner}"
