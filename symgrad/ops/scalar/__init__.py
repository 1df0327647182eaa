"""Operations on each entry by itself."""
