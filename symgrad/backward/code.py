"""The lines of a backward as text: as a Python function that runs with torch, and as they are shown.

Comes in: lines, forward and backward. Goes out: text, in which every function has its full name in torch. Of a long
line that is shown, the middle of a sum and of a list is left out, and counted; a decimal that is 1 / 60 is shown as
that.

A tensor that four hundred steps of a loop read has a line of four hundred terms, and the syntax tree of the line is as
deep as it is long: whatever walks it recurses as deep. A stack that is too small for that would end the process, so
`recursion_room` raises the limit only where the system says that its stack is large enough.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from keyword import iskeyword
from typing import TypeVar

from symgrad.closed_form.number_code import write_reciprocal
from symgrad.errors import InputError, UnsupportedError
from symgrad.language.python_text import to_code, write_python
from symgrad.language.syntax_tree import Attribute, Items, Literal, PythonCall
from symgrad.language.trees import called_word, chain_operators, rewrite_tree
from symgrad.notation.tree import Binary, Name, SyntaxNode, rebuild_node
from symgrad.ops import COMPOUNDS, SPELLINGS
from symgrad.program import Program

IMPORTS = {"math.": "import math", "torch.": "import torch", "F.": "import torch.nn.functional as F"}
"""What has to be imported for which beginning of a name; torch always is, math before it."""
MODULES = frozenset({"F", "math", "np", "torch"})
"""What modules are called in code."""

Statement = tuple[str, SyntaxNode]
"""A name, and what it is computed by."""


CALLED = re.compile(r"(?<![\w.])(?:np\.)?([^\W\d]\w*)(?=\()")
"""A function by its bare name, or as the user has it in NumPy, where it is called; no tensor is."""


def qualify_calls(tree: SyntaxNode) -> SyntaxNode:
    """Code with each function by its home in torch; tensors and methods stay.

    >>> from symgrad.language.python_text import read_python
    >>> write_python(qualify_calls(read_python("softmax(x).exp() @ np.outer(a.T, v)")))
    'torch.softmax(x).exp() @ torch.outer(a.T, v)'
    """

    def placed(node: SyntaxNode) -> SyntaxNode:
        match node:
            case PythonCall(Name(word) | Attribute(Name("np"), word)):
                return replace(node, function=to_code(find_function_home(word)))
        return node

    return rewrite_tree(tree, placed)


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


def compare_conditions(tree: SyntaxNode, inputs: Collection[str]) -> SyntaxNode:
    """``where(c, x, 0)`` → ``where(c != 0, x, 0)``: an input that is read as a condition may hold numbers."""

    def compared(node: SyntaxNode) -> SyntaxNode:
        asked = condition_of_call(node) if isinstance(node, PythonCall) else None
        if isinstance(node, PythonCall) and isinstance(asked, Name) and asked.name in inputs:
            place, told = node.positional.index(asked), Binary("!=", asked, Literal(0))
            return replace(node, positional=(*node.positional[:place], told, *node.positional[place + 1 :]))
        return node

    return rewrite_tree(tree, compared)


def condition_of_call(call: PythonCall) -> SyntaxNode | None:
    """The argument by which a call chooses: m of ``where(m, a, b)`` and ``x.masked_fill(m, 0)``."""
    own = isinstance(call.function, Attribute)
    op = SPELLINGS.get(called_word(call.function))
    if op is None or op.traits.where_like is None:
        return None
    place = op.traits.where_like[0] - own
    return call.positional[place] if 0 <= place < len(call.positional) else None


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


def write_torch_code(code: SyntaxNode, inputs: Collection[str] = ()) -> str:
    """Code with its functions where torch has them; ``inputs`` may be conditions that hold numbers."""
    return write_python(qualify_calls(compare_conditions(code, inputs)))


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
Term = tuple[str, SyntaxNode]
Part = TypeVar("Part")

MOST_TERMS, FEWEST = 6, 4
"""Terms of a sum that is shown whole, and of sums and lists in a text that is too long."""


def shorten_expression(value: SyntaxNode) -> str:
    """An expression as it is shown.

    >>> from symgrad.language.python_text import read_python
    >>> shorten_expression(read_python(" + ".join(f"a{n} @ b" for n in range(20))))
    'a0 @ b + a1 @ b + … 17 more … + a19 @ b'
    >>> shorten_expression(read_python(f"stack([{', '.join(f'v_t{n}' for n in range(40))}]) @ w"))
    'stack([v_t0, v_t1, … 37 more …, v_t39]) @ w'
    >>> len(shorten_expression(read_python(f"stack([{', '.join(f'v_t{n}' for n in range(9))}]) @ w")))
    65
    >>> shorten_expression(read_python("P" + "".join(f" - 2 * g_t{n}" for n in range(20))))
    'P - 2 * g_t0 - … 18 more … - 2 * g_t19'
    >>> shorten_expression(read_python("x * 0.016666666666666666 + 0.3535533905932738 * y + 0.3333"))
    'x * (1 / 60) + 8 ** -0.5 * y + 0.3333'
    >>> shorten_expression(read_python("v @ w.T * (1 - h ** 2) @ a.T / 8"))
    '(((v @ w.T) * (1 - h ** 2)) @ a.T) / 8'
    """
    text = write_python(Shortener().short(value))
    return text if len(text) <= LONG else write_python(Shortener(FEWEST, FEWEST).short(value))


@dataclass(frozen=True)
class Shortener:
    """Sums of more terms than ``terms`` without their middle, and lists of more than ``parts``."""

    terms: int = MOST_TERMS
    parts: int = sys.maxsize

    def short(self, node: SyntaxNode) -> SyntaxNode:
        """An expression: a sum is shortened as it was added up, from the left."""
        match node:
            case Binary("+" | "-"):
                rest = list[Term]()
                while isinstance(node, Binary) and node.sign in ("+", "-"):
                    rest.append((node.sign, node.right))
                    node = node.left
                (_, first), *terms = keep_ends([("+", node), *reversed(rest)], self.terms, ellipsis_term)
                return chain_operators(self.short(first), [(sign, self.short(term)) for sign, term in terms])
            case Literal(float() as value) if (found := write_reciprocal(value)) is not None:  # one over something
                return found
            case Items(parts, True):
                return Items(tuple(keep_ends([*map(self.short, parts)], self.parts, ellipsis_name)), True)
        return rebuild_node(node, self.short)


def keep_ends(parts: list[Part], most: int, instead: Callable[[Sequence[Part]], Part]) -> list[Part]:
    """The first two and the last of more than ``most``, with what says how many are left out."""
    if len(parts) <= most:
        return parts
    first, second, *middle, last = parts
    return [first, second, instead(middle), last]


def ellipsis_name(parts: Sequence[object]) -> SyntaxNode:
    """What stands where parts are left out: no Python."""
    return Name(f"… {len(parts)} more …")


def ellipsis_term(terms: Sequence[Term]) -> Term:
    """The same in a sum, with the sign that all of them have, or a plus."""
    minus = all(sign == "-" for sign, _ in terms)
    return "-" if minus else "+", ellipsis_name(terms)
