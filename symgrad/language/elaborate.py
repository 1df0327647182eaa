"""Syntax tree → steps of a program, once the shapes of its inputs are assumed.

Names become tensors, operators and calls become entries of the table, and whatever holds no tensor (``1/2``,
``x.shape[0]``, ``math.sqrt(2)``) becomes a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from symgrad.errors import RUN, Hint, NotationError, Setting, Span, UnknownNameError, bug, place_errors
from symgrad.language.apply import EntryApplier, choose_from_pair
from symgrad.language.binding import TOLD, Argument, CallResults, LiteralTensor, Meaning, Ref, describe_meaning
from symgrad.language.builder import StepBuilder
from symgrad.language.casts import apply_cast, cast_first_operand, is_cast
from symgrad.language.complaints import explain_transpose, not_callable_error, quote_span, unknown_function_error
from symgrad.language.complex_steps import VIEWS, view_as_pairs
from symgrad.language.constants import INFINITY, NAMED, combine_constants, is_scalar, parse_float
from symgrad.language.constructors import ConstructorArguments, find_constructor
from symgrad.language.dtypes import TYPE_OF, DtypeKind, named_dtype
from symgrad.language.equation_step import apply_equation
from symgrad.language.input_names import PROPERTIES, call_spelling, is_module_path
from symgrad.language.sizes import METHODS, SizeQueries, visible_shape
from symgrad.language.subscript_steps import SubscriptReader
from symgrad.language.syntax_tree import (
    Attribute,
    EquationNode,
    Items,
    Literal,
    PythonCall,
    Star,
    Subscript,
    Unary,
    dotted_name,
)
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.ops.calls.call_texts import LOGIC, SIGNS
from symgrad.ops.calls.registry import Compound, find_compound
from symgrad.ops.lookup import basics, find, role_entry
from symgrad.program import Own, Role

INSTEAD: Mapping[str, Hint] = {
    "H": "x.mT, which is the same of real numbers", "grad": "the page says what x.grad is", "py": RUN,
}  # fmt: skip
"""What would do where a tensor's attribute has no place in a text."""


