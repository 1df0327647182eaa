"""The shapes that a text does not say: which are assumed, and in which order they are tried."""

import time

import pytest
import sympy as sp

import symgrad
from symgrad import SymgradError
from symgrad.language import read_program
from symgrad.language.inference import rank_assignments
from symgrad.shapes import Sizes

INFERRED = [
    # text, the output's shape if it is known, the shapes of the inputs in order of appearance
    ("x@a", (2, 4), [(2, 3), (3, 4)]),
    ("x@a", None, [(2, 3), (3, 4)]),
    ("x@a", (4,), [(4, 3), (3,)]),
    ("x@a", (), [(2,), (2,)]),
    ("x@a", (5, 6, 7), [(5, 6, 4), (4, 7)]),
    ("torch.mm(x, a)", (2, 4), [(2, 3), (3, 4)]),
    ("softmax(x)", None, [(2,)]),
    ("softmax(x)", (3, 2), [(3, 2)]),
    ("softmax(x, dim=1)", None, [(2, 3)]),
    ("x@w + b", None, [(2, 3), (3, 4), (4,)]),
    ("x@w + b", (2, 5), [(2, 3), (3, 5), (5,)]),
    ("x@w + b", (5,), [(5, 3), (3,), (5,)]),
    ("h = relu(x@w + b); h @ w2 + b2", (1, 7), [(1, 2), (2, 3), (3,), (3, 7), (7,)]),
    ("x * y", None, [(2,), (2,)]),
    ("x + b", (2, 3), [(2, 3), (3,)]),
    ("x + y", (), [(), ()]),
    ("x.T @ x", None, [(2, 3)]),
    ("x @ x.T", (3, 3), [(3, 3)]),
    ("x @ w @ x", (), [(2,), (2, 2)]),
    ("outer(x, y)", (2, 5), [(2,), (5,)]),
    ("x.permute(0, 2, 1)", None, [(2, 3, 4)]),
    ('einsum("bij,bjk->bik", x, a)', (2, 3, 5), [(2, 3, 4), (2, 4, 5)]),
    ("cat([x, y])", (5,), [(2,), (3,)]),
    ("cat([x, y])", (2,), [(1,), (1,)]),
    ("x[3]", None, [(4,)]),
    ("x[:, 5]", None, [(2, 6)]),
    ("x[1:4]", None, [(4,)]),
    ("x[::2]", None, [(3,)]),
    ("x[::2]", (3,), [(5,)]),
    ("x[:-2]", None, [(3,)]),
    ("x.reshape(2, -1)", None, [(2,)]),
    ("x.reshape(-1, 3)", None, [(3,)]),
    ("x.reshape(3, 5)", None, [(15,)]),
    ("(x@a).reshape(3, 5)", None, [(3, 3), (3, 5)]),
    ("x.expand(2, 3)", None, [(3,)]),
    ("x.flatten(1)", (2, 6), [(2, 6)]),
    ("mse_loss(x, y)", (), [(2,), (2,)]),
    ("cross_entropy(x, y)", None, [(2, 3), (2,)]),
    ("mse_loss(x @ w, y)", None, [(2, 3), (3,), (2,)]),
    ("F.l1_loss(x[:, 0], y)", None, [(2, 3), (2,)]),
    ("F.huber_loss(x.exp().mm(w), y)", None, [(2, 3), (3, 4), (2, 4)]),
    ("layer_norm(x, (3,))", None, [(3,)]),
    ("x.mT @ y", None, [(2, 3), (2, 4)]),
    ("where(x > 0, x, y)", (2, 2), [(2, 2), (2,)]),
    ("sum(x)", None, [(2,)]),
    ("x.sum(1)", None, [(2, 3)]),
    ("x[:, :, 0]", None, [(2, 3, 4)]),
    ("x.shape[1] * x", None, [(2, 3)]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "out_shape", "expected"), INFERRED, ids=[f"{i[0]} {i[1]}" for i in INFERRED])
def test_inference(text: str, out_shape: tuple[int, ...] | None, expected: list[tuple[int, ...]]) -> None:
    program = read_program(text, out_shape=out_shape).program
    assert [program.numbers(t.shape) for t in program.inputs] == expected
    if out_shape is not None:
        assert program.numbers(program.out.shape) == out_shape


def test_what_was_assumed_is_said() -> None:
    reading = read_program("x@a", out_shape=(2, 4))
    assert reading.assumed_sizes == (("x", 1, 3), ("a", 0, 3))
    assert reading.assumed_ranks == ()
    reading = read_program("x@a", shapes={"x": (2, 3)})
    assert (reading.assumed_sizes, reading.assumed_ranks) == ((("a", 1, 4),), (("a", 2),))
    assert read_program("x@a", shapes={"x": (2, 3), "a": (3, 4)}).assumed_sizes == ()
    assert read_program("softmax(x)").assumed_ranks == (("x", 1),)
    assert read_program("x.T").assumed_ranks == ()


