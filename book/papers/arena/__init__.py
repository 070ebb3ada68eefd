"""The arena: one question put to every method, on the same federations and under one protocol. It is no paper and has no card."""
