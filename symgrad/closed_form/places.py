"""What is written at positions: an entry goes where a tensor of whole numbers says.

    Σ_j δ(p, n[j])·v[j,q]                       →  zeros_like(x).index_add(0, n, v)
    Σ_j δ(q, n[p,j])·v[p,j]                     →  zeros_like(x).scatter_add(1, n, v)
    δ(q, n[p])·v[p]                             →  zeros_like(x).scatter_add(1, n[:, None], v[:, None])
    Σ_j,k δ(p·m + q, n[j,k])·v[j,k]             →  zeros_like(x).flatten().scatter_add(0, n.flatten(), v.flatten())…

Comes in: the δ and what it multiplies. Goes out: the call; None where no call says it.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.closed_form.entries import shape_of
from symgrad.closed_form.notation import Notation
from symgrad.indexing import Index
from symgrad.indexing.brackets import Ravel
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of


def written_at(notation: Notation, delta: Expr, seed: Expr, axes: Sequence[Index], wanted: str) -> str | None:
    """index_add for positions that hold for whole slices, scatter_add for positions of single entries."""
    for here, there in (delta.args, delta.args[::-1]):
        target = here.indices if isinstance(here, Ravel) else (here,)
        if is_access(there) and "·" not in name_of(there) and set(target) <= set(axes):
            first = list(axes).index(target[0])
            if tuple(axes[first : first + len(target)]) != tuple(target):
                return None
            return along(notation, (first, len(target)), there, seed, axes, wanted)
    return None


def along(
    notation: Notation, place: tuple[int, int], there: Expr, seed: Expr, axes: Sequence[Index], wanted: str
) -> str | None:
    """The call that adds at positions on so many axes from the first on; None where the other axes do not agree."""
    first, count = place
    before, after = tuple(axes[:first]), tuple(axes[first + count :])
    own, numbers = indices_of(seed), indices_of(there)
    middle = own[len(before) : len(own) - len(after)]
    if own[: len(before)] != before or own[len(own) - len(after) :] != after:
        return None
    given = [shape_of(notation, name_of(seed))[n] for n, index in enumerate(own) if index in (*before, *after)]
    slices = all(index.size == size for index, size in zip((*before, *after), given, strict=True))
    moving = tuple(index for index in middle if isinstance(index, Index))
    if any(index in axes for index in moving) or any(not isinstance(m, Index) and m != 0 for m in middle):
        return None
    positions, moved = notation.texts.tensor(name_of(there))[0], notation.texts.tensor(name_of(seed))[0]
    if slices and count == 1 and len(middle) == 1 and numbers == tuple(middle) and moving:
        return f"zeros_like({wanted}).index_add({first}, {positions}, {moved})"
    if slices and count == 1 and numbers == moving and len(moving) > 1 and len(middle) == len(moving):
        last = first + len(middle) - 1
        flat = f"{positions}.flatten()", f"{moved}.flatten({first}, {last})"
        return f"zeros_like({wanted}).index_add({first}, {flat[0]}, {flat[1]})"
    if numbers != own:
        return None
    one = flattened(positions, first, len(middle), len(own)), flattened(moved, first, len(middle), len(own))
    whole = flattened(f"zeros_like({wanted})", first, count, len(axes))
    back = "" if count == 1 else f".reshape({wanted}.shape)"
    return f"{whole}.scatter_add({first}, {one[0]}, {one[1]}){back}"


def flattened(text: str, first: int, count: int, rank: int) -> str:
    """``count`` axes from the first on as one: a new one for none."""
    if count == 1:
        return text
    if count == 0:
        return f"{text}[{', '.join([':'] * first + ['None'])}]"
    if rank == count:
        return f"{text}.flatten()"
    return f"{text}.flatten({first})" if first + count == rank else f"{text}.flatten({first}, {first + count - 1})"
