"""Which example a page works through: one with a 2×3 input where the operation takes any, else why it takes none.

Comes in: an operation of the table. Goes out: an `Example`, and the reason, in the words in which 2×3 was refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from symgrad.errors import SymgradError
from symgrad.language import read
from symgrad.ops import Example, Op

TWO_BY_THREE = (2, 3)
"""The shape that a worked example has where it can."""
SWAPPED = {2: 3, 3: 2}


def shown_example(op: Op) -> Example:
    """The example of the table whose formulas are shown: the first whose first input is 2×3, where there is one."""
    fitting = (e for e in op.examples if e.shapes and e.shapes[0][1] == TWO_BY_THREE)
    return next(fitting, op.examples[0])


def worked_example(op: Op) -> tuple[Example, str]:
    """The same call with numbers, an input of it 2×3; where that is refused, as it stands, and the reason.

    >>> from symgrad.ops import find
    >>> worked_example(find("where"))
    (Example(text='where(x > 0, x, y)', shapes=(('x', (2, 3)), ('y', (2, 3)))), '')
    >>> worked_example(find("bmm"))[1]
    'this takes a tensor with 3 axes here, not 2'
    """
    shown = shown_example(op)
    if not shown.shapes or any(shape == TWO_BY_THREE for _, shape in shown.shapes):
        return shown, ""
    reason = ""
    for example in resized(op, shown.text):
        try:
            read(example.text, shapes=dict(example.shapes))
        except SymgradError as error:
            reason = reason or error.problem
        else:
            return example, "" if any(shape == TWO_BY_THREE for _, shape in example.shapes) else reason
    return shown, reason


def resized(op: Op, text: str) -> Iterator[Example]:
    """``text`` with other sizes: 2 and 3 swapped; every input or the first 2×3, one axis of another after it; pairs."""
    same = [example for example in op.examples if example.text == text]
    for example in same:
        swapped = tuple((name, tuple(SWAPPED.get(n, n) for n in shape)) for name, shape in example.shapes)
        if any(shape == TWO_BY_THREE for _, shape in swapped):
            yield replace(example, shapes=swapped)
    first, *others = same[0].shapes
    row_of_pairs = len(first[1]) == 2 and first[1][-1] == 2
    for size in [TWO_BY_THREE, (*TWO_BY_THREE, 2)] if row_of_pairs else [TWO_BY_THREE]:
        start = (first[0], size)
        if len({len(shape) for _, shape in same[0].shapes}) == 1:
            yield replace(same[0], shapes=(start, *((name, size) for name, _ in others)))
        yield replace(same[0], shapes=(start, *others))
        for place, (name, shape) in enumerate(others):
            for axis, n in product(range(len(shape)), TWO_BY_THREE):
                one = (name, (*shape[:axis], n, *shape[axis + 1 :]))
                yield replace(same[0], shapes=(start, *others[:place], one, *others[place + 1 :]))
