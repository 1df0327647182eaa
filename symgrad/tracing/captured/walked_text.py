"""Texts that must be run to be understood: they are run once, at given sizes, and recorded.

Comes in: a text with a ``def``, an ``if``, a ``while`` and the like, which `symgrad.language` does not read, and an
array for each input. Goes out: a `ParsedProgram` of the path that the text took with these values. The interpreter is
that of `symgrad.reference`, so no text is passed to Python.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from math import prod
from typing import Any

import numpy as np
import sympy as sp
import torch

from symgrad.backward.page_names import rename_results
from symgrad.errors import SourceText, bug
from symgrad.language import ParsedProgram
from symgrad.language.inference import complex_notes, describe_numbers, rank_assignments
from symgrad.language.literals import RANDOM
from symgrad.numeric import Array, forward
from symgrad.numeric.exact import as_float
from symgrad.ops.lookup import role_entry
from symgrad.oracles.typed_text import nearly_equal, to_pairs
from symgrad.program import Apply, Number, Own, Role, Tensor, free_name
from symgrad.reference import (
    ReferenceResult,
    TextRejected,
    UnsupportedText,
    is_backward_call,
    parse_statements,
    run_reference,
)
from symgrad.reference.bounds import ALONE, LIBRARIES, is_allowed_word
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.function import capture_function
from symgrad.tracing.lift import relabel_program
from symgrad.tracing.record.trace import tensors_in

ONCE = "symgrad ran these lines once, with the sizes and values shown here; others may take another way"
RANKS, LENGTH, MOST = ((2, 0), (1, 1), (0, 2), (3, 3)), 3, 64
"""The numbers of axes to try for an input of unknown shape, the size of each, and the largest number of tries."""
DRAWN = "NumPy's generator draws the random numbers of these lines, with the seeds 0, 1, 2, …"
SHORT = 8
"""The largest number of entries that are written out."""
SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Nodes with their own scope of names."""
WHOLE = ("int", "long", "index", "indices")
"""Words in Python's and torch's errors about a float in place of an integer."""


