"""Values from the command line and from Python: exact where they can be, refused where they cannot be used."""

import json
import math
import pickle
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import symgrad
from symgrad.errors import Frontend, SymgradError, for_frontend
from symgrad.language import Value, exact_array, parse_value
from tests.compare import assert_same

# Literals -------------------------------------------------------------------------------------------

FORMS = [
    ("3", (), 3, "int64"),
    ("-1.5", (), -1.5, "float64"),
    ("1/2", (), Fraction(1, 2), "object"),
    ("4/2", (), 2, "int64"),
    ("2**-1 + 0.5", (), 1.0, "float64"),
    ("[1,2]", (2,), [1, 2], "int64"),
    ("[[1,2],[3,4]]", (2, 2), [[1, 2], [3, 4]], "int64"),
    ("[[1,2],[3,4.5]]", (2, 2), [[1.0, 2.0], [3.0, 4.5]], "float64"),
    ("[[1,2],[3,1/2]]", (2, 2), [[1, 2], [3, Fraction(1, 2)]], "object"),
    ("[1/3, 0.5]", (2,), [1 / 3, 0.5], "float64"),
    ("((1, 2), (3, 4))", (2, 2), [[1, 2], [3, 4]], "int64"),
    ("[]", (0,), [], "int64"),
    ("[[], []]", (2, 0), [[], []], "int64"),
    ("[-1, +2, 1e-3]", (3,), [-1.0, 2.0, 0.001], "float64"),
    ("[[1, 2],\n [3, 4]]", (2, 2), [[1, 2], [3, 4]], "int64"),
    ("ones(2,3)", (2, 3), np.ones((2, 3)), "int64"),
    ("ones((2,3))", (2, 3), np.ones((2, 3)), "int64"),
    ("zeros(shape=(2,))", (2,), np.zeros(2), "int64"),
    ("eye(3)", (3, 3), np.eye(3), "int64"),
    ("arange(6)", (6,), np.arange(6), "int64"),
    ("arange(6,shape=(2,3))", (2, 3), np.arange(6).reshape(2, 3), "int64"),
    ("arange(shape=(2,2))", (2, 2), [[0, 1], [2, 3]], "int64"),
    ("onehot(1,2,shape=(2,3))", (2, 3), [[0, 0, 0], [0, 0, 1]], "int64"),
    ("randn(2,3,seed=0)", (2, 3), np.random.default_rng(0).standard_normal((2, 3)), "float64"),
    ("rand(2,seed=7)", (2,), np.random.default_rng(7).random(2), "float64"),
    ("random(2,2,seed=1)", (2, 2), np.random.default_rng(1).integers(-9, 10, (2, 2)), "int64"),
]


@pytest.mark.parametrize(("text", "shape", "expected", "dtype"), FORMS, ids=[f[0] for f in FORMS])
def test_forms(text: str, shape: tuple[int, ...], expected: object, dtype: str) -> None:
    value = parse_value(text)
    assert value.shape == shape
    array = value.array(shape)
    assert (array.shape, str(array.dtype)) == (shape, dtype)
    assert array.tolist() == np.asarray(expected, dtype=array.dtype).tolist()


def test_truth_values_are_a_mask_as_in_torch() -> None:
    """Written on a command line they do what a tensor of them does: ``~`` takes them, and they are not positions."""
    mask = parse_value("[[True, False]]")
    assert [parse_value(text).truths for text in ("[[True, False]]", "[[1, 0]]", "[[1, True]]")] == [True, False, False]
    found = symgrad.explain("x * ~m", x=[[1.0, 2.0]], m=mask)
    x = torch.tensor([[1.0, 2.0]], requires_grad=True)
    (x * ~torch.tensor([[True, False]])).sum().backward()
    assert_same(found.gradients["x"].value, x.grad.numpy(), what="x.grad")


