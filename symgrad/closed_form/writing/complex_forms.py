"""Gradients of pairs (re, im) as people write them of complex numbers: ``2 * v * z.conj()``.

    [c = 0]·(v₀·z₀ + v₁·z₁) + [c = 1]·(v₁·z₀ − v₀·z₁)   →  view_as_real(view_as_complex(v) * view_as_complex(z).conj())

Both parts are one number, re + i·im. In it z₀ is (z + z̄)/2 and z₁ is (z − z̄)/2i; z and z̄ are two independent letters
from there on, and a line is a formula with no i left in it. Roots of z·z̄ are |z|, and z / |z| is sgn(z), which is 0 at
0; exp((z + z̄)/2)·exp(−(z − z̄)/2) is exp(z̄). Roots and logarithms are taken as if both were positive: the proof finds
where that is wrong.

Comes in: the formula of a gradient whose last axis holds re and im. Goes out: its code, or None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

import sympy as sp

from symgrad.calculus import local_jacobian
from symgrad.closed_form.fragments import Notation, shape_in_scope
from symgrad.closed_form.number_code import NoForm, axis_size
from symgrad.closed_form.rewriting.sum_rules import BAR, FourierSums, FourierTransform, group_sums_by_range
from symgrad.closed_form.source_code import view_pairs_as_complex
from symgrad.closed_form.writing.shorthand_writers import expand_intermediate, write_transform
from symgrad.closed_form.writing.sum_writers import calls_einsum
from symgrad.indexing import Bracket, Index, summed
from symgrad.indexing.symbols import Expr, access, accesses, indices_of, is_access, leaves_exceed, name_of, weight
from symgrad.language.python_text import call, method, multiply, write_python
from symgrad.language.syntax_tree import Attribute, PythonCall
from symgrad.notation.tree import Binary, Name, SyntaxNode, rebuild_node, walk
from symgrad.program import Program, Tensor

LENGTH, DIRECTION, REAL, IMAG = "_length", "_direction", "_real", "_imag"
WORDS = {BAR: "conj", LENGTH: "abs", DIRECTION: "sgn", REAL: "real", IMAG: "imag"}
"""What follows the name of a complex tensor, and what torch calls it: the halves are attributes, the others methods."""
TURNING = (sp.sin, sp.cos, sp.sinh, sp.cosh, sp.atan2, sp.exp, sp.log)
HEAVIEST = 700
"""Nodes of a number that common factors are looked for in: of larger ones that takes minutes, or no end."""
MOST_LEAVES = 20_000
"""Letters and numbers of a formula that is written in complex words: nobody reads more, and to look takes minutes."""
DEEPEST = 3
"""How often intermediates are written out."""
LAZY = re.compile(r"^view_as_complex\(\w+(\.contiguous\(\)\.clone\(\))?\)\.conj\(\)(\.m?T|\.permute\([\d, ]+\))?$")
"""What torch keeps as a conjugate to be, of which there is no view as pairs."""


def write_complex_gradient(
    notation: Notation, node: Expr, axes: Sequence[Index], forms: Callable[[Program], Notation]
) -> SyntaxNode | None:
    """The code of pairs with ``axes``, or of a part of a transform; None where nobody would write complex numbers."""
    if not axes:
        return None
    letters = ComplexLetters(notation)
    if axes[-1].size != 2:
        whole = letters.part(node, axes)
        return None if whole is None else letters.code(whole, axes, forms)
    found = letters.number(node, axes)
    if found is None:
        return None
    whole = letters.named_output(found, axes)
    half = None if letters.used or letters.made else 0 if not whole.has(sp.I) else 1
    whole = sp.expand(whole / sp.I) if half else whole
    if whole.has(sp.I):
        return None
    code = letters.code(whole, axes[:-1], forms)
    if code is None:
        return None
    if half is None:
        return call("view_as_real", method(code, "resolve_conj") if LAZY.search(write_python(code)) else code)
    halves = [code, call("zeros_like", code)]
    return call("view_as_real", call("torch.complex", *halves[:: -1 if half else 1])) if is_access(whole) else None


@dataclass
class ComplexLetters:
    """The complex tensors of a formula; their conjugates, lengths and directions are further letters."""

    notation: Notation
    used: dict[str, None] = field(default_factory=dict)
    made: dict[str, FourierTransform] = field(default_factory=dict)

    def number(self, node: Expr, axes: Sequence[Index]) -> Expr | None:
        """The pairs with ``axes`` as one number, in z and z̄; None where it is too large for anybody."""
        real, imag = (node.xreplace({axes[-1]: sp.Integer(part)}) for part in (0, 1))
        whole = real + sp.I * imag
        for _ in range(DEEPEST):
            if leaves_exceed(whole, MOST_LEAVES):
                return None
            whole = whole.xreplace({a: e for a in accesses(whole) if (e := self.arithmetic(a)) is not None})
        if leaves_exceed(whole, MOST_LEAVES):
            return None
        found = whole.xreplace({a: self.coordinate(a) for a in accesses(whole) if self.is_half(a)})
        if found.has(sp.Sum):
            spectra = self.transformed(found, axes[:-1])
            if spectra is None:
                return merge_into_one_sum(sp.expand(found))
            return spectra if spectra.has(sp.KroneckerDelta) else factor_out_common_terms(spectra)
        plain = rewrite_lengths_and_directions(rewrite_as_if_positive(found))
        return sp.factor_terms(sp.cancel(plain)) if weight(plain) <= HEAVIEST else plain

    def transformed(self, formula: Expr, axes: Sequence[Index]) -> Expr | None:
        """The formula with letters for its Fourier transforms; None where it has none."""
        if not formula.has(sp.cos, sp.sin):
            return None
        return FourierSums(axes, self.used, self.notation.program.names, self.made).put_in(formula)

    def part(self, node: Expr, axes: Sequence[Index]) -> Expr | None:
        """A real formula by the real parts of Fourier transforms; None where it is another."""
        found = node.xreplace({a: self.coordinate(a) for a in accesses(node) if self.is_half(a)})
        whole = self.transformed(found, axes) if node.has(sp.Sum) else None
        if whole is None:
            return None
        halves = {}
        for entry in [a for a in accesses(whole) if name_of(a).removesuffix(BAR) in self.made]:
            letter = name_of(entry).removesuffix(BAR)
            real, imag = (access(letter + half, indices_of(entry)) for half in (REAL, IMAG))
            halves[entry] = real - sp.I * imag if name_of(entry).endswith(BAR) else real + sp.I * imag
        whole = factor_out_common_terms(whole.xreplace(halves))
        return None if whole.has(sp.I) or any(BAR in name_of(a) for a in accesses(whole)) else whole

    def code(self, whole: Expr, axes: Sequence[Index], forms: Callable[[Program], Notation]) -> SyntaxNode | None:
        """A formula in letters, in torch's words."""
        program = self.program()
        try:
            piece = forms(program).write(whole, axes)
        except NoForm:
            return None
        matrix = calls_einsum(piece.code) or any(isinstance(n, Binary) and n.sign == "@" for n in walk(piece.code))
        if piece.axes != tuple(axes) or (matrix and self.mixed(whole)):
            return None
        return self.in_words(piece.code, program)

    def mixed(self, whole: Expr) -> bool:
        """Whether products of real and complex numbers are added up: torch has no such matrix product."""
        names = [{name_of(entry) for entry in accesses(total)} for total in whole.atoms(sp.Sum)]
        known = {*self.used, *self.made}
        return any(
            0 < sum(n.removesuffix(BAR).removesuffix(DIRECTION) in known for n in found) < len(found) for found in names
        )

    def arithmetic(self, entry: Expr) -> Expr | None:
        """What an entry of an intermediate comes to, where that is the conjugate of a number, a product, a constant."""
        right = expand_intermediate(self.notation, entry)
        if right is None:
            return None
        plain = right.is_polynomial(*accesses(right)) and not right.has(sp.Sum, Bracket)
        places = {i for entry in accesses(right) for i in indices_of(entry)}
        return right if plain and places <= {*indices_of(entry), sp.S.Zero, sp.S.One} else None

    def is_half(self, entry: Expr) -> bool:
        """Whether an access reads the real or the imaginary part of a tensor of pairs."""
        indices, name = indices_of(entry), name_of(entry)
        if not indices or not indices[-1].is_Integer or "·" in name:  # what the forward found are no numbers
            return False
        return bool(shape_in_scope(self.notation, name)[-1] == 2)

    def coordinate(self, entry: Expr) -> Expr:
        """(z + z̄) / 2 or (z − z̄) / 2i"""
        name, (*at, part) = name_of(entry), indices_of(entry)
        self.used[name] = None
        z, bar = access(name, at), access(name + BAR, at)
        return (z - bar) / (2 * sp.I) if part else (z + bar) / 2

    def named_output(self, whole: Expr, axes: Sequence[Index]) -> Expr:
        """f(z̄) is the conjugate of out, which is f(z), where f is more than arithmetic."""
        program = self.notation.program
        equation = local_jacobian(program.steps[-1], program).equation
        if not whole.atoms(sp.Function, sp.Pow) or len(equation.axes) != len(axes) or equation.axes[-1].size != 2:
            return whole
        own = ComplexLetters(self.notation)
        made = own.number(equation.right.xreplace(dict(zip(equation.axes, axes, strict=True))), axes)
        if made is None:
            return whole
        turned = made.xreplace(conjugate_replacements(made, own.used))
        if not (made.is_Function or made.is_Pow) or made.has(sp.I, sp.Sum):
            return whole
        found = whole.subs(turned, access(program.output + BAR, axes[:-1]))
        self.used |= {} if found == whole else {program.output: None}
        return found

    def program(self) -> Program:
        """The tensors with their further letters, as if each were real."""
        program, found = self.notation.program, list[Tensor]()
        ends = {program.seed, program.output}
        pairs = {*self.used, *(ends if ends & self.used.keys() else ())}
        for name in dict.fromkeys((*(tensor.name for tensor in program.tensors()), program.seed)):
            shape = tuple(shape_in_scope(self.notation, name))
            letters = ("", BAR, LENGTH, DIRECTION) if name in pairs else ("",)
            found += [Tensor(name + letter, shape[:-1] if name in pairs else shape) for letter in letters]
        for name, made in self.made.items():
            shape = tuple(shape_in_scope(self.notation, made.name))[: made.rank]
            cut = dict(zip(made.dims, made.kept, strict=True))
            kept = tuple(cut.get(axis, size) for axis, size in enumerate(shape))
            found += [Tensor(name + letter, kept) for letter in ("", *WORDS)]
        return Program(tuple(t for t in found if t.name != program.seed), (), program.output, program.sizes)

    def in_words(self, code: SyntaxNode, program: Program) -> SyntaxNode:
        """A formula in letters, in torch's words; pairs have twice as many entries as numbers that they stand for."""
        ranks = {tensor.name: len(tensor.shape) for tensor in program.inputs}
        words = {
            name + letter: (name, word)
            for name in (*self.used, *self.made)
            for letter, word in (("", ""), *WORDS.items())
        }

        def worded(node: SyntaxNode) -> SyntaxNode:
            match node:
                case PythonCall(Attribute(Name(name), "numel"), []):
                    return write_entry_count(name.rstrip(BAR), ranks[name])
                case Name(name):
                    return self.word(name, words)
            return rebuild_node(node, worded)

        return worded(code)

    def transformed_code(self, name: str) -> SyntaxNode:
        """The call of a transform."""
        made, source = self.made[name], self.notation.source
        inner = self.seen(made.name) if made.name in self.used else source.tensor(made.name)
        return write_transform(made, inner, source.size)

    def seen(self, name: str) -> SyntaxNode:
        """Pairs as complex numbers; what comes back lies in memory as it likes, also at an odd place."""
        if name == self.notation.program.seed:
            return call("view_as_complex", method(method(name, "contiguous"), "clone"))
        return view_pairs_as_complex(self.notation.source, name)

    def word(self, letter: str, words: Mapping[str, tuple[str, str]]) -> SyntaxNode:
        """A letter in torch's words."""
        name, word = words.get(letter, ("", ""))
        if name:
            whole = self.transformed_code(name) if name in self.made else self.seen(name)
            if word in (WORDS[REAL], WORDS[IMAG]):
                return Attribute(whole, word)
            return method(whole, word) if word else whole
        own = {tensor.name for tensor in self.notation.program.tensors()}
        return self.notation.source.tensor(letter) if letter in own else Name(letter)


