"""Lines of a program as people paste them: what they say beside the expression is taken from them.

Comes in: the statements of a text. Goes out: the statements that compute the output, the names that are to have a
gradient (``requires_grad=True``), and what ``out.backward(v)`` was given. ``print`` and what reads
``x.grad`` say nothing that has to be computed; a call that writes over a tensor does, also where nobody reads it.

Modules without parameters become the functions that they are: ``nn.ReLU()(x)`` is ``F.relu(x)``, ``loss = nn.MSELoss();
loss(p, y)`` is ``F.mse_loss(p, y)``. What a module is told when it is made stands behind the tensors of the call, as in
torch's functions. One with parameters stays as it is: they would have a gradient that nobody sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from symgrad.errors import RUN, NotationError, SourceText
from symgrad.language.parser import OVERWRITES, parse_script
from symgrad.language.syntax_tree import (
    Attribute,
    Literal,
    PythonCall,
    PythonStatement,
    Script,
    dotted_name,
)
from symgrad.notation.tree import Binary, Name, SyntaxNode, rebuild_node, walk
from symgrad.ops import COMPOUNDS, SPELLINGS
from symgrad.ops.calls.registry import find_compound
from symgrad.ops.lookup import find, has_role, role_entry
from symgrad.program import Role

SHORT = {"BCE": "BinaryCrossEntropy"}
"""What the name of a module is short for."""
DRAWN = ("RReLU", "Dropout")
"""What modules are called that draw random numbers as they are made: their function is told otherwise."""
HELD = frozenset(("weight", "bias", "linear_weight", "linear_bias"))
"""Operands that a module holds itself, unless it is a loss: there they are given."""


def replace_modules(statements: Iterable[PythonStatement]) -> list[PythonStatement]:
    """``statements`` without those that only make a module, which is called later."""
    made: dict[str, PythonCall] = {}
    found: list[PythonStatement] = []
    for statement in statements:
        value = statement.value
        if statement.target is not None and isinstance(value, PythonCall) and module_call_function(value) is not None:
            made[statement.target] = value
            continue
        for name in statement.names:
            made.pop(name, None)
        changed = replace_module_calls(value, made)
        found.append(statement if changed is value else replace(statement, value=changed))
    return found


def normalize_function_name(name: str) -> str:
    """``MSELoss`` and ``mse_loss`` as one word."""
    return name.replace("_", "").lower()


def find_module_functions(module: str) -> list[str]:
    """torch's functions that a module called so may be: ``F.mse_loss`` for ``MSELoss``, and ``F.cross_entropy``."""
    if module == "Identity":
        return [role_entry(Role.HANDS_ON).name]  # torch has no function for it
    long = next((module.replace(short, whole) for short, whole in SHORT.items() if module.startswith(short)), module)
    meant = (normalize_function_name(long), normalize_function_name(long.removesuffix("Loss")))
    known = sorted(word for word in (*SPELLINGS, *COMPOUNDS) if word.startswith("F."))
    return [word for word in known if normalize_function_name(word.removeprefix("F.")) in meant]


def parameterless_function(module: str) -> str | None:
    """The function that a module without parameters is; None for any other."""
    spelled = next(iter(find_module_functions(module)), None)
    entry = None if spelled is None else find(spelled) or find_compound(spelled)
    named = [] if entry is None else [p for p in entry.signature.parameters.values() if p.name in HELD]
    held = any(p.default is p.empty or not module.endswith("Loss") for p in named)
    return None if held or any(word in module for word in DRAWN) else spelled


def module_call_function(call: PythonCall) -> str | None:
    """``F.mse_loss`` for ``nn.MSELoss()``."""
    path, _, name = (dotted_name(call.function) or "").rpartition(".")
    return parameterless_function(name) if path in ("nn", "torch.nn") else None


def replace_module_calls(node: SyntaxNode, made: Mapping[str, PythonCall]) -> SyntaxNode:
    """``node`` with the functions of modules in the place of their calls."""
    return rebuild_node(node, lambda found: replace_module_call(found, made), deep=True)


