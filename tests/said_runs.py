"""Every sentence that `symgrad run` tells of a script, held against torch; the script is one of `tests.said_programs`.

Rows of the table, the lines of the backward (each is run in torch), lengths, notes. What has no rule is red.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from symgrad.tracing.story.event_content import format_agreement
from symgrad.tracing.story.events import CallEvent, Leaf, Note
from tests import torch_side
from tests.said_pages import NUMBER, adds_up, divides, like, number
from tests.said_programs import Drawn
from tests.said_truth import Truth
from tests.sentences import Numbers, assert_notation, is_diagonal, matrix_of, row_counts

KINDS: dict[str, Callable[[Numbers], bool]] = {
    "zero": lambda j: not j.marks.any(),
    "row": lambda j: len(j.dense) == 1,
    "column": lambda j: j.dense.shape[1] == 1,
    "identity": lambda j: like(j.dense, np.eye(len(j.dense))),
    "permutation": lambda j: j.unit and (j.marks.sum(0) == 1).all() and row_counts(j) == {1},
    "selection": lambda j: j.unit and row_counts(j) == {1},
    "expansion": lambda j: bool((j.marks.sum(0) > 1).all()),
    "partial": lambda j: j.unit and row_counts(j) == {0, 1},
    "sum": lambda j: max(row_counts(j)) > 1 and min(row_counts(j)) > 0,
    "diagonal": is_diagonal,
    "one a row": lambda j: max(row_counts(j)) <= 1,
    "sparse": lambda j: max(row_counts(j)) < j.dense.shape[1],
    "dense": lambda j: True,
    "product": lambda j: True,
    "diagonal plus dense": lambda j: j.dense.shape[0] == j.dense.shape[1],
    "block-diagonal": lambda j: blocks(j),
    "kronecker": lambda j: blocks(j) or blocks_of_columns(j),
}  # fmt: skip


def blocks(j: Numbers) -> bool:
    """Nothing across the places of the first axis that both have."""
    n = j.out_shape[0]
    table = j.marks.reshape(n, -1, n, j.dense.shape[1] // n) if j.in_shape[:1] == (n,) else np.ones((2, 1, 2, 1))
    return not any(table[a, :, b].any() for a in range(len(table)) for b in range(len(table)) if a != b)


def blocks_of_columns(j: Numbers) -> bool:
    """Nothing across the places of the last axis that both have."""
    n = j.out_shape[-1]
    table = j.marks.reshape(-1, n, j.dense.shape[1] // n, n) if j.in_shape[-1:] == (n,) else np.ones((1, 2, 1, 2))
    return not any(table[:, a, :, b].any() for a in range(table.shape[1]) for b in range(table.shape[1]) if a != b)


def as_torch(text: str) -> str:
    """A text with ``torch.`` or ``F.`` before the functions that have none."""

    def called(m: re.Match[str]) -> str:
        name = m[1]
        place = "torch." if hasattr(torch, name) and name not in ("layer_norm",) else "F." if hasattr(F, name) else ""
        return m[0] if name in ("float", "int") else f"{place}{name}("

    return re.sub(r"(?<![\w.])([a-z_]\w*)\(", called, text)


def literal(array: np.ndarray, leaf: bool) -> str:
    """A tensor as a script writes it; one without entries by its shape."""
    whole = np.asarray(array)
    if whole.dtype.kind == "i":
        return f"torch.tensor({whole.tolist()}, dtype=torch.int64)"
    own = ", requires_grad=True" if leaf else ""
    if whole.size == 0:
        return f"torch.zeros({tuple(whole.shape)}, dtype=torch.float64{own})"
    return f"torch.tensor({whole.tolist()}, dtype=torch.float64{own})"


def script_of(drawn: Drawn) -> str:
    """The expression as a script: tensors, a name for what is inside, a backward, and another one."""
    lines = ["import torch", "import torch.nn.functional as F"]
    asked = leaves_of(drawn)
    lines += [f"{name} = {literal(array, name in asked)}" for name, array in drawn.inputs.items()]
    lines += [f"h = {as_torch(drawn.inner)}", f"out = {as_torch(drawn.around.format('h'))}"]
    if drawn.seed is not None and np.size(drawn.seed) == 0:
        drawn = replace(drawn, seed=None)
    weights = (
        ""
        if drawn.seed is None or np.ndim(drawn.seed) == 0
        else f"torch.tensor({np.asarray(drawn.seed).tolist()}, dtype=torch.float64)"
    )
    if not weights:
        lines += ["loss = out.sum()" if drawn.number % 2 else "loss = (out * out).sum()"]
    again = drawn.number % 5 == 0
    call = f"{'out' if weights else 'loss'}.backward({weights}{', ' if weights and again else ''}{'retain_graph=True' if again else ''})"
    lines += [call, *([call] if again else []), "given = h.grad", *(f"given = {name}.grad" for name in drawn.inputs)]
    return "\n".join(lines) + "\n"


def leaves_of(drawn: Drawn) -> list[str]:
    """The inputs that a gradient is asked for: of every third script the first alone."""
    moving = [name for name in drawn.inputs if name not in drawn.positions]
    return moving[: 1 if drawn.number % 3 == 0 else None]


def truth_of(drawn: Drawn) -> Truth:
    """The script's one number, and what torch says of it."""
    if drawn.seed is not None and np.ndim(drawn.seed) > 0 and np.size(drawn.seed):
        return Truth(drawn.text, drawn.inputs, np.asarray(drawn.seed, float), drawn.positions)
    inner = drawn.text
    text = f"({inner}).sum()" if drawn.number % 2 else f"(({inner}) * ({inner})).sum()"
    return Truth(text, drawn.inputs, np.ones(()), drawn.positions)


