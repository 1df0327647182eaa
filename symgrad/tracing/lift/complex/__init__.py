"""Calls on complex tensors, lifted on pairs."""
