"""The lines of a backward as text: as a Python function that runs with torch, and as they are shown.

Comes in: lines, forward and backward. Goes out: text, in which every function has its full name in torch. Of a long
line that is shown, the middle of a sum and of a list is left out, and counted; a decimal that is 1 / 60 is shown as
that.

A tensor that four hundred steps of a loop read has a line of four hundred terms, and the syntax tree of the line is as
deep as it is long: whatever walks it recurses as deep. A stack that is too small for that would end the process, so
`recursion_room` raises the limit only where the system says that its stack is large enough.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from keyword import iskeyword
from typing import TypeVar

from symgrad.backward.trees import Tree, called_word, chain_operators, copy_tree, rewrite_tree
from symgrad.closed_form.number_text import tidy_exponents, write_reciprocal
from symgrad.errors import InputError, UnsupportedError
from symgrad.ops import COMPOUNDS, SPELLINGS
from symgrad.program import Program

IMPORTS = {"math.": "import math", "torch.": "import torch", "F.": "import torch.nn.functional as F"}
"""What has to be imported for which beginning of a name; torch always is, math before it."""
MODULES = frozenset({"F", "math", "np", "torch"})
"""What modules are called in code."""

Statement = tuple[str, str]
"""A name, and what it is computed by."""


CALLED = re.compile(r"(?<![\w.])(?:np\.)?([^\W\d]\w*)(?=\()")
"""A function by its bare name, or as the user has it in NumPy, where it is called; no tensor is."""


def qualify(text: str) -> str:
    """Code with each function by its home in torch; tensors and methods stay.

    >>> qualify("softmax(x).exp() @ np.outer(a.T, v)")
    'torch.softmax(x).exp() @ torch.outer(a.T, v)'
    """
    return CALLED.sub(lambda found: find_function_home(found[1]), text)


@cache
def find_function_home(name: str) -> str:
    """Where torch has a function that is known by its last name; raises `UnsupportedError` for one that it lacks.

    >>> [find_function_home(word) for word in ("softmax", "one_hot", "inverse", "cholesky")]
    ['torch.softmax', 'F.one_hot', 'torch.inverse', 'torch.linalg.cholesky']
    """
    own = SPELLINGS[name].spellings if name in SPELLINGS else ()
    every = (*own, *sorted(SPELLINGS), *sorted(COMPOUNDS))
    places = [s for s in every if s.startswith(("torch.", "F.")) and s.rpartition(".")[2] == name]
    places.sort(key=lambda place: (place not in own, not place.startswith("torch.linalg.")))  # torch.cholesky is dated
    if not places and name in SPELLINGS:
        raise UnsupportedError(f"torch has no function {name}")
    return next((s for s in places if not s.startswith("torch._")), f"torch.{name}")


def compare_conditions(tree: Tree, inputs: Collection[str]) -> Tree:
    """``where(c, x, 0)`` → ``where(c != 0, x, 0)``: an input that is read as a condition may hold numbers."""

    def compared(node: ast.expr) -> ast.expr:
        asked = condition_of_call(node) if isinstance(node, ast.Call) else None
        if isinstance(node, ast.Call) and isinstance(asked, ast.Name) and asked.id in inputs:
            node.args[node.args.index(asked)] = ast.Compare(asked, [ast.NotEq()], [ast.Constant(0)])
        return node

    return rewrite_tree(tree, compared)


def condition_of_call(call: ast.Call) -> ast.expr | None:
    """The argument by which a call chooses: m of ``where(m, a, b)`` and ``x.masked_fill(m, 0)``."""
    own = isinstance(call.func, ast.Attribute)
    op = SPELLINGS.get(called_word(call.func))
    if op is None or op.traits.where_like is None:
        return None
    place = op.traits.where_like[0] - own
    return call.args[place] if 0 <= place < len(call.args) else None


def write_with_modules(text: str) -> str:
    """A line as it is shown: a bare name is a function of `torch.nn.functional` or of torch, another has its module.

    >>> write_with_modules("softmax(x).exp() @ solve(a.T, v)")
    'softmax(x).exp() @ torch.linalg.solve(a.T, v)'
    """

    def placed(found: re.Match[str]) -> str:
        with suppress(UnsupportedError):
            if (place := find_function_home(found[1])) not in (f"torch.{found[1]}", f"F.{found[1]}"):
                return place
        return found[0]

    return CALLED.sub(placed, text)


def write_function(
    name: str, arguments: Sequence[str], body: Sequence[Statement], results: Sequence[str], told: Sequence[str] = ()
) -> str:
    """``def name(arguments)``: what is ``told``, then the statements."""
    docstring = quote_docstring([line for text in told for line in textwrap.wrap(text, WIDTH - len("    "))])
    texts = [f"    {line}" for line in docstring]
    texts += [f"    {target} = {write_torch_code(code, arguments)}" for target, code in body]
    texts.append(f"    return {', '.join(results)}")
    whole = "\n".join([f"def {check_function_name(name)}({', '.join(arguments)}):", *texts])
    imports = [line for name, line in IMPORTS.items() if name == "torch." or re.search(rf"\b{re.escape(name)}", whole)]
    return "\n".join([*imports, "", "", whole])


WIDTH = 100
"""Characters of a line of words."""


def quote_docstring(lines: Sequence[str]) -> list[str]:
    """Lines as a docstring; none of none."""
    first, *rest = [line.replace("\\", "\\\\").replace('"""', "'''") for line in lines] or [""]
    if not rest and not first.endswith('"'):
        return [f'"""{first}"""'] if first else []
    return [f'"""{first}', *rest, '"""']


