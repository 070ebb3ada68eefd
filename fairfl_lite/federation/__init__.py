"""The clients of every run, and what a method may ask of them.

core : the federation. one : what a method sees of it. lockstep : many runs at once. state : what a method is and what it
carries. history : what happened. kept : a run that stops and goes on. secagg : sums that the server learns without the summands.
"""

from fairfl_lite.data.shards import Examples, Pixels, Shards, Standard
from fairfl_lite.federation.core import Federation, plain_sum
from fairfl_lite.federation.history import Histories, History
from fairfl_lite.federation.lockstep import alone, run_together
from fairfl_lite.federation.one import OneFederation
from fairfl_lite.federation.state import Answer, ByGroup, Method, Models, State

__all__ = [
    "Answer",
    "ByGroup",
    "Examples",
    "Federation",
    "Histories",
    "History",
    "Method",
    "Models",
    "OneFederation",
    "Pixels",
    "Shards",
    "Standard",
    "State",
    "alone",
    "plain_sum",
    "run_together",
]
