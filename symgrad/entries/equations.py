"""The one-line way into the table: an operation is its equation, and everything that follows from it is not written.

    op("softsign(x)", "out = x / (1 + |x|)", "x shrunk into ±1", F, kinks=0)
    op("cumsum(x, dim)", "out[i] = Σ_j [j ≤ i]·x[j]", "the sum of the entries so far", along="dim")

Comes in: a call, its equation, and what no equation says (spellings, where samples lie, what torch does at a kink).
Goes out: an `Op`. Shapes and their refusals, broadcasting, the forward pass, torch's call, an example and whether it is
smooth follow from the row, which is read when the operation is used first, not when the table is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from typing import Any, ParamSpec, cast

from symgrad.entries import file_being_imported
from symgrad.entries.along import BY_AVERAGE, BY_WORD, REST, SPACES, Axes, EquationOnAxes, LossReading
from symgrad.entries.indexed import IndexedEquation
from symgrad.entries.operands import Domain, Fits, broadcast_all, common_shape, parse_fit_pattern, reals
from symgrad.entries.readings import (
    PointwiseEquation,
    Variants,
    call_of_torch,
    condition_holds,
    facts_at_hand,
    index_by_function,
)
from symgrad.entries.signatures import CallPattern, call_of, example_of
from symgrad.entries.spec import (
    TABLE,
    AlignRule,
    Limits,
    Op,
    PrepareRule,
    Rules,
    SavedForBackward,
    Spelling,
    Traits,
    keep_options_as_given,
    no_alignment,
    register,
)
from symgrad.errors import bug
from symgrad.functions import ALSO, JUMPS
from symgrad.indexing.symbols import Expr

NUMPY = ("torch.{}", "Tensor.{}", "np.{}")
TORCH = ("torch.{}", "aten.{}", "Tensor.{}")
F = ("F.{}", "aten.{}")
SPECIAL = ("torch.special.{}", "aten.special_{}")
METHOD = ("torch.{}", "Tensor.{}")
"""Where torch has an operation, its own call first."""


Checks = Callable[..., None] | Mapping[str, tuple[Any, ...]]
"""What refuses options: a function of shapes and options, or by condition the error, its problem and its hints."""
P = ParamSpec("P")


class UnreadOp(Op):
    """An entry of which a few fields are known; it becomes an `Op` with all of them when another one is asked for."""

    def __init__(self, read: Callable[[], Op], **known: Any) -> None:
        vars(self).update(known, read=read)

    def __getattribute__(self, name: str) -> Any:
        known = object.__getattribute__(self, "__dict__")
        if name not in known and not name.startswith("__") and (read := known.get("read")):
            known.update(vars(read()))
            object.__setattr__(self, "__class__", Op)
            known.pop("read", None)
        return object.__getattribute__(self, name)


def read_when_used(read: Callable[P, Op]) -> Callable[P, Op]:
    """Put an entry into the table whose row is read when it is used first; at once outside the files of the table."""

    @wraps(read)
    def put(
        call: str, equation: str, summary: str = "", home: Sequence[str] = NUMPY, also: str = "", **facts: Any
    ) -> Op:
        later = partial(cast("Callable[..., Op]", read), call, equation, summary, home, also, **facts)
        if not file_being_imported():
            return register(later())
        name = call.partition("(")[0]
        known = {"traits": Traits(**facts_of(Traits, facts)), "spelling": Spelling(**facts_of(Spelling, facts))}
        return register(UnreadOp(later, name=name, spellings=spellings_of(name, home, also), **known))

    return cast("Callable[P, Op]", put)


def facts_of(group: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that are fields of a group."""
    return {name: fact for name, fact in facts.items() if name in group.__dataclass_fields__}


def spellings_of(name: str, home: Sequence[str], also: str) -> tuple[str, ...]:
    """All spellings of an operation."""
    return (*(pattern.format(name) for pattern in home), *also.split())


