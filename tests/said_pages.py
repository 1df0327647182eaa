"""Every sentence of an explanation's page, read as a person reads it, and held against what torch says.

A page is taken apart into paragraphs, a paragraph into sentences; each has a rule here, or the page is red: whoever
writes a new sentence writes its rule. A rule is a pattern and a test on `tests.said_truth.Truth`. What only says how a
page is to be read (what δ is, how J is laid out) is in `READING`, claims in `CLAIMS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from symgrad.explanation import Explanation
from symgrad.render.content import explanation_page
from symgrad.render.page import Block, Equations, Paragraph
from tests import torch_side
from tests.said_kinks import is_kink
from tests.said_truth import Heard, Truth
from tests.sentences import assert_notation, assert_sentence

DIGITS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
NUMBER = r"(?:[−-]?(?:\d+(?:\.\d+)?(?:e[−-]?\d+)?(?:/\d+)?|nan|∞|inf))"
PLACE = r"\w+(?:\[[\d,]*\])?"


def number(text: str) -> float:
    """A number as a page writes it."""
    top, _, below = text.replace("−", "-").replace("∞", "inf").partition("/")
    return float(top) / float(below or 1)


def like(a: Any, b: Any, digits: float = 1e-4) -> bool:
    """Equal, as far as a page shows digits."""
    return bool(np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=digits, atol=1e-7, equal_nan=True))


@dataclass
class Read:
    """A page being read: what it is about, and the input that the last sentence named."""

    truth: Truth
    explanation: Explanation
    name: str = ""
    failed: list[str] = field(default_factory=list)

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients that the page shows."""
        return {n: np.asarray(g.value, dtype=float) for n, g in self.explanation.gradients.items()}

    def vanishes(self, name: str, array: np.ndarray) -> bool:
        """Whether vᵀJ is 0 but for rounding where an input is moved; what has no number there says nothing."""
        dense = self.truth.jacobian_at(name, array)
        weights = np.asarray(self.truth.seed, dtype=float).reshape(-1)
        terms = np.abs(weights) @ np.abs(dense)
        found = weights @ dense
        known = np.isfinite(found) & np.isfinite(terms)
        return bool((np.abs(found[known]) <= 1e-9 * max(terms[known].max(initial=0.0), 1e-3)).all())


Rule = Callable[[Read, re.Match[str]], bool]


# Gradients that are 0 -------------------------------------------------------------------------------


def zero(read: Read, m: re.Match[str]) -> bool:
    """The gradient is 0, exactly or but for rounding."""
    shown, real = read.gradients[m["x"]], read.truth.gradient(m["x"])
    small = bool((np.abs(shown) <= 1e-6).all() and (np.abs(real) <= 1e-6).all())
    return small and (bool(m["rounding"]) == bool(shown.any()))


def zero_by_weights(read: Read, m: re.Match[str]) -> bool:
    return zero(read, m) and not np.any(read.truth.seed)


def zero_by_J(read: Read, m: re.Match[str]) -> bool:  # noqa: N802 - the Jacobian's own letter
    dense = read.truth.jacobian(m["x"])
    here = bool((np.abs(dense) <= 1e-9).all())
    if m["when"] == "at these numbers":
        return zero(read, m) and here and why(read, m)
    there = (read.truth.jacobian_at(m["x"], array) for array in read.truth.elsewhere(m["x"]))
    return zero(read, m) and here and all((np.abs(d[np.isfinite(d)]) <= 1e-9).all() for d in there) and why(read, m)


def zero_by_balance(read: Read, m: re.Match[str]) -> bool:
    x = m["x"]
    if not (zero(read, m) and read.truth.jacobian(x).any() and read.vanishes(x, read.truth.inputs[x])):
        return False
    said = m["why"]
    still = [read.vanishes(x, array) for array in read.truth.elsewhere(x)]
    if said.startswith("The weighted rows cancel each other out here; where"):
        return not all(still)
    if said == "The weighted rows cancel each other out":
        return True
    if said.startswith("With equal weights"):
        return len(set(np.asarray(read.truth.seed).reshape(-1).tolist())) == 1 and all(still)
    return all(still) and why(read, m)


