"""The passes as NumPy or jax: each call of torch's is translated into the other library's, or refused.

Comes in: `Passes`. Goes out: a module of two functions, in jax also a ``jax.custom_vjp`` that joins them. Nothing runs:
syntax trees are rewritten as the entries of the table say (`Op.arrays`), where ``np`` is the array library and
``special`` its special functions (`MODULES`); a call that no entry translates is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from symgrad.entries.spec import Op
from symgrad.errors import UnsupportedError
from symgrad.exporting.module import ExportSource, add_imports, check_shapes, describe_module, join_functions
from symgrad.exporting.parts import (
    Assignment,
    Passes,
    find_free_name,
    indent,
    write_passes,
    write_return,
    write_statement,
    write_targets,
)
from symgrad.language.python_text import call, read_python, to_code, write_python
from symgrad.language.syntax_tree import Attribute, Items, Literal, PythonCall, Star, Subscript, Unary
from symgrad.language.trees import called_word, owner_name, replace_names
from symgrad.notation.tree import Binary, Dots, Name, SyntaxNode, rebuild_node
from symgrad.ops import TABLE
from symgrad.ops.lookup import ATTRIBUTES

RANK = "{}.ndim"
BESIDE = {
    "isfinite": "x: np.isfinite(x)", "arange": "n: np.arange(n)", "eye": "n, m=None: np.eye(n, M=m)",
    "to": "x, like: x.astype(like.dtype)", "numel": "x: x.size",
    "new_full": "x, size, value: np.full(size, value, dtype=x.dtype)",
}  # fmt: skip
"""Words that lines have and that are no operation."""
MODULES = {
    "numpy": {"np": "import numpy as np", "special": "from scipy import special"},
    "jax": {
        "jax": "import jax", "np": "import jax.numpy as jnp", "special": "from jax.scipy import special",
    },
}  # fmt: skip
"""How a module is imported; in jax the array library is called ``jnp``."""
NETWORKS = {"numpy": "special", "jax": "jax.nn"}
"""Where the functions of networks are, ``nn`` in what an entry says."""
RENAMED = {"dim": "axis", "dim0": "axis1", "dim1": "axis2", "keepdim": "keepdims"} | dict(diagonal="k")  # noqa: C408 the option, not the operation
"""What options are called there; one with another name is given by its place, if it always is."""


def numpy_spelling(op: Op) -> str | None:
    """An operation in the words of NumPy, as the text of a function: what its entry says, or its spelling there.

    NumPy's own comes first; torch.special has SciPy's names.
    """
    names = ", ".join(op.operands)
    if op.spelling.arrays:
        return op.spelling.arrays if ":" in op.spelling.arrays else f"{names}: {op.spelling.arrays}({names})"
    spelled = [word for start in ("np.", "torch.special.") for word in op.spellings if word.startswith(start)]
    given = list(op.signature.parameters.values())
    first, options = [p.name for p in given[: len(op.operands)]], given[len(op.operands) :]
    usual = any(p.default is not p.empty and p.name not in RENAMED for p in options)
    if not spelled or op.variadic or op.optional or op.traits.complex_pairs or first != [*op.operands] or usual:
        return None
    passed = [p.name if p.name not in RENAMED else f"{RENAMED[p.name]}={p.name}" for p in options]
    called = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in given]
    word = spelled[0].removeprefix("torch.")
    return f"{', '.join(called)}: {word}({', '.join([*op.operands, *passed])})" if word not in ABSENT else None


ABSENT = ("special.erfcx",)
"""Functions of SciPy's that jax lacks."""


@dataclass(frozen=True)
class ArraySpelling:
    """What a call comes to: ``body``, in the names of ``parameters``, with defaults; ``rest`` takes all others."""

    parameters: Mapping[str, SyntaxNode | None]
    rest: str | None
    body: SyntaxNode


