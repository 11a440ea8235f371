"""One message to several agents, their answers side by side, and a preference."""
