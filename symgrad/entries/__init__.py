"""What an entry of the table is made with: one line of text, and everything that follows from it.

Comes in: how an operation is called, its equation, a sentence, and the few facts that neither says. Goes out: an `Op`
in the `TABLE`, with its shape rule, options, forward, examples and torch's call. The rows themselves are `symgrad.ops`.
"""