def test_what_has_a_value_is_told_another_value_and_not_a_shape() -> None:
    """``--shape y=2`` beside ``--let y=[1,2,3]`` would be refused in its turn."""
    with pytest.raises(SymgradError) as caught:
        symgrad.explain("x * y", x=[1, 2], y=[1, 2, 3])
    assert list(map(str, caught.value.hints)) == ['y="randn(2)"', 'x="randn(3)"']
    with pytest.raises(SymgradError) as caught:
        symgrad.explain("x * y", shapes={"x": (2,)}, y=[1, 2, 3])
    with for_frontend(Frontend.COMMAND):
        assert list(map(str, caught.value.hints)) == ["--let y=randn(2)", "--shape x=3"]


def test_truth_values_in_files_are_a_mask(tmp_path: Path) -> None:
    np.save(tmp_path / "mask.npy", np.array([[True, False]]))
    np.save(tmp_path / "numbers.npy", np.array([[1, 0]]))
    (tmp_path / "mask.json").write_text("[[true, false]]", encoding="utf-8")
    (tmp_path / "numbers.json").write_text("[[1, 0]]", encoding="utf-8")
    truths = {path.name: parse_value(f"@{path.name}", directory=tmp_path).truths for path in tmp_path.iterdir()}
    assert truths == {"mask.npy": True, "mask.json": True, "numbers.npy": False, "numbers.json": False}
    found = symgrad.explain("x * ~m", x=[[1.0, 2.0]], m=parse_value("@mask.npy", directory=tmp_path))
    assert_same([[0.0, 1.0]], found.gradients["x"].value, what="x.grad")


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("ones", (2, 2), [[1, 1], [1, 1]]),
        ("ones()", (), 1),
        ("zeros", (3,), [0, 0, 0]),
        ("arange", (2, 2), [[0, 1], [2, 3]]),
        ("eye", (2, 3), [[1, 0, 0], [0, 1, 0]]),
        ("onehot(1, 2)", (2, 3), [[0, 0, 0], [0, 0, 1]]),
        ("onehot()", (), 1),
    ],
)
def test_some_take_the_shape_that_is_asked_for(text: str, shape: tuple[int, ...], expected: object) -> None:
    value = parse_value(text)
    assert value.shape is None
    assert value.array(shape).tolist() == expected


@pytest.mark.parametrize("word", ["randn", "rand", "random", "randn(seed=3)"])
def test_random_values_are_the_same_every_time(word: str) -> None:
    first, second = parse_value(word), parse_value(word)
    assert first.shape is None
    assert_same(first.array((2, 3)), second.array((2, 3)))


@pytest.mark.parametrize("word", ["randn(3)", "rand(3)", "random(40)"])
def test_what_is_drawn_for_two_names_is_not_alike(word: str) -> None:
    """x*y of two equal tensors is x**2, distances between them are 0: nobody asked for that. Nor is v one of them."""
    found = symgrad.explain("x*y", x=word, y=word, seed=word, check=False)
    drawn = [*(given.value for given in found.inputs), found.seed]
    for n, one in enumerate(drawn):
        assert not any(np.array_equal(one, other) for other in drawn[n + 1 :])
    same = symgrad.explain("x*y", x=word.replace(")", ", seed=0)"), y=word.replace(")", ", seed=0)"), check=False)
    assert np.array_equal(*(given.value for given in same.inputs))


def test_different_seeds_give_different_values() -> None:
    assert parse_value("randn(3, seed=0)").array((3,)).tolist() != parse_value("randn(3, seed=1)").array((3,)).tolist()


def test_a_value_is_never_shared(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([1, 2]))
    for value in (parse_value("[1, 2]"), parse_value("@a.npy", directory=tmp_path)):
        value.array((2,))[0] = 9
        assert value.array((2,)).tolist() == [1, 2]


