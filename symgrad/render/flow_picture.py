"""A program as stations from left to right, and what flows back on each way between them, with its length.

Comes in: stations and ways, plain data. Goes out: SVG. What flows back is drawn the thinner the shorter it is, so
that a gradient that vanishes is seen to; a program with too many stations becomes a curve of the lengths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.render import numbers
from symgrad.render.drawing import Drawing, shortened

WIDE, HIGH, ACROSS, DOWN = 126, 48, 198, 92
"""A station, and from one to the next."""
LEFT, TOP, STUB = 24, 30, 58
"""Margins; a way that goes on in another band is drawn as two ends of this length."""
BAND = 6
"""Columns side by side; those after them stand below."""
MOST = 48
"""Stations that are drawn one by one."""
VANISHED = 1e-6
"""Of the longest: what is shorter is dashed."""
THICK, THIN = 7.0, 1.0
LONGEST = 19
"""Characters of an operation in its station."""
LONGEST_BELOW = 24
"""Characters of its name and its shape together."""


@dataclass(frozen=True)
class Station:
    """A tensor: an input (``made`` is empty) or what an operation, ``made``, results in.

    ``again`` is the name of an input that is drawn once more, beside another operation that reads it.
    """

    name: str
    made: str
    shape: str
    again: str = ""


@dataclass(frozen=True)
class Way:
    """From a tensor to the operation that reads it; ``length`` is that of what comes back, None where nothing does."""

    source: str
    target: str
    length: float | None


@dataclass(frozen=True)
class Flow:
    """A program and one backward through it; ``seed`` is what goes in at ``output``, and how long it is."""

    title: str
    below: str
    stations: tuple[Station, ...]
    ways: tuple[Way, ...]
    output: str
    seed: str
    length: float


def flow_picture(flow: Flow) -> str:
    """The picture as SVG."""
    drawing = Drawing()
    drawing.text(LEFT, TOP, flow.title, size=17, bold=True)
    drawing.text(LEFT, TOP + 22, flow.below, kind="soft")
    if len(flow.stations) > MOST:
        curve(drawing, flow)
    else:
        stations(drawing, with_inputs_beside(flow))
    return drawing.finished(flow.title, words(flow))


def words(flow: Flow) -> str:
    """What somebody who hears the picture is told: the forward, and every length on the way back."""
    shown = flow.stations if len(flow.stations) <= MOST else (*flow.stations[: MOST // 2], *flow.stations[-MOST // 2 :])
    forward = ", ".join(f"{s.name} {s.shape}" + (f" = {s.made}" if s.made else "") for s in shown)
    names = {s.name for s in shown}
    back = [w for w in reversed(flow.ways) if w.length is not None and {w.source, w.target} <= names]
    lengths = ", ".join(f"from {w.target} to {w.source} {numbers.text(w.length)}" for w in back)
    rest = "" if len(shown) == len(flow.stations) else f" {len(flow.stations) - len(shown)} tensors are left out here."
    return f"Forward: {forward}. Backward: {flow.seed} has length {numbers.text(flow.length)}; lengths {lengths}.{rest}"


def with_inputs_beside(flow: Flow) -> Flow:
    """Inputs drawn once more before each operation that is far from the first that reads them."""
    column = columns(flow)
    inputs = {s.name: s for s in flow.stations if not s.made}
    more: dict[str, Station] = {}
    ways = []
    for way in flow.ways:
        if way.source in inputs and column[way.target] > column[way.source] + 1:
            name = f"{way.source} before {column[way.target]}"
            more[name] = replace(inputs[way.source], name=name, again=way.source)
            way = replace(way, source=name)
        ways.append(way)
    return replace(flow, stations=(*inputs.values(), *more.values(), *(s for s in flow.stations if s.made)),
                   ways=tuple(ways))  # fmt: skip


def columns(flow: Flow) -> dict[str, int]:
    """How many operations lie before a tensor; what comes from one input alone stands just before its first reader."""
    column: dict[str, int] = {}
    sources: dict[str, list[str]] = {}
    for way in flow.ways:
        sources.setdefault(way.target, []).append(way.source)
    late: set[str] = set()
    for station in flow.stations:
        before = sources.get(station.name, ())
        column[station.name] = max((column[s] for s in before), default=-1) + 1
        if not station.made or (len(before) == 1 and late.issuperset(before)):
            late.add(station.name)
    for station in reversed(flow.stations):
        readers = [column[w.target] for w in flow.ways if w.source == station.name]
        if station.name in late and readers:
            column[station.name] = max(column[station.name], min(readers) - 1)
    return column


def places(flow: Flow) -> dict[str, tuple[float, float]]:
    """Where each station stands: in its column, beside what it is computed from."""
    column = columns(flow)
    by_column: dict[int, list[str]] = {}
    for station in flow.stations:
        by_column.setdefault(column[station.name], []).append(station.name)
    row: dict[str, float] = {}
    for place in sorted(by_column):

        def wish(name: str) -> float:
            known = [row[w.source] for w in flow.ways if w.target == name and w.source in row]
            return sum(known) / len(known) if known else 1e9  # what begins here stands below

        for n, name in enumerate(sorted(by_column[place], key=wish)):
            row[name] = n
    tops, top = {}, TOP + 56.0
    for band in range(max(by_column, default=0) // BAND + 1):
        tops[band] = top
        high = max((len(by_column.get(c, ())) for c in range(band * BAND, (band + 1) * BAND)), default=1)
        top += high * DOWN + 34
    left = LEFT + (STUB if len(tops) > 1 else 0)
    return {name: (left + column[name] % BAND * ACROSS, tops[column[name] // BAND] + row[name] * DOWN) for name in row}


Label = tuple[float, float, str, str]
"""Where a length stands: x, y, its anchor, and the length in words."""


def thickness(length: float, longest: float) -> float:
    """Wider for longer, by orders of magnitude; what is infinite or no number is the widest."""
    if not math.isfinite(length):
        return THICK
    if length <= 0 or longest <= 0:
        return THIN
    return max(THIN, THICK + math.log10(length / longest))


def stations(drawing: Drawing, flow: Flow) -> None:
    """Stations, and the ways between them."""
    at = places(flow)
    finite = [w.length for w in flow.ways if w.length is not None and math.isfinite(w.length)]
    longest = max([*finite, flow.length if math.isfinite(flow.length) else 0.0], default=0.0)
    count: dict[str, int] = {}
    labels: list[Label] = []  # above every way
    total = {t: sum(w.target == t for w in flow.ways) for t in at}
    for way in flow.ways:
        nth = count[way.target] = count.get(way.target, 0) + 1
        share = nth / (total[way.target] + 1)
        if not in_another_band(at[way.source], at[way.target]):
            span(drawing, labels, at[way.source], at[way.target], share, way, longest)
            continue
        afar = [w for w in flow.ways if in_another_band(at[w.source], at[w.target])]
        left, entered = ([w for w in afar if w.source == way.source], [w for w in afar if w.target == way.target])
        if left[0] == way:
            stub(drawing, at[way.source], 1, left, longest)
        if entered[0] == way:
            stub(drawing, at[way.target], -1, entered, longest, share)
    for x, y, anchor, text in labels:
        drawing.text(x, y, text, size=12, anchor=anchor, kind="back")
    for station in flow.stations:
        x, y = at[station.name]
        box(drawing, station, x, y)
        if station.name == flow.output:
            drawing.text(x + WIDE / 2, y + HIGH + 17, f"← {flow.seed}, length {short(flow.length)}",
                         size=12, anchor="middle", kind="back")  # fmt: skip


def box(drawing: Drawing, station: Station, x: float, y: float) -> None:
    """One station: what made it, what it is called, its shape."""
    drawing.add("rect", x=f"{x:g}", y=f"{y:g}", width=WIDE, height=HIGH, rx=24 if not station.made else 6, class_="box",
                **({"stroke_dasharray": "4 3"} if station.again else {}))  # fmt: skip
    drawing.reach(x + WIDE, y + HIGH)
    name = shortened(station.name, LONGEST_BELOW - len(station.shape))
    below = f"{name}  {station.shape}" if station.made else "again" if station.again else station.shape
    said = station.made or station.again or station.name
    drawing.text(
        x + WIDE / 2, y + 20, shortened(said, LONGEST), size=13, anchor="middle", bold=True, kind="ink code",
        room=WIDE - 12, whole=said,
    )  # fmt: skip
    whole = f"{station.name}  {station.shape}" if station.made else below
    drawing.text(x + WIDE / 2, y + 38, below, size=12, anchor="middle", kind="soft", room=WIDE - 12, whole=whole)


def span(
    drawing: Drawing, labels: list[Label], begin: tuple[float, float], end: tuple[float, float], share: float, way: Way,
    longest: float,
) -> None:  # fmt: skip
    """The way there, thin and grey, and below it the way back; its length goes among the labels."""
    (x1, y1), (x2, y2) = leaves(begin), enters(end, share)
    far = x2 - x1 > ACROSS
    bow, bend = (DOWN * 0.62, 70) if far else (0.0, 42)  # past what stands between
    ahead = f"M{x1:g} {y1:g} C{x1 + bend:g} {y1 + bow:g} {x2 - bend:g} {y2 + bow:g} {x2 - 2:g} {y2:g}"
    drawing.add("path", d=ahead, class_="way")
    drawing.add("path", d=f"M{x2 - 8:g} {y2 - 4:g} L{x2 - 1:g} {y2:g} L{x2 - 8:g} {y2 + 4:g}", class_="way")
    if way.length is None:
        return
    (x1, y1), (x2, y2) = (x1, y1 + 11), (x2, y2 + 9)
    wide = thickness(way.length, longest)
    dashed = {"stroke_dasharray": "2 5"} if way.length <= VANISHED * longest else {}
    back = f"M{x2 - 2:g} {y2:g} C{x2 - bend:g} {y2 + bow:g} {x1 + bend:g} {y1 + bow:g} {x1 + 7:g} {y1:g}"
    drawing.add("path", d=back, class_="flow", stroke_width=f"{wide:.3g}", **dashed)
    drawing.add("path", d=f"M{x1 + 1:g} {y1:g} L{x1 + 10:g} {y1 - 5:g} L{x1 + 10:g} {y1 + 5:g} Z", class_="head")
    if far or y2 > y1 + HIGH:
        labels.append(((x1 + x2) / 2, (y1 + y2) / 2 + 15 + 0.75 * bow, "middle", short(way.length)))
    else:  # where it arrives at its source no other is beside it
        beside = sum(label[:1] == (x1 + 12,) and y1 < label[1] < y1 + HIGH for label in labels)
        labels.append((x1 + 12, y1 + 17 + 13 * beside, "start", short(way.length)))


def in_another_band(begin: tuple[float, float], end: tuple[float, float]) -> bool:
    """Whether a way between two stations leaves its band: it would go back, or far down."""
    return end[0] < begin[0] + WIDE or abs(end[1] - begin[1]) > 6 * DOWN


def leaves(place: tuple[float, float]) -> tuple[float, float]:
    """Where the ways out of a station begin."""
    return place[0] + WIDE, place[1] + HIGH / 2 - 6


def enters(place: tuple[float, float], share: float) -> tuple[float, float]:
    """Where a way into a station ends."""
    return place[0], place[1] + 6 + share * (HIGH - 16)


def stub(
    drawing: Drawing, place: tuple[float, float], inner: int, ways: Sequence[Way], longest: float, share: float = 0.5
) -> None:
    """Ways between a station and another band: one end, and the names of the other sides.

    Where they leave, ``inner`` is 1, and the lengths of what comes back stand there.
    """
    x, y = leaves(place) if inner > 0 else enters(place, share)
    others = [way.target if inner > 0 else way.source.partition(" ")[0] for way in ways]
    near, other = x + inner * 2, x + inner * (STUB - 14)
    drawing.add("path", d=f"M{near:g} {y:g} L{other:g} {y:g}", class_="way")
    name = ("to " if inner > 0 else "") + ", ".join(others)
    drawing.text(min(near, other), y - 5, name, size=11, kind="soft", room=STUB - 8)
    drawing.reach(other, y)
    lengths = [way.length for way in ways if way.length is not None]
    if not lengths:
        return
    wide = thickness(max(lengths), longest)
    drawing.add("path", d=f"M{near:g} {y + 10:g} L{other:g} {y + 10:g}", class_="flow", stroke_width=f"{wide:.3g}")
    if inner > 0:
        drawing.text(near, y + 26, ", ".join(map(short, lengths)), size=12, kind="back", room=STUB - 4)


def short(value: float) -> str:
    """A length in three digits."""
    return f"{value:.3g}"


def curve(drawing: Drawing, flow: Flow) -> None:
    """The length of what comes back to each tensor, from the first operation to the last, by orders of magnitude."""
    made = [s.name for s in flow.stations if s.made]
    lengths: Mapping[str, float] = {
        name: math.sqrt(sum(w.length**2 for w in flow.ways if w.source == name and w.length is not None))
        for name in made
    }
    points = [(n, lengths[name]) for n, name in enumerate(made) if 0 < lengths[name] < math.inf]
    points.append((len(made) - 1, flow.length)) if 0 < flow.length < math.inf else None
    if not points:
        drawing.text(LEFT, TOP + 70, "Nothing comes back.", size=14)
        return
    logs = [math.log10(value) for _, value in points]
    low, high = math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1)
    left, top, wide, tall = LEFT + 70, TOP + 56.0, 900.0, 320.0

    def down(log: float) -> float:
        return top + tall * (high - log) / (high - low)

    every = max(1, (high - low) // 8)
    for power in range(low, high + 1, every):
        drawing.text(left - 10, down(power) + 4, f"1e{power}", size=12, anchor="end", kind="soft")
        drawing.add("path", d=f"M{left:g} {down(power):g} H{left + wide:g}", class_="way", opacity=0.4)
    places = [(left + wide * n / max(len(made) - 1, 1), down(math.log10(v))) for n, v in sorted(points)]
    drawing.add("path", d="M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in places), class_="flow", stroke_width=2.5)
    drawing.reach(left + wide, top + tall)
    drawing.text(left, top + tall + 24, f"{made[0]}, the first operation", size=12)
    drawing.text(left + wide, top + tall + 24, f"{made[-1]}, the last", size=12, anchor="end")


def ways_of(readers: Sequence[tuple[str, str]], lengths: Mapping[tuple[str, str], float]) -> tuple[Way, ...]:
    """One way for each pair of a tensor and who reads it."""
    return tuple(Way(a, b, lengths.get((a, b))) for a, b in dict.fromkeys(readers))
