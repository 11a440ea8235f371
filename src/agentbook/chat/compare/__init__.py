"""One message to several agents, their replies side by side, and a preference."""
