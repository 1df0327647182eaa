"""Statements → steps: what a name stands for, one line after the other, as Python has it.

Comes in: a `Script`. Goes out: the tensor that is its output. The right side is read first, then its targets are
assigned from left to right. What a text gives to backward, in the brackets of ``out.backward(…)``, is made as
every tensor that the text makes: `StatementReader.read_seed` gives the code and the numbers of v.
"""

from __future__ import annotations

from typing import NoReturn

from symgrad.entries.derived_facts import constant_result
from symgrad.errors import RUN, NotationError, ShapeError, Span
from symgrad.language.binding import CallResults, LiteralTensor, Meaning, Ref, describe_meaning
from symgrad.language.builder import StepOperand
from symgrad.language.complaints import no_inputs_error, no_tensor_error, quote_span
from symgrad.language.constants import is_scalar
from symgrad.language.constructors import constant_fill
from symgrad.language.elaborate import Elaborator
from symgrad.language.input_names import iterate_tensor_names
from symgrad.language.parser import OVERWRITES
from symgrad.language.sizes import unify_shapes
from symgrad.language.syntax_tree import (
    Items,
    PythonCall,
    PythonStatement,
    Script,
    Star,
)
from symgrad.notation.tree import Binary, Name, SyntaxNode, walk
from symgrad.ops.lookup import entry_of, role_entry
from symgrad.program import Own, Role


