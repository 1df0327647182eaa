"""Operations that are defined by an equation which their result solves."""
