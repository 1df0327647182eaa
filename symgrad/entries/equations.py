"""The one-line way into the table: an operation is its equation, and everything that follows from it is not written.

    op("softsign(x)", "out = x / (1 + |x|)", "x shrunk into ±1", F, kinks=0)
    op("cumsum(x, dim)", "out[i] = Σ_j [j ≤ i]·x[j]", "the sum of the entries so far", along="dim")

Comes in: a call, its equation, and what no equation says (spellings, where samples lie, what torch does at a kink).
Goes out: an `Op`. Shapes and their refusals, broadcasting, the forward pass, torch's call, an example and whether it is
smooth follow from the text, which is read when the operation is used first, not when the table is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from symgrad.entries.along import BY_AVERAGE, BY_WORD, REST, SPACES, Along, Loss
from symgrad.entries.indexed import Indexed, OnAxes
from symgrad.entries.readings import Instead, Pointwise, Reading
from symgrad.entries.shaping import Fits, broadcast, common_shape, fitting
from symgrad.entries.signatures import Call, call_of, example_of
from symgrad.entries.spec import (
    TABLE,
    AlignRule,
    Domain,
    Op,
    PrepareRule,
    ShapeRule,
    as_given,
    no_alignment,
    reals,
    register,
)
from symgrad.errors import bug
from symgrad.functions import ALSO, JUMPS

NUMPY = ("torch.{}", "Tensor.{}", "np.{}")
TORCH = ("torch.{}", "aten.{}", "Tensor.{}")
F = ("F.{}", "aten.{}")
SPECIAL = ("torch.special.{}", "aten.special_{}")
METHOD = ("torch.{}", "Tensor.{}")
"""Where torch has an operation, its own call first."""


def as_torch_reads(tensor: Any, is_data: bool, whole: bool) -> Any:
    """An operand for torch: data as a copy, integers where they are ``whole`` and their values are integers."""
    if tensor is None or not is_data:
        return tensor
    return tensor.long() if whole and (tensor == tensor.round()).all() else tensor.clone()


def path_of(spelling: str) -> list[str]:
    """Where torch has a function, attribute by attribute.

    >>> path_of("torch.linalg.inv"), path_of("F.relu"), path_of("Tensor.clamp")
    (['linalg', 'inv'], ['nn', 'functional', 'relu'], ['Tensor', 'clamp'])
    """
    return spelling.removeprefix("torch.").replace("F.", "nn.functional.", 1).split(".")


def by_spelling(
    path: str, call: Call | None = None, whole: Sequence[str] = (), returns: Sequence[str] = ()
) -> Callable[..., Any]:
    """torch's function of this name, options as plain numbers; a number among tensors becomes one.

    With a ``call`` whose options stand among its tensors the arguments are in its order; those ``whole`` are integers
    if their values are.
    Of several results it is the first that ``returns`` names, or the one whose number the option ``part`` is.
    """
    steps = path_of(path)

    def by_torch(torch: Any, *tensors: Any, **options: Any) -> Any:
        function: Any = tensors[0] if steps[0] == "Tensor" else torch
        for step in steps[1:] if steps[0] == "Tensor" else steps:
            function = getattr(function, step)
        if not callable(function):
            return function
        kind = next((t.dtype for t in tensors if isinstance(t, torch.Tensor)), torch.float64)
        given = [
            t if t is None or isinstance(t, torch.Tensor) else torch.as_tensor(float(t), dtype=kind) for t in tensors
        ]
        if call and not call.variadic:  # torch writes into running statistics, and asks for them where there are none
            given = [as_torch_reads(t, n in call.data, n in whole) for n, t in zip_longest(call.operands, given)]
        if steps[0] == "Tensor":
            del given[0]
        part = options.pop("part", None)
        named = {name: plain(value) for name, value in options.items() if value is not None}
        several = call.signature.parameters.values() if call else ()
        order = [p.name for p in several if p.kind is not p.KEYWORD_ONLY]
        if call and call.operands != tuple(order)[: len(call.operands)]:
            there = {**dict(zip(call.operands, given, strict=False)), **named}
            before = order[: max(order.index(name) for name in call.operands if name in order) + 1]
            given = [there[name] for name in before if name in there]
            named = {name: value for name, value in there.items() if name not in before and value is not None}
        found = function(*given, **named)
        if part is not None:
            return found[part]
        return getattr(found, returns[0]) if returns and not isinstance(found, torch.Tensor) else found

    return by_torch


def plain(value: Any) -> Any:
    """An option as torch takes it."""
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return int(value) if getattr(value, "is_Integer", False) else float(value)


def op(
    call: str,
    equation: str,
    says: str = "",
    home: Sequence[str] = NUMPY,
    also: str = "",
    *,
    instead: Instead | None = None,
    kinks: float | tuple[float, ...] = (),
    domain: Domain | Mapping[str, Domain] | None = None,
    examples: Sequence[str] = (),
    more: Sequence[str] = (),
    forward: Callable[..., Any] | None = None,
    torch: Callable[..., Any] | None = None,
    smooth: bool | None = None,
    decimals: bool = False,
    along: str = "",
    least: int = 0,
    axes: str = "",
    apart: str = "",
    repeated: bool = False,
    reading: Reading | None = None,
    reduced: bool = False,
    fits: str | Fits = "",
    checks: Callable[..., None] | None = None,
    reads_out: bool = False,
    defined: str = "",
    shape: ShapeRule | None = None,
    align: AlignRule | None = None,
    prepare: PrepareRule | None = None,
    letters: str | Callable[..., str] = "",
    ranks: Mapping[str, tuple[int, ...]] | None = None,
    pairs: frozenset[str] = frozenset(),
    **facts: Any,
) -> Op:
    """Put the operation that ``call`` names into the table: ``out`` is what its equation says.

    ``home`` says how torch spells it, ``also`` adds spellings, ``instead`` is the equation under other options, or a
    function that writes it for the shapes and options at hand: what goes over as many axes as there are.
    ``examples`` are calls in the place of the one that follows from the name, ``more`` are further ones; ``forward`` is
    what computes it faster or more stably than its equation as it stands, ``torch`` what calls it otherwise than by
    name. With ``decimals`` an option 0.5 is written so, and not as 1/2. ``along`` is the option that says along which
    axes the equation holds (or the number of the axis), which then is that of one line of a tensor with ``least`` axes;
    its ``forward`` takes axis= and keepdims= as NumPy's do. ``axes`` are options that name one axis each, on which its
    indices are (`symgrad.entries.indexed`; ``repeated``: twice the same is fine); tensors that lie ``apart`` have no
    others. A loss is ``reduced`` to its mean or sum. ``checks`` is asked, with shapes and options, whether options are
    what they have to be, ``fits``, with sizes, shapes and options, whether operands fit each other, or it is a pattern
    that says so (`symgrad.entries.shaping.fitting`). ``defined`` is what pages print in the place of the equation.
    ``reads_out`` says that an equation which ``instead`` writes reads the output itself. What stands behind ``, n:``
    says in words what n is: whole numbers that ``known`` finds, or what is read ``beside``. ``facts`` are
    further fields of the `Op`, as they are.
    """
    if reduced and "reduction: " not in call:
        call = f"{call.removesuffix(')')}, {BY_AVERAGE}, {BY_WORD})"
    said, texts, definition = call_of(call), instead or {}, equation
    others: tuple[str, ...] = () if callable(texts) else tuple(texts.values())
    equation = WORDS.split(equation)[0]
    check_axes(said, [along] if along else axes.split())
    if reduced:
        loss = Loss(Along(said, equation, texts, along) if along else Pointwise(said, equation, texts), forward)
        reading, shape, align = loss, loss.shape, no_alignment if along else broadcast
        examples, defined = examples or loss.examples, f"{equation}, then the mean or the sum"
        forward = forward and loss.forward
    elif along:
        line = Along(said, equation, texts, along, least)
        reading = line
        torch = line.by_torch(torch or by_spelling(home[0].format(said.name), said, returns=facts.get("returns", ())))
        prepare, shape = prepare or line.prepare, shape or line.shape
        examples = examples or line.examples
        forward = forward and line.forward(forward)
    if axes:
        placed = OnAxes(said, equation, texts, tuple(axes.split()), frozenset(apart.split()), least, repeated)
        reading = placed
        prepare, shape, align = prepare or placed.prepare, shape or placed.shape, align or no_alignment
    if reading is None and (INDICES.search(equation) or not equation):
        reading = Indexed(said, equation, texts)
    if isinstance(reading, Indexed):
        shape, align = shape or reading.shape, align or (no_alignment if callable(texts) else reading.align)
        if not callable(texts):
            letters = letters or "".join(NAMES.findall(equation.partition("=")[0].removeprefix("out")))
            ranks = ranks if ranks is not None else ranks_in(equation, said.operands)
    reading = reading or Pointwise(said, equation, texts, decimals)
    prepare = checked(said, prepare or as_given, checks)
    known = facts.get("known", {})
    held = (
        *(("out",) if reads_out or any(map(mentions_out, (equation, *others))) else ()),
        *known,
        *facts.get("beside", ()),
    )
    names = tuple(pattern.format(said.name) for pattern in home) + tuple(also.split())
    edges = (kinks if isinstance(kinks, tuple) else (float(kinks),)) or corners(equation, said)
    shown = f"{'F.' if home is F else ''}{said.name}({', '.join(said.operands)})"
    samples = domain if domain is not None else around(edges) if edges else {}
    integers = [n for n, d in samples.items() if d.whole and n in said.data] if isinstance(samples, Mapping) else []
    return register(
        Op(
            name=said.name,
            says=says or with_indices(equation, said.operands),
            definition=defined or definition,
            otherwise={} if callable(texts) else texts,
            index=reading.index,
            signature=said.signature,
            operands=said.operands,
            held=held,
            optional=said.optional,
            data=said.data,
            variadic=said.variadic,
            shape=shape or common_shape,
            align=fitted(said, fits, align or broadcast) if fits else align or broadcast,
            prepare=prepare,
            letters=letters or "ijkl",
            ranks=ranks or {},
            pairs=pairs,
            numpy=forward,
            torch=torch or by_spelling(names[0], said, integers, facts.get("returns", ())),
            spelled=names,
            domain=samples if isinstance(samples, Mapping) else dict.fromkeys(said.operands, samples),
            examples=tuple(example_of(text, said.operands) for text in (*(examples or (shown,)), *more)),
            kinks=edges,
            smooth=smooth
            if smooth is not None
            else not (known or any(has_edges(text, said) for text in (equation, *others))),
            **facts,
        )
    )


def check_axes(call: Call, names: Sequence[str]) -> None:
    """Refuse axes that neither an option nor a place says."""
    known = (*call.signature.parameters, *SPACES)
    for name in names:
        if not {name, name.removeprefix(REST)} & {*known} and not name.isdigit():
            raise bug(f"{call.name} has no axes {name}: the number of one, or {', '.join(known)}")


def corners(text: str, call: Call) -> tuple[float, ...]:
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


def around(edges: Sequence[float]) -> Domain:
    """On all sides of edges, and away from them."""
    return reals(max(2.0, *(abs(edge) * 4 / 3 for edge in edges)), tuple(edges))


def ranks_in(equation: str, operands: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """As many axes as an operand has letters, where it has no ``…``."""
    return {
        name: (len(slots.split(",")),)
        for name, slots in INDICES.findall(equation)
        if name in operands and "…" not in slots
    }


def fitted(call: Call, fits: str | Fits, align: AlignRule) -> AlignRule:
    """Operands broadcast, after it is asked whether they fit each other."""
    fit = fitting(fits, call.operands) if isinstance(fits, str) else fits

    def aligned(sizes: Any, shapes: Any, **options: Any) -> Any:
        fit(sizes, *shapes, **options)
        return align(sizes, shapes, **options)

    return aligned


def checked(call: Call, prepare: PrepareRule, checks: Callable[..., None] | None) -> PrepareRule:
    """Options in canonical form, after what they have to be is asked: of their kinds first."""

    def prepared(shapes: Any, **given: Any) -> Any:
        options = call.canonical(shapes, given)
        if checks:
            checks(shapes, **options)
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


def has_edges(text: str, call: Call) -> bool:
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
    return any(conditions) or any(match[1] is None or jumps(match[1]) for match in CORNER.finditer(text))


def jumps(function: str) -> bool:
    """Whether a function has a corner or a jump."""
    entry = TABLE.get(ALSO.get(function, function))
    return function in JUMPS or (entry is not None and not entry.smooth)


def with_indices(equation: str, operands: Sequence[str]) -> str:
    """The right-hand side with [i] behind each operand: what a page says of an entry that says nothing else."""
    right = equation.partition(" = ")[2]
    return re.sub(rf"(?<!\w)({'|'.join(operands)})(?![A-Za-z0-9_(])", r"\1[i]", right)
