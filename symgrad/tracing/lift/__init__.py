"""From what was seen to a program: each recorded call in entries of the table, or a black box."""
