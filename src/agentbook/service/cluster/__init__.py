"""Many processes on one PostgreSQL: what they tell each other, and who does what.

On SQLite there is one process, and nothing here does anything.
"""
