"""Formulas rewritten towards what people write: named rules, each with its theorem, and no text yet."""
