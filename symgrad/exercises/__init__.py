"""Exercises: the closed form is hidden, and a student's line is held against the formula."""

from symgrad.exercises.lines import Exercise, Verdict, exercise
from symgrad.exercises.travel import asked

__all__ = ["Exercise", "Verdict", "asked", "exercise"]
