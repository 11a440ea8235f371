"""One module per noun of the specification: functions that return a `Call`."""