def why(read: Read, m: re.Match[str]) -> bool:
    """A reason in a clause: where nothing comes back, and what adds up."""
    said = m["why"] or ""
    if found := re.search(rf"he entries of .+ add up to (?P<total>{NUMBER})", said):
        value = number(found["total"])
        sums = [np.asarray(c.result.detach(), dtype=float) for c in read.truth.calls if hasattr(c.result, "detach")]
        sums.append(read.truth.out)
        return any(adds_up(array, value) for array in sums)
    return True  # the step is named in code: `test_reasons` cuts the program there


def adds_up(array: np.ndarray, value: float) -> bool:
    """Whether the entries add up to a number along some axes."""
    axes = [None, *range(array.ndim), *(tuple(n for n in range(array.ndim) if n != k) for k in range(array.ndim))]
    return any(np.allclose(array.sum(axis=a), value, atol=1e-3, rtol=1e-3) for a in axes)


def no_way(read: Read, m: re.Match[str]) -> bool:
    """Nothing flows to an input, wherever it is moved."""
    arrays = [read.truth.inputs[m["x"]], *read.truth.elsewhere(m["x"])]
    found = [read.truth.jacobian_at(m["x"], array) for array in arrays[: 1 if m["x"] in read.truth.positions else 9]]
    return all((np.abs(d[np.isfinite(d)]) <= 1e-12).all() for d in found)


# What is special ------------------------------------------------------------------------------------


def used(read: Read, m: re.Match[str]) -> bool:
    """How often an input is read: its name stands so often in the text, or a call reads it twice by its rule."""
    times = sum(1 for word in torch_side.words(read.truth.text) if word == m["x"])
    return times == int(m["n"]) or len(read.explanation.gradients[m["x"]].sweep.uses) == int(m["n"]) != times


def picked_often(read: Read, m: re.Match[str]) -> bool:
    """An entry has so many numbers in its column of J, or stands so often among the positions of what is added up."""
    at, times = tuple(map(int, m["at"].split(","))), 2 if m["n"] == "twice" else int(m["n"].split()[0])
    column = np.ravel_multi_index(
        (*at, *(0,) * (np.ndim(read.truth.inputs[m["x"]]) - len(at))), np.shape(read.truth.inputs[m["x"]])
    )
    places = [np.asarray(read.truth.inputs[name]) for name in read.truth.positions]
    counted = any(int((p == number).sum()) == times for p in places for number in at)
    return int((read.truth.jacobian(m["x"])[:, column] != 0).sum()) == times or (read.truth.out.size == 1 and counted)


def turned(read: Read, m: re.Match[str]) -> bool:
    """torch's output is another one than the page's: of its vectors some have the other sign."""
    return not np.allclose(read.truth.out, np.asarray(read.explanation.output, dtype=float))


def shared(read: Read, m: re.Match[str]) -> bool:
    """Something flows back from some of its uses: the others are conditions and the like."""
    uses, most = read.explanation.gradients[m["x"]].sweep.uses, torch_side.words(read.truth.text).count(m["x"])
    return len(uses) == int(m["k"]) < int(m["n"]) and (most >= int(m["n"]) or most < int(m["k"]))


def broadcast(read: Read, m: re.Match[str]) -> bool:
    """Each named input meets something larger than itself, in each call that reads it."""
    tensors = read.truth.known()
    with Heard() as heard:
        torch_side.evaluate(read.truth.text, tensors)
    for name in re.findall(r"\w+", m["names"].replace(" and ", " ")):
        calls = [[*c.args, *c.options.values(), c.result] for c in heard.calls]
        beside = [parts for parts in calls if any(a is tensors[name] for a in parts[:-1])]
        wide = [np.broadcast_shapes(*(t.shape for t in ts[:-1] if hasattr(t, "shape"))) for ts in beside if fit(ts)]
        wide += [tuple(t.shape) for ts in beside for t in ts if hasattr(t, "shape")]
        if not any(np.prod(shape) > tensors[name].numel() for shape in wide):
            return False
    return True


def fit(parts: Sequence[Any]) -> bool:
    """Whether what a call was given broadcasts."""
    try:
        return bool(np.broadcast_shapes(*(t.shape for t in parts[:-1] if hasattr(t, "shape"))))
    except ValueError:
        return False


