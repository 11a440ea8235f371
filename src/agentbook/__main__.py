"""``python -m agentbook`` is the `agentbook` command."""

from .cli import main

main(prog_name="agentbook")
