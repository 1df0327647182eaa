"""What is right, for which seeds, how closely, and what a right backward computes on its way."""
