"""The story of a script, as data and in words."""
