"""Exercises: the closed form is hidden, and a student's line is held against the formula."""

from symgrad.exercises.lines import Verdict
from symgrad.exercises.travel import Exercise, asked, exercise

__all__ = ["Exercise", "Verdict", "asked", "exercise"]
