"""The lines of one call's story pasted into Python: what does not run, reads a name of nothing, or has other numbers."""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from symgrad import UnsupportedError
from symgrad.tracing.lift.values import precision_of
from symgrad.tracing.story.events import CallEvent, Leaf
from symgrad.tracing.story.story_lines import StoryLines
from tests.compare import assert_same

PLACES = (F, torch)
"""Where a function is looked for that a line names without its module."""
MODULES = {"torch": torch, "F": F, "math": math, "np": np, "float": float, "int": int, "slice": slice}


@dataclass
class Heard:
    """One call that was told: its program with the numbers, and their types in torch."""

    program: Any
    seeds: Mapping[str, Any]
    told: StoryLines
    kinds: Mapping[str, str]


@dataclass
class Ear:
    """What the calls of one script told, each with the program that it was told of."""

    heard: dict[int, Heard] = field(default_factory=dict)
    events: list[CallEvent] = field(default_factory=list)
    told: list[CallEvent] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lines: int = 0
    forms: int = 0
    codes: int = 0

    def tell(self, told: Any) -> None:
        """Look at what was told, while its tensors are what they were."""
        self.told += [told] if isinstance(told, CallEvent) else []
        while self.events:
            event = self.events.pop()
            if (heard := self.heard.pop(id(event.told), None)) is not None:
                self.wrong += [f"call {event.number}: {what}" for what in Pasted(event, heard, self).slips()]


