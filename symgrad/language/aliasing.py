"""Which tensors of a text share their entries (views, casts), and what they hold after one of them is written over.

Comes in: which call made a tensor of which other, as torch does it: ``x.T`` and ``x[1:]`` are views of x, ``+x`` is x
itself, ``x * 2`` is new. Goes out: after ``h.add_(1)`` or ``h[0] = 1``, the tensor of every name: views are taken
again from the new tensor, and what was written through a view is put back into its base. Where symgrad cannot do that,
reading a tensor that shares the entries is refused.

A cast (``x.float()``, ``x.to(torch.float64)``, ``x.type_as(y)``, ``x.sum(dtype=torch.float64)``) gives the tensor
itself where the dtype stays the same, else a new one. All numbers have double precision here, so a cast to another
float dtype leaves them as they are. A cast to integers drops the fraction, a cast to bool compares with 0: neither has
a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from symgrad.errors import NotationError, ShapeError, Span, UnknownNameError, UnsupportedError
from symgrad.language.apply import EntryApplier
from symgrad.language.binding import Meaning, Ref, describe_meaning
from symgrad.language.builder import EntryCaller, StepBuilder
from symgrad.language.complaints import format_sizes, quote_span
from symgrad.language.constants import is_scalar
from symgrad.language.dtypes import DTYPES, NARROW, NO_TYPE, TYPED, UNREAD, DtypeKind, named_dtype
from symgrad.language.sizes import ALL, Key, unify_shapes
from symgrad.language.syntax_tree import Attribute, Literal, PythonCall, dotted_name
from symgrad.notation.tree import SyntaxNode
from symgrad.ops import ELEMENTWISE, basics, belongs_to
from symgrad.ops.calls.call_texts import SIGNS, TO_WHOLE
from symgrad.ops.calls.registry import SHARING, find_compound
from symgrad.ops.lookup import entry_named, role_entry
from symgrad.program import Role
from symgrad.shapes import Size

Again = Callable[[Ref], Ref]
"""The same call of another tensor."""
Back = Callable[[Ref, Ref], Ref]
"""A tensor, and what its view holds now → what the tensor holds now."""


@dataclass(frozen=True)
class TensorAlias:
    """What a tensor shares its entries with; None where it is not known how to take it again, or to write through."""

    base: Ref
    again: Again | None = None
    back: Back | None = None
    dense: bool = False


class AliasTracker:
    """Which tensors are views, and what is done where one is written over."""

    def __init__(
        self, builder: StepBuilder, environment: dict[str, Meaning], whole: Callable[[Size, Span], int]
    ) -> None:
        self.builder = builder
        self.whole = whole
        self.environment = environment
        self.views: dict[str, TensorAlias] = {}
        self.copies = 0
        self.casts: dict[int, str] = {}

    def copied(self, owner: Ref, found: Ref, word: str) -> Ref:
        """``found`` as a tensor of its own, although no step makes it: ``x.float()``; that of a float is the same."""
        if owner.copy and self.casts.get(owner.copy) == word:
            return replace(found, copy=owner.copy)
        self.copies += 1
        self.casts[self.copies] = word
        return replace(found, copy=self.copies)

    def seen(self, word: str, owner: Meaning, found: Meaning, again: Again) -> None:
        """``found`` is what the call of ``word`` makes of ``owner``, which ``again`` makes of another tensor."""
        if not isinstance(owner, Ref) or not isinstance(found, Ref) or found.name in (owner.name, *self.views):
            return
        dense, how = self.dense(owner), SHARING.get(word)
        if how == "if dense" and not dense:
            self.views[found.name] = TensorAlias(owner)
        elif how in ("in order", "if dense"):
            self.views[found.name] = TensorAlias(owner, again, self.reshaped, dense)
        elif how == "turned":
            self.views[found.name] = TensorAlias(owner, again, lambda _, new: again(new))
        elif how is not None:
            self.views[found.name] = TensorAlias(owner, again)

    def part(self, owner: Meaning, found: Meaning, again: Again) -> None:
        """``found`` is one of several tensors that a call makes of ``owner``."""
        if isinstance(owner, Ref) and isinstance(found, Ref) and found.name != owner.name:
            self.views[found.name] = TensorAlias(owner, again)

    def indexed(self, owner: Ref, key: Key, found: Ref, again: Again, span: Span) -> None:
        """``found`` is ``owner[key]``, of whole numbers and slices."""
        if found.name != owner.name:
            dense = self.dense(owner) and bool(key) and all(item == ALL for item in key[1:])
            dense = dense and (key[0][0] in ("int", "all") or key[0][3:] == (1,))
            self.views[found.name] = TensorAlias(owner, again, partial(self.put, key=key, span=span), dense)

    def dense(self, ref: Ref) -> bool:
        """Whether the entries of a tensor are known to lie one behind the other."""
        if ref.name in self.views:
            return self.views[ref.name].dense
        step = self.builder.step_of(ref.name)
        if step is None or len(step.result.shape) < 2:
            return True
        if belongs_to(str(step.op), ELEMENTWISE) or str(step.op) == role_entry(Role.COPIES).name:
            return all(self.dense(Ref(name, ())) for name in step.tensors)
        return False

    def reshaped(self, base: Ref, new: Ref) -> Ref:
        """``new`` in the shape of ``base``."""
        return EntryCaller(self.builder, None, None)(basics.reshape, new, shape=base.shape)

    def put(self, base: Ref, new: Ref, key: Key, span: Span) -> Ref:
        """``base`` with ``new`` in the place of ``base[key]``."""
        call = EntryCaller(self.builder, span, self.whole)
        if ("new",) in key:
            axes = [place for place, item in enumerate(i for i in key if i[0] != "int") if item == ("new",)]
            sizes = tuple(size for axis, size in enumerate(new.shape) if axis not in axes)
            new = call(basics.reshape, new, shape=sizes)
            return self.put(base, new, tuple(i for i in key if i != ("new",)), span)
        axis = next((n for n, item in enumerate(key) if item != ALL), None)
        if axis is None:
            return new
        item, rest = key[axis], tuple(ALL if n <= axis else item for n, item in enumerate(key))
        if item[0] == "int":
            place = item[1] % max(call.whole(base.shape[axis]), 1)
            item = ("slice", place, place + 1, 1)
            new = call(basics.unsqueeze, new, dim=axis)
        if any(other != ALL for other in rest):
            part = tuple(item if n == axis else ALL for n in range(len(key)))
            new = self.put(call(role_entry(Role.INDEXES), base, key=part), new, rest, span)
        scatter = find_compound("torch.slice_scatter")
        assert scatter is not None
        last = scatter.steps(call, 0, base, new, axis, *item[1:])
        assert last is not None
        return call.last(last[0], last[1], last[2], None)

    # What is written over ------------------------------------------------------------------------------------

    def roots(self, ref: Ref) -> list[Ref]:
        """The tensor, what it is a view of, what that is a view of, …."""
        found = [ref]
        while found[-1].copy == 0 and found[-1].name in self.views:
            found.append(self.views[found[-1].name].base)
        return found

    def write(self, owner: Ref, new: Ref, word: str, span: Span) -> Ref:
        """What ``owner`` is after the call of ``word`` wrote ``new`` over it; every name is brought up to date."""
        if new.name == owner.name and new.copy == owner.copy:
            return new
        new = self.fitting(owner, new, word, span)
        bases = self.roots(owner)
        root = bases[-1]
        now: dict[tuple[str, int], Ref | None] = {alias_key(owner): new}
        for below, base in pairwise(bases):
            view, held = self.views[below.name], now[alias_key(below)]
            under = view.back(base, held) if view.back is not None and held is not None else None
            now[alias_key(base)] = under
            if held is not None and under is not None:
                self.views[held.name] = replace(view, base=under)
        alike = [Ref(name, ()) for name in self.views if alias_key(self.roots(Ref(name, ()))[-1]) == alias_key(root)]
        gone = {alias_key(ref) for ref in (root, owner, *alike)}
        for name, value in list(self.environment.items()):
            self.environment[name] = self.updated(value, now, gone)
        for place in gone:
            self.builder.stale[place] = word
        return new

    def updated(self, value: Meaning, now: dict[tuple[str, int], Ref | None], gone: set[tuple[str, int]]) -> Meaning:
        """What a name stands for, after what is ``gone`` was written over."""
        if isinstance(value, tuple):
            return tuple(self.updated(part, now, gone) for part in value)
        if not isinstance(value, Ref) or alias_key(value) not in gone:
            return value
        found = self.after(value, now)
        return value if found is None else replace(found, pair=value.pair, kind=value.kind)

    def after(self, ref: Ref, now: dict[tuple[str, int], Ref | None]) -> Ref | None:
        """What a tensor is ``now``: a view is taken again; None where that is not known."""
        if alias_key(ref) not in now:
            view = self.views.get(ref.name)
            base = None if view is None else self.after(view.base, now)
            found = None if base is None or view is None or view.again is None else view.again(base)
            now[alias_key(ref)] = found
            if found is not None and view is not None and base is not None:
                self.views[found.name] = replace(view, base=base)
        return now[alias_key(ref)]

    def fitting(self, owner: Ref, new: Ref, word: str, span: Span) -> Ref:
        """``new``, which has to fit where ``owner`` is."""
        sizes = self.builder.sizes
        if not unify_shapes(sizes, new.shape, owner.shape):
            shapes = f"{format_sizes(new.shape, sizes)} over {format_sizes(owner.shape, sizes)}"
            raise ShapeError(f"the value that {word} writes has another shape", span=span, found=(shapes,)) from None
        if new.kind is not owner.kind and (new.kind > owner.kind or word in ("copy_", "=")):
            raise UnsupportedError(f"{word} writes numbers of another dtype", span=span, hints=("1.0 * (…)",))
        return replace(new, kind=owner.kind)


def alias_key(ref: Ref) -> tuple[str, int]:
    """What tells tensors apart that share no entries."""
    return ref.name, ref.copy


TYPES = ("double", "float", "half", "bfloat16", "long", "int", "bool")
"""Methods that are called after a type."""
MOVES = ("cpu", "cuda")
"""Methods after which the numbers are kept elsewhere."""
HALF = "3 digits, and nothing above 65,504"
SHORTER = {"float": "7 digits", "float32": "7 digits", "half": HALF, "float16": HALF, "bfloat16": "2 digits"}
"""Types that would keep fewer digits, and what they keep."""
Reader = Callable[[SyntaxNode], Meaning]
OPTIONS = ("copy", "non_blocking", "memory_format", "device")
"""What a cast may be told beside the type: nothing that changes a number."""


def is_cast(word: str) -> bool:
    """Whether a method so called changes the type, or where the numbers are kept."""
    return word in (*TYPES, *TYPED, *MOVES)


def apply_cast(
    apply: EntryApplier, owner: Meaning, node: PythonCall, word: str, meaning: Reader, name: str | None
) -> tuple[Ref, bool]:
    """``owner`` as the call of the method ``word`` makes it, and whether torch hands back the tensor itself."""
    if not isinstance(owner, Ref):
        raise NotationError(f"{word} is a method of tensors, not of {describe_meaning(owner)}", span=node.span)
    kind, spelled = parse_cast_target(apply.tensor(owner, node.span), node, word, meaning)
    if kind is None:
        return owner, True
    if owner.complex:
        raise UnsupportedError(f"{word} of a complex tensor is not supported yet", span=node.span)
    same = owner.kind is kind and spelled not in (*SHORTER, "int", "short")
    if kind is DtypeKind.REAL:
        if spelled in SHORTER and owner.kind is DtypeKind.REAL:
            said = quote_span(apply.text, node.span)
            told = f"{said} does not round here: symgrad computes in double precision, torch would keep about "
            apply.builder.rounded[said] = apply.builder.remarks[f"{told}{SHORTER[spelled]}"] = None
        return replace(owner, kind=kind, few_bits=""), same and not owner.few_bits
    few_bits = spelled if spelled in NARROW and kind is DtypeKind.WHOLE and spelled not in ("int", "int32") else ""
    if owner.kind <= kind:
        return replace(owner, kind=kind, few_bits=few_bits), same and few_bits == owner.few_bits
    operands = [(owner, node.span), *([(0, node.span)] if kind is DtypeKind.TRUTH else [])]
    step = apply.step(
        entry_named(SIGNS["!="] if kind is DtypeKind.TRUTH else TO_WHOLE), operands, {}, node.span, word, name
    )
    return replace(step, kind=kind, few_bits=few_bits), False


def parse_cast_target(owner: Ref, node: PythonCall, word: str, meaning: Reader) -> tuple[DtypeKind | None, str]:
    """What the result holds, and the type as it is spelled; None where that stays as it is."""
    for keyword in node.keywords:
        if keyword.name not in (*OPTIONS, "dtype"):
            raise UnknownNameError(f"{word} has no argument {keyword.name}", span=keyword.span)
    if node.positional and word in TYPES:
        raise NotationError(f"{word} takes no dtype, it is one", span=node.span, hints=(f"x.{word}()",))
    told = named_dtype(node)
    if told is not None or word in TYPES:
        return DTYPES[told or word], told or word
    for part in node.positional:
        path = dotted_name(part) or (str(part.value) if isinstance(part, Literal) else "")
        spelled = path.rpartition(".")[2]
        if isinstance(part, Attribute) and spelled == "dtype":
            other = meaning(part.owner)
            return (other.kind if isinstance(other, Ref) else DtypeKind.REAL), spelled
        if spelled in DTYPES:
            return DTYPES[spelled], spelled
        if (isinstance(part, Literal) and not is_scalar(part.value)) or spelled in UNREAD:
            continue
        other = meaning(part)
        if not isinstance(other, Ref):
            raise NotationError(f"{word} takes a dtype, not {describe_meaning(other)}", span=part.span, hints=NO_TYPE)
        return other.kind, "dtype"
    if word in TYPED and not node.positional and not node.keywords:
        raise NotationError(f"{word} needs a dtype", span=node.span, hints=NO_TYPE)
    return None, word


def cast_first_operand(owner: Meaning, node: PythonCall) -> Meaning:
    """The first operand of a call that is told ``dtype=``: torch casts it before anything else."""
    told = named_dtype(node)
    if told is None or not isinstance(owner, Ref):
        return owner
    if DTYPES[told] is not DtypeKind.REAL:
        raise UnsupportedError(
            "an integer or boolean result has no gradient", span=node.span, hints=("dtype=torch.float64",)
        )
    return replace(owner, kind=DtypeKind.REAL)
