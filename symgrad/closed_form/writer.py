"""From an index expression to a piece of matrix notation, by the shape of the expression.

Comes in: an expression over free indices. Goes out: a `Piece`; `NoForm` where no notation fits. Each way to
write something is one method, named by what it writes.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.pieces import (
    ADD,
    ATOM,
    COMPARE,
    MATMUL,
    MULTIPLY,
    NEGATE,
    POWER,
    Axes,
    NoForm,
    Piece,
    aligned,
    matmul,
    matrix,
    method,
    permuted,
)
from symgrad.closed_form.rules import Mean, Softmax
from symgrad.closed_form.source_text import Writer
from symgrad.indexing import Bracket, Index, Ravel, Unravel
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of
from symgrad.ops.functions import Stable
from symgrad.program import Program
from symgrad.shapes import Size

RELATIONS = {sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">=", sp.Eq: "==", sp.Ne: "!="}
METHODS = {sp.exp, sp.log, sp.sin, sp.cos, sp.tan, sp.tanh, sp.sign}


class Notation:
    """Writes index expressions over the tensors of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.texts = Writer(program)

    def write(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """``node`` as a piece; its axes come in the order of ``prefer`` where there is a choice."""
        if is_access(node):
            return self.entry(node, prefer)
        if isinstance(node, sp.Sum):
            return self.sum(node, prefer)
        if node.is_Number or (node.free_symbols and not _indices(node) and not _has_access(node)):
            return self.number(node)
        if node.is_Add:
            return self.add(node, prefer)
        if node.is_Mul or isinstance(node, sp.KroneckerDelta) or (node.is_Pow and node.exp.is_number and node.exp.is_negative):
            return self.product(split_factors(node), prefer)
        if node.is_Pow:
            return self.power(node, prefer)
        if isinstance(node, Bracket):
            return self.condition(node, prefer)
        if isinstance(node, Softmax):
            return self.softmax(node, prefer)
        if node.func in METHODS or isinstance(node, Stable):
            inner = self.write(node.args[0], prefer)
            return method(inner, f"{node.func.__name__}()", inner.axes)
        if node.is_number:
            return self.number(node)
        raise NoForm

    def number(self, node: Expr) -> Piece:
        """A number or a size."""
        if node.is_Integer:
            return Piece(str(node), NEGATE if node < 0 else ATOM, ())
        if node.is_Rational:
            return Piece(f"{node.p} / {node.q}", NEGATE if node < 0 else MULTIPLY, ())
        if node.is_Symbol:
            return Piece(self.texts.size(node), ATOM, ())
        if node.is_Add and node.is_polynomial():
            terms = sorted(node.args, key=lambda t: bool(t.is_number))
            texts = [self.number(t).inside(ADD) for t in terms]
            return Piece(" + ".join(texts).replace("+ -", "- "), ADD, ())
        if node.is_number:
            return Piece(repr(float(node)), NEGATE if node < 0 else ATOM, ())
        if node.is_Mul and not node.is_number:
            return self.product(list(node.args), ())
        raise NoForm

    def entry(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """x[p,q] is x; constants and shifts are slices; row-major numbers are reshapes."""
        name, indices = name_of(node), indices_of(node)
        text, binds = self.texts.tensor(name)
        piece = Piece(text, binds, ())
        shape = self._shape(name)
        if all(isinstance(i, Index) for i in indices):
            if len(set(indices)) == len(indices):
                return Piece(text, binds, indices, flipped=self.flipped_product(name, indices))
            if len(indices) == 2:
                return method(piece, "diag()", (indices[0],))
            raise NoForm
        if any(isinstance(i, (Ravel, Unravel)) for i in indices):
            return self.reshaped(piece, indices)
        items: list[str] = []
        axes: list[Index] = []
        for index, size in zip(indices, shape, strict=True):
            if isinstance(index, Index):
                items.append(":")
                axes.append(index)
            elif index.is_Integer:
                items.append(str(index))
            else:
                items.append(self.shifted(index, size, axes))
        while items and items[-1] == ":":
            items.pop()
        return Piece(f"{piece.inside(ATOM)}[{', '.join(items)}]" if items else text, ATOM if items else binds, tuple(axes))

    def flipped_product(self, name: str, indices: Sequence[Index]) -> Piece | None:
        """The transpose of a forward value that is a matrix product: (a @ b).T is b.T @ a.T."""
        factors = self.texts.factors(name)
        if factors is None or len(indices) != 2:
            return None
        turned = [method(Piece(*factor, ()), "T", ()) for factor in reversed(factors)]
        turned = [Piece(p.text.removesuffix(".T.T"), ATOM, ()) if p.text.endswith(".T.T") else p for p in turned]
        text = f"{turned[0].inside(MATMUL)} @ {turned[1].inside(MATMUL + 1)}"
        return Piece(text, MATMUL, tuple(reversed(indices)))

    def shifted(self, index: Expr, size: Size, axes: list[Index]) -> str:
        """x[c + p] for p below n is x[c:c + n]."""
        (moving,) = _indices(index) if len(_indices(index)) == 1 else (None,)
        if moving is None or index.coeff(moving) != 1:
            raise NoForm
        start = index - moving
        if _indices(start):
            raise NoForm
        axes.append(moving)
        stop = sp.expand(start + moving.size)
        return f"{'' if start == 0 else self.number(start).text}:{'' if stop == size else self.number(stop).text}"

    def reshaped(self, piece: Piece, indices: Sequence[Expr]) -> Piece:
        """x[row-major number of (p, q)] is x.reshape(the sizes of p and q)."""
        axes: list[Index] = []
        unravelled = [i for i in indices if isinstance(i, Unravel)]
        numbers = list(dict.fromkeys(i.number for i in unravelled))
        done: list[Expr] = []
        for index in indices:
            number = index.number if isinstance(index, Unravel) else index
            if isinstance(index, Unravel) and number in done:
                continue
            done.append(number)
            parts = number.indices if isinstance(number, Ravel) else (number,)
            if not all(isinstance(i, Index) for i in parts):
                raise NoForm
            axes += parts
        if len(numbers) > 1 or len(set(axes)) < len(axes):
            raise NoForm
        return method(piece, f"reshape({self._sizes([a.size for a in axes])})", tuple(axes))

    def _sizes(self, sizes: Sequence[Size]) -> str:
        """Sizes as arguments; an input's own shape by its name."""
        for tensor in self.program.inputs:
            if tensor.shape == tuple(sizes) and len(sizes) > 1:
                return f"{tensor.name}.shape"
        return ", ".join(self.texts.size(s) for s in sizes)

    def add(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """Terms over their common axes; what is subtracted comes last."""
        content = _content(node)
        if content != 1:
            return self.product([content, sp.Add(*(t / content for t in node.args))], prefer)
        found = [
            (t.could_extract_minus_sign(), not _mentions_seed(t), self.write(-t if t.could_extract_minus_sign() else t, prefer))
            for t in node.args
        ]
        target = _order([piece for _, _, piece in found], prefer)
        found = [(minus, late, aligned(piece, target)) for minus, late, piece in found]
        found.sort(key=lambda f: (f[0], f[1], f[2].axes == (), len(f[2].text), f[2].text))
        pieces = [piece for _, _, piece in found]
        text = ""
        for minus, _, piece in found:
            operand = piece.inside(MULTIPLY if minus else ADD)
            sign = "-" if minus else "+"
            text = f"{text} {sign} {operand}" if text else f"-{operand}" if minus else operand
        return Piece(text, ADD, _joint(pieces, target))

    def product(self, factors: Sequence[Expr], prefer: Sequence[Index]) -> Piece:
        """Elementwise product; numbers first, then the seed, what is divided by last."""
        for factor in factors:
            if isinstance(factor, sp.KroneckerDelta):
                return self.on_diagonal(factor, [f for f in factors if f is not factor])
        coefficient, above, below = sp.S.One, [], []
        for factor in factors:
            base, exponent = (factor, sp.S.One) if isinstance(factor, sp.exp) else factor.as_base_exp()
            if factor.is_Add:
                content = _content(factor)
                coefficient *= content
                factor = sp.Add(*(t / content for t in factor.args))
            if isinstance(factor, sp.exp) and factor.exp.could_extract_minus_sign() and not factor.exp.is_Add:
                below.append(sp.exp(-factor.exp))
            elif factor.is_Rational:
                coefficient *= factor
            elif isinstance(exponent, sp.Expr) and exponent.is_number and exponent.is_negative:
                below.append(base ** (-exponent))
            else:
                above.append(factor)
        return self._fraction(coefficient, above, below, prefer)

    def _fraction(self, coefficient: Expr, above: list[Expr], below: list[Expr], prefer: Sequence[Index]) -> Piece:
        """coefficient · above / below."""
        sizes = [b for b in below if not _has_access(b) and not _indices(b)]
        below = [b for b in below if b not in sizes]
        above = sorted(above, key=lambda f: (not _plain(f), not _mentions_seed(f), _weight(f)))
        pieces = [self.write(f, prefer) for f in above]
        under = [self.write(b, prefer) for b in below]
        target = _order([*pieces, *under], prefer)
        sign = "-" if coefficient < 0 else ""
        parts = [aligned(p, target).inside(MULTIPLY if n == 0 else NEGATE) for n, p in enumerate(pieces)]
        if abs(coefficient).p != 1 or not parts:
            parts = [str(abs(coefficient).p), *(p if n else self._operand(pieces[0], target) for n, p in enumerate(parts))]
        text = " * ".join(parts)
        divisors = [aligned(u, target).inside(ATOM if u.binds < POWER else POWER) for u in under]
        if sizes or abs(coefficient).q != 1:
            divisor = self.size_product(sizes, abs(coefficient).q)
            divisors.append(divisor.inside(POWER))
        for divisor_text in divisors:
            text = f"{text} / {divisor_text}"
        binds = MULTIPLY if len(parts) > 1 or divisors else (pieces[0].binds if pieces else ATOM)
        if len(parts) == 1 and not divisors and pieces:
            text = aligned(pieces[0], target).text
        if sign:
            text = f"-{text}" if binds >= MULTIPLY else f"-({text})"
            binds = min(NEGATE, MULTIPLY) if binds >= MULTIPLY else NEGATE
        return Piece(text, binds, _joint([*pieces, *under], target))

    def on_diagonal(self, factor: Expr, rest: Sequence[Expr]) -> Piece:
        """δ_pq·f(p) is f.diag()."""
        p, q = factor.args
        if not (isinstance(p, Index) and isinstance(q, Index)):
            raise NoForm
        inner = self.write(sp.Mul(*rest).xreplace({q: p}), (p,))
        if inner.axes not in ((p,), ()):
            raise NoForm
        if not inner.axes:
            inner = method(inner, f"expand({self.texts.size(p.size)})", (p,))
        return method(inner, "diag()", (p, q))

    def _operand(self, piece: Piece, target: Sequence[Index]) -> str:
        """A factor that does not stand first."""
        return aligned(piece, target).inside(NEGATE)

    def size_product(self, sizes: Sequence[Expr], number: Expr) -> Piece:
        """A product of sizes, as numel() where it is one."""
        whole = sp.Mul(*sizes)
        texts = [] if number == 1 else [str(number)]
        if sizes:
            for tensor in self.program.inputs:
                if len(tensor.shape) > 1 and whole == sp.Mul(*tensor.shape):
                    texts.append(f"{tensor.name}.numel()")
                    break
            else:
                parts = [self.number(s) for s in sizes]
                texts += [p.inside(MULTIPLY if len(parts) > 1 else COMPARE) for p in parts]
                if len(sizes) == 1 and number == 1:
                    return parts[0]
        return Piece(" * ".join(texts), ATOM if len(texts) == 1 else MULTIPLY, ())

    def power(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """x ** 2, x.sqrt()."""
        base, exponent = node.as_base_exp()
        inner = self.write(base, prefer)
        if exponent == sp.Rational(1, 2):
            return method(inner, "sqrt()", inner.axes)
        raised = self.write(exponent, prefer)
        target = _order([inner, raised], prefer)
        left, right = aligned(inner, target).inside(ATOM), aligned(raised, target).inside(ATOM)
        return Piece(f"{left} ** {right}", POWER, _joint([inner, raised], target))

    def condition(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """[x > 0] is (x > 0); conditions on indices have no notation."""
        relation = node.args[0]
        if relation.func not in RELATIONS or not _has_access(relation):
            raise NoForm
        pieces = [self.write(a, prefer) for a in relation.args]
        target = _order(pieces, prefer)
        left, right = (aligned(p, target).inside(ADD) for p in pieces)
        return Piece(f"{left} {RELATIONS[relation.func]} {right}", COMPARE, _joint(pieces, target))

    def softmax(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """The softmax of a piece along one of its axes."""
        inner = self.write(node.args[0], prefer)
        along = list(node.args[1])
        if len(along) != 1 or along[0] not in inner.axes:
            raise NoForm
        return Piece(f"softmax({inner.text}, dim={_axis(inner.axes, along[0])})", ATOM, inner.axes)

    # Sums: a matrix product where two groups of factors meet in one index, else the sum of a product -------

    def sum(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """Σ over one index as a matrix product, over several as a sum of a product, else einsum."""
        bound = [limit[0] for limit in node.limits]
        factors = split_factors(node.function) if node.function.is_Mul else [node.function]
        if isinstance(node, Mean):
            return self.sum_of_product(factors, bound, prefer, "mean")
        ways = (self.matrix_product, self.sum_of_product, self.contraction)
        for write in ways:
            try:
                return write(factors, bound, prefer)
            except NoForm:
                continue
        raise NoForm

    def matrix_product(self, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Piece:
        """Σ_k f[p,k]·g[k,q] is f @ g, either side a vector or a product of factors."""
        if len(bound) != 1 or len(factors) < 2:
            raise NoForm
        (k,) = bound
        batch = [i for i in prefer if i != k and all(i in _indices(f) for f in factors)]
        groups = _components(factors, {k, *batch})
        if len(groups) != 2:
            raise NoForm
        free = [[i for i in _indices(sp.Mul(*g)) if i != k and i not in batch] for g in groups]
        if any(len(f) > 1 for f in free) or not any(free) or (batch and not all(free)):
            raise NoForm
        first, second = sorted(range(2), key=lambda n: _place(free[n], prefer))
        rows, columns = tuple(free[first]), tuple(free[second])
        if not columns and _mentions_seed(sp.Mul(*groups[second])):
            first, second, rows, columns = second, first, columns, rows
        left = matrix(self._group(groups[first], (*batch, *rows, k)), (*batch, *rows, k))
        right = matrix(self._group(groups[second], (*batch, k, *columns)), (*batch, k, *columns))
        return matmul(left, right, (*batch, *rows, *columns))

    def _group(self, factors: list[Expr], prefer: Sequence[Index]) -> Piece:
        """The elementwise product of some factors."""
        return self.write(factors[0], prefer) if len(factors) == 1 else self.product(factors, prefer)

    def sum_of_product(
        self, factors: list[Expr], bound: list[Index], prefer: Sequence[Index], word: str = "sum"
    ) -> Piece:
        """Σ_k f[p,k]·g[p,k] is (f * g).sum(-1)."""
        body = self._group(factors, _body_order(factors, bound, prefer))
        if not set(bound) <= set(body.indices()) or None in body.axes:
            raise NoForm
        if not any(_indices(f) >= set(body.indices()) for f in factors):
            raise NoForm
        places = [n for n, a in enumerate(body.axes) if a in bound]
        dims = [str(n - len(body.axes) if n == len(body.axes) - 1 and n else n) for n in places]
        dim = dims[0] if len(dims) == 1 else f"({', '.join(dims)})"
        rest: Axes = tuple(a for a in body.axes if a not in bound)
        kept_axes: Axes = tuple(None if a in bound else a for a in body.axes)
        kept_dim = "-1" if len(body.axes) == 1 else dim
        kept = method(body, f"{word}({kept_dim}, keepdim=True)", kept_axes)
        plain = method(body, f"{word}({dim if rest else ''})", rest)
        return Piece(plain.text, ATOM, rest, kept)

    def contraction(self, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Piece:
        """Any other sum of products is an einsum."""
        pieces = [self.write(f, prefer) for f in factors]
        if any(None in p.axes or not p.axes for p in pieces):
            raise NoForm
        axes = list(dict.fromkeys(i for p in pieces for i in p.indices()))
        if not set(bound) <= set(axes) or len(axes) > 20:
            raise NoForm
        letters = {i: "ijklmnopqrstuvwxyzab"[n] for n, i in enumerate(axes)}
        output = [i for i in prefer if i in axes and i not in bound]
        output += [i for i in axes if i not in bound and i not in output]
        terms = ",".join("".join(letters[i] for i in p.indices()) for p in pieces)
        text = f'einsum("{terms}->{"".join(letters[i] for i in output)}", {", ".join(p.text for p in pieces)})'
        return Piece(text, ATOM, tuple(output))

    def _shape(self, name: str) -> Sequence[Size]:
        """The shape of a tensor of the program, or of the seed."""
        return self.program.out.shape if name == "v" else self.program.tensor(name).shape

    def whole(self, node: Expr, axes: Sequence[Index], wanted: str) -> Piece:
        """``node`` in exactly the shape of ``wanted``."""
        piece = self.write(node, axes)
        if piece.axes == tuple(axes):
            return piece
        if set(piece.indices()) == set(axes) and None not in piece.axes:
            return permuted(piece, tuple(axes))
        lined = aligned(piece, axes)
        return method(lined, f"expand({wanted}.shape)", tuple(axes))


def _indices(node: Expr) -> set[Index]:
    """The free indices of an expression."""
    return {s for s in node.free_symbols if isinstance(s, Index)}


def _has_access(node: Expr) -> bool:
    """Whether any tensor is read."""
    return any(is_access(n) for n in sp.preorder_traversal(node))


def _mentions_seed(node: Expr) -> bool:
    """Whether the seed or a named cotangent is read."""
    return any(name_of(n) == "v" or name_of(n).startswith("g_") for n in sp.preorder_traversal(node) if is_access(n))


def _plain(node: Expr) -> bool:
    """Whether a factor is a single access."""
    return bool(is_access(node))


def _weight(node: Expr) -> tuple[int, str]:
    """Short factors first; by text where they are as long."""
    return int(sp.count_ops(node)), str(node)


def _content(node: Expr) -> Expr:
    """The number that divides every coefficient of a sum, negative when every term is."""
    content, _ = node.primitive()
    return -content if all(t.could_extract_minus_sign() for t in node.args) else content


def _axis(axes: Axes, index: Index) -> int:
    """The place of ``index``, -1 for the last."""
    place = axes.index(index)
    return -1 if place == len(axes) - 1 else place


def _order(pieces: Sequence[Piece], prefer: Sequence[Index]) -> tuple[Index, ...]:
    """The axes of all pieces: as preferred, else as the largest piece has them."""
    found = list(dict.fromkeys(i for p in sorted(pieces, key=lambda p: -len(p.axes)) for i in p.indices()))
    return tuple([i for i in prefer if i in found] + [i for i in found if i not in prefer])


def _joint(pieces: Sequence[Piece], target: Sequence[Index]) -> Axes:
    """The axes that broadcasting the lined-up pieces gives."""
    lined = [aligned(p, target).axes for p in pieces]
    rank = max((len(a) for a in lined), default=0)
    result: list[Index | None] = [None] * rank
    for axes in lined:
        for place, axis in enumerate(axes, start=rank - len(axes)):
            result[place] = axis if axis is not None else result[place]
    return tuple(result)


def _components(factors: Sequence[Expr], apart: set[Index]) -> list[list[Expr]]:
    """Factors grouped so that those which share a free index, other than those ``apart``, are together."""
    groups: list[tuple[set[Index], list[Expr]]] = []
    for factor in factors:
        free = _indices(factor) - apart
        joined = [g for g in groups if g[0] & free]
        merged = (free.union(*(g[0] for g in joined)), [f for g in joined for f in g[1]] + [factor])
        groups = [g for g in groups if not any(g is j for j in joined)] + [merged]
    loose = [g for g in groups if not g[0]]
    if len(groups) > 2 and len(loose) > 1:
        groups = [g for g in groups if g[0]] + [(set(), [f for g in loose for f in g[1]])]
    if len(groups) == 3 and len(loose) == 1:
        bound = [g for g in groups if g[0]]
        groups = [(bound[0][0], [*bound[0][1], *loose[0][1]]), bound[1]]
    return [g[1] for g in groups]


def _place(free: Sequence[Index], prefer: Sequence[Index]) -> int:
    """Where a group's index stands in the result; a group without one goes to the side that is left."""
    return list(prefer).index(free[0]) if free and free[0] in prefer else len(prefer)


def _body_order(factors: Sequence[Expr], bound: Sequence[Index], prefer: Sequence[Index]) -> tuple[Index, ...]:
    """The axes under a sum in the order of the largest factor, so that nothing need be transposed."""
    body = set().union(*(_indices(f) for f in factors))
    for factor in factors:
        for node in sp.preorder_traversal(factor):
            if is_access(node) and set(indices_of(node)) == body and len(indices_of(node)) == len(body):
                return tuple(indices_of(node))
    return (*bound, *prefer)
