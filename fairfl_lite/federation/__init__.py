"""The clients of every run, and what a method may ask of them."""

from fairfl_lite.data.shards import Shards, standardisation
from fairfl_lite.federation.core import Federation, History, Method, State, plain_sum

__all__ = ["Federation", "History", "Method", "Shards", "State", "plain_sum", "standardisation"]
