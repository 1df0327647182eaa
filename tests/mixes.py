"""Random programs that mix numbers, whole numbers and truth values: casts, masks, ``//`` and ``%``, sums of conditions.

A text is of one of three kinds, and so is each of its parts: decimals, whole numbers, truth values. What has a gradient
flows through the decimals alone; the others choose, count, weigh and divide.
"""

from __future__ import annotations

from random import Random

DECIMALS, WHOLE, TRUTH = "decimals", "whole", "truth"
LEAVES = {DECIMALS: ("x", "x", "y"), WHOLE: ("n", "k", "2"), TRUTH: ("m",)}
"""Inputs of each kind; a number stands beside one of them."""
FORMS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    DECIMALS: (
        *((f"({{}} {sign} {{}})", (DECIMALS, DECIMALS)) for sign in "+-*"),
        *((f"({{}} {sign} {{}})", (DECIMALS, WHOLE)) for sign in "+-*"),
        ("({} * {})", (DECIMALS, TRUTH)), ("({} * {})", (WHOLE, DECIMALS)), ("({} / ({}.abs() + 1))", (DECIMALS, WHOLE)),
        ("({} // ({}.abs() + 1))", (DECIMALS, WHOLE)), ("({} % ({}.abs() + 2))", (DECIMALS, WHOLE)),
        ("where({}, {}, {})", (TRUTH, DECIMALS, DECIMALS)), ("where({}, {}, {})", (TRUTH, DECIMALS, WHOLE)),
        ("where({}, {}, 0.5)", (TRUTH, DECIMALS)), ("{}.masked_fill({}, 0.5)", (DECIMALS, TRUTH)),
        ("({0} * {1}.sum())", (DECIMALS, TRUTH)), ("({} + {}.double().mean())", (DECIMALS, TRUTH)),
        ("({} * {}.double())", (DECIMALS, TRUTH)), ("({} * {}.to(x.dtype))", (DECIMALS, WHOLE)),
        ("{}.relu()", (DECIMALS,)), ("{}.sin()", (DECIMALS,)), ("({} ** 2)", (DECIMALS,)), ("(-{})", (DECIMALS,)),
        ("{}.clamp(-1, 2)", (DECIMALS,)), ("{}.cumsum(0)", (DECIMALS,)), ("{}[{}.abs() % 3]", (DECIMALS, WHOLE)),
        ("{}.double()", (WHOLE,)), ("{}.index_fill(0, {}[:1].abs() % 3, 1.5)", (DECIMALS, WHOLE)),
        ("({} + {}[{}].sum())", (DECIMALS, DECIMALS, TRUTH)), ("maximum({}, {}.double())", (DECIMALS, WHOLE)),
        ("{}.float().double()", (DECIMALS,)), ("({} * ({} > 0))", (DECIMALS, DECIMALS)),
    ),
    WHOLE: (
        *((f"({{}} {sign} {{}})", (WHOLE, WHOLE)) for sign in "+-*"),
        ("({} // 2)", (WHOLE,)), ("({} % 3)", (WHOLE,)), ("(-{})", (WHOLE,)), ("{}.abs()", (WHOLE,)),
        ("{}.long()", (TRUTH,)), ("{}.long()", (DECIMALS,)), ("{}.round().int()", (DECIMALS,)), ("({} & 1)", (WHOLE,)),
        ("where({}, {}, {})", (TRUTH, WHOLE, WHOLE)), ("{}.cumsum(0)", (TRUTH,)), ("({} + {})", (WHOLE, TRUTH)),
        ("{}.clamp(0, 2)", (WHOLE,)), ("{}.argsort()", (DECIMALS,)), ("({0} + {1}.sum())", (WHOLE, TRUTH)),
    ),
    TRUTH: (
        *((f"({{}} {sign} {{}})", (TRUTH, TRUTH)) for sign in "&|^"),
        *((f"({{}} {sign} {{}})", (DECIMALS, DECIMALS)) for sign in ("<", ">=", "==")),
        *((f"({{}} {sign} {{}})", (WHOLE, WHOLE)) for sign in ("<=", "!=")),
        ("(~{})", (TRUTH,)), ("({} % 2 == 0)", (WHOLE,)), ("({} > {})", (DECIMALS, WHOLE)), ("{}.bool()", (WHOLE,)),
        ("({} | {}.any())", (TRUTH, TRUTH)), ("{}.isfinite()", (DECIMALS,)), ("{}.logical_not()", (TRUTH,)),
    ),
}  # fmt: skip
DEPTH = 4


def mixed(number: int, depth: int = DEPTH) -> str:
    """The text of a number: decimals, made of up to ``depth`` operations one upon another."""
    random = Random(number)

    def text(kind: str, left: int) -> str:
        if left == 0:
            return random.choice([name for name in LEAVES[kind] if name != "2"])
        form, kinds = random.choice(FORMS[kind])
        return form.format(*(text(part, random.randrange(left)) for part in kinds))

    return text(DECIMALS, random.randint(2, depth))
