"""The forward pass as lines: what each group computes, as a person writes it.

Comes in: the groups of a program and the names of the page. Goes out: `ForwardLine`s; an unnamed tensor that only one
line reads is written inside that line. An equation of the user's own is written in matrix notation, else as array
operations; a step that is the pullback of an operation, by the line that a backward would have there. Both gave the
tensor's own numbers when they were read back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.backward.groups import Group, is_move, only_moves_entries
from symgrad.backward.line_templates import evaluate_line, template_for
from symgrad.backward.page_names import PageNames, write_apply_call
from symgrad.backward.simplify.broadcasting import drop_expands
from symgrad.backward.standard_groups import StandardGroup, group_values, program_of_pullback, resize_program
from symgrad.calculus import Sweep, local_jacobian
from symgrad.closed_form.array_code import write_array_operations
from symgrad.closed_form.form import derive_closed_form
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.source_code import SourceWriter
from symgrad.errors import SymgradError
from symgrad.language.python_text import call, method, read_python, write_python
from symgrad.language.syntax_tree import Attribute, Items, Literal, PythonCall, Subscript
from symgrad.language.trees import (
    FormCode,
    count_mentions,
    fill_tree_slots,
    inline_names,
    replace_names,
    tensor_names,
)
from symgrad.notation.tree import Binary, Name, SyntaxNode, rebuild_node
from symgrad.numeric import Values, as_float, forward
from symgrad.ops import entry_named, entry_of
from symgrad.ops.lookup import has_role, role_entry
from symgrad.oracles.comparisons import compare
from symgrad.program import UNNAMED, Apply, Constant, Program, Pullback, Pushforward, Role, Tensor
from symgrad.shapes import Shape

LONGEST = 64
"""Characters of a line that another was put into."""


@dataclass(frozen=True)
class ForwardLine:
    """``target = value``, which computes the tensor ``of``; ``text`` is what is shown where there is no code."""

    of: str
    target: str
    value: SyntaxNode | None
    text: str | None = None


class ForwardLines:
    """The forward lines of one page, for a ``program``.

    ``form`` and ``in_page`` say a group in standard names, and what those are.
    """

    def __init__(
        self,
        program: Program,
        names: PageNames,
        values: Values | None,
        form: Callable[[Group], StandardGroup],
        in_page: Callable[[StandardGroup], Mapping[str, str]],
    ) -> None:
        self.shapes = {tensor.name: tensor.shape for tensor in program.tensors()}
        self.names, self.values, self.form, self.in_page = names, values, form, in_page

    def every(self, told: Sequence[Group]) -> list[ForwardLine]:
        """What each group computes."""
        return [statement for group in told for statement in self.group(group)]

    def group(self, group: Group) -> Iterator[ForwardLine]:
        """What a group computes, and the whole numbers that its operations find and a line of the backward reads."""
        target = self.names.page(group.output)
        if group.black:
            step = group.steps[-1]
            page = [self.names.shown(self.names.page(a)) if isinstance(a, str) else str(a) for a in step.arguments]
            yield ForwardLine(group.output, target, None, write_apply_call(step, page))
            return
        if isinstance(group.steps[-1].op, Pullback):
            yield ForwardLine(group.output, target, self.pulled(group))
            return
        form = self.form(group)
        names = {own: Name(name) for own, name in self.in_page(form).items()}
        found = self.told(form, "out")
        yield ForwardLine(group.output, target, None if found is None else replace_names(found, names))
        for own, held in form.held.items() if isinstance(group.steps[-1].op, str) else ():
            call = self.told(form, form.inner(held))
            told = entry_named(held.step.op).index_call(write_python(call)) if call is not None else None
            value = None if told is None else replace_names(read_python(told), names)
            yield ForwardLine(held.step.result.name, names[own].name, value)

    def pulled(self, group: Group) -> SyntaxNode | None:
        """What computes a cotangent that is a step of the program, proven here."""
        *copies, step = group.steps
        found = None if self.values is None else write_pullback_code(step, self.values, self.shapes)
        if found is None:
            return None
        names: dict[str, SyntaxNode] = {name: Name(self.names.page(name)) for name in step.tensors}
        names |= {own: Name(self.names.places(own, own.partition("·")[2])) for _, own in step.beside}
        for copy in copies:  # what only broadcasts an operand has no line
            like = next((n for n in step.tensors if n in group.reads and self.shapes[n] == copy.result.shape), None)
            if like is None or not copy.tensors:
                return None
            source = names.get(copy.tensors[0], Name(self.names.page(copy.tensors[0])))
            shape = f"{self.names.page(like)}.shape"
            names[copy.result.name] = method(source, role_entry(Role.COPIES).name, shape)
        shapes = {self.names.page(name): own for name, own in self.shapes.items()}
        return drop_expands(replace_names(found, names), shapes)

    def told(self, form: StandardGroup, name: str) -> SyntaxNode | None:
        """What computes a tensor of a group: as a person calls it, else its equation as code, proven at the point."""
        found = next(filter(None, (write_forward(program, name) for program in self.sized(form))), None)
        if found is None and self.values is not None and not form.slots.found:
            known = group_values(form, self.values)
            found = next(filter(None, (write_as_code(program, name, known) for program in self.sized(form))), None)
        return None if found is None else fill_tree_slots(found, form.numbers)

    def sized(self, form: StandardGroup) -> Iterator[Program]:
        """A group for any size, then at the sizes of the point, for what cannot be written without."""
        yield form.program
        if self.values is not None and form.sizes:
            own = {std: self.values.sizes[size] for std, size in form.sizes.items() if size in self.values.sizes}
            yield resize_program(form.program, {std: sp.Integer(n) for std, n in own.items()})


@lru_cache(maxsize=1024)
def write_forward(program: Program, name: str) -> SyntaxNode | None:
    """What computes a tensor of a standard group, as a person writes it; None where it cannot be written."""
    maker = next(step for step in program.steps if step.result.name == name)
    try:
        views = {s.result.name for s in program.steps if entry_of(s.op) is not None and is_move(s, program.by_name)}
        return SourceWriter(program, views).step(maker)
    except (NoForm, SymgradError):
        return None


def select_statements(
    lines: Sequence[ForwardLine], read: Collection[str], visible: Collection[str], names: PageNames, program: Program
) -> list[ForwardLine]:
    """The statements that are read (by the backward: ``read``, or by others) or name a tensor of the ``program``.

    ``visible`` are the tensors whose cotangents have lines: they keep their own. What nobody gave a name or reads, and
    only puts the entries of a tensor in other places, is left out.
    """
    own = {name for s in lines if s.value is not None for name in tensor_names(s.value)} | set(read)
    idle = {s.result.name for s in program.steps if is_reordering(s, program.by_name)}
    idle -= {*names.ends, *visible, *names.given}
    kept = [s for s in lines if s.target in own or (s.target == names.page(s.of) and s.of not in idle)]
    return inline_statements(kept, {*read, *(names.page(of) for of in visible)})


def is_reordering(step: Apply, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a step has the entries of one tensor, each of them or each several times, and computes nothing."""
    return entry_of(step.op) is not None and (has_role(step.op, Role.COPIES) or only_moves_entries(step, tensors))


