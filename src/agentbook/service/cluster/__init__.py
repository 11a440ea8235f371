"""Many processes on one PostgreSQL: what they tell each other, and who does what.

On SQLite there is only one process, and this package does nothing.
"""
