"""Operations that move entries about."""
