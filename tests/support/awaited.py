"""Experiments whose protocol is there and whose runs are still to come."""

AWAITED = {"arena/adult"}
