"""Gradients that are convolutions: windows read backwards, and the weights' own.

In every one a place of the longer tensor, a step of the shorter one and a shift within the window belong together along
each axis of space: place = stride·step + dilation·shift − padding. Which of the three the gradient has for its own axes
says which call it is:

    the place    Σ_{o,k} v[n,o,k]·w[o,c,p−s·k+d]       conv_transpose1d(v, w, stride=s, padding=d)
    the step     Σ_{o,k} v[n,o,k]·w[c,o,k−s·p+d]       conv1d(v, w, stride=s, padding=d), for a transposed one
    the shift    Σ_{n,k} v[n,o,k]·x[n,c,s·k+r−d]       conv1d(x.transpose(0, 1), v.transpose(0, 1), padding=d,
                                                              dilation=s).transpose(0, 1)
                 … ·x[n,c+(C/g)·group of o,s·k+r−d]    conv1d(x.unflatten(1, (g, -1)).transpose(0, 2).flatten(1, 2), …,
                                                              groups=g).transpose(0, 1); of a transposed one v and x
                                                              stand the other way round
    no channels  Σ_k v[k]·w[p−k]                       conv_transpose1d(v[None], w[None, None])[0]

A stride may leave entries over at the end. How many is a formula in the sizes, so the text holds at every size: there
zeros are added (``output_padding``), or what is too long is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import sympy as sp

from symgrad.closed_form.fragments import Notation, shape_in_scope
from symgrad.closed_form.number_code import first_form, require_all
from symgrad.entries.operands import transposed_positions, window_count
from symgrad.indexing import Index, Unravel, access, fresh
from symgrad.indexing.symbols import Expr, free_indices, indices_of, name_of
from symgrad.language.python_text import COLON, call, index, method, to_code
from symgrad.language.syntax_tree import Slice
from symgrad.notation.tree import SyntaxNode
from symgrad.shapes import Size

Options = Mapping[str, SyntaxNode]
"""Arguments of a call by their names."""
MOST_AXES = 3
"""Axes that torch's pools and convolutions move along at most."""
CONVOLUTIONS = frozenset(f"{name}{n + 1}d" for name in ("conv", "conv_transpose") for n in range(MOST_AXES))
"""The calls that are written here."""


@dataclass(frozen=True)
class Slide:
    """place = ``stride``·step + ``dilation``·shift − ``padding`` along one axis."""

    stride: Expr
    dilation: Expr
    padding: Expr


AT_REST = Slide(sp.S.One, sp.S.One, sp.S.Zero)
"""A window of one entry that moves by one."""


@dataclass(frozen=True)
class ConvPair:
    """Σ over ``bound`` of v times another tensor, in ``node``, a gradient with ``axes``, of which ``space`` slide.

    ``bare`` tensors have axes of space only: the call has one channel in and one out.
    """

    notation: Notation
    node: Expr
    v: Expr
    other: Expr
    bound: frozenset[Index]
    axes: tuple[Index, ...]
    space: int
    bare: bool = False

    def split(self, indices: Sequence[Expr]) -> tuple[tuple[Expr, ...], Expr, tuple[Expr, ...]]:
        """Leading indices, the channel, and what slides."""
        require_all(len(indices) > self.space)
        return tuple(indices[: -self.space - 1]), indices[-self.space - 1], tuple(indices[-self.space :])

    def code(self, entry: Expr) -> SyntaxNode:
        """A tensor as code."""
        return self.notation.source.tensor(name_of(entry))

    def sizes(self, entry: Expr) -> Sequence[Size]:
        """A tensor's axes of space."""
        return shape_in_scope(self.notation, name_of(entry))[-self.space :]

    def given(self, tensors: Sequence[SyntaxNode]) -> Sequence[SyntaxNode]:
        """What is convolved and the kernel, as the call takes them: with axes of size 1 in front for channels."""
        return [index(tensors[0], [None]), index(tensors[1], [None, None])] if self.bare else tensors

    def taken(self, whole: SyntaxNode, ends: Sequence[SyntaxNode]) -> SyntaxNode:
        """What the call gives, as far as the gradient goes."""
        return index(whole, [*([0] if self.bare else [COLON] * (len(self.axes) - len(ends))), *ends])

    def by_channel(self, tensor: SyntaxNode, batch: bool) -> SyntaxNode:
        """A tensor with its channels in the place of the batch; as it is without any."""
        return self.turned(tensor) if self.bare or batch else index(tensor, [COLON, None])

    def turned(self, tensor: SyntaxNode) -> SyntaxNode:
        """A tensor with batch and channels in each other's place; as it is without channels."""
        return tensor if self.bare else method(tensor, "transpose", 0, 1)