def write_entry_count(name: str, rank: int) -> SyntaxNode:
    """How many numbers a tensor holds, by its axes."""
    return reduce(multiply, (axis_size(name, axis) for axis in range(rank)))


def factor_out_common_terms(expression: Expr) -> Expr:
    """What terms have in common as factors; conditions stay as they are."""
    held = {condition: sp.Dummy() for condition in expression.atoms(Bracket)}
    found = sp.factor_terms(sp.cancel(expression.xreplace(held)))
    return found.xreplace({letter: condition for condition, letter in held.items()})


def conjugate_replacements(expression: Expr, names: Mapping[str, None]) -> dict[Expr, Expr]:
    """What stands for what in the conjugate of a number that has no i in it."""
    found: dict[Expr, Expr] = {}
    for entry in accesses(expression):
        name = name_of(entry)
        turned = name + BAR if name in names else name.removesuffix(BAR)
        found[entry] = access(turned, indices_of(entry)) if turned.removesuffix(BAR) in names else entry
    return found


def merge_into_one_sum(expression: Expr) -> Expr:
    """Sums over axes of the same sizes as one; i where terms are not a sum each."""
    found = []
    for term in sp.Add.make_args(expression):
        sums = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.Sum)]
        if len(sums) != 1:
            return sp.I
        found.append((sp.S.One, term / sums[0] * sums[0].function, [limit[0] for limit in sums[0].limits]))
    return sp.Add(*(summed(sp.factor_terms(sp.cancel(body)), bound) for _, body, bound in group_sums_by_range(found)))