def pairs(read: Read, m: re.Match[str]) -> bool:
    """Some call has two sides of these shapes, which are broadcast to a shape that neither has."""
    one, other, wide = (tuple(int(n) for n in m[k].split("×")) for k in ("one", "other", "wide"))
    sides = [[tuple(a.shape) for a in c.args[:2]] for c in read.truth.calls if c.name == m["op"].split(".")[-1]]
    counts = np.prod(wide) == int(m["n"]) and max(np.prod(one), np.prod(other)) == int(m["less"])
    return [one, other] in sides and np.broadcast_shapes(one, other) == wide not in (one, other) and bool(counts)


def of_nothing(read: Read, m: re.Match[str]) -> bool:
    """Some call of this name has entries that are no number, though all that it was given are numbers."""
    calls = [c for c in read.truth.calls if c.name == m["op"].split(".")[-1]]
    return any(torch.isnan(torch.as_tensor(c.result)).any() and not torch.isnan(c.args[0]).any() for c in calls)


def divides(read: Read, m: re.Match[str]) -> bool:
    """Some call's sum is so many times its mean."""
    for call in read.truth.calls:
        own = call.name
        if own != m["op"].split(".")[-1] and own not in ("mean", "reduce_mean"):
            continue
        if "reduction" in str(getattr(call.function, "__code__", None) and call.function.__code__.co_varnames):
            total = call.function(*call.args, **{**call.options, "reduction": "sum"})
            if np.isclose(float(total), number(m["n"]) * float(call.result), rtol=1e-3):
                return True
        elif hasattr(call.args[0], "numel"):
            count = call.args[0].numel() / max(1, call.result.numel())
            if np.isclose(count, number(m["n"])):
                return True
    return False


def detached(read: Read, m: re.Match[str]) -> bool:
    """What is declared, and what is real: the same text without its detach."""
    whole = Truth(read.truth.text.replace(".detach()", ""), read.truth.inputs, read.truth.seed)
    real = whole.gradient(m["x"])
    if "declared" not in m.groupdict() or m["declared"] is None:
        return not like(real, read.truth.gradient(m["x"]))
    both = [np.array([number(n) for n in m[k].split()]) for k in ("declared", "real")]
    return like(both[0], read.truth.gradient(m["x"]).reshape(-1)) and like(both[1], real.reshape(-1))


def equal_to_torch(read: Read, m: re.Match[str]) -> bool:
    """Every gradient that is shown is torch's; what torch has no number for is only left out where that is said."""
    gone = 0
    for name, shown in read.gradients.items():
        real = read.truth.gradient(name).reshape(shown.shape)
        gone += int((np.isfinite(shown) & ~np.isfinite(real)).sum())
        known = np.isfinite(real) if m["but"] else np.ones(real.shape, dtype=bool)
        scale = max(1.0, np.abs(real[np.isfinite(real)]).max(initial=0.0))
        met = read.explanation.gradients[name].singular
        if met is not None:
            known = known & ~met.undefined  # there it says that there is no derivative
        if not np.allclose(shown[known], real[known], rtol=1e-6, atol=1e-6 * scale, equal_nan=True):
            return False
    return m["lost"] is None or int(m["lost"]) == gone


# Points without a derivative ------------------------------------------------------------------------


def places(text: str) -> list[tuple[str, tuple[int, ...]]]:
    """The entries that a sentence names."""
    found = re.findall(r"(\w+)\[([\d,]*)\]|(?<![\w.])([a-z]\w*)(?=,| and|$|:)", text)
    return [
        (a or c, tuple(int(n) for n in b.split(",") if n)) for a, b, c in found if (a or c) not in ("and", "more", "")
    ]


def derivative_there(read: Read, m: re.Match[str]) -> bool:
    """The derivative that is named is the slope on both sides."""
    at = places(m["at"])
    values = [number(v) for v in re.findall(NUMBER, m["value"])]
    pairs = list(zip(at, values * len(at) if len(values) == 1 else values, strict=False))
    return bool(pairs) and all(
        all(np.isclose(side, value, rtol=1e-2, atol=1e-3) for side in read.truth.sides(name, place))
        for (name, place), value in pairs
        if np.isfinite(value)
    )


