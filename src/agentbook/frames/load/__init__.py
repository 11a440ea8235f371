"""Loading lists: parallel pages, id ranges, resume, progress."""