def write_convolution(
    notation: Notation, node: Expr, v: Expr, other: Expr, bound: list[Index], axes: Sequence[Index]
) -> SyntaxNode:
    """The call that gives Σ v·other."""
    ways: tuple[Callable[[ConvPair], SyntaxNode], ...] = (
        write_input_gradient, partial(write_input_gradient, transposed=True),
        write_weight_gradient, partial(write_weight_gradient, transposed=True),
    )  # fmt: skip
    pairs = [ConvPair(notation, node, v, other, frozenset(bound), tuple(axes), n + 1) for n in range(MOST_AXES)]
    slides = any(axis.size != 1 for axis in axes)  # a single place is an inner product, not a convolution
    if slides and len(axes) == len(indices_of(v)) == len(indices_of(other)) <= MOST_AXES:
        pairs += add_single_channels(pairs[len(axes) - 1])
    require_all(name_of(v) == notation.program.seed)
    return first_form(partial(way, pair) for pair, way in product(pairs, ways))


def add_single_channels(pair: ConvPair) -> Iterator[ConvPair]:
    """A pair without channels as one with a single one, the other tensor being the kernel, and being convolved."""
    v, other = (access(name_of(t), (sp.S.Zero, *indices_of(t))) for t in (pair.v, pair.other))
    one = [fresh("o", sp.S.One) for _ in range(2)]
    kernel = access(name_of(other), (sp.S.Zero, *indices_of(other)))
    yield replace(pair, v=v, other=kernel, axes=(one[0], *pair.axes), bare=True)
    yield replace(pair, v=v, other=other, axes=(*one, *pair.axes), bare=True)


def solve_slide(index: Expr, longer: Expr, other: Expr) -> Slide:
    """``index`` as ⌊(longer − a·other + padding) / b⌋; what says that b divides it is left to the check by numbers.

    A window at a single place moves by 1.
    """
    parts = sp.Add.make_args(index)
    quotient = sp.Add(*(part.args[0] if isinstance(part, sp.floor) else part for part in parts))
    above, below = sp.fraction(sp.together(quotient))
    above = sp.expand(above)
    slope = -above.coeff(other) if free_indices(other) else sp.S.One
    padding = sp.expand(above - longer + slope * other)
    require_all(above.coeff(longer) == 1, slope.is_Integer, slope > 0, not free_indices(padding))
    return Slide(slope, below, padding)


def write_groups(pair: ConvPair, outputs: Expr, channel: Expr | None = None) -> Options:
    """``groups`` as an argument, where channels are numbered as (group, channel in the group) or each is a group."""
    numbers = {u.shape[0] for u in pair.node.atoms(Unravel) if u.number == outputs and u.axis == 0}
    if outputs == channel:
        numbers.add(channel.size)
    require_all(len(numbers) < 2)
    return {"groups": pair.notation.source.size(numbers.pop())} if numbers else {}


def write_option(notation: Notation, word: str, numbers: Sequence[Expr], usual: int) -> Options:
    """Whole numbers as an argument; none where all are as usual."""
    return {} if set(numbers) == {usual} else {word: write_one_or_each(notation, numbers)}


def write_one_or_each(notation: Notation, numbers: Sequence[Expr]) -> SyntaxNode:
    """One number where all are equal, else each."""
    each = [notation.source.size(number) for number in numbers]
    return each[0] if len(set(each)) == 1 else to_code(tuple(each))


USUAL = {"stride": 1, "padding": 0, "dilation": 1}
"""How windows lie if nothing else is said, in the order in which convolutions are told."""


