"""Texts of the small things, numbers, sizes, axes, steps of a program, and how tightly each binds."""