def free_names(text: str, named: Collection[str] = ()) -> tuple[str, ...]:
    r"""Return the inputs of a text, in order: names that it reads and does not assign, and those of ``named`` it reads.

    >>> free_names("f = lambda x: x * a\nf(x).sum()")
    ('x', 'a')
    """
    try:
        whole = ast.unparse(ast.Module(parse_statements(text), []))
        top, tree = symtable.symtable(whole, "<text>", "exec"), ast.parse(whole)
    except (UnsupportedText, SyntaxError, RecursionError):  # `return` outside of a function
        return tuple(named)
    made = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    made = made.difference(read_before_assigned(tree))
    made = {*made, *ALONE, *LIBRARIES, *vars(builtins)}.difference(named)
    read, tables = set[str](), [top]
    while tables:
        table = tables.pop()
        here = (s for s in table.get_symbols() if s.is_referenced() and (table is top or s.is_global()))
        read |= {symbol.get_name() for symbol in here}
        tables += table.get_children()
    nodes = [*ast.walk(tree)]
    made |= {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    words = [node for node in nodes if isinstance(node, ast.Name) and node.id in read - made]
    words.sort(key=lambda node: (node.lineno, node.col_offset))
    return tuple(dict.fromkeys(n.id for n in words if n.id in named or not is_allowed_word(n.id)))


def read_before_assigned(tree: ast.Module) -> set[str]:
    """Return the names that a text reads before it assigns them, as x in ``x = x + 1``, outside functions."""
    found, assigned = set[str](), set[str]()

    def visit(node: ast.AST) -> None:
        parts = [*ast.iter_child_nodes(node)]
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name not in assigned:
                found.add(name)
            case ast.Name(id=name):
                assigned.add(name)
            case ast.alias(name=name, asname=alias):
                assigned.add(alias or name.partition(".")[0])
            case _ if isinstance(node, SCOPES):
                assigned.add(getattr(node, "name", ""))
                parts = []
            case ast.Assign(targets=targets, value=value):
                parts = [value, *targets]
            case ast.AugAssign(target=ast.Name(id=name)) if name not in assigned:
                found.add(name)
            case ast.For(target=target, iter=over, body=body):
                parts = [over, target, *body]
        for part in parts:
            visit(part)

    visit(tree)
    return found


@dataclass(frozen=True)
class WalkedText:
    """A text to run: the values of its ``numbers``, its boolean and complex inputs, and names for its output.

    ``leaves`` are the inputs that require a gradient: all, unless given.

    Its methods raise `UnsupportedText` if the interpreter does not support a line, and `TextRejected` with the message
    of Python or torch if one of them rejects a line.
    """

    source: SourceText
    numbers: Mapping[str, Number]
    truths: frozenset[str]
    pairs: frozenset[str]
    wishes: tuple[str, ...]
    leaves: frozenset[str] | None = None

    def choose_sizes(self, wanted: Mapping[str, Sequence[int | str] | None]) -> dict[str, tuple[int, ...]]:
        """Return a shape for each input: as ``wanted``, else the first number of equal axes that torch accepts."""
        known = {
            n: tuple(s if isinstance(s, int) else LENGTH for s in own) for n, own in wanted.items() if own is not None
        }
        refusal: TextRejected | None = None
        for ranks in islice(rank_assignments({name: RANKS for name in wanted if name not in known}), MOST):
            sizes = {**known, **{name: (LENGTH,) * rank for name, rank in ranks.items()}}
            try:
                if ranks:
                    found = self.run(self.tensors(sizes, {}), draw=draw_numbers)
                    if found.seed is not None and found.seed.shape != found.output.shape:
                        raise TextRejected("the argument of backward has another shape than the output")
                return sizes
            except TextRejected as error:
                refusal = refusal or error
        raise refusal or bug("no number of axes was tried")

    def run(self, inputs: Mapping[str, torch.Tensor], draws: Sequence[Array] = (), **options: Any) -> ReferenceResult:
        """Run the text with some inputs."""
        return run_reference(self.source.text, {**inputs, **self.numbers}, draws, **options)

    def read(self, sizes: Mapping[str, tuple[int, ...]], known: Mapping[str, Array]) -> ParsedProgram:
        """Record the text with the ``known`` inputs, and small numbers for the others."""
        given = self.tensors(sizes, known)
        try:
            return self.walked(given)
        except TextRejected as error:
            whole = {n: torch.as_tensor(np.array(a)) for n, a in known.items() if np.asarray(a).dtype.kind in "iu"}
            if not whole or not any(word in str(error).lower() for word in WHOLE):
                raise
            return self.walked({**given, **whole})

    def tensors(self, sizes: Mapping[str, tuple[int, ...]], known: Mapping[str, Array]) -> dict[str, torch.Tensor]:
        """Return the inputs of the text as tensors."""
        found = {}
        for name, shape in sizes.items():
            small = np.linspace(0.25, 1.5, prod(shape)).reshape(shape)
            array = as_float(known.get(name, small))
            tensor = torch.tensor(array, dtype=torch.bool if name in self.truths else torch.float64)
            found[name] = torch.view_as_complex(tensor) if name in self.pairs else tensor
        return found

    def walked(self, given: Mapping[str, torch.Tensor]) -> ParsedProgram:
        """Record one run, and compare its value with torch's, since a text may write unseen by autograd."""
        moving = {n for n, t in given.items() if t.is_floating_point() or t.is_complex()}
        moving &= moving if self.leaves is None else self.leaves
        leaves = {n: t.clone().requires_grad_(n in moving) for n, t in given.items()}
        draws: list[Array] = []

        def draw(name: str, arguments: Sequence[Any], shape: tuple[int, ...]) -> Array:
            draws.append(draw_numbers(name, arguments, shape, len(draws)))
            return draws[-1]

        result = self.run(leaves, draw=draw)
        output = result.output
        if not isinstance(output, torch.Tensor):
            raise UnsupportedText("it gives no tensor")
        captured, seed = self.capture(given, draws)
        if captured.complex_inputs - self.pairs or any(map(captured.boxed, captured.wanted)):
            raise UnsupportedText("a step of it has no derivation here")
        program = relabel_program(captured.single(), captured.labels)
        read, size = {tensor.name for tensor in program.inputs}, sp.Integer
        unread = (Tensor(n, tuple(map(size, to_pairs(t).shape))) for n, t in given.items() if n not in read)
        program = replace(program, inputs=(*program.inputs, *unread))
        if program.output in given:
            raise UnsupportedText("it computes nothing")
        if not any(tensor.name in given or tensor.name in captured.wanted for tensor in program.inputs):
            raise UnsupportedText("its output depends on no tensor that requires a gradient")
        if not program.steps:  # made under no_grad
            out = Tensor(free_name(("out",), {tensor.name for tensor in program.inputs}), program.out.shape)
            last = Apply(role_entry(Role.HANDS_ON).operation, (program.output,), (), out)
            program = replace(program, steps=(last,), output=out.name)
        made = {t.name: np.asarray(captured.arrays[t.name]) for t in program.inputs if t.name not in given}
        inputs = {**{name: to_pairs(tensor).numpy() for name, tensor in given.items()}, **made}
        found = forward(program, {tensor.name: as_float(inputs[tensor.name]) for tensor in program.inputs})
        if not nearly_equal(found[program.output], to_pairs(output.detach()).numpy()):
            raise UnsupportedText("a tensor is changed where autograd does not see it")
        called = free_name(self.wishes, {tensor.name for tensor in program.tensors()} - {program.output})
        program = rename_results(program, {program.output: called})
        own = {n: self.spelled(a, captured.labels.get(n, n)) for n, a in made.items() if n not in captured.wanted}
        return ParsedProgram(
            self.source,
            replace(program, made=own),
            made=made,
            remarks=(*describe_numbers(self.numbers), *[DRAWN][: len(draws)], ONCE),
            conventions=complex_notes(self.pairs & {*given}),
            seed=None if seed is None else (self.seed_code(), to_pairs(seed.detach()).numpy()),
            numbers=self.numbers,
            draws=tuple(draws),
            rounded=result.kept,
        )

    def capture(self, given: Mapping[str, torch.Tensor], draws: Sequence[Array]) -> tuple[Capture, Any]:
        """Capture the run with the text's names, and return the seed that it passes to backward."""
        named, seeds = list[tuple[str, Any]](), list[Any]()

        def walk(**inputs: Any) -> Any:
            found = self.run(inputs, draws, assigned=lambda name, value: named.append((name, value)))
            seeds.append(found.seed)
            return found.output

        captured = capture_function(walk, (), dict(given), lambda: [(n, t) for n, v in named for t in tensors_in(v)])
        return captured, seeds[-1]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """The syntax of the text."""
        return tuple(ast.walk(ast.Module(parse_statements(self.source.text), [])))

    def seed_code(self) -> str:
        """Return the source text of the argument of backward."""
        (call,) = (node for node in self.nodes if isinstance(node, ast.Call) and is_backward_call(node))
        return ast.unparse([*call.args, *(word.value for word in call.keywords if word.arg == "gradient")][0])

    def spelled(self, array: Array, name: str) -> Own:
        """Return the code of a tensor that the text creates: its assignment, or its entries if they are few."""
        for node in self.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
                return Own(ast.unparse(node.value))
        return Own(f"torch.tensor({array.tolist()})" if array.size <= SHORT else name)


def draw_numbers(name: str, arguments: Sequence[Any], shape: tuple[int, ...], seed: int = 0) -> Array:
    """Draw the random numbers of a torch function from NumPy's generator; ``rand_like`` is drawn as ``rand``."""
    generator, limits = np.random.default_rng(seed), [n for n in arguments if isinstance(n, int)]
    match name.removesuffix("_like"):
        case "randint":
            low, high = (0, *limits)[-2:] if len(limits) < 2 else limits[:2]
            return np.asarray(generator.integers(low, high, shape))
        case "randperm":
            return np.asarray(generator.permutation(shape[0]))
        case word:
            return RANDOM[word](generator, shape)
