"""Files of evaluations: promptfoo's format, and the lab's own."""
