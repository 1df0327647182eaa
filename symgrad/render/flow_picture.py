"""A program as stations from left to right, and what flows back on each way between them, with its length.

Comes in: stations and ways, plain data. Goes out: SVG. What flows back is drawn the thinner the shorter it is, so
that a gradient that vanishes is seen to; a program with too many stations becomes a curve of the lengths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from symgrad.explanation.evidence import Rounding
from symgrad.render import numbers
from symgrad.render.drawing import LEFT, TOP, Drawing, truncate_start
from symgrad.render.flow_layout import MOST, FlowEdge, FlowGraph, FlowLayout, Slot, Station, lay_out, slots
from symgrad.render.wrapping import truncate_end

WIDE, HIGH, ACROSS, DOWN = 126, 48, 198, 92
"""A station, and from one to the next."""
STUB = 58
"""A way that goes on in another band is drawn as two ends of this length."""
GAP, BEND = 11, 42
"""From a way to what flows back on it, where there is room; how far a way goes on straight before it bends."""
VANISHED = 1e-6
"""Of the longest: what is shorter is dashed."""
THICK, THIN = 7.0, 1.0
LONGEST = 19
"""Characters of an operation in its station."""
LONGEST_BELOW = 24
"""Characters of its name and its shape together."""
CURVE = "upwards: the norm of the gradient with respect to each result; to the right: the order of the forward pass"


def flow_picture(flow: FlowGraph) -> str:
    """The picture as SVG."""
    drawing = Drawing()
    drawing.headed(flow.title, CURVE if len(flow.stations) > MOST else flow.below)
    if len(flow.stations) > MOST:
        draw_curve(drawing, flow)
    else:
        draw_stations(drawing, lay_out(flow))
    return drawing.finished(flow.title, describe_flow(flow))


def describe_flow(flow: FlowGraph) -> str:
    """What somebody who hears the picture is told: the forward, and every length on the way back."""
    shown = flow.stations if len(flow.stations) <= MOST else (*flow.stations[: MOST // 2], *flow.stations[-MOST // 2 :])
    forward = ", ".join(f"{s.name} {s.shape}" + (f" = {s.made}" if s.made else "") for s in shown)
    names = {s.name for s in shown}
    back = [w for w in reversed(flow.ways) if w.length is not None and {w.source, w.target} <= names]
    lengths = ", ".join(f"from {w.target} to {w.source} {numbers.text(w.length)}" for w in back)
    rest = "" if len(shown) == len(flow.stations) else f" {len(flow.stations) - len(shown)} tensors are left out here."
    return (
        f"Forward: {forward}. Backward: {flow.seed} has norm {numbers.text(flow.length)}; gradient norms "
        f"{lengths}.{rest}"
    )


Point = tuple[float, float]
Label = tuple[float, float, str, str]
"""Where a length stands: x, y, its anchor, and the length in words."""


@dataclass(frozen=True)
class PaperLayout:
    """A flow on paper: where slots stand, and where in the side of a station each way leaves and enters."""

    laid: FlowLayout
    tops: Mapping[int, float]
    left: float

    @classmethod
    def of(cls, laid: FlowLayout) -> PaperLayout:
        """The bands below one another."""
        high: dict[int, int] = {}
        for slot, row in laid.row.items():
            band = slot_column(laid, slot) // laid.flow.band
            high[band] = max(high.get(band, 0), row + 1)
        tops, top = {}, TOP + 64.0
        for band in range(max(high, default=0) + 1):
            tops[band] = top
            top += high.get(band, 1) * DOWN + 42
        return cls(laid, tops, LEFT + (STUB if len(tops) > 1 else 0))

    def at(self, slot: Slot) -> Point:
        """The upper left corner of a station, or of the room that a lane takes."""
        band, place = divmod(slot_column(self.laid, slot), self.laid.flow.band)
        return self.left + place * ACROSS, self.tops[band] + self.laid.row[slot] * DOWN

    def among(self, way: FlowEdge, leaving: bool) -> tuple[int, int]:
        """Which one a way is of how many that leave its source or enter its target.

        Side by side in the order of where they go, or come from; what goes to other bands above them, as one.
        """
        name = way.source if leaving else way.target
        same = [w for w in self.laid.flow.ways if name == (w.source if leaving else w.target)]
        near = [w for w in same if self.laid.same_band(w)]
        near.sort(key=lambda w: self.laid.row[slots(self.laid.column, w)[1 if leaving else -2]])
        above = int(len(near) < len(same))
        return near.index(way) + above if way in near else 0, len(near) + above

    def port(self, way: FlowEdge, leaving: bool) -> tuple[float, float, float]:
        """Where a way leaves its source or enters its target, and how far below that what flows back does."""
        x, y = self.at(way.source if leaving else way.target)
        nth, count = self.among(way, leaving)
        share = (HIGH - 6) / count
        return x + (WIDE if leaving else 0), y + 3 + (nth + 0.35) * share, min(GAP, 0.42 * share)


def slot_column(laid: FlowLayout, slot: Slot) -> int:
    """The column of a station or a lane."""
    return laid.column[slot] if isinstance(slot, str) else slot[2]


def thickness(length: float, longest: float) -> float:
    """Wider for longer, by orders of magnitude; what is infinite or no number is the widest."""
    if not math.isfinite(length):
        return THICK
    if length <= 0 or longest <= 0:
        return THIN
    return max(THIN, THICK + math.log10(length / longest))


def draw_stations(drawing: Drawing, laid: FlowLayout) -> None:
    """Stations, and the ways between them."""
    placed, flow = PaperLayout.of(laid), laid.flow
    finite = [w.length for w in flow.ways if w.length is not None and math.isfinite(w.length)]
    longest = max([*finite, flow.length if math.isfinite(flow.length) else 0.0], default=0.0)
    labels: list[Label] = []  # above every way
    for way in flow.ways:
        if laid.same_band(way):
            draw_way(drawing, labels, placed, way, longest)
    for station in flow.stations:
        for leaving in (True, False):
            draw_stub(drawing, labels, placed, station.name, leaving, longest)
    for x, y, anchor, text in separate_labels(labels):
        drawing.text(x, y, text, size=12, anchor=anchor, kind="back")
    for station in flow.stations:
        x, y = placed.at(station.name)
        draw_station(drawing, station, x, y)
        if station.name == flow.output:
            drawing.text(x + WIDE / 2, y + HIGH + 17, f"← {flow.seed}, norm {three_digits(flow.length)}",
                         size=12, anchor="middle", kind="back")  # fmt: skip


def separate_labels(labels: Iterable[Label]) -> list[Label]:
    """Lengths that begin at one place across stand below one another."""
    found: list[Label] = []
    for x, y, anchor, text in sorted(labels):
        if found and found[-1][0] == x:
            y = max(y, found[-1][1] + 13)
        found.append((x, y, anchor, text))
    return found


def draw_station(drawing: Drawing, station: Station, x: float, y: float) -> None:
    """One station: what made it, what it is called, its shape."""
    drawing.add("rect", x=x, y=y, width=WIDE, height=HIGH, rx=24 if not station.made else 6, class_="box",
                **({"stroke_dasharray": "4 3"} if station.again else {}))  # fmt: skip
    drawing.reach(x + WIDE, y + HIGH)
    name = truncate_end(station.name, LONGEST_BELOW - len(station.shape))
    below = f"{name}  {station.shape}" if station.made else "again" if station.again else station.shape
    said = station.made or station.again or station.name
    short_said = truncate_end if station.made else truncate_start
    drawing.text(
        x + WIDE / 2, y + 20, short_said(said, LONGEST), size=13, anchor="middle", bold=True, kind="ink code",
        room=WIDE - 12, whole=said,
    )  # fmt: skip
    whole = f"{station.name}  {station.shape}" if station.made else below
    drawing.text(x + WIDE / 2, y + 38, below, size=12, anchor="middle", kind="soft", room=WIDE - 12, whole=whole)


def draw_way(drawing: Drawing, labels: list[Label], placed: PaperLayout, way: FlowEdge, longest: float) -> None:
    """The way there, thin and grey, and below it the way back; its length goes among the labels."""
    (x1, y1, gap1), (x2, y2, gap2) = placed.port(way, True), placed.port(way, False)
    lanes = [placed.at(slot) for slot in slots(placed.laid.column, way)[1:-1]]
    middle = HIGH / 2 - GAP / 2
    there = [(x1, y1), *((x + side, y + middle) for x, y in lanes for side in (0, WIDE)), (x2 - 2, y2)]
    drawing.add("path", d=route(there), class_="way")
    drawing.add("path", d=f"M{x2 - 8:g} {y2 - 4:g} L{x2 - 1:g} {y2:g} L{x2 - 8:g} {y2 + 4:g}", class_="way")
    if way.length is None:
        return
    start, end = (x2 - 2, y2 + gap2), (x1 + 7, y1 + gap1)
    back = [start, *((x + side, y + middle + GAP) for x, y in reversed(lanes) for side in (WIDE, 0)), end]
    dashed = {"stroke_dasharray": "2 5"} if way.length <= VANISHED * longest else {}
    drawing.add(
        "path", d=route(back), class_="flow", stroke_width=f"{thickness(way.length, longest):.3g}", **dashed
    )  # fmt: skip
    x, y = x1 + 1, end[1]
    drawing.add("path", d=f"M{x:g} {y:g} L{x + 9:g} {y - 5:g} L{x + 9:g} {y + 5:g} Z", class_="head")
    if lanes:
        x, y = lanes[len(lanes) // 2]
        labels.append((x + WIDE / 2, y + middle + GAP + 16, "middle", three_digits(way.length)))
    else:
        x, y, anchor = label_place(placed, way, (x1, y1), (x2, y2), end[1])
        labels.append((x, y, anchor, three_digits(way.length)))


def label_place(
    placed: PaperLayout, way: FlowEdge, leaves: Point, enters: Point, back: float
) -> tuple[float, float, str]:
    """Where the length of a way without lanes stands: outside of the ways that leave with it, and off its own bend."""
    (x, y), rise = leaves, leaves[1] - enters[1]
    up, down = rise > HIGH / 2, rise < -HIGH / 2
    nth, count = placed.among(way, True)
    top, first, last = placed.at(way.source)[1], nth == 0 < count - 1, nth == count - 1 > 0
    if first and up:
        return x - 2, top - 6, "end"
    if last and down:
        return x - 2, top + HIGH + 15, "end"
    if first or (count == 1 and down):
        return x + 12, (y if down else min(y, enters[1])) - 6, "start"
    return x + 12, back + 17 + max(0.0, -rise), "start"  # below the lower of its ends


def route(points: Sequence[Point]) -> str:
    """A path through ``points``: bent where they are at different heights."""
    path = [f"M{points[0][0]:g} {points[0][1]:g}"]
    for (x1, y1), (x2, y2) in pairwise(points):
        bend = math.copysign(min(BEND, 0.6 * abs(x2 - x1)), x2 - x1)
        bent = f"C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} "
        path.append(f"{bent if y1 != y2 else 'L'}{x2:g} {y2:g}")
    return " ".join(path)


def draw_stub(
    drawing: Drawing, labels: list[Label], placed: PaperLayout, name: str, leaving: bool, longest: float
) -> None:  # fmt: skip
    """The ways of a station to or from other bands: one end, and the names of the other sides.

    Where they leave, the lengths of what comes back stand there. Beside other ways the end bends upwards, out of them.
    """
    laid = placed.laid
    same = [w for w in laid.flow.ways if name == (w.source if leaving else w.target)]
    ways = [w for w in same if not laid.same_band(w)]
    if not ways:
        return
    x, y, gap = placed.port(ways[0], leaving)
    top = placed.at(name)[1]
    others = [way.target if leaving else way.source.partition(" ")[0] for way in ways]
    outward = 1 if leaving else -1
    near, other = x + 2 * outward, x + (STUB - 14) * outward
    far = y if len(ways) == len(same) else top - 10
    drawing.add("path", d=route([(near, y), (other, far)]), class_="way")
    said = ("to " if leaving else "") + ", ".join(others)
    drawing.text(min(near, other), far - 5, said, size=11, kind="soft", room=STUB - 8)
    drawing.reach(other, y)
    lengths = [way.length for way in ways if way.length is not None]
    if not lengths:
        return
    wide, y, far = thickness(max(lengths), longest), y + gap, far + GAP
    drawing.add("path", d=route([(near, y), (other, far)]), class_="flow", stroke_width=f"{wide:.3g}")
    if leaving:
        at = y + 16 if len(ways) == len(same) else far - GAP - 18
        labels.append((near, at, "start", ", ".join(map(three_digits, lengths))))


def three_digits(value: float) -> str:
    """A length in three digits.

    >>> three_digits(0.41614), three_digits(2938.7), three_digits(2.5e7)
    ('0.416', '2940', '2.5e+07')
    """
    if isinstance(value, Rounding):
        return numbers.text(value)
    digits = f"{value:.3g}"
    return f"{float(digits):.0f}" if 1e3 <= abs(value) < 1e5 else digits


def draw_curve(drawing: Drawing, flow: FlowGraph) -> None:
    """The length of what comes back to each tensor, from the first operation to the last, by orders of magnitude."""
    made = [s.name for s in flow.stations if s.made]
    back = [(w.source, w.length) for w in flow.ways if w.length is not None and not isinstance(w.length, Rounding)]
    lengths = {name: math.sqrt(sum(length**2 for source, length in back if source == name)) for name in made}
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
