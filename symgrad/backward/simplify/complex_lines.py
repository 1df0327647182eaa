"""Lines of complex tensors as they are written of complex numbers, not of their pairs (re, im).

    z_grad = view_as_real(2 * view_as_complex(v) * view_as_complex(z).conj())    →    z.grad = 2 * v * z.conj()

Comes in: the lines of a backward, which run on pairs, and which tensors are complex. Goes out: the same lines with
other texts. One that needs the axis of pairs says so: view_as_complex(stack([v, w], -1).contiguous()).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache

from symgrad.backward.code import MODULES, shorten_expression
from symgrad.backward.line_data import Backward, Line
from symgrad.backward.simplify.broadcasting import AS_COMPLEX, AS_PAIRS, is_zero
from symgrad.backward.simplify.concat import PAD
from symgrad.closed_form.source_code import SourceWriter, write_complex_step
from symgrad.language.python_text import COLON, NEW_AXIS, call, is_comparison, method, write_python
from symgrad.language.syntax_tree import Attribute, Items, Keyword, Literal, PythonCall, Slice, Subscript, Unary
from symgrad.language.trees import called_word, is_tensor_free, owner_name, rewrite_tree
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.ops import entry_named, find, operations
from symgrad.ops.calls.complex_rules import REAL as GIVES_REAL
from symgrad.program import Apply

OF_HALVES, HALVES = "torch.complex", ("real", "imag")
"""What makes a complex tensor of two real ones, and what the two are called."""
CONJUGATE = "conj_physical"
"""What torch's forward computes, where a person writes ``z.conj()``."""
UNSPOKEN = ("contiguous", "clone", "resolve_conj")
"""What torch asks of a tensor before it is seen otherwise, and nobody writes."""
REAL, COMPLEX, PAIRS = range(3)
"""What an expression gives: real numbers, complex ones, or pairs that stand for complex ones."""
Spoken = tuple[SyntaxNode, int]


@cache
def entrywise_calls() -> frozenset[str]:
    """The calls that take each complex number to another one."""
    entries = [op for op in operations() if op.traits.complex_pairs == {"x", "out"}]
    return frozenset(word for op in entries for word in (*op.spellings, f"torch.{op.name.removeprefix('complex_')}"))