def no_derivative(read: Read, m: re.Match[str]) -> bool:
    """The slopes of what is weighed, or of an entry of it, differ, grow without bound, or there is no value.

    Two entries without a derivative may have a difference that has one: -1·|y| + 1·|y|.
    """
    return all(
        any(singular_at(truth, name, place) for truth in (read.truth, *read.truth.rows()))
        for name, place in places(m["at"])
    )


def singular_at(truth: Truth, name: str, place: tuple[int, ...]) -> bool:
    """Whether the weighted sum has no derivative by an entry, as far as its values show."""
    here = truth.total()
    left, right = truth.sides(name, place)
    if not np.isfinite([left, right, here]).all():
        return True
    step = 1e-9 * max(1.0, abs(float(np.asarray(truth.inputs[name])[place])))
    beside = [truth.total(**{name: truth.moved(name, place, s * step)}) for s in (-1, 1)]
    jump = max(abs(b - here) for b in beside) > 1e-6 * max(1.0, abs(here))
    return jump or not np.isclose(left, right, rtol=1e-3, atol=1e-4) or max(abs(left), abs(right)) >= 1e4


def without_value(read: Read, m: re.Match[str]) -> bool:
    return all(not np.isfinite(read.truth.out[place]) for _, place in places(m["rows"]))


# Structure and sizes --------------------------------------------------------------------------------


def about(read: Read, m: re.Match[str]) -> bool:
    """Whose J comes now."""
    read.name = m["x"]
    return True


def notation(read: Read, m: re.Match[str]) -> bool:
    """J = I₂ ⊗ aᵀ: and what that says."""
    text = re.sub(r"I([₀-₉]+)", lambda s: f"I({s[1].translate(DIGITS)})", m["notation"])
    text = re.sub(r"I_(\w)\b", r"I(\1)", re.sub(r"I_\(([^)]*)\)", lambda s: f"I({s[1].replace('·', '*')})", text))
    numbers = read.truth.numbers(read.name)
    if np.isfinite(numbers.dense).all():
        assert_notation(text, numbers, read.truth.text)
    elif text == "0":  # an entry that torch has no value for is told as torch's own value, and nan its row
        valued = np.isfinite(read.truth.out.reshape(-1))
        assert_notation(text, replace(numbers, dense=numbers.dense[valued]), read.truth.text)
    return structure(read, m)


def structure(read: Read, m: re.Match[str]) -> bool:
    """A sentence about structure, which has its rule in `tests.sentences`."""
    numbers, said = read.truth.numbers(read.name), m["says"]
    if not np.isfinite(numbers.dense).all():
        return True  # there is no matrix of numbers to hold it against
    assert_sentence(said[0].lower() + said[1:], numbers, f"{read.truth.text} by {read.name}")
    return True


def count(read: Read, m: re.Match[str]) -> bool:
    """Rows, columns, how many entries are not 0."""
    dense = read.truth.jacobian(read.name)
    if dense.shape != (int(m["rows"]), int(m["columns"])):
        return False
    said, here = (m["count"] or "").strip(", "), int(np.count_nonzero(dense))
    if not np.isfinite(dense).all() or said in ("", "one entry"):
        return said != "one entry" or dense.size == 1
    if said == "every entry is 0":
        return here == 0
    found = re.fullmatch(
        r"(at most )?(?:all (?P<all>[\d,]+)|(?P<n>[\d,]+) of (?P<of>[\d,]+)) entries (?P<how>.*)", said
    )
    assert found, said
    total = int((found["all"] or found["of"]).replace(",", ""))
    many = int((found["all"] or found["n"]).replace(",", ""))
    return total == dense.size and (here == many if found["how"] == "are not 0 here" else here <= many)


def sized(read: Read, m: re.Match[str]) -> bool:
    """The sizes of an input and of J."""
    dense = read.truth.jacobian(m["x"])
    return dense.shape == (int(m["rows"]), int(m["columns"])) and int(m["again"]) == dense.shape[1]