def replace_module_call(found: SyntaxNode, made: Mapping[str, PythonCall]) -> SyntaxNode:
    """A call of a module as one of its function; anything else as it is."""
    if not isinstance(found, PythonCall):
        return found
    module = made.get(found.function.name) if isinstance(found.function, Name) else found.function
    spelled = module_call_function(module) if isinstance(module, PythonCall) else None
    if spelled is None or not isinstance(module, PythonCall):
        return found
    if has_role(spelled, Role.HANDS_ON):  # which gives back the very tensor
        return found.positional[0] if len(found.positional) == 1 and not found.keywords else found
    module_, _, word = spelled.rpartition(".")
    function = Attribute(Name(module_, span=found.function.span), word, span=found.function.span)
    positional = (*found.positional, *(replace_module_calls(p, made) for p in module.positional))
    return replace(found, function=function, positional=positional, keywords=(*found.keywords, *module.keywords))


PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.:?(?= |$)|In \[\d+\]:)[ ]?")
"""What a console puts before what was typed."""
SAYS = ("print", "torch.manual_seed")
"""Calls that stand for themselves and compute nothing here: random numbers have a seed of their own."""
MARKED = re.compile(r"(\.requires_grad)[ \t]*=[ \t]*True\b")
PARAMETERS = ("nn.Parameter", "torch.nn.Parameter")
HANDED_ON = ("Variable", "autograd.Variable", "torch.autograd.Variable")
"""What torch's tensors were wrapped in: the tensor itself."""
OPTIMIZERS, OF_OPTIMIZERS = ("optim.", "torch.optim."), ("zero_grad", "step")
ASKS, MARKS, FLAG = "backward", "requires_grad_", "requires_grad"
WRITTEN = ("copy", "zero", "fill")
"""Methods that are there to write."""
INPLACE = "inplace"
"""An option that says where the result is written, and not what it is."""


@lru_cache(maxsize=256)
def parse_pasted_script(source: SourceText) -> Script:
    """The statements of ``source`` that compute, and what the others say of them; raises `NotationError`.

    >>> script = parse_pasted_script(SourceText("x = torch.ones(3, requires_grad=True); out = x*2; out.backward(v)"))
    >>> len(script.statements), script.leaves, script.seed.name
    (2, frozenset({'x'}), 'v')
    """
    entered = strip_console_prompts(source.text)
    text = MARKED.sub(lambda match: f"{match[1]}_()".ljust(len(match.group())), entered)
    script = parse_script(SourceText(text) if text.strip() else source)
    calls = [(n, call) for n, s in enumerate(script.statements) if (call := backward_call(s)) is not None]
    if len(calls) > 1:
        raise NotationError("there are two calls of backward here", span=calls[1][1].span, hints=("one of them", RUN))
    end = calls[0][0] if calls else len(script.statements)
    for statement in script.statements[end + 1 :]:
        if not (computes_nothing(statement) or is_gradient_read(statement)):
            raise NotationError("lines after backward() are not read", span=statement.span, hints=("leave it out", RUN))
    kept: list[PythonStatement] = []
    leaves: set[str] = set()
    before = [
        replace(s, value=rebuild_node(s.value, read_inplace_option, deep=True))
        for s in replace_modules(script.statements[:end])
    ]
    if entered != source.text:  # a console shows what is not assigned
        output = None if calls else before[-1]
        before = [s for s in before if s.names or s is output]
    for statement in before:
        leaf, value = read_marks(statement)
        leaves.update({leaf} if leaf else ())
        if value is not None and (leaf or not computes_nothing(statement)):
            kept.append(replace(statement, value=value))
    if not calls and len(kept) == len(script.statements) and not leaves and entered == source.text:
        return Script(source, tuple(kept))
    backward = calls[0][1] if calls else None
    kept, seed, asked = (kept, None, "") if backward is None else find_backward_output(kept, backward)
    if not kept:
        raise NotationError("there is no expression", span=(0, len(source.text)), hints=('"x@a"',))
    return Script(SourceText(blank_out_rest(entered, kept)), tuple(kept), frozenset(leaves), seed, asked)


def strip_console_prompts(text: str) -> str:
    """What was typed into a console, without its prompts and what it answered; another text as it is."""
    lines = text.split("\n")
    prompts = [PROMPT.match(line) for line in lines]
    if prompts[0] is None:
        return text
    found = (" " * p.end() + line[p.end() :] if p else " " * len(line) for p, line in zip(prompts, lines, strict=True))
    return "\n".join(found)