class ComplexRewriter:
    """Expressions in complex words; ``names`` are the tensors of pairs so far, ``ranks`` how many axes tensors have."""

    def __init__(self, names: Collection[str], ranks: Mapping[str, int]) -> None:
        self.names, self.ranks = set(names), ranks

    def of(self, node: SyntaxNode) -> Spoken:
        """An expression without its pairs, and what it gives."""
        if isinstance(node, Name):
            return node, PAIRS if node.name in self.names else REAL
        if isinstance(node, Literal):
            return node, REAL
        if isinstance(node, Unary):
            inner, kind = self.of(node.operand)
            return Unary(node.sign, inner), kind
        if isinstance(node, Binary) and not is_comparison(node):
            return self.both(node)
        if isinstance(node, PythonCall):
            return self.call(node)
        if isinstance(node, Attribute):
            inner, kind = self.plain(node.owner)
            return Attribute(inner, node.name), complex_kind(node.name, node.name, kind)
        if isinstance(node, Subscript):
            return self.part(node)
        return self.untouched(node), REAL

    def line(self, tree: SyntaxNode, pairs: bool | None) -> tuple[SyntaxNode, bool]:
        """The right side of a line that makes ``pairs`` or does not, of a definition either, and which it makes."""
        value, kind = self.of(tree)
        if pairs in (None, kind == PAIRS):
            return value, kind == PAIRS
        return (call(AS_COMPLEX, method(value, "contiguous")) if pairs else call(AS_PAIRS, value)), pairs

    def as_pairs(self, node: SyntaxNode) -> SyntaxNode:
        """A complex tensor as pairs, but where it is wanted as complex numbers."""
        match node:
            case Name(name) if name in self.names:
                return call(AS_PAIRS, node)
            case PythonCall(Name(word), [PythonCall(Name(inner), [part], [])], []) if word == AS_COMPLEX:
                return part if inner == AS_PAIRS else node
        return node

    def untouched(self, node: SyntaxNode) -> SyntaxNode:
        """What has nothing to do with complex numbers."""
        return rewrite_tree(node, self.as_pairs)

    def plain(self, node: SyntaxNode) -> Spoken:
        """What a function is applied to: numbers, or a real tensor of pairs."""
        inner, kind = self.of(node)
        return (call(AS_PAIRS, inner), REAL) if kind == PAIRS else (inner, kind)

    def both(self, node: Binary) -> Spoken:
        """Two operands; pairs are added, and multiplied by numbers and by what has their axis put in."""
        (left, a), (right, b) = self.of(node.left), self.of(node.right)
        if PAIRS not in (a, b):
            return Binary(node.sign, left, right), max(a, b)
        if node.sign in ("+", "-") and a == b:
            return add_halves(node.sign, left, right), PAIRS
        if a != b and node.sign in ("*", "/") and not (b == PAIRS and node.sign == "/"):
            factors = [part if kind == PAIRS else find_real_factor(part) for part, kind in ((left, a), (right, b))]
            if None not in factors:
                return Binary(node.sign, *filter(None, factors)), PAIRS
        return Binary(node.sign, self.plain(node.left)[0], self.plain(node.right)[0]), REAL

    def call(self, node: PythonCall) -> Spoken:
        """A function or a method."""
        if isinstance(node.function, Name) and node.function.name in (AS_COMPLEX, AS_PAIRS):
            inner, kind = self.of(node.positional[0])
            if node.function.name == AS_PAIRS:
                return inner, PAIRS
            return inner if kind == PAIRS else self.untouched(node), COMPLEX
        if write_python(node.function) == OF_HALVES:
            return self.of_halves(*node.positional)
        if (padded := self.padded(node)) is not None:
            return padded, PAIRS
        if (meant := drop_conversion(node)) is not None:
            return self.of(meant)
        if is_zero(node):
            return node, self.of(node.positional[0])[1]
        given = [self.plain(part) for part in node.positional]
        kinds, function = [kind for _, kind in given], node.function
        word, spelling = called_word(function), write_python(function)
        if isinstance(function, Attribute) and owner_name(function.owner) not in MODULES:
            owner, kind = self.plain(function.owner)
            function, kinds, spelling = Attribute(owner, word), [*kinds, kind], f"Tensor.{word}"
        if word == CONJUGATE:
            return method(given[0][0], "conj"), kinds[0]
        keywords = tuple(Keyword(k.name, self.untouched(k.value)) for k in node.keywords)
        found = PythonCall(function, tuple(part for part, _ in given), keywords)
        return found, complex_kind(word, spelling, max(kinds, default=REAL))

    def padded(self, node: PythonCall) -> SyntaxNode | None:
        """``a + 0j``, of ``pad(a[:, None], (0, 1))``; pairs with zeros along their other axes; None of other calls."""
        match node:
            case PythonCall(Name(word), [value, Items((first, last, *others))], []) if word == PAD:
                inner, kind = self.of(value)
                margins = write_python(first), write_python(last)
                if kind == PAIRS and margins == ("0", "0"):
                    return call(PAD, inner, Items(tuple(others))) if others else inner
                half = find_real_factor(inner) if kind == REAL and not others else None
                if half is not None and margins in (("0", "1"), ("1", "0")):
                    return real_to_complex(half) if margins[1] == "1" else multiply_by_i(half)
        return None

    def of_halves(self, real: SyntaxNode, imag: SyntaxNode) -> Spoken:
        """torch.complex(a, zeros_like(a)) → a + 0j, torch.complex(zeros_like(a), a) → 1j * a"""
        real, imag = self.untouched(real), self.untouched(imag)
        if is_zero(imag):
            return real_to_complex(real), COMPLEX
        return multiply_by_i(imag) if is_zero(real) else Binary("+", real, multiply_by_i(imag)), COMPLEX

    def part(self, node: Subscript) -> Spoken:
        """Entries along axes that are not that of pairs."""
        inner, kind = self.of(node.owner)
        items = node.items
        if kind == PAIRS:
            rank = self.rank(inner)
            half = find_half(items, rank or 0)
            if half is not None:
                return Attribute(inner, half), REAL
            counted = [item for item in items if item != NEW_AXIS]
            if rank is None or len(counted) >= rank or not all(map(is_forward_index, counted)):
                inner, kind = call(AS_PAIRS, inner), REAL
        return Subscript(inner, tuple(map(self.untouched, items))), kind

    def rank(self, node: SyntaxNode) -> int | None:
        """How many axes pairs have; None where that is not plain."""
        if isinstance(node, Name):
            return self.ranks.get(node.name)
        if (
            isinstance(node, PythonCall)
            and len(node.positional) == 1
            and write_python(node.function) in entrywise_calls()
        ):
            return self.rank(node.positional[0])
        if isinstance(node, PythonCall) and isinstance(node.function, Attribute) and not node.positional:
            return self.rank(node.function.owner) if node.function.name == "conj" else None
        if isinstance(node, Binary) and node.sign != "@" and not is_comparison(node):
            found = [self.rank(side) for side in (node.left, node.right) if not is_tensor_free(side)]
            return None if None in found else max(map(int, filter(None, found)), default=None)
        return None


def drop_conversion(node: PythonCall) -> SyntaxNode | None:
    """``t > 0`` of ``(t > 0).to(t)``, and z of ``z.clone()``: what the page says without; None for other calls."""
    function = node.function
    if not isinstance(function, Attribute):
        return None
    cast = function.name == "to" and is_comparison(function.owner) and [type(a) for a in node.positional] == [Name]
    return function.owner if cast or function.name in UNSPOKEN else None