@read_when_used
def op(
    call: str,
    equation: str,
    summary: str = "",
    home: Sequence[str] = NUMPY,
    also: str = "",
    *,
    variants: Variants | None = None,
    kinks: float | tuple[float, ...] = (),
    domain: Domain | Mapping[str, Domain] | None = None,
    examples: Sequence[str] = (),
    more: Sequence[str] = (),
    forward: Callable[..., Any] | None = None,
    torch: Callable[..., Any] | None = None,
    smooth: bool | None = None,
    along: str = "",
    axes: str | Axes = "",
    least: int = 0,
    reading: Callable[..., Expr] | None = None,
    reduced: bool = False,
    fits: str | Fits = "",
    checks: Checks | None = None,
    reads_out: bool = False,
    ranks: Mapping[str, tuple[int, ...]] | None = None,
    letters: str | Callable[..., str] = "",
    **facts: Any,
) -> Op:
    """The operation that ``call`` names: ``out`` is what its equation says.

    ``home`` says how torch spells it, ``also`` adds spellings; an operation that torch does not have has neither.
    ``variants`` is the equation under other options, or a function that writes it for the shapes and options at hand:
    what goes over as many axes as there are. ``examples`` are calls in the place of the one that follows from the name,
    ``more`` are further ones; ``forward`` computes it faster or more stably than its equation as it stands, ``torch``
    calls it otherwise than by name. ``along`` is the option that says along which axes the equation holds (or the
    number of the axis), which then is that of one line of a tensor with ``least`` axes; its ``forward`` takes axis= and
    keepdims= as NumPy's do. ``axes`` are options that name one axis each (`Axes`). A loss is ``reduced`` to its mean or
    sum. Where no text says it, ``reading`` is the function of the output's indices, operands and options.
    ``checks`` says under which conditions options are refused, and by which error, problem and hints, or is asked with
    shapes and options. ``fits`` is asked, with sizes, shapes and options, whether operands fit each other, or it is a
    pattern that says so (`symgrad.entries.operands.parse_fit_pattern`). ``reads_out`` says that a function in
    ``variants`` writes an equation that reads the output itself. What stands behind ``, n:`` says in words what n is:
    whole numbers of ``index_data``, or one of the ``auxiliaries``. ``definition`` is what pages print in the place of
    the equation.
    ``facts`` are fields of the `Op`, or of its groups, by their names.
    """
    if reduced and "reduction: " not in call:
        call = f"{call.removesuffix(')')}, {BY_AVERAGE}, {BY_WORD})"
    said, texts, definition = call_of(call), variants or {}, facts.pop("definition", equation)
    others: tuple[str, ...] = () if callable(texts) else tuple(texts.values())
    equation = WORDS.split(equation)[0]
    axes = Axes(axes) if isinstance(axes, str) else axes
    axes = Axes(along, joined=True) if along else axes
    check_axes(said, axes.names)
    groups = {name: facts_of(kind, facts) for name, kind in GROUPS.items()}
    facts = {name: fact for name, fact in facts.items() if not any(name in group for group in groups.values())}
    rules = groups["rules"]
    shape, align, prepare = (rules.pop(name, None) for name in ("shape", "align", "prepare"))
    returns = groups["spelling"].get("returns", ())
    placed = EquationOnAxes(said, equation, texts, axes, least) if axes.options else None
    found: Any = placed
    if reduced:
        found = LossReading(placed or PointwiseEquation(said, equation, texts), forward)
        shape, align = found.shape, no_alignment if along else broadcast_all
        examples = examples or found.examples
        definition = f"{equation}, then the mean or the sum"
        forward = forward and found.forward
    elif placed is not None:
        prepare, shape = prepare or placed.prepare, shape or placed.shape
        if along:
            torch = placed.by_torch(torch or call_of_torch(home, said, returns=returns))
            forward, examples = forward and placed.forward(forward), examples or placed.examples
        else:
            align = align or no_alignment
    if reading is None and found is None and (INDICES.search(equation) or not equation):
        found = IndexedEquation(said, equation, texts)
    if isinstance(found, IndexedEquation):
        shape, align = shape or found.shape, align or (no_alignment if callable(texts) else found.align)
        if not callable(texts):
            letters = letters or "".join(NAMES.findall(equation.partition("=")[0].removeprefix("out")))
            ranks = ranks if ranks is not None else ranks_in(equation, said.operands)
    found = found or PointwiseEquation(said, equation, texts, facts.pop("decimals", False))
    index_data = groups["saved"].get("index_data", {})
    reads_out = reads_out or any(map(mentions_out, (equation, *others)))
    saved = (*(("out",) if reads_out else ()), *index_data, *groups["saved"].get("auxiliaries", ()))
    edges = (kinks if isinstance(kinks, tuple) else (float(kinks),)) or corners(equation, said)
    shown = f"{'F.' if home is F else ''}{said.name}({', '.join(said.operands)})"
    samples = domain if domain is not None else domain_around(edges) if edges else {}
    integers = [n for n, d in samples.items() if d.whole and n in said.data] if isinstance(samples, Mapping) else []
    return Op(
        name=said.name,
        summary=summary or with_indices(equation, said.operands),
        definition=definition,
        variants={} if callable(texts) else texts,
        index=index_by_function(reading) if reading else found.index,
        signature=said.signature,
        letters=letters or "ijkl",
        ranks=ranks or {},
        numpy=forward,
        torch=torch or call_of_torch(home, said, integers, returns),
        spellings=spellings_of(said.name, home, also),
        domain=samples if isinstance(samples, Mapping) else dict.fromkeys(said.operands, samples),
        examples=tuple(example_of(text, said.operands) for text in (*(examples or (shown,)), *more)),
        kinks=edges,
        smooth=smooth
        if smooth is not None
        else not (index_data or any(has_edges(text, said) for text in (equation, *others))),
        rules=Rules(
            shape=shape or common_shape,
            align=align_if_fitting(said, fits, align or broadcast_all) if fits else align or broadcast_all,
            prepare=prepare_checked_options(said, prepare or keep_options_as_given, checks),
            **rules,
        ),
        saved=SavedForBackward(names=saved, **groups["saved"]),
        spelling=Spelling(**groups["spelling"]),
        limits=Limits(**groups["limits"]),
        traits=Traits(**groups["traits"]),
        **facts,
    )


