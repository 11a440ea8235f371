"""The prompt lab: variants of an agent's configuration, asked the same inputs; the bench without widgets, and widgets over it."""