def inline_statements(statements: Sequence[ForwardLine], read: Collection[str]) -> list[ForwardLine]:
    """What has no name of its own and is read once, by another line of the forward pass, in that line if it is short.

    >>> lines = [ForwardLine(n, n, read_python(code)) for n, code in [("t1", "x.T"), ("t2", "t1 @ w")]]
    >>> [write_python(s.value) for s in inline_statements(lines, [])]
    ['x.T @ w']
    """
    readers: dict[str, list[int]] = {}
    for n, statement in enumerate(statements):
        for name in tensor_names(statement.value) if statement.value is not None else ():
            readers.setdefault(name, []).append(n)
    found: dict[int, ForwardLine] = dict(enumerate(statements))
    for n, statement in enumerate(statements):
        places, value = readers.get(statement.target, []), found[n].value
        if value is None or len(places) != 1 or statement.target in read or not UNNAMED.fullmatch(statement.target):
            continue
        reader = found[places[0]]
        if reader.value is None or count_mentions(reader.value, statement.target) != 1:
            continue
        whole = replace_names(reader.value, {statement.target: value})
        if len(write_python(whole)) <= LONGEST:
            found[places[0]] = replace(reader, value=whole)
            del found[n]
    return list(found.values())


Way = Callable[[Program, Sweep, str], FormCode | None]


