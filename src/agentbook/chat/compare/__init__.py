"""One message to several agents, side by side, and which answer was the better one."""
