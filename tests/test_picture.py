"""The picture of v × J: well-formed, self-contained, said in words as well, and its numbers are the explanation's."""

from __future__ import annotations

import base64
import re
import zlib
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import symgrad
from symgrad import SymgradError
from symgrad.numeric import as_float
from symgrad.render.drawing import PALETTE, png
from symgrad.render.html.pieces import inline_picture
from symgrad.render.jacobian_picture import BY_SIGN, SIGNS, binned
from symgrad.render.numbers import brief, digits_of
from symgrad_cli.main import main
from tests.cases import Case, first_stories
from tests.compare import assert_same
from tests.forum import forum

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> list[str]:
    """What stands in the picture."""
    return [element.text or "" for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def told(picture: str) -> str:
    """What somebody who hears the picture is told."""
    return ElementTree.fromstring(picture).find(f"{SVG}desc").text


def test_what_is_zero_but_for_rounding_is_said_to_be_that() -> None:
    """As the page says beside the picture."""
    picture = symgrad.explain("softmax(x)", x=[1, 2, 3]).to_svg()
    assert told(picture).endswith("≈ 0. x.grad is ≈0, ≈0, ≈0.")
    assert not any("e-1" in text for text in texts(picture))
    assert "1e-17" in told(symgrad.explain("x * x", x=[1.0], seed=[5e-18]).to_svg())


def test_the_forum_example() -> None:
    picture = forum().to_svg()
    found = texts(picture)
    assert "v weighs the rows of J, and the weighted rows add up to x.grad" in found
    assert "x.grad[0,0] = 1·1 + 2·1 + 3·1 + 4·1 = 10" in found
    assert found.count("10") == 6 and found.count("26") == 6  # noqa: PT018 -- three columns, once below J and once in x's shape
    assert [found.count(f"a{i}{j}") for i in range(3) for j in range(4)] == [2] * 12
    assert "J is 8 by 6, 24 of 48 entries can be nonzero" in told(picture)
    assert told(picture).endswith("x.grad is 10, 10, 10, 26, 26, 26.")


def test_another_input_and_the_matrix_alone() -> None:
    explanation = forum()
    assert "a.grad[0,0] = 1·1 + 5·1 = 6" in texts(explanation.to_svg("a"))
    alone = explanation.gradients["x"].jacobian.to_svg()
    assert "∂out/∂x" in texts(alone)
    assert "×" not in texts(alone)
    with pytest.raises(SymgradError, match="no gradient with respect to y"):
        explanation.to_svg("y")


@pytest.mark.parametrize("case", first_stories())
def test_the_numbers_of_every_picture_are_the_gradients(case: Case) -> None:
    explanation = case.story
    for name, gradient in explanation.gradients.items():
        picture = explanation.to_svg(name)
        assert not re.search(r'(?:href|src)="(?!data:)', picture)
        assert not set(re.findall(r"https?://[^\"]*", picture)) - {"http://www.w3.org/2000/svg"}
        _, lit, sentence = told(picture).partition("The lit column: ")
        if not lit:  # a large one has no column lit
            assert "entries are not 0 here" in told(picture) or "every entry is not 0 here" in told(picture)
            continue
        column = sentence.partition(f". {name}.grad is")[0]
        assert column in " ".join(texts(picture))
        label, _, total = column.partition(" = ")
        at = tuple(int(n) for n in re.findall(r"\d+", label.removeprefix(f"{name}.grad")))
        value = as_float(gradient.value)[at]
        shown = total.rpartition(" = ")[2].replace("−", "-")
        assert_same(value, float(np.float64(as_number(shown))), tolerance=1e-4, what=f"{case.name} by {name}")


def as_number(text: str) -> float:
    """A number as pages write it."""
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def test_names_of_users_stay_text() -> None:
    picture = symgrad.explain("x < 1", shapes={"x": (2,)}).to_svg()
    assert "x < 1, with x 2, out 2" in texts(picture)


def test_numbers_side_by_side_have_as_many_digits() -> None:
    """0.22 beside 0.2227 looks like another number."""
    values = [0.2227031, -0.1628, 0.25, 3, Fraction(1, 3)]
    assert [brief(value, digits_of(values)) for value in values] == ["0.223", "−0.163", "0.25", "3", "1/3"]
    drawn = texts(symgrad.explain("softmax(x)", x=[0.3, 1.5, 1.9], seed=[1, 0, 0], check=False).to_svg())
    assert [text for text in drawn if re.fullmatch(r"−?0\.\d+", text)][4:7] == ["0.23", "−0.19", "−0.058"]


def test_a_large_matrix_is_a_raster_of_where_its_entries_are() -> None:
    picture = symgrad.explain("tanh(x)", shapes={"x": (64, 64)}, check=False).to_svg()
    assert "J is 4,096 by 4,096; 4,096 of 16,777,216 entries are not 0 here." in told(picture)
    data = re.search(r"base64,([^\"]*)", picture)
    assert data is not None
    raw = base64.b64decode(data[1])
    assert raw.startswith(b"\x89PNG\r\n")
    start = raw.index(b"IDAT") + 4
    rows = zlib.decompress(raw[start : raw.index(b"IEND") - 8])
    alpha = np.frombuffer(rows, dtype=np.uint8).reshape(240, 1 + 4 * 240)[:, 4::4]
    near = np.abs(np.subtract.outer(np.arange(240), np.arange(240))) <= 1
    assert (alpha[~near] == 0).all()
    assert (alpha.diagonal() > 0).all()
    assert len(picture) < 20_000


def test_an_image_is_read_back_as_it_was() -> None:
    alpha = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    raw = png(alpha, "#010203")
    start = raw.index(b"IDAT") + 4
    pixels = np.frombuffer(zlib.decompress(raw[start : raw.index(b"IEND") - 8]), dtype=np.uint8).reshape(2, 13)[:, 1:]
    assert (pixels.reshape(2, 3, 4)[..., 3] == alpha).all()
    assert (pixels.reshape(2, 3, 4)[..., :3] == [1, 2, 3]).all()


ROOT = Path(symgrad.__file__).parent.parent
SHEETS = ["symgrad/render/drawing.py", "symgrad/sphinx/static/symgrad.css", "symgrad/render/html/templates/style.css"]
GROUNDS = {"#ffffff": "#1b1b1f", "#16161a": "#ececf1"}
"""What pictures stand on, in the light and in the dark, and the ink of their texts."""


def linear(colour: str, share: float = 1.0, ground: str = "#ffffff") -> np.ndarray:
    """The light of a colour that covers ``share`` of a ground, as red, green and blue."""
    parts, below = (np.array([int(c[n : n + 2], 16) / 255 for n in (1, 3, 5)]) for c in (colour, ground))
    mixed = share * parts + (1 - share) * below
    return np.where(mixed <= 0.04045, mixed / 12.92, ((mixed + 0.055) / 1.055) ** 2.4)


def tint() -> float:
    """How much of its ground a coloured cell covers; the same in pictures, on the site, and in pages."""
    found = {
        float(n)
        for path in SHEETS
        for n in re.findall(r"\.tint ?{ ?fill-opacity: ?([.\d]+)", (ROOT / path).read_text())
    }
    found |= {int(n) / 100 for n in re.findall(r"--tint:(\d+)%", (ROOT / SHEETS[-1]).read_text(encoding="utf-8"))}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize("ground", GROUNDS)
def test_text_on_every_colour_can_be_read(ground: str) -> None:
    weights = np.array([0.2126, 0.7152, 0.0722])
    for colour in PALETTE:
        low, high = sorted((weights @ linear(colour, tint(), ground), weights @ linear(GROUNDS[ground])))
        assert (high + 0.05) / (low + 0.05) >= 4.5, colour  # WCAG 2.1, level AA


BLIND = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""What is seen without one kind of cones (Machado, Oliveira and Fernandes 2009, severity 1)."""


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("eyes", BLIND)
def test_the_colours_of_signs_differ_for_everybody(eyes: str, ground: str) -> None:
    """By more than 10 in CIELAB, where 2 are seen beside each other."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])

    def lab(light: np.ndarray) -> np.ndarray:
        scaled = xyz @ np.clip(np.array(BLIND[eyes]) @ light, 0, 1) / xyz.sum(axis=1)
        x, y, z = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
        return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])

    above, below, none = (lab(linear(colour, tint(), ground)) for colour in (SIGNS[1], SIGNS[-1], ground))
    assert min(np.linalg.norm(one - other) for one, other in ((above, below), (above, none), (below, none))) > 10


