"""symgrad shows what ``out.backward(v)`` computes: vᵀJ, derived with SymPy and proven against torch.

>>> import symgrad
>>> symgrad.explain("x@a", seed=[[1, 2, 3, 4], [5, 6, 7, 8]], check=False).gradients["x"].closed_form
'v @ a.T'
"""

from symgrad.api import derive, explain, jacobian, vjp
from symgrad.errors import (
    DomainError,
    InputError,
    NotationError,
    ShapeError,
    SymgradError,
    UndefinedError,
    UnknownNameError,
    UnsupportedError,
)
from symgrad.explanation import Entry, Explanation, Gradient, Hessian, Jacobian, Structure
from symgrad.higher import hessian, hvp, jvp
from symgrad.oracles import Check
from symgrad.tracing import Program, capture

__version__ = "0.1.0"

__all__ = [
    "Check",
    "DomainError",
    "Entry",
    "Explanation",
    "Gradient",
    "Hessian",
    "InputError",
    "Jacobian",
    "NotationError",
    "Program",
    "ShapeError",
    "Structure",
    "SymgradError",
    "UndefinedError",
    "UnknownNameError",
    "UnsupportedError",
    "__version__",
    "capture",
    "derive",
    "explain",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "vjp",
]
