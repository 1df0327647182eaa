"""The lines of a backward as a Python function that runs with torch.

Comes in: the lines, forward and backward. Goes out: text, in which every function stands where torch has it.

What four hundred steps of a loop read has a line of four hundred terms, and its syntax tree is as deep as it is long:
whatever walks it nests as deep. A stack that is too small for that would end the process, so `room_for` gives the room
only where the system says that there is enough of it.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from keyword import iskeyword

from symgrad.backward.parts.trees import Tree, read_by, rewritten
from symgrad.errors import InputError, UnsupportedError
from symgrad.ops import COMPOUND_SPELLINGS, SPELLINGS
from symgrad.program import Program

IMPORTS = {"math.": "import math", "torch.": "import torch", "F.": "import torch.nn.functional as F"}
"""What has to be imported for which beginning of a name; torch always is, math before it."""
MODULES = frozenset({"F", "math", "np", "torch"})
"""What modules are called in code."""

Statement = tuple[str, str]
"""A name, and what it is computed by."""


def at_home(node: ast.expr) -> ast.expr:
    """softmax(x) → torch.softmax(x): a function by its home in torch; tensors and methods stay."""
    match node:
        case ast.Call(ast.Name(name)):  # a tensor is never called, whatever its name
            node.func = ast.parse(home(name), mode="eval").body
        case ast.Call(ast.Attribute(ast.Name("np"), name)):  # the user wrote np.dot
            node.func = ast.parse(home(name), mode="eval").body
    return node


@cache
def home(name: str) -> str:
    """Where torch has a function that is known by its last name; raises `UnsupportedError` for one that it lacks.

    >>> home("softmax"), home("one_hot"), home("inverse"), home("cholesky")
    ('torch.softmax', 'F.one_hot', 'torch.inverse', 'torch.linalg.cholesky')
    """
    own = SPELLINGS[name].spelled if name in SPELLINGS else ()
    every = (*own, *sorted(SPELLINGS), *sorted(COMPOUND_SPELLINGS))
    places = [s for s in every if s.startswith(("torch.", "F.")) and s.rpartition(".")[2] == name]
    places.sort(key=lambda place: (place not in own, not place.startswith("torch.linalg.")))  # torch.cholesky is dated
    if not places and name in SPELLINGS:
        raise UnsupportedError(f"torch has no function {name}")
    return next((s for s in places if not s.startswith("torch._")), f"torch.{name}")


def with_conditions(tree: Tree, inputs: Collection[str]) -> Tree:
    """``where(c, x, 0)`` → ``where(c != 0, x, 0)``: an input that is read as a condition may hold numbers."""

    def compared(node: ast.expr) -> ast.expr:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            return node
        op = SPELLINGS.get(node.func.id)
        place = len(node.args) if op is None or op.chooses is None else op.chooses[0]
        given = node.args[place] if place < len(node.args) else None
        if isinstance(given, ast.Name) and given.id in inputs:
            node.args[place] = ast.Compare(given, [ast.NotEq()], [ast.Constant(0)])
        return node

    return rewritten(tree, compared)


CALLED = re.compile(r"(?<![\w.])([^\W\d]\w*)(?=\()")
"""A function by its bare name, where it is called."""


def with_modules(text: str) -> str:
    """A line as it is shown: a bare name is a function of `torch.nn.functional` or of torch, another has its module.

    >>> with_modules("softmax(x).exp() @ solve(a.T, v)")
    'softmax(x).exp() @ torch.linalg.solve(a.T, v)'
    """

    def placed(found: re.Match[str]) -> str:
        try:
            place = home(found[1])
        except UnsupportedError:
            return found[1]
        return found[1] if place in (f"torch.{found[1]}", f"F.{found[1]}") else place

    return CALLED.sub(placed, text)


def as_function(
    name: str,
    arguments: Sequence[str],
    forward: Sequence[Statement],
    backward: Sequence[Statement],
    results: Sequence[str],
    told: Sequence[str] = (),
) -> str:
    """``def name(arguments)``: what is ``told``, what ``backward`` reads of ``forward``, then ``backward``."""
    needed = read_by(code for _, code in backward)
    kept: list[Statement] = []
    for target, code in reversed(forward):
        if target in needed:
            kept.append((target, code))
            needed |= read_by([code])
    body = [*reversed(kept), *backward]
    texts = [f"    {line}" for line in docstring(told)]
    texts += [f"    {target} = {placed(code, arguments)}" for target, code in body]
    texts.append(f"    return {', '.join(results)}")
    whole = "\n".join([f"def {function_name(name)}({', '.join(arguments)}):", *texts])
    imports = [line for name, line in IMPORTS.items() if name == "torch." or re.search(rf"\b{re.escape(name)}", whole)]
    return "\n".join([*imports, "", "", whole])


WIDTH = 100
"""Characters of a line of words."""


def docstring(told: Sequence[str], indent: int = 4) -> list[str]:
    """Sentences as the docstring of a function, in lines; none where nothing is told."""
    lines = [line for text in told for line in textwrap.wrap(text, WIDTH - indent)]
    quoted = [line.replace("\\", "\\\\").replace('"""', "'''") for line in lines]
    if len(quoted) < 2:
        return [f'"""{line}"""' for line in quoted]
    return [f'"""{quoted[0]}', *quoted[1:], '"""']


def function_name(wish: object) -> str:
    """What a function may be called; raises `InputError` for what is no name, or one that its own lines read."""
    if not isinstance(wish, str) or not wish.isidentifier() or iskeyword(wish):
        raise InputError(f"{wish!r} is no name of a function in Python")
    if wish in MODULES:
        raise InputError(f"a function cannot be called {wish}: its lines read the module")
    return wish


def placed(code: str, inputs: Collection[str] = ()) -> str:
    """Code with its functions where torch has them; ``inputs`` may be conditions that hold numbers."""
    return ast.unparse(rewritten(with_conditions(ast.parse(code, mode="eval"), inputs), at_home))


FRAMES = 8
"""How many calls of Python's one level takes at most."""


LONGEST = 1000
"""Terms of a sum that there is room for: at 2,600 the stack below is still enough, at 1/8 of it no longer."""


STACK = 8 * 1024**2
"""Bytes of stack that systems give by default."""


@contextmanager
def room_for(program: Program) -> Iterator[None]:
    """Inside, Python lets calls nest as deep as the longest sum of a backward of ``program``.

    Raises `UnsupportedError` for sums that are longer, or where the stack is small.
    """
    uses = Counter(name for step in program.steps for name in step.tensors)
    terms, before = max(uses.values(), default=0), sys.getrecursionlimit()
    too_long = UnsupportedError(f"a sum of {terms:,} terms is longer than a line that Python reads")
    if terms > LONGEST:
        raise too_long
    if has_stack():
        sys.setrecursionlimit(before + FRAMES * terms)
    try:
        yield
    except RecursionError:
        raise too_long from None
    finally:
        sys.setrecursionlimit(before)


def has_stack() -> bool:
    """Whether this system says that its stack is as large as it is elsewhere."""
    try:
        import resource
    except ImportError:  # on Windows, where it is smaller
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_STACK)
    return soft == resource.RLIM_INFINITY or soft >= STACK
