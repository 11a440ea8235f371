"""What stays up to date by itself: a history that is watched, and its display."""
