"""What a client does: how it trains, what it does to its own rows before, and what a malicious one sends."""

from fairfl_lite.clients.attacks import Attack
from fairfl_lite.clients.debias import Debias
from fairfl_lite.clients.training import ClientTraining

__all__ = ["Attack", "Debias", "ClientTraining"]
