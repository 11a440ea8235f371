"""Loading lists: pages at the same time, id ranges, resume, progress."""
