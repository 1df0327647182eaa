"""No field of an entry says what follows from its text: each is left out once, and something has to change.

A field of data is compared as it is. A rule (shapes, broadcasting) is asked about the shapes of the examples, about
others near them, and about sizes that nobody knows; torch's call is made. A forward is asked at the ends of the numbers.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import itertools
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from operator import eq
from typing import Any

import numpy as np
import pytest
import torch

from symgrad.calculus import local_jacobian
from symgrad.documents.domains import sample_values
from symgrad.entries import derived_facts, spec
from symgrad.entries import equations as mechanism
from symgrad.entries.readings import plain_option as plain_option
from symgrad.errors import SourceText, SymgradError
from symgrad.exporting.numpy_text import numpy_spelling
from symgrad.functions import special
from symgrad.indexing.symbols import accesses, name_of
from symgrad.language import read_program
from symgrad.language.input_names import candidate_ranks, find_names
from symgrad.language.parser import parse_script
from symgrad.numeric import forward, numeric_pullback
from symgrad.ops import GROUPS, TABLE, Op
from tests import torch_programs, torch_side
from tests.cases import cases
from tests.sampling import draw_inputs

USUAL = inspect.signature(mechanism.op)
Row = Mapping[str, Any]
"""What a row of the table gives to `symgrad.entries.equations.op`, by the names of its parameters."""
RULES = ("index", "prepare", "shape", "align", "numpy", "torch")
"""Fields of an entry that are functions: two that do the same need not be the same."""
READ = ("call", "equation", "variants", "reading", "along", "axes", "checks", "least", "decimals")
"""What says how the text is read: no derivation gives it."""


@lru_cache(maxsize=1)
def rows() -> dict[str, Row]:
    """Every row of the table by the name of its entry, its files run once more beside the table."""
    found, own = dict[str, Row](), mechanism.op

    def noted(*arguments: Any, **keywords: Any) -> Op:
        given = USUAL.bind(*arguments, **keywords).arguments
        row = {**{name: value for name, value in given.items() if name != "facts"}, **given.get("facts", {})}
        row = {name: value for name, value in row.items() if value is not None and not said_so(name, value)}
        op = own(*arguments, **keywords)
        found[op.name] = row
        return op

    with pytest.MonkeyPatch.context() as patch:
        for module, name, other in ((mechanism, "op", noted), (mechanism, "register", same), (spec, "register", same)):
            patch.setattr(module, name, other)
        for family in sorted(itertools.chain.from_iterable(GROUPS.values())):
            place = importlib.util.find_spec(f"symgrad.ops.{family}")
            assert place is not None
            assert place.loader is not None
            place.loader.exec_module(importlib.util.module_from_spec(place))
    return found


def said_so(name: str, value: Any) -> bool:
    """Whether a parameter has the value that it has by itself, as where a factory of rows hands it on."""
    usual = USUAL.parameters[name].default if name in USUAL.parameters else default_of(name)
    return bool(type(usual) is type(value) and usual == value)


def default_of(name: str) -> Any:
    """The value of a field of an entry, or of a group of its fields, that no row gives."""
    return next((getattr(kind, name) for kind in (Op, *mechanism.GROUPS.values()) if hasattr(kind, name)), None)


def facts_of(op: Op) -> dict[str, Any]:
    """All fields of an entry by their names, those of its groups among them."""
    groups = [getattr(op, group) for group in mechanism.GROUPS]
    own = [field.name for field in dataclasses.fields(Op) if field.name not in mechanism.GROUPS]
    return {name: getattr(op, name) for name in own} | {
        field.name: getattr(group, field.name) for group in groups for field in dataclasses.fields(group)
    }


def same(op: Op) -> Op:
    """The entry, which is in the table already."""
    return op


def made(row: Row) -> Op:
    """The entry of a row, not put into the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanism, "register", same)
        return mechanism.op(**row)


def without(row: Row, field: str) -> Op | None:
    """The entry without a field; None where there is none."""
    try:
        return made({name: value for name, value in row.items() if name != field})
    except Exception:  # whatever an entry without it cannot do
        return None


def alike(one: Op, other: Op) -> bool:
    """Whether two entries say the same, their rules apart."""
    others = facts_of(other)
    return all(value == others[name] for name, value in facts_of(one).items() if name not in RULES)


