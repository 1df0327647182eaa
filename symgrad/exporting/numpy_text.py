"""The passes as NumPy or jax: each call of torch's is translated into the other library's, or refused.

Comes in: `Passes`. Goes out: a module of two functions, in jax also a `jax.custom_vjp` that joins them. Nothing is run:
syntax trees are rewritten as the entries of the table say (`Op.arrays`), where ``np`` is the array library and
``special`` its special functions (`MODULES`); a call that no entry translates is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache

from symgrad.backward.trees import called_word, owner_name, replace_names
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
from symgrad.ops import TABLE
from symgrad.ops.lookup import ATTRIBUTES

RANK = "{}.ndim"
KNOWN = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Slice, ast.operator,
         ast.unaryop, ast.cmpop, ast.expr_context, ast.keyword)  # fmt: skip
"""What is the same in both."""

BESIDE = {
    "isfinite": "x: np.isfinite(x)", "arange": "n: np.arange(n)", "eye": "n, m=None: np.eye(n, M=m)",
    "to": "x, like: x.astype(like.dtype)", "numel": "x: x.size",
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


@cache
def read_spelling(library: str) -> Mapping[str, ast.Lambda]:
    """What a function comes to: its arguments, and the body, of which options that were left out are left out."""
    texts = {op.name: text for op in TABLE.values() if (text := numpy_spelling(op)) is not None} | BESIDE
    networks = {"nn": ast.parse(NETWORKS[library], mode="eval").body}
    found = {}
    for name, text in texts.items():
        tree = replace_names(ast.parse(f"lambda {text}", mode="eval").body, networks)
        assert isinstance(tree, ast.Lambda)
        found[name] = tree
    return found


class TorchToArrays(ast.NodeTransformer):
    """torch.softmax(x, dim=1) → special.softmax(x, axis=1)"""

    def __init__(self, library: str, known: frozenset[str]) -> None:
        self.library, self.known = library, known

    def refused(self, what: str) -> UnsupportedError:
        """The complaint about what has no counterpart."""
        library = {"numpy": "NumPy", "jax": "jax"}[self.library]
        return UnsupportedError(f"{what} has no known counterpart in {library}", hints=('to="torch"',))

    def visit(self, node: ast.AST) -> ast.AST:
        """What is listed; anything else is refused."""
        if isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
            found: ast.AST = super().visit(node)
            return found
        if not isinstance(node, KNOWN):
            raise self.refused(ast.unparse(node))
        if isinstance(node, ast.Name) and node.id not in self.known:
            raise self.refused(node.id)
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """Places; of several results one is taken by another function."""
        if isinstance(node.value, ast.Call) and not isinstance(node.value.func, ast.Attribute):
            name = ast.unparse(node.value.func)
            if name.rpartition(".")[2] not in read_spelling(self.library):
                raise self.refused(name)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """x.shape, x.T, x.mT and math.pi."""
        if ast.unparse(node) == "math.pi":
            return ast.parse("np.pi", mode="eval").body
        if node.attr not in ("shape", *ATTRIBUTES):
            raise self.refused(f".{node.attr}")
        self.generic_visit(node)
        return node if node.attr != "mT" else self.call("np.swapaxes", node.value, ast.Constant(-1), ast.Constant(-2))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A function or a method, by its last name."""
        function = node.func
        owned = isinstance(function, ast.Attribute) and not self.is_module(function.value)
        name = called_word(function)
        plain = [self.visit(argument) for argument in (*([function.value] if owned else []), *node.args)]  # type: ignore[attr-defined]  # what has an owner is an attribute
        options = {str(k.arg): self.visit(k.value) for k in node.keywords}
        if name == "pad" and not options and len(plain) == 2:
            return self.padded(*plain)
        if name not in read_spelling(self.library):
            raise self.refused(name)
        return self.applied(name, plain, options)

    def is_module(self, node: ast.expr) -> bool:
        """Whether torch.special or F is read, no tensor: names behind dots alone, none of which is a variable."""
        return (owner := owner_name(node)) != "" and owner not in self.known

    def applied(self, name: str, plain: list[ast.AST], options: Mapping[str, ast.AST]) -> ast.AST:
        """A rule on its arguments; an option that is not given is left out."""
        rule = read_spelling(self.library)[name]
        slots = [slot.arg for slot in rule.args.args]
        bound = dict(zip(slots, plain, strict=False))
        rest = plain[len(slots) :]
        optional = slots[len(slots) - len(rule.args.defaults) :]
        missing = [slot for slot in slots if slot not in bound and slot not in options and slot not in optional]
        if (rest and rule.args.vararg is None) or missing or not options.keys() <= set(slots) - bound.keys():
            raise self.refused(f"{name} with these arguments")
        bound |= options
        defaults = dict(zip(optional, rule.args.defaults, strict=True))
        if rule.args.vararg is not None:
            one = len(rest) == 1 and not isinstance(rest[0], (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Subscript))
            bound[rule.args.vararg.arg] = rest[0] if one else ast.Tuple(rest, ast.Load())  # type: ignore[arg-type]  # trees of expressions
            if name == "einsum":
                return self.call("np.einsum", *bound.values()) if one else self.call("np.einsum", plain[0], *rest)
        body = deepcopy(rule.body)
        if isinstance(body, ast.Call):
            unused = {name for name, default in defaults.items() if name not in bound and is_default(default)}
            body.keywords = [k for k in body.keywords if not (isinstance(k.value, ast.Name) and k.value.id in unused)]
        filled = {slot: bound.get(slot, defaults.get(slot)) for slot in (*slots, *bound)}
        return replace_names(body, {slot: value for slot, value in filled.items() if isinstance(value, ast.expr)})

    def padded(self, value: ast.AST, margins: ast.AST) -> ast.AST:
        """F.pad counts axes from the last."""
        if not isinstance(margins, ast.Tuple) or len(margins.elts) % 2:
            raise self.refused("pad with these arguments")
        texts = [ast.unparse(side) for side in margins.elts]
        pairs = [f"({texts[n]}, {texts[n + 1]})" for n in range(0, len(texts), 2)][::-1]
        whole = f"[(0, 0)] * (_padded.ndim - {len(pairs)}) + [{', '.join(pairs)}]"
        inner = replace_names(ast.parse(whole, mode="eval").body, {"_padded": value})  # type: ignore[dict-item]  # a tree of an expression
        return self.call("np.pad", value, inner)

    def call(self, name: str, *arguments: ast.AST) -> ast.Call:
        """A call of a function by its name."""
        return ast.Call(ast.parse(name, mode="eval").body, list(arguments), [])  # type: ignore[arg-type]  # trees of expressions


def is_default(default: ast.AST | None) -> bool:
    """Whether a default is what every library takes where nothing is said."""
    return isinstance(default, ast.Constant) and default.value in (None, False)


def translate_parts(parts: Passes, library: str) -> Passes:
    """Every statement in the library's words."""

    def placed(statement: Assignment) -> Assignment:
        tree = TorchToArrays(library, parts.names).visit(ast.parse(ast.unparse(statement.value), mode="eval").body)
        text = ast.unparse(replace_names(tree, {"np": ast.Name("jnp")}) if library == "jax" else tree)  # type: ignore[arg-type]  # an expression
        return Assignment(statement.target, ast.parse(text, mode="eval").body)

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
