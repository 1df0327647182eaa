"""Index equations among the statements of a text: ``h = x @ w; out[i] = Σ_j h[i,j]·a[j]``, and ``"ij,jk->ik"``.

Comes in: the text. Goes out: where its statements that are index equations stand, each as a syntax node. A statement is
one where brackets with letters stand on its left, or where it says Σ_j, √, ⌊ or where; all others are Python.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from symgrad.errors import NotationError, SourceText, Span, UnknownNameError
from symgrad.language.syntax_tree import EquationNode, PythonStatement, Subscript
from symgrad.language.tokens import check_keyword, check_word
from symgrad.notation.meaning import CONSTANTS
from symgrad.notation.read_write import read_statement
from symgrad.notation.scope import classify_names, inline_definitions
from symgrad.notation.tokens import BIG, LETTER, NAME, Token
from symgrad.notation.tree import Access, FlatEntry, IndexEquation, Letter, Name, ScalarCall, walk
from symgrad.ops import equation_functions
from symgrad.ops.lookup import find

INSIDE = r"[^\[\]:'\"]*"
LEFT = re.compile(
    rf"""\s* {NAME} \s* \[ (?= [^\]]* (?: [A-Za-z\u0370-\u03FF…] | \.\.\. ) )
    {INSIDE} (?: \[ {INSIDE} \] {INSIDE} )* \] \s* = (?!=)""",
    re.VERBOSE,
)
"""What begins like an equation: something with letters in brackets is defined."""
PLAIN_LEFT = re.compile(rf"\s* {NAME} \s* = (?!=)", re.VERBOSE)
SAID = re.compile(
    rf"""[Σ∑Π∏√⌊⌋⟨⟩] | (?<!\w) (?:sum|prod|mean|max|min)_ (?: {LETTER} (?!\w) | \{{ )
    | (?<!\w) (?:sum|prod|mean|max|min) (?: _\w* )? \s+ \w
    | (?<!\w) [a-z]{{3,}}_{LETTER} \s+ {NAME} \[ | \b where \s+ {NAME} \s* [=\[]""",
    re.VERBOSE,
)
DOTS = r"(?:\.\.\.|…)"
TERM = rf"(?:[A-Za-z]+(?:{DOTS}[A-Za-z]*)?|{DOTS}[A-Za-z]*)"
EINSUM = re.compile(rf"({TERM}(?:,{TERM})*)->({TERM}?)")
SUBSCRIPTS = re.compile(r"[A-Za-z0-9.…,\s]*(?:(?:->|→)[A-Za-z0-9.…,\s]*)+")
OPERANDS = ("x", "a", "w", "b", "c", "d")
"""What the operands of einsum's shorthand are called."""


def split_statements(text: str) -> Iterator[tuple[str, Span]]:
    """The statements of ``text``, between semicolons and line ends outside brackets, with their places."""
    start = level = 0
    for place, sign in enumerate(f"{text}\n"):
        level += (sign in "([{") - (sign in ")]}")
        if sign == ";" or (sign == "\n" and (level <= 0 or place == len(text))):
            if text[start:place].strip():
                yield text[start:place], (start, place)
            start, level = place + 1, 0


def join_statements(text: str) -> str:
    r"""Several statements between semicolons; a text with a comment as it stands.

    >>> join_statements("h = x@a\nh.T")
    'h = x@a; h.T'
    """
    return text.strip() if "#" in text else "; ".join(" ".join(piece.split()) for piece, _ in split_statements(text))


def format_definition(text: str, output: str) -> str:
    """``out = x@a``; several statements and equations as they stand.

    >>> format_definition("x@a", "out"), format_definition("h = x@a; h.sum()", "out")
    ('out = x@a', 'h = x@a; h.sum()')
    """
    several = ";" in text or "\n" in text.strip()
    whole = several or is_equation(text) or text.replace(" ", "").startswith(f"{output}=")
    return join_statements(text) if whole else f"{output} = {text.strip()}"


def is_equation(text: str, counts: Collection[str] = ()) -> bool:
    """Whether one statement is an index equation; ``counts`` are names that are numbers, and no index.

    >>> [is_equation(t) for t in ("out[i] = x[i]", "h = sum_j x[j]", "h = x.sum()", "x[0]", "z = a[i] == b")]
    [True, True, False, False, False]
    """
    text = text.partition("#")[0]
    left = LEFT.match(text)
    if left is None:
        return bool(PLAIN_LEFT.match(text) and SAID.search(text))
    name, _, inside = left[0].partition("[")
    slots = [slot.strip() for slot in inside.rpartition("]")[0].split(",")]
    words = {word for slot in slots for word in re.findall(NAME, slot)}
    bare = [slot for slot in slots if re.fullmatch(NAME, slot) and not re.fullmatch(LETTER, slot)]
    if bare and "[" not in text[left.end() :]:  # x[mask] = 0; of out[row] = x[row] the letters are what is wrong
        return False
    return not words & {name.strip(), *counts}  # x[x > 0] = …, x[k] = … in a loop


def parse_equation(text: str, start: int) -> EquationNode:
    """The node for an index equation that stands at ``start``."""
    body = text.partition("#")[0].rstrip()
    lead = len(body) - len(body.lstrip())
    statement = read_statement(body.lstrip(), start + lead)
    whole = inline_definitions(statement)
    check_definitions_used(statement)
    check_scalar_functions(whole)
    names = classify_names(whole, equation_functions())
    spans: dict[str, Span] = {}
    for node in walk(whole):
        if isinstance(node, (Access, Name, FlatEntry)):
            spans.setdefault(node.name, (node.span[0], node.span[0] + len(node.name)))
    tensors = tuple(Name(name, span=spans[name]) for name in names.tensors)
    counts = tuple(Name(name, span=spans[name]) for name in names.counts)
    left = statement.span[0]
    for name in (*tensors, *counts, Name(statement.name, span=(left, left + len(statement.name)))):
        token = Token("name", name.name, name.span)
        check_word(token, "")
        check_keyword(token, inside=True)
        if name.name in ("True", "False", "None"):
            raise NotationError(f"{name.name} is neither a number nor a tensor", span=name.span, hints=("1 or 0",))
    ranks = tuple((1, True) if pattern.flat else (pattern.axes, pattern.more) for pattern in names.tensors.values())
    return EquationNode(statement, tensors, counts, ranks, span=statement.span)


def check_definitions_used(statement: IndexEquation) -> None:
    """Refuse what where defines and nothing reads."""
    for definition in statement.definitions:
        others = [other.right for other in statement.definitions if other is not definition]
        read = (node for part in (*statement.slots, statement.right, *others) for node in walk(part))
        if not any(isinstance(node, (Access, Name)) and node.name == definition.name for node in read):
            told = f"where defines {definition.name}, and nothing uses it"
            raise NotationError(told, span=definition.span, hints=("leave the definition out",))


def check_statement_order(statements: Sequence[PythonStatement]) -> None:
    """Refuse an equation that is read before it is stated: what it defines would be an input there."""
    made: set[str | None] = set()
    for place, early in enumerate(statements):
        for late in statements[place + 1 :]:
            equations = isinstance(early.value, EquationNode) or isinstance(late.value, EquationNode)
            name = find_read(early, late.target) if equations and late.target not in made else None
            if name is not None and find_read(late, late.target) is None:
                told = f"{name.name} is used here but defined later"
                raise NotationError(
                    told, span=name.span, hints=(f"the statement {name.name} = … in front of this line",)
                )
        made |= set(early.names)


def check_no_letters_in_python(statements: Sequence[PythonStatement], equations: Sequence[EquationNode]) -> None:
    """Refuse x[i] in a statement of Python's beside equations in which i is an index."""
    letters = {node.name for equation in equations for node in walk(equation.statement) if isinstance(node, Letter)}
    letters -= {name for statement in statements for name in statement.names}
    for statement in statements:
        for node in walk(statement.value):
            for item in node.items if isinstance(node, Subscript) else ():
                if isinstance(item, Name) and item.name in letters:
                    told = f"{item.name} is an index in the equation, and would be a tensor here"
                    hints = (f"{statement.target or 'h'}[{item.name}] = … for an equation",)
                    raise NotationError(told, span=item.span, hints=hints)


def find_read(statement: PythonStatement, name: str | None) -> Name | None:
    """The place where a statement reads ``name``."""
    return next((node for node in walk(statement.value) if isinstance(node, Name) and node.name == name), None)


def check_scalar_functions(statement: IndexEquation) -> None:
    """Refuse functions of the table that act on whole tensors, with the way to write them."""
    for node in walk(statement):
        if not isinstance(node, ScalarCall) or node.function in equation_functions() or node.function in BIG:
            continue
        if find(node.function) is not None:
            raise UnknownNameError(
                f"{node.function} is not a function of single numbers",
                span=(node.span[0], node.span[0] + len(node.function)),
                hints=(f"a statement of its own, on a whole tensor: h = {node.function}(x); out[i] = h[i]",),
            )


def check_named_constants(statements: Iterable[PythonStatement], equations: Sequence[EquationNode]) -> None:
    """Refuse an assignment to π or e where an equation reads it as the number that it is there."""
    for statement in statements:
        for name, equation in ((n, e) for n in statement.names if n in CONSTANTS for e in equations):
            tensors = {tensor.name for tensor in equation.tensors}
            read = {node.name for node in walk(equation.statement) if isinstance(node, Name)} - tensors
            if name in read:
                told = f"{name} is a constant in index equations"
                raise NotationError(told, span=statement.span, hints=("another name for this",))


def equation_from_einsum(text: str) -> str | None:
    """The index equation that einsum's subscripts are short for; None for any other text.

    >>> equation_from_einsum("ij,jk->ik")
    'out[i,k] = Σ_j x[i,j]·a[j,k]'
    >>> equation_from_einsum("...ij,...jk->...ik")
    'out[…,i,k] = Σ_j x[…,i,j]·a[…,j,k]'
    >>> equation_from_einsum("i j, j k → i k")
    'out[i,k] = Σ_j x[i,j]·a[j,k]'
    """
    if not SUBSCRIPTS.fullmatch(text):
        return None
    compact = "".join(text.split()).replace("→", "->")
    match = EINSUM.fullmatch(compact)
    try:
        if match is None:
            raise NotationError(
                "subscripts are letters, with commas between operands and one -> before the result",
                span=(0, len(compact)), hints=("ij,jk->ik",),
            )  # fmt: skip
        return equation_from_terms(match)
    except NotationError as error:
        raise SourceText(compact).locate(error) from None


def equation_from_terms(match: re.Match[str]) -> str:
    """The equation of subscripts that have the form of some."""
    terms = [term.strip().replace("...", "…") for term in match[1].split(",")]
    result = match[2].replace("...", "…")
    if len(terms) > len(OPERANDS):
        raise NotationError(f"more than {len(OPERANDS)} operands", span=match.span(1), hints=("einsum(…, x, a, …)",))
    for letter in result:
        if not any(letter in term for term in terms):
            raise NotationError(f"{letter} is in the result, but in no operand", span=match.span(2))
    if "…" not in result and any("…" in term for term in terms):
        raise NotationError("… is in an operand, so it has to be in the result as well", span=match.span(2))
    if len(set(result)) < len(result):
        raise NotationError("a letter occurs twice in the result", span=match.span(2))
    summed = dict.fromkeys(letter for term in terms for letter in term if letter not in result)
    under = f"Σ_{next(iter(summed))} " if len(summed) == 1 else f"Σ_{{{','.join(summed)}}} " if summed else ""
    product = "·".join(f"{name}[{','.join(term)}]" for name, term in zip(OPERANDS, terms, strict=False))
    left = f"out[{','.join(result)}]" if result else "out"
    return f"{left} = {under}{product}"