def told(op: Op) -> dict[str, Any]:
    """What an entry says, of what is computed only that it is."""
    return {
        name: callable(value) or (set(value) if isinstance(value, dict) else value)
        for name, value in facts_of(op).items()
        if name not in (*RULES, "smooth")  # smooth by the entries before it
    }


ROWS = sorted(name for name in TABLE if name in rows())


def test_every_row_is_found() -> None:
    assert len(ROWS) > 260
    assert [name for name in ROWS if told(made(rows()[name])) != told(TABLE[name])] == []


def needless(row: Row) -> list[str]:
    """The fields of a row that say what follows without them."""
    whole = made(row)
    fields = [name for name in row if name not in (*READ, "shape", "align", "fits", "prepare", "forward", "torch")]
    found = [name for name in fields if (less := without(row, name)) is not None and alike(whole, less)]
    return [name for name in found if name not in LOOPS.get(whole.name, ())]


LOOPS = {
    **dict.fromkeys(("det", "inverse", "logabsdet", "logdet", "pinv", "solve"), ("reads_out",)),
    "avg_pool1d": ("smooth",), "conv1d": ("smooth",), "gt": ("summary",), "lt": ("summary",), "max_unpool1d": ("ranks",),
    "max_unpool3d": ("ranks",),
}  # fmt: skip
"""What the other rows of a loop, or of a function that makes rows, need."""


def test_no_field_of_data_says_what_follows() -> None:
    assert {name: found for name in ROWS if (found := needless(rows()[name]))} == {}


@contextmanager
def instead(op: Op) -> Iterator[None]:
    """Another entry in the place of the one of its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TABLE, op.name, op)
        for registry in (spec.SPELLINGS, spec.ROLES):
            for word in [word for word, own in registry.items() if own.name == op.name]:
                patch.setitem(registry, word, op)
        if op.traits.role is None:
            for role in [role for role, own in spec.ROLES.items() if own is op]:
                patch.delitem(spec.ROLES, role)
        yield


def near(shapes: Mapping[str, tuple[int, ...]]) -> Iterator[dict[str, tuple[int, ...]]]:
    """Shapes near those of an example: an axis longer, of one entry or of none, one more in front, one less."""
    yield dict(shapes)
    for name, shape in shapes.items():
        others = [(3, *shape), shape[1:], shape[:-1]]
        others += [(*shape[:a], n, *shape[a + 1 :]) for a in range(len(shape)) for n in (0, 1, shape[a] + 1)]
        yield from ({**shapes, name: other} for other in others)


def answers(text: str, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
    """What an example comes to at shapes near its own, and at sizes that nobody knows; beside others' wishes for axes."""
    script = parse_script(SourceText(text))
    yield str(candidate_ranks(script, find_names(script)))
    for given in (*near(shapes), None):
        try:
            program = read_program(text, shapes=given).program
            yield f"{[step.result.shape for step in program.steps]} {program.required}"
        except Exception as error:  # of an entry that lacks something, whatever it does then
            yield str(error)


@cache
def kept(name: str) -> list[list[str]]:
    """What the examples of an operation come to."""
    return [list(answers(example.text, dict(example.shapes))) for example in TABLE[name].examples]


def as_before(name: str, less: Op) -> bool:
    """Whether the examples come to the same with another entry; the first that does not is enough."""
    texts, before = [(example.text, dict(example.shapes)) for example in TABLE[name].examples], kept(name)
    with instead(less):
        pairs = ((answers(*each), old) for each, old in zip(texts, before, strict=True))
        return all(all(map(eq, told, old)) for told, old in pairs)


def called(rule: Any) -> str:
    """What a rule is called, of which some arguments may be given already."""
    return rule if isinstance(rule, str) else str(getattr(rule, "func", rule).__qualname__)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["shape", "align", "fits"])
def test_no_rule_of_shapes_says_what_follows(field: str) -> None:
    """Words of its own count as a difference, they may say more; what rows share has to be needed by one of them."""
    found, needed = [], set()
    for name in ROWS:
        less = without(rows()[name], field) if field in rows()[name] else None
        if less is None:
            if field in rows()[name]:
                needed.add(called(rows()[name][field]))
            continue
        follows_too = as_before(name, less)
        rule = called(rows()[name][field])
        if follows_too:
            found.append((name, rule))
        else:
            needed.add(rule)
    alone = [name for name, rule in found if rule not in needed or rule == "<lambda>"]
    assert [name for name in alone if name not in READ_IN_PART] == []


