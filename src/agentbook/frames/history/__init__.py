"""The history of an account: load it, look at it, report on it."""

from .history import History
from .load import load_history

__all__ = ["History", "load_history"]
