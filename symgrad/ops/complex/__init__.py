"""Complex numbers as pairs."""