@cache
def read_spellings(library: str) -> Mapping[str, ArraySpelling]:
    """What each function comes to; options that were left out of a call are left out of the body."""
    texts = {op.name: text for op in TABLE.values() if (text := numpy_spelling(op)) is not None} | BESIDE
    networks = {"nn": to_code(NETWORKS[library])}
    found = {}
    for name, text in texts.items():
        parameters, _, body = text.partition(": ")
        taken = read_python(f"_({parameters})")
        assert isinstance(taken, PythonCall)
        slots: dict[str, SyntaxNode | None] = {slot.name: None for slot in taken.positional if isinstance(slot, Name)}
        rest = (slot.value.name for slot in taken.positional if isinstance(slot, Star) and isinstance(slot.value, Name))
        slots |= {option.name: option.value for option in taken.keywords}
        found[name] = ArraySpelling(slots, next(rest, None), replace_names(read_python(body), networks))
    return found


class TorchToArrays:
    """torch.softmax(x, dim=1) → special.softmax(x, axis=1)"""

    def __init__(self, library: str, known: frozenset[str]) -> None:
        self.library, self.known = library, known

    def refused(self, what: str) -> UnsupportedError:
        """The complaint about what has no counterpart."""
        library = {"numpy": "NumPy", "jax": "jax"}[self.library]
        return UnsupportedError(f"{what} has no known counterpart in {library}", hints=('to="torch"',))

    def translated(self, node: SyntaxNode) -> SyntaxNode:
        """An expression in the library's words; what has no counterpart is refused."""
        match node:
            case PythonCall():
                return self.call_of(node)
            case Attribute(Name("math"), "pi"):
                return Attribute(Name("np"), "pi")
            case Attribute(owner, name):
                if name not in ("shape", *ATTRIBUTES):
                    raise self.refused(f".{name}")
                inner = self.translated(owner)
                turned = call("np.swapaxes", inner, Literal(-1), Literal(-2))
                return turned if name == "mT" else Attribute(inner, name)
            case Subscript(PythonCall(function)) if not isinstance(function, Attribute):
                name = write_python(function)  # of several results one is taken by another function
                if name.rpartition(".")[2] not in read_spellings(self.library):
                    raise self.refused(name)
            case Name(name) if name not in self.known:
                raise self.refused(name)
            case Star() | Dots():
                raise self.refused(write_python(node))
        return rebuild_node(node, self.translated)

    def call_of(self, node: PythonCall) -> SyntaxNode:
        """A function or a method, by its last name."""
        function, given = node.function, node.positional
        if isinstance(function, Attribute) and not self.is_module(function.owner):
            given = (function.owner, *given)
        name = called_word(function)
        plain = [self.translated(argument) for argument in given]
        options = {option.name: self.translated(option.value) for option in node.keywords}
        if name == "pad" and not options and len(plain) == 2:
            return self.padded(*plain)
        if name not in read_spellings(self.library):
            raise self.refused(name)
        return self.applied(name, plain, options)

    def is_module(self, node: SyntaxNode) -> bool:
        """Whether torch.special or F is read, no tensor: names behind dots alone, none of which is a variable."""
        return (owner := owner_name(node)) != "" and owner not in self.known

    def applied(self, name: str, plain: list[SyntaxNode], options: Mapping[str, SyntaxNode]) -> SyntaxNode:
        """A rule on its arguments; an option that is not given is left out."""
        rule = read_spellings(self.library)[name]
        slots, rest = [*rule.parameters], plain[len(rule.parameters) :]
        bound = dict(zip(slots, plain, strict=False))
        missing = [s for s, default in rule.parameters.items() if default is None and s not in {*bound, *options}]
        if (rest and rule.rest is None) or missing or not options.keys() <= set(slots) - bound.keys():
            raise self.refused(f"{name} with these arguments")
        bound |= options
        if rule.rest is not None:
            one = len(rest) == 1 and not isinstance(rest[0], (Literal, Unary, Binary, Subscript))
            bound[rule.rest] = rest[0] if one else Items(tuple(rest))
            if name == "einsum":
                return call("np.einsum", *bound.values()) if one else call("np.einsum", plain[0], *rest)
        body, unsaid = (
            rule.body,
            {s for s, default in rule.parameters.items() if s not in bound and is_default(default)},
        )
        if isinstance(body, PythonCall):
            kept = (k for k in body.keywords if not (isinstance(k.value, Name) and k.value.name in unsaid))
            body = replace(body, keywords=tuple(kept))
        defaults = {slot: default for slot, default in rule.parameters.items() if default is not None}
        return replace_names(body, defaults | bound)

    def padded(self, value: SyntaxNode, margins: SyntaxNode) -> SyntaxNode:
        """F.pad counts axes from the last."""
        if not isinstance(margins, Items) or len(margins.items) % 2:
            raise self.refused("pad with these arguments")
        sides = margins.items
        pairs = [sides[n : n + 2] for n in range(0, len(sides), 2)][::-1]
        others = Binary("-", Attribute(value, "ndim"), Literal(len(pairs)))
        return call("np.pad", value, Binary("+", Binary("*", to_code([(0, 0)]), others), to_code(pairs)))