COLOURED = {
    "x@a": ({}, "Cells that hold the same entry of a have the same colour."),
    "softmax(x, dim=-1)": ({"x": [0.3, 1.5, 1.9]}, BY_SIGN),
    "torch.fft.fft(x)": ({"x": [1.0, 2, 3, 4]}, BY_SIGN),
    "relu(x)": ({"x": [[1, -2, 3]]}, BY_SIGN),
    "out[i] = sum_j x[i+j]*w[j]": ({"x": [1, 2, 3, 4], "w": [-1, 2]}, "Cells that hold the same entry of w"),
}


@pytest.mark.parametrize("text", COLOURED)
def test_colours_mean_what_their_legend_says(text: str) -> None:
    """In pictures and in pages: one entry has one colour, or blue is above 0, red below, and 0 has none."""
    values, legend = COLOURED[text]
    found = symgrad.explain(text, check=False, **values)
    picture, page = found.to_svg(), found.to_html()
    assert legend in " ".join(texts(picture))
    assert legend in page
    cells = found.gradients[next(iter(found.gradients))].jacobian.dense().reshape(-1)
    pairs = re.findall(r'fill="(#\w+)"[^>]*/>\s*<text [^>]*>([^<]*)<', picture)
    assert pairs
    if legend == BY_SIGN:
        assert all((colour == SIGNS[-1]) == text.startswith("−") for colour, text in pairs)
        assert len(pairs) == np.count_nonzero(np.abs(cells) > 1e-12)
    else:
        assert len(set(pairs)) == len({text for _, text in pairs})


