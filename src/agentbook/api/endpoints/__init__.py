"""One module per resource of the specification: functions that return a `Call`."""
