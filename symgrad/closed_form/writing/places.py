"""What is written at positions: an entry goes where a tensor of whole numbers says.

    Σ_j δ(p, n[j])·v[j,q]                       →  zeros_like(x).index_add(0, n, v)
    Σ_j δ(q, n[p,j])·v[p,j]                     →  zeros_like(x).scatter_add(1, n, v)
    δ(q, n[p])·v[p]                             →  v[:, None] * one_hot(n, x.shape[1])
    δ(p, n[q])·v[q]                             →  zeros_like(x).scatter_add(0, n[None], v[None])
    Σ_j,k δ(p·m + q, n[j,k])·v[j,k]             →  zeros_like(x).flatten().scatter_add(0, n.flatten(), v.flatten())…

Comes in: the δ and what it multiplies. Goes out: the call; None where no call says it.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.texts.notation import Notation, shape_of
from symgrad.closed_form.texts.pieces import ATOM, MULTIPLY, Piece, bracketed, flat
from symgrad.closed_form.texts.size_text import size_text
from symgrad.indexing import Index
from symgrad.indexing.brackets import Ravel
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of


def written_at(
    notation: Notation, delta: Expr, seed: Expr, beside: Sequence[Expr], axes: Sequence[Index], wanted: str
) -> str | None:
    """index_add for positions that hold for whole slices, scatter_add for positions of single entries.

    What stands ``beside`` the seed has no axis of its own.
    """
    for here, there in (delta.args, delta.args[::-1]):
        target = here.indices if isinstance(here, Ravel) else (here,)
        read = there.args[0] if isinstance(there, sp.Mod) else there
        if is_access(read) and "·" not in name_of(read) and set(target) <= set(axes):
            first = list(axes).index(target[0])
            if tuple(axes[first : first + len(target)]) != tuple(target):
                return None
            sizes = shape_of(notation, name_of(read))
            if any(not isinstance(i, Index) and size != 1 for i, size in zip(indices_of(read), sizes, strict=True)):
                return None  # one of several positions
            positions = first_ones(notation, read, seed)
            if read is not there:  # counted from the end
                size = bracketed(*size_text(there.args[1], notation.program.inputs), ATOM)
                positions = Piece(f"{positions.inside(MULTIPLY)} % {size}", MULTIPLY, positions.axes)
            return along(notation, (first, len(target)), positions, seed, beside, axes, wanted)
    return None


def first_ones(notation: Notation, read: Expr, seed: Expr) -> Piece:
    """The positions that are read: the whole tensor, or as many as the seed has entries, ``n[:2]``."""
    indices, given = indices_of(read), shape_of(notation, name_of(seed))
    whole = {i for i, size in zip(indices_of(seed), given, strict=True) if isinstance(i, Index) and i.size == size}
    found = Piece(*notation.texts.tensor(name_of(read)), indices)
    pairs = list(zip(indices, shape_of(notation, name_of(read)), strict=True))
    fewer = [index in whole and index.size != size for index, size in pairs]
    if not any(fewer):
        return found
    cut = [f":{notation.texts.size(i.size)}" if less else ":" for i, less in zip(indices, fewer, strict=True)]
    return Piece(f"{found.inside(ATOM)}[{', '.join(cut)}]", ATOM, indices)


def along(
    notation: Notation, place: tuple[int, int], positions: Piece, seed: Expr, beside: Sequence[Expr],
    axes: Sequence[Index], wanted: str,
) -> str | None:  # fmt: skip
    """The call that adds at positions on so many axes from the first on; None where the other axes do not agree."""
    first, count = place
    before, after = tuple(axes[:first]), tuple(axes[first + count :])
    own, numbers = indices_of(seed), positions.axes
    middle = own[len(before) : len(own) - len(after)]
    if own[: len(before)] != before or own[len(own) - len(after) :] != after:
        return None
    given = [shape_of(notation, name_of(seed))[n] for n, index in enumerate(own) if index in (*before, *after)]
    slices = all(index.size == size for index, size in zip((*before, *after), given, strict=True))
    moving = tuple(index for index in middle if isinstance(index, Index))
    if any(index in axes for index in moving) or any(not isinstance(m, Index) and m != 0 for m in middle):
        return None
    moved = Piece(*notation.texts.tensor(name_of(seed)), own)
    if beside:
        moved = flat(notation.write(sp.Mul(*beside, seed), own))
        if moved.axes != own:
            return None
    if slices and count == 1 and len(middle) == 1 and numbers == tuple(middle) and moving:
        return f"zeros_like({wanted}).index_add({first}, {positions.text}, {moved.text})"
    if slices and count == 1 and numbers == moving and len(moving) > 1 and len(middle) == len(moving):
        flatly = f"{positions.inside(ATOM)}.flatten()", flattened(moved, first, len(middle), len(own))
        return f"zeros_like({wanted}).index_add({first}, {flatly[0]}, {flatly[1]})"
    if numbers != own:
        return None
    if count == 1 and not middle and first == len(axes) - 1:
        if not slices:
            return None  # one_hot has as many rows as there are positions
        one_hot = f"one_hot({positions.text}, {notation.texts.size(axes[-1].size)})"
        return f"{moved.inside(ATOM)}[{', '.join([':'] * len(own) + ['None'])}] * {one_hot}"
    one = flattened(positions, first, len(middle), len(own)), flattened(moved, first, len(middle), len(own))
    whole = flattened(Piece(f"zeros_like({wanted})", ATOM, tuple(axes)), first, count, len(axes))
    back = "" if count == 1 else f".reshape({wanted}.shape)"
    return f"{whole}.scatter_add({first}, {one[0]}, {one[1]}){back}"


def flattened(piece: Piece, first: int, count: int, rank: int) -> str:
    """``count`` axes from the first on as one: a new one for none."""
    if count == 1:
        return piece.text
    text = piece.inside(ATOM)
    if count == 0:
        return f"{text}[{', '.join([':'] * first + ['None'])}]"
    if rank == count:
        return f"{text}.flatten()"
    return f"{text}.flatten({first})" if first + count == rank else f"{text}.flatten({first}, {first + count - 1})"
