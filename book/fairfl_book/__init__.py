"""What makes the book: cards, experiments, results, ledger, notebooks, site. The library `fairfl_lite` knows nothing of it."""

from pathlib import Path

from fairfl_lite import imports

__version__ = "0.1.0"

imports.also("fairfl_book", Path(__file__).parent)
imports.also("papers", Path(__file__).parent.parent / "papers")