READ_IN_PART = {"reshape": "fewer places than entries are an equation, and no reshape"}
"""Rules that refuse what no example comes near to."""


def by_torch(op: Op) -> list[Any]:
    """What torch gives for the examples."""
    found = list[Any]()
    for case in (case for case in cases() if case.op.name == op.name):
        try:
            with instead(op), warnings.catch_warnings():
                warnings.simplefilter("error")
                out = torch_programs.function_of(case.program)(*(torch_side.tensor(case.inputs[n]) for n in case.names))
            found.append(out.detach().numpy())
        except Exception as error:  # whatever torch says to it
            found.append(str(error))
    return found


def test_no_call_of_torch_says_what_follows() -> None:
    found, needed = [], set()
    for name in ROWS:
        call = rows()[name].get("torch")
        if call is None or name in OTHERWISE_CALLED:
            continue
        less = without(rows()[name], "torch")
        pairs = [] if less is None else list(zip(by_torch(TABLE[name]), by_torch(less), strict=True))
        if pairs and all(not isinstance(b, str) and np.array_equal(a, b, equal_nan=True) for a, b in pairs):
            found.append((name, call.__qualname__))
        else:
            needed.add(call.__qualname__)
    assert [name for name, call in found if call not in needed or call == "<lambda>"] == []


OTHERWISE_CALLED = {
    **dict.fromkeys(("eq", "ge", "gt", "le", "lt", "ne", "one_hot"), "no floats, of which there is a gradient"),
    **dict.fromkeys(("logsumexp", "norm"), "a number has no axes to name"),
    "cross_entropy": "classes are whole numbers, and the examples have weights of classes",
    "hardsigmoid": "torch's own gradient has a sixth in single precision",
    "index_reduce": "torch warns that it may change",
    "pdist": "no rows end torch's process",
    "pow": "by a number torch has another derivative at 0",
    "scatter": "a source that is one number",
    "sort": "equal entries keep their order, which torch's default does not promise",
    "softplus": "from 20 on torch has x itself",
}
"""Calls that differ elsewhere than in the value of an example."""

# --- what an entry says of its operands ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("field", ["ranks", "least"])
def test_no_number_of_axes_says_what_follows(field: str) -> None:
    """As for the rules of shapes; several rows of a loop share what one of them needs."""
    found = []
    for name in (name for name in ROWS if field in rows()[name] and field not in LOOPS.get(name, ())):
        less = without(rows()[name], field)
        if less is not None and as_before(name, less):
            found.append(name)
    assert found == []


def test_no_word_of_what_is_held_says_what_follows() -> None:
    """Words for what becomes of truth values and whole numbers, beside those that the equation gives."""
    found = []
    for name in (name for name in ROWS if "result_dtype" in rows()[name]):
        less, words = without(rows()[name], "result_dtype"), derived_facts.dtype_words(TABLE[name])
        assert less is not None
        with instead(less):
            derived_facts.infer_dtype_words.cache_clear()
            found += [name] * (derived_facts.dtype_words(less) == words)
    derived_facts.infer_dtype_words.cache_clear()
    assert found == []


def by_arrays(op: Op) -> list[Any]:
    """What an operation is in NumPy, at its examples; None where a step has options that are called otherwise."""
    told, found = numpy_spelling(op), list[Any]()
    if told is None:
        return [None]
    call = eval(f"lambda {told}", {"np": np, "special": special, "nn": special})  # noqa: S307 a text of the table
    for case in (case for case in cases() if case.op.name == op.name):
        step = next(step for step in case.program.steps if step.op == op.name)
        given = [np.asarray(case.values[a]) if isinstance(a, str) else a.value for a in step.arguments]
        given = [a.astype(int) if n in op.data else a for n, a in zip(op.operands, given, strict=False)]
        options = {name: value for name, value in step.options if value not in (None, ())}
        try:
            found.append((call(*given, **{n: plain(v) for n, v in options.items()}), case.values[step.result.name]))
        except TypeError:  # an option that has another name there
            found.append(None)
    return found


