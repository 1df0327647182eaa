"""Independent answers: torch, element-by-element SymPy, the adjoint identity, finite differences, closed forms.

None of them shares code with the derivation: torch runs its own autograd, SymPy differentiates explicit
scalar entries, the identity needs no derivative, differences need only the forward pass.
"""

from symgrad.oracles.digits import out_of_range, real_output, rounds
from symgrad.oracles.elementwise import Elementwise
from symgrad.oracles.forms import Dropped, check_form, dropped_forms
from symgrad.oracles.numerical import check_adjoint, check_differences
from symgrad.oracles.report import Check, compare, compare_mathematics, skipped
from symgrad.oracles.second import second_checks
from symgrad.oracles.text import Text, ask_torch, check_reading, values_apart
from symgrad.oracles.torch import TorchRun, run_torch, torch_version

__all__ = [
    "Check",
    "Dropped",
    "Elementwise",
    "Text",
    "TorchRun",
    "ask_torch",
    "check_adjoint",
    "check_differences",
    "check_form",
    "check_reading",
    "compare",
    "compare_mathematics",
    "dropped_forms",
    "out_of_range",
    "real_output",
    "rounds",
    "run_torch",
    "second_checks",
    "skipped",
    "torch_version",
    "values_apart",
]
