"""Objects that stay up to date by themselves: a watched history, and its display."""
