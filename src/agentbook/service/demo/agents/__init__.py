"""The agents of the demo data: they answer without a network."""