def plain(value: Any) -> Any:
    """An option as NumPy takes it."""
    return plain_option(value)


CALLED = [op for op in TABLE.values() if numpy_spelling(op) is not None and not op.variadic]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", CALLED, ids=lambda op: op.name)
def test_what_numpy_calls_it_is_what_it_is(op: Op) -> None:
    """The entry's own words, and those that follow from a spelling."""
    pairs = [pair for pair in by_arrays(op) if pair is not None]
    for called, expected in pairs:
        np.testing.assert_allclose(np.asarray(called, float), np.asarray(expected, float), rtol=1e-9, atol=1e-12)


def test_no_word_of_numpys_says_what_follows() -> None:
    found = []
    for name in (name for name in ROWS if "arrays" in rows()[name]):
        less = without(rows()[name], "arrays")
        told = None if less is None else numpy_spelling(less)
        if told is not None and len(by_arrays(less)) == len([p for p in by_arrays(less) if p is not None]):  # type: ignore[arg-type]  # there is one
            found.append(name)
    assert sorted(found) == sorted(AS_CALLED)


AS_CALLED = {
    "diag": "is given its diagonal by its name",
    "dot": "np.dot of matrices is written by its forward pass, np.inner is another product",
    "expand": "lines give it sizes one by one",
    "flip": "lines give it axes one by one",
    "softmax": "jax has it elsewhere",
    "tile": "lines give it numbers one by one",
}
"""What follows, but is called otherwise in lines or in jax."""


def test_what_names_its_output_needs_to() -> None:
    found = []
    for op in (op for op in TABLE.values() if op.saved.reuse):
        for case in (case for case in cases() if case.op.name == op.name):
            step = next(step for step in case.program.steps if step.op == op.name)
            derivatives = local_jacobian(step, case.program).derivatives.values()
            if any(step.result.name in map(name_of, accesses(d.formula)) for d in derivatives):
                break
        else:
            found.append(op.name)
    assert found == []


def fine(op: Op, less: Op) -> bool:
    """Whether samples without a domain do: numbers come of them, and torch's gradient is the derived one."""
    for case in (case for case in cases() if case.op.name == op.name):
        samples = [draw_inputs(less, case.shapes, seed) for seed in range(6)]
        with instead(less):
            samples.append(dict(sample_values(less, case.example)))
        for inputs in samples:
            try:
                values = forward(case.program, inputs)
                out = values[case.program.output]
                derived = numeric_pullback(case.program, values, np.ones(out.shape), case.names)
                _, by_torch = torch_programs.program_gradients(case.program, inputs, np.ones(out.shape))
            except Exception:  # whatever no domain leads to
                return False
            for name in (name for name in case.names if by_torch.get(name) is not None):
                both = [np.asarray(gradient[name], float) for gradient in (by_torch, derived)]
                if not np.all(np.isfinite(both)) or not np.allclose(*both, rtol=1e-7, atol=1e-9):
                    return False
            if not np.all(np.isfinite(np.asarray(out, float))):
                return False
    return True


def test_no_domain_says_where_every_sample_lies() -> None:
    found = [
        name
        for name in ROWS
        if "domain" in rows()[name] and name not in STANDS
        if (less := without(rows()[name], "domain")) is not None and fine(TABLE[name], less)
    ]
    assert found == []
    assert set(STANDS) <= {name for name in ROWS if "domain" in rows()[name]}


STANDS = {
    **dict.fromkeys(("addcdiv", "complex_div", "div", "reciprocal"), "0 divides nothing, and no sample may come near"),
    **dict.fromkeys(("ceil", "floor", "fmod", "frac", "remainder", "round", "trunc"), "jumps at whole quotients"),
    **dict.fromkeys(("complex_log", "complex_sqrt"), "jumps where the negative axis is crossed"),
    **dict.fromkeys(("cosine_embedding_loss", "hinge_embedding_loss"), "targets are −1 and 1"),
    **dict.fromkeys(("masked_fill", "where"), "a mask is of 0 and 1"),
    **dict.fromkeys(("det", "inverse", "logabsdet", "pinv", "solve"), "a matrix without an inverse has no derivative"),
    "binary_cross_entropy_with_logits": "targets are probabilities",
    "cross_entropy": "the weights of classes, which no example has, divide",
    "corrcoef": "of a row of equal entries nothing",
    "grid_sample": "a place of the grid lies near the tensor, so that it is read",
    "instance_norm": "a variance that ran along is positive",
    "tan": "poles",
}
"""Domains without which samples do, and what they say all the same."""

