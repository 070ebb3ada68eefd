"""What a client does: how it trains, and what it does to its own rows before."""

from fairfl_lite.clients.debias import Debias
from fairfl_lite.clients.local import Local

__all__ = ["Debias", "Local"]