def every_entry_is(read: Read, m: re.Match[str]) -> bool:
    """One number, wherever there is any."""
    dense = read.truth.jacobian(read.name)
    return like(dense[dense != 0], number(m["n"])) or (number(m["n"]) == 0 and not dense.any())


def elements(read: Read, m: re.Match[str]) -> bool:
    return read.truth.out.size == int(m["n"])


def shapes_differ(read: Read, m: re.Match[str]) -> bool:
    """The two shapes that tell v∘out from a gradient."""
    return m["a"] != m["b"] and read.truth.out.shape != np.shape(read.truth.inputs[m["x"]])


def exact(read: Read, m: re.Match[str]) -> bool:
    """Whole numbers, or fractions: torch's are, too, but for its rounding."""
    whole = m["kind"] == "integers"
    return all(not whole or like(np.round(g), read.truth.gradient(n), 1e-6) for n, g in read.gradients.items())


def only_read(read: Read, m: re.Match[str]) -> bool:
    """Positions, classes, a mask: torch's J with respect to them is 0."""
    return all(not read.truth.jacobian(name).any() for name in re.findall(r"\b[a-z]\w*\b", m["names"]) if name != "and")


def undefined_only(read: Read, m: re.Match[str]) -> bool:
    """There is such an entry: the slopes on its sides differ, or there is no value."""
    for name in re.findall(r"(\w+)\.grad", m[0]):
        for at in np.ndindex(*np.shape(read.truth.inputs[name])):
            left, right = read.truth.sides(name, at)
            if not np.isfinite([left, right, read.truth.total()]).all() or not like(left, right, 1e-3):
                return True
    return not np.isfinite(read.truth.out).all()


def two_slopes(read: Read, m: re.Match[str]) -> bool:
    """The slopes of Σ v·out on the two sides, as they are given."""
    at = tuple(int(n) for n in m["at"].split(",") if n)
    return like(read.truth.sides(m["x"], at), [float(m["left"]), float(m["right"])], 2e-3)


def another_value(read: Read, m: re.Match[str]) -> bool:
    """torch has NaN where the equation has a number."""
    own = np.asarray(read.explanation.output, dtype=float)
    return bool((np.isnan(read.truth.out) & np.isfinite(own)).any())


def one_output(read: Read, m: re.Match[str]) -> bool:
    return read.truth.out.size == 1


def wrong(read: Read, m: re.Match[str]) -> bool:
    """An accusation: what is shown is really not what torch gives."""
    return any(
        not np.allclose(g, read.truth.gradient(n).reshape(g.shape), rtol=1e-6, atol=1e-6, equal_nan=True)
        for n, g in read.gradients.items()
    )


def line_holds(read: Read, m: re.Match[str]) -> bool:
    """A guard was left out of a line: where the line has a number, it is the gradient all the same."""
    seen = 0
    for name, gradient in read.explanation.gradients.items():
        if gradient.closed_form is None:
            continue
        known = {**read.truth.known(), read.explanation.program.seed: torch_side.tensor(read.truth.seed)}
        known["out"] = torch_side.tensor(read.truth.out)
        found = torch_side.evaluate(gradient.closed_form, known).detach().numpy()
        real = read.truth.gradient(name)
        line = np.broadcast_to(found, real.shape)
        there = np.isfinite(line) & np.isfinite(real)
        seen += 1
        if not np.allclose(line[there], real[there], rtol=1e-6, atol=1e-8):
            return False
    return seen > 0


def no_path(read: Read, m: re.Match[str]) -> bool:
    """torch leaves .grad at None."""
    x = read.truth.known()[m["x"]]
    if not x.is_floating_point():
        return True
    x.requires_grad_()
    out = read.truth.run(**{m["x"]: x})
    if out.requires_grad:
        out.backward(torch_side.tensor(read.truth.seed).reshape(out.shape))
    return x.grad is None


def refused(read: Read, m: re.Match[str]) -> bool:
    """torch takes none that requires a gradient."""
    try:
        read.truth.run(**{m["x"]: read.truth.known()[m["x"]].requires_grad_()})
    except RuntimeError as error:
        return "not differentiable with respect to argument" in str(error)
    return False


