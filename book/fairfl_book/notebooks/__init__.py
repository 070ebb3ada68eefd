"""Notebooks as programs: their parameters, their runs, what they show, exercises and lessons."""
