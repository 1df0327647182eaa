"""The explanation of an expression as frozen data, and the one function that builds it."""

from symgrad.explanation.assemble import build, slope_form
from symgrad.explanation.claims import Structure
from symgrad.explanation.data import Explanation, Gradient
from symgrad.explanation.entries import Entry
from symgrad.explanation.formulas import derive_only
from symgrad.explanation.given import Given, Seed, Writers
from symgrad.explanation.jacobian import Hessian, Jacobian, jacobian_of
from symgrad.explanation.kinks import EdgeRule, Kink, edges_of, kink_of
from symgrad.explanation.nothing import Nothing, nothing
from symgrad.explanation.plan import JacobianPlan
from symgrad.explanation.second import of_one_number, with_hessians
from symgrad.explanation.singular import Singular
from symgrad.explanation.tie import Tie

__all__ = [
    "EdgeRule",
    "Entry",
    "Explanation",
    "Given",
    "Gradient",
    "Hessian",
    "Jacobian",
    "JacobianPlan",
    "Kink",
    "Nothing",
    "Seed",
    "Singular",
    "Structure",
    "Tie",
    "Writers",
    "build",
    "derive_only",
    "edges_of",
    "jacobian_of",
    "kink_of",
    "nothing",
    "of_one_number",
    "slope_form",
    "with_hessians",
]
