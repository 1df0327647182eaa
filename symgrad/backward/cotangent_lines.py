"""The backward of a program as lines: each visible tensor's cotangent, from the outputs back.

    v_h = Σ over what reads h of the cotangent of that, pulled back to h

Comes in: a program, the inputs to differentiate with respect to, which tensors have a name, and the numbers to prove
lines with. Goes out: a `Backward`. The work is linear in the length of the program; equal structures are derived once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from symgrad.backward.code import shorten_expression
from symgrad.backward.forward_lines import ForwardLine, ForwardLines, select_statements
from symgrad.backward.groups import Group, make_groups, merged_tensors
from symgrad.backward.line_data import Backward, Contribution, Line
from symgrad.backward.line_templates import templates_of_group
from symgrad.backward.page_names import OpaqueCall, PageNames, opaque_call_of
from symgrad.backward.simplify import Draft, Summand, dtype_casts, merge_drafts
from symgrad.backward.simplify.broadcasting import is_zero, make_ones
from symgrad.backward.simplify.factors import drop_double_transposes, drop_ones_like, name_divisor
from symgrad.backward.standard_groups import StandardGroup, is_wide_join, split_wide_join, standardise_group
from symgrad.backward.template_cache import LineTemplate
from symgrad.calculus import flowing
from symgrad.language.python_text import call
from symgrad.language.syntax_tree import Literal
from symgrad.language.trees import FormCode, fill_ones, is_tensor_free, replace_names, tensor_names
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.numeric import Values
from symgrad.program import Program
from symgrad.shapes import Shape

LONG, SHORTER = 56, 0.7
"""A group with longer lines than so many characters falls apart where its steps have lines so much shorter."""


@dataclass
class GatheredTerms:
    """What reached one tensor: a term, and what was derived, for each use."""

    terms: list[Summand] = field(default_factory=list)
    parts: list[Contribution] = field(default_factory=list)
    own: str = ""


class CotangentLines:
    """One backward in the making."""

    def __init__(
        self, program: Program, ends: Sequence[str], wanted: Sequence[str], names: PageNames, values: Values | None
    ) -> None:
        self.program, self.names, self.values = program, names, values
        self.ends, self.wanted, self.reached = tuple(ends), tuple(wanted), flowing(program, wanted)
        self.tensors = program.by_name
        self.gathered, self.definitions = dict[str, GatheredTerms](), list[Draft]()
        self.known, self.wholes = dict[SyntaxNode, str](), frozenset[str]()

    def build(self, ones: bool) -> Backward:
        """The lines; ``ones``: the only output is one number and its seed is 1."""
        unit = ones and len(self.ends) == 1 and not self.tensors[self.ends[0]].shape
        unit = unit and not any(self.ends[0] in step.tensors for step in self.program.steps)
        told = self.split(unit)
        for end in self.ends:
            if not unit:
                self.gathered[end] = GatheredTerms([Summand((), Name(self.names.seed(end)))])
        drafts = []
        for group in reversed(told):
            carried = self.gathered.get(group.output)
            first = unit and group.output == self.ends[0]
            if group.output not in self.reached or (carried is None and not first):
                continue
            if carried is not None and not carried.terms and not first:
                continue  # everything that reached it is 0
            if carried is not None and not (group.output in self.ends and not carried.parts):
                drafts.append(self.draft(group.output))
            self.pull(group, first)
            drafts += self.definitions
            self.definitions.clear()
        leaves = [self.draft(name) for name in self.wanted]
        return self.written(told, drafts, leaves, unit)

    def split(self, unit: bool) -> tuple[Group, ...]:
        """The groups; one that has no line as a whole, or longer ones than its steps have, falls apart."""
        visible = {*self.ends, *self.names.given}
        apart_from: set[str] = set()
        while True:
            told = make_groups(self.program, visible, {*self.ends, *self.wanted, *apart_from})
            apart = [group for group in told if group.output in self.reached and self.better_apart(group, unit)]
            parts = {name for group in apart for name in merged_tensors(group, visible, self.tensors)}
            if not parts:
                return told
            visible |= parts
            apart_from |= parts

    def better_apart(self, group: Group, unit: bool) -> bool:
        """Whether the steps of a group have lines and it has none, or much longer ones."""
        if len(group.computed) < 2:
            return False
        whole = self.longest([group], unit)
        if whole is not None and whole <= LONG:
            return False
        reads = tuple(self.tensors[name] for name in group.reads)
        alone = Program(reads, (*group.steps, *group.beside), group.output)
        parts = make_groups(alone, group.computed)
        longest = self.longest([part for part in parts if part.output in {s.result.name for s in group.steps}], unit)
        return whole is None or (longest is not None and longest < SHORTER * whole)

    def longest(self, told: Sequence[Group], unit: bool) -> int | None:
        """The length of the longest line of some groups; None where one is missing."""
        forms = list[FormCode | None]()
        for group in told:
            if not group.black:
                first = unit and group.output == self.ends[0]
                lines = templates_of_group(self.form(group), group, self.reached, first, self.values, short=True)
                forms += [found.notation for _, found in lines]
        return None if None in forms else max((len(form.text) for form in forms if form is not None), default=0)

    def form(self, group: Group) -> StandardGroup:
        """A group as a program of its own."""
        return standardise_group(group, self.tensors, self.values, self.program.required)

    def draft(self, name: str) -> Draft:
        """The line of a tensor's cotangent."""
        return Draft(name, [*self.of(name).terms], self.tensors[name].shape, self.shapes, page=self.names.page(name))

    @cached_property
    def shapes(self) -> dict[str, Shape]:
        """The shapes of tensors, by what they are called on the page."""
        return {self.names.page(name): tensor.shape for name, tensor in self.tensors.items()}

    def of(self, name: str) -> GatheredTerms:
        """What reached a tensor."""
        return self.gathered.get(name, GatheredTerms())

    def pull(self, group: Group, unit: bool) -> None:
        """The cotangent of what a group computes, pulled back to everything it reads."""
        if group.black:
            own = f"through {group.steps[-1].called}, computed by PyTorch (not derived)"
            weight = self.names.shown(self.names.cotangent(group.output))
            for n, name in enumerate(group.steps[-1].arguments):
                if isinstance(name, str) and name in self.reached:
                    question = opaque_call_of(group.steps[-1], n, weight)
                    self.gather(name, None, Contribution(group.output, None, {}, {}), own, question)
            return
        for form in split_wide_join(group, self.tensors) if is_wide_join(group, self.tensors) else [self.form(group)]:
            names = self.in_page(form)
            names["v"] = self.names.cotangent(group.output)
            for own, found in templates_of_group(form, group, self.reached, unit, self.values):
                part = Contribution(group.output, found.origin, names, form.own_sizes, found.rules)
                self.gather(form.names[own], self.expression(found, names, group.output, own), part, found.reason)

    def in_page(self, form: StandardGroup) -> dict[str, str]:
        """What the standard names of a group are called on the page."""
        names = {own: self.names.page(name) for own, name in form.names.items()}
        return names | {own: self.names.places(h.own, h.own.partition("·")[2]) for own, h in form.held.items()}

    def gather(
        self, name: str, term: SyntaxNode | None, part: Contribution, own: str = "", question: OpaqueCall | None = None
    ) -> None:
        """Another term of a cotangent."""
        found = self.gathered.setdefault(name, GatheredTerms())
        found.own = found.own or own
        found.parts.append(part)
        if not is_zero(term):
            defined = set(self.known.values()) & (set() if term is None else tensor_names(term))
            found.terms.append(Summand((part.through, *sorted(defined)), term, question))

    def expression(self, found: LineTemplate, names: Mapping[str, str], through: str, own: str) -> SyntaxNode | None:
        """A template by ``own`` in the names of the page; what it defines first becomes lines of its own."""
        if found.code is None:
            return None
        form = name_divisor(found.code)
        swap: dict[str, SyntaxNode] = {own: Name(name) for own, name in names.items()}
        for name, value in form.definitions:
            here = replace_names(value, swap)
            known = self.known.get(here)
            if known is None:
                known = self.known[here] = self.names.free(name)
                self.definitions.append(Draft(known, [Summand((through,), here)]))
            swap[name] = Name(known)
        return replace_names(drop_double_transposes(drop_ones_like(form.last, own)), swap)

    def written(self, told: Sequence[Group], drafts: list[Draft], leaves: list[Draft], unit: bool) -> Backward:
        """The drafts as text, merged by the rules."""
        cotangents = {name: self.names.cotangent(name) for name in (*self.gathered, *self.wanted)}
        fixed = {*self.names.given, *self.ends}
        for draft in (*drafts, *leaves):
            draft.without_margins(self.shapes)
        own = {draft.of for draft in drafts if draft.of not in self.tensors}
        shapes = self.shapes | {cotangent: self.tensors[name].shape for name, cotangent in cotangents.items()}
        named = cotangents | {name: name for name in own}
        every = merge_drafts([*drafts, *leaves], named, {*fixed, *own, *self.wanted}, shapes)
        for draft in every:
            draft.without_expands(shapes)
        writer = ForwardLines(self.program, self.names, self.values, self.form, self.in_page)
        ahead = writer.every(told)
        self.find_kinds(ahead)
        rest = [draft for draft in every if not any(draft is leaf for leaf in leaves)]
        lines = [self.line(draft, cotangents.get(draft.of, draft.of)) for draft in rest]
        gradients = {draft.of: self.line(draft, self.names.gradient(draft.of)) for draft in leaves}
        lines = drop_unread_lines(lines, list(gradients.values()))
        seeds = {end: None if unit else self.names.seed(end) for end in self.ends}
        inputs = tuple(self.names.page(tensor.name) for tensor in self.program.inputs)
        read = {name for line in (*lines, *gradients.values()) for name in line.names}
        visible = {line.of for line in lines if line.of in self.tensors}
        ahead = select_statements(ahead, read, visible, self.names, self.program)
        forward = tuple(map(self.ahead, ahead))
        return Backward(inputs, forward, tuple(lines), gradients, seeds, self.program, self.names.letter)

    @cached_property
    def truths(self) -> frozenset[str]:
        """What the page calls the tensors that hold truth values."""
        found = {step.result.name for step in self.program.steps if dtype_casts.gives_truths(step.op)}
        if self.values is not None:
            found |= {x.name for x in self.program.inputs if self.values[x.name].dtype.kind == "b"}
        return frozenset(map(self.names.page, found))

    @property
    def like(self) -> str:
        """The name of a tensor of floats, of which others take their type: in forward mode the last input is one."""
        given = (tensor.name for tensor in self.program.inputs[-1:])
        return self.names.page(next(iter((*self.wanted, *given, *self.ends))))

    def find_kinds(self, ahead: Sequence[ForwardLine]) -> None:
        """Note which tensors of the forward pass hold truth values, and which whole numbers."""
        for s in ahead:
            kind = None if s.value is None else dtype_casts.kind_held(s.value, self.truths)
            self.truths |= {s.target} if kind is dtype_casts.HeldKind.TRUTH else set()
            self.wholes |= {s.target} if kind is dtype_casts.HeldKind.WHOLE else set()

    def ahead(self, statement: ForwardLine) -> Line:
        """A line of the forward pass."""
        value = statement.value and dtype_casts.negate_truths(statement.value, self.truths)
        line = self.said(statement.of, statement.target, value and dtype_casts.drop_casts(value))
        if value is not None:
            cast = dtype_casts.cast_where_needed(value, self.like, self.truths, self.wholes)
            line = replace(line, tree=cast)
        return line if statement.text is None else replace(line, text=statement.text)

    def line(self, draft: Draft, target: str) -> Line:
        """One line."""
        found, value = self.of(draft.of), draft.value
        rules, through = tuple(dict.fromkeys(draft.rules)), draft.reads
        if not draft.terms:
            like = "ones" if draft.of in self.ends else "zeros"  # an output without terms has the seed 1
            value = call(f"{like}_like", self.names.page(draft.of))
        value = value and dtype_casts.negate_truths(value, self.truths)
        line = self.said(draft.of, target, value, tuple(found.parts), through, rules, found.own)
        if value is None or draft.of not in self.tensors:
            return line if draft.told is None else replace(line, text=self.names.shown(draft.told))
        if not is_tensor_free(value):
            floats, truth = dtype_casts.cast_to_float(value, self.names.page(draft.of), self.truths, self.wholes)
            line = replace(line, tree=floats)
            if dtype_casts.subtracts_truths(value, self.truths):
                return replace(line, text=self.names.shown(shorten_expression(floats)))
            if truth and target != self.names.gradient(draft.of):  # for -v_t and v_t @ w in other lines
                text = (draft.filled and line.code) or shorten_expression(Binary("*", Literal(1), value))
                line = replace(line, text=self.names.shown(text))
            return line
        ones = make_ones(self.names.page(draft.of))
        whole = replace(line, tree=fill_ones(value, ones))
        filled = draft.filled or target == self.names.gradient(draft.of)  # nothing but a tensor fits a .grad
        return replace(whole, text=self.names.shown(str(whole.code))) if filled else whole

    def said(
        self,
        of: str,
        target: str,
        value: SyntaxNode | None,
        parts: tuple[Contribution, ...] = (),
        through: tuple[str, ...] = (),
        rules: tuple[str, ...] = (),
        own: str = "",
    ) -> Line:
        """A statement as Python and as it is shown."""
        text = None if value is None else self.names.shown(shorten_expression(value))
        name = self.names.label(target)
        shape = self.tensors[of].shape if of in self.tensors else None
        return Line(name, text, target, value, of, shape, parts, through, rules, own)


def drop_unread_lines(lines: Sequence[Line], gradients: Sequence[Line]) -> list[Line]:
    """The lines that a gradient reads, or another line that one reads; all of them where a gradient has no code."""
    if any(line.code is None for line in gradients):
        return [*lines]
    read, found = set[str]().union(*(line.names for line in gradients)), list[Line]()
    told = set[str]()  # what is read in words alone
    for line in reversed(lines):
        if line.target in read or line.of in told:
            found.insert(0, line)
            read |= line.names
            told |= {*line.through} if line.code is None else set()
    return found
