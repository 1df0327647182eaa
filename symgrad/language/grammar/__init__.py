"""Text → syntax tree: what is written, before anything is known about the names in it."""
