"""Syntax tree → steps of a program: calls bound to entries of the table, and applied."""