@dataclass
class Told:
    """A run being read."""

    drawn: Drawn
    truth: Truth
    script: list[str]
    failed: list[str] = field(default_factory=list)
    scope: dict[str, Any] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def value(self, code: str) -> torch.Tensor:
        """Code of the story in torch."""
        return torch_side.evaluate(code, self.scope, as_numbers=False)

    def over(self, code: str, name: str) -> Callable[[Any], torch.Tensor]:
        """Code of the story as a function of a leaf: what is named on the way is computed again."""

        def run(x: Any) -> torch.Tensor:
            known = dict(self.truth.known(**{name: x}))
            known["h"] = torch_side.evaluate(self.drawn.inner, known)
            known["out"] = torch_side.evaluate(self.drawn.around.format("h"), known)
            return torch_side.evaluate(code, known)

        return run


Rule = Callable[["Told", re.Match[str]], bool]


def zero(told: Told, m: re.Match[str]) -> bool:
    """vᵀJ is 0, and the reason that is given is one."""
    for name in m["names"].split(", "):
        if not (np.abs(told.truth.gradient(name)) <= 1e-6 * max(1, np.abs(told.truth.out).max(initial=0))).all():
            return False
        if m["why"] and not reason(told, name, m["why"]):
            return False
    return True


def reason(told: Told, name: str, why: str) -> bool:
    """Nothing comes back through a step; it stays the same; its entries add up to one number."""
    line = r"(?: \(line \d+\))?"
    x, other = told.truth.inputs[name], [*told.truth.elsewhere(name)]

    def slope(run: Callable[[Any], torch.Tensor], array: np.ndarray) -> np.ndarray:
        start = torch_side.tensor(array).clone().requires_grad_()
        out = run(start)
        if not out.requires_grad:
            return np.zeros(1)
        found = torch.autograd.grad(out.sum(), start, allow_unused=True)[0]
        return np.zeros(1) if found is None else found.numpy()

    try:
        if found := re.fullmatch(
            rf"(?P<code>.+?){line} passes no gradient back: its slope(?: with respect to \w+)? is 0 (?P<when>\w+)", why
        ):
            run = told.over(found["code"], name)
            arrays = other if found["when"] == "everywhere" else [x]
            return all((np.abs(g[np.isfinite(g)]) < 1e-9).all() for g in (slope(run, a) for a in arrays))
        if found := re.fullmatch(rf"(?P<code>.+?){line} stays the same whatever \w+ is(?: while .*given.*)?", why):
            run = told.over(found["code"], name)
            here = run(x).detach().numpy()
            there = [run(a).detach().numpy() for a in other]
            return all(like(t, here) for t in there if np.isfinite(t).all())
        if found := re.fullmatch(
            rf"the entries of (?P<code>.+?){line} add up to (?P<n>{NUMBER})(?: along (?:axis|axes) [\d, ]+)? whatever \w+ is, .*",
            why,
        ):
            run = told.over(found["code"], name)
            arrays = [run(a).detach().numpy() for a in (x, *other)]
            return all(adds_up(t, number(found["n"])) for t in arrays if np.isfinite(t).all())
    except (RuntimeError, NameError, AttributeError, SyntaxError, TypeError, IndexError, ValueError):
        return bool(re.search(r"…|\bt\d+\b", why))  # a step without a name cannot be computed from the sentence
    return bool(re.fullmatch(r".*|the gradients that reach \S+ cancel", why))


