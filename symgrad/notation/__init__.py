"""The one notation of index equations: text ↔ tree, read and written by functions that undo each other.

``out[i,k] = Σ_j x[i,j]·a[j,k]`` in letters of mathematics or in plain ones (``sum_j``, ``*``, ``<=``). The tree is the
pivot: what it means as a SymPy expression is `symgrad.notation.meaning`, how far its letters run
`symgrad.notation.ranges`. Text of users is read with a whitelist of words and signs, never evaluated.
"""
