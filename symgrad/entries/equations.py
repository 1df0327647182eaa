"""`op`, which makes a table entry from one line: a call and its equation.

    op("softsign(x)", "out = x / (1 + |x|)", "x shrunk into ±1", F, kinks=0)
    op("cumsum(x, dim)", "out[i] = Σ_j [j ≤ i]·x[j]", "the sum of the entries so far", along="dim")

Comes in: a call, its equation, and facts that no equation contains (spellings, domains of samples, torch's choice at a
kink). Goes out: an `Op`. Shapes and their errors, broadcasting, the forward pass, torch's call, an example and whether
it is smooth follow from the row. The row is parsed at the first use of the operation, not at import.
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
    condition_holds,
    condition_values,
    define_by_function,
    find_torch_call,
)
from symgrad.entries.signatures import CallPattern, call_of, parse_example
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
"""Patterns of torch's and NumPy's spellings; the first is the one to call."""


Checks = Callable[..., None] | Mapping[str, tuple[Any, ...]]
"""Checks of options: a function of shapes and options, or (error, problem, *hints) by condition."""
P = ParamSpec("P")


class UnreadOp(Op):
    """An entry with a few fields known; it becomes a full `Op` when any other field is read."""

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
    """Return ``read`` as a function that registers an entry and parses its row at first use.

    Outside the files of the table the row is parsed at once.
    """

    @wraps(read)
    def put(
        call: str, equation: str, summary: str = "", home: Sequence[str] = NUMPY, also: str = "", **facts: Any
    ) -> Op:
        later = partial(cast("Callable[..., Op]", read), call, equation, summary, home, also, **facts)
        if not file_being_imported():
            return register(later())
        name = call.partition("(")[0]
        known = {"traits": Traits(**facts_of(Traits, facts)), "spelling": Spelling(**facts_of(Spelling, facts))}
        return register(UnreadOp(later, name=name, spellings=list_spellings(name, home, also), **known))

    return cast("Callable[P, Op]", put)


def facts_of(group: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts that are fields of a group."""
    return {name: fact for name, fact in facts.items() if name in group.__dataclass_fields__}