def not_asked(told: Told, m: re.Match[str]) -> bool:
    """No gradient is asked for."""
    return all(name not in told.asked for name in m["names"].split(", "))


def cut(told: Told, m: re.Match[str]) -> bool:
    """The line that is named detaches."""
    return ".detach()" in told.script[int(m["line"]) - 1]


def all_of_it(told: Told, m: re.Match[str]) -> bool:
    """v is ones, and no Jacobian has an entry off its diagonal."""
    dense = [told.truth.jacobian(n) for n in told.asked]
    return bool((told.truth.seed == 1).all()) and all(not (d - np.diag(np.diag(d))).any() for d in dense)


def rows_added(told: Told, m: re.Match[str]) -> bool:
    """v is ones, out has so many entries, and two rows share a column."""
    dense = [told.truth.jacobian(n) for n in told.asked]
    return (
        told.truth.out.size == int(m["n"])
        and (told.truth.seed == 1).all()
        and any(((d != 0).sum(0) > 1).any() for d in dense)
    )


def entries_added(told: Told, m: re.Match[str]) -> bool:
    """The output is the sum of so many entries."""
    return told.scope["out"].numel() == int(m["n"]) or told.scope["h"].numel() == int(m["n"])


def read_often(told: Told, m: re.Match[str]) -> bool:
    """An entry has so many ones in its column."""
    whole = Truth(told.drawn.text, told.drawn.inputs, np.ones(()), told.drawn.positions)
    at = np.ravel_multi_index(tuple(int(n) for n in m["at"].split(",")), np.shape(told.truth.inputs[m["x"]]))
    dense = whole.jacobian(m["x"]) if told.truth.out.size == 1 else told.truth.jacobian(m["x"])
    return int((dense[:, at] != 0).sum()) == (2 if m["n"] == "twice" else int(m["n"].split()[0]))


def held(told: Told, m: re.Match[str]) -> bool:
    """A backward ran before: the script has two."""
    return sum(".backward(" in line for line in told.script) > 1


def samples(told: Told, m: re.Match[str]) -> bool:
    """The products, added up, are the gradient."""
    one, other = (told.value(m[k]) for k in ("a", "b"))
    apart = one[:, :, None] * other[:, None, :]
    return len(apart) == int(m["n"]) and like(apart.sum(0).detach(), told.truth.gradient(m["x"]))


def kink(told: Told, m: re.Match[str]) -> bool:
    """The entry has that value, and an operation of one tensor those slopes."""
    if m["x"] not in told.scope:
        return True
    at = tuple(int(n) for n in (m["at"] or "").split(",") if n)
    value = float(told.scope[m["x"]].detach()[at])
    if abs(value - number(m["value"])) > 1e-3 * max(1, abs(value)):
        return False
    sides = re.search(rf"left ({NUMBER}), right ({NUMBER})", m[0])
    run = getattr(torch, m["op"], None) or getattr(F, m["op"], None)
    if (
        sides is None
        or run is None
        or m["op"] not in ("relu", "abs", "relu6", "hardtanh", "hardswish", "elu", "leaky_relu")
    ):
        return True
    h = 1e-6
    quotients = [
        float((run(torch_side.tensor(value + 2 * s * h)) - run(torch_side.tensor(value + s * h))) / (s * h))
        for s in (-1, 1)
    ]
    return like(quotients, [number(s) for s in sides.groups()], 1e-3)