def test_what_passes_is_coloured_and_what_is_stopped_is_not() -> None:
    """The condition, in letters that nobody reads, told neither."""
    picture = symgrad.explain("relu(x)", x=[1, -2, 3], check=False).to_svg()
    assert texts(picture).count("1") == 7  # v, two of J, two of x.grad
    assert picture.count('class="tint"') == 2


@pytest.mark.parametrize("text", [*COLOURED, "F.conv2d(x, w)", "x*1000*y", "-x/1437"])
def test_numbers_of_a_picture_have_one_size(text: str) -> None:
    """They shrank to the width of a cell; now all cells are as wide as the longest."""
    values, _ = COLOURED.get(text, ({}, ""))
    shapes = {"x": (1, 1, 2, 4), "w": (1, 1, 2, 2)} if "conv2d" in text else {}
    root = ElementTree.fromstring(symgrad.explain(text, shapes=shapes, check=False, **values).to_svg())
    cells = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "cell"]
    sides = {(float(rect.get("x")), float(rect.get("width"))) for rect in cells}
    assert len({side for _, side in sides}) == 1
    inside = [
        node for node in root.iter(f"{SVG}text")
        if node.get("text-anchor") == "middle"
        and any(float(r.get("y")) < float(node.get("y")) < float(r.get("y")) + 40
                and 0 < float(node.get("x")) - float(r.get("x")) < float(r.get("width")) for r in cells)
    ]  # fmt: skip
    assert len(inside) >= len(cells)
    assert {node.get("font-size") for node in inside} == {"14"}
    assert max(0.62 * 14 * len(node.text) for node in inside) <= sides.pop()[1]
    heads = [float(node.get("font-size")) for node in root.iter(f"{SVG}text")]
    assert min(heads) >= 12


def test_scalars_nothing_and_odd_numbers_have_a_picture() -> None:
    for text, values in (
        ("x*x", {"x": 2.0}),
        ("sum(x)", {"x": [[-1, 2]]}),
        ("log(x)", {"x": [0.0]}),
        ("round(x)", {"x": [1.5]}),
    ):
        ElementTree.fromstring(symgrad.explain(text, **values).to_svg())
    ElementTree.fromstring(symgrad.explain("x*2", shapes={"x": (0, 3)}).to_svg())


