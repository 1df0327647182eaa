"""Independent answers: torch, element-by-element SymPy, the adjoint identity, finite differences, closed forms.

None of them shares code with the derivation: torch runs its own autograd, SymPy differentiates explicit
scalar entries, the identity needs no derivative, differences need only the forward pass.
"""

from symgrad.oracles.comparisons import Check
from symgrad.oracles.forms import check_form, dropped_forms
from symgrad.oracles.torch import run_torch, torch_version
from symgrad.oracles.typed_text import Text, ask_torch, check_reading

__all__ = [
    "Check",
    "Text",
    "ask_torch",
    "check_form",
    "check_reading",
    "dropped_forms",
    "run_torch",
    "torch_version",
]
