"""From an index expression to a fragment of matrix notation, by the shape of the expression.

Comes in: an expression over free indices. Goes out: a `Fragment`; `NoForm` where no notation fits. Each way to
write something is one method, named by what it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import sympy as sp

from symgrad.closed_form.fragments import (
    Fragment,
    Notation,
    add_fragments,
    align_all,
    align_axes,
    axis_number,
    broadcast_axes,
    call_elementwise,
    call_method,
    choose_body_order,
    common_axis_order,
    factor_sort_key,
    fill_with_number,
    has_exact_axes,
    keep_size_one_axes,
    permute_axes,
    split_signs,
)
from symgrad.closed_form.number_code import (
    PI,
    NoForm,
    find_exact_code,
    first_form,
    plain_number,
    split_decimal,
    write_decimal,
    write_quotient,
    write_size,
)
from symgrad.closed_form.rewriting.scalar_rules import (
    divide_by_content,
    find_content,
    has_few_digits,
    is_decimal,
    is_written_out,
    merge_roots,
)
from symgrad.closed_form.rewriting.shorthands import Root, reads_tensor
from symgrad.closed_form.rewriting.sum_rules import merge_axes
from symgrad.closed_form.writing import index_ranges
from symgrad.closed_form.writing.accesses import is_class_delta, write_access, write_diag, write_one_hot
from symgrad.closed_form.writing.known_calls import write_known_call
from symgrad.closed_form.writing.shorthand_writers import SHORTHANDS, write_function_call, write_norm, write_root
from symgrad.closed_form.writing.sum_writers import calls_einsum, write_sum
from symgrad.functions import high
from symgrad.indexing import Bracket, Index
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices, is_access
from symgrad.language.python_text import add, call, method, multiply, negate, to_code
from symgrad.language.syntax_tree import Literal
from symgrad.notation.tree import Binary, SyntaxNode
from symgrad.ops.lookup import entry_named

RELATIONS = {sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">=", sp.Eq: "==", sp.Ne: "!="}


class FormWriter(Notation):
    """Writes index expressions over the tensors of one program, by their shape."""

    def write(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """``node`` as a piece; its axes come in the order of ``prefer`` where there is a choice."""
        if is_access(node):
            return write_access(self, node, prefer)
        if isinstance(node, sp.Sum):
            return write_sum(self, node, prefer)
        if node.is_Number or (not free_indices(node) and not reads_tensor(node) and node.free_symbols):
            return self.number(node)
        if node.is_Add:
            return self.add(node, prefer)
        if is_class_delta(node):
            return write_one_hot(self, node)
        if (
            node.is_Mul
            or isinstance(node, sp.KroneckerDelta)
            or (node.is_Pow and node.exp.is_number and node.exp.is_negative)
        ):
            return self.product(split_factors(node), prefer)
        if node.is_Pow and not node.is_number:
            return self.power(node, prefer)
        if isinstance(node, Bracket):
            return self.condition(node, prefer)
        if type(node) in SHORTHANDS:
            return SHORTHANDS[type(node)](self, node, prefer)
        if isinstance(node, sp.log) and isinstance(node.args[0], sp.Sum) and isinstance(node.args[0].function, sp.exp):
            return self.log_of_exponentials(node.args[0], prefer)
        if node.is_number:
            return self.number(node)
        if isinstance(node, high):  # at NaN the form does not pass its proof
            return self.write(node.args[0], prefer)
        if not node.is_Function or (isinstance(node, sp.floor) and not reads_tensor(node)):  # a whole number
            raise NoForm
        return write_function_call(self, node, prefer)

    def number(self, node: Expr) -> Fragment:
        """A number or a size."""
        return Fragment(self.number_code(node), ())

    def number_code(self, node: Expr) -> SyntaxNode:
        """The code of a number or a size."""
        if node.is_Integer:
            return to_code(int(node))
        if isinstance(node, Root):
            return write_root(self, node, ()).code
        if is_written_out(node) and (computed := find_exact_code(float(node))) is not None:
            return computed
        if node.is_Float and (share := write_quotient(node, self.program)) is not None:
            return share
        if is_decimal(node) or has_few_digits(node):
            return write_decimal(node)
        if node.is_Rational:
            return Binary("/", to_code(int(node.p)), Literal(int(node.q)))
        if node.is_Symbol or isinstance(node, (sp.floor, sp.Mod)):
            return write_size(node, self.program.inputs)
        if node.is_Add:
            terms = [(minus, bool(t.is_number), self.number(t)) for minus, t in split_signs(node.args)]
            (minus, _, first), *rest = sorted(terms, key=lambda term: (*term[:2], term[2].text))
            whole = negate(first.code) if minus else first.code
            return reduce(lambda total, term: add(total, term[2].code, "-" if term[0] else "+"), rest, whole)
        if node.is_number and not node.is_real:  # log(−2)
            raise NoForm
        if node is sp.pi:
            return PI
        if isinstance(node, sp.log) and node.args[0].is_Integer:
            return call("math.log", int(node.args[0]))
        if node.is_number and not (node.is_Pow and node.exp == sp.Rational(1, 2)):
            return write_decimal(node)
        if node.is_Pow and node.exp == -1:
            return Binary("/", Literal(1), self.number_code(node.base))
        if node.is_Pow and node.exp.is_Rational:
            return Binary("**", self.number_code(node.base), plain_number(float(node.exp)))
        if node.is_Mul and all(size.is_Symbol for size in node.args):
            return self.size_product(node.args, sp.S.One)
        if node.is_Mul and not node.is_number:
            return self.product(list(node.args), ()).code
        raise NoForm

    def add(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """Terms over their common axes; what is subtracted comes last."""
        content = find_content(node)
        if content != 1:
            return self.product([content, divide_by_content(node, content)], prefer)
        parts = node.args
        if all(any(map(index_ranges.is_index_condition, split_factors(part))) for part in parts):
            parts = index_ranges.group_by_conditions(parts)
            joined = self.product(split_factors(parts[0]), prefer) if len(parts) == 1 else None
            joined = joined or index_ranges.write_concatenation(self, parts, prefer)
            if joined is not None:
                return joined
        written = [(minus, t, self.write(t, prefer)) for minus, t in split_signs(parts)]
        whole = add_fragments(written, common_axis_order([piece for *_, piece in written], prefer))
        varied = [piece for *_, piece in written if piece.axes]
        if len(varied) != 1 or varied[0].kept is None:
            return whole
        kept = [(minus, t, piece.kept or piece) for minus, t, piece in written]
        return replace(whole, kept=add_fragments(kept, varied[0].kept.axes))

    def product(self, factors: Sequence[Expr], prefer: Sequence[Index]) -> Fragment:
        """Elementwise product; numbers first, then the seed, what is divided by last."""
        if len(factors) > 1 and any(index_ranges.is_index_condition(f) for f in factors):
            return index_ranges.write_conditioned_product(self, factors, prefer)
        for factor in factors:
            if isinstance(factor, sp.KroneckerDelta) and not is_class_delta(factor):
                return write_diag(self, factor, [f for f in factors if f is not factor])
        above: list[Expr] = []
        below: list[Expr] = []
        coefficient = sp.S.One
        for factor in merge_roots(factors):
            base, exponent = (factor, sp.S.One) if isinstance(factor, sp.exp) else factor.as_base_exp()
            if factor.is_Add:
                content = find_content(factor)
                factor, number = divide_by_content(factor, content), content
            else:
                number = factor if is_written_out(factor) else sp.S.One
            if is_written_out(number):
                coefficient *= sp.sign(number)
                over, under = split_decimal(abs(number), self.program)
                coefficient /= under if under.is_Integer else 1
                above += [] if over == 1 else [over]
                below += [] if under.is_Integer else [under]
            else:
                coefficient *= number
            if factor is number:
                continue
            if isinstance(factor, sp.exp) and is_access(-factor.exp):
                below.append(sp.exp(-factor.exp))
            elif factor.is_Rational and not is_decimal(factor):
                coefficient *= factor
            elif isinstance(exponent, sp.Expr) and exponent.is_number and exponent.is_negative:
                below.append(base ** (-exponent))
            else:
                above.append(factor)
        raised, lowered = ([f for f in part if isinstance(f, sp.exp)] for part in (above, below))
        if len(raised) > 1 or (raised and lowered):  # eᵃ / eᵇ would overflow where eᵃ⁻ᵇ does not
            above, below = ([f for f in part if not isinstance(f, sp.exp)] for part in (above, below))
            above.append(sp.exp(sp.Add(*(f.exp for f in raised)) - sp.Add(*(f.exp for f in lowered)), evaluate=False))
        return self._fraction(coefficient, above, below, prefer)

    def _fraction(self, coefficient: Expr, above: list[Expr], below: list[Expr], prefer: Sequence[Index]) -> Fragment:
        """coefficient · above / below."""
        sizes = [b for b in below if not reads_tensor(b) and not free_indices(b)]
        below = [b for b in below if b not in sizes]
        if all(self.program.sizes.get(size) == 1 for size in sizes):  # an axis of one entry, opened
            sizes = []
        negative = bool(coefficient < 0)
        above = sorted(above, key=lambda f: factor_sort_key(f, self.program, negative))
        written = [self.write(f, prefer) for f in (*above, *below)]
        plain = keep_size_one_axes(written) or written
        kept = [piece.kept or piece for piece in plain]
        size = abs(coefficient)
        number = (negative, Literal(int(size.p)), int(size.q))
        if has_few_digits(size) and (not above or (size.p != 1 and all(map(is_class_delta, above)))):
            number = (negative, Literal(float(size)), 1)  # a weight: 0.9 of a class, and 0.1 / n of each
        whole, *more = (
            self._quotient(number, each[: len(above)], each[len(above) :], sizes, prefer)
            for each in (plain, *([kept] if kept != plain and keep_size_one_axes(kept) else []))
        )
        return replace(whole, kept=more[0]) if more else whole

    def _quotient(
        self, number: tuple[bool, Literal, int], pieces: list[Fragment], under: list[Fragment], sizes: list[Expr],
        prefer: Sequence[Index],
    ) -> Fragment:  # fmt: skip
        """The same of what is written, and of a number: whether it is below 0, what it multiplies and divides by."""
        negative, lead, share = number
        target = common_axis_order([*pieces, *under], prefer)
        parts = [align_axes(p, target).code for p in pieces]
        if lead != Literal(1) or not parts or (negative and pieces[0].compares):
            parts = [lead, *parts]
        divisors = [align_axes(u, target).code for u in under]
        if sizes or share != 1:
            divisors.append(self.size_product(sizes, share))
        whole = reduce(partial(Binary, "/"), divisors, reduce(multiply, parts))
        return Fragment(negate(whole) if negative else whole, broadcast_axes([*pieces, *under], target))

    def size_product(self, sizes: Sequence[Expr], number: Expr) -> SyntaxNode:
        """A product of sizes, as numel() where it is one."""
        whole, parts = sp.Mul(*sizes), [] if number == 1 else [to_code(int(number))]
        if sizes:
            named = (t.name for t in self.program.inputs if len(t.shape) > 1 and whole == sp.Mul(*t.shape))
            one = next(named, None)
            own = sorted((self.number(size) for size in sizes), key=lambda part: part.text) if one is None else []
            parts += [method(one, "numel")] if one is not None else [part.code for part in own]
        return reduce(multiply, parts)

    def power(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """x ** 2, x.sqrt()."""
        base, exponent = node.as_base_exp()
        if exponent == sp.S.Half and isinstance(base, sp.Sum) and base.function.is_Pow and base.function.exp == 2:
            return write_norm(self, base, prefer)
        inner = self.write(base, prefer)
        if exponent == sp.Rational(1, 2):
            return call_elementwise(inner, partial(method, word="sqrt"))
        halves = exponent.is_Rational and exponent.q == 2
        raised = Fragment(to_code(float(exponent)), ()) if halves else self.write(exponent, prefer)
        (left, right), axes = align_all([inner, raised], prefer)
        return Fragment(Binary("**", left.code, right.code), axes)

    def condition(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """[x > 0] is (x > 0); conditions on indices have no notation."""
        relation = node.args[0]
        if relation.func not in RELATIONS or not reads_tensor(relation):
            raise NoForm
        (left, right), axes = align_all([self.write(a, prefer) for a in relation.args], prefer)
        return Fragment(Binary(RELATIONS[relation.func], left.code, right.code), axes)

    def log_of_exponentials(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """log Σ_k exp(f[p,k]) is f.logsumexp(-1)."""
        bound = [limit[0] for limit in node.limits]
        body = self.write(node.function.exp, choose_body_order([node.function.exp], bound, prefer))
        if len(bound) != 1 or bound[0] not in body.axes:
            raise NoForm
        axis = axis_number(body.axes, bound[0])
        left, rest = tuple(None if a in bound else a for a in body.axes), tuple(a for a in body.axes if a not in bound)
        kept = call_method(body, left, "logsumexp", axis, keepdim=True)
        return replace(call_method(body, rest, "logsumexp", axis), kept=kept)

    def whole(self, node: Expr, axes: Sequence[Index], wanted: str) -> Fragment:
        """``node`` in exactly the shape of ``wanted``; a second derivative has more axes."""
        self.is_hessian = len(axes) > len(self.program.tensor(wanted).shape)
        known = self.complex_gradient(node, axes)
        if known is not None:
            return Fragment(known, tuple(axes))
        return first_form((self._by_call, self._by_shape), node, axes, wanted)

    def _by_call(self, node: Expr, axes: Sequence[Index], wanted: str) -> Fragment:
        """The same by the one call that torch has for it."""
        return Fragment(write_known_call(self, node, axes, wanted), tuple(axes))

    def _by_shape(self, node: Expr, axes: Sequence[Index], wanted: str) -> Fragment:
        """The same by its parts, and by one axis for several where that needs no einsum."""
        piece = self._by_axes(node, axes, wanted)
        row = merge_axes(node, axes) if calls_einsum(piece.code) else None
        if row is not None:
            together = self.write(*row)
            if together.axes == row[1] and not calls_einsum(together.code):
                return call_method(together, tuple(axes), "reshape", f"{wanted}.shape")
        return piece

    def complex_gradient(self, node: Expr, axes: Sequence[Index]) -> SyntaxNode | None:
        """The same in complex words, where a step of the program is about complex numbers."""
        steps = (step for step in self.program.steps if isinstance(step.op, str))
        if not any(entry_named(str(step.op)).traits.complex_pairs for step in steps):
            return None
        from symgrad.closed_form.writing.complex_forms import write_complex_gradient  # most programs need none of it

        return write_complex_gradient(self, node, axes, FormWriter)

    def _by_axes(self, node: Expr, axes: Sequence[Index], wanted: str) -> Fragment:
        """The same, axis by axis."""
        piece = self.write(node, axes)
        if piece.axes == tuple(axes):
            return piece
        if piece.kept is not None and has_exact_axes(piece.kept, axes):
            return piece.kept
        if set(piece.indices()) == set(axes) and None not in piece.axes:
            return permute_axes(piece, tuple(axes))
        lined = align_axes(piece, axes)
        if has_exact_axes(lined, axes):
            return lined
        if not lined.axes and not reads_tensor(node):  # a number has no methods
            if node.is_Rational and abs(node.p) == 1 and node.q > 1:  # a share of so many, be they ten or eight
                lined = Fragment(Binary("/", to_code(int(node.p)), Literal(int(node.q))), ())
            return fill_with_number(lined, wanted, axes)
        own = [self.source.size(axis.size) for axis in axes] if self.is_hessian else [f"{wanted}.shape"]
        return call_method(lined, tuple(axes), "expand", *own)