def check_function_name(wish: object) -> str:
    """What a function may be called; raises `InputError` for what is no name, or one that its own lines read."""
    if not isinstance(wish, str) or not wish.isidentifier() or iskeyword(wish):
        raise InputError(f"{wish!r} is not a valid function name in Python")
    if wish in MODULES:
        raise InputError(f"a function cannot have the name {wish}: its lines use that module")
    return wish


def write_torch_code(code: str, inputs: Collection[str] = ()) -> str:
    """Code with its functions where torch has them; ``inputs`` may be conditions that hold numbers."""
    return qualify(ast.unparse(compare_conditions(ast.parse(code, mode="eval"), inputs)))


FRAMES = 8
"""How many calls of Python's one level takes at most."""
LONGEST = 1000
"""Terms of a sum that there is room for: at 2,600 the stack below is still enough, at 1/8 of it no longer."""
STACK = 8 * 1024**2
"""Bytes of stack that systems give by default."""


@contextmanager
def recursion_room(program: Program) -> Iterator[None]:
    """Inside, Python lets calls nest as deep as the longest sum of a backward of ``program``.

    Raises `UnsupportedError` for sums that are longer, or where the stack is small.
    """
    uses = Counter(name for step in program.steps for name in step.tensors)
    terms, before = max(uses.values(), default=0), sys.getrecursionlimit()
    too_long = UnsupportedError(f"a sum of {terms:,} terms is longer than a line that Python reads")
    if terms > LONGEST:
        raise too_long
    if has_usual_stack():
        sys.setrecursionlimit(before + FRAMES * terms)
    try:
        yield
    except RecursionError:
        raise too_long from None
    finally:
        sys.setrecursionlimit(before)


def has_usual_stack() -> bool:
    """Whether this system says that its stack is as large as it is elsewhere."""
    try:
        import resource
    except ImportError:  # on Windows, where it is smaller
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return soft == resource.RLIM_INFINITY or soft >= STACK


LONG = 160
"""Characters of a line beyond which nobody reads it, as of one in array operations."""
Term = tuple[ast.operator, ast.expr]
Part = TypeVar("Part")

