"""Torch calls that are several entries of the table, one family a file."""