def turns(told: Told, m: re.Match[str]) -> bool:
    """The slopes of the whole on both sides."""
    if m["x"] not in told.truth.inputs:
        return True
    at = tuple(int(n) for n in (m["at"] or "").split(",") if n)
    return like(told.truth.sides(m["x"], at), [number(m["left"]), number(m["right"])], 2e-3)


def none_because(told: Told, m: re.Match[str]) -> bool:
    """.grad is None, for the reason that is said."""
    name, why = m["x"], m["why"]
    if why.startswith(f"{name} is not a leaf"):
        flowed = re.search(r"its gradient \((.*?)\)", why)
        if (
            flowed
            and (numbers := re.findall(NUMBER, flowed[1]))
            and "×" not in flowed[1]
            and "…" not in flowed[1]
            and "norm" not in flowed[1]
        ):
            return like(np.array([number(n) for n in numbers]), flow_through(told, name).reshape(-1), 6e-3)
        return name == "h"
    if "requires_grad=False" in why:
        return name not in told.asked
    if "had no path" in why:
        return not told.truth.gradient(name).any()
    found = re.search(r"cut in line (\d+) by \.detach\(\)", why)
    return bool(found) and ".detach()" in told.script[int(found[1]) - 1]


def flow_through(told: Told, name: str) -> np.ndarray:
    """The gradient by the tensor inside, all calls added up as one."""
    h = told.scope["h"].detach().clone().requires_grad_()
    known = {**told.truth.known(), "h": h}
    out = torch_side.evaluate(told.drawn.around.format("h"), known)
    if told.drawn.seed is None or np.ndim(told.drawn.seed) == 0 or np.size(told.drawn.seed) == 0:
        out = out.sum() if told.drawn.number % 2 else (out * out).sum()
    out.backward(torch_side.tensor(told.truth.seed).reshape(out.shape))
    return h.grad.numpy()


def declared(told: Told, m: re.Match[str]) -> bool:
    """A detach: the slopes with it and without it are not the same."""
    return ".detach()" in told.script[int(m["line"]) - 1]


def dies(told: Told, m: re.Match[str]) -> bool:
    """No gradient is left where it is said to be 0; because of an input of zeros."""
    if m["by"] and told.truth.inputs[m["by"]].any():
        return False
    return m["x"] != "h" or not flow_through(told, "h").any()


def born_ahead(told: Told, m: re.Match[str]) -> bool:
    """The step has that value, and what it reads is finite."""
    code = m["code"].partition(" = ")[2]
    own = {n for n in re.findall(r"\w+", code) if n in told.scope}
    at = tuple(int(n) for n in (m["at"] or "").split(",") if n.strip())
    try:
        value = float(told.value(code).detach()[at])
    except NameError:
        return True
    finite = all(bool(torch.isfinite(torch.as_tensor(told.scope[n])).all()) for n in own)
    return finite and str(value) == m["value"]


def born_back(told: Told, m: re.Match[str]) -> bool:
    """The entry has that value, which is finite."""
    if m["x"] not in told.scope:
        return True
    at = tuple(int(n) for n in (m["at"] or "").split(",") if n)
    value = float(told.scope[m["x"]].detach()[at])
    groups = m.groupdict()
    return np.isfinite(value) and (groups.get("here") is None or like(value, number(groups["here"]), 6e-3))


def in_mathematics(told: Told, m: re.Match[str]) -> bool:
    """Where torch's gradient is a number, it is that; somewhere it is none."""
    lost = False
    for name, shown in re.findall(r"(\w+)\.grad is (.*?)(?: and (?=\w+\.grad is )|$)", m["grads"]):
        torchs = np.asarray(told.truth.gradient(name)).reshape(-1)
        lost |= bool(np.isnan(torchs).any())
        numbers = [number(text) for text in re.findall(NUMBER, shown)]
        if len(numbers) == torchs.size:
            pairs = zip(numbers, torchs, strict=True)
            if not all(np.isfinite(own) and (np.isnan(other) or like(other, own, 6e-3)) for own, other in pairs):
                return False
    return lost


