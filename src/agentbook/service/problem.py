"""What goes wrong for the person who runs the service, as one line that says what to do."""

from __future__ import annotations


class Problem(Exception):
    """The service cannot do what its operator asked. The message is one line and names the remedy."""