# --- forwards -----------------------------------------------------------------------------------------------

ENDS = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-310, 1e-20, 1e300, -1e300, 800.0, 2.0**29, 1000.0)
BESIDE = {
    "atan2": "x² + y² underflows where both are small",
    "clamp": "torch's choice where min is above max",
    "cumprod": "of exact numbers one product after the other, not n² factors",
    "cumsum": "of exact numbers one sum after the other, not n² terms",
    "cov": "refuses weights that torch refuses",
    "cross_entropy": "what is ignored need be no class",
    "eigvalsh": "V is of what it has found",
    "index_copy": "of two at one place the last",
    "log10": "a power of 10 has a whole logarithm, to the last bit",
    "log2": "a power of 2 has a whole logarithm, to the last bit",
    "max_unpool1d": "refuses two at one place",
    "max_unpool2d": "refuses two at one place",
    "max_unpool3d": "refuses two at one place",
    "nll_loss": "what is ignored need be no class",
    "scatter": "of two at one place the last",
    "svdvals": "U and Vh are of what it has found",
    "triangular_factor": "refuses another triangle that is not 0",
}
"""Forwards whose values at samples follow from the equation, and why they are written all the same."""


def moved(inputs: Mapping[str, np.ndarray], op: Op) -> Iterator[Mapping[str, np.ndarray]]:
    """Samples, and the same with an entry, or all, at the ends of the numbers; all zeros; whole numbers."""
    yield inputs
    numbers = {name: np.asarray(a, float) for name, a in inputs.items() if not op.domain_of(name).whole}
    for (name, array), end in itertools.product(numbers.items(), ENDS):
        one = array.copy()
        one.reshape(-1)[one.size // 2 : one.size // 2 + 1] = end
        yield {**inputs, name: one}
        yield {**inputs, name: np.full(array.shape, end)}
    yield {**inputs, **{name: np.zeros(a.shape) for name, a in numbers.items()}}


def value(case: Any, inputs: Mapping[str, np.ndarray]) -> np.ndarray | str:
    """The forward of a case, or why there is none."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(forward(case.program, inputs)[case.program.output], float)
    except SymgradError as error:
        return error.problem


def follows(op: Op) -> bool:
    """Whether the equation gives what an entry's own forward does, at all samples of all examples."""
    bare = dataclasses.replace(op, numpy=None)
    for case in (case for case in cases() if case.op.name == op.name):
        for inputs in moved(case.inputs, op):
            with instead(op):
                own = value(case, inputs)
            with instead(bare):
                found = value(case, inputs)
            if isinstance(own, str) or isinstance(found, str):
                if own != found:
                    return False
                continue
            if own.shape != found.shape or not np.allclose(own, found, rtol=1e-14, atol=0, equal_nan=True):
                return False
    return True


WRITTEN = [
    op for op in TABLE.values() if op.numpy is not None and "out" not in op.saved.names and op.name not in BESIDE
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("op", WRITTEN, ids=lambda op: op.name)
def test_no_forward_is_what_the_equation_gives(op: Op) -> None:
    """What reads its own output has a forward by need; of the others each, or one that shares it, is another somewhere."""
    shared = [other for other in WRITTEN if other.numpy.__qualname__ == op.numpy.__qualname__ != "<lambda>"]  # type: ignore[union-attr]  # each is written
    assert not follows(op) or not all(map(follows, shared))


def test_these_checks_can_fail() -> None:
    row = rows()["tanh"]
    assert needless({**row, "examples": ("tanh(x)",)}) == ["examples"]
    assert needless({**row, "smooth": True}) == ["smooth"]
    assert follows(dataclasses.replace(TABLE["tanh"], numpy=np.tanh))
    assert not follows(dataclasses.replace(TABLE["tanh"], numpy=np.sinh))
    assert torch.tanh(torch.zeros(1)) == 0