def torch_refuses(read: Read, m: re.Match[str]) -> bool:
    """torch has no value, or no backward."""
    leaves = {name: x.requires_grad_(x.is_floating_point()) for name, x in read.truth.known().items()}
    try:
        read.truth.run(**leaves).sum().backward()
    except (RuntimeError, ValueError, IndexError):
        return True
    return False


REST = r"(?: \(largest difference \S+\))?(?:, but for .*: torch has no derivative with respect to that)?(?:, as symgrad reads it: .*)?"
X, R = r"(?P<x>\w+)", r"(?P<rounding>, up to rounding,)?"
CLAIMS: dict[str, Rule] = {
    rf"Equal to torch [\w.+]+ in every entry(?P<but> but those that follow| but (?P<lost>\d+), where torch has no number)?{REST}\.": equal_to_torch,
    r"PyTorch rejects this code: .*": torch_refuses,
    r"Torch has no derivative of this: .*": torch_refuses,
    r"Nothing is compared with torch, which refuses this: .*": torch_refuses,
    rf"{X}\.grad is 0{R} because every weight in \w+ is 0\.": zero_by_weights,
    rf"{X}\.grad is 0{R}: every entry of \w+ is 0 (?P<when>whatever the numbers|at these numbers)"
    r"(?:: (?P<why>.*))?\.$": zero_by_J,
    rf"{X}\.grad is 0{R} although \w+ is not: the rows of \w+ weighted by \w+ add up to 0\. "
    r"(?P<why>.*?)(?:; other weights show more|: \w+ does not change when .*|\. Other weights show more)?\.$": (
        zero_by_balance
    ),
    rf"{X}\.grad is 0: .*\.$": no_way,
    rf"{X}\.grad: \w+ does not depend on \w+, so there is nothing to add up; as a number it is 0 everywhere\.": no_way,
    rf"For {X}: \w+ does not depend on \w+ at all\. There is no path from one to the other, every derivative is 0, "
    r"and torch leaves \w+\.grad at None\.": no_way,
    rf"{X} is used (?P<n>\d+) times: its gradient is the sum over these uses\.": used,
    rf"{X}\[(?P<at>[\d,]+)\] is read (?P<n>twice|\d+ times), so its \d+ weights add up\.": picked_often,
    rf"Equal to torch [\w.+]+, except for the signs of some vectors{REST}\.": turned,
    rf"For {X}, .*: signs of some vectors differ from torch \(equally valid\); they were aligned before comparing\.": turned,
    rf"{X} is used (?P<n>\d+) times: its gradient is the sum over the (?P<k>\d+) that have one\.": shared,
    rf"{X} is used (?P<n>\d+) times\. Its gradient is the sum over the (?P<k>\d+) uses that have one:": (shared),
    rf"{X} is used (?P<n>\d+) times\. Its gradient is the sum over these uses:": used,
    r"(?P<names>[\w, ]+) (?:is|are) broadcast, so (?:its|their) gradient is the sum over all uses\.": broadcast,
    r"(?P<op>[\w.]+) averages over no entries \(0 / 0\), so its mean is nan\.": of_nothing,
    r"(?P<op>[\w.]+) divides 0 by 0(?:, as one value has no variance)?\.": of_nothing,
    r"(?P<op>[\w.]+) (?:averages over|is a (?:weighted )?mean)\b.*?(?:hence the factor 1/|mean: )"
    rf"(?P<n>{NUMBER})(?: is the sum of the weights|, which (?:with )?the 2 .*)?\.": divides,
    r"(?P<op>\w+) compares (?P<a>.+?) (?P<one>[\d×]+) with (?P<b>.+?) (?P<other>[\d×]+): both are broadcast to "
    r"(?P<wide>[\d×]+), so (?P<n>\d+) pairs count and not (?P<less>\d+)\.": pairs,
    rf"detach drops one use of {X}: backward gives (?P<declared>.*), the full derivative is (?P<real>.*)\.": (detached),
    rf"detach drops one use of {X} from its gradient\.": detached,
    r"At (?P<at>.*?) the derivative is (?P<value>.*?), which torch loses on the way: its steps compute .*\.$": (
        derivative_there
    ),
    r"At (?P<at>.*?) the derivative is (?P<value>.*?)\. The program's steps compute .*? there(?:: in the backward of .* "
    r"a weight of 0 meets a slope that is not finite, and 0·∞ is nan|: the formula for the slope of .* is not "
    r"finite)?\.$": derivative_there,
    r"Undefined here: there is no derivative at (?P<at>.*?)(?:, because .*? ha(?:s|ve) no finite value|, where the slope of "
    r".* is infinite or undefined)?\. Floating-point arithmetic gives .*\.$": no_derivative,
    r"(?P<rows>.*) ha(?:s|ve) no finite value here\. Where there is no value there is no derivative: what stands in "
    r"(?:that row|those rows) of \w+ is only what floating point evaluates to\.": without_value,
    r".* (?:is a kink of|is a jump of|is where) .*\.$": is_kink,
    r"\w+ = (?P<notation>.+?): (?P<says>.*?)(?: \(I is the identity; ⊗ multiplies .*\))?$": notation,
    rf"For {X}: (?:(?P<rows>\d+)×(?P<columns>\d+)(?P<count>[^;]*); )?the formula is too long to show\.": (
        lambda read, m: about(read, m) and (m["rows"] is None or count(read, m))
    ),
    rf"For {X}:$": about,
    r"(?P<rows>\d+)×(?P<columns>\d+)(?P<count>, (?:one entry|every entry is 0|.* entries .*))?$": count,
    r"Lay \w+ out as one row of (?P<rows>\d+) numbers\. That row times \w+, \d+×(?P<columns>\d+), is one row of "
    rf"(?P<again>\d+): \S+\. In the shape of {X} \(.*?\) it is \w+\.grad\. So each entry of the gradient is one column "
    r"of \w+, every number in it times the weight of its row, added up:": sized,
    rf"In numbers: every entry written out above is (?P<n>{NUMBER}) here(?: in floats)?\.": every_entry_is,
    r"\w+ has (?P<n>\d+) elements, so \w+\.backward\(\) alone stops with": elements,
    r"Why: each of these elements has derivatives of its own\. They are the rows of the Jacobian \w+ below: "
    r"(?P<n>\d+) rows, and one gradient to return\. The rows have to be weighed and added up, and nobody said how to "
    r"weigh them\.": elements,
    r"\w+ is a single number, so \w+\.backward\(\) needs no argument: there is one row of derivatives, and it is the "
    r"gradient\.": one_output,
    r"There is one output, and its weight is 1: .*": one_output,
    rf"\(The shapes tell them apart: \S+ (?:is|has) (?P<a>.*) like \w+, {X}\.grad (?:is|has) (?P<b>.*) like \w+\.\)": shapes_differ,
    r"Exact (?P<kind>integers|fractions) throughout: equal means identical\.": exact,
    r"(?P<names>.*) (?:is|are) read as positions, classes or a mask: (?:it gets|they get) no gradient\.": only_read,
    r"Where a term of this line divides by 0, that term counts as 0\.": line_holds,
    r"Where the norm is 0, its gradient counts as 0, also where this line has 0 / 0\.": line_holds,
    r"Where a factor is 0 this line divides by 0: the gradient is then the product of the other factors\.": line_holds,
    r"This line is for norms above eps, the floor that keeps them away from 0\.": line_holds,
    rf"For {X}, .*: torch leaves \.grad at None: there is no path\.": no_path,
    rf"For {X}, .*: torch refuses an input that requires a gradient\.": refused,
    r"For (?P<x>\w+), .*: \w+\[(?P<at>[\d,]*)\] lies at a (?:kink|jump), where the slope is (?P<left>\S+) from the left and "
    r"(?P<right>\S+) from the right, and any number between is valid: here \S+, there \S+\.": two_slopes,
    r"torch's own forward pass has another value at .*: nan, by the equation 0\.": another_value,
    r"step by step it is (?P<n>\S+): see below": lambda read, m: (
        not all(np.isfinite(g).all() for g in read.gradients.values())
    ),
    r"Undefined is not a disagreement: .*": undefined_only,
    r"The oracles disagree.*": wrong,
    r"DIFFERS: .*": wrong,
    r"(?P<says>(?:The identity|A (?:multiple|permutation|selection|diagonal|product)|An expansion|Some outputs|Each output|"
    r"Diagonal:|One block|One row:|One column:|The same block|Every block|Block-diagonal|Every output|No output|Small changes|"
    r"Each entry of|The output does not|No gradient flows back|\w+ only reads).*)\.$": structure,
}
READING: tuple[str, ...] = (
    r"\(.* (?:is 1 where|adds up over every|multiplies over every|rounds down).*\)$",
    r"\(.* (?:is the position found|counts the entries|computed in the forward pass).*\)$",
    r"\((?:here .*|\w+ is .*|decimals are shown with \d+ digits)\)$",
    r"… and \d+ more like these$",
    r"One row for each entry of \w+, one column for each entry of the input\. Each cell is the derivative .*",
    r"The \d+×\d+ matrix is too large to show here\. In Python, .*",
    r"In numbers(?:; some zeros are only due to rounding)?:$",
    r"No seed was given(?:, so this page uses ones: |\. Ones would give ).*",
    r"\w+ has the shape of \w+ \(.*\): it gives every output a weight\.",
    r"\S+ multiplies entry by entry, Σ adds it all up: \w+ is one number\. .*computes the gradient of this \w+: .*?\.$",
    r"It does not multiply \w+ by \w+ and hand that back\. \w+ weighs the rows of \w+, and the weighted rows are .*? one number for each entry of the input\.",
    r"Put in the formulas of J(?:; δ leaves only the terms whose indices agree)?\.",
    r"The whole formula for \w+ would be long\. .*",
    r"\w+\.grad: the index formula is too long to show\.",
    r"In code: .*", r"\w+\.grad = .*", r"as argument \d+ of .*", r"from .*",
    r"\(No short matrix notation was found.*\)",
    r"Line by line, each in the names of the lines before it:",
    r"Decimal numbers: the table shows the largest difference of any entry\.",
    r"Convention, as in torch: .*",
    r"Checks were turned off: .*",
    r"Skipped for .*",
    r"For \w+, .*: \d+ of \d+ entries are left out: .*",
    r"For \w+, .*: along \d+ random directions, .*",
    r"For \w+, .*: torch\.func\.hessian, a forward pass through the gradient, has \d+ of \d+ entries here that .*",
    r"Assumed: .*",
    r"On this page .*",
    r"Complex tensors are shown as pairs .*",
    r"Differentiate this, and solve for the change of the result:",
)  # fmt: skip