def nan_of_infinity(told: Told, m: re.Match[str]) -> bool:
    """Some gradient is nan."""
    return any(bool(np.isnan(told.truth.gradient(name)).any()) for name in told.truth.inputs)


def no_value(told: Told, m: re.Match[str]) -> bool:
    """Something of the script has no value, and the advice is one for an operation that has a domain."""
    lacking = any(not torch.isfinite(torch.as_tensor(v)).all() for v in told.scope.values())
    return lacking and (m["inside"] is None or m["op"] not in ("var", "std"))


def no_spread(told: Told, m: re.Match[str]) -> bool:
    """Something of the script has no value."""
    return any(bool(torch.isnan(torch.as_tensor(v)).any()) for v in told.scope.values())


def compared(told: Told, m: re.Match[str]) -> bool:
    """Both are broadcast to a shape that neither has."""
    shapes = [tuple(int(n) for n in m[k].split("×")) for k in ("one", "other", "wide")]
    own = [np.shape(told.truth.inputs[m[k]]) for k in ("a", "b")]
    together = np.broadcast_shapes(*own)
    return (
        own == shapes[:2]
        and together == shapes[2]
        and together not in own
        and int(np.prod(together)) == int(m["n"])
        and max(int(np.prod(s)) for s in own) == int(m["less"])
    )


def leaf_itself(told: Told, m: re.Match[str]) -> bool:
    return told.drawn.text in told.truth.inputs or told.drawn.inner in told.truth.inputs


def nan_there(told: Told, m: re.Match[str]) -> bool:
    """Something that the script computed is NaN."""
    return any(bool(torch.isnan(torch.as_tensor(v)).any()) for v in told.scope.values())


def goes_on(told: Told, m: re.Match[str]) -> bool:
    """A call that is offered has a value where the script's own text has none, or no gradient."""
    return bool(torch.isfinite(told.value(m["call"])).all())


def called(told: Told, m: re.Match[str]) -> bool:
    """What a name of the story stands for is a piece of the script's own code."""
    if not any(m["code"].replace("torch.", "") in line.replace("torch.", "") for line in told.script):
        return False
    told.scope[m["x"]] = told.value(m["code"]).detach()
    return True


