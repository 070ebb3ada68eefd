"""What `make check` leaves out: tests that run notebooks, build the book, train, or try very many cases."""

SLOW = (
    "book/",
    "notebooks/test_gates.py",
    "notebooks/test_references.py",
    "notebooks/test_runner.py",
    "test_cli.py::test_a_failure_ends_with_1_and_a_traceback",
    "test_cli.py::test_references_are_kept_and_then_compared",
    "test_cli.py::test_run_why_and_run_again",
    "test_engine.py",
    "test_experiments.py",
    "test_fair_fate.py",
    "test_fair_fate_paper.py",
    "test_fair_fate_readings.py",
    "test_fair_fate_toy.py",
    "test_fairfed.py",
    "test_federation.py",
    "test_interface.py",
    "test_metrics.py::test_against_fairlearn_and_scikit_learn",
    "test_rankff_continuous.py",
    "test_rankff_paper.py",
    "test_replay.py",
    "theory/test_theory_distances.py",
    "theory/test_theory_experiments.py",
    "theory/test_theory_profiles.py",
    "theory/test_theory_volume.py",
)
"""Folders, files and tests under tests/, by how their ids begin; measured by `pytest --durations=20`."""