def rewrite_lengths_and_directions(expression: Expr) -> Expr:
    """Roots of z·z̄ as |z|, quotients by it as sgn(z)."""
    for z in {a for a in accesses(expression) if not name_of(a).endswith(BAR)}:
        expression = expression.replace(
            lambda e: e.is_Pow and e.exp.is_Rational and not e.exp.is_Integer, partial(rewrite_root_as_length, z)
        )
    return expression


def rewrite_root_as_length(z: Expr, root: Expr) -> Expr:
    """(z·z̄)^(n/2) as |z|ⁿ; with the guard that is 1 where z is 0, as (z / sgn(z))ⁿ."""
    bar, length, direction = (access(name_of(z) + letter, indices_of(z)) for letter in (BAR, LENGTH, DIRECTION))
    square, own = z * bar, sp.expand(root.base)
    if own == square + Bracket(sp.Eq(square, 0)):
        return (z / direction) ** (2 * root.exp)
    return length ** (2 * root.exp) if own == square else root


def rewrite_as_if_positive(expression: Expr) -> Expr:
    """Functions of (z + z̄)/2 and (z − z̄)/2i as functions of z and z̄."""
    if not expression.has(*TURNING):
        return expression
    letters = {a: sp.Dummy(name_of(a), positive=True) for a in accesses(expression)}
    found = expression.xreplace(letters).replace(sp.atan2, atan2_by_logarithms).rewrite(sp.exp)
    found = sp.expand(sp.expand(found), force=True)
    powers = found.atoms(sp.exp)
    both = {e: exp_by_even_and_odd(e.exp) for e in powers if sp.exp(-e.exp) in powers}
    return sp.expand(found.xreplace(both)).xreplace({letter: entry for entry, letter in letters.items()})


def atan2_by_logarithms(y: Expr, x: Expr) -> Expr:
    """The angle of x + i·y: half of what log tells of it and of its conjugate apart."""
    z, bar = (sp.expand(x + sign * sp.I * y) for sign in (1, -1))
    return (sp.log(z) - sp.log(bar)) / (2 * sp.I)


def exp_by_even_and_odd(power: Expr) -> Expr:
    """eᵗ as cosh t + sinh t, e^(i·t) as cos t + i·sin t."""
    turn = power / sp.I
    return sp.cosh(power) + sp.sinh(power) if turn.has(sp.I) else sp.cos(turn) + sp.I * sp.sin(turn)
