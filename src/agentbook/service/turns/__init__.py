"""Running a turn: the runner, budgets, live delivery."""
