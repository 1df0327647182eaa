"""What a script did, as data and in words."""