MOST_TERMS, FEWEST = 6, 4
"""Terms of a sum that is shown whole, and of sums and lists in a text that is too long."""


def shorten_expression(value: ast.expr) -> str:
    """An expression as it is shown.

    >>> shorten_expression(ast.parse(" + ".join(f"a{n} @ b" for n in range(20)), mode="eval").body)
    'a0 @ b + a1 @ b + … 17 more … + a19 @ b'
    >>> shorten_expression(ast.parse(f"stack([{', '.join(f'v_t{n}' for n in range(40))}]) @ w", mode="eval").body)
    'stack([v_t0, v_t1, … 37 more …, v_t39]) @ w'
    >>> len(shorten_expression(ast.parse(f"stack([{', '.join(f'v_t{n}' for n in range(9))}]) @ w", mode="eval").body))
    65
    >>> shorten_expression(ast.parse("P" + "".join(f" - 2 * g_t{n}" for n in range(20)), mode="eval").body)
    'P - 2 * g_t0 - … 18 more … - 2 * g_t19'
    >>> shorten_expression(ast.parse("x * 0.016666666666666666 + 0.3535533905932738 * y + 0.3333", mode="eval").body)
    'x * (1 / 60) + 8 ** (-0.5) * y + 0.3333'
    >>> shorten_expression(ast.parse("v @ w.T * (1 - h ** 2) @ a.T / 8", mode="eval").body)
    '(v @ w.T) * (1 - h ** 2) @ a.T / 8'
    """
    text = ast.unparse(Shortener().visit(copy_tree(value)))
    return tidy_exponents(text if len(text) <= LONG else ast.unparse(Shortener(FEWEST, FEWEST).visit(copy_tree(value))))


class Shortener(ast.NodeTransformer):
    """Sums of more terms than ``terms`` without their middle, and lists of more than ``parts``.

    A matrix product has brackets before ``*``: not everybody knows that Python takes one after the other.
    """

    def __init__(self, terms: int = MOST_TERMS, parts: int = sys.maxsize) -> None:
        self.terms, self.parts = terms, parts

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A sum from the left, as it was added up."""
        first: ast.expr = node
        rest: list[Term] = []
        while isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add | ast.Sub):
            rest.append((first.op, first.right))
            first = first.left
        if not rest:
            left = self.visit(node.left)
            if isinstance(node.op, ast.Mult) and isinstance(left, ast.BinOp) and isinstance(left.op, ast.MatMult):
                left = ast.Name(f"({ast.unparse(left)})")
            return ast.BinOp(left, node.op, self.visit(node.right))
        (_, total), *terms = keep_ends([(ast.Add(), first), *reversed(rest)], self.terms, ellipsis_term)
        return chain_operators(self.visit(total), [(op, self.visit(term)) for op, term in terms])

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A long decimal that is 1 over something."""
        text = write_reciprocal(node.value) if isinstance(node.value, float) else None
        return node if text is None else ast.parse(text, mode="eval").body

    def visit_List(self, node: ast.List) -> ast.expr:
        """What is put together."""
        parts: list[ast.expr] = [self.visit(part) for part in node.elts]
        return ast.List(keep_ends(parts, self.parts, ellipsis_name))


def keep_ends(parts: list[Part], most: int, instead: Callable[[Sequence[Part]], Part]) -> list[Part]:
    """The first two and the last of more than ``most``, with what says how many are left out."""
    if len(parts) <= most:
        return parts
    first, second, *middle, last = parts
    return [first, second, instead(middle), last]


def ellipsis_name(parts: Sequence[object]) -> ast.expr:
    """What stands where parts are left out: no Python."""
    return ast.Name(f"… {len(parts)} more …")


def ellipsis_term(terms: Sequence[Term]) -> Term:
    """The same in a sum, with the sign that all of them have, or a plus."""
    minus = all(isinstance(op, ast.Sub) for op, _ in terms)
    return ast.Sub() if minus else ast.Add(), ellipsis_name(terms)
