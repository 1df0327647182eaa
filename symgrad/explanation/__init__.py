"""The explanation of an expression as frozen data, and the one function that builds it."""

from symgrad.explanation.assemble import build, of_one_number, slope_form, with_hessians
from symgrad.explanation.claims import Structure
from symgrad.explanation.data import Explanation, Gradient
from symgrad.explanation.formulas import Entry, derive_only
from symgrad.explanation.given import Given, Seed, Writers
from symgrad.explanation.jacobian import Hessian, Jacobian, jacobian_of
from symgrad.explanation.jacobian_plan import JacobianPlan
from symgrad.explanation.kinks import Kink, Tie, edges_of, kink_of

__all__ = [
    "Entry",
    "Explanation",
    "Given",
    "Gradient",
    "Hessian",
    "Jacobian",
    "JacobianPlan",
    "Kink",
    "Seed",
    "Structure",
    "Tie",
    "Writers",
    "build",
    "derive_only",
    "edges_of",
    "jacobian_of",
    "kink_of",
    "of_one_number",
    "slope_form",
    "with_hessians",
]
