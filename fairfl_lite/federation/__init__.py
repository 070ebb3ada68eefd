"""The clients of every run, and what a method may ask of them.

core : the federation. state : what a method is and what it carries. history : what happened. kept : a run that stops and goes
on. secagg : sums that the server learns without the summands.
"""

from fairfl_lite.data.shards import Examples, Pixels, Shards, Standard
from fairfl_lite.federation.core import Federation, deal, gather, plain_sum, scatter
from fairfl_lite.federation.history import History
from fairfl_lite.federation.state import Answer, Method, Models, State

__all__ = [
    "Answer",
    "Examples",
    "Federation",
    "History",
    "Method",
    "Models",
    "Pixels",
    "Shards",
    "Standard",
    "State",
    "deal",
    "gather",
    "plain_sum",
    "scatter",
]