BAD = [
    ("", "syntax", "there is no expression"),
    ("[[1,2],[3]]", "shape", "[[1,2],[3]] is ragged"),
    ("[1,[2]]", "shape", "[1,[2]] is ragged"),
    ("[[1],[[2]]]", "shape", "[[1],[[2]]] is ragged"),
    ("nan", "value", "nan is not a finite number"),
    ("[1, inf]", "value", "inf is not a finite number"),
    ("1e999", "value", "this number is not finite"),
    ("1e308*10", "value", "this constant is not finite"),
    ("1/0", "domain", "division by zero"),
    ("9**9**9", "value", "this power is too large to be exact"),
    ("x + 2j", "value", "torch.tensor(x + 2j) is not a value"),
    ("None", "syntax", "this is not a number"),
    ("'a'", "syntax", "this is not a number"),
    ("x", "name", "this is not a value: give the numbers alone"),
    ("x + 1", "syntax", "this is not a number"),
    ("[x]", "syntax", "this is not a number"),
    ("[1] + [2]", "syntax", "this is not a number"),
    ("1; 2", "syntax", "a value is one expression"),
    ("x = 1", "syntax", "a value is one expression"),
    ("ones(2.5)", "value", "this has to be an integer, 0 or more"),
    ("ones(-1)", "value", "this has to be an integer, 0 or more"),
    ("ones(2, dtype=3)", "name", "ones has no argument dtype"),
    ("ones(seed=3)", "name", "ones has no argument seed"),
    ("ones(99999, 99999)", "value", "this is too large"),
    ("eye(99999)", "value", "eye(99999) is too large"),
    ("eye(2, 3)", "syntax", "eye takes one number"),
    ("arange(6, shape=(2, 2))", "shape", "6 entries do not fill 2×2"),
    ("onehot(2, shape=(2,))", "shape", "out[2] is not in a vector of 2"),
    ("__import__('os')", "syntax", "names that begin with two underscores are not allowed"),
    ("np.load('x.npy')", "value", "np.load('x.npy') is not a value"),
    ("torch.eye(10**6)", "value", "torch.eye(10**6) is not a value"),
    ("torch.tensor([[1.], [2., 3.]])", "value", "torch.tensor([[1.], [2., 3.]]) is not a value"),
    ("np.ones(2).__class__", "value", "np.ones(2).__class__ is not a value"),
    ("os.getcwd()", "name", "this is not a value: give the numbers alone"),
    ("np.random.normal(2)", "value", "np.random.normal(2) is not a value"),
    ("123456789012345678901", "syntax", "an integer of 21 digits is too long"),
    ("[" * 200 + "]" * 200, "syntax", "this is nested more than 100 levels deep"),
    ("[" * 40 + "1" + "]" * 40, "value", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[… is too large"),
    ("[" * 20 + "1" + "]" * 20, "value", "[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]… is too large"),
    ("@", "value", "@ needs the name of a file"),
    ("@no.npy", "value", "there is no file no.npy"),
    ("@a.csv", "value", "files ending in .csv are not read"),
    ("@a\0.npy", "value", "@ needs the name of a file"),
    ("@\ud800.npy", "value", "@ needs the name of a file"),
]


@pytest.mark.parametrize(("text", "kind", "problem"), BAD, ids=[ascii(b[0])[:40] for b in BAD])
def test_bad_literals(text: str, kind: str, problem: str) -> None:
    with pytest.raises(SymgradError) as caught:
        parse_value(text)
    assert (caught.value.kind, caught.value.problem) == (kind, problem)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("torch.tensor([1., 2.])", "[1, 2]"),
        ("torch.tensor([[1., 2.]], requires_grad=True)", "[[1, 2]]"),
        ("torch.tensor([0.1])", "[0.1]"),
        ("torch.arange(6.).reshape(2, 3)", "[[0, 1, 2], [3, 4, 5]]"),
        ("np.array([1., 2.])", "[1, 2]"),
        ("numpy.linspace(0, 1, 3)", "[0, 1/2, 1]"),
        ("2 * torch.ones(2)", "[2, 2]"),
        ("torch.randn(2, 3)", "randn(2, 3)"),
        ("np.random.rand(2)", "rand(2)"),
    ],
)
def test_values_as_the_libraries_make_them(text: str, means: str) -> None:
    shape = parse_value(means).shape
    assert shape is not None
    assert_same(parse_value(means).array(shape), parse_value(text).array(shape))


