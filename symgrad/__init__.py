"""symgrad shows what ``out.backward(v)`` computes: vᵀJ, derived with SymPy and proven against torch.

>>> import symgrad
>>> symgrad.explain("x@a", seed=[[1, 2, 3, 4], [5, 6, 7, 8]], check=False).gradients["x"].closed_form
'v @ a.T'
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

WHERE = {
    "symgrad.api": ("derive", "explain", "hessian", "hvp", "jacobian", "jvp", "vjp"),
    "symgrad.errors": (
        "DomainError", "InputError", "NotationError", "ShapeError", "SymgradError", "UndefinedError",
        "UnknownNameError", "UnsupportedError",
    ),
    "symgrad.exercises": ("Exercise", "exercise"),
    "symgrad.explanation": ("Entry", "Explanation", "Gradient", "Hessian", "Jacobian", "Structure"),
    "symgrad.exporting": ("export",),
    "symgrad.ops": ("operations",),
    "symgrad.oracles.comparisons": ("Check",),
    "symgrad.oracles.forms": ("dropped_forms",),
    "symgrad.tracing": ("Capture", "capture", "load_ipython_extension"),
}  # fmt: skip
"""The module that each name comes from; it is loaded when the name is first asked for, so that `--help` is at once."""

__all__ = [
    "Capture",
    "Check",
    "DomainError",
    "Entry",
    "Exercise",
    "Explanation",
    "Gradient",
    "Hessian",
    "InputError",
    "Jacobian",
    "NotationError",
    "ShapeError",
    "Structure",
    "SymgradError",
    "UndefinedError",
    "UnknownNameError",
    "UnsupportedError",
    "__version__",
    "capture",
    "derive",
    "dropped_forms",
    "exercise",
    "explain",
    "export",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "load_ipython_extension",
    "operations",
    "vjp",
]

if TYPE_CHECKING:
    from symgrad.api import derive, explain, hessian, hvp, jacobian, jvp, vjp
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
    from symgrad.exercises import Exercise, exercise
    from symgrad.explanation import Entry, Explanation, Gradient, Hessian, Jacobian, Structure
    from symgrad.exporting import export
    from symgrad.ops import operations
    from symgrad.oracles.comparisons import Check
    from symgrad.oracles.forms import dropped_forms
    from symgrad.tracing import Capture, capture, load_ipython_extension
else:
    # Not seen by type checkers: to them a module with __getattr__ has every name there is.
    def __getattr__(name):
        """The public name ``name``, from its module (PEP 562)."""
        for module, names in WHERE.items():
            if name in names:
                found = globals()[name] = getattr(import_module(module), name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        """What a prompt offers."""
        return sorted(__all__)