GROUPS = {"rules": Rules, "saved": SavedForBackward, "spelling": Spelling, "limits": Limits, "traits": Traits}
"""The groups of facts, by the field of `Op` that has them."""


def check_axes(call: CallPattern, names: Sequence[str]) -> None:
    """Refuse axes that neither an option nor a place says."""
    known = (*call.signature.parameters, *SPACES)
    for name in names:
        if not {name, name.removeprefix(REST)} & {*known} and not name.isdigit():
            raise bug(f"{call.name} has no axes {name}: the number of one, or {', '.join(known)}")


def corners(text: str, call: CallPattern) -> tuple[float, ...]:
    """Where the only operand meets a number, or an option that has one: the kinks of an equation of one entry.

    >>> texts = ("out = x·[x > 0]", "out = |x|", "out = x·[x > k] + x·[x < −k]", "out = x·[x > y]", "out = [x² < 1]")
    >>> [corners(text, call_of("f(x, y: float, k=1)")) for text in texts]
    [(0.0,), (0.0,), (-1.0, 1.0), (), ()]
    """
    x, *others = call.operands
    met = [("", "0")] * (f"|{x}|" in text) + re.findall(rf"(?<!\w)\[{x} [<>≤≥] (−?)([\w.]+)\]", text)
    given = [(sign, call.usual.get(bound, bound)) for sign, bound in met]
    numbers = (float(f"{'-' * bool(sign)}{bound}") for sign, bound in given if re.match(r"-?[\d.]", str(bound)))
    return () if others else tuple(sorted({number + 0.0 for number in numbers}))


