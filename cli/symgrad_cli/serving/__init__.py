"""A page to play with: what is typed is explained as it is typed, by a worker whose time and memory are bounded."""