def list_spellings(name: str, home: Sequence[str], also: str) -> tuple[str, ...]:
    """Return all spellings of an operation."""
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
    """Return the entry of the operation ``call``, whose output ``out`` its equation defines.

    ``home`` are torch's spellings, ``also`` adds some; both are empty for an operation that torch does not have.
    ``variants`` are equations under other options, by condition, or a function that writes the equation for given
    shapes and options (for any number of axes). ``examples`` replace the example call that follows from the name,
    ``more`` are further ones. ``forward`` computes the operation faster or more stably than its equation, ``torch``
    calls it where a call by name would not do.

    ``along`` is the option that names the axes of the equation (or the number of the axis). The equation is then that
    of one line of a tensor with at least ``least`` axes, and ``forward`` takes axis= and keepdims= as in NumPy.
    ``axes`` are options that name one axis each (`Axes`). A loss is ``reduced`` to its mean or sum. ``reading``, a
    function of the output's indices, operands and options, replaces an equation that no text can express.

    ``checks`` refuse options: (error, problem, *hints) by condition, or a function of shapes and options. ``fits``
    checks that operands fit each other: a pattern (`symgrad.entries.operands.parse_fit_pattern`), or a function of
    sizes, shapes and options. ``reads_out``: a function in ``variants`` writes an equation that reads the output.
    The text after ``, n:`` in an equation describes n: integers of ``index_data``, or one of the ``auxiliaries``.
    ``definition`` is printed in place of the equation. ``facts`` are fields of the `Op`, or of its groups, by name.
    """
    if reduced and "reduction: " not in call:
        call = f"{call.removesuffix(')')}, {BY_AVERAGE}, {BY_WORD})"
    pattern, texts, definition = call_of(call), variants or {}, facts.pop("definition", equation)
    others: tuple[str, ...] = () if callable(texts) else tuple(texts.values())
    equation = WORDS.split(equation)[0]
    axes = Axes(axes) if isinstance(axes, str) else axes
    axes = Axes(along, joined=True) if along else axes
    check_axes(pattern, axes.names)
    groups = {name: facts_of(kind, facts) for name, kind in GROUPS.items()}
    facts = {name: fact for name, fact in facts.items() if not any(name in group for group in groups.values())}
    rules = groups["rules"]
    shape, align, prepare = (rules.pop(name, None) for name in ("shape", "align", "prepare"))
    returns = groups["spelling"].get("returns", ())
    placed = EquationOnAxes(pattern, equation, texts, axes, least) if axes.options else None
    found: Any = placed
    if reduced:
        found = LossReading(placed or PointwiseEquation(pattern, equation, texts), forward)
        shape, align = found.shape, no_alignment if along else broadcast_all
        examples = examples or found.examples
        definition = f"{equation}, then the mean or the sum"
        forward = forward and found.forward
    elif placed is not None:
        prepare, shape = prepare or placed.prepare, shape or placed.shape
        if along:
            torch = placed.by_torch(torch or find_torch_call(home, pattern, returns=returns))
            forward, examples = forward and placed.forward(forward), examples or placed.examples
        else:
            align = align or no_alignment
    if reading is None and found is None and (INDICES.search(equation) or not equation):
        found = IndexedEquation(pattern, equation, texts)
    if isinstance(found, IndexedEquation):
        shape, align = shape or found.shape, align or (no_alignment if callable(texts) else found.align)
        if not callable(texts):
            letters = letters or "".join(NAMES.findall(equation.partition("=")[0].removeprefix("out")))
            ranks = ranks if ranks is not None else count_axes_by_operand(equation, pattern.operands)
    found = found or PointwiseEquation(pattern, equation, texts, facts.pop("decimals", False))
    index_data = groups["saved"].get("index_data", {})
    reads_out = reads_out or any(map(mentions_out, (equation, *others)))
    saved = (*(("out",) if reads_out else ()), *index_data, *groups["saved"].get("auxiliaries", ()))
    edges = (kinks if isinstance(kinks, tuple) else (float(kinks),)) or kinks_of_text(equation, pattern)
    shown = f"{'F.' if home is F else ''}{pattern.name}({', '.join(pattern.operands)})"
    samples = domain if domain is not None else domain_around(edges) if edges else {}
    integers = [n for n, d in samples.items() if d.whole and n in pattern.data] if isinstance(samples, Mapping) else []
    return Op(
        name=pattern.name,
        summary=summary or write_with_indices(equation, pattern.operands),
        definition=definition,
        variants={} if callable(texts) else texts,
        index=define_by_function(reading) if reading else found.index,
        signature=pattern.signature,
        letters=letters or "ijkl",
        ranks=ranks or {},
        numpy=forward,
        torch=torch or find_torch_call(home, pattern, integers, returns),
        spellings=list_spellings(pattern.name, home, also),
        domain=samples if isinstance(samples, Mapping) else dict.fromkeys(pattern.operands, samples),
        examples=tuple(parse_example(text, pattern.operands) for text in (*(examples or (shown,)), *more)),
        kinks=edges,
        smooth=smooth
        if smooth is not None
        else not (index_data or any(has_edges(text, pattern) for text in (equation, *others))),
        rules=Rules(
            shape=shape or common_shape,
            align=align_if_fitting(pattern, fits, align or broadcast_all) if fits else align or broadcast_all,
            prepare=prepare_checked_options(pattern, prepare or keep_options_as_given, checks),
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
    """Raise an error for axes that are neither an option, a number, nor one of `SPACES`."""
    known = (*call.signature.parameters, *SPACES)
    for name in names:
        if not {name, name.removeprefix(REST)} & {*known} and not name.isdigit():
            raise bug(f"{call.name} has no axes {name}: the number of one, or {', '.join(known)}")


def kinks_of_text(text: str, call: CallPattern) -> tuple[float, ...]:
    """Return the kinks of an elementwise equation: numbers, or defaults of options, that its operand is compared with.

    An equation of several operands has none here.

    >>> texts = ("out = x·[x > 0]", "out = |x|", "out = x·[x > k] + x·[x < −k]", "out = x·[x > y]", "out = [x² < 1]")
    >>> [kinks_of_text(text, call_of("f(x, y: float, k=1)")) for text in texts]
    [(0.0,), (0.0,), (-1.0, 1.0), (), ()]
    """
    x, *others = call.operands
    met = [("", "0")] * (f"|{x}|" in text) + re.findall(rf"(?<!\w)\[{x} [<>≤≥] (−?)([\w.]+)\]", text)
    given = [(sign, call.usual.get(bound, bound)) for sign, bound in met]
    numbers = (float(f"{'-' * bool(sign)}{bound}") for sign, bound in given if re.match(r"-?[\d.]", str(bound)))
    return () if others else tuple(sorted({number + 0.0 for number in numbers}))


def domain_around(edges: Sequence[float]) -> Domain:
    """Return a domain that covers both sides of all edges, and avoids them."""
    return reals(max(2.0, *(abs(edge) * 4 / 3 for edge in edges)), tuple(edges))


def count_axes_by_operand(equation: str, operands: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the number of axes of each operand without ``…``: its number of letters."""
    return {
        name: (len(slots.split(",")),)
        for name, slots in INDICES.findall(equation)
        if name in operands and "…" not in slots
    }


def align_if_fitting(call: CallPattern, fits: str | Fits, align: AlignRule) -> AlignRule:
    """Return the rule ``align``, preceded by the check that operands fit each other."""
    fit = parse_fit_pattern(fits, call.operands) if isinstance(fits, str) else fits

    def aligned(sizes: Any, shapes: Any, **options: Any) -> Any:
        fit(sizes, *shapes, **options)
        return align(sizes, shapes, **options)

    return aligned


def prepare_checked_options(call: CallPattern, prepare: PrepareRule, checks: Checks | None) -> PrepareRule:
    """Return the rule ``prepare``, preceded by the checks of the options: of their kinds first."""

    def prepared(shapes: Any, **given: Any) -> Any:
        options = call.canonical(shapes, given)
        if callable(checks):
            checks(shapes, **options)
        elif checks is not None:
            known = condition_values(call, shapes, options)
            for condition, (kind, problem, *hints) in checks.items():
                if condition_holds(condition, known):
                    raise kind(problem, hints=tuple(hints))
        return prepare(shapes, **options)

    return prepared


def mentions_out(equation: str) -> bool:
    """Whether the right-hand side reads the output itself."""
    return re.search(r"(?<!\w)out(?!\w)", equation.partition("=")[2]) is not None


WORDS = re.compile(r", \w+: ")
INDICES = re.compile(r"([A-Za-z_]\w*)\[([^\[\]]*)\]")
CONDITION = re.compile(r"(?<![\w\]])\[((?:[^\[\]]|\[[^\]]*\])*)\]")
ROUNDED = re.compile(r"⌊([^⌊⌋]*)⌋")
CORNER = re.compile(r"\||([A-Za-z_]\w*)\(")
LETTERS = re.compile(r"(?:[ΣΠ]|mean)_\{?([a-z,]+)|^out\[([^\]]*)\]")
NAMES = re.compile(r"[A-Za-z_]\w*")
"""Patterns of a corner or a jump: a condition on entries, |x|, ⌊x⌋, or a function that has one."""


def has_edges(text: str, call: CallPattern) -> bool:
    """Whether an equation has a corner or a jump somewhere, judged from its text alone.

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
    """Whether a function has a corner or a jump; the entry's ``own`` name is a function of `symgrad.functions`."""
    name = ALSO.get(function, function)
    return function in JUMPS or (name != own and name in TABLE and not TABLE[name].smooth)


def write_with_indices(equation: str, operands: Sequence[str]) -> str:
    """Return the right-hand side with [i] after each operand: the summary of an entry that gives none."""
    right = equation.partition(" = ")[2]
    return re.sub(rf"(?<!\w)({'|'.join(operands)})(?![A-Za-z0-9_(])", r"\1[i]", right)
