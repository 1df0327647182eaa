"""The record of a run: calls and values, and the user's names for them."""