def test_a_size_that_turns_out_small_counts_for_what_was_read_before() -> None:
    program = read_program("x[:5] + 0 * (y@x)", shapes={"y": (3,)}).program
    assert program.numbers(program.out.shape) == (3,)


def test_constants_made_of_sizes_are_numbers_in_the_end() -> None:
    assert read_program("x * (x.shape[0] - 1)**0.5", shapes={"x": (5,)}).program.numbers(()) == ()
    with pytest.raises(SymgradError, match="this constant is not a finite real number"):
        read_program("x * (1 - x.shape[0])**0.5", shapes={"x": (5,)})


def test_letters_are_sizes_that_are_equal_where_the_letter_is() -> None:
    program = read_program("x@a + y", shapes={"x": ("n", 3), "a": (3, "n"), "y": ("k", "n")}, out_shape=(5, 5)).program
    assert [program.numbers(t.shape) for t in program.inputs] == [(5, 3), (3, 5), (5, 5)]
    program = read_program("x@a", shapes={"x": ("n", "n"), "a": (3, 4)}, out_shape=(2, 4)).program
    assert program.numbers(program.out.shape) == (3, 4)
    reading = read_program("x@a", shapes={"x": ("n", "k")})
    assert reading.assumed_sizes == (("x", 0, 2), ("x", 1, 3), ("a", 0, 3), ("a", 1, 4))


def test_an_output_shape_that_cannot_be_is_left_to_the_caller() -> None:
    program = read_program("x@a", shapes={"x": (2, 3), "a": (3, 4)}, out_shape=(4, 2)).program
    assert program.numbers(program.out.shape) == (2, 4)
    program = read_program("sum(x)", out_shape=(2, 3)).program
    assert program.numbers(program.out.shape) == ()


def test_no_size_is_inferred_to_be_0() -> None:
    program = read_program("cat([a, b])", shapes={"a": (2,)}, out_shape=(2,)).program
    assert all(n > 0 for t in program.tensors() for n in program.numbers(t.shape))


@pytest.mark.slow
def test_equations_in_many_sizes_take_no_long_time() -> None:
    started = time.process_time()
    read_program(f"cat([{', '.join(f'x{n}' for n in range(400))}])", out_shape=(3,))
    assert time.process_time() - started < 5


def test_sizes_of_a_program_are_not_taken_for_new_ones() -> None:
    known = [sp.Symbol(letter, integer=True, positive=True) for letter in "mc"]
    sizes = Sizes.of(known, {})
    assert not {sizes.fresh() for _ in range(9)} & set(known)


def test_symbolic_programs_have_letters_in_order_and_no_numbers() -> None:
    program = read_program("y = relu(x@w + b); y @ u", symbolic=True).program
    assert dict(program.sizes) == {}
    assert [tuple(map(str, t.shape)) for t in program.inputs] == [("m", "n"), ("n", "h"), ("h",), ("h", "c")]


def test_a_size_is_not_called_like_a_tensor() -> None:
    program = read_program("n = m@x; n@h", symbolic=True).program
    assert [tuple(map(str, t.shape)) for t in program.inputs] == [("c", "d"), ("d", "e"), ("e", "f")]


def test_the_sizes_0_and_1_stay_literal() -> None:
    program = read_program("x * y", shapes={"x": (1, 3), "y": (0, 1)}).program
    assert program.inputs[0].shape[0] == 1
    assert program.numbers(program.out.shape) == (0, 3)


def test_ranks_are_tried_in_order_of_likeliness_and_each_once() -> None:
    choices = [tuple(a.values()) for a in rank_assignments(dict.fromkeys("xyz", ((1, 0), (2, 2), (0, 4))))]
    costs = [sum({1: 0, 2: 2, 0: 4}[r] for r in choice) for choice in choices]
    assert len(set(choices)) == len(choices) == 27
    assert costs == sorted(costs)
    assert choices[1] == (2, 1, 1)


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("x[5:]", 6), ("x[-4:]", 4), ("x[3:-2]", 6), ("x[:7]", 7), ("x[-9:-8]", 9), ("narrow(x, 0, 1, 2)", 3),
        ("select(x, 0, 4)", 5), ("x.unfold(0, 3, 1)", 3), ("narrow(x, 0, 5000, 2)", 5002),
    ],
)  # fmt: skip
def test_an_input_of_no_given_size_is_long_enough_for_what_is_kept_of_it(text: str, least: int) -> None:
    found = symgrad.explain(text, check=False)
    assert found.output.size
    assert found.gradients["x"].value.shape[0] >= least


@pytest.mark.parametrize(
    ("text", "length"), [("x.unfold(0, 3, 2).sum(1) * y", 5), ("F.avg_pool1d(x, 3, stride=2) * y", 5)]
)
def test_windows_are_as_many_as_what_they_meet(text: str, length: int) -> None:
    assert symgrad.explain(text, y=[1.0, 2.0], check=False).gradients["x"].value.shape[-1] == length