def flat(words: Sequence[Any]) -> str:
    """Words as they are read."""
    return "".join(w if isinstance(w, str) else getattr(w, "code", None) or w.text for w in words)


def paragraphs(blocks: Sequence[Block]) -> Iterator[str]:
    """What is said in words."""
    for block in blocks:
        if isinstance(block, Paragraph):
            yield flat(block.words)
        elif isinstance(block, Equations):
            yield from (flat(row.remark) for row in block.rows if row.remark)


def unread(text: str, read: Read, rules: dict[str, Rule], reading: Sequence[str]) -> str:
    """What is left of a paragraph when every sentence with a rule is taken from its beginning; each has to hold."""
    while text := text.strip():
        for pattern, rule in rules.items():
            if found := re.match(pattern, text):
                if not rule(read, found):
                    read.failed.append(found[0])
                text = text[found.end() :]
                break
        else:
            found = next((m for p in reading if (m := re.match(p, text))), None)
            if found is None:
                return text
            text = text[found.end() :]
    return ""


def false_sentences(explanation: Explanation, truth: Truth) -> list[str]:
    """The sentences of a page that do not hold, and those that nobody tests."""
    read = Read(truth, explanation)
    page = explanation_page(explanation)
    steps = {f"{s.result.name}" for s in explanation.program.steps}
    for blocks in (page.lead, *(section.blocks for section in page.sections)):
        for text in paragraphs(blocks):
            left = unread(text, read, CLAIMS, READING)
            if left and not (left.split(" is ")[0] in steps or left in explanation.expression):
                read.failed.append(f"nobody tests: {left}")
    return read.failed