def test_what_is_ragged_is_told_row_by_row() -> None:
    with pytest.raises(SymgradError) as caught:
        parse_value("[[1,2],[3]]")
    assert caught.value.found == ("[[1,2],[3]][0] has 2 entries, [[1,2],[3]][1] has 1 entry",)


@pytest.mark.parametrize(
    ("text", "shape", "problem"),
    [
        ("[[1,2],[3,4]]", (2, 3), "[[1,2],[3,4]] has another shape than is needed here"),
        ("3", (2,), "3 has another shape than is needed here"),
        ("eye", (2,), "eye makes a matrix"),
        ("onehot(2)", (2,), "out[2] is not in a vector of 2"),
        ("onehot(1)", (2, 2), "out[1] is not in 2×2"),
    ],
)
def test_the_wrong_shape_is_refused(text: str, shape: tuple[int, ...], problem: str) -> None:
    with pytest.raises(SymgradError) as caught:
        parse_value(text).array(shape)
    assert (caught.value.kind, caught.value.problem) == ("shape", problem)


def test_an_array_that_would_not_fit_is_refused_before_it_is_made() -> None:
    with pytest.raises(SymgradError) as caught:
        parse_value("ones").array((10**5, 10**5))
    assert caught.value.found == ("100000×100000 entries",)


def test_the_wrong_shape_says_what_is_and_what_is_needed() -> None:
    with pytest.raises(SymgradError) as caught:
        parse_value("[1,2]").array((2, 4))
    assert caught.value.found == ("a vector of 2, and 2×4 is needed",)
    assert caught.value.hints == ("ones", "randn(2,4)")


def outcome(function: Callable[[Any], Any], argument: object) -> Any:
    """What comes out: a result or symgrad's error."""
    try:
        return function(argument)
    except SymgradError as error:
        return error


@pytest.mark.slow
@given(st.text(max_size=60))
def test_any_text_gives_a_value_or_a_symgrad_error(text: str) -> None:
    started = time.process_time()
    assert isinstance(outcome(parse_value, text), (Value, SymgradError))
    assert time.process_time() - started < 1


@given(st.recursive(st.integers(-9, 9) | st.floats(-5, 5), lambda e: st.lists(e, max_size=3), max_leaves=12))
def test_a_list_as_text_is_the_list(given_list: object) -> None:
    direct, read = outcome(exact_array, given_list), outcome(parse_value, repr(given_list))
    if isinstance(direct, SymgradError) or isinstance(read, SymgradError):
        assert type(direct) is type(read)
    else:
        assert (read.shape, read.array(direct.shape).dtype) == (direct.shape, direct.dtype)
        assert read.array(direct.shape).tolist() == direct.tolist()


# Files ----------------------------------------------------------------------------------------------


class Bomb:
    """Unpickling it would leave a trace."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self.trace,)


def test_files_are_read_where_they_are(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", array)
    (tmp_path / "b.json").write_text("[[1, 2], [3, 4]]")
    assert_same(array, parse_value("@a.npy", directory=tmp_path).array((2, 3)))
    value = parse_value(" @b.json ", directory=tmp_path)
    assert (value.text, value.shape) == ("@b.json", (2, 2))
    assert value.array((2, 2)).dtype == np.int64
    assert_same(array, parse_value(f"@{tmp_path / 'a.npy'}").array((2, 3)))


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "bool", ">f8", "int64"])
def test_arrays_of_any_real_type_are_read(tmp_path: Path, dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    np.save(tmp_path / "a.npy", array)
    read = parse_value("@a.npy", directory=tmp_path).array((2, 2))
    assert str(read.dtype) == ("float64" if array.dtype.kind == "f" else "int64")
    assert_same(array.astype(float), read)


def test_a_pickle_is_never_unpickled(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    bombs = np.empty(1, dtype=object)
    bombs[0] = Bomb(trace)
    np.save(tmp_path / "object.npy", bombs, allow_pickle=True)
    (tmp_path / "plain.npy").write_bytes(pickle.dumps(Bomb(trace)))
    (tmp_path / "torch.npy").write_bytes(b"PK\x03\x04" + pickle.dumps(Bomb(trace)))
    with pytest.raises(SymgradError, match="never unpickled"):
        parse_value("@object.npy", directory=tmp_path)
    for name in ("object", "plain", "torch"):
        with pytest.raises(SymgradError) as caught:
            parse_value(f"@{name}.npy", directory=tmp_path)
        assert caught.value.kind == "value"
        assert not trace.exists()
    pickle.loads((tmp_path / "plain.npy").read_bytes())  # noqa: S301 -- shows that the bomb would have gone off
    assert trace.exists()


def npy(header: str, data: bytes = b"") -> bytes:
    """A .npy file with a header of one's own."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