def test_the_command_writes_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "product.svg"
    done = CliRunner().invoke(
        main, ["explain", "x@a", "--seed", "[[1,2,3,4],[5,6,7,8]]", "--format", "svg", "-o", str(path)]
    )
    assert done.exit_code == 0, done.output
    assert texts(path.read_text(encoding="utf-8")) == texts(forum().to_svg())


def test_what_is_empty_or_zero_is_said_once() -> None:
    assert "J is 0 by 0; it has no entry." in symgrad.explain("x*2", shapes={"x": (0, 3)}).to_svg()
    assert ">x.grad[0] = 0<" in symgrad.explain("sign(x)", x=[1, -2]).to_svg()


@pytest.mark.parametrize("program", [False, True])
def test_the_style_is_the_pictures_own(program: bool) -> None:
    """A notebook has cells, too: every rule is of this picture alone."""
    root = ElementTree.fromstring(symgrad.explain("x@a", check=False).to_svg(program=program))
    rules = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"@media[^{]*\{", "", root.findtext(f"{SVG}style", "")))
    assert len(rules) > 15
    assert all(rule.strip().startswith(f".{root.get('class')} ") for rule in rules), rules


LONG = "hidden_state_of_the_encoder_after_layer_normalization"


def letters(picture: str) -> list[float]:
    """The sizes of the letters of a picture."""
    return [float(size) for size in re.findall(r'font-size="([\d.]+)"', picture)]


@pytest.mark.parametrize("program", [False, True])
def test_long_names_and_texts_can_be_read(program: bool) -> None:
    """No letter is too small for reading, no line too long for a screen, and what is cut is whole where one points."""
    text = f"attention = softmax({LONG} @ {LONG}_2 / 2, dim=-1); attention * {LONG}_3"
    shapes = {LONG: (2, 2), f"{LONG}_2": (2, 3), f"{LONG}_3": (2, 3)}
    explanation = symgrad.explain(text, shapes=shapes, check=False)
    picture = explanation.to_svg(program=program)
    assert min(letters(picture)) >= 7
    root = ElementTree.fromstring(picture)
    assert float(root.get("width")) < 1300
    cut = [node for node in root.iter(f"{SVG}text") if "…" in (node.text or "")]
    assert all(node.findtext(f"{SVG}title", "").startswith(node.text.partition("…")[0]) for node in cut)
    if not program:
        assert f"entries of {LONG}" in texts(picture)
        assert {"[0,0]", "[1,1]"} <= set(texts(picture))


def test_entries_with_long_names_keep_their_colours() -> None:
    short = symgrad.explain("x@a", x=[[1, 2]], a=[[1, 2], [3, 4]], check=False).to_svg()
    long = symgrad.explain(f"x@{LONG}", x=[[1, 2]], **{LONG: [[1, 2], [3, 4]]}, check=False).to_svg()
    colours = [re.findall(r'<rect [^>]*fill="(#\w+)"', picture) for picture in (short, long)]
    assert colours[0] == colours[1]
    assert len(set(colours[1])) == 4


def test_what_can_be_nonzero_is_counted_whatever_it_is_here() -> None:
    """An entry that is 0 at these numbers, or no number, has no colour of a sign; it stands there all the same."""
    picture = symgrad.explain("tanh(x)*y", x=[0.5, 400.0], y=[1.5, 2], check=False).to_svg()
    assert "2 of 4 entries can be nonzero" in told(picture)
    assert texts(picture).count("·") == 2
    missing = symgrad.explain("sqrt(x)", x=[4, -1], check=False).to_svg()
    assert re.findall(r'<rect [^>]*fill="(#\w+)"', missing) == [SIGNS[1]]
    assert "nan" in texts(missing)


def test_the_description_has_sizes_and_no_letters_for_them() -> None:
    assert "entries can be nonzero, I₂ ⊗ aᵀ." in told(forum().to_svg())


