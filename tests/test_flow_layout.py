"""Where the stations of a program stand: no way passes behind a station, and few ways cross."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.render.flow_layout import MOST, FlowEdge, FlowGraph, FlowLayout, Station, lay_out, slots
from symgrad.render.flow_picture import flow_picture

GATES = " ".join(f"a{g}=x,w{g} b{g}=h,u{g} c{g}=a{g},b{g} {g}=c{g}" for g in "ifgo")
PROGRAMS = {
    "attention": "q=x,wq k=x,wk u=x,wv t=k s=q,t a=s p=a,u out=p,wo",
    "a cell of an LSTM": f"{GATES} p=f,c r=i,g n=p,r z=n out=o,z",
    "residual": "a=x,w b=a c=b,w2 h=x,c d=h,w3 e=d z=h,e out=z",
    "many far ways": "a=x b=a c=b d=a,c e=b,d f=a,e out=f,x",
    "statistics": "m=x d=x,m s=d r=s n=d,r p=n,g out=p,b",
    "many inputs": "out=" + ",".join(f"x{n}" for n in range(30)),
}


def flow_of(text: str) -> FlowGraph:
    """``out=x,w``: what each operation reads."""
    made = {name: sources.split(",") for name, _, sources in (step.partition("=") for step in text.split())}
    read = dict.fromkeys(s for sources in made.values() for s in sources if s not in made)
    stations = [*(Station(name, "", "2") for name in read), *(Station(name, name, "2") for name in made)]
    ways = [FlowEdge(source, name, 1.0) for name, sources in made.items() for source in dict.fromkeys(sources)]
    return FlowGraph("", "", tuple(stations), tuple(ways), "out", "v", 1.0)


def crossing(laid: FlowLayout) -> int:
    """Counted by rows, not by the order in which they were found."""
    parts = []
    for way in laid.flow.ways:
        if laid.same_band(way):
            chain = slots(laid.column, way)
            columns = range(laid.column[way.source], laid.column[way.target])
            parts += [(c, laid.row[a], laid.row[b]) for c, (a, b) in zip(columns, pairwise(chain), strict=True)]
    return sum(a[0] == b[0] and (a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in combinations(parts, 2))


def room_of_its_own(laid: FlowLayout) -> bool:
    """Whether no two stations or lanes stand at one place."""
    found = [(laid.column[s] if isinstance(s, str) else s[2], row) for s, row in laid.row.items()]
    return len(set(found)) == len(found)


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS)
def test_no_ways_cross_where_that_can_be(text: str) -> None:
    laid = lay_out(flow_of(text))
    assert crossing(laid) == laid.crossings == 0
    assert room_of_its_own(laid)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4, unique=True), min_size=1, max_size=14),
    st.integers(1, 6),
)
def test_every_way_has_room_of_its_own(reads: list[list[int]], inputs: int) -> None:
    """Whatever the program: each way goes to the right, from the tensor that it is of, and passes behind nothing."""
    names = [f"x{n}" for n in range(inputs)]
    steps = []
    for n, sources in enumerate(reads):
        steps.append(f"t{n}={','.join(dict.fromkeys(names[s % len(names)] for s in sources))}")
        names.append(f"t{n}")
    flow = flow_of(" ".join(steps))
    laid = lay_out(flow)
    stations = {s.name: s for s in laid.flow.stations}
    assert room_of_its_own(laid)
    assert crossing(laid) == laid.crossings
    assert len(stations) <= MOST
    drawn = [(stations[w.source].again or w.source, w.target) for w in laid.flow.ways]
    assert drawn == [(w.source, w.target) for w in flow.ways]
    assert all(laid.column[w.source] < laid.column[w.target] for w in laid.flow.ways)


def test_long_names_of_inputs_are_told_apart() -> None:
    flow = flow_of("out=encoder.self_attn.in_proj_weight,encoder.self_attn.in_proj_bias")
    assert re.findall(r">(…[^<]*)<", flow_picture(flow)) == ["…ttn.in_proj_weight", "…_attn.in_proj_bias"]