BROKEN = {
    "empty.npy": b"",
    "text.npy": b"1 2 3",
    "short.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }", b"\0" * 31),
    "huge.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (99999, 99999, 99999), }"),
    "negative.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
    "code.npy": npy("__import__('os').system('true')"),
    "version.npy": b"\x93NUMPY\x09\x00" + b"\0" * 100,
    "complex.npy": npy("{'descr': '<c16', 'fortran_order': False, 'shape': (1,), }", b"\0" * 16),
    "text-array.npy": npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", b"a\0\0\0"),
    "fields.npy": npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }", b"\0" * 8),
    "nan.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", np.float64("nan").tobytes()),
    "empty.json": b"",
    "bytes.json": b"\xff\xfe",
    "cut.json": b"[1, 2",
    "deep.json": b"[" * 100_000,
    "nan.json": b"[NaN]",
    "infinite.json": b"[1e999]",
    "object.json": b'{"a": 1}',
    "words.json": b'["one"]',
    "null.json": b"[null]",
    "long.json": b"[" + b"9" * 5000 + b"]",
    "ragged.json": b"[[1], [2, 3]]",
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BROKEN[name])
    with pytest.raises(SymgradError) as caught:
        parse_value(f"@{name}", directory=tmp_path)
    assert caught.value.kind in ("value", "shape", "unsupported")
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"), [("short.npy", "truncated"), ("huge.npy", "too large"), ("code.npy", "cannot be read")]
)
def test_headers_are_not_believed(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).write_bytes(BROKEN[name])
    with pytest.raises(SymgradError, match=said):
        parse_value(f"@{name}", directory=tmp_path)


def test_folders_and_devices_are_not_files(tmp_path: Path) -> None:
    (tmp_path / "a.npy").mkdir()
    (tmp_path / "b.npy").symlink_to("/dev/zero")
    for name in ("a.npy", "b.npy"):
        with pytest.raises(SymgradError) as caught:
            parse_value(f"@{name}", directory=tmp_path)
        assert caught.value.problem.startswith("there is no file")


def test_an_archive_is_not_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", np.ones(2))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(SymgradError):
        parse_value("@a.npy", directory=tmp_path)


# Values from Python ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected", "dtype"),
    [
        (3, 3, "int64"),
        (2.5, 2.5, "float64"),
        (True, 1, "int64"),
        (Fraction(1, 2), Fraction(1, 2), "object"),
        (Fraction(4, 2), 2, "int64"),
        ([[1, 2], (3, 4)], [[1, 2], [3, 4]], "int64"),
        ([Fraction(1, 3), 2], [Fraction(1, 3), Fraction(2)], "object"),
        ([Fraction(1, 2), 0.25], [0.5, 0.25], "float64"),
        (np.float32(0.5), 0.5, "float64"),
        (np.arange(3, dtype=np.int8), [0, 1, 2], "int64"),
        (np.array([True, False]), [1, 0], "int64"),
        (np.array([1, Fraction(1, 2)], dtype=object), [1, Fraction(1, 2)], "object"),
        (np.array([[1, 2]], dtype=object), [[1, 2]], "int64"),
        ([np.int32(1), np.int64(2)], [1, 2], "int64"),
        (torch.tensor([1.5, 2.5]), [1.5, 2.5], "float64"),
        (torch.tensor([1, 2], dtype=torch.int32), [1, 2], "int64"),
        (torch.tensor([1.5], requires_grad=True), [1.5], "float64"),
        (torch.tensor([1.5], dtype=torch.bfloat16), [1.5], "float64"),
        (torch.tensor(2.0), 2.0, "float64"),
        ([torch.tensor(1), torch.tensor(2)], [1, 2], "int64"),
        (torch.ones(2, 3).T, np.ones((3, 2)).tolist(), "float64"),
    ],
)
def test_values_from_python(given: object, expected: object, dtype: str) -> None:
    array = exact_array(given)
    assert str(array.dtype) == dtype
    assert array.tolist() == expected