def write_slides(notation: Notation, slides: Sequence[Slide], words: Iterable[str] = USUAL) -> Options:
    """How windows lie, as arguments in the order of ``words``."""
    found: dict[str, SyntaxNode] = {}
    for word in words:
        found |= write_option(notation, word, [getattr(slide, word) for slide in slides], USUAL[word])
    return found


def write_conv_call(
    pair: ConvPair, name: str, tensors: Sequence[SyntaxNode], slides: Sequence[Slide], more: Options
) -> SyntaxNode:
    """``name(first, second, stride=…, padding=…, …)``"""
    return call(f"{name}{pair.space}d", *pair.given(tensors), **write_slides(pair.notation, slides), **more)


def to_remainders(size: Size) -> Size:
    """A size with ⌊a/b⌋ as (a − a mod b) / b."""
    size = sp.expand(size)
    for floor in size.atoms(sp.floor):
        above, below = sp.fraction(sp.together(floor.args[0]))
        share = size.coeff(floor) / below
        left = above % below if above.is_Integer else sp.Mod(above, below, evaluate=False)
        size = sp.expand(size - size.coeff(floor) * floor + share * above) - share * left
    return size


def cut_to_axes(pair: ConvPair, whole: SyntaxNode, axes: Sequence[Index], differences: Sequence[Size]) -> SyntaxNode:
    """``whole`` cut to its last ``axes``, where it may be too long."""
    changed = zip(axes, differences, strict=True)
    ends = [pair.notation.source.size(axis.size) if difference != 0 else None for axis, difference in changed]
    return pair.taken(whole, [Slice(None, end, None) for end in ends])


def write_input_gradient(pair: ConvPair, transposed: bool = False) -> SyntaxNode:
    """v[n,o,k]·w[o,c,p−s·k+d] over o and k: a gradient of an input; v[n,o,k]·w[c,o,k−s·p+d] of a transposed one's."""
    (lead, outputs, moving), kernel = pair.split(indices_of(pair.v)), indices_of(pair.other)
    before, channel, own = pair.split(pair.axes)
    places, steps = (moving, own) if transposed else (own, moving)
    sides = (channel, outputs) if transposed else (outputs, channel)
    groups = write_groups(pair, *sides)
    require_all(len(kernel) == pair.space + 2, lead == before)
    require_all(runs_along(kernel[0], sides[0]), bool(groups) or runs_along(kernel[1], sides[1]))
    summed = (index for index, place in zip(moving, own, strict=True) if index != place)
    require_all(pair.bound == running_indices(outputs, *summed) - {channel})
    slides = [
        AT_REST if shift == 0 and place == step else solve_slide(shift, place, step)
        for shift, place, step in zip(kernel[2:], places, steps, strict=True)
    ]
    tensors = [pair.code(pair.v), pair.code(pair.other)]
    if transposed:
        whole = write_conv_call(pair, "conv", tensors, slides, groups)
        return cut_to_axes(pair, whole, own, places_left_over(pair, pair.v, pair.other, slides, own))
    along = zip(pair.sizes(pair.v), pair.sizes(pair.other), slides, places, strict=True)
    left = [to_remainders(i.size - transposed_positions(n, k, s.stride, s.padding, s.dilation)) for n, k, s, i in along]
    if all(n.is_nonnegative for n in left):
        slides = [widen_slide_step(slide, n, step) for slide, n, step in zip(slides, left, steps, strict=True)]
        more = {**write_option(pair.notation, "output_padding", left, 0), **groups}
        return pair.taken(write_conv_call(pair, "conv_transpose", tensors, slides, more), ())
    require_all(all(n.is_nonpositive for n in left))
    whole = write_conv_call(pair, "conv_transpose", tensors, slides, groups)
    return cut_to_axes(pair, whole, places, left)


def widen_slide_step(slide: Slide, left: Size, step: Expr) -> Slide:
    """``slide`` with a stride, or a dilation, of more than is left over, as torch wants it.

    A window at a single place may move by any.
    """
    least = left.args[1] if isinstance(left, sp.Mod) else left + 1
    if free_indices(step) or least == 1:
        return slide
    require_all(least.is_Integer)
    return replace(slide, stride=least)


