"""Exercises: the closed form is hidden, and a student's line is held against the formula."""

from symgrad.exercises.lines import Verdict
from symgrad.exercises.paged import Exercise, exercise
from symgrad.exercises.travel import asked

__all__ = ["Exercise", "Verdict", "asked", "exercise"]
