"""The `scribe` agent: does what its system prompt says, by rules, so that prompts can be tried out without a language model."""

from .agent import Scribe

__all__ = ["Scribe"]
