"""The backward of one call as lines, and the norms of its cotangents.

Comes in: a captured program and the seeds of a call. Goes out: `StoryLines`, every line proven, in the script's names;
empty if no line could be derived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symgrad.backward import Backward, Line
from symgrad.calculus import flowing
from symgrad.errors import Setting, SymgradError
from symgrad.numeric.exact import Array, euclidean
from symgrad.numeric.vector_products import Taken
from symgrad.render.numbers import KEPT, format_digits
from symgrad.tracing.captured import Capture
from symgrad.tracing.lift import autocast_method, rounding_method
from symgrad.tracing.story.folding import fold_lines
from symgrad.tracing.story.line_checks import LineEvaluation, uncancelled_norm

MOST_STEPS = 10_000
"""The most steps of a program that is printed line by line without being requested by number."""
STATIONS = 9
"""The most norms that are printed."""
STEEP = 1e6
"""A norm that changes by a larger factor is reported as vanishing or exploding."""


@dataclass(frozen=True)
class StoryLines:
    """The backward of one call as texts.

    ``forward`` is the program, with a line for each tensor that has a cotangent; ``lines`` go from the output back.
    ``opened`` define names that the lines read and the program's listing does not have. ``forms`` are the gradients by
    name; ``flow`` are the norms, ``warning`` reports extreme ones. ``end`` is the output if it is a scalar with seed 1.
    ``source`` are the lines as data, ``labels`` the script's names by names in code, ``places`` the user's lines of the
    forward lines. ``withheld`` names lines with other numbers than the derivation.
    """

    forward: tuple[str, ...] = ()
    places: tuple[Any, ...] = ()
    opened: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    forms: Mapping[str, str] = field(default_factory=dict)
    flow: str = ""
    warning: str = ""
    end: str = ""
    source: Backward | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    withheld: tuple[str, ...] = ()

    def given_back(self) -> StoryLines:
        """Return the lines without the values of large ones."""
        source = self.source
        if source is None:
            return self
        gradients = {own: drop_large_value(line) for own, line in source.gradients.items()}
        ahead, back = (tuple(map(drop_large_value, some)) for some in (source.forward, source.lines))
        return replace(self, source=replace(source, forward=ahead, lines=back, gradients=gradients))

    def letter(self, seed: str) -> str:
        """Return the prefix letter of cotangents; ``seed`` if there are no lines."""
        return seed if self.source is None else self.source.letter

    def every(self, opened: bool) -> list[tuple[str, Line | None]]:
        """Return the lines and gradients in order of computation, with equal layers folded; also those ``opened``."""
        if self.source is None:
            return []
        also = [line for line in self.source.forward if opened and str(line) in self.opened]
        return fold_lines(weave_gradients(self.source, self.forms, also), self.labels, self.given)

    def ahead(self) -> list[tuple[str, Line | None]]:
        """Return the forward lines with equal layers folded to the last one, with which the backward begins."""
        lines = () if self.source is None else self.source.forward
        return fold_lines([*zip(self.forward, lines, strict=True)], self.labels, self.given, last=True)

    @property
    def said(self) -> dict[str, str]:
        """The texts of forward tensors, by their names in the program."""
        forward = () if self.source is None else self.source.forward
        return {line.of: line.text for line in forward if line.text is not None}

    @property
    def given(self) -> frozenset[str]:
        """The names in code of the tensors with a gradient."""
        if self.source is None:
            return frozenset()
        pairs = zip(self.source.inputs, self.source.source.inputs, strict=True)
        return frozenset(name for name, tensor in pairs if tensor.name in self.source.gradients)


def weave_gradients(lines: Backward, forms: Mapping[str, str], also: Sequence[Line]) -> list[tuple[str, Line]]:
    """Return the cotangents in order, each gradient after the last one it needs, and ``also`` before their readers."""
    waiting = {line.target: line for line in also}
    place = {line.of: n for n, line in enumerate(lines.lines)}
    behind: dict[int, list[Line]] = {}
    for line in lines.gradients.values():
        behind.setdefault(max((place[of] for of in line.through if of in place), default=-1), []).append(line)
    told: list[tuple[str, Line]] = []

    def tell(line: Line) -> None:
        for name in sorted(line.names & waiting.keys()):
            if name in waiting:
                tell(waiting.pop(name))
        label = line.name.removesuffix(".grad")
        if line.name.endswith(".grad") and label in forms:
            told.append((f"{line.name} = {forms[label]}", line))
        elif line.is_told:
            told.append((line.shown, line))

    for n in range(-1, len(lines.lines)):
        if n >= 0:
            tell(lines.lines[n])
        for line in behind.get(n, ()):
            tell(line)
    return told


def drop_large_value(line: Line) -> Line:
    """Return a line without its value if that is large."""
    return line if line.value is None or np.size(line.value) <= KEPT else replace(line, value=None)


def make_lines(
    program: Capture, seeds: Mapping[str, Any], ones: bool, asked: bool, unit: float = 1.2e-7,
    sweep: Callable[[Sequence[str], Taken], Any] | None = None,
) -> StoryLines:  # fmt: skip
    """Return the lines of one call; for a long program only if it was ``asked`` for. ``unit`` is torch's rounding.

    ``sweep`` runs the reverse sweep that the call needs anyway, see `Capture.backward_by`.
    """
    steps = len(program.recording.steps)
    if steps > MOST_STEPS and not asked:
        one = Setting("run", value="--call N")
        what = f"the backward has {steps} steps and is not shown line by line ({one} shows that of one call)"
        return StoryLines(warning=what)
    held = LineEvaluation(program, seeds, unit)
    try:
        program.backward_by(seeds, program.wanted, ones, held.begin, sweep)
    except SymgradError as error:
        return StoryLines(warning=f"the backward cannot be shown line by line: {error.problem}")
    found, withheld = held.without_others()
    casts = {s.result.name: cast for s in program.recording.steps if (cast := rounding_method(s, program.spellings))}
    unlisted = {s.result.name for s in program.recording.steps if autocast_method(s)}
    listed = {label for name, label in program.labels.items() if name not in unlisted}

    def said(line: Line) -> str:
        if line.of not in casts or line.text is None:
            return str(line)
        return f"{line.name} = {f'({line.text})' if ' ' in line.text else line.text}.{casts[line.of]}()"

    read = {name for line in (*found.forward, *found.statements) for name in line.names}
    opened = [said(s) for s in found.forward if s.text is not None and s.name not in listed and s.target in read]
    shortened = {own: held.forms.get(own, line.text) for own, line in found.gradients.items()}
    forms = {program.labels[own]: form for own, form in shortened.items() if form is not None}
    lines = lines_needed_by_gradients(found, shortened)
    back = [line.shown for line in lines if line.is_told]
    lengths = [(line.name, held.lengths[line.target]) for line in lines if line.target in held.lengths]
    forward = [said(s) for s in found.forward]
    scale = sum(euclidean(seed) for seed in seeds.values())
    given = zip(found.inputs, found.source.inputs, strict=True)
    labels = {name: program.labels.get(tensor.name, tensor.name) for name, tensor in given}
    labels |= {line.target: line.name for line in (*found.forward, *found.statements)}
    owners = {line.name: line.of for line in found.lines}
    leaves = [held.lengths.get(line.target, np.inf) for line in found.gradients.values()]
    arrived = max(leaves, default=0.0)
    return StoryLines(
        tuple(forward),
        tuple(program.lines.get(line.of) for line in found.forward),
        tuple(opened),
        tuple(back),
        forms,
        format_norm_flow(lengths),
        warn_of_norms(
            lengths,
            scale,
            lambda name: uncancelled_norm(program, seeds, owners[name]),
            lambda name: find_blocking_zero(program, seeds, owners[name]),
            arrived,
        ),
        program.labels.get(program.ends[0], program.ends[0]) if ones and len(program.ends) == 1 else "",
        found,
        labels,
        withheld,
    )


def lines_needed_by_gradients(lines: Backward, forms: Mapping[str, str | None]) -> list[Line]:
    """Return the lines that gradients need, unless these are written in the inputs alone."""
    told = [own for own, line in lines.gradients.items() if forms[own] is None or forms[own] == line.text]
    if any(lines.gradients[own].text is None for own in told):
        return [*lines.lines]
    needed = {line.target for own in told for line in lines.needed(own)}
    return [line for line in lines.lines if line.target in needed]


def format_norm_flow(lengths: Sequence[tuple[str, float]]) -> str:
    """Write ``v_t3 0.41 → v_t1 0.3``, from the output back, without the middle of a long sequence."""
    if len(lengths) < 2:
        return ""
    told = [f"{name} {format_digits(value)}" for name, value in lengths]
    if len(told) > STATIONS:
        half = STATIONS // 2
        told = [*told[:half], f"… {len(told) - 2 * half} more", *told[-half:]]
    return " → ".join(told)


def find_blocking_zero(program: Capture, seeds: Mapping[str, Array], own: str) -> str:
    """Return the input of zeros that makes a cotangent 0; empty if there is none."""
    recording, reached = program.recording, flowing(program.recording, [own])
    for step in recording.steps:
        for name in step.tensors if reached & set(step.tensors) else ():
            if name == own or name not in {t.name for t in recording.inputs} or program.arrays[name].any():
                continue
            if uncancelled_norm(program, seeds, own, {name: np.ones(program.arrays[name].shape)}):
                return program.labels.get(name, name)
    return ""


def warn_of_norms(
    lengths: Sequence[tuple[str, float]],
    scale: float = 0.0,
    by_lot: Callable[[str], float | None] = lambda name: 0.0,
    zero: Callable[[str], str] = lambda name: "",
    arrived: float = np.inf,
) -> str:
    """Return a sentence if the gradient vanishes, explodes or becomes 0; empty otherwise.

    ``scale`` is the norm of the seed, for comparison with the largest norm. ``by_lot`` returns the norm of a cotangent
    without cancellation: only shrinking norms vanish, cancelling terms do not. ``zero`` returns the input of zeros that
    makes a cotangent 0. ``arrived`` is the largest gradient norm: a cotangent that a mask removes before any leaf has
    not exploded.
    """
    finite = [(name, value) for name, value in lengths if np.isfinite(value)]
    if len(finite) < 2 or not finite[0][1]:
        return ""
    first, start = finite[0]
    dead = next((name for n, (name, _) in enumerate(finite) if not any(value for _, value in finite[n:])), None)
    if dead is not None:
        why = f", because {cause} is 0 in every entry" if (cause := zero(dead)) else ""
        return f"the gradient vanishes at {dead}: its norm is 0 there{why}"
    smallest = min(range(len(finite)), key=lambda n: finite[n][1])
    name, left = max(finite[smallest:], key=lambda pair: pair[1])
    if start > STEEP * left:
        free = by_lot(name)
        if free is None or not np.isfinite(free):
            return ""
        if start <= STEEP * free:
            about = f"{float(f'{free:.0e}'):g}"  # one digit: it is about as long
            return (
                f"the gradients that reach {name} cancel: their sum has norm {left:.0e}; without cancellation about "
                f"{about}"
            )
        return f"the gradient vanishes: from {first} to {name} its norm shrinks by a factor of {start / left:.0e}"
    name, most = max(finite, key=lambda pair: pair[1])
    if most > STEEP * max(start, scale) and arrived > STEEP**0.5 * max(start, scale):
        return f"the gradient explodes: from {first} to {name} its norm grows by a factor of {most / start:.0e}"
    return ""
