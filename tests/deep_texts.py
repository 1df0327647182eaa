"""Texts of many layers, one within another."""

from __future__ import annotations


def deep(layers: int) -> str:
    """That many layers."""
    return "; ".join(["h0 = x", *(f"h{n + 1} = tanh(h{n} @ w{n} + 1)" for n in range(layers)), f"h{layers}"])


DOUBLED = "; ".join(["h1 = x * x", *(f"h{n + 1} = h{n} * h{n} + 1" for n in range(1, 40)), "h40"])
"""Written out, its text would double at every step."""