def cycle() -> list:
    """A list that holds itself."""
    endless: list = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    ("given", "kind", "problem"),
    [
        ([1.0, math.nan], "value", "x[1] is not a finite number"),
        ([[1.0], [math.inf]], "value", "x[1,0] is not a finite number"),
        (np.array([[0.0, -np.inf]]), "value", "x[0,1] is not a finite number"),
        (torch.tensor([math.nan]), "value", "x[0] is not a finite number"),
        (math.nan, "value", "x is not a finite number"),
        (1j, "unsupported", "x holds complex numbers, which symgrad does not differentiate yet"),
        (np.array([1j]), "unsupported", "x holds complex numbers, which symgrad does not differentiate yet"),
        (torch.tensor([1j]), "unsupported", "x holds complex numbers, which symgrad does not differentiate yet"),
        ([[1, 2], [3]], "shape", "x is ragged"),
        (np.array(["a"]), "value", "x does not hold numbers"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "value", "x does not hold numbers"),
        (["a"], "value", "x[0] is not a number"),
        ("[1, 2]", "value", "x is not a number"),
        (None, "value", "x is not a number"),
        ({"a": 1}, "value", "x is a dictionary, not numbers"),
        ([[1, None]], "value", "x[0,1] is not a number"),
        (2**63, "value", "x holds an integer of about 64 bits"),
        (np.array([2**64 - 1], dtype=np.uint64), "value", "x holds an integer of about 64 bits"),
        (Fraction(1, 3**50), "value", "x holds an integer of about 80 bits"),
        (np.lib.stride_tricks.as_strided(np.zeros(1), (10**5, 10**5), (0, 0)), "value", "x is too large"),
        (cycle(), "value", "x is too large"),
        (torch.ones(2, 2).to_sparse(), "value", "x cannot be read as an array"),
    ],
)
def test_values_that_cannot_be_used(given: object, kind: str, problem: str) -> None:
    with pytest.raises(SymgradError) as caught:
        exact_array(given, "x")
    assert (caught.value.kind, caught.value.problem) == (kind, problem)


def test_values_are_copies() -> None:
    array = np.ones(2)
    exact_array(array)[0] = 5
    assert array.tolist() == [1, 1]
    tensor = torch.ones(2, dtype=torch.float64)
    exact_array(tensor)[0] = 5
    assert tensor.tolist() == [1, 1]


def test_json_keeps_integers_exact(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([2**60 + 1]))
    assert parse_value("@a.json", directory=tmp_path).array((1,)).tolist() == [2**60 + 1]


@pytest.mark.parametrize(
    "text", ["x.log().nansum()", "torch.nanmean(x.log(), dim=0)", "(x.log().nanmean(0, keepdim=True) * x).sum()"]
)
def test_what_is_no_number_is_left_out(text: str) -> None:
    assert symgrad.explain(text, x=[-1.0, 2.0, 3.0]).passed


@pytest.mark.parametrize("word", ["inf", "nan"])
def test_inf_and_nan_are_numbers_where_nothing_is_called_so(word: str) -> None:
    """`from math import inf` stands above what is pasted."""
    found = symgrad.explain(f"torch.where(x > 1, x, {word}).nan_to_num(0, None, 5).clamp(min=-1).sum()", x=[1.0, 2.0])
    assert list(found.gradients) == ["x"]
    assert found.passed
    assert list(symgrad.explain(f"{word} = x * 2; {word} + 1", x=[1.0]).gradients) == ["x"]
