"""Independent answers: torch, element-by-element SymPy, the adjoint identity, finite differences, closed forms.

None of them shares code with the derivation: torch runs its own autograd, SymPy differentiates explicit
scalar entries, the identity needs no derivative, differences need only the forward pass.
"""