def write_as_code(program: Program, name: str, values: Values) -> SyntaxNode | None:
    """What computes ``name`` of inputs of the program, in their names; proven at ``values``."""
    maker = next(step for step in program.steps if step.result.name == name)
    inputs = {tensor.name for tensor in program.inputs}
    if not maker.tensors or not (inputs.issuperset(maker.tensors) or isinstance(maker.op, Pushforward)):
        return None
    for way, as_arrays in ((write_step_notation, False), (write_array_operations, True)):
        form = write_step(program, maker, way)
        read = inputs.intersection((*maker.tensors, *(name for _, name in maker.beside)))
        known = {name: as_float(values[name]) for name in read}  # of what was only broadcast it has the shape alone
        found = None if form is None else evaluate_line(form.text, known, as_arrays)
        if form is None or found is None:
            continue
        if compare("the code, read back and evaluated", as_float(values[name]), as_float(found)).passed is not True:
            continue
        whole = inline_names(form, {})
        return Binary("*", Literal(1.0), whole) if found.dtype == np.bool_ else whole  # as in `CastInserter`
    return None


@lru_cache(maxsize=1024)
def write_step(program: Program, step: Apply, way: Way) -> FormCode | None:
    """The form of one step, said one way; what has its shape has it in sizes of what it reads."""
    read = dict.fromkeys((*step.tensors, *(name for _, name in step.beside)))
    inputs, own = tuple(map(program.tensor, read)), step.result
    try:
        alone = Program(inputs, (step,), own.name, sizes=program.sizes)
        form = way(alone, Sweep(((own.name, local_jacobian(step, alone).equation),)), own.name)
        shape = Items(tuple(SourceWriter(alone).size(size) for size in own.shape))
    except (NoForm, SymgradError):
        return None
    return None if form is None else form.changed(lambda tree: names_to_sizes(tree, own.name, inputs[0].name, shape))


def names_to_sizes(tree: SyntaxNode, name: str, read: str, shape: SyntaxNode) -> SyntaxNode:
    """Code that says the tensor's shape and kind by its own name, as ``out.shape``, by sizes and what it reads.

    >>> from symgrad.language.python_text import to_code
    >>> def told(text):
    ...     return write_python(names_to_sizes(read_python(text), "out", "x", to_code((3,))))
    >>> told("x.sum().expand(out.shape)"), told("2 * ones_like(out)"), told("out.shape[0]")
    ('x.sum().expand((3,))', '2 * ones_like(x.sum()).expand((3,))', 'out.shape[0]')
    """

    def sized(node: SyntaxNode) -> SyntaxNode:
        match node:
            case PythonCall(Attribute(owner, "to"), [Name(own)]) if own == name:
                return method(sized(owner), "to", read)
            case PythonCall(Name("ones_like" | "zeros_like") as function, [Name(own)]) if own == name:
                return method(call(function, method(read, "sum")), "expand", shape)
            case Subscript(Attribute(Name(own), "shape")) if own == name:
                return node
            case Attribute(Name(own), "shape") if own == name:
                return shape
        return rebuild_node(node, sized)

    return sized(tree)


def write_step_notation(program: Program, sweep: Sweep, wanted: str) -> FormCode | None:
    """As a person writes it."""
    form = derive_closed_form(program, sweep, wanted)
    return None if form is None else form.code


def write_pullback_code(step: Apply, values: Values, shapes: Mapping[str, Shape] | None = None) -> SyntaxNode | None:
    """What a pullback computes, in the names of the tensors it is applied to.

    With ``shapes``, whose sizes may be symbols, it is code for every size; without, for the sizes at hand.
    """
    read = {*step.tensors, *(own for _, own in step.beside)}
    if shapes is not None and not read <= shapes.keys():
        shapes = None  # what is read beside has no shape for every size
    found = program_of_pullback(step, values, shapes)
    sizes = {} if shapes is None else values.sizes
    own = {std: values[name] for std, name in found.names.items() if name in values.arrays}
    try:
        sized_here = replace(found.program, sizes=sizes)
        inner = forward(sized_here, {t.name: own[t.name] for t in found.program.inputs})
        known = Values({**inner.arrays, **own}, sizes)
        plain = StandardGroup(found.program, {name: name for name in known.arrays}, {size: size for size in sizes}, {})
        unit = isinstance(step.arguments[0], Constant)
        assert isinstance(step.op, Pullback)
        wanted = f"a{step.op.position}"
        form = template_for(plain, wanted, unit, known).code
        if form is None and unit:
            form = template_for(plain, wanted, False, known).code
    except (SymgradError, KeyError):
        return None
    if form is None:
        return None
    swap: dict[str, SyntaxNode] = {"v": call("ones", ())}  # the weight 1, as a tensor
    swap |= {std: Name(name) for std, name in found.names.items()}
    return inline_names(form, swap)