def find_backward_output(
    kept: Sequence[PythonStatement], call: PythonCall
) -> tuple[list[PythonStatement], SyntaxNode | None, str]:
    """What leads to the tensor whose backward is called, that tensor last; what v is; and what the tensor is called."""
    owner, seed, found = call.function.parts[0], seed_argument(call), list(kept)
    if isinstance(seed, Name):
        places = [n for n, s in enumerate(found) if seed.name in s.names]
        read = {part.name for s in found for node in s.read for part in walk(node) if isinstance(part, Name)}
        if len(places) == 1 and found[places[0]].target and seed.name not in read:
            seed = found.pop(places[0]).value
    name = owner.name if isinstance(owner, Name) else ""
    while name and found and found[-1].target not in (None, name):
        found.pop()
    if name and found and name == found[-1].target:
        return found, seed, name
    return [*found, PythonStatement(None, owner, span=owner.span)], seed, name


def blank_out_rest(text: str, kept: Sequence[PythonStatement]) -> str:
    """``text`` with blanks for what is not ``kept``: every place in it stays where it is."""
    found, end = "", 0
    for start, stop in (statement.span for statement in kept):
        gap = start - end
        found += (";" + " " * (gap - 1) if end else " " * gap) + text[start:stop]
        end = stop
    return found


def backward_call(statement: PythonStatement) -> PythonCall | None:
    """``out.backward(v)``, which stands for itself."""
    call = statement.value
    if not statement.names and isinstance(call, PythonCall) and isinstance(call.function, Attribute):
        return call if call.function.name == ASKS else None
    return None


def seed_argument(call: PythonCall) -> SyntaxNode | None:
    """What v is: backward's first argument, or the one called gradient; None where it is left out, or is None."""
    found = next(iter((*call.positional, *(k.value for k in call.keywords if k.name == "gradient"))), None)
    return None if found == Literal(None) else found


def computes_nothing(statement: PythonStatement) -> bool:
    """Whether a statement computes nothing here: ``print(x.grad)``, an optimizer, ``optimizer.step()``."""
    if not isinstance(statement.value, PythonCall):
        return False
    function = statement.value.function
    if (dotted_name(function) or "").startswith(OPTIMIZERS):
        return True
    steps = isinstance(function, Attribute) and function.name in OF_OPTIMIZERS
    return not statement.names and (steps or dotted_name(function) in SAYS)


def is_gradient_read(statement: PythonStatement) -> bool:
    """``x.grad`` alone."""
    parts = walk(statement.value)
    return not statement.names and any(isinstance(part, Attribute) and part.name == "grad" for part in parts)


def read_marks(statement: PythonStatement) -> tuple[str | None, SyntaxNode | None]:
    """The name that is to have a gradient, if any, and what is assigned then: u, of ``t = Variable(u)``."""
    value, target = statement.value, statement.target
    if not isinstance(value, PythonCall):
        return None, value
    if isinstance(value.function, Attribute) and value.function.name == MARKS:
        owner = value.function.owner
        if target is None and isinstance(owner, Name) and not statement.targets:
            return owner.name, None
        return target, value if target is None else owner
    called, first = dotted_name(value.function), value.positional[:1]
    kept = tuple(k for k in value.keywords if not (k.name == FLAG and k.value == Literal(True)))
    if target is not None and ((called in PARAMETERS and first) or kept != value.keywords):
        return target, first[0] if first and called in (*PARAMETERS, *HANDED_ON) else replace(value, keywords=kept)
    return None, first[0] if first and called in HANDED_ON else value


def read_inplace_option(node: SyntaxNode) -> SyntaxNode:
    """``node`` without ``inplace=False``; refused is a call that overwrites a tensor that has a name."""
    if not isinstance(node, PythonCall):
        return node
    told = [k for k in node.keywords if k.name == INPLACE]
    word = out_of_place_name(node.function)
    own = any(isinstance(part, Binary) for part in node.positional[:1])
    if word or (any(k.value != Literal(False) for k in told) and not own):
        hint = f"h = h.{word}(…)" if word else f"leave {INPLACE} out"
        raise NotationError(OVERWRITES.format("this call"), span=node.span, hints=(hint, RUN))
    return replace(node, keywords=tuple(k for k in node.keywords if k not in told)) if told else node


def out_of_place_name(function: SyntaxNode) -> str:
    """``scatter_add`` for ``scatter_add_``, where there is such a method; nothing for any other."""
    name = function.name if isinstance(function, Attribute) else ""
    word = name.removesuffix("_")
    if word == name or name.endswith("__"):
        return ""
    return word if word in WRITTEN or f"Tensor.{word}" in SPELLINGS or f"Tensor.{word}" in COMPOUNDS else ""