def test_a_full_part_of_the_raster_is_as_dark_as_any() -> None:
    rows, columns = np.indices((250, 250))
    assert (binned(rows.reshape(-1), columns.reshape(-1), (250, 250)) == 1).all()


def test_ways_that_leave_together_are_named_together() -> None:
    drawn = symgrad.explain(
        "h=x+y; a=h*h; b=h@w; c=b+a@w; d=relu(c)*c; (d+b).sum()", shapes={"x": (2, 3), "y": (3,), "w": (3, 4)}, check=False
    ).to_svg(program=True)  # fmt: skip
    assert "to t3, d" in texts(drawn)


def points_of(path: str) -> list[tuple[float, float]]:
    """Points along a path of straight lines and Bézier curves."""
    found: list[tuple[float, float]] = []
    for kind, text in re.findall(r"([MLC])([^MLC]*)", path):
        values = [float(value) for value in text.split()]
        ends = list(zip(values[::2], values[1::2], strict=True))
        if kind == "M":
            found += ends
            continue
        corners = [found[-1], *ends] if kind == "C" else [found[-1], found[-1], *ends, *ends]
        for t in np.linspace(0, 1, 40):
            shares = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            found.append(tuple(sum(s * c[n] for s, c in zip(shares, corners, strict=True)) for n in (0, 1)))
    return found


@pytest.mark.parametrize(
    "text", ["x**2 + sin(x)", "h = tanh(x@w); h*x + sin(h)", "a = sin(x); b = cos(a); c = a*b; d = tanh(c); d + a"]
)
def test_no_way_back_runs_through_a_length(text: str) -> None:
    root = ElementTree.fromstring(symgrad.explain(text, check=False).to_svg(program=True))
    ways = [points_of(path.get("d")) for path in root.iter(f"{SVG}path") if path.get("class") == "flow"]
    for label in root.iter(f"{SVG}text"):
        if label.get("class") == "back" and label.get("text-anchor") != "middle":
            x, y, wide = float(label.get("x")), float(label.get("y")), 7 * len(label.text)
            left = x - wide if label.get("text-anchor") == "end" else x
            inside = [(a, b) for way in ways for a, b in way if left < a < left + wide and y - 9 < b < y]
            assert not inside, (label.text, inside[0])


def test_lengths_of_thousands_are_whole_numbers() -> None:
    drawn = symgrad.explain("tanh(x)@a", x=np.ones((30, 200)) / 9, a=np.ones((200, 60)), check=False)
    assert not any("e+0" in text for text in texts(drawn.to_svg(program=True)))


def test_what_is_infinite_is_the_widest_way_back() -> None:
    drawn = symgrad.explain("sqrt(x)*y", x=[0, 4], y=[1, 2]).to_svg(program=True)
    inf, *others = re.findall(r'class="flow" stroke-width="([\d.]+)".*?class="back">([^<]*)<', drawn, re.DOTALL)
    assert inf[1] == "inf"
    assert float(inf[0]) == max(float(width) for width, _ in (inf, *others))


@pytest.mark.slow
def test_ways_from_another_band_are_named_once() -> None:
    drawn = symgrad.explain(
        "q=x@w; k=x@u; a=softmax(q@k.T/2); a@x", shapes={"x": (3, 4), "w": (4, 4), "u": (4, 4)}
    ).to_svg(program=True)
    assert ">a, x<" in drawn


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sheet", ["symgrad/sphinx/static/symgrad.css", "symgrad/render/html/templates/style.css"])
def test_pages_colour_everything_that_pictures_draw(sheet: str) -> None:
    """Inside a page a picture has no style of its own: what the page leaves out is drawn in black."""
    rules = (Path(symgrad.__file__).parent.parent / sheet).read_text(encoding="utf-8")
    found = symgrad.explain("softmax(x@w)")
    for drawn in (found.to_svg(), found.to_svg(program=True), symgrad.explain("x*2", x="ones(90)").to_svg()):
        for word in set(re.findall(r'class="([^"]*)"', str(inline_picture(drawn, "one")))) - {"vj"}:
            for name in word.split():
                assert re.search(rf"picture \.{name}\b", rules), name
