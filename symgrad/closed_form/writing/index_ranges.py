"""Writing what is 0 outside of some range: triangles, a smaller tensor with zeros around it, parts side by side.

Writing matrices that are 0 off their diagonal: f.diag(), and c * eye(n) where every entry there is the same.

Comes in: δ(p, q) and what it multiplies. Goes out: a piece; `NoForm` where one of the two is no index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy as sp

from symgrad.closed_form.fragments import ATOM, MULTIPLY, NoForm, Piece, flat, method, permuted
from symgrad.closed_form.notation import Notation
from symgrad.closed_form.rewriting.shorthands import reads_tensor
from symgrad.indexing import Bracket, Index, fresh, summed
from symgrad.indexing.brackets import ORDERS, STRICT, whole_gap
from symgrad.indexing.equation import with_fresh_sums
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, bound_indices, free_indices


def is_edge(factor: Expr) -> bool:
    """Whether a factor is a condition on indices alone, or picks one place of an axis."""
    if isinstance(factor, sp.KroneckerDelta):
        return (
            not reads_tensor(factor)
            and len(free_indices(factor)) == 1
            and any(isinstance(side, Index) for side in factor.args)
        )
    return isinstance(factor, Bracket) and not reads_tensor(factor)


def has_edge(term: Expr) -> bool:
    """Whether a product is 0 outside of some range."""
    return any(map(is_edge, split_factors(term)))


def within_edges(notation: Notation, factors: Sequence[Expr], prefer: Sequence[Index]) -> Piece:
    """A product with conditions on indices among its factors."""
    edges = [f for f in factors if is_edge(f)]
    rest = [f for f in factors if f not in edges]
    if len(edges) == 1 and len(free_indices(edges[0])) == 2:
        return triangle(notation, edges[0], rest, prefer)
    return padded(notation, edges, rest, prefer)


def triangle(notation: Notation, factor: Expr, rest: Sequence[Expr], prefer: Sequence[Index]) -> Piece:
    """[q ≤ p + d]·f[p,q] is f.tril(d), [q ≥ p + d]·f[p,q] is f.triu(d), also of each matrix of a stack."""
    inner = notation.write(sp.Mul(*rest), prefer)
    axes = flat(inner).indices()
    if len(axes) < 2 or free_indices(factor) != set(axes[-2:]):
        raise NoForm
    relation = factor.args[0]
    row, column = axes[-2:]
    difference = sp.expand(relation.gts - relation.lts) if relation.func in ORDERS else sp.S.Zero
    slope = difference.coeff(column)
    if slope not in (1, -1) or difference.coeff(row) != -slope:
        raise NoForm
    offset = -slope * (difference - slope * (column - row)) + (slope if relation.func in STRICT else 0)
    if not offset.is_Integer:
        raise NoForm
    word = "triu" if slope == 1 else "tril"
    return method(flat(inner), f"{word}({offset})" if offset else f"{word}()", axes)


def padded(notation: Notation, edges: Sequence[Expr], rest: Sequence[Expr], prefer: Sequence[Index]) -> Piece:
    """[a ≤ q]·[q < b]·f(q) is f(a), …, f(b − 1) with zeros before and behind: pad(f, (a, n − b))."""
    ranges = ranges_of(notation, edges)
    body, inner = counted_from_start(sp.Mul(*rest), ranges)
    piece = flat(notation.write(body, [inner.get(i, i) for i in prefer]))
    axes = tuple(i for i in prefer if i in ranges or i in piece.axes)
    own = [inner.get(i, i) for i in axes if inner.get(i, i) in piece.axes]
    beside = [i for i in axes if inner.get(i, i) not in own]
    if not set(ranges) <= set(axes) or len(own) < len(piece.axes) or any(inner.get(i, i).size != 1 for i in beside):
        raise NoForm
    piece = permuted(piece, own)
    if not reads_tensor(sp.Mul(*rest)):
        raise NoForm  # a number has no axis that margins could be put around
    if beside:  # the axis of one place that was picked is not in what is put there
        items = ["None" if i in beside else ":" for i in axes]
        piece = Piece(f"{piece.inside(ATOM)}[{', '.join(items)}]", ATOM, axes)
    margins: list[str] = []
    for axis in reversed(axes[min(axes.index(q) for q in ranges) :]):
        start, stop = ranges.get(axis, (sp.S.Zero, axis.size))
        margins += [notation.texts.size(sp.expand(n)) for n in (start, axis.size - stop)]
    return Piece(f"pad({piece.text}, ({', '.join(margins)}))", ATOM, axes)


def ranges_of(notation: Notation, edges: Sequence[Expr]) -> dict[Index, tuple[Expr, Expr]]:
    """Where each index starts and stops by conditions on one index each; NoForm where that may be outside its axis."""
    ranges: dict[Index, tuple[Expr, Expr]] = {}
    for edge in edges:
        if len(free_indices(edge)) != 1:
            raise NoForm
        (q,) = free_indices(edge)
        ranges[q] = narrowed(edge, q, *ranges.get(q, (sp.S.Zero, q.size)))
    amounts = (n for q, (start, stop) in ranges.items() for n in (start, stop - start, q.size - stop))
    if not all(map(notation.is_size, amounts)):
        raise NoForm
    return ranges


def counted_from_start(body: Expr, ranges: Mapping[Index, tuple[Expr, Expr]]) -> tuple[Expr, dict[Index, Index]]:
    """``body`` inside its ranges, by indices of their lengths that count from where they start."""
    inner = {q: fresh(q.name, sp.expand(stop - start)) for q, (start, stop) in ranges.items()}
    if not ranges.keys().isdisjoint(bound_indices(body)):  # a sum inside has a letter of its own
        body = with_fresh_sums(body)
    return body.xreplace({q: inner[q] + start for q, (start, _) in ranges.items()}), inner


def within_range(notation: Notation, factors: Sequence[Expr], bound: Sequence[Index], prefer: Sequence[Index]) -> Piece:
    """Σ_k [a ≤ k]·[k < b]·f(k) is f added up from a to b − 1: what is 0 is not read, as it may not be there."""
    edges = [f for f in factors if is_edge(f) and free_indices(f) <= set(bound)]
    if not edges or len(edges) == len(factors):
        raise NoForm
    rest = sp.Mul(*(f for f in factors if f not in edges))
    body, inner = counted_from_start(rest, ranges_of(notation, edges))
    return notation.write(summed(body, [inner.get(k, k) for k in bound]), prefer)


def side_by_side(notation: Notation, terms: Sequence[Expr], prefer: Sequence[Index]) -> Piece | None:
    """[q < a]·f(q) + [q ≥ a]·g(q), two parts that fill an axis, is cat([f, g]); None where the terms are no such parts.

    Parts of one place each are a stack.
    """
    parts: dict[tuple[Expr, Expr], list[Expr]] = {}
    along: set[Index] = set()
    for term in terms:
        factors = split_factors(term)
        edges = [f for f in factors if is_edge(f)]
        along |= {index for edge in edges for index in free_indices(edge)}
        if not edges or len(along) != 1:
            return None
        (q,) = along
        reach: tuple[Expr, Expr] = (sp.S.Zero, q.size)
        for edge in edges:
            reach = narrowed(edge, q, *reach)
        parts.setdefault(reach, []).append(sp.Mul(*(f for f in factors if f not in edges)))
    (q,) = along
    found = filling(q, list(parts))
    if len(parts) < 2 or found is None or q not in prefer:
        return None
    inner = [fresh(q.name, sp.expand(stop - start)) for start, stop in found]
    bodies = [sp.Add(*parts[reach]).xreplace({q: i + reach[0]}) for i, reach in zip(inner, found, strict=True)]
    pieces = [notation.write(body, [i if p is q else p for p in prefer]) for i, body in zip(inner, bodies, strict=True)]
    axes = tuple(i for i in prefer if i is q or any(i in piece.axes for piece in pieces))
    place = axes.index(q)
    if not any(map(reads_tensor, bodies)):
        return None  # numbers side by side are no tensor
    if all(i.size == 1 and i not in piece.axes for i, piece in zip(inner, pieces, strict=True)):
        stacked, wanted = True, [tuple(i for i in axes if i is not q)] * len(pieces)
    else:
        stacked, wanted = False, [tuple(i if p is q else p for p in axes) for i in inner]
    if any(set(piece.indices()) != set(own) for piece, own in zip(pieces, wanted, strict=True)):
        return None  # what is broadcast along another axis does not fill its part
    texts = ", ".join(permuted(piece, own).text for piece, own in zip(pieces, wanted, strict=True))
    last = "" if place == 0 else ", -1" if place == len(axes) - 1 else f", {place}"
    return Piece(f"stack([{texts}]{last})" if stacked else f"cat([{texts}]{last})", ATOM, axes)


def within_common_edges(terms: Sequence[Expr]) -> list[Expr]:
    """[q < a]·f(q) + [q < a]·g(q) as [q < a]·(f(q) + g(q))."""
    groups: dict[frozenset[Expr], list[Expr]] = {}
    for term in terms:
        factors = split_factors(term)
        edges = frozenset(filter(is_edge, factors))
        groups.setdefault(edges, []).append(sp.Mul(*(f for f in factors if f not in edges)))
    return [sp.Mul(*edges, sp.Add(*rests)) for edges, rests in groups.items()]


def filling(q: Index, reaches: Sequence[tuple[Expr, Expr]]) -> list[tuple[Expr, Expr]] | None:
    """Parts in their order, where they fill an axis without gap or overlap."""
    found: list[tuple[Expr, Expr]] = []
    edge: Expr = sp.S.Zero
    for _ in reaches:
        following = [reach for reach in reaches if reach not in found and sp.expand(reach[0] - edge) == 0]
        if len(following) != 1:
            return None
        found += following
        edge = following[0][1]
    return found if sp.expand(edge - q.size) == 0 else None


def narrowed(edge: Expr, q: Index, start: Expr, stop: Expr) -> tuple[Expr, Expr]:
    """Where q starts and stops by one more condition; which edge is the nearer one has to be plain."""
    if isinstance(edge, sp.KroneckerDelta):
        (place,) = (side for side in edge.args if side is not q)
        if (start, stop) == (0, q.size) and not free_indices(place):
            return place, place + 1
        raise NoForm
    relation = edge.args[0]
    if relation.func not in ORDERS:
        raise NoForm
    above = whole_gap(relation)
    slope = above.coeff(q)
    if slope == 1 and (start == 0 or (q - above - start).is_nonnegative):
        return q - above, stop
    if slope == -1 and (stop == q.size or (stop - above - q - 1).is_nonnegative):
        return start, above + q + 1
    raise NoForm


def on_diagonal(notation: Notation, factor: Expr, rest: Sequence[Expr]) -> Piece:
    """δ_pq·f(p) is f.diag(), with zeros behind it where there are more rows or columns."""
    p, q = factor.args
    if not (isinstance(p, Index) and isinstance(q, Index)):
        raise NoForm
    less, more = (p, q) if notation.is_size(q.size - p.size) else (q, p)
    behind = sp.expand(more.size - less.size)
    inner = flat(notation.write(sp.Mul(*rest).xreplace({more: less}), (less,)))
    if inner.axes not in ((less,), ()) or not notation.is_size(behind):
        raise NoForm
    if not inner.axes and (notation.is_hessian or not any(sign.isalpha() for sign in inner.text)):
        return identity(notation, inner, p, q)
    if not inner.axes:
        inner = repeated(notation, inner, less)
    square = method(inner, "diag()", (less, more))
    if behind == 0:
        return square
    return Piece(f"pad({square.text}, (0, {notation.texts.size(behind)}))", ATOM, (less, more))


def identity(notation: Notation, number: Piece, p: Index, q: Index) -> Piece:
    """A number on the diagonal of a matrix."""
    sizes = ", ".join(dict.fromkeys(notation.texts.size(index.size) for index in (p, q)))
    one = Piece(f"eye({sizes})", ATOM, (p, q))
    if number.text == "1":
        return one
    above, slash, below = number.text.partition(" / ")
    if slash and number.binds == MULTIPLY and above.isalnum():
        text = f"{one.text} / {below}" if above == "1" else f"{above} * {one.text} / {below}"
    else:
        text = f"{number.inside(MULTIPLY)} * {one.text}"
    return Piece(text, MULTIPLY, (p, q))


def repeated(notation: Notation, number: Piece, index: Index) -> Piece:
    """A number at every place of a vector: by a vector of that size where there is one."""
    alike = [t.name for t in notation.program.inputs if t.shape == (index.size,)]
    if not alike:
        return method(number, f"expand({notation.texts.size(index.size)})", (index,))
    return Piece(f"{number.inside(MULTIPLY)} * ones_like({alike[0]})", MULTIPLY, (index,))
