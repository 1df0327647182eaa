"""A call that is several entries of the table, or gives several results: its arguments bound, its last step found."""

from __future__ import annotations

from symgrad.errors import NotationError, ShapeError, Span, UnsupportedError
from symgrad.language.builder import Caller
from symgrad.language.calls import Parts, Ref
from symgrad.language.complexes import HINT, is_complex
from symgrad.ops.compounds import Compound, Last


def last_step(compound: Compound, parts: Parts, place: int, caller: Caller, span: Span, known: bool) -> Last | None:
    """The last step of one of the call's results; None where the table's own entry of that name is meant.

    ``known`` says whether there is such an entry: then arguments that do not fit the compound are its business.
    """
    spelled = parts.spelled.removeprefix("Tensor.")
    if compound.fields and place >= len(compound.fields):
        raise ShapeError(f"{spelled} gives {len(compound.fields)} tensors", span=span)
    positional = [a.meaning for a in parts.arguments if a.keyword is None]
    keywords = {a.keyword: a.meaning for a in parts.arguments if a.keyword is not None}
    problem = "" if positional and isinstance(positional[0], (Ref, tuple)) else "begins with a tensor"
    try:
        compound.signature.bind(*positional, **keywords)
    except TypeError as error:
        problem = problem or str(error)
    if problem and not known:
        raise NotationError(f"{spelled}: {problem}", span=span, hints=(f"{spelled}{compound.signature}",))
    if any(is_complex(meaning) for meaning in positional):
        raise UnsupportedError(f"{spelled} of complex tensors is not supported yet", span=span, hints=(HINT,))
    return None if problem else compound.steps(caller, place, *positional, **keywords)
