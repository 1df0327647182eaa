"""From a rewritten formula to torch's syntax, a file for each kind of thing that has a name."""
