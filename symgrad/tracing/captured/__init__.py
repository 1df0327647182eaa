"""The captured program, as users hold it."""
