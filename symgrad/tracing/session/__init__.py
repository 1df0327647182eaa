"""A script that is watched: each call of ``backward``, as an event."""
