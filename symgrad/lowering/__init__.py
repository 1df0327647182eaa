"""Index equations as array operations: a graph of a dozen primitives, made once, then played on arrays."""