class Pasted:
    """The lines of one call in a session of Python."""

    def __init__(self, event: CallEvent, heard: Heard, ear: Ear) -> None:
        self.event, self.heard, self.ear = event, heard, ear
        self.program = heard.program
        self.labels = self.program.labels
        source = heard.told.source
        names = {*self.labels.values()} | ({line.name for line in source.statements} if source else set())
        odd = sorted((name for name in names if not name.isidentifier()), key=len, reverse=True)
        self.own = {name: f"own{n}_" for n, name in enumerate(odd)}
        self.pattern = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, odd))})(?!\w)") if odd else None

    def slips(self) -> Iterator[str]:
        """What is wrong with the lines of the call."""
        told = self.heard.told
        listed = [line for line in self.event.program if " × " not in line or not line.endswith(":")]
        whole = len(listed) == len(self.event.program) and not any("…" in line for line in listed)
        if whole:
            yield from self.pasted([*listed, *told.opened])
        if told.forward:
            yield from self.pasted([*told.forward])
        yield from self.exported()

    def pasted(self, ahead: list[str]) -> Iterator[str]:
        """The lines one after the other, each with what it came to."""
        space = self.given()
        true = self.true()
        for line in ahead:
            yield from self.run(line, space, true)
        source = self.heard.told.source
        for line in source.lines if source else ():
            if line.shown not in self.heard.told.lines:
                continue
            yield from self.run(str(line), space, {line.name: line.value} if line.value is not None else {})
        for leaf in self.event.leaves:
            if leaf.form is None:
                continue
            self.ear.forms += 1
            true = {f"{leaf.name}.grad": self.added(leaf)}
            yield from self.run(f"{leaf.name}.grad = {leaf.form}", space, true, leaf.undefined)

    def added(self, leaf: Leaf) -> Any:
        """What torch added to a gradient; what was derived, where torch does not say."""
        if self.event.kind != "backward" or not leaf.agrees or leaf.after is None or leaf.changed:
            return leaf.added
        return np.asarray(leaf.after, float) - (0.0 if leaf.before is None else np.asarray(leaf.before, float))

    def exported(self) -> Iterator[str]:
        """What ``--code`` gives, run as it stands."""
        source = self.heard.told.source
        try:
            code = "" if source is None else source.code()
        except UnsupportedError:
            return
        if source is None or any("black box" in line.own for line in source.statements):
            return
        given = dict(zip(source.inputs, source.source.inputs, strict=True))
        tensors = [self.pairs(given[name].name) for name in source.inputs if name not in source.constants]
        seeds = [self.seed(end) for end, name in source.seeds.items() if name is not None]
        space: dict[str, Any] = {}
        try:
            exec(code, space)
            with torch.no_grad():
                found = space["backward"](*tensors, *seeds)
        except Exception as error:  # whatever a line does wrong
            yield f"{code}: {type(error).__name__}: {str(error)[:160]}"
            return
        self.ear.codes += 1
        found = found if isinstance(found, tuple) else (found,)
        by_name = {leaf.name: leaf for leaf in self.event.leaves}
        for own, value in zip(source.gradients, found, strict=True):
            leaf = by_name.get(self.labels[own])
            if leaf is not None:
                yield from self.apart(f"--code, {leaf.name}", value, np.asarray(self.added(leaf)), leaf.undefined)

    def run(self, line: str, space: dict[str, Any], true: Mapping[str, Any], undefined: int = 0) -> Iterator[str]:
        """One line, and how its value differs from what it should be."""
        name, _, text = line.partition(" = ")
        text = text.partition("  # ")[0]
        name = name.strip()
        boxed = bool(self.program.black_boxes) and (
            ".backward(" in text or any(box.spelling in text for box in self.program.black_boxes)
        )
        if boxed or text.strip() == "…":
            if name in true:
                value = torch.as_tensor(np.asarray(true[name]))
                like = next((t for t in space.values() if isinstance(t, torch.Tensor) and t.is_floating_point()), value)
                space[self.spelled(name)] = value.to(like.dtype)
            return
        self.ear.lines += 1
        *definitions, last = text.split("; ")
        try:
            for definition in definitions:
                own, _, value = definition.partition(" = ")
                space[own] = self.value(value, space)
            value = self.value(last, space)
        except Exception as error:  # whatever a line does wrong
            yield f"{line!r}: {type(error).__name__}: {str(error)[:160]}"
            return
        space[self.spelled(name)] = value
        if name in true and true[name] is not None:
            yield from self.apart(line, value, np.asarray(true[name]), undefined)

    def apart(self, line: str, value: Any, expected: np.ndarray, undefined: int) -> Iterator[str]:
        """How a value differs; where torch has no number to agree on, nothing is said."""
        found = torch.as_tensor(value).detach().resolve_conj().resolve_neg()
        if found.is_complex() and expected.ndim == found.dim() + 1:
            found = torch.view_as_real(found)
        got, expected = found.double().numpy(), np.asarray(expected, float)
        if undefined and got.shape == expected.shape:
            open_ = ~np.isfinite(expected) | ~np.isfinite(got)
            got, expected = np.where(open_, 0.0, got), np.where(open_, 0.0, expected)
        scale = max(np.abs(expected[np.isfinite(expected)]).max(initial=0.0), 1e-3)
        coarse = max((precision_of(kind)[0] for kind in self.heard.kinds.values()), default=1e-9)
        try:
            assert_same(expected / scale, got / scale, tolerance=50 * coarse, what=line)
        except AssertionError as error:
            yield str(error)[:300]

    def spelled(self, text: str) -> str:
        """Text in which names that are none of Python have others."""
        return text if self.pattern is None else self.pattern.sub(lambda m: self.own[m[1]], text)

    def value(self, text: str, space: Mapping[str, Any]) -> Any:
        """What a text comes to."""
        tree = ast.parse(self.spelled(text.strip()), mode="eval")
        scope = dict(space)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in scope:
                found = next((getattr(place, node.func.id) for place in PLACES if hasattr(place, node.func.id)), None)
                if found is not None:
                    scope[node.func.id] = found
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            code = compile(tree, "<line>", "eval")
            return eval(code, {**MODULES, "__builtins__": {}}, scope)  # noqa: S307 -- lines of symgrad's own

    def given(self) -> dict[str, Any]:
        """The tensors that the program begins with and the seeds, as torch has them."""
        found = {}
        for tensor in self.program.recording.inputs:
            found[self.spelled(self.labels[tensor.name])] = self.tensor(tensor.name)
        source = self.heard.told.source
        for end, name in (source.seeds if source else {}).items():
            shown = name or self.event.letter
            found.setdefault(shown, self.spoken(self.seed(end), end))
        return found

    def seed(self, end: str) -> torch.Tensor:
        """The weights of an output."""
        return torch.as_tensor(np.asarray(self.heard.seeds[end])).to(self.kind(end))

    def kind(self, name: str) -> torch.dtype:
        """The type of a tensor in torch."""
        return getattr(torch, self.heard.kinds.get(name, "float64"))

    def pairs(self, name: str) -> torch.Tensor:
        """An input as the script has it, a complex one as pairs."""
        array = np.asarray(self.program.arrays[name])
        tensor = torch.as_tensor(array.copy())
        types = {getattr(torch, kind) for kind in self.heard.kinds.values()}
        floats = {kind for kind in types if kind.is_floating_point}
        if array.dtype.kind != "f" or (name not in self.heard.kinds and len(floats) != 1):
            return tensor
        return tensor.to(
            self.kind(name) if name in self.heard.kinds else floats.pop()
        )  # as torch makes what is its own

    def spoken(self, tensor: torch.Tensor, name: str) -> torch.Tensor:
        """Pairs as complex numbers, where the page speaks of those."""
        return torch.view_as_complex(tensor.contiguous()) if name in self.program.complexes else tensor

    def tensor(self, name: str) -> torch.Tensor:
        """An input as the script has it."""
        return self.spoken(self.pairs(name), name)

    def true(self) -> dict[str, Any]:
        """The numbers of the forward pass, by what the page calls them."""
        return {self.labels.get(name, name): array for name, array in self.program.arrays.items()}
