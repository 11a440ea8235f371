"""Turns: running them, charging them to budgets, delivering their events live."""