class StatementReader(Elaborator):
    """Reads the statements of a script over an environment of tensors and constants."""

    def run(self, script: Script, output: str) -> Ref:
        """Every statement of ``script``; the value of the last one, under the name ``output``."""
        *earlier, last = script.statements
        nodes = (part for s in script.statements for node in s.read for part in walk(node))
        self.read = {part.name for part in nodes if isinstance(part, Name)}
        for statement in earlier:
            self.state(statement, output)
            for name in script.leaves.intersection(statement.names):
                self.builder.want(self.environment[name], statement)
        named = last.target is None and (last.targets or last.sign)
        if named:
            self.state(last, output)
        result = self.shown(last) if named else self.meaning(last.value, output)
        if isinstance(result, Ref):
            result = self.apply.tensor(result, last.value.span)
        if not isinstance(result, Ref):
            what = "a number" if is_scalar(result) else describe_meaning(result)
            parts = result if isinstance(result, tuple) else ()
            several = isinstance(result, CallResults) or any(isinstance(part, Ref) for part in parts)
            raise no_tensor_error(what, several, quote_span(self.text, last.value.span), last.value.span)
        if last.target is not None:
            self.environment[last.target] = result
        if script.seed is not None:
            self.seed = self.read_seed(script.seed)
        if not self.builder.inputs and not self.builder.leaves:
            counts = [name for name in sorted(self.read) if getattr(self.environment.get(name), "free_symbols", None)]
            raise no_inputs_error(last.value.span, counts)
        if result.name != output:
            operand = StepOperand(result, quote_span(self.text, last.value.span))
            result = self.builder.apply(role_entry(Role.HANDS_ON), [operand], {}, last.value.span, name=output)
        return result

    def state(self, statement: PythonStatement, output: str) -> None:
        """One statement before the last: the right side first, then its targets from left to right."""
        targets = statement.targets or (
            () if statement.target is None else (Name(statement.target, span=statement.span),)
        )
        if not targets:
            raise NotationError(
                "only the last expression is the output, this one is not used",
                span=statement.span,
                hints=("h = … to use it later", RUN),
            )
        value = self.augmented(statement) if statement.sign else self.wished(targets[0], statement.value, output)
        for target in targets:
            self.assign(target, value, statement.value.span, output)
        self.own -= {node.name for part in statement.read for node in walk(part) if isinstance(node, Name)}
        own = statement.sign or (statement.target is not None and isinstance(statement.value, Binary))
        self.own = self.own.union(statement.names) if own else self.own.difference(statement.names)

    def wish(self, name: str | None, output: str) -> str | None:
        """What the step for a name should be called: not as the output is."""
        return f"{output}_2" if name == output else name

    def wished(self, target: SyntaxNode, value: SyntaxNode, output: str) -> Meaning:
        """What ``value`` stands for; its parts are called as what they are assigned to."""
        if isinstance(target, Name):
            return self.meaning(value, self.wish(target.name, output))
        alike = isinstance(target, Items) and isinstance(value, Items) and len(target.items) == len(value.items)
        if not isinstance(target, Items) or not isinstance(value, Items) or not alike:
            return self.meaning(value)
        if any(isinstance(part, Star) for part in (*target.items, *value.items)):
            return self.meaning(value)
        return tuple(self.wished(*pair, output) for pair in zip(target.items, value.items, strict=True))

    def assign(self, target: SyntaxNode, value: Meaning, span: Span, output: str) -> None:
        """What ``target`` stands for from here on."""
        if isinstance(target, Name):
            self.environment[target.name] = value
        elif isinstance(target, Items):
            stars = [n for n, part in enumerate(target.items) if isinstance(part, Star)]
            names = [t.name if isinstance(t, Name) else None for t in target.items]
            unread = [None if n is None or n in self.read else n for n in names]
            wishes = [self.wish(name, output) for name in names]
            parts = self.entries.unpacked(value, wishes, unread, stars, span)
            for part, found in zip(target.items, parts, strict=True):
                self.assign(part.value if isinstance(part, Star) else part, found, span, output)

    def augmented(self, statement: PythonStatement) -> Meaning:
        """``h += 1`` as ``h + 1``: torch writes over h, which is the same where h is its own tensor, or a number."""
        (target,) = statement.targets
        if not isinstance(target, Name):
            raise NotationError(f"{statement.sign}= needs one name on its left", span=target.span, hints=("h += 1",))
        owner = self.meaning(target)
        found = self.meaning(Binary(statement.sign, target, statement.value, span=statement.span), target.name)
        if not isinstance(owner, Ref):
            return found
        alike = isinstance(found, Ref) and found.kind is owner.kind and found.complex is owner.complex
        if target.name not in self.own or not alike:
            raise NotationError(OVERWRITES.format(f"{statement.sign}="), span=statement.span, hints=("h = h + 1", RUN))
        if not unify_shapes(self.builder.sizes, found.shape, owner.shape):
            raise ShapeError(f"what {statement.sign}= writes has another shape than {target.name}", span=statement.span)
        return found

    def shown(self, last: PythonStatement) -> Meaning:
        """The output of a text that ends in ``h += 1`` or ``p = q = x``: the first of what is assigned."""
        node = last.targets[0]
        if not isinstance(node, Name):
            told = "the last line assigns several names, and only one can be the output"
            raise NotationError(told, span=last.span, hints=("end with a line that names it",))
        return self.environment[node.name]

    def read_seed(self, node: SyntaxNode) -> tuple[Own, LiteralTensor] | None:
        """Numbers that the text makes, alone or under a name; a name that it does not know says nothing."""
        if any(name.name not in self.environment for name in iterate_tensor_names(node)):
            return None if isinstance(node, Name) else refuse_seed(node)
        made, builder = self.maker(node) if isinstance(node, PythonCall) else None, self.builder
        if made is not None:
            return Own(quote_span(self.text, node.span), len(builder.made) if made.drawn else None), made
        found = self.meaning(node)
        if not isinstance(found, Ref):
            return refuse_seed(node)
        if found.name in builder.made:
            return builder.made[found.name]
        step = builder.step_of(found.name)
        entry = None if step is None else entry_of(step.op)
        number = None if entry is None else constant_result(entry)
        if step is None or number is None:
            return refuse_seed(node)
        if not any(found.name in other.tensors for other in builder.steps):
            builder.steps.remove(step)
        return Own(quote_span(self.text, node.span)), LiteralTensor(found.shape, constant_fill(number))


def refuse_seed(node: SyntaxNode) -> NoReturn:
    """Refuse what is no tensor of numbers."""
    hints = ("its numbers: torch.ones(2, 3), torch.tensor([1, 2])", "leave it out, and give v as the seed")
    raise NotationError("the argument of backward has to be a tensor of numbers here", span=node.span, hints=hints)