NAMES, AT = r"(?P<names>[\w, ]+?)", r"(?P<x>\w+)(?:\[(?P<at>[\d,]*)\])?"
NOTES: dict[str, Rule] = {
    r"the gradient vanishes at \w_(?P<x>\w+): its norm is 0 there(?:, because (?P<by>\w+) is 0 in every entry)?": dies,
    r"(?P<value>nan|-?inf) first appears in the forward pass: (?P<code>.+?)(?:, at \[(?P<at>[\d, ]*)\])?": born_ahead,
    rf"(?P<value>nan|-?inf) first appears in the backward of .+, at {AT} = (?P<here>{NUMBER})": born_back,
    rf"  there is no J at {AT} = (?P<here>{NUMBER}): the slope of .* is infinite or undefined there\.": born_back,
    r"  (?P<op>\w+) has no finite value there either(?P<inside>: keep its input inside its domain)?": (no_value),
    r"\w+ compares (?P<a>\w+) (?P<one>[\d×]+) with (?P<b>\w+) (?P<other>[\d×]+): both are broadcast to (?P<wide>[\d×]+), "
    r"so (?P<n>\d+) pairs count and not (?P<less>\d+)": compared,
    r"(?P<a>\w+) (?P<one>[\d×]+) meets (?P<b>\w+) (?P<other>[\d×]+): both are broadcast to (?P<wide>[\d×]+), "
    r"so (?P<n>\d+) pairs count and not (?P<less>\d+)": compared,
    r"  there is no J: \w+ divides 0 by 0, as one value has no variance": no_spread,
    r"\w+ is a leaf, so this backward reaches no other tensor": leaf_itself,
    r"≈ .* has no derivative at this point: an argument is nan; the numbers there follow torch's convention": nan_there,
    rf"  keep {AT} away from it: clamp it, or add a small eps to it before .*": born_back,
    rf"  the weight arriving there is 0, so this branch should add nothing to the gradient of {AT}; autograd computes .*": born_back,
    r"  Mathematically, (?P<grads>\w+\.grad is .*)\.": in_mathematics,
    r"  call (?P<call>[^…]+) instead, .*": goes_on,
    r"  ∞ · 0 is nan: .* has slope 0 where the infinite gradient arrives": nan_of_infinity,
    rf"  0 · ∞: the weight arriving there is 0 and the slope is infinite, and both depend on {AT}; .*": born_back,
    r"(?P<x>condition|data|places|t\d+)\d*: (?P<code>.+)": called,
    rf"\S+ᵀJ with respect to {NAMES} is 0(?: \(the digits are rounding\))?(?:: (?P<why>.*))?": zero,
    rf"{NAMES} (?:has|have) requires_grad=False, so .* None": not_asked,
    r"(?P<names>.*) gets? nothing: the path was cut in line (?P<line>\d+) by \.detach\(\)": cut,
    r"one path from (?P<names>.*) was cut in line (?P<line>\d+) by \.detach\(\): its share of \S+ is missing": cut,
    r"\.detach\(\) in line (?P<line>\d+) hides one use of .*": declared,
    r"v = ones adds the (?P<n>\d+) rows of J; v = 1.* gives the first alone, torch\.func\.jacrev all of them": rows_added,
    r"J is diagonal, so v = ones returns all of it: the slope of each output with respect to its own input": all_of_it,
    r"\w+ sums (?P<n>\d+) entries, so their \d+ rows of J add up; jacrev returns each row": entries_added,
    r"(?P<x>\w+)\[(?P<at>[\d,]+)\] is read (?P<n>twice|\d+ times), so its \d+ weights add up": read_often,
    r"(?P<x>\w+): the product adds (?P<n>\d+) rows \(samples\); before that sum the gradients per sample are "
    r"(?P<a>.+)\[:, :, None\] \* (?P<b>.+)\[:, None, :\]": samples,
    r"(?P<op>[\w.]+) (?:averages over|is a (?:weighted )?mean)\b.*?(?:hence the factor 1/|mean: )"
    rf"(?P<n>{NUMBER})(?: is the sum of the weights|, which (?:with )?the 2 .*)?": divides,
    rf"{AT} = (?P<value>{NUMBER}) is (?:a kink|a jump) of (?P<op>\w+)(?: \(line \d+\))?.*": kink,
    rf"{AT} = (?P<value>{NUMBER}) is where .* switches: the slope of .* is (?P<left>{NUMBER}) on the left, "
    rf"(?P<right>{NUMBER}) on the right; .*": turns,
    r".* still held the value from (?:line \d+|this line before|earlier lines); backward adds.*": held,
    r"(?P<x>\w+)\.grad is None: (?P<why>.*)": none_because,
}


def read_event(told: Told, event: CallEvent | Note, place: int) -> None:
    """One event."""
    if isinstance(event, Note):
        notes = [event.text, *event.more]
    else:
        if event.failure:
            return  # torch's own backward refuses tensors without entries
        if not event.explained:
            told.failed.append(f"not explained: {event.notes or event.failure}")
            return
        for note in event.notes:
            for name, code in re.findall(r"(?:^|; )((?:data|condition)\w*): ([^;]+)", note):
                told.scope[name] = told.value(code).detach()
        if not event.repeated:
            lines_hold(told, event)
        for leaf in event.leaves:
            row_holds(told, event, leaf, place)
        notes = [*event.notes, *([event.told.warning] if event.told.warning else [])]
    for note in notes:
        rule = next(((r, m) for p, r in NOTES.items() if (m := re.fullmatch(p, note))), None)
        if rule is None:
            told.failed.append(f"nobody tests: {note}")
        elif not rule[0](told, rule[1]):
            told.failed.append(note)


