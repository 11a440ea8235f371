"""Pure functions of frames: turns, activity, timing, failures, periods, credentials."""