def domain_around(edges: Sequence[float]) -> Domain:
    """On all sides of edges, and away from them."""
    return reals(max(2.0, *(abs(edge) * 4 / 3 for edge in edges)), tuple(edges))


def ranks_in(equation: str, operands: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """As many axes as an operand has letters, where it has no ``…``."""
    return {
        name: (len(slots.split(",")),)
        for name, slots in INDICES.findall(equation)
        if name in operands and "…" not in slots
    }


def align_if_fitting(call: CallPattern, fits: str | Fits, align: AlignRule) -> AlignRule:
    """Operands broadcast, after it is asked whether they fit each other."""
    fit = parse_fit_pattern(fits, call.operands) if isinstance(fits, str) else fits

    def aligned(sizes: Any, shapes: Any, **options: Any) -> Any:
        fit(sizes, *shapes, **options)
        return align(sizes, shapes, **options)

    return aligned


def prepare_checked_options(call: CallPattern, prepare: PrepareRule, checks: Checks | None) -> PrepareRule:
    """Options in canonical form, after what they have to be is asked: of their kinds first."""

    def prepared(shapes: Any, **given: Any) -> Any:
        options = call.canonical(shapes, given)
        if callable(checks):
            checks(shapes, **options)
        elif checks is not None:
            known = facts_at_hand(call, shapes, options)
            for condition, (kind, problem, *hints) in checks.items():
                if condition_holds(condition, known):
                    raise kind(problem, hints=tuple(hints))
        return prepare(shapes, **options)

    return prepared


def mentions_out(equation: str) -> bool:
    """Whether the right-hand side reads the output itself, held still."""
    return re.search(r"(?<!\w)out(?!\w)", equation.partition("=")[2]) is not None


WORDS = re.compile(r", \w+: ")
INDICES = re.compile(r"([A-Za-z_]\w*)\[([^\[\]]*)\]")
CONDITION = re.compile(r"(?<![\w\]])\[((?:[^\[\]]|\[[^\]]*\])*)\]")
ROUNDED = re.compile(r"⌊([^⌊⌋]*)⌋")
CORNER = re.compile(r"\||([A-Za-z_]\w*)\(")
LETTERS = re.compile(r"(?:[ΣΠ]|mean)_\{?([a-z,]+)|^out\[([^\]]*)\]")
NAMES = re.compile(r"[A-Za-z_]\w*")
"""What makes a corner or a jump: a condition on entries, |x|, ⌊x⌋, or a function that has one."""


def has_edges(text: str, call: CallPattern) -> bool:
    """Whether an equation has a corner or a jump somewhere, read off its letters alone.

    >>> texts = ("out = x·[x > 0]", "out = |x|", "out[i] = Σ_j [j ≤ i + k]·x[j]", "out = exp(x)")
    >>> [has_edges(text, call_of("f(x, k=1)")) for text in texts]
    [True, True, False, False]
    """
    steady = {name for name in call.signature.parameters if name not in call.operands}
    letters = steady | {letter for found in LETTERS.findall(text) for group in found for letter in NAMES.findall(group)}
    sized = re.sub(r"size\([^()]*\)", "0", text)
    conditions = (
        set(NAMES.findall(match[1])) - letters for how in (CONDITION, ROUNDED) for match in how.finditer(sized)
    )
    return any(conditions) or any(match[1] is None or jumps(match[1], call.name) for match in CORNER.finditer(text))


def jumps(function: str, own: str) -> bool:
    """Whether a function has a corner or a jump; that of the entry itself is one of `symgrad.functions`."""
    name = ALSO.get(function, function)
    return function in JUMPS or (name != own and name in TABLE and not TABLE[name].smooth)


def with_indices(equation: str, operands: Sequence[str]) -> str:
    """The right-hand side with [i] behind each operand: what a page says of an entry that says nothing else."""
    right = equation.partition(" = ")[2]
    return re.sub(rf"(?<!\w)({'|'.join(operands)})(?![A-Za-z0-9_(])", r"\1[i]", right)