class Elaborator:
    """Reads expressions over an environment of tensors and constants into the steps of ``builder``.

    ``environment`` says what each name stands for at first; ``symbolic`` sizes get no numbers;
    ``extra`` is added to those that have to be assumed early. ``own`` are the names of tensors that an operator made,
    and that no line has read since.
    """

    def __init__(
        self,
        text: str,
        builder: StepBuilder,
        environment: Mapping[str, Meaning],
        symbolic: bool = False,
        extra: int = 0,
    ) -> None:
        self.text = text
        self.builder = builder
        self.environment = dict(environment)
        self.extents = SizeQueries(builder.sizes, symbolic, extra)
        self.apply = EntryApplier(text, builder, self.extents.whole)
        self.entries = SubscriptReader(self.apply, self.extents, self.meaning)
        self.read: set[str] = set()
        self.own: frozenset[str] = frozenset()
        self.seed: tuple[Own, LiteralTensor] | None = None

    def meaning(self, node: SyntaxNode, name: str | None = None) -> Meaning:
        """What ``node`` stands for; a step made for it gets the name ``name``."""
        match node:
            case Name():
                return self.environment[node.name] if node.name in self.environment else NAMED[node.name]
            case Literal():
                return node.value
            case Items():
                return tuple(value for item in node.items for value in self.items(item))
            case Unary():
                return self.unary(node, name)
            case Binary():
                return self.binary(node, name)
            case PythonCall():
                return self.call(node, name)
            case Attribute():
                return self.attribute(node, name)
            case Subscript():
                return self.entries.subscript(node, name)
            case EquationNode():
                return apply_equation(self.builder, node, self.environment, name)
            case Star():
                raise NotationError("* is allowed only before an argument", span=node.span)
        raise NotationError("this has no meaning here", span=node.span)

    def items(self, item: SyntaxNode) -> tuple[Meaning, ...]:
        """What stands at one place of a list: ``*parts`` for several."""
        if not isinstance(item, Star):
            return (self.meaning(item),)
        value, span = self.meaning(item.value), item.span
        return tuple(self.entries.unpacked(value, [None] * self.entries.counted(value, None, span), (), (), span))

    # Operators --------------------------------------------------------------------------------------

    def unary(self, node: Unary, name: str | None) -> Meaning:
        """-x and +x; ~x of truth values."""
        if node.sign in LOGIC:
            return self.logic(node.sign, (node.operand,), node.span, name)
        value = self.term(node.operand, node.sign)
        if node.sign == "+":
            return value
        if isinstance(value, Ref):
            return self.apply.step(basics.neg, [(value, node.operand.span)], {}, node.span, "-", name)
        return -value if value == INFINITY else place_errors(node.span, lambda: combine_constants("*", -1, value))

    def binary(self, node: Binary, name: str | None) -> Meaning:
        """x + y and the like, comparisons included; & and | of truth values."""
        if node.sign in LOGIC:
            return self.logic(node.sign, (node.left, node.right), node.span, name)
        left, right = self.term(node.left, node.sign), self.term(node.right, node.sign)
        if not isinstance(left, Ref) and not isinstance(right, Ref):
            if node.sign in ("//", "%"):
                left, right = self.extents.whole_if_size(left, node.span), self.extents.whole_if_size(right, node.span)
            return place_errors(node.span, lambda: combine_constants(node.sign, left, right))
        op = find(SIGNS[node.sign])
        if op is None:
            return self.called(f"torch.{SIGNS[node.sign]}", (left, right), (node.left, node.right), node.span, name)
        return self.apply.step(op, [(left, node.left.span), (right, node.right.span)], {}, node.span, node.sign, name)

    def logic(self, sign: str, nodes: tuple[SyntaxNode, ...], span: Span, name: str | None) -> Meaning:
        """``(x > 0) & (y < 1)``, ``~(x > 0)``; refused of numbers, which torch takes bit by bit or not at all."""
        values = [self.term(node, sign) for node in nodes]
        if not all(isinstance(value, Ref) and value.kind is DtypeKind.TRUTH for value in values):
            power = ("write ** for a power",) if sign == "^" else ()
            like = "~(x > 0)" if sign == "~" else f"(x > 0) {sign} (y < 1), with brackets around both"
            raise NotationError(f"{sign} takes booleans here, not numbers", span=span, hints=(*power, like))
        return self.called(f"torch.{LOGIC[sign]}", values, nodes, span, name)

    def called(
        self, spelled: str, values: Sequence[Meaning], nodes: Sequence[SyntaxNode], span: Span, name: str | None
    ) -> Meaning:
        """What a sign stands for that is several entries of the table."""
        compound = find_compound(spelled)
        if compound is None:
            raise bug(f"{spelled} is in no table")
        given = tuple(Argument(value, n.span) for value, n in zip(values, nodes, strict=True))
        return self.apply.part(CallResults(compound, spelled, given), 0, span, name)

    def term(self, node: SyntaxNode, sign: str) -> Any:
        """A tensor or a number on one side of ``sign``."""
        value = self.meaning(node)
        if isinstance(value, Ref):
            return self.apply.tensor(value, node.span)
        if is_scalar(value):
            return value
        hint = Setting("let", sentence="give it a name: {}") if isinstance(value, tuple) else "a tensor or a number"
        raise NotationError(f"{describe_meaning(value)} cannot be an operand of {sign}", span=node.span, hints=(hint,))

    # Calls ------------------------------------------------------------------------------------------

    def call(self, node: PythonCall, name: str | None) -> Meaning:
        """A function, a method, or one of the few words about sizes."""
        callee = node.function
        path = dotted_name(callee)
        made = self.maker(node)
        if made is not None:
            return self.builder.make(made, quote_span(self.text, node.span), name)
        if isinstance(callee, Name) and callee.name in self.environment:
            raise unknown_function_error(callee.name, callee.span, is_tensor=True)
        if path in VIEWS and len(node.positional) == 1 and not node.keywords:
            owner = self.meaning(node.positional[0], name)
            return place_errors(node.span, lambda: view_as_pairs(self.builder, owner, str(path)))
        if path is not None and (isinstance(callee, Name) or is_module_path(callee)):
            spelled, arguments = path, self.arguments(node)
            if spelled == "float" and len(arguments) == 1 and spelled not in self.environment:
                return place_errors(node.span, lambda: parse_float(arguments[0].meaning))
            if spelled == "len" and len(arguments) == 1:
                return self.extents.method("len", arguments[0].meaning, [], node.span)
            op = find_compound(spelled) or find(spelled.removeprefix("math."))
            if spelled.startswith("math.") and any(isinstance(a.meaning, Ref) for a in arguments):
                own = next((p.name for p in node.positional if isinstance(p, Name)), None)
                value = () if own is None else (Setting("let", own, "64", "a number: {}"),)
                hint = f"{spelled.removeprefix('math.')}(…) takes tensors"
                raise NotationError(f"{spelled} takes a number", span=node.span, hints=(hint, *value))
        elif isinstance(callee, Attribute):
            owner = self.meaning(callee.owner)
            if is_cast(callee.name):
                return apply_cast(self.apply, owner, node, callee.name, self.meaning, name)
            arguments = self.arguments(node)
            if callee.name in METHODS:
                return self.extents.method(callee.name, owner, arguments, node.span)
            if callee.name in (*PROPERTIES, "shape", "ndim", "values"):
                hint = f".{callee.name} without brackets"
                raise NotationError(f"{callee.name} is an attribute, not a method", span=node.span, hints=(hint,))
            spelled = f"Tensor.{callee.name}"
            op = find_compound(spelled) or find(spelled)
            arguments = [Argument(owner, callee.owner.span), *arguments]
        else:
            raise not_callable_error(callee)
        if op is None:
            raise unknown_function_error(spelled, callee.span, spelled in self.environment)
        arguments = [replace(a, meaning=cast_first_operand(a.meaning, node)) for a in arguments[:1]] + arguments[1:]
        if isinstance(op, Compound):
            parts = CallResults(op, spelled, tuple(arguments))
            return parts if op.several else self.apply.part(parts, 0, node.span, name)
        return self.apply.call(op, spelled, arguments, node.span, name)

    def maker(self, node: PythonCall) -> LiteralTensor | None:
        """What a call makes of numbers alone, not yet part of the program."""
        spelled, owner = call_spelling(node) or ("", None)
        maker = find_constructor(spelled)
        if maker is None or spelled in self.environment:
            return None
        arguments = [] if owner is None else [Argument(self.meaning(owner), owner.span)]
        arguments += self.arguments(replace(node, keywords=tuple(k for k in node.keywords if k.name not in TOLD)))
        given = ConstructorArguments(spelled, arguments, node.span, named_dtype(node))
        made: LiteralTensor = place_errors(node.span, lambda: maker(given))
        given.finished()
        return replace(made, held=given.dtype or TYPE_OF.get(spelled.rpartition(".")[2], ""))

    def arguments(self, node: PythonCall) -> list[Argument]:
        """What stands between the brackets."""
        found: list[Argument] = []
        for part in node.positional:
            if isinstance(part, Star):
                values = self.meaning(part.value)
                if not isinstance(values, tuple):
                    raise NotationError("* unpacks a list or a shape", span=part.span, hints=("*x.shape",))
                found += [Argument(v, part.span) for v in values]
            else:
                found.append(Argument(self.meaning(part), part.span))
        return found + [Argument(self.meaning(k.value), k.span, k.name) for k in node.keywords if k.name != "dtype"]

    # Attributes, indices and sizes ------------------------------------------------------------------

    def attribute(self, node: Attribute, name: str | None) -> Meaning:
        """x.T, x.shape, math.pi."""
        if is_module_path(node):
            if node.name in NAMED and dotted_name(node) in {
                f"{m}.{node.name}" for m in ("math", "torch", "np", "numpy")
            }:
                return NAMED[node.name]
            if find(str(dotted_name(node))) is not None:
                raise NotationError(f"{node.name} has to be called", span=node.span, hints=(f"{dotted_name(node)}(x)",))
            raise unknown_function_error(str(dotted_name(node)), node.span, is_tensor=False)
        owner = self.meaning(node.owner, name if node.name == "values" else None)
        if isinstance(owner, Ref) and node.name == "shape":
            return visible_shape(owner)
        if isinstance(owner, Ref) and node.name == "ndim":
            return len(visible_shape(owner))
        if isinstance(owner, Ref) and owner.pair and node.name in ("values", "indices"):
            return choose_from_pair(owner, 0 if node.name == "values" else 1, node.span)
        if isinstance(owner, Ref) and node.name == "data":
            cuts = role_entry(Role.CUTS)
            return self.apply.step(cuts, [(owner, node.span)], {}, node.span, cuts.name, name)
        op = find(f"Tensor.{node.name}")
        if isinstance(owner, CallResults) and isinstance(owner.op, Compound) and node.name in owner.op.fields:
            return self.apply.part(owner, owner.op.fields.index(node.name), node.span, name)
        if not isinstance(owner, Ref) or op is None:
            told = f"symgrad knows no attribute {node.name}" if isinstance(owner, Ref) else f"this has no {node.name}"
            hint = INSTEAD.get(node.name, ".T, .mT, .shape and .ndim")
            raise UnknownNameError(told, span=(node.span[1] - len(node.name), node.span[1]), hints=(hint,))
        if node.name not in PROPERTIES:
            raise NotationError(f"{node.name} is a method: call it", span=node.span, hints=(f"x.{node.name}()",))
        operand = (self.apply.tensor(owner, node.owner.span), node.owner.span)
        rank = len(visible_shape(owner))
        if node.name == "T" and rank != 2:
            self.builder.remarks[explain_transpose(quote_span(self.text, node.span), rank)] = None
            order = {"dims": tuple(reversed(range(rank)))}
            return self.apply.step(basics.permute, [operand], order, node.span, ".T", name)
        return self.apply.step(op, [operand], {}, node.span, f".{node.name}", name)
