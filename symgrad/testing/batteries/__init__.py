"""What is tried on a candidate, a file for each battery."""
