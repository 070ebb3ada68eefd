"""Fair federated learning, method by method: the package behind the book."""

__version__ = "0.1.0"