def lines_hold(told: Told, event: CallEvent) -> None:
    """Each line runs in torch, each cotangent of a named tensor and each gradient is torch's."""
    letter = event.letter
    told.scope |= {letter: torch_side.tensor(told.truth.seed), "loss": told.truth.run().detach()}
    for line in (*event.told.opened, *event.told.lines):
        name, _, code = line.partition(" = ")
        try:
            value = torch.as_tensor(told.value(code))
            told.scope[name] = value.double() if name.startswith(letter) else value
        except (NameError, SyntaxError, AttributeError, RuntimeError):
            return  # it reads what is said in words
        if name == f"{letter}_h" and not like(
            told.scope[name].detach(), np.broadcast_to(flow_through(told, "h"), told.scope[name].shape)
        ):
            told.failed.append(f"not so: {line}")
    for part in event.told.flow.split(" → ") if event.told.flow else []:
        name, _, length = part.rpartition(" ")
        if name in told.scope and name.startswith(letter):
            own = told.scope[name]
            shape = told.scope.get(name.removeprefix(f"{letter}_"), own).shape
            real = float(torch.broadcast_to(own.detach().double(), shape).norm())
            if np.isfinite(real) and abs(real - number(length)) > 1e-2 * max(real, 1e-9):
                told.failed.append(f"length of {part}: {real}")


def row_holds(told: Told, event: CallEvent, leaf: Leaf, place: int) -> None:
    """Size and structure of J, the form, what was added, and whether it is torch's."""
    real, said = told.truth.gradient(leaf.name), format_agreement(leaf)
    added = np.asarray(leaf.added, dtype=float)
    same = np.allclose(
        added, real, rtol=1e-6, atol=1e-6 * max(1.0, np.abs(real[np.isfinite(real)]).max(initial=0.0)), equal_nan=True
    )
    if said == "= torch" and not same:
        told.failed.append(f"{leaf.name} = torch: {added.tolist()} {real.tolist()}")
    if said.startswith("≠"):
        told.failed.append(f"accused: {leaf.name} {said}")
    before = 0 if leaf.before is None else leaf.before
    if leaf.after is not None and not np.allclose(before + added, leaf.after, rtol=1e-6, atol=1e-9, equal_nan=True):
        told.failed.append(f"{leaf.name}: before + added is not after")
    size, _, kind = leaf.jacobian.partition(" ")
    numbers = told.truth.numbers(leaf.name)
    if size != f"{numbers.dense.shape[0]}×{numbers.dense.shape[1]}":
        told.failed.append(f"J of {leaf.name}: {leaf.jacobian}")
    elif kind and numbers.dense.size and np.isfinite(numbers.dense).all():
        scope = {**numbers.known, **{k: v.detach() for k, v in told.scope.items() if isinstance(v, torch.Tensor)}}
        own = Numbers(numbers.name, numbers.dense, numbers.out_shape, numbers.in_shape, scope, {})
        if kind in KINDS:
            if not KINDS[kind](own):
                told.failed.append(f"J of {leaf.name} is not {kind}: {numbers.dense.tolist()}")
        else:
            with suppress(NameError):  # it reads what has no name here
                assert_notation(kind.replace("diagonal(", "diag("), own, told.drawn.text)
    if leaf.form and event.told.lines is not None:
        try:
            found = torch.as_tensor(told.value(leaf.form)).detach().numpy()
        except (NameError, SyntaxError, AttributeError, RuntimeError):
            return
        line = np.broadcast_to(found, real.shape)
        there = np.isfinite(real) & np.isfinite(line)
        if not like(line[there], real[there], 1e-6):
            told.failed.append(f"{leaf.name}.grad is not {leaf.form}")


def false_sentences(drawn: Drawn, events: list[CallEvent | Note], script: str) -> list[str]:
    """What a run says that does not hold, and what nobody tests."""
    truth = truth_of(drawn)
    told = Told(drawn, truth, script.splitlines(), asked=leaves_of(drawn))
    told.scope = dict(truth.known())
    told.scope["h"] = torch_side.evaluate(drawn.inner, told.scope, as_numbers=False)
    told.scope["out"] = torch_side.evaluate(drawn.around.format("h"), told.scope, as_numbers=False)
    for place, event in enumerate(events):
        read_event(told, event, place)
    return told.failed


__all__ = ["false_sentences", "matrix_of", "script_of"]