def write_weight_gradient(pair: ConvPair, transposed: bool = False) -> SyntaxNode:
    """v[n,o,k]·x[n,c,s·k+r−d] over n and k: a gradient of weights; v[n,o,k]·x[n,c,k−r+d] of a transposed convolution's.

    The shorter tensor is a window over the longer one, channels in the place of the batch; of each group its own.
    """
    require_all(len(pair.axes) == pair.space + 2)
    longer, shorter = (pair.v, pair.other) if transposed else (pair.other, pair.v)
    (lead, outputs, steps), (before, channel, places) = (pair.split(indices_of(t)) for t in (shorter, longer))
    groups = count_groups(channel, pair.axes[0], pair.axes[1])
    require_all(lead == before, runs_along(outputs, pair.axes[0]), bool(groups) or runs_along(channel, pair.axes[1]))
    require_all(pair.bound == running_indices(*lead, *(places if transposed else steps)), bool(lead) or groups is None)
    along, shifts = list(zip(places, pair.axes[2:], steps, strict=True)), pair.axes[2:]
    if transposed:
        slides = [solve_slide(step, place, shift) for place, shift, step in along]
    else:
        slides = [AT_REST if groups and p == step else solve_straight(p, shift, step) for p, shift, step in along]
    tensors, more = [pair.by_channel(pair.code(t), bool(lead)) for t in (longer, shorter)], dict[str, SyntaxNode]()
    if groups is not None:
        more = {"groups": pair.notation.source.size(groups)}
        split = method(pair.code(longer), "unflatten", 1, (more["groups"], -1))
        tensors[0] = method(method(split, "transpose", 0, 2), "flatten", 1, 2)
    whole = pair.turned(write_conv_call(pair, "conv", tensors, slides, more))
    return cut_to_axes(pair, whole, shifts, places_left_over(pair, longer, shorter, slides, shifts))


def count_groups(channel: Expr, outputs: Index, own: Index) -> Size | None:
    """How many groups there are, of the channel c + (channels in a group)·(group of o); None for one."""
    rest = sp.expand(channel - own) if channel.has(own) else channel
    if own.size == 1 and rest == outputs:
        return outputs.size
    number, many = rest.as_independent(Unravel)
    fits = isinstance(many, Unravel) and many.number == outputs and many.axis == 0 and number == own.size
    return many.shape[0] if fits else None


def running_indices(*indices: Expr) -> set[Index]:
    """Those that run: on an axis of size 1 an index is 0."""
    return {i for i in indices if isinstance(i, Index)}


def solve_straight(place: Expr, shift: Expr, step: Expr) -> Slide:
    """a·shift + b·step − padding; one that is not in it moves by 1, from 0"""
    slopes = {i: place.coeff(i) for i in (shift, step) if place.has(i)}
    padding = sp.expand(sp.Add(*(slope * i for i, slope in slopes.items())) - place)
    require_all(all(s.is_Integer and s > 0 for s in slopes.values()), not free_indices(padding))
    return Slide(slopes.get(shift, sp.S.One), slopes.get(step, sp.S.One), padding)


def places_left_over(
    pair: ConvPair, longer: Expr, shorter: Expr, slides: Sequence[Slide], axes: Sequence[Index]
) -> list[Size]:
    """How many places more than each of ``axes`` a window has; `NoForm` where there may be fewer."""
    left = [
        sp.expand(window_count(n, to_remainders(k), s.stride, s.padding, s.padding, s.dilation) - i.size)
        for n, k, s, i in zip(pair.sizes(longer), pair.sizes(shorter), slides, axes, strict=True)
    ]
    require_all(all(n.is_nonnegative for n in left))
    return left


def runs_along(index: Expr, axis: Expr) -> bool:
    """Whether an index runs along ``axis``: on an axis of size 1 it is 0."""
    return bool(index == axis or (index == 0 and isinstance(axis, Index) and axis.size == 1))
