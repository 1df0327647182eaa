"""Operations that add up, run along or choose among the entries of an axis."""
