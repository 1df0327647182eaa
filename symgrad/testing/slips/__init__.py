"""Which mistake it is: each computed, and named only where it gives what came."""
