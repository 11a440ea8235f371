"""The interface of an agent's engine, run limits, and the LLM engine."""
