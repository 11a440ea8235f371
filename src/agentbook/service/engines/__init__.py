"""The interface of agents' engines, run limits, and the LLM engine."""
