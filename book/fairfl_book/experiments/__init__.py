"""The papers' tables and figures as runs: what has to be measured for each, at which scale.

An experiment is a list of cells; a cell is a dictionary of settings and is measured by itself. Finished cells are
kept, so a run that was stopped goes on where it was and ends with the same result. `catalogue` has those of all papers.
"""