def is_default(default: SyntaxNode | None) -> bool:
    """Whether a default is what every library takes where nothing is said."""
    return isinstance(default, Literal) and default.value in (None, False)


def translate_parts(parts: Passes, library: str) -> Passes:
    """Every statement in the library's words."""

    def placed(statement: Assignment) -> Assignment:
        tree = TorchToArrays(library, parts.names).translated(statement.value)
        return Assignment(statement.target, replace_names(tree, {"np": Name("jnp")}) if library == "jax" else tree)

    needed = {
        s.target for s in (*parts.ahead(parts.outputs, parts.inputs), *parts.ahead(parts.mentioned, parts.inputs))
    }
    forward = tuple(placed(s) for s in parts.forward if s.target in needed)
    backward = tuple(map(placed, parts.backward))
    return Passes(parts.inputs, parts.outputs, forward, parts.seeds, backward, parts.gradients)


def write_array_module(told: ExportSource, library: str, style: str, forward_only: bool) -> str:
    """The module for NumPy or jax."""
    own = translate_parts(told.parts, library)
    names = MODULES[library]
    imports = {("jnp." if library == "jax" and name == "np" else f"{name}."): line for name, line in names.items()}
    if style == "class" and not forward_only:
        return add_imports(told, [*write_custom_vjp(own, told)], imports)
    functions = write_passes(own, told.name, lambda statement, _: statement)
    return add_imports(told, join_functions(functions, told, forward_only, RANK), imports)


def write_custom_vjp(parts: Passes, told: ExportSource) -> Iterator[str]:
    """``jax.custom_vjp`` saves what it is told to, and is differentiated again through it."""
    inputs = ", ".join(parts.inputs)
    ahead = [line for s in parts.ahead(parts.outputs, parts.inputs) for line in write_statement(s)]
    whole = [line for s in parts.ahead({*parts.outputs, *parts.mentioned}, parts.inputs) for line in write_statement(s)]
    kept = [n for n in (*parts.inputs, *(s.target for s in parts.forward)) if n in parts.mentioned]
    outs = ", ".join(parts.outputs) if len(parts.outputs) == 1 else f"({', '.join(parts.outputs)})"
    saved = find_free_name("saved", parts.names)
    yield "@jax.custom_vjp"
    yield f"def {told.name}({inputs}):"
    yield from indent([*describe_module(told), *check_shapes(told, RANK), *ahead, *write_return(parts.outputs)])
    pair = f"({', '.join(kept)}{',' * (len(kept) == 1)})"
    yield from ["", "", f"def {told.name}_forward({inputs}):"]
    words = f'"""The result of `{told.name}`, and what its backward needs."""'
    yield from indent([words, *check_shapes(told, RANK), *whole])
    yield f"    return {outs}, {pair}"
    seeds, several = parts.taken_apart({saved})
    yield from ["", "", f"def {told.name}_backward({saved}, {seeds}):"]
    behind = [f'"""vᵀJ of `{told.name}`: a gradient for each input."""']
    behind += [f"{write_targets(kept)} = {saved}"] if kept else []
    behind += [*several, *(line for s in parts.backward for line in write_statement(s))]
    gradients = [parts.gradients.get(name, "None") for name in parts.inputs]
    yield from indent([*behind, f"return {write_targets(gradients)}"])
    yield from ["", "", f"{told.name}.defvjp({told.name}_forward, {told.name}_backward)"]