def find_half(items: Sequence[SyntaxNode], rank: int) -> str | None:
    """``z[:, 0]`` is z.real, ``z[:, 1]`` z.imag, for pairs of that many axes."""
    *others, last = items
    if len(items) != rank or {*others} - {COLON} or not isinstance(last, Literal):
        return None
    return dict(enumerate(HALVES)).get(last.value)  # type: ignore[arg-type]  # what is no place has none


def real_to_complex(real: SyntaxNode) -> SyntaxNode:
    """A complex number of its real part."""
    return Binary("+", real, Literal(0j))


def add_halves(sign: str, left: SyntaxNode, right: SyntaxNode) -> SyntaxNode:
    """``a + 1j * b``, of ``(a + 0j) + 1j * b`` and of ``1j * b + (a + 0j)``; of anything else its sum."""
    for real, other in ((left, right), (right, left)):
        match real:
            case Binary("+", inner, Literal(0j)) if sign == "+":
                return Binary(sign, inner, other)
    return Binary(sign, left, right)


def multiply_by_i(imag: SyntaxNode) -> SyntaxNode:
    """A complex number of its imaginary part."""
    return Binary("*", Literal(1j), imag)


def is_forward_index(item: SyntaxNode) -> bool:
    """Whether an index is a slice or a number, and counts from the front."""
    return isinstance(item, Slice) or is_tensor_free(item)


def complex_kind(word: str, spelling: str, kind: int) -> int:
    """What a function gives: the length of a complex number is real, a Fourier transform of real ones is complex."""
    op = find(spelling)
    if op is not None and op.traits.complex_pairs:
        return COMPLEX if "out" in op.traits.complex_pairs else REAL
    return REAL if kind == COMPLEX and (word in GIVES_REAL or word in HALVES) else kind


def find_real_factor(node: SyntaxNode) -> SyntaxNode | None:
    """A real factor of pairs: a number, or a tensor without the axis that was put in for them; None of others."""
    if is_tensor_free(node):
        return node
    if not isinstance(node, Subscript) or node.items[-1] != NEW_AXIS:
        return None
    rest = [*node.items[:-1]]
    while rest and rest[-1] == COLON:
        rest.pop()
    return Subscript(node.owner, tuple(rest)) if rest else node.owner


def rewrite_pairs_as_complex(
    lines: Backward, names: Collection[str], ranks: Mapping[str, int], page: Callable[[str], str],
    shown: Callable[[str], str],
) -> Backward:  # fmt: skip
    """``lines`` as of complex numbers, which the tensors called ``names`` are."""
    if not names:
        return lines
    ranks = {**ranks} | {
        line.target: len(line.shape) for line in (*lines.forward, *lines.statements) if line.shape is not None
    }
    words = ComplexRewriter(names, ranks)

    def said(line: Line) -> Line:
        own = page(line.of) in names if line.shape is not None else None
        value, pairs = (None, bool(own)) if line.tree is None else words.line(line.tree, own)
        if pairs:
            words.names.add(line.target)
        return line if value is None else replace(line, text=shown(shorten_expression(value)))

    forward = tuple(map(said, lines.forward))
    ends = {line.target for line in forward if line.of in lines.seeds} & words.names
    words.names |= {seed for end, seed in lines.seeds.items() if seed and ends}
    back = tuple(map(said, lines.lines))
    gradients = {name: said(line) for name, line in lines.gradients.items()}
    return replace(lines, forward=forward, lines=back, gradients=gradients)


def write_step_of_complex(
    writer: SourceWriter, step: Apply, plain: Callable[[Apply], SyntaxNode], complexes: Collection[str]
) -> SyntaxNode:
    """A step in complex words, which the tensors called ``complexes`` are; one of real tensors as ``plain`` has it."""
    result, read = step.result.name in complexes, [name in complexes for name in step.tensors]
    if not (result or any(read)):
        return plain(step)

    def as_pairs(node: SyntaxNode) -> SyntaxNode:
        return call(AS_PAIRS, node) if isinstance(node, Name) and node.name in complexes else node

    def seen_through(node: SyntaxNode) -> SyntaxNode:
        match node:
            case PythonCall(Name(word), [Name(name)], []) if word == AS_COMPLEX and name in complexes:
                return Name(name)
        return node

    if isinstance(step.op, str) and (pairs := entry_named(step.op).traits.complex_pairs):
        written = rewrite_tree(write_complex_step(writer, step), seen_through)
        return call(AS_PAIRS, written) if "out" in pairs and not result else written
    written = plain(step)
    if not result:
        return rewrite_tree(written, as_pairs)
    return written if any(read) else call(AS_COMPLEX, method(written, "contiguous"))
